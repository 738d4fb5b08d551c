#include "base/table_stats.h"

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

Entry value(Bytes key, SeqNum seq, DeleteKey stamp = kNoStamp, Millis expiry = 0) {
  Entry e;
  e.key = key;
  e.seq = seq;
  e.delete_key = stamp;
  e.expiry = expiry;
  e.value = "v";
  return e;
}
Entry tombstone(Bytes key, SeqNum seq, Millis birth) {
  Entry e = value(key, seq, birth);
  e.kind = EntryKind::kTombstone;
  e.value = {};
  return e;
}

TEST_CASE("entries are added: table stats count them") {
  TableStats s;
  s.add_entry(value("b", 5, 100, 900));
  s.add_entry(value("c", 9));
  s.add_entry(tombstone("d", 3, 70));
  s.add_range_tombstone({"a", "c", 20, 60});
  CHECK(s.entries == 3);
  CHECK(s.tombstones == 1);
  CHECK(s.range_tombstones == 1);
  CHECK(s.min_seq == 3);
  CHECK(s.max_seq == 20);
  CHECK(s.min_delete_key == 100);  // a tombstone's birth does not count as a delete key
  CHECK(s.max_delete_key == 100);
  CHECK(s.unstamped == 1);
  CHECK(s.min_expiry == 900);
  CHECK(s.oldest_obligation() == 60);
  CHECK(s.smallest == "a");
  CHECK(s.largest == "d");
  CHECK_FALSE(s.largest_exclusive);
  Bytes in;
  std::string bytes;
  s.encode(&bytes);
  in = bytes;
  auto back = TableStats::decode(&in);
  REQUIRE(back.is_ok());
  CHECK(*back == s);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    Bytes shorter = Bytes(bytes).substr(0, cut);
    CHECK_FALSE(TableStats::decode(&shorter).is_ok());
  }
}

TEST_CASE("table stats of the older format have no count of collections: decoding sets the count to 0") {
  TableStats s;
  s.add_entry(value("a", 1));
  CHECK(s.collections == 0);
  std::string before;
  s.encode(&before);
  for (const EntryKind kind : {EntryKind::kCompact, EntryKind::kHeader}) {
    Entry e = value("b", 2);
    e.kind = kind;
    s.add_entry(e);
  }
  CHECK(s.collections == 2);
  // The number of collections is the last byte. The length at the front includes this byte.
  REQUIRE(before.back() == 0);
  before.pop_back();
  --before[0];
  Bytes in = before;
  const auto old = TableStats::decode(&in);
  REQUIRE(old.is_ok());
  CHECK(in.empty());
  CHECK(old->entries == 1);
  CHECK(old->collections == 0);
}

TEST_CASE("key bounds have an exclusive end, an inclusive end, or no end: overlaps() and ends_before() respect it") {
  TableStats s;
  s.add_range_tombstone({"b", "f", 1, 1});
  CHECK(s.largest_exclusive);
  CHECK(s.ends_before("f"));
  CHECK_FALSE(s.ends_before("e"));
  CHECK_FALSE(s.overlaps({"f", ""}));
  CHECK(s.overlaps({"ezz", "f"}));
  CHECK_FALSE(s.overlaps({"a", "b"}));
  s.add_entry(value("f", 2));
  CHECK_FALSE(s.largest_exclusive);
  CHECK_FALSE(s.ends_before("f"));
  CHECK(s.ends_before("g"));
  s.add_range_tombstone({"c", "", 3, 1});
  CHECK(s.unbounded);
  CHECK_FALSE(s.ends_before("zzz"));
  CHECK(s.overlaps({"zzz", ""}));
  CHECK_FALSE(TableStats().overlaps({"", ""}));
}

TEST_CASE("sequence number of table stats exceeds the maximum: decoding fails") {
  for (const bool newest : {true, false}) {
    TableStats stats;
    Entry entry;
    entry.key = "k";
    entry.seq = 7;
    stats.add_entry(entry);
    (newest ? stats.max_seq : stats.applied_seq) = kMaxSeqNum;
    std::string bytes;
    stats.encode(&bytes);
    Bytes in = bytes;
    CHECK(TableStats::decode(&in).is_ok());
    (newest ? stats.max_seq : stats.applied_seq) = kMaxSeqNum + 1;
    bytes.clear();
    stats.encode(&bytes);
    in = bytes;
    CHECK(TableStats::decode(&in).status().code() == Code::kCorruption);
  }
}

}  // namespace TEST_FILE

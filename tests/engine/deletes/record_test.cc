#include "deletes/record.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

#include "base/random.h"

namespace ebbtide {
namespace TEST_FILE {

std::vector<Record> random_records(Random& random, std::size_t count) {
  std::vector<Record> out;
  for (std::size_t i = 0; i < count; ++i) {
    const DeleteKey lo = random.uniform(30);
    const DeleteKey hi = random.one_in(6) ? kDeleteKeyEnd : lo + 1 + random.uniform(12);
    out.push_back({lo, hi, 10 + 3 * i, 1000 + random.uniform(50)});
  }
  return out;
}

SeqNum newest_by_hand(const std::vector<Record>& all, DeleteKey d, SeqNum view) {
  SeqNum best = 0;
  for (const Record& r : all) {
    if (r.has(d) && r.seq <= view) best = std::max(best, r.seq);
  }
  return best;
}

Millis oldest_birth_by_hand(const std::vector<Record>& all, DeleteKey d, SeqNum above, SeqNum up_to) {
  Millis oldest = 0;
  for (const Record& r : all) {
    if (r.has(d) && r.seq > above && r.seq <= up_to && (oldest == 0 || r.birth < oldest)) oldest = r.birth;
  }
  return oldest;
}

TEST_CASE("delete by stamp is newer than a version in its range: readers that see the delete see the version as deleted") {
  const Record record{10, 20, 5, 1};
  CHECK(record.covers(10, 4, 5));
  CHECK(record.covers(19, 4, 9));
  CHECK_FALSE(record.covers(20, 4, 9));
  CHECK_FALSE(record.covers(9, 4, 9));
  CHECK_FALSE(record.covers(15, 5, 9));
  CHECK_FALSE(record.covers(15, 4, 4));
}

TEST_CASE("delete by stamp is printed: the text has the end of its range, or * if there is none") {
  CHECK(to_text(Record{5, 9, 7, 1000}) == "7 on stamps 5..<9, born 1000");
  CHECK(to_text(Record{0, kDeleteKeyEnd, 8, 0}) == "8 on stamps 0..*, born 0");
}

TEST_CASE("delete by stamp has no upper end: it covers every stamp, and no entry without a stamp") {
  const std::vector<Record> records{{0, kDeleteKeyEnd, 7, 1}};
  const RecordSet set(records);
  CHECK(set.covers(0, 6, 7));
  CHECK(set.covers(kMaxDeleteKey, 6, 7));
  CHECK_FALSE(set.covers(kNoStamp, 6, 7));
  RecordLog log;
  log.insert(records.front());
  CHECK(log.covers(kMaxDeleteKey, 6, 7));
  CHECK_FALSE(log.covers(kNoStamp, 6, 7));
}

TEST_CASE("random deletes by stamp are in a set: it returns the same covers as a scan of all of them") {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto all = random_records(random, random.uniform(40));
    const RecordSet set(all);
    RecordLog log;
    for (const Record& record : all) log.insert(record);
    REQUIRE(set.size() == all.size());
    REQUIRE(log.size() == all.size());
    REQUIRE(log.snapshot()->records() == set.records());
    for (int i = 0; i < 200; ++i) {
      const DeleteKey d = random.one_in(10) ? kNoStamp : random.uniform(46);
      const SeqNum view = random.one_in(3) ? kMaxSeqNum : random.uniform(140);
      const SeqNum entry = random.uniform(140);
      CAPTURE(d, view, entry);
      const SeqNum newest = newest_by_hand(all, d, view);
      REQUIRE(set.newest_cover(d, view) == newest);
      REQUIRE(set.covers(d, entry, view) == (newest > entry));
      REQUIRE(log.covers(d, entry, view) == (newest > entry));
      const auto sets = log.sets();
      REQUIRE((newest > entry) ==
              std::any_of(sets.begin(), sets.end(), [&](const auto& s) { return s->covers(d, entry, view); }));
      SeqNum oldest = 0;
      for (const Record& r : all) {
        if (r.has(d) && r.seq > entry && (oldest == 0 || r.seq < oldest)) oldest = r.seq;
      }
      REQUIRE(set.oldest_cover_above(d, entry) == oldest);
      REQUIRE(set.oldest_birth(d, entry, view) == oldest_birth_by_hand(all, d, entry, view));
    }
  }
}

TEST_CASE("covers_all() is called with the delete fence of a page: it is true only if each delete key in it is covered") {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto all = random_records(random, 1 + random.uniform(12));
    const RecordSet set(all);
    for (int i = 0; i < 60; ++i) {
      const DeleteKey min = random.uniform(40), max = min + random.uniform(8);
      const SeqNum seq = random.uniform(60), view = random.one_in(2) ? kMaxSeqNum : random.uniform(60);
      bool whole = true, any = false;
      Millis oldest = 0;
      for (DeleteKey d = min; d <= max; ++d) {
        whole &= newest_by_hand(all, d, view) > seq;
        for (const Record& r : all) {
          if (!r.has(d) || r.seq <= seq || r.seq <= view) continue;  // the view stands for applied_seq here
          any = true;
          oldest = oldest == 0 ? r.birth : std::min(oldest, r.birth);
        }
      }
      CAPTURE(min, max, seq, view);
      REQUIRE(set.covers_all(min, max, seq, view) == whole);
      REQUIRE(set.may_cover(min, max, seq, view) == any);
      REQUIRE(set.oldest_birth_over(min, max, seq, view) == oldest);
    }
  }
  const RecordSet none;
  CHECK_FALSE(none.covers_all(0, 0, 0, kMaxSeqNum));
  const RecordSet one(std::vector<Record>{{0, kDeleteKeyEnd, 5, 1}});
  CHECK(one.covers_all(0, kMaxDeleteKey, 4, kMaxSeqNum));
  CHECK_FALSE(one.covers_all(0, kNoStamp, 4, kMaxSeqNum));
  CHECK_FALSE(one.covers_all(kNoStamp, 0, 4, kMaxSeqNum));  // the fences of a page without stamps
}

TEST_CASE("newer delete by stamp contains an older one's range: they become one, unless their births are far apart") {
  SECTION("births are close: the remaining delete has the older birth") {
    const auto merged = merge_subsumed({{0, 10, 5, 100}, {0, 20, 8, 200}, {0, 30, 9, 300}}, 1000);
    CHECK(merged == std::vector<Record>{{0, 30, 9, 100}});
  }
  SECTION("births differ by more than max_gap: both deletes remain") {
    CHECK(merge_subsumed({{0, 10, 5, 100}, {0, 20, 8, 200}}, 100).size() == 1);
    CHECK(merge_subsumed({{0, 10, 5, 100}, {0, 20, 8, 200}}, 99).size() == 2);
  }
  SECTION("deletes by stamp are random: each reader gets the same covers as before") {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      CAPTURE(seed);
      Random random(seed);
      const auto all = random_records(random, random.uniform(12));
      const auto merged = merge_subsumed(all, 25);
      for (DeleteKey d = 0; d < 45; ++d) {
        for (SeqNum entry = 0; entry < 60; ++entry) {
          REQUIRE((newest_by_hand(all, d, kMaxSeqNum) > entry) == (newest_by_hand(merged, d, kMaxSeqNum) > entry));
          const Millis was = oldest_birth_by_hand(all, d, entry, kMaxSeqNum);
          const Millis is = oldest_birth_by_hand(merged, d, entry, kMaxSeqNum);
          REQUIRE((was == 0 ? is == 0 : is != 0 && is <= was));
        }
      }
    }
  }
}

/// Returns `count` records with rising seqs and births. By `kind`: narrow disjoint ranges, a sliding window, any ranges, or a
/// mixture.
std::vector<Record> many_records(Random& random, std::size_t count, std::uint64_t kind) {
  std::vector<Record> out;
  for (std::size_t i = 0; i < count; ++i) {
    DeleteKey lo = 10 * random.uniform(4 * count), hi = lo + 10;
    const std::uint64_t mine = kind == 3 ? random.uniform(3) : kind;
    if (mine == 1) lo = 20 * i, hi = lo + 400;
    if (mine == 2) lo = random.uniform(40 * count), hi = random.one_in(20) ? kDeleteKeyEnd : lo + 1 + random.uniform(40 * count);
    out.push_back({lo, hi, 10 + 3 * i, random.one_in(50) ? 0 : 1000 + i});
  }
  return out;
}

/// Compares one query of each kind with a scan of all records.
void compare_with_scan(const RecordSet& set, const std::vector<Record>& all, Random& random, std::size_t count) {
  const DeleteKey d = random.uniform(42 * count);
  const SeqNum view = random.one_in(2) ? kMaxSeqNum : random.uniform(3 * count);
  const SeqNum entry = random.uniform(3 * count);
  const DeleteKey min = random.uniform(42 * count), max = min + random.uniform(random.one_in(2) ? 50 : 42 * count);
  CAPTURE(d, view, entry, min, max);
  SeqNum newest = 0, oldest = 0;
  Millis birth = 0, birth_over = 0;
  DeleteKey reach = min;
  const auto keep = [](Millis* to, Millis b) { *to = *to == 0 ? std::max<Millis>(b, 1) : std::min(*to, std::max<Millis>(b, 1)); };
  for (const Record& r : all) {
    if (r.has(d) && r.seq <= view) newest = std::max(newest, r.seq);
    if (r.has(d) && r.seq > entry) oldest = oldest == 0 ? r.seq : std::min(oldest, r.seq);
    if (r.has(d) && r.seq > entry && r.seq <= view) keep(&birth, r.birth);
    if (r.lo <= max && min < r.hi && r.seq > entry) keep(&birth_over, r.birth);
  }
  for (bool more = true; more;) {
    more = false;
    for (const Record& r : all) {
      if (r.lo > reach || r.hi <= reach || r.seq <= entry || r.seq > view) continue;
      reach = r.hi;
      more = true;
    }
  }
  REQUIRE(set.newest_cover(d, view) == newest);
  REQUIRE(set.covers(d, entry, view) == (newest > entry));
  REQUIRE(set.oldest_cover_above(d, entry) == oldest);
  REQUIRE(set.oldest_birth(d, entry, view) == birth);
  REQUIRE(set.covers_all(min, max, entry, view) == (reach > max));
  REQUIRE(set.oldest_birth_over(min, max, entry / 2, entry) == birth_over);
  REQUIRE(set.oldest_birth_over(min, max, entry, entry / 2) == birth_over);
}

TEST_CASE("set of many deletes by stamp is changed many times: it returns the same as a scan of all of them") {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    Random random(seed);
    const std::size_t count = 200 + random.uniform(3000);
    CAPTURE(seed, count);
    const auto fresh = many_records(random, count, seed % 4);
    std::vector<Record> all;
    RecordSet set;
    for (std::size_t from = 0; from < count;) {
      const std::size_t to = std::min(count, from + 1 + random.uniform(count / 3));
      std::vector<Record> added(fresh.begin() + static_cast<std::ptrdiff_t>(from),
                                fresh.begin() + static_cast<std::ptrdiff_t>(to));
      std::vector<SeqNum> removed;
      std::erase_if(all, [&](const Record& r) {
        if (!random.one_in(6)) return false;
        removed.push_back(r.seq);
        if (random.one_in(3)) added.push_back({r.lo, r.hi, r.seq, r.birth / 2});
        return true;
      });
      auto changed = set.changed(removed, added);
      REQUIRE(changed.is_ok());
      set = std::move(*changed);
      all.insert(all.end(), added.begin(), added.end());
      std::sort(all.begin(), all.end(), BySeq::before);
      from = to;
      REQUIRE(set.records() == all);
      REQUIRE(set.newest() == all.back().seq);
      Millis oldest = 0;
      for (const Record& r : all) oldest = oldest == 0 ? known_birth(r.birth) : std::min(oldest, known_birth(r.birth));
      REQUIRE(set.oldest_birth() == oldest);
      for (int i = 0; i < 40; ++i) compare_with_scan(set, all, random, count);
      for (int i = 0; i < 10; ++i) {
        const Record& by = all[random.uniform(all.size())];
        std::vector<SeqNum> subsumed, expected;
        set.visit_subsumed(by, [&](const Record& r) { subsumed.push_back(r.seq); });
        for (const Record& r : all) {
          if (by.lo <= r.lo && r.hi <= by.hi && r.seq < by.seq) expected.push_back(r.seq);
        }
        std::sort(subsumed.begin(), subsumed.end());
        REQUIRE(subsumed == expected);
      }
    }
  }
}

TEST_CASE("change of a set names an unknown or repeated seq: it is refused, and the error names the seq") {
  const RecordSet set(std::vector<Record>{{1, 2, 7, 1}, {3, 4, 9, 1}});
  CHECK(set.changed(std::vector<SeqNum>{8}, {}).status().message() == "record 8 is not in the tree");
  CHECK(set.changed(std::vector<SeqNum>{9, 9}, {}).status().message() == "record 9 is not in the tree");
  CHECK(set.changed({}, std::vector<Record>{{5, 6, 7, 1}}).status().message() == "record 7 is added, but is already in the tree");
  CHECK(set.changed({}, std::vector<Record>{{5, 6, 8, 1}, {6, 7, 8, 1}}).status().message() ==
        "record 8 is added, but is already in the tree");
  CHECK(set.changed(std::vector<SeqNum>{7}, std::vector<Record>{{5, 6, 7, 1}})->find(7)->lo == 5);
}

TEST_CASE("record log has thousands of deletes by stamp: they are in at most ten sets, each in one of them") {
  RecordLog log;
  CHECK(log.sets().empty());
  std::vector<Record> all;
  for (SeqNum seq = 1; seq <= 4096; ++seq) {
    all.push_back({seq * 7919 % 5000, seq * 7919 % 5000 + 3, seq, seq});
    log.insert(all.back());
    if (seq % 61 != 0 && seq != 4096) continue;
    std::vector<Record> seen;
    const auto sets = log.sets();
    REQUIRE(sets.size() <= 10);
    for (const SharedRecords& set : sets) {
      REQUIRE_FALSE(set->empty());
      const auto more = set->records();
      seen.insert(seen.end(), more.begin(), more.end());
    }
    std::sort(seen.begin(), seen.end(), BySeq::before);
    REQUIRE(seen == all);
    REQUIRE(log.snapshot()->records() == all);
  }
  CHECK(log.memory_bytes() < 4096 * 1000);
}

TEST_CASE("100,000 deletes by stamp have disjoint ranges: they take less than 100 bytes each") {
  Random random(1);
  RecordSet set;
  SeqNum seq = 0;
  for (int batch = 0; batch < 25; ++batch) {
    std::vector<Record> records;
    for (int i = 0; i < 4000; ++i) {
      const DeleteKey lo = 1000 * random.uniform(std::uint64_t{1} << 40);
      records.push_back({lo, lo + 1000, ++seq, seq});
    }
    set = std::move(*set.changed({}, records));
  }
  CHECK(set.memory_bytes() < 100 * set.size());
}

TEST_CASE("1,024 deletes by stamp overlap pairwise: their set takes less than 1 MiB") {
  std::vector<Record> records;
  for (std::size_t i = 0; i < 1024; ++i) records.push_back({i, i + 5000, i + 1, 1});
  const RecordSet set(records);
  CHECK(set.memory_bytes() < 1024 * 1024);
  CHECK(set.newest_cover(1023, kMaxSeqNum) == 1024);
  CHECK(set.newest_cover(5100, kMaxSeqNum) == 1024);
  CHECK(set.newest_cover(1023, 500) == 500);
}

TEST_CASE("deletes by stamp are inserted into a log while others read: readers see each inserted one exactly once", "[threads]") {
  RecordLog log;
  std::atomic<SeqNum> done{0};
  std::atomic<bool> wrong{false};
  std::thread reader([&] {
    while (done.load() < 2000) {
      const SeqNum seq = done.load(std::memory_order_acquire);
      if (seq == 0) continue;
      if (!log.covers(seq, seq - 1, kMaxSeqNum)) wrong = true;
      if (log.snapshot()->newest_cover(seq, kMaxSeqNum) < seq) wrong = true;
    }
  });
  for (SeqNum seq = 1; seq <= 2000; ++seq) {
    log.insert({seq, seq + 1, seq, seq});
    done.store(seq, std::memory_order_release);
  }
  reader.join();
  CHECK_FALSE(wrong);
  CHECK(log.size() == 2000);
}

}  // namespace TEST_FILE
}  // namespace ebbtide

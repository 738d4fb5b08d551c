#include "deletes/record.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

#include "base/random.h"

namespace ebbtide {
namespace {

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

TEST_CASE("record covers older versions in its range for readers whose view has it") {
  const Record record{10, 20, 5, 1};
  CHECK(record.covers(10, 4, 5));
  CHECK(record.covers(19, 4, 9));
  CHECK_FALSE(record.covers(20, 4, 9));
  CHECK_FALSE(record.covers(9, 4, 9));
  CHECK_FALSE(record.covers(15, 5, 9));
  CHECK_FALSE(record.covers(15, 4, 4));
}

TEST_CASE("record as text shows its end, or * without one") {
  CHECK(to_text(Record{5, 9, 7, 1000}) == "7 on stamps 5..<9, born 1000");
  CHECK(to_text(Record{0, kDeleteKeyEnd, 8, 0}) == "8 on stamps 0..*, born 0");
}

TEST_CASE("record with open end covers every stamp, and no entry without a stamp") {
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

TEST_CASE("record set returns the same covers as a scan of all records") {
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
      SeqNum oldest = 0;
      for (const Record& r : all) {
        if (r.has(d) && r.seq > entry && (oldest == 0 || r.seq < oldest)) oldest = r.seq;
      }
      REQUIRE(set.oldest_cover_above(d, entry) == oldest);
      REQUIRE(set.oldest_birth(d, entry, view) == oldest_birth_by_hand(all, d, entry, view));
    }
  }
}

TEST_CASE("page is covered whole if and only if each delete key within its fences is") {
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
          if (!r.has(d) || r.seq <= seq || r.seq <= view) continue;  // the view stands in for applied_seq here
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

TEST_CASE("subsumed records are merged unless their births are far apart, unnoticed by readers") {
  SECTION("merged record takes over the older birth") {
    const auto merged = merge_subsumed({{0, 10, 5, 100}, {0, 20, 8, 200}, {0, 30, 9, 300}}, 1000);
    CHECK(merged == std::vector<Record>{{0, 30, 9, 100}});
  }
  SECTION("a longer time between their births keeps them apart") {
    CHECK(merge_subsumed({{0, 10, 5, 100}, {0, 20, 8, 200}}, 100).size() == 1);
    CHECK(merge_subsumed({{0, 10, 5, 100}, {0, 20, 8, 200}}, 99).size() == 2);
  }
  SECTION("random") {
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

TEST_CASE("a thousand records that overlap pairwise take little memory") {
  std::vector<Record> records;
  for (std::size_t i = 0; i < 1024; ++i) records.push_back({i, i + 5000, i + 1, 1});
  const RecordSet set(records);
  CHECK(set.memory_bytes() < 1024 * 1024);
  CHECK(set.newest_cover(1023, kMaxSeqNum) == 1024);
  CHECK(set.newest_cover(5100, kMaxSeqNum) == 1024);
  CHECK(set.newest_cover(1023, 500) == 500);
}

TEST_CASE("readers of a record log see each record once its insertion has returned", "[threads]") {
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

}  // namespace
}  // namespace ebbtide

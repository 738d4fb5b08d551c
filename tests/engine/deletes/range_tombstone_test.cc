#include "deletes/range_tombstone.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <map>
#include <thread>

#include "base/random.h"
#include "deletes/tombstone_set.h"

namespace ebbtide {
namespace TEST_FILE {

using Cover = FragmentedRangeTombstones::Cover;

std::string random_key(Random& random) {
  std::string key;
  for (std::uint64_t n = random.uniform(4); n > 0; n--) key.push_back(static_cast<char>('a' + random.uniform(3)));
  return key;
}

std::vector<RangeTombstone> random_tombstones(Random& random, std::size_t count) {
  std::vector<RangeTombstone> out;
  for (std::size_t i = 0; i < count; i++) {
    const SeqNum seq = 10 + 3 * i;
    out.push_back({random_key(random), random.one_in(6) ? "" : random_key(random), seq, 1000 + random.uniform(50)});
  }
  return out;
}

/// Returns the newest cover of `key` for a reader at `view`, by a scan of all tombstones.
const RangeTombstone* brute_force(const std::vector<RangeTombstone>& all, Bytes key, SeqNum view) {
  const RangeTombstone* best = nullptr;
  for (const auto& t : all) {
    if (t.covers(key) && t.seq <= view && (best == nullptr || t.seq > best->seq)) best = &t;
  }
  return best;
}

void check_well_formed(const FragmentedRangeTombstones& f) {
  for (std::size_t i = 0; i < f.fragments().size(); i++) {
    const auto& fragment = f.fragments()[i];
    std::vector<Cover> covers;
    f.covers(fragment, &covers);
    REQUIRE_FALSE(covers.empty());
    Millis oldest_birth = covers[0].birth;
    for (std::size_t c = 1; c < covers.size(); c++) {
      REQUIRE(covers[c - 1].seq > covers[c].seq);
      oldest_birth = std::min(oldest_birth, covers[c].birth);
    }
    REQUIRE(fragment.newest.seq == covers.front().seq);
    REQUIRE(fragment.newest.birth == covers.front().birth);
    REQUIRE(fragment.oldest_seq == covers.back().seq);
    REQUIRE(fragment.oldest_birth == oldest_birth);
    const bool last = i + 1 == f.fragments().size();
    if (fragment.end.empty()) {
      REQUIRE(last);
    } else {
      REQUIRE(fragment.start < fragment.end);
      if (!last) REQUIRE(fragment.end <= f.fragments()[i + 1].start);
    }
  }
}

TEST_CASE("random tombstones are fragmented: lookups return the same covers as a scan of all tombstones") {
  for (std::uint64_t seed = 1; seed <= 300; seed++) {
    CAPTURE(seed);
    Random random(seed);
    const auto all = random_tombstones(random, random.uniform(20));
    const FragmentedRangeTombstones fragmented(all);
    check_well_formed(fragmented);
    for (int i = 0; i < 100; i++) {
      const std::string key = random_key(random);
      const SeqNum view = random.uniform(80);
      const auto* want = brute_force(all, key, view);
      const Cover* got = fragmented.newest_cover(key, view);
      CAPTURE(key, view);
      REQUIRE((want != nullptr) == (got != nullptr));
      if (want != nullptr) {
        REQUIRE(got->seq == want->seq);
        REQUIRE(got->birth == want->birth);
      }
      const auto* fragment = fragmented.fragment_at(key);
      REQUIRE((fragment != nullptr) == (brute_force(all, key, kMaxSeqNum) != nullptr));
    }
  }
}

TEST_CASE("random tombstones are fragmented: the tombstones made of the fragments give the same fragments") {
  for (std::uint64_t seed = 1; seed <= 300; seed++) {
    CAPTURE(seed);
    Random random(seed);
    auto all = random_tombstones(random, 1 + random.uniform(40));
    // Parts of a tombstone that was cut, and repeated tombstones.
    for (RangeTombstone& t : all) t.seq = random.one_in(3) ? 10 + random.uniform(3) : t.seq;
    const FragmentedRangeTombstones fragmented(all);
    check_well_formed(fragmented);
    std::vector<RangeTombstone> made_of;
    for (std::size_t i = 0; i < fragmented.size(); ++i) made_of.push_back(fragmented.tombstone(i));
    const FragmentedRangeTombstones again(made_of);
    REQUIRE(again.size() == fragmented.size());
    REQUIRE(again.fragments().size() == fragmented.fragments().size());
    for (std::size_t i = 0; i < fragmented.fragments().size(); ++i) {
      const auto& fragment = fragmented.fragments()[i];
      std::map<SeqNum, Millis> want;
      for (const RangeTombstone& t : all) {
        if (!t.covers(fragment.start) || (!t.end.empty() && t.start >= t.end)) continue;
        const auto [it, fresh] = want.try_emplace(t.seq, t.birth);
        it->second = std::min(it->second, t.birth);
      }
      std::vector<Cover> covers, covers_again;
      fragmented.covers(fragment, &covers);
      again.covers(again.fragments()[i], &covers_again);
      REQUIRE(covers.size() == want.size());
      REQUIRE(covers_again.size() == want.size());
      for (const Cover& c : covers) {
        REQUIRE(want.at(c.seq) == c.birth);
        REQUIRE(fragmented.newest_cover(fragment, c.seq)->seq == c.seq);
        REQUIRE(fragmented.newest_cover(fragment, c.seq)->birth == c.birth);
      }
    }
  }
}

// Stored as pairs of fragment and cover, these tombstones would be 2.5 * 10^9 pairs, or 40 GB.
TEST_CASE("50,000 range tombstones are nested: their fragments take less than 64 MiB") {
  constexpr std::uint64_t kCount = 50'000;
  std::vector<RangeTombstone> all;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    all.push_back({"a" + std::to_string(1'000'000 + i), "b" + std::to_string(2'000'000 - i), 1 + i, 5'000'000 - i});
  }
  const FragmentedRangeTombstones f(all);
  CHECK(f.fragments().size() == 2 * kCount - 1);
  CHECK(f.size() == kCount);
  CHECK(f.memory_bytes() < 64 << 20);
  CHECK(f.newest_cover("b", kMaxSeqNum)->seq == kCount);
  CHECK(f.newest_cover("b", 777)->seq == 777);
  CHECK(f.newest_cover("a1000499", kMaxSeqNum)->seq == 500);
  CHECK(f.newest_cover("a1000499", 77)->seq == 77);
  CHECK(f.newest_cover("b2000000", kMaxSeqNum) == nullptr);
  CHECK(f.fragment_at("b")->oldest_birth == 4'950'001);
  std::vector<Cover> covers;
  f.covers(*f.fragment_at("b"), &covers);
  CHECK(covers.size() == kCount);

  TombstoneSet set;
  for (const RangeTombstone& t : all) set.insert(t);
  CHECK(set.memory_bytes() < 256 << 20);
  Cover cover{};
  REQUIRE(set.newest_cover("b", 777, &cover));
  CHECK(cover.seq == 777);
}

TEST_CASE("input has no tombstones: there are no fragments") {
  const FragmentedRangeTombstones none;
  CHECK(none.empty());
  CHECK(none.newest_cover("k", kMaxSeqNum) == nullptr);
  const std::vector<RangeTombstone> nothing = {{"b", "b", 5, 1}, {"c", "a", 6, 1}};
  CHECK(FragmentedRangeTombstones(nothing).empty());
}

TEST_CASE("tombstone has no upper bound: it covers every key from its start on") {
  const std::vector<RangeTombstone> all = {{"m", "", 5, 50}, {"", "n", 7, 70}};
  const FragmentedRangeTombstones f(all);
  REQUIRE(f.fragments().size() == 3);
  CHECK(f.newest_cover("", 10)->seq == 7);
  CHECK(f.newest_cover("m", 6)->seq == 5);
  CHECK(f.newest_cover("m", 10)->seq == 7);
  CHECK(f.newest_cover("\xff\xff\xff", 10)->birth == 50);
  CHECK(f.newest_cover("a", 6) == nullptr);
}

TEST_CASE("input has the parts of a tombstone that was cut: they are joined, and the joined tombstone has the oldest birth") {
  const std::vector<RangeTombstone> pieces = {{"a", "c", 5, 50}, {"c", "e", 5, 50}, {"b", "d", 5, 50}};
  const FragmentedRangeTombstones f(pieces);
  REQUIRE(f.fragments().size() == 1);
  CHECK(f.fragments()[0].start == "a");
  CHECK(f.fragments()[0].end == "e");
  const std::vector<RangeTombstone> births = {{"a", "c", 5, 50}, {"a", "c", 5, 40}};
  CHECK(FragmentedRangeTombstones(births).newest_cover("a", 5)->birth == 40);
}

TEST_CASE("tombstones are inserted into a set in any order: it returns the same covers as a scan of all tombstones") {
  for (std::uint64_t seed = 1; seed <= 20; seed++) {
    CAPTURE(seed);
    Random random(seed);
    auto all = random_tombstones(random, 400);
    // Writers race, so seqs come out of order, slightly or completely.
    const std::size_t reach = seed % 2 == 0 ? all.size() : 3;
    for (std::size_t i = 0; i + 1 < all.size(); i++) std::swap(all[i], all[i + random.uniform(std::min(reach, all.size() - i))]);
    TombstoneSet set;
    CHECK(set.empty());
    Cover none{};
    CHECK_FALSE(set.newest_cover("a", kMaxSeqNum, &none));
    std::vector<RangeTombstone> inserted;
    for (const auto& t : all) {
      set.insert(t);
      if (t.end.empty() || t.start < t.end) inserted.push_back(t);
      const std::string key = random_key(random);
      const SeqNum view = random.uniform(1300);
      const auto* want = brute_force(inserted, key, view);
      Cover got{};
      REQUIRE(set.newest_cover(key, view, &got) == (want != nullptr));
      if (want != nullptr) {
        REQUIRE(got.seq == want->seq);
        REQUIRE(got.birth == want->birth);
      }
      if (random.one_in(10)) {
        const SharedTombstones flushed = set.fragment_all();
        check_well_formed(*flushed);
        const Cover* cover = flushed->newest_cover(key, view);
        REQUIRE((cover != nullptr) == (want != nullptr));
        if (want != nullptr) REQUIRE(cover->seq == want->seq);
        SeqNum walked = 0;
        for (const SharedTombstones& run : set.runs()) {
          check_well_formed(*run);
          if (const Cover* of_run = run->newest_cover(key, view); of_run != nullptr) walked = std::max(walked, of_run->seq);
        }
        REQUIRE(walked == (want != nullptr ? want->seq : 0));
      }
    }
    CHECK(set.size() == inserted.size());
  }
}

TEST_CASE("10,000 range tombstones are inserted, each followed by a read: the set takes less than 24 MiB") {
  TombstoneSet set;
  for (std::uint32_t i = 0; i < 10'000; i++) {
    const std::string start = std::to_string(1'000'000 + i * 7919 % 10'000 * 10);
    set.insert({start, start + "5", i + 1, 5});
    Cover got{};
    REQUIRE(set.newest_cover(start + "1", kMaxSeqNum, &got));
    REQUIRE(got.seq == i + 1);
  }
  CHECK(set.fragment_all()->fragments().size() == 10'000);
  CHECK(set.memory_bytes() < 24u << 20);
}

TEST_CASE("20,000 range tombstones are inserted, each followed by runs(): each tombstone is fragmented only a few times") {
  constexpr std::uint32_t kTombstones = 20'000;
  TombstoneSet set;
  std::size_t most_runs = 0;
  for (std::uint32_t i = 0; i < kTombstones; i++) {
    const std::string start = std::to_string(1'000'000 + i * 7919 % kTombstones * 10);
    set.insert({start, start + "5", i + 1, 5});
    const std::vector<SharedTombstones> runs = set.runs();
    most_runs = std::max(most_runs, runs.size());
    std::size_t size = 0;
    for (const SharedTombstones& run : runs) size += run->size();
    REQUIRE(size == i + 1);
  }
  // Each tombstone is fragmented once per size of run (16, 64, ... 16,384). Each call of runs() also fragments about nine
  // tombstones of the unsorted log.
  CHECK(set.fragmented() <= std::uint64_t{kTombstones} * (6 + 9));
  CHECK(most_runs <= 1 + 3 * 6);
}

TEST_CASE("70,000 tombstones are inserted into a set: no insertion fragments more than 16,384") {
  constexpr std::uint32_t kTombstones = 70'000;
  TombstoneSet set;
  std::uint64_t before = 0, most = 0;
  for (std::uint32_t i = 0; i < kTombstones; i++) {
    const std::string start = std::to_string(1'000'000 + i * 7919 % kTombstones * 10);
    set.insert({start, start + "5", i + 1, 5});
    most = std::max(most, set.fragmented() - before);
    before = set.fragmented();
  }
  CHECK(most == 16'384);
  CHECK(set.runs().size() <= 1 + 3 * 5 + kTombstones / 16'384);
  Cover cover{};
  REQUIRE(set.newest_cover("10000001", kMaxSeqNum, &cover));
  CHECK(cover.seq == 1);
}

TEST_CASE("bounds of tombstones have 100 KB: the set's runs share their bytes, and one insertion sorts at most 4 MiB") {
  constexpr std::uint64_t kTombstones = 300, kBound = 100'000;
  const std::string prefix(kBound, 'x');
  TombstoneSet set;
  std::uint64_t before = 0, most = 0;
  for (std::uint64_t i = 0; i < kTombstones; i++) {
    const std::string start = prefix + std::to_string(1000 + i * 7 % kTombstones);
    set.insert({start, start + "5", i + 1, 5});
    most = std::max(most, set.fragmented() - before);
    before = set.fragmented();
  }
  CHECK(most * 2 * kBound <= 4u << 20);
  CHECK(set.memory_bytes() < kTombstones * 2 * kBound * 11 / 10);
  const SharedTombstones all = set.fragment_all();
  CHECK(all->fragments().size() == kTombstones);
  std::size_t shared = 0;
  for (const SharedTombstones& run : set.runs()) {
    for (const auto& fragment : run->fragments()) {
      const auto* same = all->fragment_at(fragment.start);
      REQUIRE(same != nullptr);
      shared += same->start.shares_with(fragment.start) && same->end.shares_with(fragment.end) ? 1 : 0;
    }
  }
  CHECK(shared == kTombstones);
  Cover cover{};
  REQUIRE(set.newest_cover(prefix + "10001", kMaxSeqNum, &cover));
  CHECK(cover.seq == 1);
}

TEST_CASE("tombstone set is destroyed: runs taken from it stay valid") {
  std::vector<SharedTombstones> runs;
  {
    TombstoneSet set;
    for (SeqNum i = 1; i <= 40; i++) set.insert({"a", "b", i, 5});
    runs = set.runs();
  }
  SeqNum newest = 0;
  for (const SharedTombstones& run : runs) newest = std::max(newest, run->newest_cover("a", kMaxSeqNum)->seq);
  CHECK(newest == 40);
}

TEST_CASE("threads insert tombstones while others read: each read sees all tombstones that were inserted before it",
          "[threads]") {
  TombstoneSet set;
  constexpr int kWriters = 3;
  constexpr SeqNum kEach = 600;
  std::atomic<SeqNum> done[kWriters] = {};
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < kWriters; w++) {
    threads.emplace_back([&, w] {
      for (SeqNum i = 1; i <= kEach; i++) {
        set.insert({std::string(1, static_cast<char>('a' + w)) + std::to_string(i % 7), "", i * kWriters + w, i});
        done[w].store(i, std::memory_order_release);
      }
    });
  }
  std::atomic<bool> failed{false};
  for (int r = 0; r < 2; r++) {
    threads.emplace_back([&, r] {
      for (;;) {
        SeqNum floor = 0, least = kEach;
        for (unsigned w = 0; w < kWriters; w++) {
          const SeqNum d = done[w].load(std::memory_order_acquire);
          least = std::min(least, d);
          if (d != 0) floor = std::max(floor, d * kWriters + w);
        }
        Cover cover{};
        if (floor != 0 && (!set.newest_cover("zz", kMaxSeqNum, &cover) || cover.seq < floor)) failed = true;
        if (r == 1 && floor != 0) {
          SeqNum walked = 0;
          for (const SharedTombstones& run : set.runs()) {
            if (const Cover* of_run = run->newest_cover("zz", kMaxSeqNum); of_run != nullptr)
              walked = std::max(walked, of_run->seq);
          }
          if (walked < floor) failed = true;
        }
        if (least == kEach) break;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK_FALSE(failed);
  CHECK(set.size() == kWriters * kEach);
}

}  // namespace TEST_FILE
}  // namespace ebbtide

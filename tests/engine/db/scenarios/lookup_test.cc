// Tests that gets after a staged prefetch have the same results as gets without one, despite writes, flushes or merges between a
// prefetch and its get.
#include <algorithm>
#include <deque>

#include "base/random.h"
#include "db/read/filter_memory.h"
#include "db/trees/counters.h"
#include "engine/db/harness.h"

namespace TEST_FILE {

using namespace ebbtide;

std::string text_of(const Status& status, const Found& found) {
  return status.is_ok() ? std::string(found.value) + " " + std::to_string(found.seq) : status.to_string();
}

struct Span {
  std::deque<std::string> names;
  std::vector<LookupKey> keys;
  std::vector<LookupState> states;
};

Span make_span(Random& random, std::uint64_t spread) {
  Span span;
  span.states.resize(1 + random.uniform(20));
  for (LookupState& state : span.states) {
    const std::string& name = span.names.emplace_back("key:" + std::to_string(1000 + random.uniform(spread)));
    span.keys.push_back({name, hash_key(name), &state});
  }
  return span;
}

void random_write(Harness& h, Random& random, std::uint64_t spread) {
  const std::string key = "key:" + std::to_string(1000 + random.uniform(spread));
  if (random.one_in(8)) {
    h.del(0, key);
  } else if (random.one_in(150)) {
    h.del_range(0, key, key + "0");
  } else {
    h.put(0, key, std::string(random.uniform(300), static_cast<char>('a' + random.uniform(26))));
  }
}

TEST_CASE("key was prefetched, with any filters and tiles: get has the same result as without a prefetch",
          "[db][read_path][property]") {
  for (const std::uint32_t pages_per_tile : {1u, 4u}) {
    for (const double filter_bits : {10.0, 2.0, 0.0}) {
      CAPTURE(pages_per_tile, filter_bits);
      Settings settings = Harness::small();
      settings.tree.memtable_size = 16 << 10;
      settings.tree.file_size = 64 << 10;
      settings.tree.pages_per_tile = pages_per_tile;
      settings.tree.filter_bits_per_key = filter_bits;
      // A filter that changes between a prefetch and its get may deny a page that was to be read. Intermediate results differ;
      // the final result does not.
      settings.tree.filter_allocation = FilterAllocation::kUniform;
      Harness h(settings);
      h.open();
      Random random(pages_per_tile * 7 + static_cast<std::uint64_t>(filter_bits));
      constexpr std::uint64_t kSpread = 600;
      for (int round = 0; round < 400; ++round) {
        for (std::uint64_t n = random.uniform(30); n > 0; --n) random_write(h, random, kSpread);
        if (random.one_in(10)) h.settle();
        if (random.one_in(60)) {
          h.reopen();  // nothing is in the cache
        }
        Span span = make_span(random, kSpread + 50);
        // Half of the spans have pages that are not in memory. A read that does no I/O reports these with and without
        // a prefetch.
        const ReadMode mode = random.one_in(2) ? ReadMode::kResident : ReadMode::kBlocking;
        MissSet with, without, earlier;
        PassGuard guard(*h.db);
        const ReadView before = h.db->view(0, h.db->now(), mode, &earlier);
        const int stages =
            random.one_in(4) ? static_cast<int>(random.uniform(ReadView::kPrefetchStages)) : ReadView::kPrefetchStages;
        for (int stage = 0; stage < stages; ++stage) {
          for (const LookupKey& key : span.keys) before.prefetch(key, stage);
        }
        if (random.one_in(3)) {
          random_write(h, random, kSpread);
          if (random.one_in(2)) REQUIRE(h.db->flush(0).is_ok());
          if (random.one_in(2)) h.settle();
        }
        for (const LookupKey& key : span.keys) {
          const ReadView view = h.db->view(0, h.db->now(), mode, &with);
          const ReadView plain = h.db->view(0, h.db->now(), mode, &without);
          Found found, expected;
          const Status status = view.get(key, &found);
          const Status plainly = plain.get({key.key, key.hash}, &expected);
          REQUIRE(text_of(status, found) == text_of(plainly, expected));
          if (status.is_not_resident()) REQUIRE(with.pages.size() == without.pages.size());
          REQUIRE(text_of(before.get(key, &found), found) == text_of(before.get({key.key, key.hash}, &expected), expected));
        }
      }
    }
  }
}

TEST_CASE("prefetch with another database's view found the key: a get ignores the prefetch", "[db][read_path]") {
  Harness h;
  h.open();
  h.put(0, "k", "zero");
  h.put(1, "k", "one");
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(h.db->flush(1).is_ok());
  REQUIRE(h.get(0, "k") == "zero");  // brings the page into the cache
  REQUIRE(h.get(1, "k") == "one");
  LookupState state;
  const LookupKey key{"k", hash_key("k"), &state};
  PassGuard guard(*h.db);
  const ReadView zero = h.db->view(0, h.db->now(), ReadMode::kBlocking, nullptr);
  for (int stage = 0; stage < ReadView::kPrefetchStages; ++stage) zero.prefetch(key, stage);
  REQUIRE(state.block != nullptr);
  Found found;
  REQUIRE(h.db->view(1, h.db->now(), ReadMode::kBlocking, nullptr).get(key, &found).is_ok());
  REQUIRE(found.value == "one");
  REQUIRE(h.db->lease(0).get(key, &found).is_ok());
  REQUIRE(found.value == "zero");
  REQUIRE(zero.get(key, &found).is_ok());
  REQUIRE(found.value == "zero");
}

TEST_CASE("get waits for pages: it counts each run that it checks once") {
  Settings settings = Harness::small();
  settings.tree.policy = {"one_leveling", {{"level0_runs", 8}}};
  Harness h(settings);
  h.open();
  for (int run = 0; run < 3; ++run) {
    h.put(0, "a", "v");
    h.put(0, "only in " + std::to_string(run), "v");
    h.put(0, "z", "v");
    REQUIRE(h.db->flush(0).is_ok());
  }
  h.put(0, "in memory", "v");
  const auto probes = [&h] { return h.db->stats().runs_probed; };
  REQUIRE(probes().bounds.size() + 1 == probes().buckets.size());
  CHECK(h.get(0, "in memory") == "v");
  CHECK(h.get(0, "zz") == "(absent)");  // the key is outside of all bounds
  CHECK(probes().buckets[0] == 2);
  CHECK(h.get(0, "only in 2") == "v");
  CHECK(h.get(0, "only in 2") == "v");
  CHECK(probes().buckets[1] == 2);
  CHECK(h.get(0, "only in 0") == "v");
  CHECK(h.get(0, "nowhere") == "(absent)");
  CHECK(probes().buckets[3] == 2);
  CHECK(probes().sum == 8);
  CHECK(h.db->stats().gets == 6);
  ThreadCounters counters;
  for (const std::uint32_t runs : {7u, 8u, 9u, 12u, 13u, 16u, 17u, 32u, 33u, 1000u}) counters.add_probes(runs);
  for (std::size_t i = 6; i < counters.probes.size(); ++i) CHECK(counters.probes[i] == 2);
}

/// Returns a key. The keys between these are absent.
std::string nth_key(std::uint64_t i) { return "key" + std::to_string(1'000'000 + i * 2); }

Settings with_filters(FilterAllocation allocation, double bits_per_key) {
  Settings s = Harness::small();
  s.tree.memtable_size = 96 << 10;  // files of a thousand keys, where rounding up to blocks adds a few per cent
  s.tree.file_size = 96 << 10;
  s.tree.filter_allocation = allocation;
  s.tree.filter_bits_per_key = bits_per_key;
  s.tree.filter_lookups = FilterLookups::kZeroResult;
  return s;
}

/// Writes keys 0 to n in a scattered order.
void fill(Harness& h, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) {
    h.put(0, nth_key(i * 7919 % n), std::string(30, 'v'));
    if (i % 200 == 0) h.settle();
  }
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
}

struct FilterSum {
  double entries = 0, bits = 0, expected = 0;
};
FilterSum sum_of(const TreeInfo& info) {
  FilterSum sum;
  for (const FilterInfo& filter : info.filters) {
    const auto runs =
        std::count_if(info.runs.begin(), info.runs.end(), [&](const RunInfo& r) { return r.level == filter.level; });
    sum.entries += static_cast<double>(filter.entries);
    sum.bits += static_cast<double>(filter.bits);
    sum.expected += filter.expected * static_cast<double>(runs);
  }
  return sum;
}

std::string text_of(const TreeInfo& info) {
  std::string out;
  for (const RunInfo& run : info.runs) {
    out += "L" + std::to_string(run.level) + ": " + std::to_string(run.files) + " files, " + std::to_string(run.entries) +
           " entries, " + std::to_string(static_cast<double>(run.filter_bits) / static_cast<double>(run.entries)) + " bits; ";
  }
  for (const FilterInfo& filter : info.filters) {
    out += "L" + std::to_string(filter.level) + " expects " + std::to_string(filter.expected) + "; ";
  }
  return out;
}

void look_up_absent(Harness& h, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) REQUIRE(h.get(0, nth_key(i) + "5") == "(absent)");
}

TEST_CASE("filter allocation is monkey: with the same memory, lookups read fewer false-positive pages", "[db][filters]") {
  constexpr std::uint64_t kKeys = 28'000;
  double uniform = 0;
  for (const FilterAllocation allocation : {FilterAllocation::kUniform, FilterAllocation::kMonkey}) {
    Harness h(with_filters(allocation, 6));
    h.open();
    fill(h, kKeys);
    for (std::uint64_t i = 0; i < kKeys; i += 97) REQUIRE(h.get(0, nth_key(i)) == std::string(30, 'v'));
    look_up_absent(h, kKeys);
    const TreeInfo info = h.db->tree_info(0).value();
    REQUIRE(info.filters.size() >= 2);
    const FilterSum sum = sum_of(info);
    CHECK(sum.bits < sum.entries * 6 * 1.1);  // files are small here, so rounding up to blocks counts
    std::uint64_t in_vain = 0;
    for (const FilterInfo& filter : info.filters) {
      CAPTURE(filter.level, filter.expected, filter.observed(), filter.denied, filter.in_vain);
      CHECK(filter.observed() == Approx(filter.expected).epsilon(0.35).margin(0.002));
      in_vain += filter.in_vain;
    }
    CHECK(in_vain > 0);
    CAPTURE(text_of(info));
    const FilterInfo &first = info.filters.front(), &last = info.filters.back();
    const double first_bits = static_cast<double>(first.bits) / static_cast<double>(first.entries);
    const double last_bits = static_cast<double>(last.bits) / static_cast<double>(last.entries);
    CAPTURE(first_bits, last_bits);
    if (allocation == FilterAllocation::kUniform) {
      uniform = sum.expected;
      CHECK(first_bits == Approx(last_bits).epsilon(0.1));
    } else {
      CHECK(first_bits > last_bits + 2);
      CHECK(sum.expected < uniform * 0.8);
    }
  }
}

TEST_CASE("file is moved to another level: it gets filter slices for that level, not those it was written with",
          "[db][filters]") {
  Settings s = with_filters(FilterAllocation::kMonkey, 8);
  s.tree.policy = {"leveling", {{"size_ratio", 4}}};
  Harness h(s);
  h.open();
  for (std::uint64_t i = 0; i < 20'000; ++i) {  // keys ascend, so that files are moved, not merged
    h.put(0, nth_key(i), std::string(30, 'v'));
    if (i % 100 == 0) h.settle();
  }
  h.settle();
  CHECK(h.db->stats().trivial_moves > 10);
  const FilterSum sum = sum_of(h.db->tree_info(0).value());
  CHECK(sum.bits < sum.entries * 8 * 1.1);
  CHECK(sum.bits > sum.entries * 8 * 0.7);
  look_up_absent(h, 2000);
  h.reopen();
  const FilterSum again = sum_of(h.db->tree_info(0).value());
  CHECK(again.bits < again.entries * 8 * 1.1);
  CHECK(again.bits > again.entries * 8 * 0.7);
}

TEST_CASE("filter budget changes: it applies to existing files without rewriting them", "[db][filters]") {
  Harness h(with_filters(FilterAllocation::kMonkey, 10));
  h.open();
  fill(h, 12'000);
  REQUIRE(h.db->compact(0, {}).is_ok());
  const std::uint64_t written = h.db->stats().compaction_bytes_written + h.db->stats().flush_bytes_written;
  const auto with = [&](double bits_per_key) {
    h.settings.tree.filter_bits_per_key = bits_per_key;
    REQUIRE(h.db->reconfigure(h.settings).is_ok());
    h.settle();
    const FilterSum sum = sum_of(h.db->tree_info(0).value());
    for (std::uint64_t i = 0; i < 12'000; i += 131) REQUIRE(h.get(0, nth_key(i)) == std::string(30, 'v'));
    CHECK(sum.bits <= sum.entries * bits_per_key * 1.1);
    return sum.bits / sum.entries;
  };
  const std::uint64_t tables = h.db->stats().table_bytes;
  CHECK(with(10) > 9);
  CHECK(with(0) == 0);
  CHECK(h.db->stats().table_bytes < tables);
  CHECK(with(5) > 3);    // the whole filters of about half of the files
  CHECK(with(16) > 12);  // files were written with more bits than were in memory
  CHECK(with(10) > 9);
  CHECK(h.db->stats().compaction_bytes_written + h.db->stats().flush_bytes_written == written);
}

TEST_CASE("filters have a budget in bytes: their size stays within it as the tree grows and after a restart", "[db][filters]") {
  const FilterAllocation allocation = GENERATE(FilterAllocation::kMonkey, FilterAllocation::kUniform);
  CAPTURE(static_cast<int>(allocation));
  Settings settings = with_filters(allocation, 10);
  settings.tree.filter_memory = 64 << 10;
  const double budget = 8.0 * (64 << 10);
  Harness h(settings);
  h.open();
  const auto bits = [&] { return static_cast<double>(sum_of(h.db->tree_info(0).value()).bits); };
  // There are at most 32 bits per key; beyond that the total stays the same for any number of keys.
  for (const std::uint64_t keys : {5'000, 30'000, 100'000}) {
    fill(h, keys);
    REQUIRE(h.db->compact(0, {}).is_ok());
    CAPTURE(keys, bits());
    const double most = 32.0 * static_cast<double>(keys);
    CHECK(bits() < std::min(budget, most) * 1.1);
    CHECK(bits() > std::min(budget, most) * 0.7);
  }
  h.reopen();
  h.settle();
  CHECK(bits() < budget * 1.1);
  CHECK(bits() > budget * 0.7);
  // Now bits_per_key applies again to new files.
  h.settings.tree.filter_memory = 0;
  REQUIRE(h.db->reconfigure(h.settings).is_ok());
  fill(h, 100'000);
  REQUIRE(h.db->compact(0, {}).is_ok());
  CHECK(bits() > 100'000 * 10 * 0.7);
}

// A lookup without a result checks the filter of each of a tile's h pages. With h from the setting, both runs would have equally
// many bits.
TEST_CASE("files have other pages per tile than the setting: filter memory is computed for the pages per tile of each file",
          "[db][filters]") {
  constexpr std::uint64_t kKeys = 40'000;
  Settings settings = with_filters(FilterAllocation::kMonkey, 10);
  settings.tree.policy = {"constant", {{"k", 64}}};  // with this policy runs stay as they are written
  settings.tree.file_size = 512 << 10;               // the more pages tiles have, the larger are the blocks of a filter
  settings.tree.pages_per_tile = 8;
  Harness h(settings);
  h.open();
  fill(h, kKeys);
  REQUIRE(h.db->compact(0, {}).is_ok());
  h.settle();
  h.settings.tree.pages_per_tile = 1;
  REQUIRE(h.db->reconfigure(h.settings).is_ok());
  h.settings.tree.memtable_size = 8 << 20;  // large, so that the second run is written at once, with as many keys
  h.reopen();
  for (std::uint64_t i = 0; i < kKeys; ++i) h.put(0, nth_key(i), std::string(30, 'w'));
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  const TreeInfo info = h.db->tree_info(0).value();
  CAPTURE(text_of(info));
  REQUIRE(info.runs.size() == 2);
  REQUIRE(info.runs[0].entries == info.runs[1].entries);
  const auto bits = [&](std::size_t run) {
    return static_cast<double>(info.runs[run].filter_bits) / static_cast<double>(info.runs[run].entries);
  };
  // With the same number of keys, the older run gets log2(8) / ln 2 = 4.3 bits more. Its files were written with enough bits for
  // that.
  CHECK(bits(1) > bits(0) + 3);
  const FilterSum sum = sum_of(info);
  CHECK(sum.bits < sum.entries * 10 * 1.1);
  CHECK(sum.bits > sum.entries * 10 * 0.8);
}

TEST_CASE("databases are swapped: they exchange their filter budgets at once", "[db][filters]") {
  Settings settings = with_filters(FilterAllocation::kMonkey, 10);
  settings.overrides[1] = settings.tree;
  settings.overrides[1].filter_bits_per_key = 0;
  Harness h(settings);
  h.open();
  fill(h, 6'000);
  REQUIRE(h.db->compact(0, {}).is_ok());
  CHECK(sum_of(h.db->tree_info(0).value()).bits > 0);
  WriteBatch batch;
  batch.swap_databases(0, 1);
  h.write(batch);
  h.settle();
  CHECK(sum_of(h.db->tree_info(1).value()).bits == 0);
}

TEST_CASE("filter slices are unreadable: lookups work without them, the error is logged, and a later change loads them",
          "[db][filters]") {
  Harness h(with_filters(FilterAllocation::kMonkey, 10));
  h.open();
  fill(h, 6'000);
  const auto with = [&](double bits_per_key) {
    h.settings.tree.filter_bits_per_key = bits_per_key;
    REQUIRE(h.db->reconfigure(h.settings).is_ok());
    h.settle();
    for (std::uint64_t i = 0; i < 6'000; i += 61) REQUIRE(h.get(0, nth_key(i)) == std::string(30, 'v'));
    look_up_absent(h, 100);
    return sum_of(h.db->tree_info(0).value()).bits;
  };
  const double whole = with(10);
  CHECK(whole > 0);
  CHECK(with(0) == 0);
  CHECK_FALSE(h.events.heard("a filter slice cannot be read"));
  h.faults->inject({.ops = kReadOps, .sticky = true, .path_has = ".meta"});
  CHECK(with(10) == 0);
  CHECK(h.events.heard("a filter slice cannot be read"));
  h.faults->clear_faults();
  CHECK(with(9) == 0);  // the pages are not read again within a minute
  h.advance(61'000);
  CHECK(with(10) > whole * 0.9);
}

/// The bits per key of a tree's first and last level.
struct LevelBits {
  double first, last;
};

/// Runs rounds of lookups of existing or absent keys, each followed by a rewrite of all keys. Returns the bits afterwards. `earlier`:
/// number of lookups of absent keys before the rounds, with only one run.
LevelBits bits_of_levels(FilterLookups lookups, bool absent, int rounds = 3, std::uint64_t earlier = 0) {
  constexpr std::uint64_t kKeys = 8'000, kLookups = 6'000;
  Settings s = with_filters(FilterAllocation::kMonkey, 6);
  s.tree.filter_lookups = lookups;
  s.tree.policy = {"leveling", {{"size_ratio", 4}}};
  Harness h(s);
  h.open();
  fill(h, kKeys);
  if (earlier != 0) {
    REQUIRE(h.db->compact(0, {}).is_ok());
    look_up_absent(h, earlier);
    fill(h, kKeys);
  }
  for (int round = 0; round < rounds; ++round) {
    const double bits = sum_of(h.db->tree_info(0).value()).bits;
    if (absent) look_up_absent(h, kLookups);
    for (std::uint64_t i = 0; !absent && i < kLookups; ++i) {
      REQUIRE(h.get(0, nth_key(i * 7919 % kKeys)) == std::string(30, 'v'));
    }
    REQUIRE(sum_of(h.db->tree_info(0).value()).bits == bits);  // lookups alone change nothing until the next tables
    fill(h, kKeys);
  }
  const TreeInfo info = h.db->tree_info(0).value();
  CAPTURE(text_of(info));
  REQUIRE(info.filters.size() == 2);
  const FilterSum sum = sum_of(info);
  CHECK(sum.bits < sum.entries * 6 * 1.1);
  const FilterInfo &first = info.filters.front(), &last = info.filters.back();
  return {static_cast<double>(first.bits) / static_cast<double>(first.entries),
          static_cast<double>(last.bits) / static_cast<double>(last.entries)};
}

// Lookups find existing keys in the last level, without false positives there, so filters above save more.
TEST_CASE("lookups find their keys in the last level: filter memory moves to the other levels when tables are written",
          "[db][filters]") {
  const LevelBits found = bits_of_levels(FilterLookups::kMeasured, false);
  CHECK(found.last < bits_of_levels(FilterLookups::kMeasured, true).last - 0.5);
  const LevelBits for_absent = bits_of_levels(FilterLookups::kZeroResult, false);
  CHECK(found.last < for_absent.last - 0.5);
  CHECK(for_absent.first > for_absent.last + 2);  // a quarter of the entries: log2(4) / ln 2 = 2.9 bits more
}

TEST_CASE("lookups were measured, and no filter changed: the next measurement does not count them again", "[db][filters]") {
  // The earlier lookups read a single run, so they change no filter. The later measurement must not count them again.
  const auto ahead = [](const LevelBits& bits) { return bits.first - bits.last; };
  const double without = ahead(bits_of_levels(FilterLookups::kMeasured, false, 1));
  CHECK(ahead(bits_of_levels(FilterLookups::kMeasured, false, 1, 100'000)) > without - 0.3);
}

TEST_CASE("collections are written, overwritten and deleted: may_have_collection() is true for each key that has one in the view",
          "[db][read_path]") {
  Harness h(Harness::small());
  h.open();
  const auto put = [&h](Bytes key, EntryKind kind) {
    WriteBatch batch;
    batch.put(0, key, "value", {.kind = kind, .debt = true});
    REQUIRE(h.db->commit(batch).is_ok());
  };
  const auto may_be = [&h](Bytes key) { return h.db->lease(0).may_have_collection({key, hash_key(key)}); };
  CHECK_FALSE(may_be("hash"));  // the database has no tree
  for (const Bytes key : {"hash", "at once", "replaced", "deleted"}) put(key, EntryKind::kCompact);
  for (int i = 0; i < 1'000; ++i) put("string" + std::to_string(i), EntryKind::kValue);
  const ReadView before = h.db->lease(0);
  put("at once", EntryKind::kValue);
  CHECK(before.may_have_collection({"at once", hash_key("at once")}));
  CHECK_FALSE(may_be("at once"));
  const auto check = [&] {
    CHECK(may_be("hash"));
    CHECK_FALSE(may_be("string7"));
    CHECK_FALSE(may_be("absent"));
  };
  check();
  CHECK(may_be("replaced"));
  REQUIRE(h.db->flush(0).is_ok());
  check();
  CHECK(may_be("replaced"));
  put("replaced", EntryKind::kValue);
  h.del(0, "deleted");
  check();
  CHECK_FALSE(may_be("replaced"));
  CHECK_FALSE(may_be("deleted"));
  CHECK(before.may_have_collection({"replaced", hash_key("replaced")}));
  REQUIRE(h.db->flush(0).is_ok());
  check();
}

}  // namespace TEST_FILE

// Gets after a staged prefetch against gets without one: what the stages remember changes no result, whatever is written, flushed
// or merged between a prefetch and its get.
#include <deque>

#include "base/random.h"
#include "db/counters.h"
#include "engine/db/harness.h"

using namespace ebbtide;

namespace {

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

}  // namespace

TEST_CASE("a prefetch changes no result", "[db][read_path][property]") {
  for (const std::uint32_t pages_per_tile : {1u, 4u}) {
    for (const double filter_bits : {10.0, 2.0, 0.0}) {
      CAPTURE(pages_per_tile, filter_bits);
      Settings settings = Harness::small();
      settings.memtable_size = 16 << 10;
      settings.tree.file_size = 64 << 10;
      settings.tree.pages_per_tile = pages_per_tile;
      settings.tree.filter_bits_per_key = filter_bits;
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
        // Half of the time a span's pages are not in memory, and a resident read says so with or without a prefetch.
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

TEST_CASE("what a prefetch found is not used by other views", "[db][read_path]") {
  Harness h;
  h.open();
  h.put(0, "k", "zero");
  h.put(1, "k", "one");
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(h.db->flush(1).is_ok());
  REQUIRE(h.get(0, "k") == "zero");  // into the cache
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

TEST_CASE("a get counts the runs that it asks, once, whatever it had to wait for") {
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
  CHECK(h.get(0, "zz") == "(absent)");  // outside of all bounds
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

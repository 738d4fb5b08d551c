// Tests of the elements of large collections: they are no keys of their own for scans, counts, estimates, expiries and stamps.
#include <algorithm>

#include <engine/collection_keys.h>

#include "engine/db/harness.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr int kCollections = 20, kElements = 50;

std::string name(int i) { return "key" + std::to_string(100 + i); }
std::string element(int collection, int i) {
  return element_range(name(collection), static_cast<Generation>(collection) + 1).start + std::to_string(1000 + i);
}

/// Writes strings with odd numbers, and collections with even numbers. Deletes every tenth element.
void fill(Harness& h) {
  for (int c = 0; c < 2 * kCollections; ++c) {
    if (c % 2 == 1) {
      h.put(0, name(c), "v");
      continue;
    }
    WriteBatch batch;
    for (int i = 0; i < kElements; ++i) {
      const Millis expiry = i == 7 ? h.db->now() + 5'000 : 0;
      batch.put(0, element(c, i), "e", {.expiry = expiry, .element = true});
    }
    batch.put(0, name(c), header_start(1, 0, static_cast<Generation>(c) + 1), {.kind = EntryKind::kHeader});
    h.write(batch);
    WriteBatch removal;
    for (int i = 0; i < kElements; i += 10) removal.del(0, element(c, i), true);
    h.write(removal);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (int c = 0; c < 2 * kCollections; ++c) out.push_back(name(c));
  return out;
}

std::vector<std::string> scan(Harness& h, bool forward, std::uint64_t max_steps, bool elements) {
  IteratorOptions options;
  options.max_steps = max_steps;
  options.elements = elements;
  const auto it = h.db->iterate(h.db->lease(0), options);
  std::vector<std::string> out;
  const auto resume = [&] {
    while (it->paused()) {
      const std::string from(it->resume_key());
      forward ? it->seek(from) : it->seek_before(from);
    }
  };
  forward ? it->seek_to_first() : it->seek_to_last();
  for (resume(); it->valid(); resume()) {
    out.emplace_back(it->key());
    forward ? it->next() : it->prev();
  }
  REQUIRE(it->status().is_ok());
  if (!forward) std::reverse(out.begin(), out.end());
  return out;
}

Settings settings_of(StampMode stamp) {
  Settings s = Harness::small();
  s.tree.stamp = stamp;
  s.tree.pages_per_tile = 4;
  return s;
}

TEST_CASE("database has large collections: scans show only the collections' keys, or their elements if requested") {
  Harness h;
  h.open();
  fill(h);
  if (GENERATE(false, true)) REQUIRE(h.db->flush(0).is_ok());
  for (const std::uint64_t max_steps : {0, 1, 3}) {
    for (const bool forward : {true, false}) {
      CHECK(scan(h, forward, max_steps, false) == names());
      CHECK(scan(h, forward, max_steps, true).size() == 2 * kCollections + kCollections * kElements * 9 / 10);
    }
  }
}

TEST_CASE("iterator passes over the elements of a collection: these count as one step of the iterator") {
  Harness h;
  h.open();
  fill(h);
  REQUIRE(h.db->flush(0).is_ok());
  const auto it = h.db->iterate(h.db->lease(0), {});
  for (it->seek_to_first(); it->valid(); it->next()) {
  }
  CHECK(it->steps() == kCollections);
}

TEST_CASE("database has large collections: counts and estimates count each collection as one key") {
  Harness h;
  h.open();
  fill(h);
  for (const bool flushed : {false, true}) {
    if (flushed) REQUIRE(h.db->flush(0).is_ok());
    CHECK(h.db->count(0, {}).value() == 2 * kCollections);
    CHECK(h.db->estimate_keys(0, {}) == 2 * kCollections);
    CHECK(h.db->sample_keys(0, 1).value() == 2 * kCollections);
  }
}

TEST_CASE("elements of collections have expiries: expiring_keys() lists these elements") {
  Harness h;
  h.open();
  fill(h);
  h.put(0, name(1), "v", h.db->now() + 4'000);
  if (GENERATE(false, true)) REQUIRE(h.db->flush(0).is_ok());
  std::vector<ExpiringKey> found;
  REQUIRE(h.db->expiring_keys(0, 0, h.db->now() + 10'000, 100, &found).is_ok());
  std::vector<std::string> keys, expected{name(1)};
  for (int c = 0; c < 2 * kCollections; c += 2) expected.push_back(element(c, 7));
  for (const ExpiringKey& key : found) keys.push_back(key.key);
  std::sort(keys.begin(), keys.end());
  std::sort(expected.begin(), expected.end());
  CHECK(keys == expected);
}

TEST_CASE("delete by stamp covers every stamp: headers are hidden, elements stay until the reaper deletes them") {
  const StampMode mode = GENERATE(StampMode::kWriteTime, StampMode::kExpireTime, StampMode::kExplicit);
  Harness h(settings_of(mode));
  h.open();
  fill(h);
  const bool flushed = GENERATE(false, true);
  if (flushed) REQUIRE(h.db->flush(0).is_ok());
  WriteBatch batch;
  batch.delete_stamps(0, 0, kDeleteKeyEnd);
  h.write(batch);
  CHECK(scan(h, true, 0, false).size() == (mode == StampMode::kWriteTime ? 0 : 2 * kCollections));
  Found found;
  const std::string key = element(0, 1);
  REQUIRE(h.db->lease(0).get({key, hash_key(key)}, &found).is_ok());
  CHECK(found.stamp == kNoStamp);
  if (mode != StampMode::kWriteTime) return;
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(h.db->compact(0, {}).is_ok());
  REQUIRE(h.db->lease(0).get({key, hash_key(key)}, &found).is_ok());
  for (int i = 0; i < 3; ++i) {
    h.advance(500);
    h.settle();
  }
  CHECK(h.db->lease(0).get({key, hash_key(key)}, &found).is_not_found());
}

TEST_CASE("elements are in log or tables: the database has them after a restart, and verify finds no error") {
  Harness h(settings_of(StampMode::kWriteTime));
  h.open();
  fill(h);
  const bool flushed = GENERATE(false, true);
  if (flushed) REQUIRE(h.db->flush(0).is_ok());
  h.reopen();
  CHECK(scan(h, true, 0, false) == names());
  CHECK(scan(h, true, 0, true).size() == 2 * kCollections + kCollections * kElements * 9 / 10);
  h.verify(0);
}

}  // namespace TEST_FILE

// Tests of the choice of buckets, and of growth while a writer is stopped after any of its instructions. memtable/hash_index.h
// describes the cases that are tested.
#include "memtable/hash_index.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#ifdef __x86_64__
#include "support/stepped_thread.h"
#endif

namespace ebbtide {
namespace TEST_FILE {

TEST_CASE("hashes of keys end in the same bits: the keys are still spread over the buckets") {
  Arena arena;
  const HashIndex index(std::size_t{1} << 20, arena);
  std::vector<std::size_t> counts(index.buckets());
  constexpr std::size_t kKeys = 1024;
  for (std::uint64_t high = 0; high < kKeys; ++high) ++counts[index.bucket_number((high << 20) | 0x5a5a5)];
  CHECK(*std::max_element(counts.begin(), counts.end()) < 4 * (kKeys / counts.size() + 1));
}
#ifdef __x86_64__

constexpr std::size_t kFirst = 8, kGrown = 64, kSlots = 7;  // buckets before and after the growth; keys in a bucket

/// A key that no other test object has, with its node. It lives as long as the index.
struct Key {
  std::string name;
  KeyNode* node = nullptr;
  LookupKey lookup;
};

/// An index of eight buckets. The eighth key of a bucket makes it grow to 64. From then on each added key moves two of the eight
/// buckets.
class Growing {
 public:
  Growing() : index_(4 * kGrown, arena_) {
    // After this no operation needs a new block of the arena, which would take a lock.
    while (arena_.memory_bytes() < (256 << 10)) (void)arena_.allocate(512);
    REQUIRE(index_.buckets() == kFirst);
    for (std::size_t i = 0; i < kSlots; ++i) add(key_in(kFirst - 1));
    add(key_in(0));
    add(key_in(1));
  }
  HashIndex& index() { return index_; }
  /// Returns a new key whose bucket of the first table is `bucket`.
  const Key& key_in(std::size_t bucket) {
    for (;;) {
      std::string name = std::to_string(next_++);
      const std::uint64_t hash = hash_key(name);
      if (ungrown_.bucket_number(hash) != bucket) continue;
      keys_.push_back(std::make_unique<Key>());
      Key& key = *keys_.back();
      key.name = std::move(name);
      key.node = KeyNode::create(arena_.allocate(KeyNode::bytes_for(key.name.size())), key.name);
      key.lookup = {key.name, hash};
      return key;
    }
  }
  void add(const Key& key) {
    index_.add(key.lookup, key.node);
    added_.push_back(&key);
  }
  /// Fills the first table, which moves buckets 0 and 1.
  void begin() {
    add(key_in(kFirst - 1));
    REQUIRE(index_.buckets() == kGrown);
  }
  /// Moves the other six buckets.
  void end() {
    for (std::size_t i = 0; i < kFirst; ++i) add(key_in(2 + i % 5));
  }
  [[nodiscard]] bool has(const Key& key) const { return index_.find(key.lookup) == key.node; }
  [[nodiscard]] bool has_all() const {
    for (const Key* key : added_) {
      if (!has(*key)) return false;
    }
    return true;
  }

 private:
  Arena arena_;
  HashIndex index_;
  const HashIndex ungrown_{4 * kGrown, arena_};  // its table has eight buckets
  std::uint64_t next_ = 0;
  std::vector<std::unique_ptr<Key>> keys_;
  std::vector<const Key*> added_;
};

/// Returns where the writer is stopped next: after each of the first 400 instructions, then less often. Calls take more than 400
/// instructions only under sanitizers.
std::uint64_t next_stop(std::uint64_t steps) { return steps + 1 + steps / 400; }

/// Returns the number of instructions of add() until other threads find the key.
std::uint64_t steps_until_found() {
  std::uint64_t steps = 0;
  for (int i = 0; i < 2; ++i) {  // the first call also resolves the function's address; the second one counts
    Growing g;
    const Key& key = g.key_in(0);
    SteppedThread writer([&] { g.index().add(key.lookup, key.node); });
    for (steps = 0; !g.has(key); ++steps) REQUIRE(writer.run(1));
  }
  REQUIRE(steps > 10);
  return steps;
}

TEST_CASE("hash index grows while a writer is stopped anywhere in add(): the key is found once add() has returned") {
  bool stopped = true;
  std::uint64_t steps = 0;
  for (; stopped; steps = next_stop(steps)) {
    INFO("stopped after " << steps << " instructions");
    Growing g;
    const Key& key = g.key_in(0);
    SteppedThread writer([&] { g.index().add(key.lookup, key.node); });
    stopped = writer.run(steps);
    g.begin();
    g.end();
    REQUIRE(g.has_all());
    writer.finish();
    REQUIRE(g.has(key));
  }
  CHECK(steps > 20);
}

TEST_CASE("writer stops while moving buckets, and others finish: each key is always found") {
  bool stopped = true;
  std::uint64_t steps = 0;
  for (; stopped; steps = next_stop(steps)) {
    INFO("stopped after " << steps << " instructions");
    Growing g;
    for (std::size_t bucket = 2; bucket < 6; ++bucket) g.add(g.key_in(bucket));
    g.begin();
    const Key& key = g.key_in(0);
    SteppedThread writer([&] { g.index().add(key.lookup, key.node); });
    stopped = writer.run(steps);
    REQUIRE(g.has_all());
    g.end();
    REQUIRE(g.has_all());
    writer.finish();
    REQUIRE(g.has(key));
    REQUIRE(g.has_all());
  }
  CHECK(steps > 20);
}

TEST_CASE("node was added to an already moved part of the old table: once a writer finds the node, every later lookup does") {
  const std::uint64_t until_found = steps_until_found();
  Growing g;
  const Key& key = g.key_in(0);
  SteppedThread other([&] { g.index().add(key.lookup, key.node); });
  REQUIRE(other.run(until_found - 1));  // the writer is about to fill a slot of the old table
  g.begin();
  REQUIRE_FALSE(g.has(key));
  REQUIRE(other.run(1));
  REQUIRE(g.index().find_to_write(key.lookup) == key.node);
  g.end();
  CHECK(g.has(key));
}

TEST_CASE("writer stops in find_to_write(), then finds an old node: every later lookup finds the node") {
  const std::uint64_t until_found = steps_until_found();
  bool stopped = true;
  std::uint64_t steps = 0, found = 0;
  for (; stopped; steps = next_stop(steps)) {
    INFO("stopped after " << steps << " instructions");
    Growing g;
    const Key& key = g.key_in(0);
    KeyNode* node = nullptr;
    SteppedThread writer([&] { node = g.index().find_to_write(key.lookup); });
    SteppedThread other([&] { g.index().add(key.lookup, key.node); });
    REQUIRE(other.run(until_found - 1));
    stopped = writer.run(steps);
    g.begin();
    g.end();
    REQUIRE(other.run(1));
    writer.finish();
    if (node == nullptr) continue;
    ++found;
    REQUIRE(node == key.node);
    REQUIRE(g.has(key));
  }
  CHECK(steps > 20);
  CHECK(found > 5);
}

#endif  // __x86_64__

}  // namespace TEST_FILE
}  // namespace ebbtide

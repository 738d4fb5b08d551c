#include "memtable/btree.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"

namespace ebbtide {
namespace TEST_FILE {

KeyNode* make_key(Arena& arena, Bytes key) { return KeyNode::create(arena.allocate(KeyNode::bytes_for(key.size())), key); }

/// Returns a key from families that test the limits of words: common prefixes below, at and above a node's maximum; keys that are
/// prefixes of others; zeros (the padding of words); and appends at several positions at once.
std::string similar_key(Random& random, std::uint64_t seed) {
  static const std::size_t kHeads[] = {0, 1, 7, 8, 9, 31, 32, 39, 40, 41, 48, 60};
  std::string key(kHeads[random.uniform(1 + seed % 12)], 'h');
  if (random.one_in(50)) key = key.substr(0, key.size() / 2);
  if (random.one_in(3)) {
    for (std::uint64_t n = random.uniform(12); n > 0; n--)
      key.push_back(static_cast<char>(random.one_in(2) ? 0 : random.uniform(3)));
  } else {
    std::string digits = std::to_string(random.uniform(100'000));
    key += std::string(9 - digits.size(), '0') + digits;
  }
  return key;
}

void check_same(const BTree& tree, const std::set<std::string>& model) {
  BTree::Cursor cursor(&tree);
  auto at = model.begin();
  for (cursor.seek_to_first(); cursor.node() != nullptr; cursor.next(), ++at) {
    REQUIRE(at != model.end());
    REQUIRE(cursor.node()->key() == *at);
  }
  REQUIRE(at == model.end());
  for (cursor.seek_to_last(); cursor.node() != nullptr; cursor.prev()) {
    REQUIRE(at != model.begin());
    REQUIRE(cursor.node()->key() == *--at);
  }
  REQUIRE(at == model.begin());
}

void check_seeks(const BTree& tree, const std::set<std::string>& model, const std::string& key) {
  CAPTURE(key);
  BTree::Cursor cursor(&tree);
  cursor.seek(key);
  auto at = model.lower_bound(key);
  REQUIRE((cursor.node() != nullptr) == (at != model.end()));
  if (at != model.end()) REQUIRE(cursor.node()->key() == *at);
  cursor.seek_before(key);
  REQUIRE((cursor.node() != nullptr) == (at != model.begin()));
  if (at != model.begin()) REQUIRE(cursor.node()->key() == *std::prev(at));
}

TEST_CASE("keys have any common prefix: the B+ tree has the same keys as a set") {
  for (std::uint64_t seed = 1; seed <= 36; seed++) {
    CAPTURE(seed);
    Random random(seed);
    Arena arena(64 << 10);
    BTree tree(arena);
    std::set<std::string> model;
    check_same(tree, model);
    const std::uint64_t count = 1 + random.uniform(9000);
    for (std::uint64_t i = 0; i < count; i++) {
      const std::string key = similar_key(random, seed);
      KeyNode* node = make_key(arena, key);
      KeyNode* there = tree.insert(node);
      REQUIRE((there == node) == model.insert(key).second);
      REQUIRE(there->key() == key);
      if (random.one_in(20)) check_seeks(tree, model, similar_key(random, seed));
    }
    check_same(tree, model);
    for (const std::string& key : model) {
      check_seeks(tree, model, key);
      check_seeks(tree, model, key + '\0');
    }
  }
}

TEST_CASE("keys are inserted in rising, falling and interleaved order: the B+ tree has every key") {
  Arena arena;
  for (int order = 0; order < 3; order++) {
    CAPTURE(order);
    BTree tree(arena);
    std::set<std::string> model;
    for (int i = 0; i < 20'000; i++) {
      const int number = order == 1 ? 20'000 - i : i;
      const std::string list = order == 2 ? std::to_string(i % 7) : "";
      const std::string key = "list" + list + ":" + std::to_string(10'000'000 + number);
      KeyNode* node = make_key(arena, key);
      REQUIRE(tree.insert(node) == node);
      model.insert(key);
    }
    check_same(tree, model);
  }
}

TEST_CASE("writers race for the same keys: each key gets one node, and readers find every key inserted before", "[threads]") {
  constexpr unsigned kWriters = 3;
  constexpr unsigned kKeys = 8000;
  Arena arena;
  BTree tree(arena);
  std::set<std::string> early;
  for (unsigned i = 0; i < kKeys; i += 10) {
    const std::string key = "some:common:start:" + std::to_string(i * 7919 % kKeys);
    tree.insert(make_key(arena, key));
    early.insert(key);
  }
  std::vector<std::vector<KeyNode*>> got(kWriters, std::vector<KeyNode*>(kKeys));
  std::atomic<unsigned> running{kWriters};
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < kWriters; w++) {
    threads.emplace_back([&, w] {
      for (unsigned i = 0; i < kKeys; i++) {
        const unsigned number = (w == 2 ? kKeys - 1 - i : i) * 7919 % kKeys;
        const std::string key = "some:common:start:" + std::to_string(number);
        got[w][number] = tree.insert(make_key(arena, key));
        BTree::Cursor cursor(&tree);
        cursor.seek(key);
        if (cursor.node() != got[w][number]) failed = true;
      }
      running--;
    });
  }
  for (int walker = 0; walker < 2; walker++) {
    threads.emplace_back([&, walker] {
      while (running.load() != 0) {
        BTree::Cursor cursor(&tree);
        std::size_t met = 0;
        std::string last;
        bool any = false;
        for (walker == 0 ? cursor.seek_to_first() : cursor.seek_to_last(); cursor.node() != nullptr;
             walker == 0 ? cursor.next() : cursor.prev()) {
          const std::string key(cursor.node()->key());
          if (any && (walker == 0 ? last >= key : last <= key)) failed = true;
          any = true;
          met += early.count(key);
          last = key;
        }
        if (met != early.size()) failed = true;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK_FALSE(failed);
  for (unsigned i = 0; i < kKeys; i++) {
    REQUIRE(got[0][i] != nullptr);
    REQUIRE(got[0][i] == got[1][i]);
    REQUIRE(got[0][i] == got[2][i]);
  }
}

}  // namespace TEST_FILE
}  // namespace ebbtide

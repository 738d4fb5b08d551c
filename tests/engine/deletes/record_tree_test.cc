#include "deletes/record_tree.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

#include "base/random.h"

namespace ebbtide {
namespace TEST_FILE {

/// Checks that every part of the tree describes the records below it. Returns these records.
std::vector<Record> checked(const RecordPart& part, bool by_range, std::size_t depth, std::size_t* leaf_depth) {
  std::vector<Record> below;
  if (part.is_leaf()) {
    if (*leaf_depth == 0) *leaf_depth = depth;
    REQUIRE(*leaf_depth == depth);
    REQUIRE(part.size <= 64);
    below.assign(part.leaf().begin(), part.leaf().end());
  } else {
    REQUIRE(part.size <= 32);
    DeleteKey reach = 0;
    for (const RecordPart& child : part.inner()) {
      const auto more = checked(child, by_range, depth + 1, leaf_depth);
      reach = std::max(reach, child.max_hi);
      REQUIRE(child.reach == reach);
      below.insert(below.end(), more.begin(), more.end());
    }
  }
  REQUIRE(!below.empty());
  REQUIRE(part.count == below.size());
  REQUIRE(part.first == below.front());
  const auto least = [&](auto field) {
    return (*std::min_element(below.begin(), below.end(), [&](auto& a, auto& b) { return a.*field < b.*field; })).*field;
  };
  const auto most = [&](auto field) {
    return (*std::max_element(below.begin(), below.end(), [&](auto& a, auto& b) { return a.*field < b.*field; })).*field;
  };
  REQUIRE(part.min_lo == least(&Record::lo));
  REQUIRE(part.max_lo == most(&Record::lo));
  REQUIRE(part.min_hi == least(&Record::hi));
  REQUIRE(part.max_hi == most(&Record::hi));
  REQUIRE(part.min_seq == least(&Record::seq));
  REQUIRE(part.max_seq == most(&Record::seq));
  REQUIRE(part.min_birth == known_birth(least(&Record::birth)));
  if (!by_range) return below;
  bool disjoint = true, gapless = true;
  DeleteKey end = below.front().hi;
  for (std::size_t i = 1; i < below.size(); ++i) {
    disjoint &= below[i].lo >= end;
    gapless &= below[i].lo <= end;
    end = std::max(end, below[i].hi);
  }
  // A wide record of an earlier part may close a gap; an inner node need not know this.
  if (part.is_leaf() || disjoint || part.gapless) REQUIRE(part.gapless == gapless);
  if (part.is_leaf()) REQUIRE(part.disjoint == disjoint);
  return below;
}

template <typename Order>
std::vector<Record> checked(const RecordTree<Order>& tree) {
  std::size_t leaf_depth = 0;
  if (tree.empty()) return {};
  return checked(tree.root(), std::is_same_v<Order, ByRange>, 1, &leaf_depth);
}

void note_nodes(const RecordPart& part, std::set<const void*>* nodes) {
  nodes->insert(part.is_leaf() ? static_cast<const void*>(part.records.get()) : part.parts.get());
  if (part.is_leaf()) return;
  for (const RecordPart& below : part.inner()) note_nodes(below, nodes);
}

template <typename Order>
void change_at_random(std::uint64_t seed) {
  Random random(seed);
  RecordTree<Order> tree;
  std::vector<Record> all;
  SeqNum seq = 0;
  for (int round = 0; round < 40; ++round) {
    CAPTURE(seed, round);
    std::vector<Record> removed, added, kept;
    const std::uint64_t share = random.uniform(4) == 0 ? 90 : random.uniform(30);  // the percentage of records that are removed
    for (const Record& record : all) (random.uniform(100) < share ? removed : kept).push_back(record);
    for (std::uint64_t n = random.uniform(random.one_in(3) ? 1500 : 20); n > 0; --n) {
      const DeleteKey lo = random.uniform(random.one_in(4) ? 100 : 1'000'000);
      added.push_back({lo, lo + 1 + random.uniform(random.one_in(9) ? 500'000 : 300), ++seq, random.uniform(1000)});
    }
    // A record that changes its birth is removed and added.
    for (const Record& record : removed) {
      if (!random.one_in(5)) continue;
      added.push_back(record);
      added.back().birth /= 2;
    }
    const RecordTree<Order> before = tree;
    tree = tree.changed(removed, added);
    REQUIRE(checked(before) == all);
    all = std::move(kept);
    all.insert(all.end(), added.begin(), added.end());
    std::sort(all.begin(), all.end(), Order::before);
    REQUIRE(checked(tree) == all);
    for (std::size_t i = 0; i < all.size(); i += 1 + random.uniform(100)) {
      REQUIRE(tree.at(i) == all[i]);
      REQUIRE(tree.rank([&](const Record& r) { return !Order::before(r, all[i]); }) == i);
    }
    REQUIRE(tree.rank([](const Record&) { return false; }) == all.size());
  }
}

TEST_CASE("tree of deletes by stamp is changed: it equals a sorted list, and the old tree stays as it was") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    change_at_random<ByRange>(seed);
    change_at_random<BySeq>(seed);
  }
}

TEST_CASE("large tree of deletes by stamp loses one: only the path of nodes to it is copied") {
  std::vector<Record> records;
  for (SeqNum i = 0; i < 100'000; ++i) records.push_back({10 * i, 10 * i + 10, i + 1, 1});
  const RecordTree<ByRange> tree = RecordTree<ByRange>().changed({}, records);
  std::set<const void*> before;
  note_nodes(tree.root(), &before);
  const RecordTree<ByRange> changed = tree.changed({records[777]}, {});
  std::set<const void*> after;
  note_nodes(changed.root(), &after);
  std::size_t fresh = 0;
  for (const void* node : after) fresh += before.count(node) == 0 ? 1 : 0;
  CHECK(fresh <= 4);
  CHECK(changed.size() == 99'999);
}

TEST_CASE("tree of deletes by stamp loses them one by one: it ends empty, and its height shrinks") {
  std::vector<Record> records;
  for (SeqNum i = 0; i < 5000; ++i) records.push_back({i, i + 1, i + 1, 1});
  RecordTree<ByRange> tree = RecordTree<ByRange>().changed({}, records);
  Random random(5);
  while (!records.empty()) {
    const std::size_t i = random.uniform(records.size());
    tree = tree.changed({records[i]}, {});
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(i));
    if (records.size() % 500 == 0) REQUIRE(checked(tree) == records);
  }
  CHECK(tree.empty());
  CHECK(tree.root().count == 0);
  CHECK(tree.memory_bytes() == 0);
}

}  // namespace TEST_FILE
}  // namespace ebbtide

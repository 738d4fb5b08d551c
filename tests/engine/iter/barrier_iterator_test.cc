#include "iter/barrier_iterator.h"

#include <catch2/catch.hpp>

#include "entries.h"
#include "iter/visible_iterator.h"

namespace ebbtide {
namespace TEST_FILE {

using testing::Owned;
using testing::VectorIterator;

const Status kWhy = Status::corruption("000007.meta: is missing");

/// Returns the stats of a table with keys from "d" to "m", up to seq 50, that cannot be read.
TableStats unreadable() {
  TableStats stats;
  stats.smallest = "d";
  stats.largest = "m";
  stats.max_seq = 50;
  return stats;
}

struct Walk {
  std::vector<Owned> newer, older;
  std::vector<RangeTombstone> tombstones{};  // the tombstones of the newer source
  TableStats stats = unreadable();

  std::unique_ptr<VisibleIterator> start(KeyRange bounds = {}) {
    std::vector<std::unique_ptr<InternalIterator>> children;
    children.push_back(std::make_unique<VectorIterator>(&newer));
    children.push_back(std::make_unique<BarrierIterator>(stats, bounds.start, kWhy));
    children.push_back(std::make_unique<VectorIterator>(&older));
    std::vector<TombstoneSource> sources;
    if (!tombstones.empty()) sources.push_back({0, {std::make_shared<FragmentedRangeTombstones>(std::span(tombstones))}});
    return std::make_unique<VisibleIterator>(std::make_unique<MergingIterator>(std::move(children)), std::move(sources),
                                             VisibleOptions{.bounds = bounds, .view_seq = 1000});
  }
  /// Returns the keys that a walk shows, and how it ended.
  std::string forward(KeyRange bounds = {}) {
    std::string out;
    const auto it = start(bounds);
    for (it->seek_to_first(); it->valid(); it->next()) out += std::string(it->entry().key) + " ";
    return out + (it->status().is_ok() ? "end" : it->status().to_string());
  }
  std::string backward() {
    std::string out;
    const auto it = start();
    for (it->seek_to_last(); it->valid(); it->prev()) out += std::string(it->entry().key) + " ";
    return out + (it->status().is_ok() ? "end" : it->status().to_string());
  }
};

Owned value(const std::string& key, SeqNum seq) {
  Owned entry;
  entry.key = key;
  entry.seq = seq;
  return entry;
}

const std::string kError = "corruption: 000007.meta: is missing";

TEST_CASE("table is unreadable: the iterator shows keys before the table, and then ends with the table's error") {
  Walk walk{{value("a", 90), value("e", 91)}, {value("b", 10), value("f", 11), value("z", 12)}};
  CHECK(walk.forward() == "a b " + kError);
  CHECK(walk.forward({"n", ""}) == "z end");
  CHECK(walk.forward({"", "d"}) == "a b end");
  CHECK(walk.forward({"e", "f"}) == "e " + kError);  // the entry of e is newer than the table
  CHECK(walk.forward({"f", "g"}) == kError);
  CHECK(walk.backward() == kError);
}

TEST_CASE("newer range tombstone covers an unreadable table: the iterator skips the table") {
  Walk walk{{value("a", 90), value("z", 91)}, {value("e", 10), value("y", 12)}, {{"c", "n", 95, 1}}};
  CHECK(walk.forward() == "a y z end");
  walk.tombstones = {{"c", "k", 95, 1}};
  CHECK(walk.forward() == "a " + kError);  // the table extends beyond the tombstone's end, k
  walk.tombstones = {{"c", "n", 40, 1}};
  CHECK(walk.forward() == "a " + kError);  // the table may have entries newer than the tombstone
}

TEST_CASE("iterator has max_steps 1 and reaches an unreadable table: it still ends with the table's error") {
  Walk walk{{value("a", 90)}, {value("b", 10)}, {{"d", "dd", 95, 1}}};
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(std::make_unique<VectorIterator>(&walk.newer));
  children.push_back(std::make_unique<BarrierIterator>(walk.stats, "", kWhy));
  std::vector<TombstoneSource> sources{{0, {std::make_shared<FragmentedRangeTombstones>(std::span(walk.tombstones))}}};
  VisibleIterator it(std::make_unique<MergingIterator>(std::move(children)), std::move(sources),
                     {.view_seq = 1000, .max_steps = 1});
  int moves = 0;
  for (it.seek_to_first(); (it.valid() || it.paused()) && moves < 100; ++moves) {
    if (it.paused()) {
      it.seek(std::string(it.resume_key()));
    } else {
      it.next();
    }
  }
  CHECK(moves < 20);
  CHECK(it.status().code() == Code::kCorruption);
}

}  // namespace TEST_FILE
}  // namespace ebbtide

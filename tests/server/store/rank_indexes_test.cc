#include "store/rank_indexes.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "store/collections.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMany = 1'000;

/// A sorted set "z" of kMany elements, whose header was written with seq 10.
class Indexed {
 public:
  Indexed() { indexes.start(std::make_shared<MemoryAccount>()); }

  RankIndexes::State state(SeqNum seq, std::uint64_t count = kMany) const {
    return {.database = 0, .key = "z", .seq = seq, .generation = 7, .which = ElementClass::kScore, .count = count};
  }
  std::optional<RankIndexes::Walk> open(const RankIndexes::State& state, SeqNum newest) {
    return indexes.open_at_rank(state, 500, [newest] { return newest; });
  }
  /// A batch that adds or removes an element, and writes the header.
  static WriteBatch batch(const std::string& name, bool added, std::uint64_t count, Generation generation = 7) {
    WriteBatch batch;
    ElementWriter writer(batch, 0, "z", generation);
    if (added) {
      writer.put(ElementClass::kScore, name, {});
    } else {
      writer.remove(ElementClass::kScore, name);
    }
    const LargeHeader header{.type = CollectionType::kSortedSet, .generation = generation, .count = count};
    batch.put(0, "z", header.encode(), {.kind = EntryKind::kHeader});
    return batch;
  }
  void commit(WriteBatch batch, SeqNum first) {
    RankIndexes::Changes changes = indexes.collect(batch);
    batch.set_header(first, 1, 0);
    indexes.apply(changes, batch);
  }

  RankIndexes indexes;
};

TEST_CASE("first reader of a collection splits its rank index: the next reader begins at its boundary") {
  Indexed z;
  const auto walk = z.open(z.state(10), 10);
  REQUIRE(walk);
  CHECK(walk->from.before == 0);
  REQUIRE(walk->ticket != 0);
  CHECK(z.open(z.state(10), 10)->ticket == 0);  // one reader at a time splits
  z.indexes.close(z.state(10), *walk, std::vector<RankIndex::Point>{{"b", 400}, {"c", 200}});
  CHECK(z.open(z.state(10), 10)->from.name == "b");
  CHECK(z.open(z.state(10), 10)->from.before == 400);
}

TEST_CASE("collection is written: readers of its new state use the rank index, and readers of its old state do not") {
  Indexed z;
  const auto walk = z.open(z.state(10), 10);
  z.commit(Indexed::batch("a1", true, kMany + 1), 11);  // the header is operation 12
  CHECK_FALSE(z.open(z.state(10), 12));
  REQUIRE(z.open(z.state(12, kMany + 1), 12));
  z.indexes.close(z.state(10), *walk, std::vector<RankIndex::Point>{{"b", 400}});
  CHECK(z.open(z.state(12, kMany + 1), 12)->from.before == 401);  // includes the element that the walk did not see
  z.commit(Indexed::batch("a1", false, kMany), 20);
  CHECK(z.open(z.state(21), 21)->from.before == 400);
}

TEST_CASE("collection is written while its rank index is made: the index is dropped") {
  Indexed z;
  CHECK_FALSE(z.open(z.state(10), 12));  // a newer header is there already
  const auto newest = [&] {
    z.commit(Indexed::batch("a1", true, kMany + 1), 11);  // its writer finds the index
    return SeqNum{10};
  };
  CHECK_FALSE(z.indexes.open_at_rank(z.state(10), 500, newest));
  REQUIRE(z.open(z.state(12, kMany + 1), 12));
}

TEST_CASE("rank index is made between a writer's collect() and its commit: the writer drops it") {
  Indexed z;
  WriteBatch batch = Indexed::batch("a1", true, kMany + 1);
  RankIndexes::Changes changes = z.indexes.collect(batch);
  REQUIRE(z.open(z.state(10), 10));
  batch.set_header(11, 1, 0);
  z.indexes.apply(changes, batch);
  CHECK(z.open(z.state(10), 10)->from.before == 0);  // a new index, since the old one was dropped
  CHECK(z.open(z.state(10), 10)->ticket == 0);
}

TEST_CASE("batch does not match the rank index, for example its count: the index is dropped") {
  Indexed z;
  const auto made = [&] { return z.open(z.state(10), 10)->ticket != 0; };  // true for a new index only
  REQUIRE(made());
  REQUIRE_FALSE(made());
  SECTION("batch has another number of elements") { z.commit(Indexed::batch("a1", true, kMany), 11); }
  SECTION("batch has another generation") { z.commit(Indexed::batch("a1", true, kMany + 1, 8), 11); }
  SECTION("key is deleted with its elements") {
    WriteBatch batch;
    const KeyRange range = element_range("z");
    batch.delete_range(0, range.start, range.end);
    z.commit(std::move(batch), 11);
  }
  SECTION("key is overwritten by a string") {
    WriteBatch batch;
    batch.put(0, "z", "v");
    z.commit(std::move(batch), 11);
  }
  SECTION("database is emptied") {
    WriteBatch batch;
    batch.flush_database(3);
    z.commit(std::move(batch), 11);
  }
  SECTION("drop_if() names the key") {
    z.indexes.drop_if([](DatabaseId database, Bytes key) { return database == 0 && key == "z"; });
  }
  CHECK(made());
}

TEST_CASE("another key or database is written: the rank index stays") {
  Indexed z;
  REQUIRE(z.open(z.state(10), 10));
  WriteBatch batch;
  batch.put(0, "zz", "v");
  batch.put(1, "z", "v");
  batch.del(0, "y");
  z.commit(std::move(batch), 11);
  CHECK(z.open(z.state(10), 10)->ticket == 0);
}

TEST_CASE("many readers see a newer header than the rank index has: the index is made again") {
  Indexed z;
  REQUIRE(z.open(z.state(10), 10));
  int refused = 0;
  while (!z.open(z.state(12), 12)) ++refused;
  CHECK(refused > 0);
  CHECK(refused < 20);
}

TEST_CASE("memory has no room for a rank index: no index is made, and no memory is charged") {
  RankIndexes indexes;
  auto account = std::make_shared<MemoryAccount>();
  account->set_limit(100, 0);
  indexes.start(account);
  const RankIndexes::State state{
      .database = 0, .key = "z", .seq = 10, .generation = 7, .which = ElementClass::kScore, .count = kMany};
  CHECK_FALSE(indexes.open_at_rank(state, 5, [] { return SeqNum{10}; }));
  CHECK(account->charged() == 0);
}

TEST_CASE("rank indexes exceed their number: the index that was used least recently is dropped") {
  Indexed z;
  REQUIRE(z.open(z.state(10), 10));
  for (std::size_t i = 0; i < RankIndexes::kMostIndexes; ++i) {
    const std::string key = "k" + std::to_string(i);
    RankIndexes::State state = z.state(10);
    state.key = key;
    REQUIRE(z.open(state, 10));
    if (i == 100) REQUIRE(z.open(z.state(10), 10)->ticket == 0);
  }
  CHECK(z.open(z.state(10), 10)->ticket == 0);
}

}  // namespace TEST_FILE

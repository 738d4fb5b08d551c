// Tests of the keys of index entries, and of the operations that change an entry.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <engine/collection_keys.h>
#include <engine/index.h>
#include "base/random.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;

std::string random_bytes(Random& random, std::size_t most) {
  std::string out(random.uniform(most + 1), ' ');
  for (char& c : out)
    c = "\x00\x01\x02\x03\xfe\xff"
        "ab"[random.uniform(8)];
  return out;
}

/// Returns the bytes as an engine key: 0x00 is followed by 0xff.
std::string engine_key(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    out += c;
    if (c == '\0') out += '\xff';
  }
  return out;
}

std::vector<WriteBatch::Op> operations(const WriteBatch& batch) {
  std::vector<WriteBatch::Op> out;
  std::size_t cursor = 0;
  for (WriteBatch::Op op; batch.next_op(&cursor, &op);) out.push_back(op);
  return out;
}

TEST_CASE("index entry is made of value and record: its key sorts by value, then record, and splits into both") {
  Random random(first_seed() + 1);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (int i = 0; i < 2000; ++i) pairs.emplace_back(random_bytes(random, 6), engine_key(random_bytes(random, 6)));
  std::sort(pairs.begin(), pairs.end());
  std::string last, value;
  for (const auto& [text, record] : pairs) {
    const std::string key = index_entry_key(text, record).value();
    CHECK(last <= key);
    CHECK(main_key_of(key) == key);
    Bytes split;
    REQUIRE(split_index_entry(key, &value, &split));
    CHECK(value == text);
    CHECK(split == record);
    last = key;
  }
}

TEST_CASE("range of values has inclusive or exclusive bounds: it contains exactly the entries with values in it") {
  Random random(first_seed() + 2);
  for (int i = 0; i < 20'000; ++i) {
    const std::string value = random_bytes(random, 3), low = random_bytes(random, 3), high = random_bytes(random, 3);
    const bool with_low = random.one_in(2), with_high = random.one_in(2);
    const KeyRange range = index_range(IndexBound{low, with_low}, IndexBound{high, with_high});
    const bool inside = (with_low ? low <= value : low < value) && (with_high ? value <= high : value < high);
    CHECK(range.contains(index_entry_key(value, engine_key(random_bytes(random, 3))).value()) == inside);
  }
  CHECK(index_range(std::nullopt, std::nullopt) == KeyRange{});
}

TEST_CASE("numbers are encoded for an index: the bytes sort like the numbers, and -0 is encoded like 0") {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> numbers = {-infinity, -1e300, -2.5, -1, -1e-320, 0, 5e-324, 1e-10, 1, 2, 255, 256, 1e18, infinity};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CHECK(number_of(ordered_number(numbers[i])) == numbers[i]);
    if (i > 0) CHECK(ordered_number(numbers[i - 1]) < ordered_number(numbers[i]));
  }
  CHECK(ordered_number(-0.0) == ordered_number(0.0));
}

TEST_CASE("value or record key is too long for an index entry: index_entry_key() returns nothing") {
  CHECK(index_entry_key(std::string(kMostIndexedBytes, 'v'), "k"));
  CHECK_FALSE(index_entry_key(std::string(kMostIndexedBytes + 1, 'v'), "k"));
  CHECK(index_entry_key("v", std::string(kMaxKeyBytes - 3, 'k')));
  CHECK_FALSE(index_entry_key("v", std::string(kMaxKeyBytes - 2, 'k')));
}

TEST_CASE("build position is stored: its key differs from the key of every entry, and contains the record's key") {
  Random random(first_seed() + 3);
  std::string value;
  Bytes split;
  for (int i = 0; i < 2000; ++i) {
    const std::string record = engine_key(random_bytes(random, 6));
    const std::string key = build_position_key(record).value();
    CHECK(build_positions().contains(key));
    CHECK(build_position_of(key) == record);
    CHECK(main_key_of(key) == key);
    CHECK_FALSE(split_index_entry(key, &value, &split));
    CHECK_FALSE(build_positions().contains(index_entry_key(random_bytes(random, 6), record).value()));
  }
  CHECK_FALSE(build_position_key(std::string(kMaxKeyBytes - 1, 'k')));
}

TEST_CASE("index entry of a record changes: the old key gets a tombstone only if the new key differs") {
  const DatabaseId tree = index_tree(2, 5);
  const IndexEntry a{.key = "a", .expiry = 70, .stamp = 7}, b{.key = "b"};
  WriteBatch batch;
  SECTION("it stays absent") {
    change_index_entry(&batch, tree, std::nullopt, std::nullopt);
    CHECK(batch.empty());
  }
  SECTION("it is new") {
    change_index_entry(&batch, tree, std::nullopt, a);
    const auto ops = operations(batch);
    REQUIRE(ops.size() == 1);
    CHECK((ops[0].kind == OpKind::kPut && ops[0].tree == tree && ops[0].key == "a" && ops[0].expiry == 70 && ops[0].stamp == 7));
  }
  SECTION("it is deleted") {
    change_index_entry(&batch, tree, a, std::nullopt);
    const auto ops = operations(batch);
    REQUIRE(ops.size() == 1);
    CHECK((ops[0].kind == OpKind::kTombstone && ops[0].tree == tree && ops[0].key == "a"));
    CHECK_FALSE(batch.adds_data());
  }
  SECTION("it gets another value") {
    change_index_entry(&batch, tree, a, b);
    const auto ops = operations(batch);
    REQUIRE(ops.size() == 2);
    CHECK((ops[0].kind == OpKind::kTombstone && ops[0].key == "a" && ops[1].kind == OpKind::kPut && ops[1].key == "b"));
  }
  SECTION("only its stamp changes") {
    change_index_entry(&batch, tree, a, IndexEntry{.key = "a", .stamp = 8});
    const auto ops = operations(batch);
    REQUIRE(ops.size() == 1);
    CHECK((ops[0].kind == OpKind::kPut && ops[0].stamp == 8 && ops[0].expiry == 0));
  }
  SECTION("it is new data in a batch of nothing else: a full disk refuses the batch") {
    change_index_entry(&batch, tree, std::nullopt, a, true);
    CHECK(batch.adds_data());
  }
  SECTION("the record loses a part in a batch that only deletes: the batch still only deletes") {
    batch.put(2, "record", "", {.shrinks = true});
    change_index_entry(&batch, tree, a, a);
    CHECK_FALSE(batch.adds_data());
  }
}

}  // namespace TEST_FILE

// Tests of the form of large collections: headers, names of elements, and what a change writes.
#include "store/collection/large.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

/// Returns the operations of a batch as text: "+name=value" or "-name", sorted.
std::vector<std::string> operations(const WriteBatch& batch, ElementKeys keys) {
  std::vector<std::string> out;
  std::size_t cursor = 0;
  for (WriteBatch::Op op; batch.next_op(&cursor, &op);) {
    CHECK(op.element);
    const std::string name(keys.name_of(op.key));
    out.push_back(op.kind == OpKind::kPut ? "+" + name + "=" + std::string(op.value) : "-" + name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

template <typename Elements>
std::vector<std::string> changes(const Elements& before, const Elements& after) {
  WriteBatch batch;
  ElementWriter writer(batch, 0, "key", 7);
  write_changes(writer, before, after);
  return operations(batch, ElementKeys("key", 7));
}

TEST_CASE("header of a large collection is encoded: decoding returns the same header, and damaged bytes are refused") {
  for (const CollectionType type :
       {CollectionType::kHash, CollectionType::kSet, CollectionType::kSortedSet, CollectionType::kList}) {
    LargeHeader header{.type = type, .generation = 300, .count = 20'000};
    if (type == CollectionType::kList) {
      header.first = kFirstPosition;
      header.last = kFirstPosition + 19'999 * kPositionStep;
    } else {
      header.dead = 200;
      header.dead_above = 1;
    }
    if (type == CollectionType::kSortedSet) {
      header.lowest = bound_of(scored_name({1, "a"}));
      header.highest = bound_of(scored_name({1, std::string(100, 'b')}));
    }
    const std::string bytes = header.encode();
    const auto read = LargeHeader::decode(bytes);
    const auto start = LargeHeader::start_of(bytes);
    REQUIRE(start);
    CHECK(start->generation == header.generation);
    CHECK(start->count == header.count);
    REQUIRE(read.is_ok());
    CHECK(read->type == type);
    CHECK(read->generation == 300);
    CHECK(read->count == 20'000);
    CHECK(read->first == header.first);
    CHECK(read->last == header.last);
    CHECK(read->dead == header.dead);
    CHECK(read->dead_below == 0);
    CHECK(read->dead_above == header.dead_above);
    CHECK(read->lowest == header.lowest);
    CHECK(read->highest == header.highest);
    CHECK(collection_type_of(bytes) == type);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      CHECK_FALSE(LargeHeader::decode(bytes.substr(0, length)).is_ok());
    CHECK_FALSE(LargeHeader::decode(bytes + "x").is_ok());
  }
  LargeHeader gap{.type = CollectionType::kList, .generation = 1, .count = 2, .first = kFirstPosition, .last = kFirstPosition};
  CHECK_FALSE(LargeHeader::decode(gap.encode()).is_ok());
  LargeHeader turned{.type = CollectionType::kSortedSet, .generation = 1, .count = 2};
  turned.lowest = scored_name({2, "a"});
  turned.highest = scored_name({1, "a"});
  CHECK_FALSE(LargeHeader::decode(turned.encode()).is_ok());
}

TEST_CASE("member's name is shortened to a bound: the lower bound is at or before the name, the upper bound after it") {
  const std::string cut = bound_of(scored_name({1, std::string(70, '\xff')}));
  for (const std::string& member : {std::string(), std::string("a"), std::string(60, 'b'), std::string(70, '\xff')}) {
    const std::string name = scored_name({1, member});
    CHECK(bound_of(name) <= name);
    CHECK(behind_bound(bound_of(name)) > name);
  }
  CHECK(behind_bound("abc") == std::string("abc\0", 4));
  CHECK(behind_bound(cut) > scored_name({1, std::string(500, '\xff')}));
  CHECK(behind_bound(cut) <= scored_name({1.0000001, ""}));
  CHECK(behind_bound(bound_of(scored_name({std::numeric_limits<double>::infinity(), std::string(90, '\xff')}))).size() <= 8);
}

TEST_CASE("header of a large hash with expiring fields is encoded: decoding returns the same, but refuses damaged bytes") {
  const FieldExpiries expiries{.persistent = 0, .soonest = 5, .latest = 900, .key_expiry = 0};
  const LargeHeader header{.type = CollectionType::kHash, .generation = 300, .count = 200, .expiries = expiries};
  const std::string bytes = header.encode();
  const auto read = LargeHeader::decode(bytes);
  REQUIRE(read.is_ok());
  REQUIRE(read->expiries);
  CHECK(read->count == 200);
  CHECK(read->expiries->soonest == 5);
  CHECK(read->expiries->latest == 900);
  CHECK(read->counts_expired(5));
  CHECK_FALSE(read->counts_expired(4));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK_FALSE(LargeHeader::decode(bytes.substr(0, length)).is_ok());
  }
  CHECK_FALSE(LargeHeader::decode(bytes + "x").is_ok());

  for (const FieldExpiries& wrong : {FieldExpiries{.persistent = 200, .soonest = 5}, FieldExpiries{.persistent = 1, .latest = 5},
                                     FieldExpiries{.persistent = 0, .soonest = 5}}) {
    const LargeHeader damaged{.type = CollectionType::kHash, .generation = 300, .count = 200, .expiries = wrong};
    CHECK_FALSE(LargeHeader::decode(damaged.encode()).is_ok());
  }
  const LargeHeader set{.type = CollectionType::kSet, .generation = 300, .count = 200, .expiries = expiries};
  CHECK_FALSE(LargeHeader::decode(set.encode()).is_ok());
}

TEST_CASE("all fields of a hash expire: the key expires with the last field, or at its own expiry if that is earlier") {
  LargeHeader header{.type = CollectionType::kHash, .generation = 1, .count = 2};
  CHECK(header.entry_expiry(0) == 0);
  CHECK(header.entry_expiry(70) == 70);
  header.expiries = FieldExpiries{.persistent = 1, .soonest = 5};
  CHECK(header.entry_expiry(0) == 0);
  CHECK(header.entry_expiry(70) == 70);
  header.expiries = FieldExpiries{.persistent = 0, .soonest = 5, .latest = 60};
  CHECK(header.entry_expiry(0) == 60);
  CHECK(header.entry_expiry(50) == 50);
  CHECK(header.entry_expiry(70) == 60);
}

TEST_CASE("expiries of fields change: elements named after the expiries are rewritten, and sort by expiry") {
  const auto x = [](Millis expiry, Bytes field) { return "x" + expiry_name(expiry, field); };
  CHECK(x(255, "b") < x(256, "a"));
  CHECK(expiring_field_of(expiry_name(256, "a"))->expiry == 256);
  CHECK(expiring_field_of(expiry_name(256, "a"))->field == "a");
  CHECK_FALSE(expiring_field_of("short"));
  CHECK(is_field_expiry(ElementKeys("key", 7).of(ElementClass::kExpiry, expiry_name(256, "a"))));
  CHECK_FALSE(is_field_expiry(ElementKeys("key", 7).of(ElementClass::kField, "a")));
  CHECK_FALSE(is_field_expiry("key"));

  WriteBatch batch;
  ElementWriter writer(batch, 0, "key", 7);
  const Hash before{{"gone", "1", 10}, {"kept", "1", 20}, {"later", "1", 30}, {"persisted", "1", 40}, {"plain", "1"}};
  const Hash after{{"kept", "1", 20}, {"later", "1", 35}, {"new", "1", 50}, {"persisted", "1"}, {"plain", "1", 60}};
  write_changes(writer, before, after);
  std::map<std::string, Millis> put;
  std::vector<std::string> removed;
  ElementKeys keys("key", 7);
  std::size_t cursor = 0;
  for (WriteBatch::Op op; batch.next_op(&cursor, &op);) {
    const std::string name = op.key[keys.overhead() - 1] + std::string(keys.name_of(op.key));
    op.kind == OpKind::kPut ? void(put[name] = op.expiry) : removed.push_back(name);
  }
  CHECK(put == std::map<std::string, Millis>{{"flater", 35},
                                             {x(35, "later"), 35},
                                             {"fnew", 50},
                                             {x(50, "new"), 50},
                                             {"fpersisted", 0},
                                             {"fplain", 60},
                                             {x(60, "plain"), 60}});
  std::sort(removed.begin(), removed.end());
  CHECK(removed == std::vector<std::string>{"fgone", x(10, "gone"), x(30, "later"), x(40, "persisted")});
}

TEST_CASE("sorted set scores are encoded as bytes: the bytes sort like the numbers, and are read back") {
  const double infinity = std::numeric_limits<double>::infinity();
  const double scores[] = {-infinity, -1e300, -2, -1, -1e-300, 0, 1e-300, 1, 2, 1e300, infinity};
  for (std::size_t i = 0; i < std::size(scores); ++i) {
    const std::string name = ordered_score(scores[i]) + "member";
    const auto read = scored_member_of(name);
    REQUIRE(read);
    CHECK(read->score == scores[i]);
    CHECK(read->member == "member");
    if (i > 0) CHECK(ordered_score(scores[i - 1]) < ordered_score(scores[i]));
    CHECK(score_of(score_bytes(scores[i])) == scores[i]);
  }
  CHECK(ordered_score(-0.0) == ordered_score(0.0));
  CHECK_FALSE(scored_member_of("short"));
  CHECK_FALSE(score_of("short"));
}

TEST_CASE("some elements of a collection change: only these are written, and removed elements get tombstones") {
  CHECK(changes(Hash{{"a", "1"}, {"b", "2"}, {"c", "3"}}, Hash{{"c", "3"}, {"d", "4"}, {"b", "5"}}) ==
        std::vector<std::string>{"+b=5", "+d=4", "-a"});
  CHECK(changes(Set{"a", "b"}, Set{"b", "c"}) == std::vector<std::string>{"+c=", "-a"});
  const std::vector<std::string> scored = changes(SortedSet{{1, "a"}, {2, "b"}}, SortedSet{{2, "b"}, {3, "a"}});
  CHECK(scored.size() == 3);  // the old position, the new position, and the score
  CHECK(std::count_if(scored.begin(), scored.end(), [](const std::string& op) { return op[0] == '-'; }) == 1);
  CHECK(changes(SortedSet{{1, "a"}}, SortedSet{}).size() == 2);
  CHECK(changes(Hash{{"a", "1"}}, Hash{{"a", "1"}}).empty());
}

TEST_CASE("range delete covers a collection, only its elements, or other keys: collection_of_range() tells which") {
  const std::string key("k\x00\xff", 3);
  const KeyRange all = element_range(key), generation = element_range(key, 5);
  CHECK(collection_of_range(key, all.end) == Bytes(key));
  CHECK(collection_of_range(all.start, all.end) == Bytes());
  CHECK(collection_of_range(generation.start, generation.end) == Bytes());
  CHECK_FALSE(collection_of_range("a", "b"));
  CHECK_FALSE(collection_of_range("a", ""));
  CHECK_FALSE(collection_of_range("j", all.end));
}

/// A list in the form of a large collection: elements by position.
struct StoredList {
  std::map<std::string, std::string> elements;  // by name
  LargeHeader header{.type = CollectionType::kList, .generation = 7, .first = kFirstPosition};
  std::size_t written = 0;

  explicit StoredList(const std::string& letters) {
    for (std::size_t i = 0; i < letters.size(); ++i)
      elements[position_name(kFirstPosition + i * kPositionStep)] = letters.substr(i, 1);
    header.last = kFirstPosition + (letters.size() - 1) * kPositionStep;
  }
  /// Returns a list whose elements are the letters.
  static List split(const std::string& letters) {
    List list;
    for (std::size_t i = 0; i < letters.size(); ++i) list.push_back(Bytes(letters).substr(i, 1));
    return list;
  }
  void change(const std::string& before, const std::string& after) {
    const List from = split(before), to = split(after);
    const ListDifference difference = ListDifference::of(from, to);
    WriteBatch batch;
    ElementWriter writer(batch, 0, "key", 7);
    write_changes(writer, from, to, difference, &header);
    ElementKeys keys("key", 7);
    std::size_t cursor = 0;
    for (WriteBatch::Op op; batch.next_op(&cursor, &op);) apply(op, keys);
    CHECK(written <= difference.written(to.size()));
  }
  void apply(const WriteBatch::Op& op, ElementKeys& keys) {
    const std::string name(keys.name_of(op.key));
    if (op.kind == OpKind::kPut) {
      // The bytes of an element that loses its position must leave the files.
      CHECK(op.debt == elements.contains(name));
      elements[name] = op.value;
      ++written;
    } else if (op.kind == OpKind::kTombstone) {
      CHECK(elements.erase(name) == 1);
    } else {
      REQUIRE(op.kind == OpKind::kRangeTombstone);
      const std::string end(keys.name_of(op.end));
      elements.erase(elements.lower_bound(name), elements.lower_bound(end));
    }
  }
  [[nodiscard]] std::string letters() const {
    std::string all;
    std::uint64_t position = header.first;
    for (const auto& [name, value] : elements) {
      CHECK(name == position_name(position));
      position += kPositionStep;
      all += value;
    }
    CHECK(position == header.last + kPositionStep);
    return all;
  }
};

TEST_CASE("element of a list is inserted or removed: the elements of the shorter side are rewritten") {
  const std::string many(40, 'x');
  const struct {
    std::string before, after;
    std::size_t most;  // elements written
  } cases[] = {
      {"abcdef", "acdef", 1},      {"abcdef", "abcde", 0},   {"abcdef", "bcdef", 0},   {"abcdef", "abdef", 2},
      {"abcdef", "abcef", 2},      {"abcdef", "aXbcdef", 2}, {"abcdef", "abcdeXf", 2}, {"abcdef", "abXcdef", 3},
      {"abcdef", "abXdef", 1},     {"abcdef", "f", 1},       {"aaaaab", "b", 0},       {"a", "b", 1},
      {"aaaa", "aaa", 0},          {"abab", "bb", 2},        {many + "b", "b", 0},     {"b" + many, "b", 0},
      {"c" + many + "b", "cb", 1},
  };
  for (const auto& [before, after, most] : cases) {
    INFO(before << " -> " << after);
    StoredList list(before);
    list.change(before, after);
    CHECK(list.letters() == after);
    CHECK(list.written <= most);
  }
}

}  // namespace TEST_FILE

#include "store/collection/compact.h"

#include <catch2/catch.hpp>
#include <limits>

namespace TEST_FILE {

using namespace ebbtide;
using namespace std::string_literals;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
std::string message(const Result<T>& result) {
  return result.is_ok() ? "ok" : std::string(result.status().message());
}

TEST_CASE("hash, set, sorted set or list is encoded: decoding returns the same collection") {
  const std::string longest(300, 'x');
  const std::string with_zero("z\0\r\n", 4);
  const Hash hash = {{"b", "1"}, {"a", ""}, {"", longest}, {with_zero, "2"}};
  const std::string hash_bytes = encode(hash);
  const auto decoded = decode_hash(hash_bytes);
  REQUIRE(decoded.is_ok());
  REQUIRE(decoded->size() == hash.size());
  for (std::size_t i = 0; i < hash.size(); ++i) {
    CHECK((*decoded)[i].field == hash[i].field);
    CHECK((*decoded)[i].value == hash[i].value);
  }
  CHECK(hash_bytes.size() == encoded_bytes(hash));

  const Set set = {"", "a", "b", longest};
  const std::string set_bytes = encode(CollectionType::kSet, set);
  CHECK(set_bytes.size() == encoded_bytes(set));
  REQUIRE(decode_set(set_bytes).is_ok());
  CHECK(*decode_set(set_bytes) == set);

  const SortedSet members = {{-kInfinity, "z"}, {0, "a"}, {0, "b"}, {1.5, "a1"}, {kInfinity, ""}};
  const std::string member_bytes = encode(members);
  CHECK(member_bytes.size() == encoded_bytes(members));
  const auto scored = decode_sorted_set(member_bytes);
  REQUIRE(scored.is_ok());
  REQUIRE(scored->size() == members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    CHECK((*scored)[i].score == members[i].score);
    CHECK((*scored)[i].member == members[i].member);
  }

  const List list = {"b", "a", "b", ""};
  const std::string list_bytes = encode(CollectionType::kList, list);
  CHECK(*decode_list(list_bytes) == list);
}

TEST_CASE("collection of each type is encoded: its bytes are those of the documented format") {
  CHECK(encode(Hash{{"f", "v"}}) ==
        "\x01\x00\x01\x01"
        "f\x01v"s);
  CHECK(encode(CollectionType::kSet, {"a", "bc"}) ==
        "\x02\x00\x02\x01"
        "a\x02"
        "bc"s);
  CHECK(encode(SortedSet{{1, "m"}}) == "\x03\x00\x01\x00\x00\x00\x00\x00\x00\xf0\x3f\x01m"s);
  CHECK(encode(CollectionType::kList, {""}) == "\x04\x00\x01\x00"s);
}

TEST_CASE("hash has expiring fields: its bytes have the expiries, and damaged expiries are an error") {
  const Hash hash{{"a", "1", 258}, {"b", "2"}};
  const std::string bytes = encode(hash);
  CHECK(bytes ==
        "\x01\x01\x02\x01"
        "a\x01"
        "1\x02\x01\0\0\0\0\0\0\x01"
        "b\x01"
        "2\0\0\0\0\0\0\0\0"s);
  CHECK(bytes.size() == encoded_bytes(hash));
  const auto read = decode_hash(bytes);
  REQUIRE(read.is_ok());
  CHECK((*read)[0].expiry == 258);
  CHECK((*read)[1].expiry == 0);
  for (std::size_t length = 0; length < bytes.size(); ++length) CHECK_FALSE(decode_hash(bytes.substr(0, length)).is_ok());
  CompactBuilder builder(CollectionType::kHash, true);
  for (const HashField& field : hash) builder.add(field);
  CHECK(builder.take() == bytes);
}

TEST_CASE("sorted set score is -0: it is stored as 0") {
  const std::string bytes = encode(SortedSet{{-0.0, "m"}});
  CHECK(bytes == encode(SortedSet{{0.0, "m"}}));
}

TEST_CASE("bytes of a collection are damaged: the error names the damage and its offset") {
  const std::string set = encode(CollectionType::kSet, {"a", "b"});
  CHECK(message(decode_set("")) == "collection: byte 0: the head is truncated");
  CHECK(message(decode_list(set)) == "collection: byte 0: another type");
  CHECK(message(decode_set("\x02\x01\x01\x01x"s)) == "collection: byte 1: unknown flags");
  CHECK(message(decode_set("\x02\x00"s)) == "collection: byte 2: the number of elements is damaged");
  CHECK(message(decode_set("\x02\x00\x7f\x01x"s)) == "collection: byte 2: more elements than bytes");
  CHECK(message(decode_set(Bytes(set).substr(0, set.size() - 1))) == "collection: byte 6: an item is cut off");
  CHECK(message(decode_set("\x02\x00\x01\x81\x00x"s)) == "collection: byte 5: a length is damaged");
  CHECK(message(decode_set(set + "x")) == "collection: byte 7: bytes behind the last element");
  CHECK(message(decode_set("\x02\x00\x02\x01"
                           "b\x01"
                           "a"s)) == "collection: byte 6: members are not in order");
  CHECK(message(decode_set("\x02\x00\x02\x01"
                           "a\x01"
                           "a"s)) == "collection: byte 6: members are not in order");
  CHECK(message(decode_sorted_set("\x03\x00\x01\x00\x00\x00\x00\x00\x00\xf8\x7f\x01m"s)) ==
        "collection: byte 3: a score is not a number");
  CHECK(message(decode_hash("\x01\x00\x01\x01"
                            "f"s)) == "collection: byte 5: a length is damaged");
}

TEST_CASE("bytes of a collection are cut anywhere: decoding returns an error") {
  const std::string hash = encode(Hash{{"field", "value"}, {"other", "text"}});
  for (std::size_t n = 0; n < hash.size(); ++n) CHECK_FALSE(decode_hash(Bytes(hash).substr(0, n)).is_ok());
  const std::string members = encode(SortedSet{{1, "a"}, {2, "b"}});
  for (std::size_t n = 0; n < members.size(); ++n) CHECK_FALSE(decode_sorted_set(Bytes(members).substr(0, n)).is_ok());
}

TEST_CASE("damage follows the last element: the reader returns all elements before it reports the damage") {
  const std::string list = encode(CollectionType::kList, {"a", "b"}) + "x";
  auto reader = CompactReader::open(list, CollectionType::kList);
  REQUIRE(reader.is_ok());
  CHECK(reader->count() == 2);
  Bytes item;
  CHECK(reader->next(&item));
  CHECK(item == "a");
  CHECK(reader->status().is_ok());
  CHECK(reader->next(&item));
  CHECK_FALSE(reader->next(&item));
  CHECK(reader->status().code() == Code::kCorruption);
}

TEST_CASE("collection exceeds the limit of what one command may build: the error names its size and the limit") {
  CHECK(fits_compact(kMaxCompactElements, kMaxCompactBytes));
  CHECK_FALSE(fits_compact(kMaxCompactElements + 1, 10));
  CHECK_FALSE(fits_compact(1, kMaxCompactBytes + 1));
  CHECK(check_built_size(kMaxBuiltElements, kMaxBuiltBytes).is_ok());
  CHECK(check_built_size(kMaxBuiltElements + 1, 10).message() ==
        "ERR one command cannot build a collection of 1048577 elements: 1048576 elements are allowed");
  CHECK(check_built_size(1, kMaxBuiltBytes + 1).message() ==
        "ERR one command cannot build a collection of 67108865 bytes: 67108864 bytes are allowed");
}

TEST_CASE("number of elements is not known in advance: CompactBuilder gives the same bytes as encode()") {
  CompactBuilder set(CollectionType::kSet), none(CollectionType::kList);
  std::vector<std::string> names;
  for (int i = 100; i < 400; ++i) names.push_back(std::to_string(i));
  for (const std::string& name : names) set.add(name);
  CHECK(set.take() == encode(CollectionType::kSet, Set(names.begin(), names.end())));
  CHECK(decode_list(none.take())->empty());
  CompactBuilder hash(CollectionType::kHash), members(CollectionType::kSortedSet);
  hash.add(HashField{"f", "v"});
  members.add(ScoredMember{1.5, "m"});
  CHECK(hash.take() == encode(Hash{{"f", "v"}}));
  CHECK(members.take() == encode(SortedSet{{1.5, "m"}}));
}

TEST_CASE("type of a collection is named: the name is that of the command TYPE, and damaged bytes have none") {
  CHECK(collection_name(CollectionType::kHash) == "hash");
  CHECK(collection_name(CollectionType::kSet) == "set");
  CHECK(collection_name(CollectionType::kSortedSet) == "zset");
  CHECK(collection_name(CollectionType::kList) == "list");
  CHECK(collection_type_of("\x04") == CollectionType::kList);
  CHECK_FALSE(collection_type_of(""));
  CHECK_FALSE(collection_type_of("\x05"));
  CHECK_FALSE(collection_type_of(Bytes("\0", 1)));
}

}  // namespace TEST_FILE

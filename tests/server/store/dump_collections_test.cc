// Tests the payloads of collections: what DUMP writes, that RESTORE reads it back, and that hostile payloads are refused before
// memory is allocated for them. tests/contract/test_dump.py compares all forms with redis-server.
#include "store/dump_collections.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "store/collection/compact.h"
#include "store/dump.h"
#include "store/rdb.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace std::string_literals;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string payload(std::string body) {
  end_dump(&body);
  return body;
}

std::string dumped(Bytes collection) {
  const auto result = dump_collection(collection);
  REQUIRE(result.is_ok());
  REQUIRE(dump_is_sound(*result));
  CHECK(result->size() <= most_dump_bytes(collection.size()));
  return *result;
}

/// Returns the collection in a payload, or the error. Counts the reserved memory.
struct Load {
  explicit Load(const std::string& bytes) {
    const auto loaded = load_collection(bytes, [this](std::uint64_t more) {
      reserved += more;
      return more > room ? Status::out_of_memory("no room") : Status::ok();
    });
    collection = loaded.is_ok() ? *loaded : "";
    error = loaded.is_ok() ? "" : std::string(loaded.status().message());
  }
  std::string collection, error;
  std::uint64_t reserved = 0;
  static inline std::uint64_t room = ~std::uint64_t{0};
};

std::string error_of(const std::string& body) { return Load(payload(body)).error; }

std::string score(double value) {
  std::string out(sizeof(value), '\0');
  std::memcpy(out.data(), &value, sizeof(value));
  return out;
}

std::string string(Bytes text) {
  std::string out;
  append_rdb_string(&out, text);
  return out;
}

std::string length(std::uint64_t n) {
  std::string out;
  append_rdb_length(&out, n);
  return out;
}

/// Returns a string of so many zeros, compressed.
std::string zeros(std::size_t count) {
  REQUIRE(count > 1);
  std::string packed("\x00\x00", 2);
  for (std::size_t left = count - 1; left > 0;) {
    const std::size_t n = left >= 264 + 9 || left == 264 ? 264 : std::min<std::size_t>(left, 32);
    if (n == 264) {
      packed += "\xe0\xff\x00"s;
    } else {
      packed += static_cast<char>(n - 1) + std::string(n, '\0');
    }
    left -= n;
  }
  return "\xc3" + length(packed.size()) + length(count) + packed;
}

constexpr const char* kBadFormat = "ERR Bad data format";

TEST_CASE("collection is dumped: the payload has Redis's plain encoding, without listpack or intset") {
  const auto body = [](Bytes collection) {
    const std::string whole = dumped(collection);
    return whole.substr(0, whole.size() - 10);
  };
  CHECK(body(encode(CollectionType::kList, {"b", "12", "b"})) ==
        "\x01\x03\x01"
        "b\xc0\x0c\x01"
        "b"s);
  CHECK(body(encode(CollectionType::kSet, {"", "a"})) ==
        "\x02\x02\x00\x01"
        "a"s);
  CHECK(body(encode(Hash{{"f", "v"}, {"1000", ""}})) ==
        "\x04\x02\x01"
        "f\x01v\xc1\xe8\x03\x00"s);
  CHECK(body(encode(SortedSet{{1, "a"}, {kInfinity, "b"}})) ==
        "\x05\x02\x01"
        "a" +
            score(1) +
            "\x01"
            "b" +
            score(kInfinity));
  CHECK_FALSE(dump_collection("\x01\x00\x02\x01").is_ok());
  CHECK_FALSE(dump_collection("").is_ok());
  CHECK_FALSE(dump_collection("\x02\x00\x01\x05"
                              "a"s)
                  .is_ok());  // the item is cut off
}

TEST_CASE("collection is dumped: loading the payload returns the same collection") {
  const std::string longest(70'000, 'x'), some(64, 'y'), control("\0\r\n", 3);
  const List list = {"b", "12", "b", "", longest, some, "-2147483649", control};
  const Set set = {"", "-1", "10", longest, some};
  const Hash hash = {{"z", "1"}, {"a", ""}, {"", longest}, {some, "x"}};
  const SortedSet members = {{-kInfinity, "z"}, {-1e300, "1"}, {0, "a"}, {0, "b"}, {5e-324, ""}, {kInfinity, some}};
  const List same_length(10'000, some);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 16'384; ++i) names.push_back(std::to_string(i * 7919));
  for (const std::string& collection :
       {encode(CollectionType::kList, list), encode(CollectionType::kSet, set), encode(hash), encode(members),
        encode(CollectionType::kList, same_length), encode(CollectionType::kList, List(names.begin(), names.end())),
        encode(CollectionType::kList, {std::string(1'000'000, 'x')})}) {
    const std::string whole = dumped(collection);
    CHECK(dumped_type(whole) == DumpedType::kCollection);
    const Load load(whole);
    CHECK(load.error.empty());
    CHECK((load.collection == collection));  // too long to be shown
  }
}

TEST_CASE("payload has elements in any order: sets and sorted sets are sorted, and hashes keep the order") {
  CHECK(Load(payload("\x02\x02\x01"
                     "b\x01"
                     "a"s))
            .collection == encode(CollectionType::kSet, {"a", "b"}));
  CHECK(Load(payload("\x04\x02\x01"
                     "b\x01"
                     "1\x01"
                     "a\x01"
                     "2"s))
            .collection == encode(Hash{{"b", "1"}, {"a", "2"}}));
  CHECK(Load(payload("\x05\x02\x01"
                     "a" +
                     score(2) +
                     "\x01"
                     "b" +
                     score(1)))
            .collection == encode(SortedSet{{1, "b"}, {2, "a"}}));
  CHECK(Load(payload("\x05\x01\x01"
                     "a" +
                     score(-0.0)))
            .collection == encode(SortedSet{{0, "a"}}));
  CHECK(Load(payload("\x03\x03\x01"
                     "a\x03"
                     "2.5\x01"
                     "b\xff\x01"
                     "c\xfe"s))
            .collection == encode(SortedSet{{-kInfinity, "b"}, {2.5, "a"}, {kInfinity, "c"}}));
}

TEST_CASE("payload has a packed form of Redis, compressed or not: it is read, and integers become texts") {
  const std::string listpack =
      "\x0c\x00\x00\x00\x02\x00\x81"
      "a\x02\x07\x01\xff"s;
  CHECK(Load(payload("\x10" + string(listpack))).collection == encode(Hash{{"a", "7"}}));
  CHECK(Load(payload("\x11" + string(listpack))).collection == encode(SortedSet{{7, "a"}}));
  CHECK(Load(payload("\x14" + string(listpack))).collection == encode(CollectionType::kSet, {"7", "a"}));
  CHECK(
      Load(payload("\x12\x03\x02" + string(listpack) + "\x01\x02zz\x02" + string("\x07\x00\x00\x00\x00\x00\xff"s))).collection ==
      encode(CollectionType::kList, {"a", "7", "zz"}));
  const std::string compressed = "\xc3\x0d\x0c\x0b" + listpack;  // one run of literal bytes
  CHECK(Load(payload("\x10" + compressed)).collection == encode(Hash{{"a", "7"}}));
}

TEST_CASE("collection in a payload is damaged: the error is Redis's text about a bad data format") {
  // Less data than the lengths announce, or none.
  CHECK(error_of("\x01\x00"s) == kBadFormat);
  CHECK(error_of("\x0b\x08\x02\x00\x00\x00\x00\x00\x00\x00"s) == kBadFormat);
  CHECK(error_of("\x12\x01\x02\x07\x07\x00\x00\x00\x00\x00\xff"s) == kBadFormat);
  CHECK(error_of("\x12\x01\x01\x00"s) == kBadFormat);
  CHECK(error_of("\x12\x01\x03\x01"
                 "a") == kBadFormat);  // an unknown kind of part
  CHECK(error_of("\x01\x02\x01"
                 "a") == kBadFormat);
  CHECK(error_of("\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                 "a") == kBadFormat);
  CHECK(error_of("\x12\x80\xff\xff\xff\xff\x01\x01"
                 "a") == kBadFormat);
  CHECK(error_of("\x01\xc0\x01\x01"
                 "a") == kBadFormat);
  CHECK(error_of("\x04\x01\x01"
                 "a") == kBadFormat);
  CHECK(error_of("\x05\x01\x01"
                 "a1234567") == kBadFormat);
  // The same element twice.
  CHECK(error_of("\x02\x02\x01"
                 "a\x01"
                 "a") == kBadFormat);
  CHECK(error_of("\x02\x02\x01"
                 "7\xc0\x07") == kBadFormat);
  CHECK(error_of("\x04\x02\x01"
                 "a\x01"
                 "1\x01"
                 "a\x01"
                 "2") == kBadFormat);
  CHECK(error_of("\x05\x02\x01"
                 "a" +
                 score(1) +
                 "\x01"
                 "a" +
                 score(2)) == kBadFormat);
  // Scores that are not numbers.
  const std::string long_text(200, '0');
  CHECK(error_of("\x05\x01\x01"
                 "a" +
                 score(std::nan(""))) == kBadFormat);
  CHECK(error_of("\x03\x01\x01"
                 "a\xfd") == kBadFormat);
  CHECK(error_of("\x03\x01\x01"
                 "a\xfd" +
                 std::string(253, '1')) == kBadFormat);
  CHECK(error_of("\x03\x01\x01"
                 "a\x01x") == kBadFormat);
  CHECK(error_of("\x11\x0c\x0c\x00\x00\x00\x02\x00\x07\x01\x81x\x02\xff"s) == kBadFormat);
  CHECK(error_of("\x11" + string(std::string("\xd4\x00\x00\x00\x02\x00\x07\x01\xe0\xc8", 10) + long_text + "\x01\xca\xff")) ==
        kBadFormat);
  // A field without its value, or a member without its score.
  CHECK(error_of("\x10\x09\x09\x00\x00\x00\x01\x00\x07\x01\xff"s) == kBadFormat);
  CHECK(error_of("\x11\x09\x09\x00\x00\x00\x01\x00\x07\x01\xff"s) == kBadFormat);
  // Bytes after the collection.
  CHECK(error_of("\x01\x01\x01"
                 "ab") == kBadFormat);
}

TEST_CASE("payload is cut or changed and has a right checksum: it is refused, or gives a valid collection") {
  const std::string whole = dumped(encode(SortedSet{{-1, "some"}, {1, "12"}, {2.5, "\xff"}}));
  const std::string body = whole.substr(0, whole.size() - 10);
  for (std::size_t cut = 1; cut < body.size(); ++cut) CHECK(error_of(body.substr(0, cut)) == kBadFormat);
  for (std::size_t i = 1; i < body.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = body;
      changed[i] = static_cast<char>(changed[i] ^ 1 << bit);
      const Load load(payload(changed));
      if (load.error.empty()) CHECK(decode_sorted_set(load.collection).is_ok());
    }
  }
}

TEST_CASE("hash with expiring fields is dumped: the bytes are those of Redis 7.4, and loading returns the same hash") {
  const Hash hash{{"a", "x", 5'000}, {"b", "y"}, {"c", "z", 4'000}};
  const std::string whole = dumped(encode(hash));
  CHECK(whole.substr(0, whole.size() - 8) ==
        "\x18\xa0\x0f\0\0\0\0\0\0\x03"
        "\x43\xe9\x01"
        "a\x01x\x00\x01"
        "b\x01y\x01\x01"
        "c\x01z\x0c\x00"s);
  CHECK(Load(whole).collection == encode(hash));
}

TEST_CASE("payload of a hash with expiring fields is damaged: loading is refused") {
  const std::string soonest = "\x10\x27\0\0\0\0\0\0"s, field = "\x01"s + "a\x01x";
  CHECK(Load(payload("\x18" + soonest + "\x01\x05" + field)).collection == encode(Hash{{"a", "x", 10'004}}));
  CHECK(Load(payload("\x16\x01\x05" + field)).collection == encode(Hash{{"a", "x", 5}}));
  CHECK(error_of("\x18" + soonest) == kBadFormat);
  CHECK(error_of("\x18" + soonest.substr(0, 7)) == kBadFormat);
  CHECK(error_of("\x18" + soonest + "\x01\x05") == kBadFormat);
  CHECK(error_of("\x18" + soonest + "\x02\x05" + field + "\x05" + field) == kBadFormat);            // the same field twice
  CHECK(error_of("\x18" + soonest + "\x01\x81" + std::string(8, '\xff') + field) == kBadFormat);    // beyond 64 bits
  CHECK(error_of("\x18" + soonest + "\x01\x81\x01" + std::string(7, '\0') + field) == kBadFormat);  // beyond 48 bits
  const auto listpack = [&](const std::string& entries, char count) {
    std::string packed;
    append_little(&packed, 7 + entries.size(), 4);
    append_little(&packed, static_cast<std::uint64_t>(count), 2);
    return "\x19" + soonest + string(packed + entries + "\xff");
  };
  const std::string a = "\x81"s + "a\x02", x = "\x81"s + "x\x02", five = "\x05\x01", minus = "\xdf\xff\x02";
  CHECK(Load(payload(listpack(a + x + five, 3))).collection == encode(Hash{{"a", "x", 5}}));
  CHECK(error_of(listpack(a + x, 2)) == kBadFormat);
  CHECK(error_of(listpack(a + x + x, 3)) == kBadFormat);
  CHECK(error_of(listpack(a + x + minus, 3)) == kBadFormat);
}

TEST_CASE("payload is a stream, a function or a module's value: its type is known, and not supported") {
  for (const char type : {'\x06', '\x07', '\x0f', '\x13', '\x15', '\xf5', '\xf6'}) {
    CHECK(dumped_type(payload(std::string(1, type))) == DumpedType::kUnsupported);
  }
  CHECK(dumped_type(payload("")) == DumpedType::kUnknown);
  CHECK(dumped_type(payload("\x08")) == DumpedType::kUnknown);
  CHECK(dumped_type(payload("\x1a")) == DumpedType::kUnknown);
  CHECK(dumped_type(dump_string("text")) == DumpedType::kString);
  CHECK(error_of("\x08\x01"
                 "a") == kBadFormat);
}

TEST_CASE("collection in a payload exceeds a limit: the error names the limit") {
  constexpr std::size_t kMany = 1'048'577;
  const std::string too_many = "ERR one command cannot build a collection of 1048577 elements: 1048576 elements are allowed";
  CHECK(error_of("\x04" + length(kMany) + std::string(kMany, '\x01')) == too_many);
  CHECK(error_of("\x01" + length(kMany) + std::string(kMany, '\x01')) == too_many);
  std::string entries;
  for (std::size_t i = 0; i < kMany; ++i) entries += "\x01\x01";
  std::string listpack;
  append_little(&listpack, 7 + entries.size(), 4);
  append_little(&listpack, 65535, 2);  // the number is unknown
  listpack += entries + "\xff";
  CHECK(error_of("\x12\x01\x02" + string(listpack)) == too_many);
  CHECK(error_of("\x01\x01" + string(std::string(67'108'864, 'x'))) ==
        "ERR one command cannot build a collection of 67108865 bytes: 67108864 bytes are allowed");
  CHECK(error_of("\x01\x01" + string(std::string(67'108'859, 'x'))) ==
        "ERR one command cannot build a collection of 67108866 bytes: 67108864 bytes are allowed");
}

TEST_CASE("small payload unpacks to 400 MB: it is refused, and no memory is reserved for it") {
  const Load huge(payload("\x01\x01" + zeros(400'000'000)));
  CHECK(huge.error == "ERR one command cannot build a collection of 400000000 bytes: 67108864 bytes are allowed");
  CHECK(huge.reserved == 0);
  // Each part is small, and empty.
  const std::string empty_listpack = "\xc3\x08\x07\x06\x07\x00\x00\x00\x00\x00\xff"s;
  std::string parts;
  for (int i = 0; i < 400'000; ++i) parts += "\x02" + empty_listpack;
  const Load empty(payload("\x12" + length(400'000) + parts));
  CHECK(empty.error == kBadFormat);
  CHECK(empty.reserved < 32u << 20);
  CHECK(empty.reserved > 300'000 * sizeof(std::string) - kLargeValueBytes);
}

TEST_CASE("memory has no room for a collection: RESTORE fails before the collection is built") {
  std::vector<std::string> names;
  for (int i = 0; i < 5000; ++i) names.push_back("member" + std::to_string(i));
  const std::string whole = dumped(encode(CollectionType::kList, List(names.begin(), names.end())));
  Load::room = 1000;
  const Load load(whole);
  Load::room = ~std::uint64_t{0};
  CHECK(load.error == "no room");
  CHECK(Load(whole).error.empty());
}

TEST_CASE("collection is restored: memory is reserved for the result, and for the list of items if they are many") {
  const Load large(dumped(encode(CollectionType::kList, {std::string(900'000, 'x')})));
  CHECK(large.reserved == large.collection.size());
  const std::vector<std::string> names(20'000, "");
  const Load many(dumped(encode(CollectionType::kList, List(names.begin(), names.end()))));
  CHECK(many.reserved >= names.size() * sizeof(Bytes) + many.collection.size());
}

}  // namespace TEST_FILE

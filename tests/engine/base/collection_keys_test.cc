// Tests of the keys of large collections.
#include <engine/collection_keys.h>

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("header names a generation other than 0: header_generation() returns it") {
  for (const Generation generation : {Generation{1}, Generation{255}, Generation{256}, ~Generation{0} - 1}) {
    CHECK(header_generation(header_start(3, 7, generation) + "rest") == generation);
  }
  CHECK_FALSE(header_generation(header_start(3, 7, 0)));
  CHECK_FALSE(header_generation(header_start(3, 7, 9).substr(0, kHeaderStartBytes - 1)));
  CHECK(header_start(3, 7, 1).size() == kHeaderStartBytes);
}

TEST_CASE("collection has several generations: the range of one contains its elements, and no other elements or keys") {
  const auto key_of = [](Bytes key, Generation generation, Bytes name) {
    return element_range(key, generation).start + std::string(name);
  };
  const KeyRange range = element_range("key", 255), all = element_range("key");
  for (const char* name : {"", "a", "\xff\xff\xff"}) {
    CHECK(range.contains(key_of("key", 255, name)));
    CHECK_FALSE(range.contains(key_of("key", 254, name)));
    CHECK_FALSE(range.contains(key_of("key", 256, name)));
    CHECK_FALSE(range.contains(key_of("key2", 255, name)));
    CHECK_FALSE(range.contains(key_of("ke", 255, name)));
    CHECK(all.contains(key_of("key", 1, name)));
    CHECK_FALSE(all.contains(key_of("key2", 1, name)));
  }
  CHECK_FALSE(range.contains("key"));
  CHECK_FALSE(all.contains("key"));
  CHECK_FALSE(all.contains(std::string("key\x00\xff", 5)));
}

}  // namespace TEST_FILE

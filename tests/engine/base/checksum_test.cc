#include "base/checksum.h"

#include <catch2/catch.hpp>

#include "base/hash.h"

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("bytes, file or offset are different: the checksum is different") {
  const std::string data(1000, 'x');
  const std::uint64_t sum = block_checksum(data, 7, 4096);
  CHECK(sum == block_checksum(data, 7, 4096));
  CHECK(sum != block_checksum(data, 8, 4096));
  CHECK(sum != block_checksum(data, 7, 8192));
  std::string flipped = data;
  flipped[500] ^= 1;
  CHECK(sum != block_checksum(flipped, 7, 4096));
  BlockChecksummer pieces(7, 4096);
  pieces.update(Bytes(data).substr(0, 1));
  pieces.update(Bytes(data).substr(1, 700));
  pieces.update({});
  pieces.update(Bytes(data).substr(701));
  CHECK(pieces.digest() == sum);
}

// Filters and checksums on disk depend on these values, so they must never change.
TEST_CASE("inputs are fixed: their hashes and checksums never change") {
  CHECK(hash_key("") == 0x2d06800538d394c2ull);
  CHECK(hash_key("ebbtide") == hash_bytes("ebbtide", 0));
  CHECK(hash_bytes("ebbtide", 1) != hash_bytes("ebbtide", 2));
}

TEST_CASE("keys have a prefix: prefix_successor() returns the end of their range") {
  CHECK(prefix_successor("a") == "b");
  CHECK(prefix_successor("a\xff") == "b");
  CHECK(prefix_successor("\xff\xff").empty());
  CHECK(prefix_successor("").empty());
  CHECK(prefix_successor(Bytes("a\0", 2)) == "a\x01");
}

}  // namespace TEST_FILE

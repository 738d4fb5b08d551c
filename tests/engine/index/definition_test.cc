// Tests of definitions as bytes.
#include <catch2/catch.hpp>

#include <engine/index.h>

namespace TEST_FILE {

using namespace ebbtide;

IndexDefinition place() {
  return {.name = "place",
          .index = 3,
          .prefix = std::string("car:\0\xff", 6),
          .source = "town",
          .kind = IndexKind::kNumber,
          .building_from = "",
          .builds = 300,
          .skipped = {1, 2, 300, 1ULL << 40},
          .policy = PolicySettings{"binomial", {{"k", 4}, {"x", -0.5}}}};
}

TEST_CASE("definition is encoded: decoding returns it") {
  IndexDefinition definition = place();
  SECTION("while the index is built") {}
  SECTION("of a complete index") { definition.building_from = std::nullopt; }
  SECTION("with the policy of the database") { definition.policy = std::nullopt; }
  SECTION("of all records") { definition.prefix = ""; }
  const auto decoded = IndexDefinition::decode(definition.name, definition.encode());
  REQUIRE(decoded.is_ok());
  CHECK(*decoded == definition);
}

TEST_CASE("definition of an index that is being built is encoded: its bytes contain no key of a record") {
  IndexDefinition definition = place();
  const std::string begun = definition.encode();
  definition.building_from = definition.position = "car:secret";
  CHECK(definition.encode() == begun);
}

TEST_CASE("bytes of a definition are cut or changed: decoding fails or returns a definition with valid values") {
  const std::string bytes = place().encode();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK(IndexDefinition::decode("place", Bytes(bytes).substr(0, length)).status().code() == Code::kCorruption);
  }
  CHECK(IndexDefinition::decode("place", bytes + "x").status().code() == Code::kCorruption);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 1 << bit);
      const auto decoded = IndexDefinition::decode("place", changed);
      if (decoded.is_ok()) CHECK((decoded->index >= 1 && decoded->index <= kMostIndexes));
    }
  }
}

TEST_CASE("definition has a newer version: decoding refuses it, and the error names the version") {
  std::string bytes = place().encode();
  bytes[0] = 2;
  const auto decoded = IndexDefinition::decode("place", bytes);
  CHECK(decoded.status().code() == Code::kUnsupported);
  CHECK(decoded.status().to_string().find("version 2") != std::string::npos);
}

TEST_CASE("index has a prefix: the range of its records contains exactly the keys that begin with the prefix") {
  IndexDefinition definition;
  for (const std::string& prefix : {std::string("a"), std::string("a\xff"), std::string("\xff\xff"), std::string()}) {
    definition.prefix = prefix;
    const KeyRange records = definition.records();
    for (const std::string& key : {std::string(), std::string("a"), std::string("a\xfe"), std::string("a\xff\x01"),
                                   std::string("b"), std::string("\xff"), std::string("\xff\xff\xff")}) {
      INFO("prefix " << prefix << ", key " << key);
      CHECK(records.contains(key) == key.starts_with(prefix));
    }
  }
}

}  // namespace TEST_FILE

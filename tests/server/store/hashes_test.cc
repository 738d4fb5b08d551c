#include "store/hashes.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

namespace TEST_FILE {

using namespace ebbtide;

std::string text(const Hash& hash) {
  std::string out;
  for (const HashField& each : hash) out += std::string(each.field) + "=" + std::string(each.value) + " ";
  return out;
}

TEST_CASE("hash: field is set: a new field comes last, and a known field keeps its position", "[hashes]") {
  for (const std::size_t changes : {1u, 100u}) {  // without and with an index
    HashEditor hash({{"b", "1"}, {"a", "2"}}, changes);
    CHECK_FALSE(hash.set("b", "3"));
    CHECK(hash.set("c", "4"));
    CHECK_FALSE(hash.set("c", "5"));
    CHECK(hash.find("c") == Bytes("5"));
    CHECK_FALSE(hash.find("d"));
    CHECK(hash.size() == 3);
    CHECK(text(hash.take()) == "b=3 a=2 c=5 ");
  }
}

TEST_CASE("hash: field with an expiry is set: the field gets the new expiry, and without_expired() omits it afterwards",
          "[hashes]") {
  HashEditor hash({{"a", "1", 50}, {"b", "2"}, {"c", "3", 60}}, 1);
  CHECK(hash.look_up("a")->expiry == 50);
  CHECK(hash.look_up("d") == nullptr);
  hash.set("b", "4", 70);
  hash.set("c", "5");
  const Hash changed = hash.take();
  CHECK(changed[1].expiry == 70);
  CHECK(changed[2].expiry == 0);
  CHECK(text(without_expired(changed, 49)) == "a=1 b=4 c=5 ");
  CHECK(text(without_expired(changed, 50)) == "b=4 c=5 ");
  CHECK(text(without_expired(changed, 70)) == "c=5 ");
}

TEST_CASE("hash: field is removed and set again: it comes last", "[hashes]") {
  for (const std::size_t changes : {1u, 100u}) {
    HashEditor hash({{"a", "1"}, {"b", "2"}, {"c", "3"}}, changes);
    CHECK(hash.remove("b"));
    CHECK_FALSE(hash.remove("b"));
    CHECK_FALSE(hash.remove("x"));
    CHECK(hash.set("b", "4"));
    CHECK(hash.remove("a"));
    CHECK(text(hash.take()) == "c=3 b=4 ");
  }
}

TEST_CASE("hash: random changes with and without an index give the same hash", "[hashes]") {
  std::mt19937_64 random(5);
  const std::vector<std::string> names = {"a", "b", "c", "d", "e"};
  for (int round = 0; round < 500; ++round) {
    HashEditor few({}, 1), many({}, 1000);
    std::map<std::string, std::string> model;
    for (int i = 0; i < 12; ++i) {
      const std::string& name = names[random() % names.size()];
      const std::string& value = names[random() % names.size()];
      if (random() % 3 == 0) {
        const bool removed = model.erase(name) != 0;
        CHECK(few.remove(name) == removed);
        CHECK(many.remove(name) == removed);
      } else {
        const bool is_new = !model.contains(name);
        model[name] = value;
        CHECK(few.set(name, value) == is_new);
        CHECK(many.set(name, value) == is_new);
      }
    }
    CHECK(few.size() == model.size());
    const Hash a = few.take(), b = many.take();
    CHECK(text(a) == text(b));
    for (const HashField& each : a) CHECK(model[std::string(each.field)] == each.value);
  }
}

TEST_CASE("hash: field is looked up in the encoded bytes: it is found, and damage before it is an error", "[hashes]") {
  const std::string bytes = encode(Hash{{"a", "1"}, {"b", ""}});
  CHECK(*find_field(bytes, "a") == std::optional<Bytes>("1"));
  CHECK(*find_field(bytes, "b") == std::optional<Bytes>(""));
  CHECK(*find_field(bytes, "c") == std::nullopt);
  CHECK(find_field(Bytes(bytes).substr(0, bytes.size() - 1), "b").status().code() == Code::kCorruption);
}

}  // namespace TEST_FILE

// Tests that large values are charged once, however many readers hold them, and parts by their size.
#include "db/read/large_values.h"

#include <catch2/catch.hpp>

#include "engine/db/read/read_fixture.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

constexpr std::uint64_t kBytes = kLargeValueBytes + 500'000;
constexpr auto kKind = MemoryAccount::Kind::kLargeValues;

struct LargeFixture : ReadFixture {
  LargeFixture() {
    put("k", value);
    flush();
    Found found;
    REQUIRE(leased_view().locate(lookup_key("k"), &found).is_ok());
    ref = {found.large.table, found.large.offset, found.large.stored_bytes, found.length};
  }
  [[nodiscard]] const TableReader& reader() const { return *table().reader; }
  const std::string value = [] {
    Random random(5);
    return random_value(random, kBytes);
  }();
  LargeValueRef ref;
  int charges = 0;
  LargeValues values{account, [this] { ++charges; }};
};

TEST_CASE("two readers hold the same large value: memory has it once, charged until the last reader releases it") {
  LargeFixture f;
  auto first = f.values.read(f.reader(), f.ref);
  REQUIRE(first.is_ok());
  CHECK(**first == f.value);
  auto second = f.values.read(f.reader(), f.ref);
  CHECK(first->get() == second->get());
  CHECK(f.account->charged(kKind) == kBytes);
  CHECK(f.charges == 1);
  *first = nullptr;
  CHECK(f.account->charged(kKind) == kBytes);
  *second = nullptr;
  CHECK(f.account->charged(kKind) == 0);
}

TEST_CASE("part of a large value is read: only the part is charged, or nothing if a reader holds the value") {
  LargeFixture f;
  auto part = f.values.read_part(f.reader(), f.ref, 300'000, 1000);
  REQUIRE(part.is_ok());
  CHECK(part->offset == 300'000);
  CHECK(*part->value == f.value.substr(300'000, 1000));
  CHECK(f.account->charged(kKind) == 1000);
  part->value = nullptr;
  CHECK(f.account->charged(kKind) == 0);

  const auto whole = f.values.read(f.reader(), f.ref);
  part = f.values.read_part(f.reader(), f.ref, 300'000, 1000);
  CHECK(part->offset == 0);
  CHECK(part->value.get() == whole->get());
  CHECK(f.account->charged(kKind) == kBytes);
}

TEST_CASE("budget has no room for a large value: reading it fails with kOutOfMemory, and nothing stays charged") {
  LargeFixture f;
  f.account->set_limit(kBytes - 1, 0);
  CHECK(f.values.read(f.reader(), f.ref).status().code() == Code::kOutOfMemory);
  CHECK(f.account->charged() == 0);
  CHECK(f.values.read_part(f.reader(), f.ref, 0, 1000).is_ok());
}

TEST_CASE("memory account's owner and LargeValues are destroyed: the value that they read stays valid") {
  SharedValue kept;
  {
    LargeFixture f;
    kept = f.values.read(f.reader(), f.ref).value();
  }
  CHECK(kept->size() == kBytes);
}

}  // namespace TEST_FILE

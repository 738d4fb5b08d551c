// Tests of charges to the memory budget, and of values that own their charge.
#include <engine/charged_value.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>

namespace TEST_FILE {

using namespace ebbtide;
using Kind = MemoryAccount::Kind;

MemoryCharge take(MemoryAccount& account, std::uint64_t bytes) {
  MemoryCharge charge;
  REQUIRE(account.try_charge(Kind::kCommands, bytes));
  charge.took(account, Kind::kCommands, bytes);
  return charge;
}

TEST_CASE("memory charge is released, split or moved: the account's total is the remaining charge") {
  MemoryAccount account;
  {
    MemoryCharge charge = take(account, 100);
    {
      const MemoryCharge part = charge.split(30);
      CHECK(part.bytes() == 30);
      CHECK(charge.bytes() == 70);
      CHECK(account.charged() == 100);
    }
    CHECK(account.charged() == 70);
    charge.join(take(account, 5));
    CHECK(account.charged() == 75);
    const MemoryCharge all = charge.split(1000);
    CHECK(all.bytes() == 75);
    charge = take(account, 1);
    CHECK(account.charged() == 76);
    charge.release();
    CHECK(account.charged() == 75);
  }
  CHECK(account.charged() == 0);
}

TEST_CASE("charge is moved onto another: the target takes over its bytes, and the target's former charge is released") {
  MemoryAccount account;
  MemoryCharge first = take(account, 100);
  MemoryCharge second(std::move(first));
  CHECK(second.bytes() == 100);
  CHECK(first.bytes() == 0);  // the bytes of a moved-from charge
  CHECK(account.charged() == 100);
  MemoryCharge third = take(account, 7);
  third = std::move(second);
  CHECK(third.bytes() == 100);
  CHECK(second.bytes() == 0);  // NOLINT
  CHECK(account.charged() == 100);
  third.release();
  first.release();
  second.release();
  CHECK(account.charged() == 0);
}

TEST_CASE("charge exceeds the account's budget: the error names the bytes, the budget and, if they can never fit, a remedy") {
  MemoryAccount account;
  account.set_limit(100, 0);
  account.set_budget(4096, 3000);
  CHECK(account.take_refused() == 0);
  CHECK_FALSE(account.try_charge(Kind::kCommands, 2000));
  CHECK_FALSE(account.try_charge(Kind::kPages, 200));
  CHECK(account.charged() == 0);
  CHECK(account.take_refused() == 2000);
  CHECK(account.take_refused() == 0);
  const Status later = refused_charge(account, 2000), never = refused_charge(account, 3001);
  CHECK(later.code() == Code::kOutOfMemory);
  CHECK(later.refused_bytes() == 2048);
  CHECK(later.with_context("there").refused_bytes() == 2048);
  CHECK(later.message() ==
        "2000 bytes are needed at once; storage.memory_budget is 4096 bytes, and too much of it is in use now");
  CHECK(never.message() ==
        "3001 bytes are needed at once; storage.memory_budget is 4096 bytes, of which at most 3000 can be used for that. Raise "
        "storage.memory_budget");
  CHECK(Status::out_of_memory("spent").refused_bytes() == 0);
}

TEST_CASE("last owner of a charged value outlives the account's owner: the charge is released") {
  auto account = std::make_shared<MemoryAccount>();
  const std::weak_ptr<MemoryAccount> watched = account;
  MemoryCharge charge = take(*account, 150);
  SharedValue value = charged_value(std::string(100, 'x'), &charge);
  CHECK(is_charged(value));
  CHECK(charge.bytes() == 50);
  CHECK(account->charged() == 150);
  charge.release();
  SharedValue other = value;
  value.reset();
  CHECK(account->charged(Kind::kCommands) == 100);
  account.reset();
  CHECK(watched.lock()->charged() == 100);
  CHECK(*other == std::string(100, 'x'));
  other.reset();
  CHECK(watched.expired());
}

TEST_CASE("charged value is made of existing bytes: it does not copy them, and keeps their owner alive") {
  const auto account = std::make_shared<MemoryAccount>();
  MemoryCharge charge = take(*account, 3);
  auto plain = std::make_shared<const std::string>("abc");
  const std::weak_ptr<const std::string> watched = plain;
  const char* const place = plain->data();
  SharedValue value = charged_value(std::move(plain), &charge);
  CHECK(value->data() == place);
  CHECK(charge.bytes() == 0);
  CHECK(account->charged() == 3);
  const std::weak_ptr<const std::string> weak = value;
  value.reset();
  CHECK(account->charged() == 0);
  CHECK(watched.expired());
}

TEST_CASE("memtable keeps a charged value: its bytes count once, as memory of memtables") {
  const auto account = std::make_shared<MemoryAccount>();
  MemoryCharge charge = take(*account, 10);
  SharedValue value = charged_value(std::string(10, 'x'), &charge);
  CHECK(keep_charge(value, Kind::kMemTables));
  CHECK(keep_charge(value, Kind::kMemTables));
  CHECK(account->charged(Kind::kCommands) == 0);
  CHECK(account->charged(Kind::kMemTables) == 10);
  value.reset();
  CHECK(account->charged() == 0);
  CHECK_FALSE(keep_charge(std::make_shared<const std::string>("plain"), Kind::kMemTables));
  MemoryCharge none;
  CHECK_FALSE(is_charged(charged_value(std::string("plain"), &none)));
}

TEST_CASE("limit of an account is lowered: charges are refused until the limit is raised") {
  MemoryAccount account;
  account.set_limit(100, 0);
  account.lower_limit(60);
  CHECK_FALSE(account.try_charge(Kind::kCommands, 41));
  CHECK(account.try_charge(Kind::kCommands, 40));
  account.lower_limit(1000);
  CHECK(account.room() == 0);
  account.set_limit(100, 0);
  CHECK(account.room() == 60);
}

}  // namespace TEST_FILE

// Tests of the bytes of a tree's memtables, as pressure and statistics count them.
#include <catch2/catch.hpp>

#include <engine/charged_value.h>
#include <engine/read_view.h>

#include "db/trees/tree.h"

namespace TEST_FILE {

using namespace ebbtide;

void put(MemTable& memtable, Bytes value, const SharedValue* shared) {
  Entry entry;
  entry.key = "k";
  entry.seq = 1;
  entry.value = value;
  entry.shared = shared;
  memtable.insert({entry.key, hash_key(entry.key)}, entry);
}

TEST_CASE("memory of a tree is summed: frozen_bytes() leaves out the active memtable, uncharged_bytes() the charged values") {
  const auto account = std::make_shared<MemoryAccount>();
  account->set_budget(std::uint64_t{1} << 30, std::uint64_t{1} << 30);
  auto view = std::make_shared<TreeView>();
  TreeLoad load;
  load.view = view;
  for (int i = 0; i < 2; ++i) view->memtables.push_back(std::make_shared<MemTable>(1 << 20));
  const std::string old(30'000, 'o');
  put(*view->memtables[1], old, nullptr);
  const std::uint64_t active = view->memtables[0]->memory_bytes(), frozen = view->memtables[1]->memory_bytes();
  REQUIRE(active != frozen);
  CHECK(load.memtable_bytes() == active + frozen);
  CHECK(load.frozen_bytes() == frozen);
  CHECK(load.uncharged_bytes() == active + frozen);

  constexpr std::uint64_t kBytes = 100'000;
  REQUIRE(account->try_charge(MemoryAccount::Kind::kCommands, kBytes));
  MemoryCharge charge;
  charge.took(*account, MemoryAccount::Kind::kCommands, kBytes);
  const SharedValue value = charged_value(std::string(kBytes, 'v'), &charge);
  put(*view->memtables[0], *value, &value);
  CHECK(load.memtable_bytes() >= active + frozen + kBytes);
  CHECK(load.uncharged_bytes() == load.memtable_bytes() - kBytes);
}

}  // namespace TEST_FILE

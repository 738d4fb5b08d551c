// Large values that readers hold, charged to the memory budget: once each, however many hold it, for as long as somebody does.
#pragma once

#include <functional>
#include <memory>

#include <engine/memory_account.h>
#include <engine/result.h>
#include <engine/write_batch.h>
#include "table/table_reader.h"

namespace ebbtide {

/// Thread-safe. What it gave out may outlive it.
class LargeValues {
 public:
  /// `on_charge` is called, without locks, after each charge: memory has to come from somewhere.
  LargeValues(std::shared_ptr<MemoryAccount> account, std::function<void()> on_charge);

  /// The bytes of a large value of `table`, read unless somebody holds them. kOutOfMemory: the budget has no room for them;
  /// nothing was read. Else as TableReader::read_large.
  Result<SharedValue> read(const TableReader& table, const LargeValueRef& ref);

 private:
  struct State;
  struct Charged;
  SharedValue hold(SharedValue value, bool charged);

  const std::shared_ptr<State> state_;
  const std::function<void()> on_charge_;
};

}  // namespace ebbtide

// Large values that readers hold, charged to the memory budget: once each, however many hold it, for as long as somebody does.
#pragma once

#include <functional>
#include <memory>

#include <engine/memory_account.h>
#include <engine/result.h>
#include <engine/write_batch.h>
#include "table/table_lookup.h"

namespace ebbtide {

/// Thread-safe. What it gave out may outlive it.
class LargeValues {
 public:
  /// `on_charge` is called, without locks, after each charge: memory has to come from somewhere.
  LargeValues(std::shared_ptr<MemoryAccount> account, std::function<void()> on_charge);

  /// The bytes of a large value of `table`, read unless somebody holds them. kOutOfMemory: the budget has no room for them;
  /// nothing was read. Else as TableLookup::read_large.
  Result<SharedValue> read(const TableLookup& table, const LargeValueRef& ref);

  /// Bytes of a large value, or all of it.
  struct Part {
    std::uint64_t offset = 0;  ///< of the first of `value`'s bytes within the large value
    SharedValue value;
  };
  /// At least the bytes [offset, offset + length) of a large value, within it: those, unless the whole value is in memory. Only what
  /// is returned is charged. Errors as of read().
  Result<Part> read_part(const TableLookup& table, const LargeValueRef& ref, std::uint64_t offset, std::uint64_t length);

 private:
  struct State;
  struct Held;
  struct ChargedPart;
  Status charge(std::uint64_t bytes);
  SharedValue hold(SharedValue value, bool charged);

  const std::shared_ptr<State> state_;
  const std::function<void()> on_charge_;
};

}  // namespace ebbtide

// Holds large values in memory. Each value is charged to the memory budget once for any number of readers, until the last reader
// releases it.
#pragma once

#include <functional>
#include <memory>

#include <engine/memory_account.h>
#include <engine/result.h>
#include <engine/write_batch.h>
#include "table/table_lookup.h"

namespace ebbtide {

/// Reads and shares large values. Thread-safe. Returned values may outlive this object.
class LargeValues {
 public:
  /// Calls `on_charge`, with no lock held, after each charge, so that other users of the budget can free memory.
  LargeValues(std::shared_ptr<MemoryAccount> account, std::function<void()> on_charge);

  /// Returns a large value of `table`; reads the value unless a reader or a memtable holds it. kOutOfMemory: the budget has no
  /// room for the value, and nothing was read. Other errors are as for TableLookup::read_large.
  Result<SharedValue> read(const TableLookup& table, const LargeValueRef& ref);

  /// A part of a large value, or the whole value.
  struct Part {
    std::uint64_t offset = 0;  ///< offset of `value` in the large value
    SharedValue value;
  };
  /// Returns the bytes [offset, offset + length) of a large value, or the whole value if it is in memory. The range must lie
  /// within the value. Only the returned bytes are charged. Errors are as for read().
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

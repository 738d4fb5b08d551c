// The account of memory that is charged to the budget in addition to memtables, cache and open tables: buffers of connections,
// large values, pages that a command pins, and values and replies that commands build.
//
// One budget limits all memory: memtables + cache + filters and indexes + this account <= Settings::memory_budget. Several
// times a second the engine sets the account's limit to the bytes that the other parts leave. If they leave too little, the
// engine flushes memtables early and shrinks the cache to its minimum. If that does not suffice, the engine refuses writes that
// add data (Code::kOutOfMemory) until there is room again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

namespace ebbtide {

/// When bytes can be charged to the budget: now, after a flush of memtables, or not before other charges are released (kNone).
enum class BudgetRoom : std::uint8_t { kNow, kAfterFlush, kNone };

/// The account of charged bytes. Thread-safe; a charge costs two atomic additions. Code that charges bytes must release them
/// once, under the same kind, even if the code fails later.
class MemoryAccount : public std::enable_shared_from_this<MemoryAccount> {
 public:
  enum class Kind : std::uint8_t {
    kConnections,  ///< query and output buffers; charged by the owner of the connections
    kLargeValues,  ///< values above kLargeValueBytes: the engine charges a value that it reads until the last pin is released,
                   ///< the server a value that it receives
    kPages,        ///< pages that a MissSet keeps for its command; charged by the engine
    kCommands,     ///< values and replies that commands build; charged by the server before they are allocated
    kMemTables,    ///< charged values that a memtable took over (charged_value.h), until their last owner releases them
  };
  static constexpr std::size_t kKinds = 5;

  /// Charges `bytes` and returns true if the limit or the kind's floor (set_limit()) has room for all of them. Otherwise
  /// charges nothing and returns false; the caller then refuses or delays its work.
  [[nodiscard]] bool try_charge(Kind kind, std::uint64_t bytes) {
    const std::uint64_t all = total_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    const std::uint64_t own = of(kind).fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (all <= limit_.load(std::memory_order_relaxed) || own <= floor_.load(std::memory_order_relaxed)) return true;
    release(kind, bytes);
    note_refused(bytes);
    return false;
  }
  /// Charges `bytes` even above the limit. For memory that is already allocated, such as the buffers of a connection.
  void charge(Kind kind, std::uint64_t bytes) {
    total_.fetch_add(bytes, std::memory_order_relaxed);
    of(kind).fetch_add(bytes, std::memory_order_relaxed);
  }
  void release(Kind kind, std::uint64_t bytes) {
    of(kind).fetch_sub(bytes, std::memory_order_relaxed);
    total_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  /// Moves `bytes` of the charge from kind `from` to kind `to`. The sum does not change.
  void move(Kind from, Kind to, std::uint64_t bytes) {
    of(to).fetch_add(bytes, std::memory_order_relaxed);
    of(from).fetch_sub(bytes, std::memory_order_relaxed);
  }

  /// Returns the bytes that are charged now.
  [[nodiscard]] std::uint64_t charged(Kind kind) const { return kinds_[index(kind)].load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t charged() const { return total_.load(std::memory_order_relaxed); }
  /// Returns the bytes that could be charged now without exceeding the limit.
  [[nodiscard]] std::uint64_t room() const {
    const std::uint64_t limit = limit_.load(std::memory_order_relaxed), all = charged();
    return limit > all ? limit - all : 0;
  }

  /// Notes that a charge of `bytes` was refused and that its caller will try again: the engine flushes memtables to make room.
  void note_refused(std::uint64_t bytes) {
    std::uint64_t most = refused_.load(std::memory_order_relaxed);
    while (bytes > most && !refused_.compare_exchange_weak(most, bytes, std::memory_order_relaxed)) {
    }
  }
  /// For the engine only. Returns the largest refused charge since the last call, or 0 if none was refused, and resets it to 0.
  [[nodiscard]] std::uint64_t take_refused() { return refused_.exchange(0, std::memory_order_relaxed); }

  /// For the engine only. `limit`: bytes that all kinds together may have. `floor`: each kind may have this many bytes even if
  /// the limit is exceeded, so that reads work when the budget is spent.
  void set_limit(std::uint64_t limit, std::uint64_t floor) {
    limit_.store(limit, std::memory_order_relaxed);
    floor_.store(floor, std::memory_order_relaxed);
  }
  /// For the engine only. `budget`: Settings::memory_budget. `most`: bytes that could be charged if there were no memtables and
  /// no other charges.
  void set_budget(std::uint64_t budget, std::uint64_t most) {
    budget_.store(budget, std::memory_order_relaxed);
    most_.store(most, std::memory_order_relaxed);
  }
  /// Return the two values of set_budget(): the memory budget, and the largest part of it that one command can ever charge. 0:
  /// not yet known.
  [[nodiscard]] std::uint64_t budget() const { return budget_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t most() const { return most_.load(std::memory_order_relaxed); }
  /// For the engine only. Lowers the limit by `bytes` that memtables or tables have taken since set_limit(). The next set_limit()
  /// counts these bytes in its `limit`.
  void lower_limit(std::uint64_t bytes) {
    std::uint64_t limit = limit_.load(std::memory_order_relaxed);
    while (!limit_.compare_exchange_weak(limit, limit - (bytes < limit ? bytes : limit), std::memory_order_relaxed)) {
    }
  }

 private:
  static constexpr std::size_t index(Kind kind) { return static_cast<std::size_t>(kind); }
  std::atomic<std::uint64_t>& of(Kind kind) { return kinds_[index(kind)]; }

  std::atomic<std::uint64_t> total_{0};
  std::array<std::atomic<std::uint64_t>, kKinds> kinds_{};
  std::atomic<std::uint64_t> limit_{std::numeric_limits<std::uint64_t>::max()};
  std::atomic<std::uint64_t> floor_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> budget_{0}, most_{0};
};

}  // namespace ebbtide

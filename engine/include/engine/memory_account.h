// Memory that is charged to the budget beside memtables, cache and open tables: buffers of connections, large values, pages that
// a command pins, and values and replies that commands build.
//
// All share one budget: memtables + cache + filters and indexes + this account <= Settings::memory_budget. Several times a second
// the engine sets the account's limit to what the others leave. If that is too little, the engine flushes memtables early and
// shrinks the cache to its minimum. If that does not suffice, it refuses writes that add data (Code::kOutOfMemory) until there is
// room again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

namespace ebbtide {

/// Whether bytes can be charged to the budget: now, after a flush of memtables, or not while other charges stay.
enum class BudgetRoom : std::uint8_t { kNow, kAfterFlush, kNone };

/// Thread-safe; a charge is two atomic additions. Code that charges bytes must release them once, under the same kind, even if it
/// fails later.
class MemoryAccount : public std::enable_shared_from_this<MemoryAccount> {
 public:
  enum class Kind : std::uint8_t {
    kConnections,  ///< query and output buffers; charged by the owner of the connections
    kLargeValues,  ///< values above kLargeValueBytes. The engine charges a value that was read, until its pin ends;
                   ///< the server charges a value that it receives
    kPages,        ///< pages that a MissSet keeps for its command; charged by the engine
    kCommands,     ///< values and replies that commands build; charged by the server before they are allocated
    kMemTables,    ///< charged values that a memtable took (charged_value.h), until its last reader ends
  };
  static constexpr std::size_t kKinds = 5;

  /// Charges `bytes` if the limit or the kind's floor has room for all of them. Otherwise charges nothing and returns false:
  /// reply with OOM.
  [[nodiscard]] bool try_charge(Kind kind, std::uint64_t bytes) {
    const std::uint64_t all = total_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    const std::uint64_t own = of(kind).fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (all <= limit_.load(std::memory_order_relaxed) || own <= floor_.load(std::memory_order_relaxed)) return true;
    release(kind, bytes);
    note_refused(bytes);
    return false;
  }
  /// Charges `bytes` in any case: for memory that is allocated already, such as the buffers of a connection.
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

  /// Bytes charged now.
  [[nodiscard]] std::uint64_t charged(Kind kind) const { return kinds_[index(kind)].load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t charged() const { return total_.load(std::memory_order_relaxed); }
  /// Bytes that could be charged now without going over the limit.
  [[nodiscard]] std::uint64_t room() const {
    const std::uint64_t limit = limit_.load(std::memory_order_relaxed), all = charged();
    return limit > all ? limit - all : 0;
  }

  /// Notes that a charge of `bytes` was refused and will be tried again: the engine flushes memtables to make room.
  void note_refused(std::uint64_t bytes) {
    std::uint64_t most = refused_.load(std::memory_order_relaxed);
    while (bytes > most && !refused_.compare_exchange_weak(most, bytes, std::memory_order_relaxed)) {
    }
  }
  /// Engine only. Returns and resets the largest refused charge since the last call; 0 = none was refused.
  [[nodiscard]] std::uint64_t take_refused() { return refused_.exchange(0, std::memory_order_relaxed); }

  /// Engine only. `limit`: bytes that all kinds together may have. `floor`: bytes that each kind may have in any case, so that
  /// reads work even when the budget is spent.
  void set_limit(std::uint64_t limit, std::uint64_t floor) {
    limit_.store(limit, std::memory_order_relaxed);
    floor_.store(floor, std::memory_order_relaxed);
  }
  /// Engine only. `most`: bytes that could be charged if there were no memtables and nothing else was charged.
  void set_budget(std::uint64_t budget, std::uint64_t most) {
    budget_.store(budget, std::memory_order_relaxed);
    most_.store(most, std::memory_order_relaxed);
  }
  /// Settings::memory_budget, and the largest part of it that one command can ever have. 0: not known yet.
  [[nodiscard]] std::uint64_t budget() const { return budget_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t most() const { return most_.load(std::memory_order_relaxed); }
  /// Engine only. Lowers the limit by `bytes` that memtables or tables have taken since set_limit(). The next set_limit()
  /// includes them.
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

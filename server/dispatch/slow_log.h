// SLOWLOG: the slowest commands.
//
// A command's time is its running time plus its own waits: for pages, other threads, the write stall, and a sync that its reply
// requires. Two waits are left out: the wait for the write to the log, which a pass makes for all of its commands, and a wait
// that the client requested (PURGE.WAIT).
//
// An entry shows the command's name and, as its last argument, its waits, so that every client library can show them.
// Other arguments are keys and values: a delete of a key would not remove them from the slow log. So the log stores arguments
// only if configured: the first kMaxArguments, each cut at kMaxArgumentBytes.
//
// All entries together have a share of the memory budget. The oldest entries are removed when the share is exceeded.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "dispatch/stepped_charge.h"
#include "dispatch/switches.h"
#include "resp/args.h"

namespace ebbtide {

/// Thread-safe.
class SlowLog {
 public:
  explicit SlowLog(Switches& switches) : switches_(switches) {}

  static constexpr std::size_t kMaxArguments = 32, kMaxArgumentBytes = 128;

  static constexpr std::uint64_t kMaxMicros = ~std::uint64_t{0} / 1000;

  struct Entry {
    std::uint64_t id = 0;
    std::int64_t unix_seconds = 0;
    std::uint64_t micros = 0;
    std::vector<std::string> arguments;
    std::string address, name;
    bool has_arguments = false;  ///< the command has arguments besides its name, even if `arguments` does not have them
  };

  /// The entries take at most 1 / kBudgetPart of the memory budget.
  static constexpr std::uint64_t kBudgetPart = 64;

  /// Charges the memory of the entries. The functions of `memory` are set once, before use.
  SteppedCharge memory;
  /// Sets the size of the memory budget, in bytes.
  void set_budget(std::uint64_t bytes);

  /// Keeps the latest `entries` commands that took `micros` or more, with or without their arguments. If `arguments` becomes
  /// false, removes all entries. Dispatch checks a command's time only once a millisecond has passed since its last check. A
  /// threshold below that makes dispatch check every command (Switches::kEveryTime).
  void configure(std::uint64_t micros, std::uint64_t entries, bool arguments);
  [[nodiscard]] std::uint64_t threshold_nanos() const { return threshold_nanos_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool keeps_arguments() const { return arguments_.load(std::memory_order_relaxed); }

  /// Returns a command's arguments as the log shows them, the name first. "(redacted)" replaces the arguments from index `secret`
  /// on.
  static std::vector<std::string> shorten(const Args& args, std::size_t secret);
  /// Adds `entry` under a new id. Drops an entry with arguments if arguments were switched off meanwhile.
  void add(Entry entry);
  /// Returns at most `count` entries, the latest first.
  [[nodiscard]] std::vector<Entry> latest(std::size_t count) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t memory_bytes() const;
  void reset();

 private:
  void drop_oldest();  // the caller holds mutex_
  void keep_limits();  // the caller holds mutex_

  Switches& switches_;
  std::atomic<std::uint64_t> threshold_nanos_{10'000'000};
  std::atomic<bool> arguments_{false};  // changes under mutex_
  mutable std::mutex mutex_;
  std::size_t max_entries_ = 128;                 // guarded by mutex_
  std::uint64_t next_id_ = 0;                     // guarded by mutex_
  std::deque<Entry> entries_;                     // guarded by mutex_; the latest first
  std::uint64_t most_bytes_ = ~std::uint64_t{0};  // guarded by mutex_
  std::size_t bytes_ = 0;                         // guarded by mutex_; memory of entries_, which `memory` charges
};

}  // namespace ebbtide

// Counts of what dispatch does: per command, and in total. INFO and the metrics read them.
//
// Each dispatcher writes a block of its own (single writer, relaxed atomics, no shared line); readers sum the blocks. A reset
// remembers the sums of that moment and subtracts them from then on, so that writers need not know.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <engine/bytes.h>

namespace ebbtide {

/// A counter with one writer and any number of readers.
class Counter {
 public:
  void add(std::uint64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct CommandCounts {
  std::uint64_t calls = 0, nanos = 0, rejected = 0, failed = 0;
};

struct TotalCounts {
  std::uint64_t commands = 0;  ///< calls of any command
  std::uint64_t errors = 0;    ///< error replies
  std::uint64_t keyspace_hits = 0, keyspace_misses = 0;
  std::uint64_t passes = 0;
  std::uint64_t waits_for_disk = 0;  ///< commands that had to wait for pages, counted once a round
  std::uint64_t offloaded = 0;       ///< runs on an offload thread
  std::uint64_t retries = 0;         ///< runs repeated because an expiry passed
};

/// What one dispatcher counts. Written by its loop thread only.
class DispatchCounters {
 public:
  explicit DispatchCounters(std::size_t commands) : commands_(std::make_unique<PerCommand[]>(commands)), size_(commands) {}

  void call(std::size_t command, std::uint64_t nanos) {
    commands_[command].calls.add(1);
    commands_[command].nanos.add(nanos);
  }
  void rejected(std::size_t command) { commands_[command].rejected.add(1); }
  void failed(std::size_t command) { commands_[command].failed.add(1); }

  Counter errors, keyspace_hits, keyspace_misses, passes, waits_for_disk, offloaded, retries;

 private:
  friend class ServerStats;
  struct PerCommand {
    Counter calls, nanos, rejected, failed;
  };
  std::unique_ptr<PerCommand[]> commands_;
  std::size_t size_;
};

/// All counters of a server. Thread-safe.
class ServerStats {
 public:
  explicit ServerStats(std::size_t commands) : commands_(commands), base_commands_(commands) {}

  /// A block for a new dispatcher. Lives as long as this.
  DispatchCounters* add_dispatcher();

  /// Per command, by the table's index, since start or the last reset.
  [[nodiscard]] std::vector<CommandCounts> commands() const;
  [[nodiscard]] TotalCounts totals() const;
  /// Commands per second between this call and the one before it, smoothed over calls at least 100 ms apart.
  [[nodiscard]] double commands_per_second(std::uint64_t mono_nanos);

  /// Counts an error reply by its code, the first word of `message`. At most 128 codes are told apart.
  void count_error(Bytes message);
  [[nodiscard]] std::map<std::string, std::uint64_t> errors_by_code() const;

  /// CONFIG RESETSTAT.
  void reset();

 private:
  [[nodiscard]] std::vector<CommandCounts> sum_commands() const;
  [[nodiscard]] TotalCounts sum_totals() const;

  const std::size_t commands_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::unique_ptr<DispatchCounters>> blocks_;
  std::vector<CommandCounts> base_commands_;
  TotalCounts base_totals_;
  std::map<std::string, std::uint64_t> errors_;
  std::uint64_t rate_nanos_ = 0, rate_commands_ = 0;
  double rate_ = 0;
};

}  // namespace ebbtide

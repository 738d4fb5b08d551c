// Counts the commands that dispatch runs: each command, and in total. INFO and the metrics read the counts.
//
// Each dispatcher writes a block of its own (one writer, relaxed atomics, no shared cache line); readers sum the blocks. A reset
// stores the current sums, and readers subtract them from then on. So a reset does not touch the writers' blocks.
//
// A command's time is its working time. Dispatch reads the clock once, at the command's end; the time begins at the previous
// reading. So the first command of a window is also charged with the look-ups and prefetches of the whole window. A command is
// also charged with earlier commands that ran without ending: rejected ones, and ones that began to wait for pages. Waits are
// counted by stage, not by command. Receiving, sending and writing the log are in the times of passes only.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <engine/bytes.h>

#include "dispatch/call_times.h"

namespace ebbtide {

/// A counter with one writer and any number of readers.
class Counter {
 public:
  void add(std::uint64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Upper bounds, in ns, of the buckets for the time of a call; one more bucket has all longer times. The bounds are dense around
/// a microsecond, since a command whose data is in memory takes about that long.
inline constexpr std::array<std::uint64_t, 15> kCallBounds = {1'000,      2'500,      5'000,       10'000,        25'000,
                                                              50'000,     100'000,    250'000,     1'000'000,     2'500'000,
                                                              10'000'000, 50'000'000, 250'000'000, 1'000'000'000, 10'000'000'000};
inline constexpr std::size_t kCallBuckets = kCallBounds.size() + 1;

namespace call_buckets {

/// Returns kCallBounds, and after them a bound that no time exceeds.
constexpr auto padded_bounds() {
  std::array<std::uint64_t, kCallBuckets> bounds{};
  for (std::size_t i = 0; i < kCallBounds.size(); ++i) bounds[i] = kCallBounds[i];
  bounds.back() = std::numeric_limits<std::uint64_t>::max();
  return bounds;
}
inline constexpr auto kBounds = padded_bounds();

/// Returns, for each bit width, the bucket of the shortest time with that width.
constexpr auto buckets_by_width() {
  std::array<std::uint8_t, 65> buckets{};
  for (std::size_t width = 1; width < buckets.size(); ++width) {
    while (kBounds[buckets[width]] < std::uint64_t{1} << (width - 1)) ++buckets[width];
  }
  return buckets;
}
inline constexpr auto kByWidth = buckets_by_width();

constexpr bool one_bound_a_width() {
  for (std::size_t i = 1; i < kBounds.size(); ++i) {
    if (std::bit_width(kBounds[i]) == std::bit_width(kBounds[i - 1])) return false;
  }
  return true;
}
static_assert(one_bound_a_width(), "bucket_of compares once");

}  // namespace call_buckets

/// Returns the bucket of a call that took `nanos` ns.
constexpr std::size_t bucket_of(std::uint64_t nanos) {
  const std::size_t first = call_buckets::kByWidth[static_cast<std::size_t>(std::bit_width(nanos))];
  return first + static_cast<std::size_t>(nanos > call_buckets::kBounds[first]);
}

/// The stages that a command may pass before its reply leaves.
enum class Stage : std::uint8_t {
  kQueue,   ///< the command waits behind earlier commands of its pass: measured for the last command of each pass
  kMemory,  ///< the command runs with all data in memory: measured for the last command of each pass
  kDisk,    ///< the command waits for pages to be read: measured for each wait
  kThread,  ///< the command is on another thread, or in the queues to and from it: measured each time
  kStall,   ///< the write stall delays the command, or it waits for memory: measured each time
  /// The command waits until the log has the writes of its pass, as durable as configured. Measured once for each pass that has
  /// writes; a loop measures one pass at a time. Also the wait for the log's sync, for each command whose reply requires it.
  kWal,
};
inline constexpr std::array<const char*, 6> kStageNames = {"queue", "memory", "disk", "thread", "stall", "wal"};

using StageNanos = std::array<std::uint64_t, kStageNames.size()>;  ///< indexed by Stage

/// Upper bounds of the buckets for SCAN's calls, by the number of keys and versions that a call read. 10, the default of COUNT,
/// is a bound.
inline constexpr std::array<std::uint64_t, 8> kScanBounds = {1, 10, 30, 100, 300, 1'000, 10'000, 100'000};

struct ScanCounts {
  std::uint64_t steps = 0;                                      ///< how many keys and versions all calls of SCAN have read
  std::array<std::uint64_t, kScanBounds.size() + 1> buckets{};  ///< number of calls, by kScanBounds
};

struct StageCounts {
  std::uint64_t nanos = 0;
  std::array<std::uint64_t, kCallBuckets> buckets{};  ///< by kCallBounds
};

struct CommandCounts {
  std::uint64_t calls = 0, nanos = 0, rejected = 0, failed = 0;
  std::array<std::uint64_t, kCallBuckets> buckets{};  ///< number of calls, by their time (kCallBounds)
};

struct TotalCounts {
  std::uint64_t commands = 0;  ///< calls of any command
  std::uint64_t errors = 0;    ///< error replies
  std::uint64_t keyspace_hits = 0, keyspace_misses = 0;
  std::uint64_t passes = 0;
  std::uint64_t waits_for_disk = 0;  ///< waits of commands for pages; a command may wait several times, and all waits are counted
  std::uint64_t offloaded = 0;       ///< attempts on an offload thread
  std::uint64_t retries = 0;         ///< attempts that were repeated because a key expired during them
  std::uint64_t stalled = 0;         ///< delays of a command by the write stall
};

/// The counters of one dispatcher. Its loop's thread writes them.
class DispatchCounters {
 public:
  explicit DispatchCounters(std::size_t commands) : commands_(std::make_unique<PerCommand[]>(commands)) {}

  void call(std::size_t command, std::uint64_t nanos) {
    PerCommand& counters = commands_[command];
    counters.nanos.add(nanos);
    counters.buckets[bucket_of(nanos)].add(1);
    CallTimes* times = counters.times.load(std::memory_order_relaxed);
    if (times == nullptr) [[unlikely]]
      times = add_times(command);
    times->add(nanos);
  }
  void stage(Stage stage, std::uint64_t nanos) {
    PerStage& counters = stages_[static_cast<std::size_t>(stage)];
    counters.nanos.add(nanos);
    counters.buckets[bucket_of(nanos)].add(1);
  }
  /// Counts a SCAN that read `steps` keys and versions.
  void scan(std::uint64_t steps) {
    const auto bucket = std::lower_bound(kScanBounds.begin(), kScanBounds.end(), steps) - kScanBounds.begin();
    scan_steps_.add(steps);
    scans_[static_cast<std::size_t>(bucket)].add(1);
  }
  void rejected(std::size_t command) { commands_[command].rejected.add(1); }
  void failed(std::size_t command) { commands_[command].failed.add(1); }

  Counter errors, keyspace_hits, keyspace_misses, passes, waits_for_disk, offloaded, retries, stalled;

 private:
  friend class ServerStats;
  // The number of calls is the sum of the buckets. A call whose data is in memory writes to one cache line of this struct, and to
  // one of CallTimes.
  struct alignas(64) PerCommand {
    Counter nanos;
    std::atomic<CallTimes*> times{nullptr};  ///< created at the first call
    std::array<Counter, kCallBuckets> buckets;
    Counter rejected, failed;
  };
  struct PerStage {
    Counter nanos;
    std::array<Counter, kCallBuckets> buckets;
  };
  CallTimes* add_times(std::size_t command) {
    times_.push_back(std::make_unique<CallTimes>());
    commands_[command].times.store(times_.back().get(), std::memory_order_release);
    return times_.back().get();
  }

  std::unique_ptr<PerCommand[]> commands_;
  /// Owns the CallTimes; only the writer uses it, since readers go through PerCommand::times.
  std::vector<std::unique_ptr<CallTimes>> times_;
  std::array<PerStage, kStageNames.size()> stages_;
  Counter scan_steps_;
  std::array<Counter, kScanBounds.size() + 1> scans_;
};

/// All counters of a server. Thread-safe.
class ServerStats {
 public:
  explicit ServerStats(std::size_t commands) : commands_(commands), base_commands_(commands), base_times_(commands) {}

  /// Adds a block for a new dispatcher. The block lives as long as this object.
  DispatchCounters* add_dispatcher();

  /// Returns the counts by the command's index in the table, since the start or the last reset.
  [[nodiscard]] std::vector<CommandCounts> commands() const;
  [[nodiscard]] TotalCounts totals() const;
  /// Returns the counts by Stage, since the start; a reset does not change them.
  [[nodiscard]] std::array<StageCounts, kStageNames.size()> stages() const;
  /// Returns the counts of SCAN since the start; a reset does not change them.
  [[nodiscard]] ScanCounts scans() const;
  /// Returns a time in ns for each of `percents` (0 to 100): this share of a command's calls took no longer. Exact to 2 %. Counts
  /// calls since the start or the last reset.
  [[nodiscard]] std::vector<double> percentiles(std::size_t command, std::span<const double> percents) const;
  /// Sets the percentiles that INFO latencystats shows.
  void set_shown_percentiles(std::vector<double> percents);
  [[nodiscard]] std::vector<double> shown_percentiles() const;

  /// Counts an error reply by its code, the first word of `message`. Only the first 128 different codes are counted separately.
  void count_error(Bytes message);
  [[nodiscard]] std::map<std::string, std::uint64_t> errors_by_code() const;

  /// Resets the counts, for CONFIG RESETSTAT.
  void reset();

 private:
  [[nodiscard]] std::vector<CommandCounts> sum_commands() const;
  [[nodiscard]] TotalCounts sum_totals() const;
  [[nodiscard]] std::vector<std::uint64_t> sum_times(std::size_t command) const;

  const std::size_t commands_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::unique_ptr<DispatchCounters>> blocks_;
  std::vector<CommandCounts> base_commands_;
  TotalCounts base_totals_;
  std::map<std::string, std::uint64_t> errors_;
  std::vector<std::vector<std::uint64_t>> base_times_;  ///< histograms at the last reset, by command; empty: no reset yet
  std::vector<double> shown_percentiles_ = {50, 99, 99.9};
};

}  // namespace ebbtide

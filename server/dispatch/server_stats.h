// Counts of what dispatch does: per command, and in total. INFO and the metrics read them.
//
// Each dispatcher writes a block of its own (single writer, relaxed atomics, no shared line); readers sum the blocks. A reset
// remembers the sums of that moment and subtracts them from then on, so that writers need not know.
//
// Whose time is it? The clock is read once a command, when it ends, and what has passed since the reading before is that
// command's. So the first command of a window also carries looking up and prefetching for all of the window, and a command
// carries what ran before it without ending: one that was refused, and one that then waited for pages. The time of waiting
// itself, for pages, for another thread or for a sync, is nobody's: these are times of work. Receiving, sending and the write to
// the log are in the times of the passes only. Waiting is told apart by its stage.
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

/// Bounds of the buckets that a call's time falls into, in nanoseconds: the first one whose bound is not below it, or the one
/// more after the last. Close together where commands that find their data in memory end (one takes about a microsecond), wide
/// beyond.
inline constexpr std::array<std::uint64_t, 15> kCallBounds = {1'000,      2'500,      5'000,       10'000,        25'000,
                                                              50'000,     100'000,    250'000,     1'000'000,     2'500'000,
                                                              10'000'000, 50'000'000, 250'000'000, 1'000'000'000, 10'000'000'000};
inline constexpr std::size_t kCallBuckets = kCallBounds.size() + 1;

namespace call_buckets {

/// kCallBounds, and what no time exceeds.
constexpr auto padded_bounds() {
  std::array<std::uint64_t, kCallBuckets> bounds{};
  for (std::size_t i = 0; i < kCallBounds.size(); ++i) bounds[i] = kCallBounds[i];
  bounds.back() = std::numeric_limits<std::uint64_t>::max();
  return bounds;
}
inline constexpr auto kBounds = padded_bounds();

/// By a time's bit width: the bucket of the shortest such time.
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

/// The bucket of a call that took `nanos`.
constexpr std::size_t bucket_of(std::uint64_t nanos) {
  const std::size_t first = call_buckets::kByWidth[static_cast<std::size_t>(std::bit_width(nanos))];
  return first + static_cast<std::size_t>(nanos > call_buckets::kBounds[first]);
}

/// What the time until a reply may leave goes into.
enum class Stage : std::uint8_t {
  kQueue,   ///< behind the commands before it in its pass: of each pass the last one
  kMemory,  ///< running, with what is at hand: of each pass the last one
  kDisk,    ///< until pages were there: each wait
  kThread,  ///< on its way to another thread, running there, and back: each time
  kStall,   ///< held back by the write stall, or until there is memory: each time
  /// Until the log had what the commands of a pass did, as durably as the settings ask for: of passes that find something to
  /// write, of each loop one at a time. And until it was synced: each command whose reply waits for that.
  kWal,
};
inline constexpr std::array<const char*, 6> kStageNames = {"queue", "memory", "disk", "thread", "stall", "wal"};

using StageNanos = std::array<std::uint64_t, kStageNames.size()>;  ///< by Stage

/// Bounds of the buckets that SCAN's calls fall into, by the keys and versions that they looked at: from COUNT's default, 10, on.
inline constexpr std::array<std::uint64_t, 8> kScanBounds = {1, 10, 30, 100, 300, 1'000, 10'000, 100'000};

struct ScanCounts {
  std::uint64_t steps = 0;                                      ///< of all calls
  std::array<std::uint64_t, kScanBounds.size() + 1> buckets{};  ///< calls, by kScanBounds
};

struct StageCounts {
  std::uint64_t nanos = 0;
  std::array<std::uint64_t, kCallBuckets> buckets{};  ///< by kCallBounds
};

struct CommandCounts {
  std::uint64_t calls = 0, nanos = 0, rejected = 0, failed = 0;
  std::array<std::uint64_t, kCallBuckets> buckets{};  ///< calls by their time
};

struct TotalCounts {
  std::uint64_t commands = 0;  ///< calls of any command
  std::uint64_t errors = 0;    ///< error replies
  std::uint64_t keyspace_hits = 0, keyspace_misses = 0;
  std::uint64_t passes = 0;
  std::uint64_t waits_for_disk = 0;  ///< commands that had to wait for pages, counted once a round
  std::uint64_t offloaded = 0;       ///< runs on an offload thread
  std::uint64_t retries = 0;         ///< runs repeated because an expiry passed
  std::uint64_t stalled = 0;         ///< times that a command was put off by the write stall
};

/// What one dispatcher counts. Written by its loop thread only.
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
  /// A SCAN that looked at so many keys and versions.
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
  // The number of calls is the sum of the buckets. A call that found its data in memory writes to one cache line here, and to one
  // of CallTimes.
  struct alignas(64) PerCommand {
    Counter nanos;
    std::atomic<CallTimes*> times{nullptr};  ///< made at the first call
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
  std::vector<std::unique_ptr<CallTimes>> times_;  ///< the writer's; readers go through PerCommand::times
  std::array<PerStage, kStageNames.size()> stages_;
  Counter scan_steps_;
  std::array<Counter, kScanBounds.size() + 1> scans_;
};

/// All counters of a server. Thread-safe.
class ServerStats {
 public:
  explicit ServerStats(std::size_t commands) : commands_(commands), base_commands_(commands), base_times_(commands) {}

  /// A block for a new dispatcher. Lives as long as this.
  DispatchCounters* add_dispatcher();

  /// Per command, by the table's index, since start or the last reset.
  [[nodiscard]] std::vector<CommandCounts> commands() const;
  [[nodiscard]] TotalCounts totals() const;
  /// By Stage, since start; no reset touches them.
  [[nodiscard]] std::array<StageCounts, kStageNames.size()> stages() const;
  /// Since start, too.
  [[nodiscard]] ScanCounts scans() const;
  /// The time in ns that each of `percents` (0 to 100) of a command's calls took at most, to within 2 %; since start or the last
  /// reset.
  [[nodiscard]] std::vector<double> percentiles(std::size_t command, std::span<const double> percents) const;
  /// What INFO's latencystats shows.
  void set_shown_percentiles(std::vector<double> percents);
  [[nodiscard]] std::vector<double> shown_percentiles() const;

  /// Counts an error reply by its code, the first word of `message`. At most 128 codes are told apart.
  void count_error(Bytes message);
  [[nodiscard]] std::map<std::string, std::uint64_t> errors_by_code() const;

  /// CONFIG RESETSTAT.
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
  std::vector<std::vector<std::uint64_t>> base_times_;  ///< by command; empty: none at the last reset
  std::vector<double> shown_percentiles_ = {50, 99, 99.9};
};

}  // namespace ebbtide

// LATENCY: samples of slow commands. A sample is the slowest command of one event in one second.
//
// The time of a command is its running time, for which all other commands of its event loop wait. It does not include waits for
// the disk, the log or other threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "resp/args.h"

namespace ebbtide {

/// Thread-safe.
class LatencyMonitor {
 public:
  static constexpr std::size_t kSamples = 160;  ///< kept per event, as in Redis

  struct Sample {
    std::int64_t unix_seconds = 0;
    std::uint64_t ms = 0;
  };
  struct Event {
    std::vector<Sample> samples;  ///< the oldest first, at least one
    std::uint64_t max_ms = 0;     ///< the maximum since the last reset
  };

  /// Sets the threshold: a command that took at least `ms` becomes a sample. 0: no command does.
  void set_threshold(std::uint64_t ms) { threshold_ms_.store(ms, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t threshold_ms() const { return threshold_ms_.load(std::memory_order_relaxed); }
  /// Adds a sample to `event`: a command took `ms`. Ignored if `ms` is below the threshold.
  void add(Bytes event, std::uint64_t ms, std::int64_t unix_seconds);

  /// Returns all events by name.
  [[nodiscard]] std::map<std::string, Event> events() const;
  /// Returns an event by its name; without samples if the event is unknown.
  [[nodiscard]] Event event(Bytes name) const;
  /// Removes one event. Returns false if the event is unknown.
  bool reset(Bytes name);
  std::size_t reset_all();

 private:
  std::atomic<std::uint64_t> threshold_ms_{0};
  mutable std::mutex mutex_;
  std::map<std::string, Event, std::less<>> events_;  // guarded by mutex_
};

/// Draws the samples as LATENCY GRAPH of Redis does: the oldest on the left, and below each sample its age at `now_unix_seconds`.
std::string draw_latency(Bytes name, const LatencyMonitor::Event& event, std::int64_t now_unix_seconds);

}  // namespace ebbtide

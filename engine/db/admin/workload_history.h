// The operations of each database by windows of time, as a value with a file format (engine/docs/formats.md).
//
// The newest day has windows of a minute; older windows are merged into hours, and windows older than a week are dropped. A
// window without operations is not stored. Only deltas of counters are stored, no keys.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <engine/result.h>
#include <engine/workload.h>

namespace ebbtide {

/// Not thread-safe.
class WorkloadHistory {
 public:
  static constexpr Millis kWindow = 60'000;             ///< length of a window
  static constexpr Millis kHour = 60 * kWindow;         ///< length of windows that are older than kFine
  static constexpr Millis kFine = 24 * kHour;           ///< windows of at least this age are merged into hours
  static constexpr Millis kKept = 7 * 24 * kHour;       ///< windows of at least this age are dropped
  static constexpr std::size_t kMostWindows = 1 << 16;  ///< limit for all databases together (5 MiB): older windows are dropped
  static constexpr std::uint32_t kMagic = 0x4c574245;   ///< "EBWL"
  static constexpr std::uint32_t kVersion = 2;

  /// Adds a window that begins when or after the database's newest one ends. Windows without operations have no effect.
  void add(DatabaseId database, const WorkloadWindow& window);
  /// Merges and drops windows that are too old at `now`, and drops those beyond kMostWindows.
  void age(Millis now);
  /// Returns the windows of a database, oldest first.
  [[nodiscard]] const std::vector<WorkloadWindow>& windows(DatabaseId database) const;

  [[nodiscard]] std::string encode() const;
  /// kCorruption: `file` is damaged. kUnsupported: a newer version wrote it; the message names both versions.
  static Result<WorkloadHistory> decode(Bytes file);
  bool operator==(const WorkloadHistory&) const = default;

 private:
  std::map<DatabaseId, std::vector<WorkloadWindow>> windows_;
};

}  // namespace ebbtide

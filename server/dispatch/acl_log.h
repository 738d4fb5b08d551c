// ACL LOG: the latest authentications that failed, and commands that were denied.
//
// The rules are Redis's: a limited number of entries, the newest first. A failure is counted in an older entry if that entry is
// like it, among the ten newest, and at most a minute old. The counting entry moves to the front. So a flood of equal failures
// leaves other entries visible.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "acl/selector.h"

namespace ebbtide {

/// An entry of the log. Times are Unix milliseconds.
struct AclLogEntry {
  AclDenial reason = AclDenial::kNone;  ///< kNone: an authentication
  std::uint64_t id = 0;
  std::uint64_t count = 0;
  std::string context;  ///< "toplevel" or "multi"
  std::string object;   ///< the command, key or channel, its first KiB; of an authentication, the command's name as sent
  std::string user;
  std::string client;  ///< client of the latest failure, as CLIENT LIST shows it
  std::int64_t created_ms = 0, updated_ms = 0;
};

/// Thread-safe.
class AclLog {
 public:
  static constexpr std::size_t kCompared = 10;
  static constexpr std::int64_t kGroupMs = 60'000;

  /// Adds a failure, or counts it in an entry like it. Sets the id, count and created_ms of `entry`.
  void add(AclLogEntry entry);
  /// Returns the newest `most` entries, newest first.
  [[nodiscard]] std::vector<AclLogEntry> newest(std::size_t most) const;
  void reset();
  /// Replaces the limit of entries; it is 128 before the first call.
  void set_limit(std::size_t entries);

 private:
  mutable std::mutex mutex_;
  std::list<AclLogEntry> entries_;  // guarded by mutex_
  std::uint64_t next_id_ = 0;       // guarded by mutex_
  std::size_t limit_ = 128;         // guarded by mutex_
};

}  // namespace ebbtide

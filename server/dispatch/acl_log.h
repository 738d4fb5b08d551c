// ACL LOG: the latest authentications that failed.
//
// As Redis's: at most 128 entries, the newest first. A failure like one of the ten newest entries, within a minute of it, counts there
// and moves it to the front, so that a flood of one kind leaves the others visible.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

namespace ebbtide {

/// An entry. Times are Unix milliseconds.
struct AclLogEntry {
  std::uint64_t id = 0;
  std::uint64_t count = 0;
  std::string context;  ///< "toplevel" or "multi"
  std::string object;   ///< the command's name as it was sent
  std::string user;
  std::string client;  ///< as CLIENT LIST has it, of the latest failure
  std::int64_t created_ms = 0, updated_ms = 0;
};

/// Thread-safe.
class AclLog {
 public:
  static constexpr std::size_t kEntries = 128;
  static constexpr std::size_t kCompared = 10;
  static constexpr std::int64_t kGroupMs = 60'000;

  /// Counts a failure; `entry`'s id, count and created_ms are set here.
  void add(AclLogEntry entry);
  /// The newest `most` entries, newest first.
  [[nodiscard]] std::vector<AclLogEntry> newest(std::size_t most) const;
  void reset();

 private:
  mutable std::mutex mutex_;
  std::list<AclLogEntry> entries_;  // guarded by mutex_
  std::uint64_t next_id_ = 0;       // guarded by mutex_
};

}  // namespace ebbtide

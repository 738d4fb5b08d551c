// ACL LOG: the latest authentications that failed.
//
// Its limits are Redis's: at most 128 entries, the newest first. A failure like one of the ten newest entries, within a minute of
// it, is counted in that entry. The entry moves to the front. So a flood of one kind of failure leaves the others visible.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

namespace ebbtide {

/// Times are Unix milliseconds.
struct AclLogEntry {
  std::uint64_t id = 0;
  std::uint64_t count = 0;
  std::string context;  ///< "toplevel" or "multi"
  std::string object;   ///< the command's name as the client sent it
  std::string user;
  std::string client;  ///< as CLIENT LIST shows it, of the latest failure
  std::int64_t created_ms = 0, updated_ms = 0;
};

/// Thread-safe.
class AclLog {
 public:
  static constexpr std::size_t kEntries = 128;
  static constexpr std::size_t kCompared = 10;
  static constexpr std::int64_t kGroupMs = 60'000;

  /// Counts a failure. Sets the id, count and created_ms of `entry`.
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

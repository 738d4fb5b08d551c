// ACL LOG: the latest failed authentications and denied commands.
//
// The rules are Redis's. The log has a limited number of entries, newest first. A new failure gets an entry of its own, unless it
// repeats one of the ten newest entries: reason, context, object and user are equal, and that entry's latest failure was at most
// a minute ago. Then the entry's count rises, and the entry moves to the front. So a flood of equal failures does not push other
// entries out of the log.
//
// All entries together have a share of the memory budget, like those of the slow log. The oldest entries are removed when the
// share is exceeded.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "acl/selector.h"
#include "dispatch/stepped_charge.h"

namespace ebbtide {

/// An entry of the log. Times are Unix milliseconds.
struct AclLogEntry {
  AclDenial reason = AclDenial::kNone;  ///< the reason for the denial; kNone: an authentication failed
  std::uint64_t id = 0;
  std::uint64_t count = 0;
  std::string context;  ///< "toplevel" or "multi"
  /// First KiB of the denied command, key or channel; for an authentication: AUTH or HELLO, as the client spelled it.
  std::string object;
  std::string user;
  std::string client;  ///< client of the latest failure, as CLIENT LIST shows it
  std::int64_t created_ms = 0, updated_ms = 0;
};

/// Thread-safe.
class AclLog {
 public:
  static constexpr std::size_t kCompared = 10;
  static constexpr std::int64_t kGroupMs = 60'000;
  /// The entries take at most 1 / kBudgetPart of the memory budget, and at most kMostBytes: other threads wait while they are
  /// copied for a reply.
  static constexpr std::uint64_t kBudgetPart = 64, kMostBytes = std::uint64_t{16} << 20;

  /// Charges the memory of the entries. The functions of `memory` are set once, before use.
  SteppedCharge memory;
  /// Sets the size of the memory budget, in bytes.
  void set_budget(std::uint64_t bytes);

  /// Adds a failure, or counts it in an equal entry. Sets id, count and created_ms of a new entry itself: callers leave them 0.
  void add(AclLogEntry entry);
  /// Returns the newest `most` entries, newest first.
  [[nodiscard]] std::vector<AclLogEntry> newest(std::size_t most) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t memory_bytes() const;
  void reset();
  /// Sets the limit of entries, 128 at first.
  void set_limit(std::size_t entries);

 private:
  using Entries = std::list<AclLogEntry>;
  /// Removes the oldest entries until the limits are kept, and returns them. The caller holds mutex_.
  [[nodiscard]] Entries keep_limits();

  mutable std::mutex mutex_;
  Entries entries_;                        // guarded by mutex_
  std::uint64_t next_id_ = 0;              // guarded by mutex_
  std::size_t limit_ = 128;                // guarded by mutex_
  std::uint64_t most_bytes_ = kMostBytes;  // guarded by mutex_
  std::size_t bytes_ = 0;                  // guarded by mutex_; memory of entries_, which `memory` charges
};

}  // namespace ebbtide

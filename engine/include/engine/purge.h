// Purge tickets: users can ask whether deleted data has left all files.
//
// A ticket stands for every delete born up to a moment. It is a value: no state is stored for it, and it has the same meaning
// after any number of restarts. Its status is computed from everything that may have pending deletes: memtables, tables, files to
// be removed, log segments, the manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

struct PurgeTicket {
  Millis born_by = 0;               ///< every delete born at this engine time or before
  std::optional<TreeId> tree = {};  ///< in this tree; without one, in all trees that have a delete deadline
  bool operator==(const PurgeTicket&) const = default;
};

/// Places that may still have bytes of deleted data.
enum class PurgePlace : std::uint8_t {
  kMemTable,  ///< not yet in a table; no file by itself
  kTable,     ///< a table with pending deletes or expiries
  kLeaving,   ///< replaced, and not yet removed: still open, not unlinked, or its unlinking not yet synced
  kLog,       ///< a segment of the write-ahead log
  kManifest,  ///< the manifest names keys of removed tables
};
inline constexpr std::size_t kPurgePlaces = 5;
/// "memtable", "table", "leaving", "log", "manifest".
const char* purge_place_name(PurgePlace place);

/// "purge-<born by>" or "purge-<born by>-<tree>".
std::string format_ticket(const PurgeTicket& ticket);
/// Nothing if `text` is not spelled as format_ticket does.
std::optional<PurgeTicket> parse_ticket(Bytes text);

struct PurgeStatus {
  bool done = false;
  /// True if a delete deadline applies; nothing if that is unknown: for a tree that was removed before the start.
  std::optional<bool> promised;
  Millis deadline = 0;      ///< time by which all of it must be purged; 0 = no promise, or unknown
  Millis completed_at = 0;  ///< done: engine time at which it was known to be purged, at the latest; else 0
  /// True if all of it was purged by the deadline; nothing if no deadline applies, or if it is unknown. Unknown if the server
  /// started after the deadline.
  std::optional<bool> in_time;
  struct Left {
    std::uint64_t files = 0, bytes = 0;
    Millis oldest_birth = 0;  ///< 0 = nothing left
  };
  Left left[kPurgePlaces];  ///< by place
  Left damage;              ///< the part of it that waits for quarantined files, not for merges; its bytes are in `left`, too
  std::vector<DatabaseId> not_promised;  ///< of a ticket for all trees: the databases without a deadline, which it leaves out

  [[nodiscard]] std::uint64_t files() const;
  [[nodiscard]] std::uint64_t bytes() const;
};

}  // namespace ebbtide

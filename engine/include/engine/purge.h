// Deletes on their way from "no reader finds it" to "no file has a byte of it", as users see them.
//
// A ticket stands for every delete that was born up to a moment. It is a value: nothing has to be kept for it, and it means the
// same after any number of restarts. What it waits for is found by asking what still owes something: memtables, tables, files on
// their way out, log segments, the manifest.
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

/// Where bytes of deleted data are left, or may be.
enum class PurgePlace : std::uint8_t {
  kMemTable,  ///< not yet in a table; no file by itself
  kTable,     ///< a table that owes something to a tombstone, an expiry, or what they hide
  kLeaving,   ///< replaced, and not gone yet: still open, not unlinked, or its unlinking not yet synced
  kLog,       ///< a segment of the write-ahead log
  kManifest,  ///< the manifest names keys of tables that are gone
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
  /// Whether a delete deadline applies; nothing if that is not known any more: of a tree that went before the start.
  std::optional<bool> promised;
  Millis deadline = 0;      ///< by when all of it is to be gone; 0 = not promised, or not known
  Millis completed_at = 0;  ///< done: engine time at which it was known to be gone, at the latest; else 0
  /// Whether all of it was gone by the deadline; nothing if that is not known, or none applies. What is known is what was seen
  /// since the start: after one that came past the deadline nobody knows when that which is gone went.
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

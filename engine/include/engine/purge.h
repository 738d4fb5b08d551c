// Purge tickets: users can ask whether deleted data has left all files.
//
// A ticket stands for every delete born up to a moment. A ticket is a value: the engine stores no state for it, and it has the
// same meaning after any number of restarts. Its status is computed from everything that may have pending deletes: memtables,
// tables, files to be removed, log segments, the manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

struct PurgeTicket {
  Millis born_by = 0;               ///< the ticket stands for every delete born at this engine time or before
  std::optional<TreeId> tree = {};  ///< the tree of these deletes; without a value, all trees that have a delete deadline
  bool operator==(const PurgeTicket&) const = default;
};

/// The kinds of holders that may still have bytes of deleted data.
enum class PurgePlace : std::uint8_t {
  kMemTable,  ///< a memtable, whose deletes are not yet in a table
  kTable,     ///< a table with pending deletes, passed expiries included
  kLeaving,   ///< a replaced file that is still open, is not unlinked yet, or whose unlinking is not synced yet
  kLog,       ///< a segment of the write-ahead log
  kManifest,  ///< the manifest, if it names keys of removed tables
};
inline constexpr std::size_t kPurgePlaces = 5;
/// Returns "memtable", "table", "leaving", "log" or "manifest".
const char* purge_place_name(PurgePlace place);

/// Returns "purge-<born by>" or "purge-<born by>-<tree>".
std::string format_ticket(const PurgeTicket& ticket);
/// Returns the ticket that format_ticket() wrote as `text`; no value if `text` does not have exactly that form.
std::optional<PurgeTicket> parse_ticket(Bytes text);

struct PurgeStatus {
  bool done = false;
  /// True if a delete deadline applies to the ticket, false if none does. No value (unknown) if the ticket's tree was removed
  /// before the database was opened.
  std::optional<bool> promised;
  Millis deadline = 0;      ///< engine time by which all deletes of the ticket must be purged; 0 = no promise, or unknown
  Millis completed_at = 0;  ///< if done: the deletes were purged at this engine time or before; else 0
  /// True if all deletes of the ticket were purged by the deadline, false if not. No value if no deadline applies or the answer
  /// is unknown, for example because the server started after the deadline.
  std::optional<bool> in_time;
  struct Left {
    std::uint64_t files = 0, bytes = 0;  ///< files (or memtables) that have some of the ticket's deletes, and their bytes
    Millis oldest_birth = 0;             ///< birth of the oldest pending delete; 0 = none is pending
  };
  Left left[kPurgePlaces];  ///< by PurgePlace
  Left damage;              ///< the part of `left` that no merge can purge, since quarantined files have it
  /// Set only for a ticket for all trees: the databases without a deadline, which the ticket leaves out.
  std::vector<DatabaseId> not_promised;

  /// Return the sums of `left` over everything but memtables, which are no files.
  [[nodiscard]] std::uint64_t files() const;
  [[nodiscard]] std::uint64_t bytes() const;
};

}  // namespace ebbtide

// Lays entries out as a page (table/page.h).
#pragma once

#include <span>
#include <string>

#include "base/entry.h"

namespace ebbtide {

/// An entry that waits for its page. Its views point into the arena of the tile.
struct PendingEntry {
  Entry entry;
  std::uint64_t hash = 0;  ///< hash of the entry's key
};

/// Estimated bytes of an entry in a page. kEntryOverheadBytes: the entry without key and value, which is flags, suffix length,
/// sequence number, tag and offset. kDeleteKeyBytes: a delete key. kMillisBytes: an expiry or delete debt. Numbers are stored as
/// differences from the page's smallest.
inline constexpr std::size_t kEntryOverheadBytes = 9, kDeleteKeyBytes = 5, kMillisBytes = 6;

/// Sets `out` to a page of the entries at `indexes`: at least one, in sort-key order, the newest version of a key first.
void build_page(std::span<const PendingEntry> entries, std::span<const std::uint32_t> indexes, std::string* out);

}  // namespace ebbtide

// Encodes entries as a page (table/page.h).
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

/// Estimated bytes of the parts of an entry in a page. kEntryOverheadBytes: flags, suffix length, sequence number, tag and
/// offset. kDeleteKeyBytes: a delete key. kMillisBytes: an expiry or a delete debt. Sequence numbers and delete keys are stored
/// as differences from the page's smallest.
inline constexpr std::size_t kEntryOverheadBytes = 9, kDeleteKeyBytes = 5, kMillisBytes = 6;

/// Sets `out` to a page of the entries with these `indexes` in `entries`. `indexes` has at least one element, and is in sort-key
/// order, the newest version of a key first.
void build_page(std::span<const PendingEntry> entries, std::span<const std::uint32_t> indexes, std::string* out);

}  // namespace ebbtide

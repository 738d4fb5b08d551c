// Lays entries out as a page (table/page.h).
#pragma once

#include <span>
#include <string>

#include "base/entry.h"

namespace ebbtide {

/// An entry that waits for its page. Views point into the tile's arena.
struct PendingEntry {
  Entry entry;
  std::uint64_t hash = 0;  ///< of the key
};

/// Estimated bytes of an entry in a page without key and value: flags, suffix length, sequence number, tag and offset; and of its
/// delete key, and of its expiry or delete debt. Numbers are stored as differences from the page's smallest.
inline constexpr std::size_t kEntryOverheadBytes = 9, kDeleteKeyBytes = 5, kMillisBytes = 6;

/// Replaces `out` by the page of `entries[indexes]`: at least one, in sort-key order, newest version first.
void build_page(std::span<const PendingEntry> entries, std::span<const std::uint32_t> indexes, std::string* out);

}  // namespace ebbtide

// One page in memory: entries in sort-key order, found by tag or binary search, read without a copy.
//
// Layout (little endian):
//   count u32, flags u32 (bit 0: offsets are u32), smallest seq u64, smallest delete key u64, prefix length u32, zero u32
//   tags     count u8: low byte of each key's hash; a lookup compares 16 at a time and reads only entries with an equal tag
//   offsets  count u16 or u32: where each entry begins, from the start of the page; the last ends with the page
//   prefix   the common prefix of all keys of the page
//   entries  flags u8, suffix length varint, suffix, seq - smallest varint, [delete key - smallest varint], [expiry varint],
//            [debt varint]; then the value to the entry's end, or for a large one offset, stored bytes and length as varints
//
// A page is checked once, when it is read from disk (check_page); every other function here trusts it.
#pragma once

#include <cstdint>
#include <string>

#include <engine/read_view.h>
#include "base/coding.h"
#include "base/entry.h"

namespace ebbtide {

inline constexpr std::size_t kPageHeaderBytes = 32;
inline constexpr std::uint32_t kPageWideOffsets = 1;

/// Flags byte of an entry. Numbers are part of the format; bits 0 and 1 are the EntryKind, bit 7 is zero.
inline constexpr std::uint8_t kEntryFirst = 4, kEntryHasDeleteKey = 8, kEntryHasExpiry = 16, kEntryHasDebt = 32, kEntryLarge = 64;

inline std::uint8_t page_tag(std::uint64_t hash) { return static_cast<std::uint8_t>(hash); }

/// Returns null if `page` is well-formed, else the fault: lengths, offsets, every entry's grammar, and the order of entries.
/// `data_bytes` bounds the references to large values.
const char* check_page(Bytes page, std::uint64_t data_bytes);

class TableLookup;  // table/table_lookup.h

/// Reads a checked page. Views into it are valid as long as the page's bytes. Trivially copyable.
class PageView {
 public:
  PageView() = default;
  explicit PageView(Bytes page) : begin_(page.data()), end_(page.data() + page.size()) {
    count_ = load_fixed<std::uint32_t>(begin_);
    wide_ = (load_fixed<std::uint32_t>(begin_ + 4) & kPageWideOffsets) != 0;
    prefix_bytes_ = load_fixed<std::uint32_t>(begin_ + 24);
    offsets_ = begin_ + kPageHeaderBytes + count_;
  }

  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] Bytes prefix() const { return {offsets_ + std::size_t{count_} * (wide_ ? 4 : 2), prefix_bytes_}; }
  [[nodiscard]] std::uint8_t tag(std::uint32_t i) const { return static_cast<std::uint8_t>(begin_[kPageHeaderBytes + i]); }

  /// Finds the newest version of `key` with seq <= view_seq; false if there is none. Sets all fields of `entry` except `key`;
  /// `table` becomes part of a reference to a large value. Sets `*seen` if the page has any version of the key.
  bool get(const LookupKey& key, SeqNum view_seq, const TableLookup* table, Entry* entry, bool* seen) const;
  /// Starts the load of the entry that get() will probably read.
  void prefetch(std::uint64_t hash) const;
  /// Index of the first entry whose key is >= key, count() if none.
  [[nodiscard]] std::uint32_t lower_bound(Bytes key) const;
  /// Decodes entry i < count(). `*key` receives the assembled key.
  void read(std::uint32_t i, const TableLookup* table, std::string* key, Entry* entry) const;
  /// The key of entry i without the prefix.
  [[nodiscard]] Bytes suffix(std::uint32_t i) const;

 private:
  [[nodiscard]] const char* entry_at(std::uint32_t i) const {
    return begin_ + (wide_ ? load_fixed<std::uint32_t>(offsets_ + std::size_t{i} * 4)
                           : load_fixed<std::uint16_t>(offsets_ + std::size_t{i} * 2));
  }
  void prefetch_middles(std::uint32_t low, std::uint32_t high, std::uint32_t steps) const;
  void read_fields(const char* p, std::uint8_t flags, std::uint32_t i, const TableLookup* table, Entry* entry) const;

  const char* begin_ = nullptr;
  const char* end_ = nullptr;
  const char* offsets_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint32_t prefix_bytes_ = 0;
  bool wide_ = false;
};

}  // namespace ebbtide

// One page in memory: entries in sort-key order. Lookups find them by tag or binary search and read them without a copy.
//
// Layout (little endian):
//   count u32, flags u32 (bit 0: offsets are u32), smallest seq u64, smallest delete key u64, prefix length u32, zero u32
//  tags     count u8: low byte of each key's hash; a lookup compares 16 tags at once and reads only entries whose tag is equal
//  offsets  count u16 or u32: where each entry begins, counted from the start of the page; the last entry ends with the page
//   prefix   the common prefix of all keys of the page
//   entries  flags u8, suffix length varint, suffix, seq - smallest varint, [delete key - smallest varint], [expiry varint],
//            [debt varint]; then the value to the entry's end, or for a large one offset, stored bytes and length as varints
//
// check_page() checks a page once, when it is read from disk; every other function here trusts the page.
#pragma once

#include <cstdint>
#include <string>

#include <engine/read_view.h>
#include "base/coding.h"
#include "base/entry.h"

namespace ebbtide {

inline constexpr std::size_t kPageHeaderBytes = 32;
inline constexpr std::uint32_t kPageWideOffsets = 1;

/// Flags byte of an entry. The numbers are part of the format. Bits 0 and 1 are the EntryKind.
inline constexpr std::uint8_t kEntryFirst = 4, kEntryHasDeleteKey = 8, kEntryHasExpiry = 16, kEntryHasDebt = 32, kEntryLarge = 64,
                              kEntryElement = 128;

inline std::uint8_t page_tag(std::uint64_t hash) { return static_cast<std::uint8_t>(hash); }

/// Checks lengths, offsets, the fields of every entry, and the order of entries. Returns null if `page` is well-formed,
/// otherwise the name of the faulty part. `data_bytes` is the size of the data file, in which references to large values must
/// lie.
const char* check_page(Bytes page, std::uint64_t data_bytes);

class TableLookup;  // table/table_lookup.h

/// Reads a page that passed check_page(). Returned views are valid as long as the page's bytes. Trivially copyable.
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

  /// Finds the newest version of `key` with seq <= view_seq, and sets all fields of `entry` except `key`. Returns false if there
  /// is no such version. Sets `*seen` to true if the page has any version of the key. `table` is stored in references to large
  /// values.
  bool get(const LookupKey& key, SeqNum view_seq, const TableLookup* table, Entry* entry, bool* seen) const;
  /// Starts the memory load of the entry that get() will probably read.
  void prefetch(std::uint64_t hash) const;
  /// Returns the index of the first entry whose key is >= `key`; count() if there is none.
  [[nodiscard]] std::uint32_t lower_bound(Bytes key) const;
  /// Decodes entry i < count(). Sets `*key` to its whole key.
  void read(std::uint32_t i, const TableLookup* table, std::string* key, Entry* entry) const;
  /// Returns the key of entry i without the page's prefix.
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

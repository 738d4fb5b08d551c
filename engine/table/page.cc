#include "table/page.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ebbtide {
namespace {

// Reads a varint of a checked page. The check has shown that the varint ends inside the page.
inline std::uint64_t take_varint(const char** p) {
  const auto* q = reinterpret_cast<const unsigned char*>(*p);
  std::uint64_t v = *q++;
  if (v >= 0x80) {
    v &= 0x7f;
    for (int shift = 7;; shift += 7) {
      const std::uint64_t byte = *q++;
      v |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
  }
  *p = reinterpret_cast<const char*>(q);
  return v;
}

constexpr std::size_t kLine = 64;
// Number of bytes of an entry, with its value, that are prefetched. For a longer entry, the processor's own prefetching
// loads the other bytes.
constexpr std::ptrdiff_t kEntryAhead = 256;

// A binary search prefetches all entries that its next kSearchAhead steps may read.
constexpr std::uint32_t kSearchAhead = 3;

// Returns the first 8 of the n bytes at `p` as a number with the same order; fewer bytes are padded with zeros. May read up to
// `end`.
inline std::uint64_t word_of(const char* p, std::size_t n, const char* end) {
  std::uint64_t word = 0;
  if (end - p >= 8) [[likely]] {
    word = __builtin_bswap64(load_fixed<std::uint64_t>(p));
    if (n < 8) word &= n == 0 ? 0 : ~std::uint64_t{0} << (64 - 8 * n);
    return word;
  }
  for (std::size_t i = 0; i < 8; ++i) word = word << 8 | (i < n ? static_cast<unsigned char>(p[i]) : 0u);
  return word;
}

// Returns a number in which bit i is set if tags[i] == tag. `tags` has n <= 16 tags; 16 bytes are read if `whole`.
inline std::uint32_t match_tags(const char* tags, std::uint32_t n, std::uint8_t tag, bool whole) {
#if defined(__SSE2__)
  if (whole) {
    const __m128i line = _mm_loadu_si128(reinterpret_cast<const __m128i*>(tags));
    const auto mask = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(line, _mm_set1_epi8(static_cast<char>(tag)))));
    return n >= 16 ? mask : mask & ((1u << n) - 1);
  }
#endif
  std::uint32_t mask = 0;
  for (std::uint32_t i = 0; i < n && i < 16; ++i) mask |= std::uint32_t{static_cast<std::uint8_t>(tags[i]) == tag} << i;
  return mask;
}

// The fields of an entry on which the order of entries depends.
struct Placed {
  Bytes suffix;
  SeqNum seq = 0;
};

const char* check_entry(Bytes entry, SeqNum min_seq, std::uint64_t prefix_bytes, std::uint64_t data_bytes, Placed* placed) {
  std::uint8_t flags = 0;
  std::uint64_t skipped = 0;
  if (!get_u8(&entry, &flags) || (flags & (kEntryElement | 3)) == (kEntryElement | 3)) return "entry flags";
  if (!get_bytes(&entry, &placed->suffix) || placed->suffix.size() + prefix_bytes > kMaxKeyBytes) return "entry key";
  if (!get_varint(&entry, &placed->seq) || placed->seq > kMaxSeqNum - min_seq) return "entry seq";
  placed->seq += min_seq;
  if ((flags & kEntryHasDeleteKey) != 0 && !get_varint(&entry, &skipped)) return "entry delete key";
  if ((flags & kEntryHasExpiry) != 0 && !get_varint(&entry, &skipped)) return "entry expiry";
  if ((flags & kEntryHasDebt) != 0 && !get_varint(&entry, &skipped)) return "entry debt";
  if ((flags & kEntryLarge) == 0) return nullptr;
  LargeValueRef ref;
  if (!get_varint(&entry, &ref.offset) || !get_varint(&entry, &ref.stored_bytes) || !get_varint(&entry, &ref.length) ||
      !entry.empty()) {
    return "entry reference to a large value";
  }
  if (ref.length > kMaxValueBytes || ref.stored_bytes > data_bytes || ref.offset > data_bytes - ref.stored_bytes) {
    return "entry reference to a large value is out of range";
  }
  return nullptr;
}

}  // namespace

const char* check_page(Bytes page, std::uint64_t data_bytes) {
  if (page.size() < kPageHeaderBytes || page.size() > 0xffffffffu) return "page length";
  const std::uint64_t count = load_fixed<std::uint32_t>(page.data());
  const auto flags = load_fixed<std::uint32_t>(page.data() + 4);
  const std::uint64_t prefix = load_fixed<std::uint32_t>(page.data() + 24);
  const auto min_seq = load_fixed<std::uint64_t>(page.data() + 8);
  if (min_seq > kMaxSeqNum) return "smallest seq";
  if (flags > kPageWideOffsets || load_fixed<std::uint32_t>(page.data() + 28) != 0) return "page flags";
  const std::uint64_t width = (flags & kPageWideOffsets) != 0 ? 4 : 2;
  const std::uint64_t first = kPageHeaderBytes + count * (1 + width) + prefix;
  if (first > page.size() || count == 0 || prefix > kMaxKeyBytes) return "page count or prefix";
  const char* const offsets = page.data() + kPageHeaderBytes + count;
  const auto offset_of = [&](std::uint64_t i) -> std::uint64_t {
    return width == 4 ? load_fixed<std::uint32_t>(offsets + i * 4) : load_fixed<std::uint16_t>(offsets + i * 2);
  };
  if (offset_of(0) != first) return "first entry's offset";
  Placed before;
  for (std::uint64_t i = 0, begin = first; i < count; ++i) {
    const std::uint64_t end = i + 1 < count ? offset_of(i + 1) : page.size();
    if (end <= begin || end > page.size()) return "offsets out of order";
    Placed placed;
    if (const char* why = check_entry(page.substr(begin, end - begin), min_seq, prefix, data_bytes, &placed); why != nullptr)
      return why;
    if (i > 0 && !version_before(before.suffix, before.seq, placed.suffix, placed.seq)) return "entries out of order";
    before = placed;
    begin = end;
  }
  return nullptr;
}

void PageView::read_fields(const char* p, std::uint8_t flags, std::uint32_t i, const TableLookup* table, Entry* entry) const {
  entry->kind = static_cast<EntryKind>(flags & 3);
  entry->first = (flags & kEntryFirst) != 0;
  entry->element = (flags & kEntryElement) != 0;
  entry->seq = load_fixed<std::uint64_t>(begin_ + 8) + take_varint(&p);
  entry->delete_key = (flags & kEntryHasDeleteKey) != 0 ? load_fixed<std::uint64_t>(begin_ + 16) + take_varint(&p) : kNoStamp;
  entry->expiry = (flags & kEntryHasExpiry) != 0 ? take_varint(&p) : 0;
  entry->debt = (flags & kEntryHasDebt) != 0 ? take_varint(&p) : 0;
  entry->shared = nullptr;
  if ((flags & kEntryLarge) != 0) [[unlikely]] {
    entry->large.table = table;
    entry->large.offset = take_varint(&p);
    entry->large.stored_bytes = take_varint(&p);
    entry->large.length = take_varint(&p);
    entry->value = {};
    return;
  }
  entry->large = {};
  const char* const end = i + 1 < count_ ? entry_at(i + 1) : end_;
  entry->value = {p, static_cast<std::size_t>(end - p)};
}

bool PageView::get(const LookupKey& key, SeqNum view_seq, const TableLookup* table, Entry* entry, bool* seen) const {
  const Bytes common = prefix();
  if (key.key.size() < common.size()) return false;
  const Bytes wanted = key.key.substr(common.size());
  const std::uint64_t min_seq = load_fixed<std::uint64_t>(begin_ + 8);
  const char* const tags = begin_ + kPageHeaderBytes;
  for (std::uint32_t base = 0; base < count_; base += 16) {
    std::uint32_t mask = match_tags(tags + base, count_ - base, page_tag(key.hash), tags + base + 16 <= end_);
    for (; mask != 0; mask &= mask - 1) {
      const std::uint32_t i = base + static_cast<std::uint32_t>(std::countr_zero(mask));
      const char* p = entry_at(i);
      const auto flags = static_cast<std::uint8_t>(*p++);
      const std::uint64_t bytes = take_varint(&p);
      if (bytes != wanted.size() || !same_bytes(p, wanted.data(), bytes) ||
          !same_bytes(common.data(), key.key.data(), common.size())) {
        continue;
      }
      p += bytes;
      *seen = true;
      const char* q = p;
      if (min_seq + take_varint(&q) > view_seq) continue;  // this version is too new; older versions follow it
      read_fields(p, flags, i, table, entry);
      return true;
    }
  }
  return false;
}

void PageView::prefetch(std::uint64_t hash) const {
  const char* const tags = begin_ + kPageHeaderBytes;
  for (std::uint32_t base = 0; base < count_; base += 16) {
    const std::uint32_t mask = match_tags(tags + base, count_ - base, page_tag(hash), tags + base + 16 <= end_);
    if (mask == 0) continue;
    const std::uint32_t i = base + static_cast<std::uint32_t>(std::countr_zero(mask));
    const char* const begin = entry_at(i);
    const char* const end = std::min(i + 1 < count_ ? entry_at(i + 1) : end_, begin + kEntryAhead);
    const char* line = begin - reinterpret_cast<std::uintptr_t>(begin) % kLine;
    for (; line < end; line += kLine) __builtin_prefetch(line);
    return;
  }
}

Bytes PageView::suffix(std::uint32_t i) const {
  const char* p = entry_at(i) + 1;
  const std::uint64_t bytes = take_varint(&p);
  return {p, bytes};
}

void PageView::prefetch_middles(std::uint32_t low, std::uint32_t high, std::uint32_t steps) const {
  if (low >= high) return;
  const std::uint32_t middle = low + (high - low) / 2;
  __builtin_prefetch(entry_at(middle));
  if (steps <= 1) return;
  prefetch_middles(low, middle, steps - 1);
  prefetch_middles(middle + 1, high, steps - 1);
}

std::uint32_t PageView::lower_bound(Bytes key) const {
  const Bytes common = prefix();
  const int order = key.substr(0, common.size()).compare(common);
  if (order < 0) return 0;  // the key is before the prefix, or is a proper prefix of it
  if (order > 0) return count_;
  const Bytes wanted = key.substr(common.size());
  const std::uint64_t word = word_of(wanted.data(), wanted.size(), wanted.data() + wanted.size());
  std::uint32_t low = 0, high = count_;
  for (std::uint32_t step = 0; low < high; ++step) {
    if (step % kSearchAhead == 0) prefetch_middles(low, high, kSearchAhead);
    const std::uint32_t middle = low + (high - low) / 2;
    const Bytes here = suffix(middle);
    const std::uint64_t its_word = word_of(here.data(), here.size(), end_);
    if (its_word != word ? its_word < word : here < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

void PageView::read(std::uint32_t i, const TableLookup* table, std::string* key, Entry* entry) const {
  const char* p = entry_at(i);
  const auto flags = static_cast<std::uint8_t>(*p++);
  const std::uint64_t bytes = take_varint(&p);
  const Bytes common = prefix();
  key->resize(common.size() + bytes);
  std::memcpy(key->data(), common.data(), common.size());
  std::memcpy(key->data() + common.size(), p, bytes);
  entry->key = *key;
  read_fields(p + bytes, flags, i, table, entry);
}

}  // namespace ebbtide

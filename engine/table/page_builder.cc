#include "table/page_builder.h"

#include <algorithm>

#include "base/coding.h"
#include "base/invariant.h"
#include "table/page.h"

namespace ebbtide {
namespace {

std::size_t common_bytes(Bytes a, Bytes b) {
  const std::size_t limit = std::min(a.size(), b.size());
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(limit), b.begin()).first -
                                  a.begin());
}

void append_entry(const Entry& e, std::size_t prefix_bytes, SeqNum min_seq, DeleteKey min_delete_key, std::string* out) {
  std::uint8_t flags = static_cast<std::uint8_t>(e.kind);
  if (e.first) flags |= kEntryFirst;
  if (e.delete_key != kNoStamp) flags |= kEntryHasDeleteKey;
  if (e.expiry != 0) flags |= kEntryHasExpiry;
  if (e.debt != 0) flags |= kEntryHasDebt;
  if (e.is_large()) flags |= kEntryLarge;
  put_u8(out, flags);
  put_bytes(out, e.key.substr(prefix_bytes));
  put_varint(out, e.seq - min_seq);
  if (e.delete_key != kNoStamp) put_varint(out, e.delete_key - min_delete_key);
  if (e.expiry != 0) put_varint(out, e.expiry);
  if (e.debt != 0) put_varint(out, e.debt);
  if (e.is_large()) {
    put_varint(out, e.large.offset);
    put_varint(out, e.large.stored_bytes);
    put_varint(out, e.large.length);
  } else {
    out->append(e.value);
  }
}

}  // namespace

void build_page(std::span<const PendingEntry> entries, std::span<const std::uint32_t> indexes, std::string* out) {
  ASSERT(!indexes.empty());
  const std::size_t count = indexes.size();
  const Bytes first_key = entries[indexes.front()].entry.key;
  const std::size_t prefix_bytes = common_bytes(first_key, entries[indexes.back()].entry.key);
  SeqNum min_seq = kMaxSeqNum;
  DeleteKey min_delete_key = kNoStamp;
  std::size_t bytes = kPageHeaderBytes + prefix_bytes;
  for (const std::uint32_t i : indexes) {
    const Entry& e = entries[i].entry;
    min_seq = std::min(min_seq, e.seq);
    min_delete_key = std::min(min_delete_key, e.delete_key);
    // Generous, so that a page under 64 KiB by this count is one in fact: flags, suffix length, three varints, tag, offset.
    bytes +=
        1 + 4 + e.key.size() - prefix_bytes + 4 * kMaxVarintBytes + 3 + (e.is_large() ? 3 * kMaxVarintBytes : e.value.size());
  }
  const bool wide = bytes > 0xffff;
  const std::size_t width = wide ? 4 : 2;
  out->clear();
  out->reserve(bytes + count * 2);
  put_u32(out, static_cast<std::uint32_t>(count));
  put_u32(out, wide ? kPageWideOffsets : 0);
  put_u64(out, min_seq);
  put_u64(out, min_delete_key == kNoStamp ? 0 : min_delete_key);
  put_u32(out, static_cast<std::uint32_t>(prefix_bytes));
  put_u32(out, 0);
  for (const std::uint32_t i : indexes) put_u8(out, page_tag(entries[i].hash));
  const std::size_t offsets = out->size();
  out->append(count * width, '\0');
  out->append(first_key.substr(0, prefix_bytes));
  for (std::size_t n = 0; n < count; ++n) {
    const auto offset = static_cast<std::uint32_t>(out->size());
    if (wide) {
      store_fixed(out->data() + offsets + n * 4, offset);
    } else {
      store_fixed(out->data() + offsets + n * 2, static_cast<std::uint16_t>(offset));
    }
    append_entry(entries[indexes[n]].entry, prefix_bytes, min_seq, min_delete_key, out);
  }
  ASSERT(wide || out->size() <= 0xffff);
}

}  // namespace ebbtide

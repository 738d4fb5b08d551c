#include "table/page_builder.h"

#include <algorithm>
#include <cstring>

#include "base/coding.h"
#include "base/invariant.h"
#include "table/page.h"

namespace ebbtide {
namespace {

char* put_bytes_at(char* p, Bytes bytes) {
  if (!bytes.empty()) std::memcpy(p, bytes.data(), bytes.size());
  return p + bytes.size();
}

/// Writes the entry to `p`, which must have room for the entry. Returns the end of the written bytes.
char* put_entry(const Entry& e, std::size_t prefix_bytes, SeqNum min_seq, DeleteKey min_delete_key, char* p) {
  std::uint8_t flags = static_cast<std::uint8_t>(e.kind);
  if (e.first) flags |= kEntryFirst;
  if (e.delete_key != kNoStamp) flags |= kEntryHasDeleteKey;
  if (e.expiry != 0) flags |= kEntryHasExpiry;
  if (e.debt != 0) flags |= kEntryHasDebt;
  if (e.is_large()) flags |= kEntryLarge;
  if (e.element) flags |= kEntryElement;
  *p++ = static_cast<char>(flags);
  p = encode_varint(p, e.key.size() - prefix_bytes);
  p = put_bytes_at(p, e.key.substr(prefix_bytes));
  p = encode_varint(p, e.seq - min_seq);
  if (e.delete_key != kNoStamp) p = encode_varint(p, e.delete_key - min_delete_key);
  if (e.expiry != 0) p = encode_varint(p, e.expiry);
  if (e.debt != 0) p = encode_varint(p, e.debt);
  if (!e.is_large()) return put_bytes_at(p, e.value);
  p = encode_varint(p, e.large.offset);
  p = encode_varint(p, e.large.stored_bytes);
  return encode_varint(p, e.large.length);
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
    // `bytes` is an upper bound of the page's bytes: the buffer is large enough, and a page under 64 KiB by this count needs no
    // wide offsets. Counts flags, suffix length, varints, tag and offset.
    bytes +=
        1 + 4 + e.key.size() - prefix_bytes + 4 * kMaxVarintBytes + 3 + (e.is_large() ? 3 * kMaxVarintBytes : e.value.size());
  }
  const bool wide = bytes > 0xffff;
  const std::size_t width = wide ? 4 : 2;
  out->clear();
  put_u32(out, static_cast<std::uint32_t>(count));
  put_u32(out, wide ? kPageWideOffsets : 0);
  put_u64(out, min_seq);
  put_u64(out, min_delete_key == kNoStamp ? 0 : min_delete_key);
  put_u32(out, static_cast<std::uint32_t>(prefix_bytes));
  put_u32(out, 0);
  for (const std::uint32_t i : indexes) put_u8(out, page_tag(entries[i].hash));
  const std::size_t offsets = out->size();
  out->resize(bytes + count * 2);
  char* const begin = out->data();
  char* p = put_bytes_at(begin + offsets + count * width, first_key.substr(0, prefix_bytes));
  for (std::size_t n = 0; n < count; ++n) {
    const auto offset = static_cast<std::uint32_t>(p - begin);
    if (wide) {
      store_fixed(begin + offsets + n * 4, offset);
    } else {
      store_fixed(begin + offsets + n * 2, static_cast<std::uint16_t>(offset));
    }
    p = put_entry(entries[indexes[n]].entry, prefix_bytes, min_seq, min_delete_key, p);
  }
  const auto size = static_cast<std::size_t>(p - begin);
  ASSERT(size <= out->size() && (wide || size <= 0xffff));
  out->resize(size);
}

}  // namespace ebbtide

#include "table/tile_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/coding.h"

namespace ebbtide {

Bytes TileBuilder::copy(Bytes bytes) {
  if (bytes.empty()) return {};
  char* to = nullptr;
  if (bytes.size() > kChunkBytes / 4) {
    oversized_.push_back(std::make_unique_for_overwrite<char[]>(bytes.size()));
    to = oversized_.back().get();
  } else {
    if (used_ + bytes.size() > kChunkBytes) {
      if (used_ != kChunkBytes || !chunks_.empty()) ++chunk_;
      if (chunk_ >= chunks_.size()) {
        chunks_.push_back(std::make_unique_for_overwrite<char[]>(kChunkBytes));
        chunk_ = chunks_.size() - 1;
      }
      used_ = 0;
    }
    to = chunks_[chunk_].get() + used_;
    used_ += bytes.size();
  }
  std::memcpy(to, bytes.data(), bytes.size());
  return {to, bytes.size()};
}

std::uint64_t TileBuilder::entry_bytes(const Entry& entry) {
  std::uint64_t bytes = entry.key.size() + (entry.is_large() ? 12 : entry.value.size()) + kEntryOverheadBytes;
  if (entry.delete_key != kNoStamp) bytes += kDeleteKeyBytes;
  if (entry.expiry != 0) bytes += kMillisBytes;
  if (entry.debt != 0) bytes += kMillisBytes;
  return bytes;
}

std::size_t TileBuilder::prefix_with(Bytes key) const {
  return common_bytes(entries_.front().entry.key.substr(0, prefix_bytes_), key);
}

std::uint64_t TileBuilder::bytes_with(const Entry& entry) const {
  if (entries_.empty()) return entry_bytes(entry);
  return bytes_ + entry_bytes(entry) - (entries_.size() + 1) * prefix_with(entry.key);
}

void TileBuilder::add(const Entry& entry, std::uint64_t hash) {
  prefix_bytes_ = entries_.empty() ? entry.key.size() : prefix_with(entry.key);
  bytes_ += entry_bytes(entry);
  PendingEntry& pending = entries_.emplace_back();
  pending.entry = entry;
  pending.hash = hash;
  pending.entry.shared = nullptr;
  pending.entry.value = copy(entry.value);
  const bool same_key = entries_.size() > 1 && entries_[entries_.size() - 2].entry.key == entry.key;
  repeated_ |= same_key;
  pending.entry.key = same_key ? entries_[entries_.size() - 2].entry.key : copy(entry.key);
}

void TileBuilder::clear() {
  entries_.clear();
  oversized_.clear();
  bytes_ = 0;
  repeated_ = false;
  prefix_bytes_ = 0;
  chunk_ = 0;
  used_ = chunks_.empty() ? kChunkBytes : 0;
}

void TileBuilder::split(std::uint64_t page_bytes, TilePages* out) const {
  const auto count = static_cast<std::uint32_t>(entries_.size());
  out->pages.clear();
  out->order.assign(count, 0);
  out->last_is_tombstones = false;
  if (pages_per_tile_ == 1) {
    std::vector<std::uint32_t>& all = out->pages.emplace_back(count);
    for (std::uint32_t i = 0; i < count; ++i) all[i] = i;
    return;
  }
  std::vector<std::pair<DeleteKey, std::uint32_t>> values;  // kNoStamp is the greatest delete key, so unstamped entries come last
  std::vector<std::uint32_t> tombstones;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Entry& entry = entries_[i].entry;
    if (entry.is_tombstone()) {
      tombstones.push_back(i);
    } else {
      values.emplace_back(entry.delete_key, i);
    }
  }
  std::sort(values.begin(), values.end());
  // A tile that is not full (the last tile of a table) gets fewer pages, not smaller pages, since each page takes whole blocks of
  // the file system.
  const std::uint64_t wanted = std::clamp<std::uint64_t>((bytes() + page_bytes - 1) / page_bytes, 1, pages_per_tile_);
  const std::uint64_t pages = std::min<std::uint64_t>(wanted, values.size());
  for (std::uint64_t p = 0; p < pages; ++p) {
    const std::size_t begin = p * values.size() / pages, end = (p + 1) * values.size() / pages;
    std::vector<std::uint32_t>& page = out->pages.emplace_back();
    page.reserve(end - begin);
    for (std::size_t v = begin; v < end; ++v) {
      page.push_back(values[v].second);
      out->order[values[v].second] = static_cast<std::uint8_t>(p);
    }
    std::sort(page.begin(), page.end());
  }
  if (tombstones.empty()) return;
  for (const std::uint32_t i : tombstones) out->order[i] = static_cast<std::uint8_t>(out->pages.size());
  out->pages.push_back(std::move(tombstones));
  out->last_is_tombstones = true;
}

}  // namespace ebbtide

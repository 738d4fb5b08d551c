#include "table/loaded_filter.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "base/invariant.h"
#include "table/metadata.h"

namespace ebbtide {
namespace {

std::size_t rounded(std::size_t n) { return (n + 63) / 64 * 64; }

// Allocates memory for a filter's blocks, aligned to cache lines.
std::shared_ptr<char> blocks_of(std::size_t bytes) {
  return {static_cast<char*>(::operator new[](bytes, std::align_val_t{64})),
          [](char* p) { ::operator delete[](p, std::align_val_t{64}); }};
}

BloomView copy_slice(const std::string& slice, char* to) {
  std::memcpy(to, slice.data(), slice.size());
  auto view = BloomView::parse(Bytes(to, slice.size()));
  ASSERT(view.is_ok());
  return *view;
}

}  // namespace

std::shared_ptr<const LoadedFilter> LoadedFilter::load(const TableMetadata& m, std::uint32_t count) {
  auto filter = std::make_shared<LoadedFilter>();
  const std::size_t pages = m.filter_slices.size(), tombstones = m.tombstone_filter_slices.size();
  if (m.filter_kind == FilterKind::kNone) return filter;
  filter->has_pages_ = pages > 0;
  filter->has_tombstones_ = tombstones > 0;
  filter->collections_twice_ = m.filter_kind == FilterKind::kCollectionsTwice;
  // If both kinds of filter were built, they have the same number of slices.
  const std::size_t built = pages == 0 ? tombstones : tombstones == 0 ? pages : std::min(pages, tombstones);
  filter->slices_ = static_cast<std::uint32_t>(std::min<std::size_t>({count, built, kMaxSlices}));
  filter->bits_per_key_ = built == 0 ? 0 : m.filter_bits_per_key / static_cast<double>(built);
  for (std::uint32_t i = 0; i < filter->slices_; ++i) {
    const std::size_t page_bytes = pages > 0 ? rounded(m.filter_slices[i].size()) : 0;
    const std::size_t tombstone_bytes = tombstones > 0 ? rounded(m.tombstone_filter_slices[i].size()) : 0;
    std::shared_ptr<char> memory = blocks_of(page_bytes + tombstone_bytes);
    if (pages > 0) filter->pages_[i] = copy_slice(m.filter_slices[i], memory.get());
    if (tombstones > 0) filter->tombstones_[i] = copy_slice(m.tombstone_filter_slices[i], memory.get() + page_bytes);
    filter->memory_[i] = std::move(memory);
    filter->slice_bytes_[i] = page_bytes + tombstone_bytes;
  }
  return filter;
}

std::shared_ptr<const LoadedFilter> LoadedFilter::first(std::uint32_t count) const {
  ASSERT(count <= slices_);
  auto filter = std::make_shared<LoadedFilter>(*this);
  filter->slices_ = count;
  for (std::uint32_t i = count; i < slices_; ++i) {
    filter->slice_bytes_[i] = 0;
    filter->pages_[i] = filter->tombstones_[i] = BloomView();
    filter->memory_[i] = nullptr;
  }
  return filter;
}

std::uint64_t LoadedFilter::memory_bytes() const {
  return std::accumulate(slice_bytes_.begin(), slice_bytes_.end(), std::uint64_t{sizeof(*this)});
}

std::uint64_t LoadedFilter::slice_bits(std::uint32_t i) const {
  ASSERT(i < slices_);
  return (has_pages_ ? pages_[i].bits() : 0) + (has_tombstones_ ? tombstones_[i].bits() : 0);
}

std::uint64_t LoadedFilter::block_bits() const { return slices_ == 0 ? 0 : std::uint64_t{kBloomRows} * main_slice(0).columns(); }

double LoadedFilter::slice_rate(std::uint32_t i) const {
  ASSERT(i < slices_);
  const BloomView& slice = main_slice(i);
  if (slice.keys() == 0) return expected_false_positive_rate(bits_per_key_);
  return expected_false_positive_rate(static_cast<double>(slice.bits()) / static_cast<double>(slice.keys()));
}

}  // namespace ebbtide

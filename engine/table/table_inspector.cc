#include "table/table_inspector.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "table/table_reader.h"
#include "table/table_reader_impl.h"

namespace ebbtide {

const TableStats& TableInspector::stats() const { return r_.stats; }
const TableFiles& TableInspector::files() const { return r_.files; }
std::uint32_t TableInspector::pages_per_tile() const { return r_.h.load(std::memory_order_acquire); }
std::uint32_t TableInspector::page_count() const { return static_cast<std::uint32_t>(r_.held().pages.size()); }
std::uint32_t TableInspector::tile_count() const { return r_.tile_count.load(std::memory_order_relaxed); }

std::uint32_t TableInspector::first_tile(Bytes key) const { return r_.held().first_tile(key); }
std::string TableInspector::tile_start(std::uint32_t tile) const { return r_.held().fences.separator(tile); }

Result<bool> TableInspector::collect_stamps(std::uint32_t tile, DeleteKey lo, DeleteKey hi, Bytes from,
                                            std::vector<std::string>* keys, ReadCounters* counters) const {
  const TableIndex& index = r_.held();
  const TileInfo& info = index.tiles[tile];
  bool looked = false;
  std::string key;
  for (std::uint32_t p = info.first_page; p < info.first_page + info.pages; ++p) {
    const PageInfo& page = index.pages[p];
    const auto [min, max] = index.delete_keys[p];
    if (page.dropped() || (page.flags & kPageTombstones) != 0 || min > max || max < lo || min >= hi) continue;
    looked = true;
    TRY_ASSIGN(block, r_.use_page(page, counters));
    const PageView view(block->bytes());
    Entry entry;
    for (std::uint32_t i = view.lower_bound(from); i < view.count(); ++i) {
      view.read(i, r_.lookup, &key, &entry);
      if (!entry.is_tombstone() && lo <= entry.delete_key && entry.delete_key < hi) keys->push_back(key);
    }
  }
  return looked;
}

bool TableInspector::names_can_be_renewed() const { return r_.held().renewable; }

PageFence TableInspector::page_fence(std::uint32_t page) const {
  const TableIndex& index = r_.held();
  const auto tile = std::upper_bound(index.tiles.begin(), index.tiles.end(), page,
                                     [](std::uint32_t p, const TileInfo& t) { return p < t.first_page; }) -
                    1;
  const PageInfo& info = index.pages[page];
  PageFence fence;
  fence.tile = static_cast<std::uint32_t>(tile - index.tiles.begin());
  fence.flags = info.flags;
  fence.unique_keys = (tile->flags & kTileUniqueKeys) != 0;
  fence.single_versions = (tile->flags & kTileSingleVersions) != 0;
  fence.entries = info.entries;
  fence.stored_bytes = info.length;
  const auto [min_key, max_key] = index.delete_keys[page];
  const auto [min_expiry, max_expiry] = index.expiries[page];
  const auto [min_seq, max_seq] = index.seqs[page];
  fence.min_delete_key = min_key;
  fence.max_delete_key = max_key;
  fence.min_expiry = min_expiry;
  fence.max_expiry = max_expiry;
  fence.min_seq = min_seq;
  fence.max_seq = max_seq;
  return fence;
}

KeyRange TableInspector::tile_range(std::uint32_t tile) const {
  const TableIndex& index = r_.held();
  KeyRange range;
  range.start = tile == 0 ? r_.stats.smallest : index.fences.separator(tile);
  if (tile + 1 < index.tiles.size()) {
    range.end = index.fences.separator(tile + 1);
    // Versions of the next tile's first key are in this tile, too.
    if ((index.tiles[tile + 1].flags & kTileContinues) != 0) range.end.push_back('\0');
  } else if (!r_.stats.unbounded) {
    range.end = r_.stats.largest;
    if (!r_.stats.largest_exclusive) range.end.push_back('\0');
  }
  return range;
}

Result<std::string> TableInspector::read_page(std::uint32_t page, ReadCounters* counters) const {
  const PageInfo& info = r_.held().pages[page];
  ASSERT(!info.dropped());
  std::string block(info.length, '\0'), scratch;
  TRY(r_.report(r_.file_of(info)->read(info.offset, block.size(), block.data())));
  if (counters != nullptr) {
    ++counters->pages_read;
    counters->bytes_read += block.size();
  }
  const auto decoded = r_.decode_page(info, block, &scratch);
  if (!decoded.is_ok()) return r_.report(decoded.status());
  return std::string(*decoded);
}

std::uint64_t TableInspector::replaced_bytes() const { return r_.held().replaced_bytes; }
const std::vector<FileExtent>& TableInspector::dead_extents() const { return r_.held().dead; }

Result<TableMetadata> TableReaderImpl::load_metadata() const {
  if (failed.load(std::memory_order_acquire)) return why;
  const auto bytes = read_file(*options.fs, metadata_path);
  if (bytes.status().is_not_found()) return report(Status::corruption(metadata_path + ": is missing"));
  if (!bytes.is_ok()) return report(bytes.status());
  auto metadata = check_metadata(*bytes);
  if (!metadata.is_ok()) return report(metadata.status());
  return metadata;
}

Result<TableMetadata> TableInspector::load_metadata() const { return r_.load_metadata(); }

std::uint64_t TableInspector::filter_bits() const {
  const std::uint32_t loaded = r_.loaded_filter()->slices();
  std::uint64_t bits = 0;
  for (std::uint32_t i = 0; i < loaded; ++i) bits += r_.slices[i].bits;
  return bits;
}

double TableInspector::false_positive_rate() const {
  const std::uint32_t h = pages_per_tile();
  if (h == 0) return 1;
  const std::size_t kept = std::min<std::size_t>(r_.wanted_slices.load(std::memory_order_relaxed), r_.slices.size());
  double page = 1;
  for (std::size_t i = 0; i < kept; ++i) page *= r_.slices[i].rate;
  return 1 - std::pow(1 - page, h);
}

std::uint64_t TableInspector::resident_bytes() const {
  const std::uint64_t slices = r_.h.load(std::memory_order_acquire) != 0 ? r_.slices.capacity() * sizeof(SliceInfo) : 0;
  return sizeof(TableReader) + sizeof(r_) + r_.data_path.capacity() + r_.metadata_path.capacity() + r_.options.dir.capacity() +
         r_.stats.smallest.capacity() + r_.stats.largest.capacity() + slices;
}

std::uint64_t TableInspector::memory_bytes() const { return resident_bytes() + r_.loaded_bytes(); }

std::uint64_t TableInspector::approximate_bytes(const KeyRange& range) const {
  const TableIndex& index = r_.held();
  if (index.tiles.empty() || !r_.stats.overlaps(range)) return 0;
  const bool from_start = Bytes(range.start) <= Bytes(r_.stats.smallest);
  const bool to_end = range.end.empty() || r_.stats.ends_before(range.end);
  const std::uint32_t first = from_start ? 0 : index.fences.find(range.start);
  const std::uint32_t last = to_end ? static_cast<std::uint32_t>(index.tiles.size()) : index.fences.find(range.end);
  if (first < last)
    return index.begin_of(last, r_.files.data_bytes) - (from_start ? 0 : index.begin_of(first, r_.files.data_bytes));
  return (index.begin_of(first + 1, r_.files.data_bytes) - index.begin_of(first, r_.files.data_bytes)) /
         2;  // both ends of the range are in one tile: the range is assumed to have half of the tile
}

std::vector<std::string> TableInspector::split_points(const KeyRange& range, std::size_t count) const {
  const TableIndex& index = r_.held();
  std::vector<std::string> points;
  if (index.tiles.empty() || count == 0) return points;
  // Uses only separators strictly inside the range. A tile that begins with the last key of the tile before gives none, since a
  // sub-merge takes all versions of a key.
  const std::uint32_t first = range.start.empty() ? 1 : index.fences.find(range.start) + 1;
  const std::uint32_t last = range.end.empty() ? index.fences.size() : index.fences.find(range.end) + 1;
  if (first >= last) return points;
  const std::uint64_t available = last - first;
  const std::uint64_t wanted = std::min<std::uint64_t>(count, available);
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const auto tile = static_cast<std::uint32_t>(first + (2 * i + 1) * available / (2 * wanted));
    if ((index.tiles[tile].flags & kTileContinues) != 0) continue;
    std::string separator = index.fences.separator(tile);
    if (separator <= range.start || (!range.end.empty() && separator >= range.end)) continue;
    if (points.empty() || points.back() < separator) points.push_back(std::move(separator));
  }
  return points;
}

std::vector<std::pair<std::string, std::uint64_t>> TableInspector::byte_samples(const KeyRange& range, std::size_t count) const {
  const TableIndex& index = r_.held();
  std::vector<std::pair<std::string, std::uint64_t>> samples;
  if (index.tiles.empty() || !r_.stats.overlaps(range)) return samples;
  const std::uint32_t first = Bytes(range.start) <= Bytes(r_.stats.smallest) ? 0 : index.fences.find(range.start);
  const auto tiles = static_cast<std::uint32_t>(index.tiles.size());
  const std::uint32_t last = range.end.empty() ? tiles : std::min(tiles, index.fences.find(range.end) + 1);
  const std::uint64_t available = last - first;
  const std::uint64_t pieces = std::min<std::uint64_t>(count, available);
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const auto from = static_cast<std::uint32_t>(first + i * available / pieces);
    const auto to = static_cast<std::uint32_t>(first + (i + 1) * available / pieces);
    const std::uint32_t middle = from + (to - from) / 2;
    const std::uint64_t begin = index.begin_of(from, r_.files.data_bytes), end = index.begin_of(to, r_.files.data_bytes);
    samples.emplace_back(middle == 0 ? r_.stats.smallest : index.fences.separator(middle), end > begin ? end - begin : 0);
  }
  return samples;
}

bool TableInspector::verify(std::vector<std::string>* errors, std::uint64_t* pages, std::uint64_t* entries,
                            const std::function<bool()>& stopped) const {
  std::vector<Status> found;
  const bool clean = verify(&found, pages, entries, stopped);
  for (const Status& error : found) errors->push_back(error.to_string());
  return clean;
}

bool TableInspector::verify(std::vector<Status>* errors, std::uint64_t* pages, std::uint64_t* entries,
                            const std::function<bool()>& stopped) const {
  return verify_table(r_, errors, pages, entries, stopped);
}

}  // namespace ebbtide

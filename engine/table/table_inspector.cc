#include "table/table_inspector.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "table/table_reader.h"
#include "table/table_reader_impl.h"

namespace ebbtide {

const TableStats& TableInspector::stats() const { return r_.stats; }
const TableFiles& TableInspector::files() const { return r_.files; }
std::uint32_t TableInspector::pages_per_tile() const { return r_.h; }
std::uint32_t TableInspector::page_count() const { return static_cast<std::uint32_t>(r_.pages.size()); }
std::uint32_t TableInspector::tile_count() const { return static_cast<std::uint32_t>(r_.tiles.size()); }

std::uint32_t TableInspector::first_tile(Bytes key) const { return r_.first_tile(key); }
std::string TableInspector::tile_start(std::uint32_t tile) const { return r_.fences.separator(tile); }

Result<bool> TableInspector::collect_stamps(std::uint32_t tile, DeleteKey lo, DeleteKey hi, Bytes from,
                                            std::vector<std::string>* keys, ReadCounters* counters) const {
  const TileInfo& info = r_.tiles[tile];
  bool looked = false;
  std::string key;
  for (std::uint32_t p = info.first_page; p < info.first_page + info.pages; ++p) {
    const PageInfo& page = r_.pages[p];
    const auto [min, max] = r_.delete_keys[p];
    if (page.dropped() || (page.flags & kPageTombstones) != 0 || min > max || max < lo || min >= hi) continue;
    looked = true;
    TRY_ASSIGN(block, r_.load_page(page, true, counters));
    const PageView view(block->bytes());
    Entry entry;
    for (std::uint32_t i = view.lower_bound(from); i < view.count(); ++i) {
      view.read(i, r_.lookup, &key, &entry);
      if (!entry.is_tombstone() && lo <= entry.delete_key && entry.delete_key < hi) keys->push_back(key);
    }
  }
  return looked;
}

bool TableInspector::names_can_be_renewed() const { return r_.renewable; }

PageFence TableInspector::page_fence(std::uint32_t page) const {
  const auto tile = std::upper_bound(r_.tiles.begin(), r_.tiles.end(), page,
                                     [](std::uint32_t p, const TileInfo& t) { return p < t.first_page; }) -
                    1;
  const PageInfo& info = r_.pages[page];
  PageFence fence;
  fence.tile = static_cast<std::uint32_t>(tile - r_.tiles.begin());
  fence.flags = info.flags;
  fence.unique_keys = (tile->flags & kTileUniqueKeys) != 0;
  fence.single_versions = (tile->flags & kTileSingleVersions) != 0;
  fence.entries = info.entries;
  fence.stored_bytes = info.length;
  const auto [min_key, max_key] = r_.delete_keys[page];
  const auto [min_expiry, max_expiry] = r_.expiries[page];
  const auto [min_seq, max_seq] = r_.seqs[page];
  fence.min_delete_key = min_key;
  fence.max_delete_key = max_key;
  fence.min_expiry = min_expiry;
  fence.max_expiry = max_expiry;
  fence.min_seq = min_seq;
  fence.max_seq = max_seq;
  return fence;
}

KeyRange TableInspector::tile_range(std::uint32_t tile) const {
  KeyRange range;
  range.start = tile == 0 ? r_.stats.smallest : r_.fences.separator(tile);
  if (tile + 1 < r_.tiles.size()) {
    range.end = r_.fences.separator(tile + 1);
    if ((r_.tiles[tile + 1].flags & kTileContinues) != 0) range.end.push_back('\0');  // that key is in this tile, too
  } else if (!r_.stats.unbounded) {
    range.end = r_.stats.largest;
    if (!r_.stats.largest_exclusive) range.end.push_back('\0');
  }
  return range;
}

Result<std::string> TableInspector::read_page(std::uint32_t page, ReadCounters* counters) const {
  const PageInfo& info = r_.pages[page];
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

std::uint64_t TableInspector::replaced_bytes() const { return r_.replaced_bytes; }
const std::vector<FileExtent>& TableInspector::dead_extents() const { return r_.dead; }

Result<TableMetadata> TableReaderImpl::load_metadata() const {
  if (!unreadable.is_ok()) return unreadable;
  const auto bytes = read_file(*options.fs, metadata_path);
  if (bytes.status().is_not_found()) return report(Status::corruption(metadata_path + ": is missing"));
  if (!bytes.is_ok()) return report(bytes.status());
  auto metadata = TableMetadata::decode(*bytes, files.metadata_file, metadata_path);
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
  const std::uint32_t loaded = r_.loaded_filter()->slices();
  double page = 1;
  for (std::uint32_t i = 0; i < loaded; ++i) page *= r_.slices[i].rate;
  return 1 - std::pow(1 - page, r_.h);
}

std::uint64_t TableInspector::memory_bytes() const {
  return sizeof(TableReader) + sizeof(r_) + r_.fences.memory_bytes() + r_.pages.capacity() * sizeof(PageInfo) +
         r_.tiles.capacity() * sizeof(TileInfo) + r_.delete_keys.memory_bytes() + r_.expiries.memory_bytes() +
         r_.seqs.memory_bytes() + r_.permutations.capacity() + r_.permutation_offsets.capacity() * 8 +
         r_.loaded_filter()->memory_bytes() + r_.tombstone_bytes + r_.dead.capacity() * sizeof(FileExtent);
}

std::uint64_t TableReaderImpl::begin_of(std::uint32_t tile) const {
  // A replaced page's offset is of another file: its neighbours tell where the tile lies.
  for (std::uint32_t p = tile < tiles.size() ? tiles[tile].first_page : ~std::uint32_t{0}; p < pages.size(); ++p) {
    if (!pages[p].replaced()) return pages[p].offset;
  }
  return files.data_bytes;
}

std::uint64_t TableInspector::approximate_bytes(const KeyRange& range) const {
  if (r_.tiles.empty() || !r_.stats.overlaps(range)) return 0;
  const bool from_start = Bytes(range.start) <= Bytes(r_.stats.smallest);
  const bool to_end = range.end.empty() || r_.stats.ends_before(range.end);
  const std::uint32_t first = from_start ? 0 : r_.fences.find(range.start);
  const std::uint32_t last = to_end ? static_cast<std::uint32_t>(r_.tiles.size()) : r_.fences.find(range.end);
  if (first < last) return r_.begin_of(last) - (from_start ? 0 : r_.begin_of(first));
  return (r_.begin_of(first + 1) - r_.begin_of(first)) / 2;  // somewhere inside one tile
}

std::vector<std::string> TableInspector::split_points(const KeyRange& range, std::size_t count) const {
  std::vector<std::string> points;
  if (r_.tiles.empty() || count == 0) return points;
  // Only separators strictly inside the range count. A tile that begins with the last key of the tile before is no cut.
  const std::uint32_t first = range.start.empty() ? 1 : r_.fences.find(range.start) + 1;
  const std::uint32_t last = range.end.empty() ? r_.fences.size() : r_.fences.find(range.end) + 1;
  if (first >= last) return points;
  const std::uint64_t available = last - first;
  const std::uint64_t wanted = std::min<std::uint64_t>(count, available);
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const auto tile = static_cast<std::uint32_t>(first + (2 * i + 1) * available / (2 * wanted));
    if ((r_.tiles[tile].flags & kTileContinues) != 0) continue;
    std::string separator = r_.fences.separator(tile);
    if (separator <= range.start || (!range.end.empty() && separator >= range.end)) continue;
    if (points.empty() || points.back() < separator) points.push_back(std::move(separator));
  }
  return points;
}

std::vector<std::pair<std::string, std::uint64_t>> TableInspector::byte_samples(const KeyRange& range, std::size_t count) const {
  std::vector<std::pair<std::string, std::uint64_t>> samples;
  if (r_.tiles.empty() || !r_.stats.overlaps(range)) return samples;
  const std::uint32_t first = Bytes(range.start) <= Bytes(r_.stats.smallest) ? 0 : r_.fences.find(range.start);
  const auto tiles = static_cast<std::uint32_t>(r_.tiles.size());
  const std::uint32_t last = range.end.empty() ? tiles : std::min(tiles, r_.fences.find(range.end) + 1);
  const std::uint64_t available = last - first;
  const std::uint64_t pieces = std::min<std::uint64_t>(count, available);
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const auto from = static_cast<std::uint32_t>(first + i * available / pieces);
    const auto to = static_cast<std::uint32_t>(first + (i + 1) * available / pieces);
    const std::uint32_t middle = from + (to - from) / 2;
    const std::uint64_t begin = r_.begin_of(from), end = r_.begin_of(to);
    samples.emplace_back(middle == 0 ? r_.stats.smallest : r_.fences.separator(middle), end > begin ? end - begin : 0);
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

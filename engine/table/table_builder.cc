#include "table/table_builder.h"

#include <algorithm>
#include <vector>

#include "base/coding.h"
#include "base/invariant.h"
#include "base/planted_bug.h"
#include "filter/bloom.h"
#include "io/file_names.h"
#include "table/fences.h"
#include "table/large_value.h"
#include "table/loaded_filter.h"
#include "table/metadata.h"
#include "table/page.h"
#include "table/table_reader.h"
#include "table/tile_builder.h"

namespace ebbtide {
namespace {

constexpr std::size_t kWriteBytes = std::size_t{256} << 10;
// While a table is built, its data is written to the device in steps of this size. A sync of all data at the end would take a
// fifth of a second for 64 MiB, and would delay a concurrent sync of the log by as much.
constexpr std::size_t kWriteBackBytes = std::size_t{1} << 20;
// All versions of a key go into one tile, even if the tile grows to this many times its usual size, or to 1 MiB if that is
// more. A tile that would grow further ends between two versions, and does not get the flag kTileUniqueKeys.
constexpr std::uint64_t kTileStretch = 4;
constexpr std::uint64_t kMinStretchedBytes = std::uint64_t{1} << 20;
// The largest size of a tile, so that each of its pages is far below kMaxBlockBytes.
constexpr std::uint64_t kMaxTileBytes = std::uint64_t{8} << 20;
// For h > 1, page_size is the size after compression. Before compression a page has at most this many times page_size.
constexpr std::uint64_t kMaxPageGrowth = 8;
// For h = 1: bytes of page_size that are left free for page header, block trailer and the cache's header. So a page of 4 KiB
// lies in one block of the drive, and takes an allocation of 4 KiB instead of the allocator's next size, 5 KiB. For h = 1,
// page_size is the size before compression: a page costs memory in the block cache, where it is decompressed. Its size in the
// file matters less, since pages are not punched one by one, and so lie close together.
constexpr std::uint64_t kPageSlackBytes = 224;
// For h = 1: a page is padded to the end of its file-system block if the padding is at most 1 / kStretchShare of the page. So
// pages that nearly fill a block lie in one block each, and reading such a page reads one block.
constexpr std::uint64_t kStretchShare = 8;

}  // namespace

struct TableBuilder::Impl {
  explicit Impl(TableBuilderOptions o)
      : options(std::move(o)),
        data_path(join_path(options.dir, data_file_name(options.data_file))),
        metadata_path(join_path(options.dir, metadata_file_name(options.metadata_file))),
        compressor(options.compression),
        filter(options.pages_per_tile),
        tombstone_filter(1),
        tile(options.pages_per_tile),
        page_target(options.pages_per_tile > 1
                        ? options.page_size - options.page_size / 8
                        : options.page_size - std::min<std::uint64_t>(options.page_size / 8, kPageSlackBytes)) {
    meta.data_file = options.data_file;
    meta.unit = options.pages_per_tile > 1 ? kPunchUnit : kSmallUnit;
    meta.pages_per_tile = options.pages_per_tile;
    meta.page_size = options.page_size;
    meta.compression = options.compression;
    meta.stats.applied_seq = options.applied_seq;
    meta.stats.points_at = options.points_at;
  }

  Status begin() {
    if (file != nullptr) return Status::ok();
    TRY_ASSIGN(created, options.fs->create(data_path));
    file = std::move(created);
    std::uint64_t checksum = 0;
    buffer = encode_data_header(meta.data_version, options.data_file, meta.unit, &checksum);
    meta.data_checksum += checksum;
    return Status::ok();
  }

  [[nodiscard]] std::uint64_t offset() const { return written + buffer.size(); }

  Status write_buffer() {
    TRY(file->append(buffer));
    written += buffer.size();
    buffer.clear();
    if (written - written_back < kWriteBackBytes) return Status::ok();
    written_back = written;
    return file->write_back();
  }

  // Appends a block to the data file. If `place` is not null, sets its offset, length and checksum.
  Status append(Bytes payload, Compression used, BlockKind kind, PageMeta* place) {
    const std::uint64_t at = offset();
    std::uint64_t length = padded_block_bytes(payload.size(), meta.unit);
    if (kind == BlockKind::kPage && meta.unit == kSmallUnit) {
      const std::uint64_t rest = (kPunchUnit - (at + length) % kPunchUnit) % kPunchUnit;
      if (rest <= length / kStretchShare) length += rest;
    }
    const std::uint64_t checksum = append_block(&buffer, payload, used, kind, length, options.data_file, at);
    meta.data_checksum += checksum;
    if (place != nullptr) {
      place->offset = at;
      place->length = static_cast<std::uint32_t>(length);
      place->checksum = checksum;
    } else {
      meta.large_checksum += checksum;
    }
    return buffer.size() >= kWriteBytes ? write_buffer() : Status::ok();
  }

  // Writes a value in blocks of its own, or copies the blocks of another table's value. Sets `ref` to where they are now.
  Status append_large(const Entry& entry, LargeValueRef* ref) {
    std::string index;
    ref->table = this;  // any pointer but null marks the entry's value as large
    ref->offset = offset();
    ref->length = entry.value_length();
    put_u64(&index, ref->length);
    const auto chunk = [&](Bytes payload, Compression used) -> Status {
      put_u32(&index, static_cast<std::uint32_t>(payload.size()));
      return append(payload, used, BlockKind::kLargeChunk, nullptr);
    };
    if (entry.is_large()) {
      TRY(static_cast<const TableLookup*>(entry.large.table)->visit_large(entry.large, chunk));
    } else {
      for (Bytes rest = entry.value; !rest.empty(); rest.remove_prefix(std::min(rest.size(), kLargeChunkBytes))) {
        Compression used{};
        const Bytes payload = compressor.compress(rest.substr(0, kLargeChunkBytes), &used);
        TRY(chunk(payload, used));
      }
    }
    TRY(append(index, Compression::kNone, BlockKind::kLargeIndex, nullptr));
    ref->stored_bytes = offset() - ref->offset;
    return Status::ok();
  }

  [[nodiscard]] std::uint64_t tile_limit() const { return std::min(page_target * options.pages_per_tile, kMaxTileBytes); }

  Status add(const Entry& entry) {
    // The entries of a merge come from disk. Pages were checked one by one, so faults between pages are first detected here.
    if (entry.key.size() > kMaxKeyBytes || entry.value_length() > kMaxValueBytes || entry.seq > kMaxSeqNum)
      return Status::corruption(data_path +
                                ": an entry to be written to this table exceeds a maximum (key, value or sequence number)");
    TRY(begin());
    const int order = has_last ? Bytes(last_key).compare(entry.key) : -1;
    const bool same_key = order == 0;
    if (same_key ? entry.seq >= last_seq : order > 0)
      return Status::corruption(data_path + ": the entries to be written to this table are out of order");
    if (!same_key) hash = hash_key(entry.key);
    Entry copy = entry;
    if (entry.is_large() || entry.value.size() > kLargeValueBytes) {
      TRY(append_large(entry, &copy.large));
      copy.value = {};
    }
    if (!tile.empty() && tile.bytes_with(copy) > tile_limit()) {
      const std::uint64_t stretched = std::max(kTileStretch * tile_limit(), kMinStretchedBytes);
      if (!same_key || tile.bytes() > stretched) TRY(flush_tile(same_key));
    }
    tile.add(copy, hash);
    meta.stats.add_entry(entry);
    if (!has_last) first_key.assign(entry.key);
    if (!same_key) last_key.assign(entry.key);
    last_seq = entry.seq;
    has_last = true;
    return Status::ok();
  }

  // Writes the tile in progress. `continues` is true if the next tile begins with a version of this tile's last key.
  Status flush_tile(bool continues) {
    TileMeta t;
    t.first_page = static_cast<std::uint32_t>(meta.pages.size());
    const bool continued = !meta.tiles.empty() && tile_continues;
    const bool unique = !continued && !continues;
    t.flags = static_cast<std::uint8_t>((continued ? kTileContinues : 0) | (unique ? kTileUniqueKeys : 0) |
                                        (unique && tile.single_versions() ? kTileSingleVersions : 0));
    meta.separators.push_back(meta.tiles.empty() ? std::string()
                                                 : shortest_separator(last_tile_key, tile.entries().front().entry.key));
    tile.split(page_target, &split);
    t.pages = static_cast<std::uint8_t>(split.pages.size());
    std::uint64_t raw_bytes = 0, largest_payload = 0;
    for (std::size_t p = 0; p < split.pages.size(); ++p) {
      const bool tombstones = split.last_is_tombstones && p + 1 == split.pages.size();
      TRY(flush_page(split.pages[p], tombstones ? kPageTombstones : 0, static_cast<std::uint32_t>(p), &raw_bytes,
                     &largest_payload));
    }
    append_permutation(t.pages, split.order, &meta.permutations);
    meta.tiles.push_back(t);
    aim(raw_bytes, split.pages.size(), largest_payload);
    tile_continues = continues;
    last_tile_key.assign(tile.last_key());
    tile.clear();
    return Status::ok();
  }

  Status flush_page(const std::vector<std::uint32_t>& indexes, std::uint32_t flags, std::uint32_t column,
                    std::uint64_t* raw_bytes, std::uint64_t* largest_payload) {
    PageMeta page;
    page.flags = flags;
    BloomBuilder& bloom = flags == kPageTombstones ? tombstone_filter : filter;
    for (const std::uint32_t i : indexes) {
      const PendingEntry& pending = tile.entries()[i];
      page.add(pending.entry);
      if (options.filter_slices.empty()) continue;
      bloom.add(flags == kPageTombstones ? 0 : column, pending.hash);
      if (!is_collection(pending.entry.kind)) continue;
      if (const std::pair key{column, pending.hash}; collections.empty() || collections.back() != key) collections.push_back(key);
    }
    if (options.points_at != kNoPoints) {
      for (const std::uint32_t i : indexes) page.points.add(tile.entries()[i].entry.key, options.points_at);
      meta.stats.points.add(page.points);
    }
    build_page(tile.entries(), indexes, &page_bytes);
    Compression used{};
    const Bytes payload = compressor.compress(page_bytes, &used);
    TRY(append(payload, used, BlockKind::kPage, &page));
    meta.pages.push_back(page);
    *raw_bytes = std::max<std::uint64_t>(*raw_bytes, page_bytes.size());
    *largest_payload = std::max<std::uint64_t>(*largest_payload, payload.size());
    return Status::ok();
  }

  // For h > 1: adapts page_target, so that the next tile's pages, compressed, just fit into whole blocks of the file system.
  void aim(std::uint64_t largest_raw, std::size_t pages, std::uint64_t largest_payload) {
    if (options.pages_per_tile == 1 || pages < options.pages_per_tile) return;
    const std::uint64_t room =
        padded_block_bytes(std::max(options.page_size, kPunchUnit) - kBlockTrailerBytes, meta.unit) - kBlockTrailerBytes;
    const double fits = static_cast<double>(room) * static_cast<double>(largest_raw) /
                        static_cast<double>(std::max<std::uint64_t>(largest_payload, 1));
    const auto aimed = static_cast<std::uint64_t>(0.93 * fits * static_cast<double>(page_target) /
                                                  static_cast<double>(std::max<std::uint64_t>(largest_raw, 1)));
    page_target = std::clamp<std::uint64_t>((page_target + aimed) / 2, options.page_size / 2, kMaxPageGrowth * options.page_size);
  }

  void build_filters() {
    ASSERT(options.filter_slices.size() <= LoadedFilter::kMaxSlices);
    if (options.filter_slices.empty() || (filter.empty() && tombstone_filter.empty())) return;
    meta.filter_kind = FilterKind::kColumns;
    if (meta.stats.collections_twice()) {
      meta.filter_kind = FilterKind::kCollectionsTwice;
      for (const auto& [column, hash] : collections) filter.add(column, collection_hash(hash));
    }
    for (std::uint32_t slice = 0; slice < options.filter_slices.size(); ++slice) {
      const double bits = options.filter_slices[slice];
      meta.filter_bits_per_key += bits;
      if (!filter.empty()) meta.filter_slices.push_back(filter.build(bits, slice));
      if (!tombstone_filter.empty()) meta.tombstone_filter_slices.push_back(tombstone_filter.build(bits, slice));
    }
  }

  Result<BuiltTable> finish() {
    TRY(begin());
    if (!tile.empty()) TRY(flush_tile(false));
    TRY(write_buffer());
    if (!planted(PlantedBug::kSkipTableSync)) TRY(file->sync());
    TRY(file->close());
    meta.data_bytes = written;
    meta.key_prefix = first_key.substr(0, common_bytes(first_key, last_key));
    build_filters();
    BuiltTable built;
    const std::string bytes = meta.encode(options.metadata_file, &built.metadata_checksum);
    TRY_ASSIGN(metadata, options.fs->create(metadata_path));
    metadata_created = true;
    TRY(metadata->append(bytes));
    TRY(metadata->sync());
    TRY(metadata->close());
    built.data_file = options.data_file;
    built.metadata_file = options.metadata_file;
    built.data_bytes = written;
    built.metadata_bytes = bytes.size();
    built.data_checksum = meta.data_checksum;
    built.stats = meta.stats;
    finished = true;
    return built;
  }

  TableBuilderOptions options;
  std::string data_path, metadata_path;
  std::unique_ptr<WritableFile> file;
  std::string buffer;  // bytes of the data file that are not written yet
  std::uint64_t written = 0, written_back = 0;
  Compressor compressor;
  BloomBuilder filter, tombstone_filter;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> collections;  // column and hash of each collection's key
  TableMetadata meta;
  TileBuilder tile;
  TilePages split;
  std::uint64_t page_target;    // bytes of a page before compression
  std::string page_bytes;       // the page in progress
  bool tile_continues = false;  // true if the tile in progress begins with the last key of the previous tile
  std::string last_tile_key;
  bool has_last = false;
  std::string first_key, last_key;
  SeqNum last_seq = 0;
  std::uint64_t hash = 0;  // hash of last_key
  Status status;           // the first error; add() and finish() return it from then on
  bool metadata_created = false, finished = false;
};

TableBuilder::TableBuilder(TableBuilderOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  ASSERT(impl_->options.fs != nullptr);
  ASSERT(impl_->options.data_file != kNoFile && impl_->options.metadata_file != kNoFile);
  ASSERT(impl_->options.pages_per_tile >= 1 && impl_->options.pages_per_tile <= 64);
  ASSERT(impl_->options.page_size > 0);
}

TableBuilder::~TableBuilder() {
  if (impl_->finished) return;
  // The manifest does not name these files. If they cannot be unlinked, the next open of the database removes them.
  if (impl_->file != nullptr) (void)impl_->options.fs->unlink(impl_->data_path);
  if (impl_->metadata_created) (void)impl_->options.fs->unlink(impl_->metadata_path);
}

Status TableBuilder::add(const Entry& entry) {
  if (impl_->status.is_ok()) impl_->status = impl_->add(entry);
  return impl_->status;
}

void TableBuilder::lower_applied_seq(SeqNum applied_seq) {
  impl_->meta.stats.applied_seq = std::min(impl_->meta.stats.applied_seq, applied_seq);
}
void TableBuilder::add_range_tombstone(const RangeTombstone& tombstone) {
  if (!tombstone.end.empty() && tombstone.end <= tombstone.start) return;
  impl_->meta.stats.add_range_tombstone(tombstone);
  impl_->meta.range_tombstones.push_back(tombstone);
}

std::uint64_t TableBuilder::data_bytes() const { return impl_->offset() + (impl_->tile.empty() ? 0 : impl_->tile.bytes()); }

bool TableBuilder::empty() const { return impl_->meta.stats.entries == 0 && impl_->meta.stats.range_tombstones == 0; }

Result<BuiltTable> TableBuilder::finish() {
  ASSERT(!impl_->finished);
  if (!impl_->status.is_ok()) return impl_->status;
  auto built = impl_->finish();
  if (!built.is_ok()) impl_->status = built.status();
  return built;
}

}  // namespace ebbtide

// Opens tables, and loads parts of their filters.
#include "table/table_reader.h"

#include <algorithm>

#include "base/checksum.h"
#include "io/file_names.h"
#include "io/open_files.h"
#include "table/table_reader_impl.h"

namespace ebbtide {
namespace {

void name_files(TableReaderImpl* r, const TableReaderOptions& options, const TableFiles& files) {
  r->options = options;
  r->files = files;
  r->data_path = join_path(options.dir, data_file_name(files.data_file));
  r->metadata_path = join_path(options.dir, metadata_file_name(files.metadata_file));
}

}  // namespace

Result<std::unique_ptr<RandomAccessFile>> TableReaderImpl::open_file(const std::string& path, const OpenOptions& how) const {
  return options.open_files != nullptr ? options.open_files->open(path, how) : options.fs->open(path, how);
}

Status TableReaderImpl::load(TableMetadata m) {
  stats = std::move(m.stats);
  unit = m.unit;
  h = m.pages_per_tile;
  renewable = m.names_can_be_renewed();
  dead = m.dead_extents();
  dead.shrink_to_fit();
  pages.reserve(m.pages.size());
  bool any_replaced = false;
  for (const PageMeta& p : m.pages) {
    PageInfo page{};
    page.offset = p.replaced() ? p.replaced_offset : p.offset;
    page.flags = p.flags;
    page.length = p.replaced() ? p.replaced_length : p.length;
    page.entries = p.entries;
    pages.push_back(page);
    any_replaced |= p.replaced();
    if (p.replaced()) replaced_bytes += p.replaced_length;
  }
  tiles.reserve(m.tiles.size());
  std::uint64_t at = 0;
  for (std::size_t t = 0; t < m.tiles.size(); ++t) {
    tiles.push_back({m.tiles[t].first_page, m.tiles[t].pages, m.tiles[t].flags});
    any_continues |= (m.tiles[t].flags & kTileContinues) != 0;
    if (h == 1) continue;
    permutation_offsets.push_back(at);
    at += permutation_bytes(m.tiles[t].pages, m.tile_entries(t));
  }
  fences.build(std::move(m.key_prefix), m.separators);
  permutations = std::move(m.permutations);
  take_fences(m);
  const auto whole = LoadedFilter::load(m, LoadedFilter::kMaxSlices);
  for (std::uint32_t i = 0; i < whole->slices(); ++i)
    slices.push_back({whole->slice_bits(i), whole->block_bits(), whole->slice_rate(i)});
  {
    MutexLock lock(mutex);
    filter_owner = options.filter_slices < whole->slices() ? whole->first(options.filter_slices) : whole;
    filter.store(filter_owner.get(), std::memory_order_release);
  }
  tombstones = std::make_shared<const FragmentedRangeTombstones>(std::span<const RangeTombstone>(m.range_tombstones));
  tombstone_bytes = tombstones->memory_bytes();
  if (any_replaced) {
    TRY_ASSIGN(file, open_file(metadata_path, {}));
    metadata = std::move(file);
  }
  return Status::ok();
}

void TableReaderImpl::take_fences(const TableMetadata& m) {
  std::vector<RoundedRanges::Range> ranges(m.pages.size());
  const auto take = [&](RoundedRanges* to, auto range_of) {
    std::transform(m.pages.begin(), m.pages.end(), ranges.begin(),
                   [&](const PageMeta& p) { return p.entries == 0 ? RoundedRanges::kNone : range_of(p); });
    to->build(ranges);
  };
  take(&delete_keys, [](const PageMeta& p) { return RoundedRanges::Range{p.min_delete_key, p.max_delete_key}; });
  take(&expiries, [](const PageMeta& p) {
    return p.max_expiry == 0 ? RoundedRanges::kNone : RoundedRanges::Range{p.min_expiry, p.max_expiry};
  });
  take(&seqs, [](const PageMeta& p) { return RoundedRanges::Range{p.min_seq, p.max_seq}; });
}

Status TableReaderImpl::open(Bytes bytes) {
  TRY_ASSIGN(m, TableMetadata::decode(bytes, files.metadata_file, metadata_path));
  if (bytes.size() != files.metadata_bytes || block_checksum(bytes, files.metadata_file, 0) != files.metadata_checksum) {
    return Status::corruption(metadata_path + ": is not the file that the manifest knows (length or checksum differ)");
  }
  if (m.data_file != files.data_file || m.data_bytes != files.data_bytes || m.data_checksum != files.data_checksum) {
    return Status::corruption(metadata_path + ": belongs to another data file than the manifest says");
  }
  TRY_ASSIGN(opened, open_file(data_path, OpenOptions{.direct = options.direct_io}));
  if (opened->size() != files.data_bytes) {
    return Status::corruption(data_path + ": has " + std::to_string(opened->size()) + " bytes, should have " +
                              std::to_string(files.data_bytes));
  }
  std::string header(data_header_bytes(m.unit), '\0');
  TRY(opened->read(0, header.size(), header.data()));
  TRY(check_data_header(header, files.data_file, m.unit, data_path));
  data = std::move(opened);
  return load(std::move(m));
}

TableReader::TableReader(std::unique_ptr<TableReaderImpl> impl)
    : TableLookup(*impl), TableInspector(*impl), impl_(std::move(impl)) {
  impl_->lookup = this;
}
TableReader::~TableReader() = default;

Result<std::shared_ptr<TableReader>> TableReader::open(const TableReaderOptions& options, const TableFiles& files) {
  std::shared_ptr<TableReader> reader(new TableReader(std::make_unique<TableReaderImpl>()));
  name_files(reader->impl_.get(), options, files);
  TRY_ASSIGN(bytes, read_file(*options.fs, reader->impl_->metadata_path));
  TRY(reader->impl_->open(bytes));
  return reader;
}

std::shared_ptr<TableReader> TableReader::unreadable(const TableReaderOptions& options, const TableFiles& files,
                                                     const TableStats& stats, Status why) {
  std::shared_ptr<TableReader> reader(new TableReader(std::make_unique<TableReaderImpl>()));
  TableReaderImpl& r = *reader->impl_;
  name_files(&r, options, files);
  r.stats = stats;
  r.unreadable = std::move(why);
  r.tombstones = std::make_shared<const FragmentedRangeTombstones>();
  MutexLock lock(r.mutex);
  r.filter_owner = LoadedFilter::load(TableMetadata{}, 0);
  r.filter.store(r.filter_owner.get(), std::memory_order_release);
  return reader;
}

Result<std::shared_ptr<TableReader>> TableReader::redescribed(const TableFiles& files, Bytes metadata) const {
  std::shared_ptr<TableReader> reader(new TableReader(std::make_unique<TableReaderImpl>()));
  name_files(reader->impl_.get(), impl_->options, files);
  TRY(reader->impl_->open(metadata));
  return reader;
}

const std::vector<SliceInfo>& TableReader::slices() const { return impl_->slices; }

Result<std::shared_ptr<const void>> TableReader::keep_slices(std::uint32_t count) {
  TableReaderImpl& r = *impl_;
  std::shared_ptr<const LoadedFilter> now = filter(), next;
  const auto wanted = std::min(count, static_cast<std::uint32_t>(r.slices.size()));
  if (wanted == now->slices()) return std::shared_ptr<const void>();
  if (wanted < now->slices()) {
    next = now->first(wanted);
  } else {
    TRY_ASSIGN(m, load_metadata());
    next = LoadedFilter::load(m, wanted);
  }
  MutexLock lock(r.mutex);
  r.filter_owner = std::move(next);
  r.filter.store(r.filter_owner.get(), std::memory_order_release);
  return std::shared_ptr<const void>(std::move(now));
}

}  // namespace ebbtide

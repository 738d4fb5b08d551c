// Opens tables, and loads and unloads their indexes and filters.
#include "table/table_reader.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/invariant.h"
#include "io/file_names.h"
#include "io/open_files.h"
#include "table/table_reader_impl.h"

namespace ebbtide {
namespace {

/// The filter of a table whose index is not in memory: it denies no key.
const std::shared_ptr<const LoadedFilter>& no_filter() {
  static const std::shared_ptr<const LoadedFilter> none = LoadedFilter::load(TableMetadata{}, 0);
  return none;
}

}  // namespace

TableReaderImpl::TableReaderImpl() {
  MutexLock lock(mutex);
  filter_owner = no_filter();
  filter.store(filter_owner.get(), std::memory_order_release);
}

TableReaderImpl::~TableReaderImpl() {
  if (in_cache.listed.load(std::memory_order_acquire)) options.indexes->remove(*this);
}

Result<std::unique_ptr<RandomAccessFile>> TableReaderImpl::open_file(const std::string& path, const OpenOptions& how) const {
  return options.open_files != nullptr ? options.open_files->open(path, how) : options.fs->open(path, how);
}

// --- loading and unloading

Result<TableMetadata> TableReaderImpl::check_metadata(Bytes bytes) const {
  TRY_ASSIGN(m, TableMetadata::decode(bytes, files.metadata_file, metadata_path));
  if (bytes.size() != files.metadata_bytes || block_checksum(bytes, files.metadata_file, 0) != files.metadata_checksum) {
    return Status::corruption(metadata_path + ": length or checksum differ from the manifest's");
  }
  if (m.data_file != files.data_file || m.data_bytes != files.data_bytes || m.data_checksum != files.data_checksum) {
    return Status::corruption(metadata_path + ": the data file that it describes is not the one in the manifest");
  }
  return m;
}

Status TableReaderImpl::load(Bytes bytes, TableStats* described) const {
  TRY_ASSIGN(m, check_metadata(bytes));
  if (data == nullptr) {
    TRY_ASSIGN(opened, open_file(data_path, OpenOptions{.direct = options.direct_io}));
    if (opened->size() != files.data_bytes) {
      return Status::corruption(data_path + ": has " + std::to_string(opened->size()) + " bytes instead of " +
                                std::to_string(files.data_bytes));
    }
    std::string header(data_header_bytes(m.unit), '\0');
    TRY(opened->read(0, header.size(), header.data()));
    TRY(check_data_header(header, m.data_version, files.data_file, m.unit, data_path));
    data = std::move(opened);
  }
  if (described != nullptr) *described = std::move(m.stats);
  auto whole = LoadedFilter::load(m, LoadedFilter::kMaxSlices);
  auto fresh = std::make_shared<const TableIndex>(&m);
  if (fresh->any_replaced && metadata == nullptr) {
    TRY_ASSIGN(file, open_file(metadata_path, {}));
    metadata = std::move(file);
  }
  if (h.load(std::memory_order_relaxed) == 0) {
    unit = m.unit;
    tile_count.store(static_cast<std::uint32_t>(fresh->tiles.size()), std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < whole->slices(); ++i)
      slices.push_back({whole->slice_bits(i), whole->block_bits(), whole->slice_rate(i)});
    h.store(m.pages_per_tile, std::memory_order_release);
  }
  publish(std::move(fresh), std::move(whole));
  return Status::ok();
}

void TableReaderImpl::publish(std::shared_ptr<const TableIndex> fresh, std::shared_ptr<const LoadedFilter> whole) const {
  searches.store(0, std::memory_order_relaxed);
  MutexLock lock(mutex);
  const std::uint32_t wanted = wanted_slices.load(std::memory_order_relaxed);
  filter_owner = wanted < whole->slices() ? whole->first(wanted) : std::move(whole);
  filter.store(filter_owner.get(), std::memory_order_release);
  index_owner = std::move(fresh);
  index.store(index_owner.get(), std::memory_order_release);
}

std::uint64_t TableReaderImpl::loaded_bytes() const {
  MutexLock lock(mutex);
  return index_owner == nullptr ? 0 : index_owner->memory_bytes() + filter_owner->memory_bytes();
}

bool TableReaderImpl::unload(std::vector<std::shared_ptr<const void>>* retired) const {
  MutexLock lock(mutex);
  if (pins != 0 || index_owner == nullptr) return false;
  index.store(nullptr, std::memory_order_release);
  filter.store(no_filter().get(), std::memory_order_release);
  retired->push_back(std::exchange(index_owner, nullptr));
  retired->push_back(std::exchange(filter_owner, no_filter()));
  return true;
}

// --- pins

void TableReaderImpl::unpin() const {
  {
    MutexLock lock(mutex);
    --pins;
  }
  if (in_cache.listed.load(std::memory_order_acquire)) options.indexes->note_unpinned();
}

// Returns the reader with a pin, which ends when the result is released. The caller has already counted that pin in `pins`.
std::shared_ptr<TableReader> TableReaderImpl::handle() const {
  auto owner = std::static_pointer_cast<TableReader>(reader->shared_from_this());
  TableReader* const raw = owner.get();
  return {raw, [this, owner = std::move(owner)](TableReader*) { unpin(); }};
}

std::shared_ptr<TableReader> TableReaderImpl::pinned_if_loaded() const {
  {
    MutexLock lock(mutex);
    if (index_owner == nullptr) return nullptr;
    ++pins;
  }
  return handle();
}

std::shared_ptr<TableReader> TableReaderImpl::pinned_or_wanting(std::uint32_t count) {
  {
    MutexLock lock(mutex);
    if (index_owner == nullptr) {
      wanted_slices.store(count, std::memory_order_relaxed);
      return nullptr;
    }
    ++pins;
  }
  return handle();
}

Result<std::shared_ptr<TableReader>> TableReaderImpl::pinned() const {
  if (auto now = pinned_if_loaded(); now != nullptr) return now;
  MutexLock load(loading);
  if (auto now = pinned_if_loaded(); now != nullptr) return now;
  if (failed.load(std::memory_order_acquire)) return why;
  return read_and_pin();
}

Result<std::shared_ptr<TableReader>> TableReaderImpl::pinned(MissSet* misses) const {
  if (misses == nullptr) return pinned();
  if (auto now = pinned_if_loaded(); now != nullptr) return now;
  Status status;
  (void)index_or_miss(misses, &status);
  return status.is_ok() ? Status::not_resident() : status;
}

Result<std::shared_ptr<TableReader>> TableReaderImpl::read_and_pin() const {
  auto bytes = read_file(*options.fs, metadata_path);
  const Status status = bytes.is_ok() ? load(*bytes, nullptr) : bytes.status();
  if (!status.is_ok()) return fail(status);
  auto now = pinned_if_loaded();
  ASSERT_MSG(now != nullptr, "an index that the index cache does not list yet must stay in memory");
  if (options.indexes != nullptr) options.indexes->add(*this);
  return now;
}

// Only kCorruption makes the table unreadable. After any other error the next read tries again: the device may work by then.
Status TableReaderImpl::fail(Status status) const {
  if (status.is_not_found()) {
    if (abandoned.load(std::memory_order_acquire)) return Status::aborted(metadata_path + ": its table was removed");
    status = Status::corruption("a file is missing: " + std::string(status.message()));
  }
  if (status.code() == Code::kCorruption) {
    why = status;
    failed.store(true, std::memory_order_release);
  }
  return report(std::move(status));
}

const TableIndex* TableReaderImpl::index_or_miss(MissSet* misses, Status* status) const {
  if (failed.load(std::memory_order_acquire)) {
    *status = why;
    return nullptr;
  }
  *status = Status::ok();
  if (misses != nullptr) {
    misses->pages.push_back({lookup, kIndexMiss});
    misses->keep_alive.push_back(lookup->shared_from_this());
    return nullptr;
  }
  const auto held = pinned();
  if (!held.is_ok()) *status = held.status();
  // The pin ends here. The index may then be unloaded, but it is not freed before the caller's EpochGuard ends.
  return held.is_ok() ? index.load(std::memory_order_acquire) : nullptr;
}

const TableIndex& TableReaderImpl::held() const {
  static const TableIndex empty{std::make_unique<TableMetadata>().get()};
  const TableIndex* const now = index.load(std::memory_order_acquire);
  ASSERT_MSG(now != nullptr || failed.load(std::memory_order_acquire), "the caller must have pinned the table");
  return now != nullptr ? *now : empty;
}

// --- the reader

TableReader::TableReader(std::unique_ptr<TableReaderImpl> impl)
    : TableLookup(*impl), TableInspector(*impl), impl_(std::move(impl)) {
  impl_->reader = this;
  impl_->lookup = this;
}
TableReader::~TableReader() = default;

std::shared_ptr<TableReader> TableReader::make(const TableReaderOptions& options, const TableFiles& files) {
  std::shared_ptr<TableReader> reader(new TableReader(std::make_unique<TableReaderImpl>()));
  TableReaderImpl& r = *reader->impl_;
  r.options = options;
  r.files = files;
  r.data_path = join_path(options.dir, data_file_name(files.data_file));
  r.metadata_path = join_path(options.dir, metadata_file_name(files.metadata_file));
  r.wanted_slices = options.filter_slices;
  return reader;
}

Status TableReader::load(Bytes metadata) {
  TableReaderImpl& r = *impl_;
  MutexLock lock(r.loading);
  TRY(r.load(metadata, &r.stats));
  if (r.options.indexes != nullptr) r.options.indexes->add(r);
  return Status::ok();
}

Result<std::shared_ptr<TableReader>> TableReader::open(const TableReaderOptions& options, const TableFiles& files) {
  auto reader = make(options, files);
  TRY_ASSIGN(bytes, read_file(*options.fs, reader->impl_->metadata_path));
  TRY(reader->load(bytes));
  return reader;
}

std::shared_ptr<TableReader> TableReader::lazy(const TableReaderOptions& options, const TableFiles& files,
                                               const TableStats& stats) {
  auto reader = make(options, files);
  reader->impl_->stats = stats;
  return reader;
}

std::shared_ptr<TableReader> TableReader::unreadable(const TableReaderOptions& options, const TableFiles& files,
                                                     const TableStats& stats, Status why) {
  auto reader = lazy(options, files, stats);
  reader->impl_->why = std::move(why);
  reader->impl_->failed = true;
  return reader;
}

Result<std::shared_ptr<TableReader>> TableReader::redescribed(const TableFiles& files, Bytes metadata) const {
  auto reader = make(impl_->options, files);
  TRY(reader->load(metadata));
  return reader;
}

Result<std::shared_ptr<TableReader>> TableReader::pinned() const { return impl_->pinned(); }
Result<std::shared_ptr<TableReader>> TableReader::pinned(MissSet* misses) const { return impl_->pinned(misses); }
std::shared_ptr<TableReader> TableReader::pinned_if_loaded() const { return impl_->pinned_if_loaded(); }
void TableReader::abandon() { impl_->abandoned.store(true, std::memory_order_release); }

const std::vector<SliceInfo>& TableReader::slices() const {
  static const std::vector<SliceInfo> unknown;
  return impl_->h.load(std::memory_order_acquire) != 0 ? impl_->slices : unknown;
}

std::uint32_t TableReader::kept_slices() const {
  return std::min(impl_->wanted_slices.load(std::memory_order_relaxed), static_cast<std::uint32_t>(slices().size()));
}

Result<std::shared_ptr<const void>> TableReader::keep_slices(std::uint32_t count) {
  TableReaderImpl& r = *impl_;
  const auto pin = r.pinned_or_wanting(count);
  if (pin == nullptr) return std::shared_ptr<const void>();
  std::shared_ptr<const LoadedFilter> now = filter(), next;
  const auto wanted = std::min(count, static_cast<std::uint32_t>(r.slices.size()));
  if (wanted < now->slices()) {
    next = now->first(wanted);
  } else if (wanted > now->slices()) {
    TRY_ASSIGN(m, load_metadata());
    next = LoadedFilter::load(m, wanted);
  }
  r.wanted_slices.store(count, std::memory_order_relaxed);
  if (next == nullptr) return std::shared_ptr<const void>();
  {
    MutexLock lock(r.mutex);
    r.filter_owner = std::move(next);
    r.filter.store(r.filter_owner.get(), std::memory_order_release);
  }
  if (r.options.indexes != nullptr) r.options.indexes->resize(r);
  return std::shared_ptr<const void>(std::move(now));
}

}  // namespace ebbtide

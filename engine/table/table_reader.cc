#include "table/table_reader.h"

#include <algorithm>
#include <cmath>

#include "base/checksum.h"
#include "base/invariant.h"
#include "io/file_names.h"
#include "iter/barrier_iterator.h"
#include "table/table_reader_impl.h"

namespace ebbtide {
namespace {

// A thread's read buffers, for the duration of one read; freed after an unusually large page.
class Scratch {
 public:
  struct Buffers {
    std::string block, page;
  };
  ~Scratch() {
    constexpr std::size_t kKeepBytes = std::size_t{1} << 20;
    if (buffers_.block.capacity() > kKeepBytes) buffers_.block = {};
    if (buffers_.page.capacity() > kKeepBytes) buffers_.page = {};
  }
  Scratch() : buffers_(of_thread()) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  Buffers* operator->() { return &buffers_; }

 private:
  static Buffers& of_thread() {
    thread_local Buffers buffers;
    return buffers;
  }
  Buffers& buffers_;
};

struct OwnBlock {
  CachedBlock block{};
  std::string bytes;
};

}  // namespace

// --- open

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
    TRY_ASSIGN(file, options.fs->open(metadata_path));
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

TableReader::TableReader() : impl_(std::make_unique<TableReaderImpl>()) {}
TableReader::~TableReader() = default;

namespace {

void name_files(TableReaderImpl* r, const TableReaderOptions& options, const TableFiles& files) {
  r->options = options;
  r->files = files;
  r->data_path = join_path(options.dir, data_file_name(files.data_file));
  r->metadata_path = join_path(options.dir, metadata_file_name(files.metadata_file));
}

}  // namespace

Result<std::shared_ptr<TableReader>> TableReader::open(const TableReaderOptions& options, const TableFiles& files) {
  std::shared_ptr<TableReader> reader(new TableReader());
  name_files(reader->impl_.get(), options, files);
  TRY_ASSIGN(bytes, read_file(*options.fs, reader->impl_->metadata_path));
  TRY(reader->impl_->open(bytes));
  return reader;
}

std::shared_ptr<TableReader> TableReader::unreadable(const TableReaderOptions& options, const TableFiles& files,
                                                     const TableStats& stats, Status why) {
  std::shared_ptr<TableReader> reader(new TableReader());
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

const Status& TableReader::unreadable() const { return impl_->unreadable; }

Result<std::shared_ptr<TableReader>> TableReader::redescribed(const TableFiles& files, Bytes metadata) const {
  std::shared_ptr<TableReader> reader(new TableReader());
  name_files(reader->impl_.get(), impl_->options, files);
  TRY(reader->impl_->open(metadata));
  return reader;
}

Status TableReaderImpl::open(Bytes bytes) {
  TRY_ASSIGN(m, TableMetadata::decode(bytes, files.metadata_file, metadata_path));
  if (bytes.size() != files.metadata_bytes || block_checksum(bytes, files.metadata_file, 0) != files.metadata_checksum) {
    return Status::corruption(metadata_path + ": is not the file that the manifest knows (length or checksum differ)");
  }
  if (m.data_file != files.data_file || m.data_bytes != files.data_bytes || m.data_checksum != files.data_checksum) {
    return Status::corruption(metadata_path + ": belongs to another data file than the manifest says");
  }
  TRY_ASSIGN(opened, options.fs->open(data_path, OpenOptions{.direct = options.direct_io}));
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

// --- pages

Result<Bytes> TableReaderImpl::decode_page(const PageInfo& page, Bytes block, std::string* scratch) const {
  const BlockPlace where = place(page);
  TRY_ASSIGN(decoded, decode_block(block, BlockKind::kPage, where, scratch));
  if (const char* why = check_page(decoded, files.data_bytes); why != nullptr)
    return where.corruption(std::string("malformed page: ") + why);
  if (PageView(decoded).count() != page.entries)
    return where.corruption("page has another number of entries than the page table says");
  return decoded;
}

std::shared_ptr<const CachedBlock> TableReaderImpl::keep_page(const PageInfo& page, Bytes decoded) const {
  if (options.cache != nullptr) return options.cache->insert(block_key(page), decoded);
  auto own = std::make_shared<OwnBlock>();
  own->bytes.assign(decoded);
  own->block.data = own->bytes.data();
  own->block.size = static_cast<std::uint32_t>(own->bytes.size());
  const CachedBlock* const block = &own->block;
  return {std::move(own), block};
}

Result<std::shared_ptr<const CachedBlock>> TableReaderImpl::load_page(const PageInfo& page, bool may_wait,
                                                                      ReadCounters* counters) const {
  if (options.cache != nullptr) {
    if (auto pinned = options.cache->pin(block_key(page)); pinned != nullptr) return pinned;
  }
  Scratch scratch;
  scratch->block.resize(page.length);
  if (may_wait) {
    TRY(report(file_of(page)->read(page.offset, page.length, scratch->block.data())));
  } else {
    auto done = file_of(page)->read_if_cached(page.offset, page.length, scratch->block.data());
    if (!done.is_ok()) return report(done.status());
    if (!*done) return std::shared_ptr<const CachedBlock>();
  }
  return take_block(page, scratch->block, counters);
}

Result<std::shared_ptr<const CachedBlock>> TableReaderImpl::take_block(const PageInfo& page, Bytes block,
                                                                       ReadCounters* counters) const {
  if (counters != nullptr) {
    ++counters->pages_read;
    counters->bytes_read += page.length;
  }
  Scratch scratch;
  const auto decoded = decode_page(page, block, &scratch->page);
  if (!decoded.is_ok()) return report(decoded.status());
  return keep_page(page, *decoded);
}

Result<std::shared_ptr<const void>> TableReader::fetch_page(std::uint32_t page, ReadCounters* counters) const {
  if (page >= impl_->pages.size()) return Status::invalid_argument(impl_->data_path + ": has no page " + std::to_string(page));
  TRY_ASSIGN(block, impl_->load_page(impl_->pages[page], true, counters));
  return std::shared_ptr<const void>(std::move(block));
}

std::shared_ptr<const void> TableReader::fetch_page_if_cached(std::uint32_t page, ReadCounters* counters) const {
  if (page >= impl_->pages.size()) return nullptr;
  auto block = impl_->load_page(impl_->pages[page], false, counters);
  return block.is_ok() ? std::shared_ptr<const void>(std::move(block).value()) : nullptr;
}

TableReader::PagePlace TableReader::page_place(std::uint32_t page) const {
  if (page >= impl_->pages.size()) return {};
  const PageInfo& info = impl_->pages[page];
  return {impl_->file_of(info), info.offset, info.length};
}

Result<std::shared_ptr<const void>> TableReader::take_page(std::uint32_t page, Bytes block, ReadCounters* counters) const {
  TRY_ASSIGN(kept, impl_->take_block(impl_->pages[page], block, counters));
  return std::shared_ptr<const void>(std::move(kept));
}

// --- large values

std::shared_ptr<const std::string> TableReader::large_if_resident(const LargeValueRef& ref) const {
  MutexLock lock(impl_->mutex);
  for (const auto& [offset, value] : impl_->large) {
    if (offset == ref.offset) return value.lock();
  }
  return nullptr;
}

Result<std::shared_ptr<const std::string>> TableReader::read_large(const LargeValueRef& ref) const {
  if (auto shared = large_if_resident(ref); shared != nullptr) return shared;
  auto bytes = impl_->large_file().read(ref);
  if (!bytes.is_ok()) return impl_->report(bytes.status());
  auto value = std::make_shared<const std::string>(std::move(bytes).value());
  MutexLock lock(impl_->mutex);
  std::erase_if(impl_->large, [](const auto& held) { return held.second.expired(); });
  impl_->large.emplace_back(ref.offset, value);
  return value;
}

Status TableReader::copy_large(const LargeValueRef& ref, std::uint64_t offset, std::span<char> to) const {
  return impl_->report(impl_->large_file().copy(ref, offset, to));
}

Status TableReader::visit_large(const LargeValueRef& ref, const std::function<Status(Bytes, Compression)>& chunk) const {
  bool read = true;  // an error of `chunk` does not concern this table
  const Status status = impl_->large_file().visit(ref, [&](const CheckedBlock& block, const BlockPlace&) {
    Status taken = chunk(block.payload, block.compression);
    read = taken.is_ok();
    return taken;
  });
  return read ? impl_->report(status) : status;
}

// --- lookup

std::uint32_t TableReaderImpl::first_tile(Bytes key) const {
  std::uint32_t tile = fences.find(key);
  return any_continues ? first_of(tile, key) : tile;
}

std::uint32_t TableReaderImpl::first_of(std::uint32_t tile, Bytes key) const {
  while (tile > 0 && (tiles[tile].flags & kTileContinues) != 0 && fences.separator(tile) == key) --tile;
  return tile;
}

namespace {

// A lookup's state over its candidate pages: the newest version found so far.
struct Search {
  const TableReader* reader;
  const TableReaderImpl& r;
  const LookupKey& key;
  SeqNum view_seq;
  MissSet* misses;
  ReadCounters* counters;
  Entry* entry;
  std::shared_ptr<const void>* pin;
  const LookupState* known;
  const bool filtered;
  bool found = false, missing = false;

  Status tile(std::uint32_t number, std::uint64_t mask, bool tombstones) {
    if (r.h == 1) {  // tile and page have the same number
      const PageInfo& page = r.pages[number];
      return is_candidate(page, 0, mask, tombstones) ? look(page, number) : Status::ok();
    }
    const TileInfo& tile = r.tiles[number];
    for (std::uint32_t p = 0; p < tile.pages; ++p) {
      const PageInfo& page = r.pages[tile.first_page + p];
      if (is_candidate(page, p, mask, tombstones)) TRY(look(page, tile.first_page + p));
    }
    return Status::ok();
  }

  const CachedBlock* cached(const PageInfo& page, std::uint32_t number) const {
    if (r.options.cache == nullptr) return nullptr;
    if (known == nullptr || known->block == nullptr || known->page != number) return r.options.cache->lookup(r.block_key(page));
    const auto* const block = static_cast<const CachedBlock*>(known->block);
    r.options.cache->use(block);
    return block;
  }

  Status look(const PageInfo& page, std::uint32_t number) {
    if (const CachedBlock* block = cached(page, number); block != nullptr) [[likely]] {
      if (take(PageView(block->bytes())) && pin != nullptr) pin->reset();
      return Status::ok();
    }
    if (misses != nullptr) {
      misses->pages.push_back({reader, number});
      missing = true;
      return Status::ok();
    }
    TRY_ASSIGN(loaded, r.load_page(page, true, counters));
    const PageView view(loaded->bytes());
    if (take(view) && pin != nullptr) *pin = std::move(loaded);
    return Status::ok();
  }

  // Whether the page has a newer version than what was found before.
  bool take(const PageView& page) {
    bool seen = false, newer = false;
    if (!found) {
      newer = page.get(key, view_seq, reader, entry, &seen);
    } else {
      Entry candidate;
      newer = page.get(key, view_seq, reader, &candidate, &seen) && candidate.seq > entry->seq;
      if (newer) *entry = candidate;
    }
    if (!seen && counters != nullptr) {
      ++counters->pages_in_vain;
      if (filtered) ++counters->filter_false_positives;
    }
    if (!newer) return false;
    found = true;
    entry->key = key.key;
    return true;
  }
};

}  // namespace

Lookup TableReader::get(const LookupKey& key, SeqNum view_seq, MissSet* misses, Entry* entry, std::shared_ptr<const void>* pin,
                        ReadCounters* counters, Status* status, const LookupState* known) const {
  const TableReaderImpl& r = *impl_;
  const LoadedFilter& filter = *r.filter.load(std::memory_order_acquire);
  bool tombstones = false;
  std::uint64_t mask = 0;
  std::uint32_t tile = 0;
  if (known != nullptr) {
    mask = known->columns;
    tombstones = known->tombstones;
    tile = known->tile;
  } else {
    if (r.tiles.empty()) {
      *status = r.unreadable;
      return r.unreadable.is_ok() ? Lookup::kAbsent : Lookup::kError;
    }
    mask = filter.candidates(key.hash, &tombstones);
    if (mask == 0 && !tombstones) {
      if (counters != nullptr) ++counters->filter_negatives;
      return Lookup::kAbsent;
    }
    if (!key.key.starts_with(r.fences.prefix())) return Lookup::kAbsent;
    tile = r.first_tile(key.key);
  }
  if (counters != nullptr && !filter.empty()) ++counters->filter_positives;
  Search search{this, r, key, view_seq, misses, counters, entry, pin, known, !filter.empty()};
  // Where one key's versions fill several tiles, the first tile with a visible one has the newest.
  for (;; ++tile) {
    if (Status s = search.tile(tile, mask, tombstones); !s.is_ok()) [[unlikely]] {
      *status = std::move(s);
      return Lookup::kError;
    }
    if (search.found || search.missing || !r.any_continues || !r.goes_on(tile, key.key)) break;
  }
  if (search.missing) {
    misses->keep_alive.push_back(shared_from_this());
    return Lookup::kNotResident;
  }
  return search.found ? Lookup::kFound : Lookup::kAbsent;
}

bool TableReader::may_contain(const LookupKey& key, const LoadedFilter& filter) const {
  if (!impl_->unreadable.is_ok()) return true;
  if (impl_->tiles.empty() || !key.key.starts_with(impl_->fences.prefix())) return false;
  bool tombstones = false;
  return filter.candidates(key.hash, &tombstones) != 0 || tombstones;
}

std::shared_ptr<const LoadedFilter> TableReader::filter() const {
  MutexLock lock(impl_->mutex);
  return impl_->filter_owner;
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

bool TableReader::prefetch(const LookupKey& key, int stage, LookupState* state) const {
  const TableReaderImpl& r = *impl_;
  switch (stage) {
    case 0:
      r.filter.load(std::memory_order_acquire)->prefetch(key.hash);
      return true;
    case 1:
      if (r.tiles.empty()) return false;
      state->columns = r.filter.load(std::memory_order_acquire)->candidates(key.hash, &state->tombstones);
      if ((state->columns == 0 && !state->tombstones) || !key.key.starts_with(r.fences.prefix())) return false;
      state->block = nullptr;
      state->tile = r.fences.begin(key.key);
      return true;
    case 2:
      state->tile = r.fences.finish(key.key, state->tile);
      if (r.any_continues) state->tile = r.first_of(state->tile, key.key);
      r.prefetch_tile(state->tile);
      return true;
    default:
      r.prefetch_page(key, stage, state);
      return true;
  }
}

void TableReaderImpl::prefetch_tile(std::uint32_t tile) const {
  if (h == 1) {  // tile and page have the same number
    __builtin_prefetch(&pages[tile]);
  } else {
    __builtin_prefetch(&tiles[tile]);
  }
}

std::uint32_t TableReaderImpl::first_candidate(const LookupState& state) const {
  if (h == 1) return is_candidate(pages[state.tile], 0, state.columns, state.tombstones) ? state.tile : LookupState::kNoPage;
  const TileInfo& tile = tiles[state.tile];
  for (std::uint32_t p = 0; p < tile.pages; ++p) {
    if (is_candidate(pages[tile.first_page + p], p, state.columns, state.tombstones)) return tile.first_page + p;
  }
  return LookupState::kNoPage;
}

// A second candidate is rare: get() looks it up by itself.
void TableReaderImpl::prefetch_page(const LookupKey& key, int stage, LookupState* state) const {
  if (options.cache == nullptr) return;
  if (stage == 3) state->page = first_candidate(*state);
  if (state->page == LookupState::kNoPage) return;
  const BlockKey block = block_key(pages[state->page]);
  if (stage == 3) {
    state->found = options.cache->start(block);
  } else if (stage == 4) {
    state->found = options.cache->guess(block, state->found);
  } else if (const CachedBlock* page = options.cache->confirm(block, static_cast<const CachedBlock*>(state->found))) {
    state->block = page;
    PageView(page->bytes()).prefetch(key.hash);
  }
}

// --- properties

std::unique_ptr<InternalIterator> TableReader::new_iterator(const TableIteratorOptions& options) const {
  if (!impl_->unreadable.is_ok()) {
    return std::make_unique<BarrierIterator>(impl_->stats, options.bounds.start, impl_->unreadable);
  }
  return new_table_iterator(shared_from_this(), *impl_, options);
}
const SharedTombstones& TableReader::range_tombstones() const { return impl_->tombstones; }
const TableStats& TableReader::stats() const { return impl_->stats; }
const TableFiles& TableReader::files() const { return impl_->files; }
std::uint32_t TableReader::pages_per_tile() const { return impl_->h; }
std::uint32_t TableReader::page_count() const { return static_cast<std::uint32_t>(impl_->pages.size()); }
std::uint32_t TableReader::tile_count() const { return static_cast<std::uint32_t>(impl_->tiles.size()); }

std::uint32_t TableReader::first_tile(Bytes key) const { return impl_->first_tile(key); }
std::string TableReader::tile_start(std::uint32_t tile) const { return impl_->fences.separator(tile); }

Result<bool> TableReader::collect_stamps(std::uint32_t tile, DeleteKey lo, DeleteKey hi, Bytes from,
                                         std::vector<std::string>* keys, ReadCounters* counters) const {
  const TableReaderImpl& r = *impl_;
  const TileInfo& info = r.tiles[tile];
  bool looked = false;
  std::string key;
  for (std::uint32_t p = info.first_page; p < info.first_page + info.pages; ++p) {
    const PageInfo& page = r.pages[p];
    const auto [min, max] = r.delete_keys[p];
    if (page.dropped() || (page.flags & kPageTombstones) != 0 || min > max || max < lo || min >= hi) continue;
    looked = true;
    TRY_ASSIGN(block, r.load_page(page, true, counters));
    const PageView view(block->bytes());
    Entry entry;
    for (std::uint32_t i = view.lower_bound(from); i < view.count(); ++i) {
      view.read(i, this, &key, &entry);
      if (!entry.is_tombstone() && lo <= entry.delete_key && entry.delete_key < hi) keys->push_back(key);
    }
  }
  return looked;
}

bool TableReader::names_can_be_renewed() const { return impl_->renewable; }

PageFence TableReader::page_fence(std::uint32_t page) const {
  const TableReaderImpl& r = *impl_;
  const auto tile = std::upper_bound(r.tiles.begin(), r.tiles.end(), page,
                                     [](std::uint32_t p, const TileInfo& t) { return p < t.first_page; }) -
                    1;
  const PageInfo& info = r.pages[page];
  PageFence fence;
  fence.tile = static_cast<std::uint32_t>(tile - r.tiles.begin());
  fence.flags = info.flags;
  fence.unique_keys = (tile->flags & kTileUniqueKeys) != 0;
  fence.single_versions = (tile->flags & kTileSingleVersions) != 0;
  fence.entries = info.entries;
  fence.stored_bytes = info.length;
  const auto [min_key, max_key] = r.delete_keys[page];
  const auto [min_expiry, max_expiry] = r.expiries[page];
  const auto [min_seq, max_seq] = r.seqs[page];
  fence.min_delete_key = min_key;
  fence.max_delete_key = max_key;
  fence.min_expiry = min_expiry;
  fence.max_expiry = max_expiry;
  fence.min_seq = min_seq;
  fence.max_seq = max_seq;
  return fence;
}

KeyRange TableReader::tile_range(std::uint32_t tile) const {
  const TableReaderImpl& r = *impl_;
  KeyRange range;
  range.start = tile == 0 ? r.stats.smallest : r.fences.separator(tile);
  if (tile + 1 < r.tiles.size()) {
    range.end = r.fences.separator(tile + 1);
    if ((r.tiles[tile + 1].flags & kTileContinues) != 0) range.end.push_back('\0');  // that key is in this tile, too
  } else if (!r.stats.unbounded) {
    range.end = r.stats.largest;
    if (!r.stats.largest_exclusive) range.end.push_back('\0');
  }
  return range;
}

Result<std::string> TableReader::read_page(std::uint32_t page, ReadCounters* counters) const {
  const PageInfo& info = impl_->pages[page];
  ASSERT(!info.dropped());
  std::string block(info.length, '\0'), scratch;
  TRY(impl_->report(impl_->file_of(info)->read(info.offset, block.size(), block.data())));
  if (counters != nullptr) {
    ++counters->pages_read;
    counters->bytes_read += block.size();
  }
  const auto decoded = impl_->decode_page(info, block, &scratch);
  if (!decoded.is_ok()) return impl_->report(decoded.status());
  return std::string(*decoded);
}

std::uint64_t TableReader::replaced_bytes() const { return impl_->replaced_bytes; }
const std::vector<FileExtent>& TableReader::dead_extents() const { return impl_->dead; }

Result<TableMetadata> TableReader::load_metadata() const {
  if (!impl_->unreadable.is_ok()) return impl_->unreadable;
  const auto bytes = read_file(*impl_->options.fs, impl_->metadata_path);
  if (bytes.status().is_not_found()) return impl_->report(Status::corruption(impl_->metadata_path + ": is missing"));
  if (!bytes.is_ok()) return impl_->report(bytes.status());
  auto metadata = TableMetadata::decode(*bytes, impl_->files.metadata_file, impl_->metadata_path);
  if (!metadata.is_ok()) return impl_->report(metadata.status());
  return metadata;
}

std::uint64_t TableReader::filter_bits() const {
  const std::uint32_t loaded = filter()->slices();
  std::uint64_t bits = 0;
  for (std::uint32_t i = 0; i < loaded; ++i) bits += impl_->slices[i].bits;
  return bits;
}

double TableReader::false_positive_rate() const {
  const std::uint32_t loaded = filter()->slices();
  double page = 1;
  for (std::uint32_t i = 0; i < loaded; ++i) page *= impl_->slices[i].rate;
  return 1 - std::pow(1 - page, impl_->h);
}

std::uint64_t TableReader::memory_bytes() const {
  const TableReaderImpl& r = *impl_;
  return sizeof(*this) + sizeof(r) + r.fences.memory_bytes() + r.pages.capacity() * sizeof(PageInfo) +
         r.tiles.capacity() * sizeof(TileInfo) + r.delete_keys.memory_bytes() + r.expiries.memory_bytes() +
         r.seqs.memory_bytes() + r.permutations.capacity() + r.permutation_offsets.capacity() * 8 + filter()->memory_bytes() +
         r.tombstone_bytes + r.dead.capacity() * sizeof(FileExtent);
}

std::uint64_t TableReaderImpl::begin_of(std::uint32_t tile) const {
  // A replaced page's offset is of another file: its neighbours tell where the tile lies.
  for (std::uint32_t p = tile < tiles.size() ? tiles[tile].first_page : ~std::uint32_t{0}; p < pages.size(); ++p) {
    if (!pages[p].replaced()) return pages[p].offset;
  }
  return files.data_bytes;
}

std::uint64_t TableReader::approximate_bytes(const KeyRange& range) const {
  const TableReaderImpl& r = *impl_;
  if (r.tiles.empty() || !r.stats.overlaps(range)) return 0;
  const bool from_start = Bytes(range.start) <= Bytes(r.stats.smallest);
  const bool to_end = range.end.empty() || r.stats.ends_before(range.end);
  const std::uint32_t first = from_start ? 0 : r.fences.find(range.start);
  const std::uint32_t last = to_end ? static_cast<std::uint32_t>(r.tiles.size()) : r.fences.find(range.end);
  if (first < last) return r.begin_of(last) - (from_start ? 0 : r.begin_of(first));
  return (r.begin_of(first + 1) - r.begin_of(first)) / 2;  // somewhere inside one tile
}

std::vector<std::string> TableReader::split_points(const KeyRange& range, std::size_t count) const {
  const TableReaderImpl& r = *impl_;
  std::vector<std::string> points;
  if (r.tiles.empty() || count == 0) return points;
  // Separators strictly inside the range; a tile that goes on with a key does not begin anything.
  const std::uint32_t first = range.start.empty() ? 1 : r.fences.find(range.start) + 1;
  const std::uint32_t last = range.end.empty() ? r.fences.size() : r.fences.find(range.end) + 1;
  if (first >= last) return points;
  const std::uint64_t available = last - first;
  const std::uint64_t wanted = std::min<std::uint64_t>(count, available);
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const auto tile = static_cast<std::uint32_t>(first + (2 * i + 1) * available / (2 * wanted));
    if ((r.tiles[tile].flags & kTileContinues) != 0) continue;
    std::string separator = r.fences.separator(tile);
    if (separator <= range.start || (!range.end.empty() && separator >= range.end)) continue;
    if (points.empty() || points.back() < separator) points.push_back(std::move(separator));
  }
  return points;
}

std::vector<std::pair<std::string, std::uint64_t>> TableReader::byte_samples(const KeyRange& range, std::size_t count) const {
  const TableReaderImpl& r = *impl_;
  std::vector<std::pair<std::string, std::uint64_t>> samples;
  if (r.tiles.empty() || !r.stats.overlaps(range)) return samples;
  const std::uint32_t first = Bytes(range.start) <= Bytes(r.stats.smallest) ? 0 : r.fences.find(range.start);
  const auto tiles = static_cast<std::uint32_t>(r.tiles.size());
  const std::uint32_t last = range.end.empty() ? tiles : std::min(tiles, r.fences.find(range.end) + 1);
  const std::uint64_t available = last - first;
  const std::uint64_t pieces = std::min<std::uint64_t>(count, available);
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const auto from = static_cast<std::uint32_t>(first + i * available / pieces);
    const auto to = static_cast<std::uint32_t>(first + (i + 1) * available / pieces);
    const std::uint32_t middle = from + (to - from) / 2;
    const std::uint64_t begin = r.begin_of(from), end = r.begin_of(to);
    samples.emplace_back(middle == 0 ? r.stats.smallest : r.fences.separator(middle), end > begin ? end - begin : 0);
  }
  return samples;
}

bool TableReader::verify(std::vector<std::string>* errors, std::uint64_t* pages, std::uint64_t* entries,
                         const std::function<bool()>& stopped) const {
  std::vector<Status> found;
  const bool clean = verify(&found, pages, entries, stopped);
  for (const Status& error : found) errors->push_back(error.to_string());
  return clean;
}

bool TableReader::verify(std::vector<Status>* errors, std::uint64_t* pages, std::uint64_t* entries,
                         const std::function<bool()>& stopped) const {
  return verify_table(*this, *impl_, errors, pages, entries, stopped);
}

}  // namespace ebbtide

// Point reads in one table: filter, fences and pages. Also reads the pages and large values that an earlier lookup did not find
// in memory.
#include "table/table_lookup.h"

#include <algorithm>

#include "iter/barrier_iterator.h"
#include "iter/run_iterator.h"
#include "table/table_reader_impl.h"

namespace ebbtide {
namespace {

// Lends a thread's buffers for one read. Frees the buffers after an unusually large page.
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

const Status& TableLookup::unreadable() const {
  static const Status ok = Status::ok();
  return r_.failed.load(std::memory_order_acquire) ? r_.why : ok;
}
const SharedTombstones& TableLookup::range_tombstones() const { return r_.held().tombstones; }
const TableStats& TableLookup::stats() const { return r_.stats; }
const TableFiles& TableLookup::files() const { return r_.files; }

std::unique_ptr<InternalIterator> TableLookup::new_iterator(const TableIteratorOptions& options) const {
  auto pinned = r_.pinned(options.misses);
  if (pinned.status().is_not_resident()) return error_iterator(Status::not_resident());
  if (!pinned.is_ok()) return std::make_unique<BarrierIterator>(r_.stats, options.bounds.start, pinned.status());
  return new_table_iterator(std::move(pinned).value(), r_, options);
}

// --- pages

Result<Bytes> TableReaderImpl::decode_page(const PageInfo& page, Bytes block, std::string* scratch) const {
  const BlockPlace where = place(page);
  TRY_ASSIGN(decoded, decode_block(block, BlockKind::kPage, where, scratch));
  if (const char* why = check_page(decoded, files.data_bytes); why != nullptr)
    return where.corruption(std::string("malformed page: ") + why);
  if (PageView(decoded).count() != page.entries) return where.corruption("number of entries differs from the page table's");
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

Result<std::shared_ptr<const CachedBlock>> TableReaderImpl::use_page(const PageInfo& page, ReadCounters* counters) const {
  TRY_ASSIGN(block, load_page(page, true, counters));
  if (options.cache != nullptr) options.cache->use(block.get());
  return block;
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

Result<std::shared_ptr<const void>> TableLookup::fetch_page(std::uint32_t page, ReadCounters* counters) const {
  TRY_ASSIGN(pin, r_.pinned());
  if (page == kIndexMiss) return std::shared_ptr<const void>(std::move(pin));
  const TableIndex& index = r_.held();
  if (page >= index.pages.size()) return Status::invalid_argument(r_.data_path + ": has no page " + std::to_string(page));
  TRY_ASSIGN(block, r_.load_page(index.pages[page], true, counters));
  return std::shared_ptr<const void>(std::move(block));
}

std::shared_ptr<const void> TableLookup::fetch_page_if_cached(std::uint32_t page, ReadCounters* counters) const {
  auto pin = r_.pinned_if_loaded();
  if (pin == nullptr || page == kIndexMiss) return pin;
  const TableIndex& index = r_.held();
  if (page >= index.pages.size()) return nullptr;
  auto block = r_.load_page(index.pages[page], false, counters);
  return block.is_ok() ? std::shared_ptr<const void>(std::move(block).value()) : nullptr;
}

std::shared_ptr<const void> TableLookup::pin_page(std::uint32_t page) const {
  auto pin = r_.pinned_if_loaded();
  if (pin == nullptr || page == kIndexMiss) return pin;
  const TableIndex& index = r_.held();
  if (page >= index.pages.size() || r_.options.cache == nullptr) return nullptr;
  return r_.options.cache->pin(r_.block_key(index.pages[page]));
}

TableLookup::PagePlace TableLookup::page_place(std::uint32_t page) const {
  const auto pin = r_.pinned_if_loaded();
  if (pin == nullptr || page == kIndexMiss) return {};
  const TableIndex& index = r_.held();
  if (page >= index.pages.size()) return {};
  const PageInfo& info = index.pages[page];
  return {r_.file_of(info), info.offset, info.length};
}

Result<std::shared_ptr<const void>> TableLookup::take_page(std::uint32_t page, Bytes block, ReadCounters* counters) const {
  TRY_ASSIGN(pin, r_.pinned());
  TRY_ASSIGN(kept, r_.take_block(r_.held().pages[page], block, counters));
  return std::shared_ptr<const void>(std::move(kept));
}

void TableLookup::add_index_miss(MissSet* misses) const {
  Status status;
  if (r_.index.load(std::memory_order_acquire) == nullptr) (void)r_.index_for(misses, &status);
}

std::shared_ptr<const void> TableLookup::pin_index_if_loaded() const { return r_.pinned_if_loaded(); }
bool TableLookup::is_crowded() const { return r_.options.indexes != nullptr && r_.options.indexes->crowded(); }

// --- large values

std::shared_ptr<const std::string> TableLookup::large_if_resident(const LargeValueRef& ref) const {
  MutexLock lock(r_.mutex);
  for (const auto& [offset, value] : r_.large) {
    if (offset == ref.offset) return value.lock();
  }
  return nullptr;
}

Result<std::shared_ptr<const std::string>> TableLookup::read_large(const LargeValueRef& ref) const {
  if (auto shared = large_if_resident(ref); shared != nullptr) return shared;
  auto bytes = r_.large_file().read(ref);
  if (!bytes.is_ok()) return r_.report(bytes.status());
  auto value = std::make_shared<const std::string>(std::move(bytes).value());
  MutexLock lock(r_.mutex);
  std::erase_if(r_.large, [](const auto& held) { return held.second.expired(); });
  r_.large.emplace_back(ref.offset, value);
  return value;
}

Status TableLookup::copy_large(const LargeValueRef& ref, std::uint64_t offset, std::span<char> to) const {
  return r_.report(r_.large_file().copy(ref, offset, to));
}

Status TableLookup::visit_large(const LargeValueRef& ref, const std::function<Status(Bytes, Compression)>& chunk) const {
  bool read = true;  // false if `chunk` returned the error: then the table is not damaged
  const Status status = r_.large_file().visit(ref, [&](const CheckedBlock& block, const BlockPlace&) {
    Status taken = chunk(block.payload, block.compression);
    read = taken.is_ok();
    return taken;
  });
  return read ? r_.report(status) : status;
}

// --- lookup

namespace {

// The state of a lookup over its candidate pages: the newest version found so far.
struct Search {
  const TableLookup* reader;
  const TableReaderImpl& r;
  const TableIndex& index;
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
    if (index.h == 1) {  // with h = 1, tile and page have the same number
      const PageInfo& page = index.pages[number];
      return is_candidate(page, 0, mask, tombstones) ? look(page, number) : Status::ok();
    }
    const TileInfo& tile = index.tiles[number];
    for (std::uint32_t p = 0; p < tile.pages; ++p) {
      const PageInfo& page = index.pages[tile.first_page + p];
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
      if (const auto* have = misses->find(reader, number); have != nullptr) {
        if (take(PageView(static_cast<const CachedBlock*>(have->get())->bytes())) && pin != nullptr) *pin = *have;
        return Status::ok();
      }
      misses->pages.push_back({reader, number});
      missing = true;
      return Status::ok();
    }
    TRY_ASSIGN(loaded, r.use_page(page, counters));
    const PageView view(loaded->bytes());
    if (take(view) && pin != nullptr) *pin = std::move(loaded);
    return Status::ok();
  }

  // Searches a page. Returns true if the page has a newer version than the pages searched before.
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

Lookup TableLookup::get(const LookupKey& key, SeqNum view_seq, MissSet* misses, Entry* entry, std::shared_ptr<const void>* pin,
                        ReadCounters* counters, Status* status, const LookupState* known) const {
  const TableReaderImpl& r = r_;
  const LoadedFilter& filter = *r.filter.load(std::memory_order_acquire);
  const TableIndex* const index = r.index_for(misses, status);
  if (index == nullptr) [[unlikely]]
    return status->is_ok() ? Lookup::kNotResident : Lookup::kError;
  bool tombstones = false;
  std::uint64_t mask = 0;
  std::uint32_t tile = 0;
  if (known != nullptr && known->tile != LookupState::kNoPage) {
    mask = known->columns;
    tombstones = known->tombstones;
    tile = known->tile;
  } else {
    known = nullptr;
    if (index->tiles.empty()) return Lookup::kAbsent;
    mask = filter.candidates(key.hash, &tombstones);
    if (mask == 0 && !tombstones) {
      if (counters != nullptr) ++counters->filter_negatives;
      return Lookup::kAbsent;
    }
    if (!key.key.starts_with(index->fences.prefix())) return Lookup::kAbsent;
    tile = index->first_tile(key.key);
  }
  if (counters != nullptr && !filter.empty()) ++counters->filter_positives;
  Search search{this, r, *index, key, view_seq, misses, counters, entry, pin, known, !filter.empty()};
  // The versions of a key may lie in several tiles, newest first. So the first tile with a visible version has the newest
  // visible one.
  for (;; ++tile) {
    if (Status s = search.tile(tile, mask, tombstones); !s.is_ok()) [[unlikely]] {
      *status = std::move(s);
      return Lookup::kError;
    }
    if (search.found || search.missing || !index->any_continues || !index->goes_on(tile, key.key)) break;
  }
  if (search.missing) {
    // Pins the index, so that the fetch finds the pages' offsets in it; without the pin, the fetch may have to read the index
    // again.
    auto kept = is_crowded() ? nullptr : pin_index_if_loaded();
    misses->keep_alive.push_back(kept != nullptr ? std::move(kept) : shared_from_this());
    return Lookup::kNotResident;
  }
  return search.found ? Lookup::kFound : Lookup::kAbsent;
}

Lookup TableLookup::newest_cover(Bytes key, SeqNum view_seq, MissSet* misses, const FragmentedRangeTombstones::Cover** cover,
                                 Status* status) const {
  const TableIndex* const index = r_.index_for(misses, status);
  if (index == nullptr) [[unlikely]]
    return status->is_ok() ? Lookup::kNotResident : Lookup::kError;
  *cover = index->tombstones->newest_cover(key, view_seq);
  return *cover != nullptr ? Lookup::kFound : Lookup::kAbsent;
}

bool TableLookup::may_contain(const LookupKey& key, const LoadedFilter& filter) const {
  const TableIndex* const index = r_.index.load(std::memory_order_acquire);
  if (index == nullptr) return true;
  if (index->tiles.empty() || !key.key.starts_with(index->fences.prefix())) return false;
  bool tombstones = false;
  return filter.candidates(key.hash, &tombstones) != 0 || tombstones;
}

bool TableLookup::may_have_collection(const LookupKey& key) const {
  const TableIndex* const index = r_.index.load(std::memory_order_acquire);
  if (index == nullptr) return true;
  r_.searched(false);
  return r_.filter.load(std::memory_order_acquire)->may_have_collection(key.hash) && key.key.starts_with(index->fences.prefix());
}

void TableLookup::prefetch_collection(const LookupKey& key) const {
  r_.filter.load(std::memory_order_acquire)->prefetch_collection(key.hash);
}

std::shared_ptr<const LoadedFilter> TableLookup::filter() const { return r_.loaded_filter(); }

// If the index was not in memory at an earlier stage, state->tile is kNoPage, and this and later stages have no effect.
bool TableLookup::prefetch(const LookupKey& key, int stage, LookupState* state) const {
  const TableReaderImpl& r = r_;
  if (stage == 0) {
    r.filter.load(std::memory_order_acquire)->prefetch(key.hash);
    return true;
  }
  const TableIndex* const index = r.index.load(std::memory_order_acquire);
  if (index == nullptr || (stage > 1 && state->tile == LookupState::kNoPage)) [[unlikely]] {
    state->tile = state->page = LookupState::kNoPage;
    state->block = nullptr;
    return true;
  }
  switch (stage) {
    case 1:
      r.searched(true);
      if (index->tiles.empty()) return false;
      state->columns = r.filter.load(std::memory_order_acquire)->candidates(key.hash, &state->tombstones);
      if ((state->columns == 0 && !state->tombstones) || !key.key.starts_with(index->fences.prefix())) return false;
      state->block = nullptr;
      state->tile = index->fences.begin(key.key);
      return true;
    case 2:
      state->tile = index->fences.finish(key.key, state->tile);
      if (index->any_continues) state->tile = index->first_of(state->tile, key.key);
      index->prefetch_tile(state->tile);
      return true;
    default:
      r.prefetch_page(*index, key, stage, state);
      return true;
  }
}

// Prefetches only the first candidate page. A second candidate is rare; get() finds it without a prefetch.
void TableReaderImpl::prefetch_page(const TableIndex& now, const LookupKey& key, int stage, LookupState* state) const {
  if (options.cache == nullptr) return;
  if (stage == 3) state->page = now.first_candidate(*state);
  if (state->page == LookupState::kNoPage) return;
  const BlockKey block = block_key(now.pages[state->page]);
  if (stage == 3) {
    state->found = options.cache->start(block);
  } else if (stage == 4) {
    state->found = options.cache->guess(block, state->found);
  } else if (const CachedBlock* page = options.cache->confirm(block, static_cast<const CachedBlock*>(state->found))) {
    state->block = page;
    PageView(page->bytes()).prefetch(key.hash);
  }
}

}  // namespace ebbtide

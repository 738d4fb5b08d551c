// Iterates over a table in sort-key order, forward and backward, for any h.
//
// The tile's permutation gives the page of each next entry, so a move needs no comparison. The i-th entry of the tile is in page
// q = order[i], as that page's entry number position(q). position(q) is how many of the tile's first i entries are in page q. A
// seek finds the key's lower bound in each page of one tile; the sum of these positions is the position in the tile.
#include <algorithm>
#include <vector>

#include "table/table_reader_impl.h"

namespace ebbtide {
namespace {

// Reads the data file in larger units than requested (readahead). With `eager`, for compactions, each read has `most` bytes.
// Otherwise, for scans that fill the block cache, the first read has a single page; while the scan is sequential, each further
// read has twice as many bytes, up to `most`. Not thread-safe.
class Readahead {
 public:
  Readahead(const TableReaderImpl& r, bool eager, std::size_t most)
      : r_(r), eager_(eager), most_(most), window_(eager ? most : 0) {}

  // Returns the bytes of a block, valid until the next call. `forward` is the direction of the walk.
  Result<Bytes> read(std::uint64_t offset, std::size_t length, bool forward, ReadCounters* counters) {
    if (offset >= begin_ && offset + length <= begin_ + buffer_.size()) return Bytes(buffer_).substr(offset - begin_, length);
    const bool straight_on = forward ? offset == expected_ : offset + length == expected_;
    if (!eager_) window_ = straight_on ? std::min(std::max<std::size_t>(window_ * 2, 4 * length), most_) : length;
    const std::size_t bytes = std::max(length, window_);
    std::uint64_t from = offset, to = std::min(r_.files.data_bytes, offset + bytes);
    if (!forward) {
      to = offset + length;
      from = to - std::min<std::uint64_t>(to, bytes);
    }
    buffer_.resize(to - from);
    begin_ = from;
    if (Status s = r_.data->read(from, buffer_.size(), buffer_.data()); !s.is_ok()) {
      buffer_.clear();
      return s;
    }
    if (counters != nullptr) counters->bytes_read += buffer_.size();
    expected_ = forward ? to : from;
    return Bytes(buffer_).substr(offset - begin_, length);
  }

 private:
  const TableReaderImpl& r_;
  const bool eager_;
  const std::size_t most_;
  std::size_t window_;
  std::string buffer_;
  std::uint64_t begin_ = 0;     // offset of buffer_ in the file
  std::uint64_t expected_ = 0;  // offset at which the next block of a sequential scan begins or, in a backward scan, ends
};

class TableIterator final : public InternalIterator {
 public:
  TableIterator(std::shared_ptr<const TableReader> pinned, const TableReaderImpl& r, const TableIteratorOptions& options)
      : reader_(std::move(pinned)),
        r_(r),
        index_(r.held()),
        options_(options),
        readahead_(r, !options.fill_cache, options.readahead) {
    if (options.points != nullptr && index_.points_at == options.points->points_at() && !index_.points.empty())
      bounds_ = index_.points.data();
    if (index_.tiles.empty()) return;
    first_tile_ = options_.bounds.start.empty() ? 0 : index_.first_tile(options_.bounds.start);
    start_tile_ = options_.bounds.start.empty() ? 0 : index_.fences.find(options_.bounds.start);
    // The first tile that can have the upper bound as a key; all later tiles are past the bound.
    last_tile_ = options_.bounds.end.empty() ? index_.fences.size() - 1 : index_.first_tile(options_.bounds.end);
    empty_ = !options_.bounds.end.empty() && options_.bounds.end <= options_.bounds.start;
  }

  void seek_to_first() override { seek({}); }

  void seek_to_last() override {
    if (!reset()) return;
    if (!options_.bounds.end.empty()) return seek_before(options_.bounds.end);
    forward_ = false;
    if (load_tile(last_tile_)) jump_to_end();
    settle_backward();
  }

  void seek(Bytes key) override {
    if (!reset()) return;
    key = std::max(key, Bytes(options_.bounds.start));
    if (past_end(key)) return;
    forward_ = true;
    if (load_tile(index_.first_tile(key))) position_ = lower_bound(key);
    settle_forward();
  }

  void seek_before(Bytes key) override {
    if (!reset()) return;
    if (past_end(key)) key = options_.bounds.end;
    if (key <= Bytes(options_.bounds.start)) return;
    forward_ = false;
    if (load_tile(index_.first_tile(key))) position_ = lower_bound(key);
    settle_backward();
  }

  void next() override {
    forward_ = true;
    ++slots_[page_at(position_)].position;
    ++position_;
    settle_forward();
  }

  void prev() override {
    forward_ = false;
    settle_backward();
  }

 private:
  // A page of the current tile.
  struct Slot {
    PageView page;
    std::uint32_t position = 0;  // number of the page's entries before the iterator's position
    std::shared_ptr<const CachedBlock> pin;
    std::string own;
  };

  // Makes the iterator invalid and clears its status. Returns false if no tile overlaps the bounds.
  bool reset() {
    valid_ = false;
    status_ = Status::ok();
    return !index_.tiles.empty() && !empty_;
  }
  [[nodiscard]] bool past_end(Bytes key) const { return !options_.bounds.end.empty() && key >= Bytes(options_.bounds.end); }
  [[nodiscard]] std::uint32_t page_at(std::uint32_t i) const { return single_ ? 0 : order_[i]; }

  bool fail(Status status) {
    status_ = r_.report(std::move(status));
    valid_ = false;
    tile_ = kNoTile;
    return false;
  }

  // Returns true if the search for points skips the tile.
  [[nodiscard]] bool skips(std::uint32_t tile) const { return bounds_ != nullptr && !options_.points->meets(bounds_[tile]); }

  // Makes `tile` the current tile, at position 0. Returns false and sets status_ if the tile cannot be read. A tile that the
  // search for points skips is not read, and is treated as a tile without entries.
  bool load_tile(std::uint32_t tile) {
    const TileInfo& info = index_.tiles[tile];
    if (tile != tile_) {
      tile_ = kNoTile;
      if (slots_.size() < info.pages) slots_.resize(info.pages);
      count_ = 0;
      const bool skipped = skips(tile);
      for (std::uint32_t p = 0; p < info.pages && !skipped; ++p) {
        const std::uint32_t page = info.first_page + p;
        if (index_.pages[page].dropped()) continue;
        if (!load_page(page, &slots_[p]) && !note_miss(page)) return false;
        count_ += index_.pages[page].entries;
      }
      if (!status_.is_ok()) {
        name_next(tile);
        return false;
      }
      single_ = info.pages == 1;
      if (!single_) {
        const Bytes packed = Bytes(index_.permutations).substr(index_.permutation_offsets[tile]);
        unpack_permutation(packed, info.pages, count_, &order_);
      }
      tile_ = tile;
    }
    for (std::uint32_t p = 0; p < info.pages; ++p) slots_[p].position = 0;
    position_ = 0;
    return true;
  }

  // Returns the pin of a page that was fetched for the command; null for other pages.
  [[nodiscard]] std::shared_ptr<const CachedBlock> fetched(std::uint32_t page) const {
    if (options_.misses == nullptr) return nullptr;
    const auto* const have = options_.misses->find(static_cast<const TableLookup*>(reader_.get()), page);
    return have == nullptr ? nullptr : std::static_pointer_cast<const CachedBlock>(*have);
  }

  bool load_page(std::uint32_t number, Slot* slot) {
    const PageInfo& page = index_.pages[number];
    slot->pin.reset();
    if (r_.options.cache != nullptr) {
      slot->pin = r_.options.cache->pin(r_.block_key(page));
      if (slot->pin != nullptr) {
        if (options_.fill_cache) r_.options.cache->use(slot->pin.get());
        slot->page = PageView(slot->pin->bytes());
        return true;
      }
    }
    if (options_.misses != nullptr) {
      slot->pin = fetched(number);
      if (slot->pin == nullptr) return false;
      slot->page = PageView(slot->pin->bytes());
      return true;
    }
    if (options_.counters != nullptr) ++options_.counters->pages_read;
    auto block = read_block(page);
    if (!block.is_ok()) return fail(block.status());
    auto decoded = r_.decode_page(page, *block, &slot->own);
    if (!decoded.is_ok()) return fail(decoded.status());
    if (options_.fill_cache) {
      slot->pin = r_.keep_page(page, *decoded);
      if (r_.options.cache != nullptr) r_.options.cache->use(slot->pin.get());
      slot->page = PageView(slot->pin->bytes());
      return true;
    }
    // A page that was not compressed lies in the readahead buffer, which the tile's next page may replace. So the page is copied.
    if (decoded->data() != slot->own.data()) slot->own.assign(*decoded);
    slot->page = PageView(slot->own);
    return true;
  }

  // If the iterator never reads (options_.misses), adds the page to the misses and returns true. Returns false for other
  // iterators.
  bool note_miss(std::uint32_t page) {
    if (options_.misses == nullptr) return false;
    options_.misses->pages.push_back({static_cast<const TableLookup*>(reader_.get()), page});
    if (status_.is_ok()) options_.misses->keep_alive.push_back(reader_);
    status_ = Status::not_resident();
    return true;
  }

  // Adds the missing pages of the tiles after `tile`, in the direction of the walk, to the misses.
  void name_next(std::uint32_t tile) {
    for (std::uint32_t named = 1; tile != (forward_ ? last_tile_ : first_tile_);) {
      const TileInfo& info = index_.tiles[forward_ ? ++tile : --tile];
      if (skips(tile)) continue;
      for (std::uint32_t p = info.first_page; p < info.first_page + info.pages; ++p) {
        if (index_.pages[p].dropped()) continue;
        if (++named > options_.pages_at_once) return;
        const bool cached = r_.options.cache != nullptr && r_.options.cache->pin(r_.block_key(index_.pages[p])) != nullptr;
        if (!cached && fetched(p) == nullptr) (void)note_miss(p);
      }
    }
  }

  Result<Bytes> read_block(const PageInfo& page) {
    if (!page.replaced()) return readahead_.read(page.offset, page.length, forward_, options_.counters);
    replaced_.resize(page.length);
    TRY(r_.metadata->read(page.offset, page.length, replaced_.data()));
    if (options_.counters != nullptr) options_.counters->bytes_read += page.length;
    return Bytes(replaced_);
  }

  // Moves each page to its first entry >= key. Returns the position in the tile.
  std::uint32_t lower_bound(Bytes key) {
    std::uint32_t sum = 0;
    if (count_ == 0) return 0;
    const TileInfo& info = index_.tiles[tile_];
    for (std::uint32_t p = 0; p < info.pages; ++p) {
      if (index_.pages[info.first_page + p].dropped()) continue;
      slots_[p].position = slots_[p].page.lower_bound(key);
      sum += slots_[p].position;
    }
    return sum;
  }

  void jump_to_end() {
    const TileInfo& info = index_.tiles[tile_];
    for (std::uint32_t p = 0; p < info.pages; ++p) slots_[p].position = index_.pages[info.first_page + p].entries;
    position_ = count_;
  }

  // Makes the entry at position_ the current one; if position_ is the tile's end, goes on to the next tile.
  void settle_forward() {
    valid_ = false;
    if (!status_.is_ok()) return;
    while (position_ >= count_) {
      if (tile_ >= last_tile_) return;
      if (!load_tile(tile_ + 1)) return;
    }
    show();
    if (valid_ && tile_ == last_tile_ && past_end(entry_.key)) valid_ = false;
  }

  // Makes the entry before position_ the current one; if position_ is the tile's begin, goes on to the previous tile.
  void settle_backward() {
    valid_ = false;
    if (!status_.is_ok()) return;
    while (position_ == 0) {
      if (tile_ <= first_tile_) return;
      if (!load_tile(tile_ - 1)) return;
      jump_to_end();
    }
    --position_;
    Slot& slot = slots_[page_at(position_)];
    if (slot.position == 0) return disorder();
    --slot.position;
    show();
    if (valid_ && tile_ <= start_tile_ && entry_.key < Bytes(options_.bounds.start)) valid_ = false;
  }

  void show() {
    const Slot& slot = slots_[page_at(position_)];
    if (slot.position >= slot.page.count()) return disorder();
    slot.page.read(slot.position, reader_.get(), &key_, &entry_);
    valid_ = true;
  }

  void disorder() {
    const PageInfo& page = index_.pages[index_.tiles[tile_].first_page + page_at(position_)];
    (void)fail(r_.place(page).corruption("page and permutation of its tile disagree"));
  }

  static constexpr std::uint32_t kNoTile = 0xffffffffu;
  const std::shared_ptr<const TableReader> reader_;  // pins the index
  const TableReaderImpl& r_;
  const TableIndex& index_;
  const TableIteratorOptions options_;
  Readahead readahead_;
  std::uint32_t first_tile_ = 0, last_tile_ = 0;  // the first and the last tile that are read
  std::uint32_t start_tile_ = 0;                  // the last tile that can have keys below the lower bound
  const PointBounds* bounds_ = nullptr;           // bounds of points of each tile; null: no tile is skipped
  bool empty_ = false;                            // true if no key is within the bounds
  bool forward_ = true;

  // The current tile, if any, has entries [0, count_); the iterator is at position_.
  std::uint32_t tile_ = kNoTile, count_ = 0, position_ = 0;
  bool single_ = true;  // true if the tile has one page, and so no permutation
  std::vector<Slot> slots_;
  std::vector<std::uint8_t> order_;
  std::string key_;       // key of the current entry
  std::string replaced_;  // block of a replaced page, which lies in the metadata file
};

}  // namespace

std::unique_ptr<InternalIterator> new_table_iterator(std::shared_ptr<const TableReader> pinned, const TableReaderImpl& impl,
                                                     const TableIteratorOptions& options) {
  return std::make_unique<TableIterator>(std::move(pinned), impl, options);
}

}  // namespace ebbtide

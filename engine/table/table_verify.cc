// Reads a whole table and compares it with its metadata.
#include <algorithm>
#include <functional>
#include <vector>

#include "base/coding.h"
#include "table/table_reader_impl.h"

namespace ebbtide {
namespace {

class Verifier {
 public:
  Verifier(const TableReaderImpl& r, std::vector<Status>* errors) : r_(r), errors_(errors) {}

  bool run(std::uint64_t* pages, std::uint64_t* entries, const std::function<bool()>& stopped) {
    const auto pin = r_.pinned();
    if (!pin.is_ok()) return error(pin.status());
    index_ = &r_.held();
    auto loaded = r_.load_metadata();
    if (!loaded.is_ok()) return error(loaded.status());
    m_ = std::move(loaded).value();
    if (!(m_.stats == r_.stats)) error("properties differ from the manifest's");
    // Loads all slices, so that slices that the open table does not have in memory are checked, too.
    filter_ = LoadedFilter::load(m_, LoadedFilter::kMaxSlices);
    counted_.applied_seq = m_.stats.applied_seq;
    counted_.points_at = m_.stats.points_at;
    for (const RangeTombstone& t : m_.range_tombstones) counted_.add_range_tombstone(t);
    add_extent(0, data_header_bytes(m_.unit));
    for (std::size_t t = 0; t < m_.tiles.size(); ++t) {
      if (stopped && stopped()) return errors_->size() == before_;
      tile(t, pages, entries);
    }
    // Properties are not compared if a page was unreadable, since its entries were not counted.
    if (errors_->size() == before_ && !described()) error("properties do not match the entries");
    for (const FileExtent& hole : m_.holes) add_extent(hole.offset, hole.length);
    check_extents();
    return errors_->size() == before_;
  }

 private:
  bool error(const Status& status) {
    errors_->push_back(status);
    return false;
  }
  bool error(const std::string& what) { return error(Status::corruption(r_.metadata_path + ": " + what)); }
  bool error(const PageInfo& page, const std::string& what) { return error(r_.place(page).corruption(what)); }

  void add_extent(std::uint64_t offset, std::uint64_t length) { extents_.emplace_back(offset, length); }

  // Reads and decodes page `p`. Reports faults, and returns "" if the page is unusable.
  std::string read_page(std::size_t p) {
    const PageInfo& page = index_->pages[p];
    std::string block(page.length, '\0'), scratch;
    if (Status s = r_.file_of(page)->read(page.offset, block.size(), block.data()); !s.is_ok()) {
      error(s);
      return {};
    }
    auto checked = check_block(block, BlockKind::kPage, r_.place(page));
    if (checked.is_ok() && checked->checksum != m_.pages[p].checksum) error(page, "checksum differs from the page table's");
    auto decoded = r_.decode_page(page, block, &scratch);
    if (!decoded.is_ok()) {
      error(decoded.status());
      return {};
    }
    return std::string(*decoded);
  }

  void tile(std::size_t t, std::uint64_t* pages, std::uint64_t* entries) {
    const TileMeta& tile = m_.tiles[t];
    std::vector<std::string> bytes(tile.pages);
    std::vector<PageView> views(tile.pages);
    bool whole = true;
    for (std::uint32_t p = 0; p < tile.pages; ++p) {
      const std::size_t number = tile.first_page + p;
      add_extent(m_.pages[number].offset, m_.pages[number].length);
      if (m_.pages[number].dropped()) continue;
      bytes[p] = read_page(number);
      ++*pages;
      if (bytes[p].empty()) {
        whole = false;
        continue;
      }
      views[p] = PageView(bytes[p]);
      page(number, p, views[p]);
    }
    if (whole) order(t, views, entries);
  }

  // Checks a page: its tags, its column in the filter, and its row of the page table.
  void page(std::size_t number, std::uint32_t column, const PageView& view) {
    const PageInfo& info = index_->pages[number];
    PageMeta counted;
    std::string key;
    Entry entry;
    for (std::uint32_t i = 0; i < view.count(); ++i) {
      view.read(i, r_.lookup, &key, &entry);
      counted.add(entry);
      if (m_.stats.points_at != kNoPoints) counted.points.add(entry.key, m_.stats.points_at);
      const std::uint64_t hash = hash_key(key);
      if (view.tag(i) != page_tag(hash)) error(info, "an entry has the wrong tag");
      bool tombstones = false;
      const std::uint64_t mask = filter_->candidates(hash, &tombstones);
      if (!is_candidate(info, column, mask, tombstones)) error(info, "the filter denies a key of the page");
      if (is_collection(entry.kind) && !filter_->may_have_collection(hash))
        error(info, "the filter denies a collection of the page");
      if (entry.is_large()) large(info, entry);
    }
    PageMeta expected = m_.pages[number];
    counted.offset = expected.offset;
    counted.length = expected.length;
    counted.replaced_offset = expected.replaced_offset;
    counted.replaced_length = expected.replaced_length;
    counted.checksum = expected.checksum;
    counted.flags |= expected.flags & (kPageReplaced | kPageTombstones);
    counted_.points.add(counted.points);
    if (!(counted == expected)) error(info, "the page table does not match the page's entries");
  }

  void large(const PageInfo& page, const Entry& entry) {
    add_extent(entry.large.offset, entry.large.stored_bytes);
    if (const Status status = r_.large_file().verify(entry.large); !status.is_ok()) error(status);
    if (entry.kind == EntryKind::kTombstone) error(page, "a tombstone has a value");
  }

  // Checks the pages of a tile together, and the tile with its neighbours: order, separators, flags.
  void order(std::size_t t, const std::vector<PageView>& views, std::uint64_t* entries) {
    const TileMeta& tile = m_.tiles[t];
    std::vector<std::uint8_t> order;
    const std::uint64_t count = m_.tile_entries(t);
    const Bytes packed = tile.pages > 1 ? Bytes(index_->permutations).substr(index_->permutation_offsets[t]) : Bytes();
    unpack_permutation(packed, tile.pages, count, &order);
    std::vector<std::uint32_t> at(tile.pages, 0);
    const PageInfo& first = index_->pages[tile.first_page];
    bool unique = (tile.flags & kTileContinues) == 0, single = true;
    for (std::uint64_t i = 0; i < count; ++i) {
      Entry entry;
      views[order[i]].read(at[order[i]]++, r_.lookup, &key_, &entry);
      counted_.add_entry(entry);
      ++*entries;
      const bool same = any_ && entry.key == Bytes(last_key_);
      if (any_ && !version_before(last_key_, last_seq_, entry.key, entry.seq))
        error(first, "entries of the tile are out of order");
      if (i == 0 && same != ((tile.flags & kTileContinues) != 0))
        error(first, "the tile's flag for beginning with the last key of the tile before is wrong");
      if (entry.key < Bytes(m_.separators[t])) error(first, "a key lies before the tile's separator");
      if (t + 1 < m_.tiles.size() && entry.key >= Bytes(m_.separators[t + 1])) {
        if (entry.key != Bytes(m_.separators[t + 1]) || (m_.tiles[t + 1].flags & kTileContinues) == 0)
          error(first, "a key lies past the tile's end");
        unique = false;
      }
      single &= !same;
      if (!entry.key.starts_with(m_.key_prefix)) error(first, "a key lacks the table's prefix");
      last_key_.assign(entry.key);
      last_seq_ = entry.seq;
      any_ = true;
    }
    if (unique != ((tile.flags & kTileUniqueKeys) != 0)) error(first, "the tile's flag for unique keys is wrong");
    // After a page drop, a tile may have single versions without this flag.
    const bool says_single = (tile.flags & kTileSingleVersions) != 0;
    if (says_single ? !(unique && single) : unique && single && !m_.has_drops())
      error(first, "the tile's flag for single versions is wrong");
  }

  // Returns true if the properties match the entries. After a page drop, some properties need only be bounds (page_drop.h).
  [[nodiscard]] bool described() {
    if (!m_.has_drops()) return counted_ == m_.stats;
    const TableStats& stated = m_.stats;
    TableStats loose = counted_;
    if (loose.entries + loose.range_tombstones > 0) {
      if (Bytes(loose.smallest) < Bytes(stated.smallest) || loose.unbounded != stated.unbounded) return false;
      const bool ends_inside = loose.unbounded || (loose.largest_exclusive ? Bytes(loose.largest) <= Bytes(stated.largest)
                                                                           : !stated.ends_before(loose.largest));
      if (!ends_inside) return false;
    }
    if (loose.debts > stated.debts || loose.unstamped > stated.unstamped) return false;
    if (loose.collections > stated.collections || loose.headers > stated.headers) return false;
    if (loose.elements > stated.elements || loose.element_tombstones > stated.element_tombstones) return false;
    if (loose.oldest_debt != 0 && (stated.oldest_debt == 0 || stated.oldest_debt > loose.oldest_debt)) return false;
    loose.smallest = stated.smallest;
    loose.largest = stated.largest;
    loose.largest_exclusive = stated.largest_exclusive;
    loose.debts = stated.debts;
    loose.unstamped = stated.unstamped;
    loose.collections = stated.collections;
    loose.headers = stated.headers;
    loose.elements = stated.elements;
    loose.element_tombstones = stated.element_tombstones;
    loose.oldest_debt = stated.oldest_debt;
    loose.key_bytes = stated.key_bytes;
    loose.value_bytes = stated.value_bytes;
    return loose == stated;
  }

  // Checks that header, pages, large values and holes fill the data file. The blocks of large values are all known, since pages
  // that refer to large values are never dropped.
  void check_extents() {
    std::sort(extents_.begin(), extents_.end());
    std::uint64_t end = 0;
    for (const auto& [offset, length] : extents_) {
      if (offset != end) {
        error(Status::corruption(r_.data_path + ": " + (offset < end ? "blocks overlap at " : "no block has the bytes from ") +
                                 std::to_string(std::min(offset, end))));
      }
      end = offset + length;
    }
    if (end != r_.files.data_bytes)
      error(Status::corruption(r_.data_path + ": no block has the bytes from " + std::to_string(end)));
  }

  const TableReaderImpl& r_;
  const TableIndex* index_ = nullptr;
  std::vector<Status>* errors_;
  const std::size_t before_ = errors_->size();
  TableMetadata m_;
  std::shared_ptr<const LoadedFilter> filter_;
  TableStats counted_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents_;
  bool any_ = false;
  std::string key_, last_key_;
  SeqNum last_seq_ = 0;
};

}  // namespace

bool verify_table(const TableReaderImpl& impl, std::vector<Status>* errors, std::uint64_t* pages, std::uint64_t* entries,
                  const std::function<bool()>& stopped) {
  return Verifier(impl, errors).run(pages, entries, stopped);
}

}  // namespace ebbtide

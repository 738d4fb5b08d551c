#include "table/page_drop.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/oldest.h"
#include "io/file_names.h"
#include "table/metadata.h"
#include "table/page.h"
#include "table/page_builder.h"

namespace ebbtide {
namespace {

/// The survivors of a page that was dropped in part.
struct Remains {
  std::vector<bool> stays;  // for each entry of the old page: true if it stays
  std::string payload;      // the page of the entries that stay; empty if no entry stays
  PageMeta meta;            // offsets and lengths are not set yet
};

class Rebuild {
 public:
  Rebuild(const TableReader& table, const PageDropRequest& request, TableMetadata m)
      : table_(table), request_(request), m_(std::move(m)) {}

  Status run() {
    TRY(check());
    TRY(rebuild_pages());
    rebuild_tiles();
    rebuild_stats();
    m_.data_checksum = m_.sum_checksums();  // encode() replaces the checksums of replaced pages by new ones
    return Status::ok();
  }

  [[nodiscard]] TableMetadata& metadata() { return m_; }
  [[nodiscard]] PageDropOutcome& outcome() { return outcome_; }

  /// Returns the payload of page `p` of metadata() after run(). Reads it, unless the metadata file will have it.
  Result<std::string> read_page(std::uint32_t p) {
    if (m_.pages[p].replaced()) {
      const auto at = std::partition_point(m_.replaced.begin(), m_.replaced.end(), [p](const auto& r) { return r.first < p; });
      return at->second;
    }
    return table_.read_page(numbers_before_[p], &outcome_.reads);
  }

 private:
  Status check() const {
    std::set<std::uint32_t> named;
    for (const auto* list : {&request_.whole, &request_.parts}) {
      for (const std::uint32_t p : *list) {
        if (p >= m_.pages.size() || m_.pages[p].dropped() || (m_.pages[p].flags & kPageHasLarge) != 0 ||
            !named.insert(p).second) {
          return Status::invalid_argument(
              data_file_name(m_.data_file) + ": page " + std::to_string(p) +
              " cannot be dropped: it does not exist, was dropped, has large values or is named twice");
        }
      }
    }
    return Status::ok();
  }

  static void clear(PageMeta* page) {
    PageMeta gone;
    gone.offset = page->offset;
    gone.length = page->length;
    gone.flags = (page->flags & kPageTombstones) | kPageDropped;
    *page = gone;
  }

  /// Updates the page list: flags dropped pages, and collects the payloads of all replaced pages, also of pages that an earlier
  /// drop had replaced.
  Status rebuild_pages() {
    const std::vector<PageMeta> before = m_.pages;
    for (const std::uint32_t p : request_.whole) {
      outcome_.entries_gone += m_.pages[p].entries;
      ++outcome_.pages_whole;
      clear(&m_.pages[p]);
    }
    remains_.resize(m_.pages.size());
    for (const std::uint32_t p : request_.parts) TRY(take_part(p));
    for (std::uint32_t p = 0; p < m_.pages.size(); ++p) {
      if (!m_.pages[p].replaced() || !remains_[p].payload.empty()) continue;
      TRY_ASSIGN(payload, table_.read_page(p, nullptr));
      remains_[p].payload = std::move(payload);
    }
    changed_.resize(m_.tiles.size());
    for (std::size_t t = 0; t < m_.tiles.size(); ++t) {
      for (std::uint32_t p = m_.tiles[t].first_page; p < m_.tiles[t].first_page + m_.tiles[t].pages; ++p) {
        if (m_.pages[p] == before[p]) continue;
        changed_[t] = true;
      }
    }
    old_pages_ = before;
    return Status::ok();
  }

  Status take_part(std::uint32_t p) {
    TRY_ASSIGN(bytes, table_.read_page(p, &outcome_.reads));
    const PageFence fence = table_.page_fence(p);
    const PageView view(bytes);
    PageMeta& page = m_.pages[p];
    Remains& left = remains_[p];
    std::vector<std::string> keys(view.count());
    std::vector<PendingEntry> entries;
    std::vector<std::uint32_t> indexes;
    std::uint64_t changed = 0;
    left.stays.assign(view.count(), false);
    for (std::uint32_t i = 0; i < view.count(); ++i) {
      Entry entry;
      view.read(i, &table_, &keys[i], &entry);
      const EntryVerdict verdict = entry.is_tombstone() ? EntryVerdict{} : request_.judge(fence, entry);
      changed += verdict.fate == EntryFate::kStays ? 0 : 1;
      if (verdict.fate == EntryFate::kGoes) continue;
      if (verdict.fate == EntryFate::kBecomesTombstone) make_tombstone(verdict.birth, &entry);
      left.stays[i] = true;
      left.meta.add(entry);
      if (m_.stats.points_at != kNoPoints) left.meta.points.add(entry.key, m_.stats.points_at);
      indexes.push_back(static_cast<std::uint32_t>(entries.size()));
      entries.push_back({entry, hash_key(entry.key)});
    }
    outcome_.entries_gone += changed;
    if (changed == 0) {
      left = {};
      return Status::ok();
    }
    if (entries.empty()) {
      ++outcome_.pages_whole;
      clear(&page);
      return Status::ok();
    }
    ++outcome_.pages_in_part;
    build_page(entries, indexes, &left.payload);
    left.meta.offset = page.offset;
    left.meta.length = page.length;
    left.meta.flags |= (page.flags & kPageTombstones) | kPageReplaced;
    page = left.meta;
    return Status::ok();
  }

  void make_tombstone(Millis birth, Entry* entry) {
    ++new_tombstones_;
    oldest_new_ = older(oldest_new_, birth);
    entry->kind = EntryKind::kTombstone;
    entry->delete_key = birth;
    entry->expiry = 0;
    entry->value = {};
    if (entry->debt >= birth) entry->debt = 0;  // not needed: the tombstone's birth is as old as the debt, or older
  }

  /// For each entry of a tile in sort-key order, the number of its page.
  struct Order {
    std::vector<std::uint8_t> pages{};
    /// True if the tile's first, or last, entry was removed. An entry that became a tombstone was not removed: its key still
    /// exists.
    bool lost_first = false, lost_last = false;
  };
  /// Returns the order of the tile's entries after the drop.
  [[nodiscard]] Order order_of(std::size_t t, Bytes packed, std::uint64_t entries) const {
    const TileMeta& tile = m_.tiles[t];
    std::vector<std::uint8_t> before;
    unpack_permutation(packed, tile.pages, entries, &before);
    std::vector<std::uint32_t> at(tile.pages, 0);
    Order after;
    for (std::size_t e = 0; e < before.size(); ++e) {
      const std::uint32_t page = tile.first_page + before[e], i = at[before[e]]++;
      const std::vector<bool>& stays = remains_[page].stays;
      const bool gone = m_.pages[page].dropped() || (!stays.empty() && !stays[i]);
      if (!gone) after.pages.push_back(before[e]);
      if (e == 0) after.lost_first = gone;
      after.lost_last = gone;
    }
    return after;
  }

  /// Removes tiles without entries, renumbers pages, and removes dropped entries from permutations.
  void rebuild_tiles() {
    TableMetadata old;
    old.pages.swap(m_.pages);
    old.tiles = m_.tiles;
    old.separators.swap(m_.separators);
    old.permutations.swap(m_.permutations);
    m_.pages = old.pages;  // until the loop ends, order_of() and tile_entries() read the old pages here
    TableMetadata out;
    Bytes permutations = old.permutations;
    for (std::size_t t = 0; t < old.tiles.size(); ++t) {
      const std::uint64_t entries = entries_before(old.tiles[t]);
      const Bytes packed = permutations.substr(0, permutation_bytes(old.tiles[t].pages, entries));
      permutations.remove_prefix(packed.size());
      if (m_.tile_entries(t) == 0) {
        remove_tile(t, old, out.tiles.empty());
      } else {
        keep_tile(t, old, packed, entries, &out);
      }
    }
    outcome_.names_may_linger |= last_lost_;
    m_.pages = std::move(out.pages);
    m_.tiles = std::move(out.tiles);
    m_.separators = std::move(out.separators);
    m_.permutations = std::move(out.permutations);
    if (!m_.separators.empty()) m_.separators.front().clear();
    m_.holes = join_extents(std::move(m_.holes));
  }

  [[nodiscard]] std::uint64_t entries_before(const TileMeta& tile) const {
    std::uint64_t entries = 0;
    for (std::uint32_t p = 0; p < tile.pages; ++p) entries += old_pages_[tile.first_page + p].entries;
    return entries;
  }

  /// Removes a tile, so that its pages become holes. Stores the separator at its begin or end, which may become a bound of the
  /// table.
  void remove_tile(std::size_t t, const TableMetadata& old, bool at_the_front) {
    const TileMeta& tile = old.tiles[t];
    for (std::uint32_t p = 0; p < tile.pages; ++p) {
      const PageMeta& page = old.pages[tile.first_page + p];
      m_.holes.push_back({page.offset, page.length});
    }
    if (at_the_front) first_separator_ = t + 1 < old.tiles.size() ? old.separators[t + 1] : "";
    if (end_separator_.empty()) end_separator_ = old.separators[t];
  }

  /// Copies a tile that still has entries to `out`. `packed` is the tile's permutation, of `entries` entries, before the drop.
  void keep_tile(std::size_t t, const TableMetadata& old, Bytes packed, std::uint64_t entries, TableMetadata* out) {
    TileMeta tile = old.tiles[t];
    last_lost_ = false;
    end_separator_.clear();
    if (changed_[t]) {
      const Order order = order_of(t, packed, entries);
      append_permutation(tile.pages, order.pages, &out->permutations);
      if (order.lost_first) tile.flags |= kTileStale;
      last_lost_ = order.lost_last;
    } else {
      out->permutations.append(packed);
    }
    outcome_.names_may_linger |= (tile.flags & kTileStale) != 0;
    tile.first_page = static_cast<std::uint32_t>(out->pages.size());
    const std::uint32_t first = old.tiles[t].first_page;
    for (std::uint32_t p = first; p < first + tile.pages; ++p) {
      if (old.pages[p].replaced()) m_.replaced.emplace_back(out->pages.size(), std::move(remains_[p].payload));
      out->pages.push_back(old.pages[p]);
      numbers_before_.push_back(p);
    }
    out->separators.push_back(old.separators[t]);
    out->tiles.push_back(tile);
  }

  void rebuild_stats() {
    const TableStats old = m_.stats;
    TableStats s;
    for (const RangeTombstone& t : m_.range_tombstones) s.add_range_tombstone(t);
    const TableStats ranges = s;
    bool debts = false, unstamped = false;
    s.applied_seq = std::max(old.applied_seq, request_.applied_seq ? request_.applied_seq() : 0);
    for (const PageMeta& page : m_.pages) {
      if (page.entries == 0) continue;
      s.entries += page.entries;
      s.points.add(page.points);
      s.min_seq = std::min(s.min_seq, page.min_seq);
      s.max_seq = std::max(s.max_seq, page.max_seq);
      s.min_delete_key = std::min(s.min_delete_key, page.min_delete_key);
      s.max_delete_key = std::max(s.max_delete_key, page.max_delete_key);
      if (page.max_expiry != 0) {
        s.min_expiry = older(s.min_expiry, page.min_expiry);
        s.max_expiry = std::max(s.max_expiry, page.max_expiry);
      }
      debts |= (page.flags & kPageHasDebts) != 0;
      unstamped |= (page.flags & kPageHasUnstamped) != 0;
    }
    s.tombstones = old.tombstones + new_tombstones_;
    s.oldest_tombstone = older(old.oldest_tombstone, oldest_new_);
    s.large_values = old.large_values;
    s.points_at = old.points_at;
    if (s.entries != 0) {
      s.collections = old.collections;
      s.headers = old.headers;
      s.elements = std::min(old.elements, s.entries);
    }
    s.element_tombstones = old.element_tombstones;
    if (debts) s.debts = old.debts, s.oldest_debt = old.oldest_debt;
    if (unstamped) s.unstamped = old.unstamped;
    if (old.entries != 0) {
      s.key_bytes = static_cast<std::uint64_t>(static_cast<double>(old.key_bytes) * share(s, old));
      s.value_bytes = static_cast<std::uint64_t>(static_cast<double>(old.value_bytes) * share(s, old));
    }
    if (s.entries != 0) set_bounds(old, ranges, &s);
    m_.stats = std::move(s);
  }

  static double share(const TableStats& now, const TableStats& before) {
    return static_cast<double>(now.entries) / static_cast<double>(before.entries);
  }

  /// Sets the table's bounds for the remaining entries. If tiles at an end of the table were removed, a separator becomes the
  /// bound at that end. The bounds are never wider than before.
  void set_bounds(const TableStats& old, const TableStats& ranges, TableStats* s) {
    s->smallest = first_separator_.empty() ? old.smallest : first_separator_;
    s->unbounded = old.unbounded;
    s->largest = old.largest;
    s->largest_exclusive = old.largest_exclusive;
    if (!end_separator_.empty() && !ranges.unbounded) {
      s->unbounded = false;
      s->largest = end_separator_;
      s->largest_exclusive = true;
      outcome_.names_may_linger = true;  // the separator may be a key of a removed tile
    }
    if (ranges.range_tombstones == 0) return;
    s->smallest = std::min(s->smallest, ranges.smallest);
    if (!ranges.unbounded && !s->unbounded && s->largest_exclusive && ranges.largest > s->largest) s->largest = ranges.largest;
  }

  const TableReader& table_;
  const PageDropRequest& request_;
  TableMetadata m_;
  PageDropOutcome outcome_;
  std::vector<PageMeta> old_pages_;
  std::vector<std::uint32_t> numbers_before_;  // for each remaining page, the number that it had before the drop
  std::vector<Remains> remains_;               // survivors, by the number that the page had before the drop
  std::vector<bool> changed_;                  // for each tile, by its number before the drop: true if it changed
  bool last_lost_ = false;                     // true if the last entry of the last remaining tile was removed
  std::string first_separator_;                // separator of the first remaining tile, if a tile before it was removed
  std::string end_separator_;                  // separator of the first removed tile after the last remaining one
  std::uint64_t new_tombstones_ = 0;
  Millis oldest_new_ = 0;
};

/// Replaces keys of dropped entries, in separators and bounds of `m`, by keys that exist. After an error `m` is still valid, and
/// every tile whose separator was not replaced is still stale.
class Renewal {
 public:
  /// Returns the payload of a page of the metadata.
  using ReadPage = std::function<Result<std::string>(std::uint32_t page)>;

  Renewal(const TableReader& table, ReadPage read_page, TableMetadata* m)
      : table_(table), read_page_(std::move(read_page)), m_(*m) {}

  Status run() {
    std::size_t at = 0;
    for (std::size_t t = 0; t < m_.tiles.size(); ++t) {
      const Bytes packed = Bytes(m_.permutations).substr(at);
      at += permutation_bytes(m_.tiles[t].pages, m_.tile_entries(t));
      if ((m_.tiles[t].flags & kTileStale) != 0) TRY(renew_separator(t, packed));
      if (t + 1 == m_.tiles.size()) TRY(renew_end(t, packed));
    }
    return Status::ok();
  }

 private:
  /// Returns the smallest key of tile `t`, or the largest key if `last` is true. Reads the page that has it.
  Result<std::string> key_at_end(std::size_t t, Bytes packed, bool last) {
    const TileMeta& tile = m_.tiles[t];
    std::vector<std::uint8_t> order;
    unpack_permutation(packed, tile.pages, m_.tile_entries(t), &order);
    TRY_ASSIGN(bytes, read_page_(tile.first_page + (last ? order.back() : order.front())));
    const PageView view(bytes);
    std::string key;
    Entry entry;
    view.read(last ? view.count() - 1 : 0, &table_, &key, &entry);
    return key;
  }
  /// Sets the tile's separator to the shortest prefix of the tile's first key that is not less than the old separator. So keys
  /// before the old separator are also before the new separator.
  Status renew_separator(std::size_t t, Bytes packed) {
    TRY_ASSIGN(key, key_at_end(t, packed, false));
    m_.tiles[t].flags &= static_cast<std::uint8_t>(~kTileStale);
    if (t == 0) {
      m_.stats.smallest = std::move(key);
      return Status::ok();
    }
    std::size_t length = 0;
    while (length < key.size() && Bytes(key).substr(0, length) < Bytes(m_.separators[t])) ++length;
    m_.separators[t] = key.substr(0, length);
    return Status::ok();
  }
  Status renew_end(std::size_t t, Bytes packed) {
    TRY_ASSIGN(key, key_at_end(t, packed, true));
    m_.stats.largest = std::move(key);
    m_.stats.largest_exclusive = false;
    return Status::ok();
  }

  const TableReader& table_;
  const ReadPage read_page_;
  TableMetadata& m_;
};

/// Writes the file; unlinks it if writing fails.
Status write_metadata(FileSystem& fs, const std::string& path, Bytes bytes) {
  TRY_ASSIGN(file, fs.create(path));
  Status status = file->append(bytes);
  if (status.is_ok()) status = file->sync();
  if (status.is_ok()) status = file->close();
  if (!status.is_ok()) (void)fs.unlink(path);  // if the unlink fails too, the next open of the database removes the file
  return status;
}

/// Encodes and writes the changed metadata, and opens the table with it. Does not read the file back.
Status finish(const TableReader& table, TableMetadata* m, FileSystem& fs, const std::string& dir, FileNum metadata_file,
              PageDropOutcome* out) {
  out->built.data_file = m->data_file;
  out->built.data_bytes = m->data_bytes;
  out->built.data_checksum = m->data_checksum;
  out->built.stats = m->stats;
  for (const FileExtent& extent : m->dead_extents()) out->built.dead_bytes += extent.length;
  out->nothing_left = m->stats.entries == 0 && m->stats.range_tombstones == 0;
  if (out->nothing_left) return Status::ok();
  out->built.metadata_file = metadata_file;
  const std::string bytes = m->encode(metadata_file, &out->built.metadata_checksum);
  out->built.metadata_bytes = bytes.size();
  const std::string path = join_path(dir, metadata_file_name(metadata_file));
  TRY(write_metadata(fs, path, bytes));
  const BuiltTable& built = out->built;
  auto opened = table.redescribed(
      {built.data_file, metadata_file, built.data_bytes, built.metadata_bytes, built.data_checksum, built.metadata_checksum},
      bytes);
  if (!opened.is_ok()) {
    (void)fs.unlink(path);
    return opened.status();
  }
  out->table = std::move(opened).value();
  return Status::ok();
}

}  // namespace

Result<PageDropOutcome> renew_names(const TableReader& table, FileSystem& fs, const std::string& dir, FileNum metadata_file) {
  TRY_ASSIGN(m, table.load_metadata());
  if (!m.names_can_be_renewed())
    return Status::invalid_argument(data_file_name(m.data_file) +
                                    ": separators and bounds cannot be renewed without rewriting the table");
  PageDropOutcome out;
  TRY(Renewal(
          table, [&](std::uint32_t p) { return table.read_page(p, &out.reads); }, &m)
          .run());
  // The new metadata file gets copies of the payloads of replaced pages.
  for (std::uint32_t p = 0; p < m.pages.size(); ++p) {
    if (!m.pages[p].replaced()) continue;
    TRY_ASSIGN(payload, table.read_page(p, nullptr));
    m.replaced.emplace_back(p, std::move(payload));
  }
  out.names_renewed = true;
  TRY(finish(table, &m, fs, dir, metadata_file, &out));
  return out;
}

Result<PageDropOutcome> drop_pages(const TableReader& table, const PageDropRequest& request, FileSystem& fs,
                                   const std::string& dir, FileNum metadata_file) {
  TRY_ASSIGN(loaded, table.load_metadata());
  Rebuild rebuild(table, request, std::move(loaded));
  TRY(rebuild.run());
  TableMetadata& m = rebuild.metadata();
  PageDropOutcome& done = rebuild.outcome();
  if (done.entries_gone == 0) return std::move(done);
  if (request.renew_names && done.names_may_linger && m.names_can_be_renewed()) {
    // An unreadable page must not prevent the drop: the pages are dropped, and renew_names() will report the error later.
    done.names_renewed = Renewal(
                             table, [&](std::uint32_t p) { return rebuild.read_page(p); }, &m)
                             .run()
                             .is_ok();
    done.names_may_linger = !done.names_renewed;
  }
  TRY(finish(table, &m, fs, dir, metadata_file, &done));
  return std::move(done);
}

}  // namespace ebbtide

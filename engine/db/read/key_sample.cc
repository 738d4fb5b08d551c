// A key exists if one of its versions, in any run or memtable, is current: the newest version of the key, and neither deleted nor
// expired. So the number of keys is the number of current entries, summed over the sources. Each run contributes tiles to the
// sample in proportion to its entries, one tile from each of equal parts of the run. Every entry of these tiles is looked up from
// the newest source on. The share of current entries, times the run's entries, is the estimate for the run. All entries of the
// memtables are looked up, without I/O. If the estimate is 0, an iterator checks whether there is a first key.
//
// Elements of large collections are no keys, and each table stores how many it has. So they are left out of both counts of the
// share: a collection of ten million elements does not make the estimate of the other keys worse.
//
// The estimate does not depend on how the keys of runs are distributed relative to each other. Counting keys in ranges cut by the
// largest run would depend on that: newer keys may all lie in one gap of the largest run. A sample may then miss this gap, or
// have it and give it too much weight. If no entry was overwritten or deleted, every entry is current and the sum is exact.
// Otherwise the error is that of a proportion in a sample. The error is estimated from the differences of neighbours in the
// sample, and the sample grows until the error is small.
#include "db/read/key_sample.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/invariant.h"
#include "db/read/db_iterator.h"
#include "db/read/lookup.h"
#include "db/read/view_parts.h"

namespace ebbtide {
namespace {

/// Size of the first sample: kFirstEntries entries, and at least kFirstTiles tiles. Each further sample is four times as large.
constexpr std::uint64_t kFirstEntries = 20'000, kFirstTiles = 400;
/// Smallest number of tiles from one run.
constexpr std::uint64_t kMinTiles = 8;
/// Sampling ends when the standard error is at most kEnough of the number of keys (2 % is four standard errors), or before the
/// sample exceeds kMaxEntries entries.
constexpr double kEnough = 0.005;
constexpr std::uint64_t kMaxEntries = 1'000'000;

std::uint64_t mixed(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Assumed bytes of a tile in a run of which no table was ever read.
constexpr std::uint64_t kUnknownTileBytes = 4096;

/// The size of a run, for sampling. The number of tiles of a table that was never read is estimated from its bytes, since reading
/// the indexes of all tables would take far longer than the sample. The estimate only influences which tiles are sampled.
struct RunSize {
  std::uint64_t entries = 0, tiles = 0;
  std::uint64_t main_entries = 0;       ///< number of entries, not counting elements of large collections
  std::vector<std::uint64_t> tiles_of;  ///< number of tiles of each table
};

RunSize size_of(const RunView& run) {
  RunSize size;
  std::uint64_t known_bytes = 0, known_tiles = 0;
  for (const OpenTablePtr& table : run.tables()) {
    if (table->reader->pages_per_tile() == 0) continue;
    known_bytes += table->meta->data_bytes;
    known_tiles += table->reader->tile_count();
  }
  const std::uint64_t tile_bytes = known_tiles == 0 ? kUnknownTileBytes : std::max<std::uint64_t>(1, known_bytes / known_tiles);
  size.tiles_of.reserve(run.tables().size());
  for (const OpenTablePtr& table : run.tables()) {
    std::uint64_t tiles = table->reader->tile_count();
    if (table->reader->pages_per_tile() == 0 && table->reader->unreadable().is_ok() && table->meta->stats.entries != 0)
      tiles = std::max<std::uint64_t>(1, table->meta->data_bytes / tile_bytes);
    const TableStats& stats = table->meta->stats;
    size.entries += stats.entries;
    size.main_entries += stats.entries - std::min(stats.entries, stats.elements);
    size.tiles += tiles;
    size.tiles_of.push_back(tiles);
  }
  return size;
}

std::uint64_t entries_in(const TableInspector& table, std::uint32_t tile) {
  const std::uint32_t pages = table.page_count();
  // Pages are numbered tile by tile, so bisection finds the first page of the tile.
  std::uint32_t low = 0, high = pages;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    table.page_fence(middle).tile < tile ? low = middle + 1 : high = middle;
  }
  std::uint64_t sum = 0;
  for (; low < pages; ++low) {
    const PageFence fence = table.page_fence(low);
    if (fence.tile != tile) break;
    sum += fence.entries;
  }
  return sum;
}

struct Estimate {
  double keys = 0, variance = 0;
};

/// Counts for one tile: its entries, and those of them that a reader of the view sees. Elements of large collections are not
/// counted.
struct Sampled {
  std::uint64_t entries = 0, current = 0;
};

/// Estimates the keys of a run of `size`. `sampled`: tiles from equal parts of the run, in key order. This is the ratio estimator
/// of Cochran, Sampling Techniques, 6.3. The variance is computed from differences of neighbours, as for a systematic sample
/// (8.6): so a trend along the keys does not count as an error.
Estimate estimated(const std::vector<Sampled>& sampled, const RunSize& size) {
  double entries = 0, current = 0, squares = 0;
  for (const Sampled& s : sampled) {
    entries += static_cast<double>(s.entries);
    current += static_cast<double>(s.current);
  }
  const auto all = static_cast<double>(size.main_entries);
  if (entries == 0) return {all, all * all};  // the sample has only elements: it says nothing about the keys
  const double part = current / entries, scale = all / entries;
  const auto residual = [part](const Sampled& s) {
    return static_cast<double>(s.current) - part * static_cast<double>(s.entries);
  };
  for (std::size_t i = 1; i < sampled.size(); ++i) squares += std::pow(residual(sampled[i]) - residual(sampled[i - 1]), 2) / 2;
  const double unseen = 1 - static_cast<double>(sampled.size()) / static_cast<double>(size.tiles);
  return {part * all, scale * scale * squares * unseen};
}

/// One estimate for one view. The view must outlive it.
class KeySampler {
 public:
  KeySampler(const ReadView& view, std::uint64_t seed)
      : epoch_(ViewParts::env(view).epoch), view_(view), tree_(*ViewParts::tree(view)), random_(seed) {}

  Result<std::uint64_t> in_memtables() {
    std::uint64_t keys = 0;
    for (const auto& memtable : tree_.memtables) {
      const auto walk = memtable->new_iterator();
      walk->seek_to_first();
      while (walk->valid()) {
        TRY(may_go_on());
        EpochGuard guard(epoch_);
        for (std::uint64_t i = 0; i < kEntriesPerGuard && walk->valid(); ++i, walk->next()) {
          TRY_ASSIGN(current, is_current(walk->entry()));
          keys += current ? 1 : 0;
        }
      }
      TRY(walk->status());
    }
    return keys;
  }

  Result<Estimate> in_run(const RunView& run, const RunSize& size, std::uint64_t tiles) {
    tiles = std::min(std::max(tiles, kMinTiles), size.tiles);
    std::vector<Sampled> sampled;
    std::uint64_t before = 0;  // tiles of the tables before `table`
    std::size_t table = 0;
    for (std::uint64_t i = 0; i < tiles; ++i) {
      const std::uint64_t low = i * size.tiles / tiles, high = (i + 1) * size.tiles / tiles;
      const std::uint64_t tile = low + mixed(random_) % (high - low);
      while (tile - before >= size.tiles_of[table]) before += size.tiles_of[table++];
      TRY_ASSIGN(seen, in_tile(run.reader(table), tile - before, size.tiles_of[table]));
      sampled.push_back(seen);
    }
    return estimated(sampled, size);
  }

 private:
  static constexpr std::uint64_t kEntriesPerGuard = 1000;

  /// Returns the counts for one tile: tile `place` of `count` tiles. If `count` is only an estimate of the table's tiles, `place`
  /// is scaled to their true number.
  Result<Sampled> in_tile(const TableReader& of, std::uint64_t place, std::uint64_t count) {
    TRY_ASSIGN(pinned, of.pinned());
    const TableReader& table = *pinned;
    if (table.tile_count() == 0) return Sampled{};
    const auto tile = static_cast<std::uint32_t>(place * table.tile_count() / count);
    Sampled seen{entries_in(table, tile), 0};
    TRY(may_go_on());
    EpochGuard guard(epoch_);
    TableIteratorOptions options;
    options.bounds.start = table.tile_start(tile);
    if (tile + 1 < table.tile_count()) options.bounds.end = table.tile_start(tile + 1);
    const auto walk = table.new_iterator(options);
    for (walk->seek(options.bounds.start); walk->valid() && options.bounds.contains(walk->entry().key); walk->next()) {
      if (walk->entry().element) {
        seen.entries -= std::min<std::uint64_t>(seen.entries, 1);
        continue;
      }
      TRY_ASSIGN(current, is_current(walk->entry()));
      seen.current += current ? 1 : 0;
    }
    TRY(walk->status());
    return seen;
  }

  [[nodiscard]] Status may_go_on() const { return ViewParts::is_revoked(view_) ? revoked_view() : Status::ok(); }

  /// True if a reader of the view gets exactly this entry for its key. False for elements of collections.
  Result<bool> is_current(const Entry& entry) {
    if (entry.is_tombstone() || entry.element || entry.seq > view_.seq() || entry.expired(view_.now())) return false;
    Found found;
    const Status status = find_entry(view_, {entry.key, hash_key(entry.key)}, &found, &reads_);
    if (status.is_not_found()) return false;
    TRY(status);
    return found.seq == entry.seq;
  }

  Epoch& epoch_;
  const ReadView& view_;
  const TreeView& tree_;
  std::uint64_t random_;
  ReadCounters reads_;  // not added to the counters, since these lookups are not part of the workload
};

/// True if the view has a key. A sample without a current entry cannot decide this: of millions of entries, one may be current.
Result<bool> has_key(const ReadView& view) {
  IteratorOptions options;
  options.max_steps = 10'000;  // after so many steps the iterator pauses, and checks whether its lease was revoked
  const auto walk = new_db_iterator(ViewParts::lease(view), view.now(), options, RangeTally{}, ViewParts::env(view).values);
  for (walk->seek_to_first(); walk->paused();) walk->seek(std::string(walk->resume_key()));
  TRY(walk->status());
  return walk->valid();
}

}  // namespace

Result<std::uint64_t> sample_keys(const ReadView& view, std::uint64_t seed) {
  ASSERT_MSG(ViewParts::lease(view) != nullptr, "a sample may read for a long time, so it needs a leased view");
  const std::vector<RunView>& runs = ViewParts::tree(view)->tables->runs;
  std::vector<RunSize> sizes;
  RunSize all;
  for (const RunView& run : runs) {
    const RunSize& size = sizes.emplace_back(size_of(run));
    all.entries += size.entries;
    all.main_entries += size.main_entries;
    all.tiles += size.tiles;
  }
  KeySampler sampler(view, seed);
  TRY_ASSIGN(in_memory, sampler.in_memtables());
  if (all.main_entries == 0) return in_memory;
  const double tiles_per_entry = static_cast<double>(all.tiles) / static_cast<double>(all.entries);
  for (double entries = std::max<double>(kFirstEntries, kFirstTiles / tiles_per_entry);; entries *= 4) {
    Estimate sum{static_cast<double>(in_memory), 0};
    for (std::size_t r = 0; r < runs.size(); ++r) {
      if (sizes[r].main_entries == 0) continue;
      const double share = static_cast<double>(sizes[r].entries) / static_cast<double>(all.entries);
      TRY_ASSIGN(part, sampler.in_run(runs[r], sizes[r], static_cast<std::uint64_t>(entries * tiles_per_entry * share)));
      sum = {sum.keys + part.keys, sum.variance + part.variance};
    }
    if (std::sqrt(sum.variance) <= kEnough * sum.keys || entries * 4 > kMaxEntries) {
      const auto keys = static_cast<std::uint64_t>(sum.keys + 0.5);
      if (keys != 0) return keys;
      TRY_ASSIGN(any, has_key(view));
      return std::uint64_t{any ? 1U : 0U};
    }
  }
}

}  // namespace ebbtide

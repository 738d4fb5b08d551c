// How many keys a large database has, from a sample of it: what DBSIZE answers where a walk over everything would take too long.
//
// The tiles of the largest run cut the whole key space into ranges, of which the fences know how many entries that run has in
// them. A few hundred ranges, chosen at random, are merged as an iterator would, so that every version, tombstone and expiry
// counts as it should. What they have of visible keys for each entry of the run, times the run's entries, is the estimate: the
// other runs and the memtables come in with the keys they have in those ranges. The two ends, before the run's first key and
// after its last, where all of an ascending load may lie, are counted by themselves.
#include <engine/db.h>

#include <algorithm>

#include "db/db_impl.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kSampledRanges = 400;
/// Keys of one range, or of one end, that are counted one by one.
constexpr std::uint64_t kMaxRangeKeys = 20'000, kMaxEndKeys = 300'000;

std::uint64_t mixed(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint64_t entries_of(const RunView& run) {
  std::uint64_t sum = 0;
  for (const OpenTablePtr& table : run.tables()) sum += table->meta->stats.entries;
  return sum;
}

/// A tile of the run, by its number among all tiles of all its tables.
struct Place {
  std::size_t table;
  std::uint32_t tile;
};

Place place_of(const RunView& run, std::uint64_t number) {
  std::size_t table = 0;
  while (number >= run.reader(table).tile_count()) number -= run.reader(table++).tile_count();
  return {table, static_cast<std::uint32_t>(number)};
}

std::string start_of(const RunView& run, const Place& place) {
  return place.tile == 0 ? run.tables()[place.table]->meta->stats.smallest : run.reader(place.table).tile_start(place.tile);
}

std::uint64_t entries_in(const TableReader& reader, std::uint32_t tile) {
  const std::uint32_t pages = reader.page_count();
  // Pages are numbered tile by tile: the first one of the tile by bisection.
  std::uint32_t low = 0, high = pages;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    reader.page_fence(middle).tile < tile ? low = middle + 1 : high = middle;
  }
  std::uint64_t sum = 0;
  for (; low < pages; ++low) {
    const PageFence fence = reader.page_fence(low);
    if (fence.tile != tile) break;
    sum += fence.entries;
  }
  return sum;
}

}  // namespace

Result<std::uint64_t> Db::sample_keys(DatabaseId database, std::uint64_t seed) const {
  const ReadView view = lease(database);
  if (!view.has_tree()) return std::uint64_t{0};
  const auto& runs = view.tree_->tables->runs;
  const auto largest = std::max_element(runs.begin(), runs.end(),
                                        [](const RunView& a, const RunView& b) { return entries_of(a) < entries_of(b); });
  const auto count = [&](const KeyRange& range, std::uint64_t limit) -> Result<std::uint64_t> {
    IteratorOptions options;
    options.bounds = range;
    options.keys_only = true;
    const auto walk = iterate(view, options);
    std::uint64_t keys = 0;
    for (walk->seek_to_first(); walk->valid() && keys < limit; walk->next()) ++keys;
    TRY(walk->status());
    return keys == limit ? std::max(keys, estimate_keys(database, range)) : keys;
  };
  if (largest == runs.end() || entries_of(*largest) == 0) return count(KeyRange{}, ~std::uint64_t{0});
  const RunView& run = *largest;
  std::uint64_t tiles = 0;
  for (std::size_t i = 0; i < run.tables().size(); ++i) tiles += run.reader(i).tile_count();
  std::uint64_t keys = 0, entries = 0, state = seed;
  for (std::uint64_t i = 0; i < std::min(kSampledRanges, tiles); ++i) {
    // One of each of as many equal parts, so that the whole key space has its share.
    const std::uint64_t low = i * tiles / std::min(kSampledRanges, tiles),
                        high = (i + 1) * tiles / std::min(kSampledRanges, tiles);
    const std::uint64_t number = low + mixed(state) % std::max<std::uint64_t>(high - low, 1);
    if (number + 1 >= tiles) continue;  // ends where the run does
    const Place place = place_of(run, number);
    TRY_ASSIGN(found, count({start_of(run, place), start_of(run, place_of(run, number + 1))}, kMaxRangeKeys));
    keys += found;
    entries += entries_in(run.reader(place.table), place.tile);
  }
  const std::string& first = run.tables().front()->meta->stats.smallest;
  const std::string& last = run.tables().back()->meta->stats.largest;
  TRY_ASSIGN(before, first.empty() ? std::uint64_t{0} : count({"", first}, kMaxEndKeys));
  TRY_ASSIGN(after, count({last, ""}, kMaxEndKeys));
  if (entries == 0) return estimate_keys(database, KeyRange{});
  const double share = static_cast<double>(keys) / static_cast<double>(entries);
  return before + after + static_cast<std::uint64_t>(share * static_cast<double>(entries_of(run)));
}

}  // namespace ebbtide

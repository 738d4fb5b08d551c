#include "table/table_index.h"

#include <algorithm>

namespace ebbtide {

TableIndex::TableIndex(TableMetadata* m) : h(m->pages_per_tile), renewable(m->names_can_be_renewed()), dead(m->dead_extents()) {
  dead.shrink_to_fit();
  pages.reserve(m->pages.size());
  for (const PageMeta& p : m->pages) {
    PageInfo page{};
    page.offset = p.replaced() ? p.replaced_offset : p.offset;
    page.flags = p.flags;
    page.length = p.replaced() ? p.replaced_length : p.length;
    page.entries = p.entries;
    pages.push_back(page);
    any_replaced |= p.replaced();
    if (p.replaced()) replaced_bytes += p.replaced_length;
  }
  tiles.reserve(m->tiles.size());
  points_at = m->stats.points_at;
  if (points_at != kNoPoints) points.reserve(m->tiles.size());
  std::uint64_t at = 0;
  for (std::size_t t = 0; t < m->tiles.size(); ++t) {
    tiles.push_back({m->tiles[t].first_page, m->tiles[t].pages, m->tiles[t].flags});
    any_continues |= (m->tiles[t].flags & kTileContinues) != 0;
    if (points_at != kNoPoints) {
      PointBounds& bounds = points.emplace_back();
      for (std::uint32_t p = 0; p < m->tiles[t].pages; ++p) bounds.add(m->pages[m->tiles[t].first_page + p].points);
    }
    if (h == 1) continue;
    permutation_offsets.push_back(at);
    at += permutation_bytes(m->tiles[t].pages, m->tile_entries(t));
  }
  fences.build(std::move(m->key_prefix), m->separators);
  permutations = std::move(m->permutations);
  take_ranges(*m);
  tombstones = std::make_shared<const FragmentedRangeTombstones>(std::span<const RangeTombstone>(m->range_tombstones));
  tombstone_bytes = tombstones->memory_bytes() + tombstones->key_bytes();
}

void TableIndex::take_ranges(const TableMetadata& m) {
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

std::uint64_t TableIndex::begin_of(std::uint32_t tile, std::uint64_t data_bytes) const {
  // The offset of a replaced page is in the metadata file. So the next page that was not replaced gives the tile's offset.
  for (std::uint32_t p = tile < tiles.size() ? tiles[tile].first_page : ~std::uint32_t{0}; p < pages.size(); ++p) {
    if (!pages[p].replaced()) return pages[p].offset;
  }
  return data_bytes;
}

std::uint32_t TableIndex::first_tile(Bytes key) const {
  std::uint32_t tile = fences.find(key);
  return any_continues ? first_of(tile, key) : tile;
}

std::uint32_t TableIndex::first_of(std::uint32_t tile, Bytes key) const {
  while (tile > 0 && (tiles[tile].flags & kTileContinues) != 0 && fences.separator(tile) == key) --tile;
  return tile;
}

void TableIndex::prefetch_tile(std::uint32_t tile) const {
  if (h == 1) {  // with h = 1, tile and page have the same number
    __builtin_prefetch(&pages[tile]);
  } else {
    __builtin_prefetch(&tiles[tile]);
  }
}

std::uint32_t TableIndex::first_candidate(const LookupState& state) const {
  if (h == 1) return is_candidate(pages[state.tile], 0, state.columns, state.tombstones) ? state.tile : LookupState::kNoPage;
  const TileInfo& tile = tiles[state.tile];
  for (std::uint32_t p = 0; p < tile.pages; ++p) {
    if (is_candidate(pages[tile.first_page + p], p, state.columns, state.tombstones)) return tile.first_page + p;
  }
  return LookupState::kNoPage;
}

std::uint64_t TableIndex::memory_bytes() const {
  return sizeof(*this) + fences.memory_bytes() + pages.capacity() * sizeof(PageInfo) + tiles.capacity() * sizeof(TileInfo) +
         delete_keys.memory_bytes() + expiries.memory_bytes() + seqs.memory_bytes() + permutations.capacity() +
         points.capacity() * sizeof(PointBounds) + permutation_offsets.capacity() * 8 + tombstone_bytes +
         dead.capacity() * sizeof(FileExtent);
}

}  // namespace ebbtide

// A lookup by stamp handles one stretch of the key space at a time. The next call continues from a key, independent of flushes
// and compactions in between. Each source (memtable, run) collects candidates from the start of the stretch: keys of which the
// source has a version with a stamp in the range. A source stops when it has enough candidates or has done enough work. A table
// reads only pages whose delete fences overlap the range. The stretch ends where the first source stopped: all candidates up to
// there are known.
//
// Then each candidate is looked up from the newest source on, filters first. A candidate counts if its current entry has a stamp
// in the range. Its page has just been read, so the last step of that lookup is cheap; each newer run mostly costs one filter
// check.
#include "db/read/stamp_scan.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/invariant.h"
#include "db/read/lookup.h"
#include "db/read/view_parts.h"

namespace ebbtide {
namespace {

/// So many entries of a memtable, or tiles whose fences alone are examined, count as much work as reading one page.
constexpr std::uint64_t kEntriesPerPage = 100, kTilesPerPage = 10'000;
/// The most entries of a memtable that an estimate examines. The others are assumed to have the same share of matches.
constexpr std::uint64_t kMaxWalked = 100'000;

struct StampRange {
  DeleteKey lo, hi;
  [[nodiscard]] bool has(DeleteKey d) const { return lo <= d && d < hi; }
  [[nodiscard]] bool meets(DeleteKey min, DeleteKey max) const { return min <= max && min < hi && lo <= max; }
};

/// The candidates that one source has collected.
struct Collected {
  std::vector<std::string> keys;
  std::optional<std::string> end;  ///< the key at which the source stopped; no value: the source has no more keys
};

class StampLookup {
 public:
  StampLookup(const TreeView& view, StampRange range, Bytes from, std::size_t max_keys, std::uint64_t max_pages)
      : view_(view), range_(range), from_(from), max_keys_(max_keys) {
    const std::uint64_t sources = view.memtables.size() + view.tables->runs.size();
    pages_each_ = std::max<std::uint64_t>(1, max_pages / sources);
  }

  /// Collects the candidates of the stretch, in order. Sets `*end` to the key where the stretch ends; no value: there are no
  /// more.
  Status collect(std::vector<std::string>* candidates, std::optional<std::string>* end) {
    for (const auto& memtable : view_.memtables) take(from_memtable(*memtable), candidates, end);
    for (const RunView& run : view_.tables->runs) {
      TRY_ASSIGN(collected, from_run(run));
      take(std::move(collected), candidates, end);
    }
    std::sort(candidates->begin(), candidates->end());
    candidates->erase(std::unique(candidates->begin(), candidates->end()), candidates->end());
    if (*end) candidates->erase(std::lower_bound(candidates->begin(), candidates->end(), **end), candidates->end());
    return Status::ok();
  }
  [[nodiscard]] const ReadCounters& reads() const { return reads_; }

 private:
  static void take(Collected collected, std::vector<std::string>* candidates, std::optional<std::string>* end) {
    std::move(collected.keys.begin(), collected.keys.end(), std::back_inserter(*candidates));
    if (collected.end && (!*end || *collected.end < **end)) *end = std::move(collected.end);
  }

  [[nodiscard]] Collected from_memtable(const MemTable& memtable) const {
    Collected out;
    const auto walk = memtable.new_iterator();
    std::uint64_t looked_at = 0;
    for (walk->seek(from_); walk->valid(); walk->next()) {
      const Entry& entry = walk->entry();
      const bool is_new_key = entry.key > Bytes(from_);
      if (is_new_key && (looked_at >= pages_each_ * kEntriesPerPage || out.keys.size() > max_keys_)) {
        out.end = std::string(entry.key);
        break;
      }
      ++looked_at;
      if (!entry.is_tombstone() && range_.has(entry.delete_key)) out.keys.emplace_back(entry.key);
    }
    return out;
  }

  Result<Collected> from_run(const RunView& run) {
    Collected out;
    std::uint64_t pages = 0, tiles = 0;
    const auto enough = [&] {
      return pages >= pages_each_ || tiles >= pages_each_ * kTilesPerPage || out.keys.size() > max_keys_;
    };
    for (std::size_t i = run.lower_bound(from_); i < run.tables().size(); ++i) {
      const TableStats& stats = run.tables()[i]->meta->stats;
      if (!range_.meets(stats.min_delete_key, stats.max_delete_key)) continue;
      if (run.is_unreadable(i)) return run.reader(i).unreadable();
      if (enough() && Bytes(stats.smallest) > Bytes(from_)) {
        out.end = stats.smallest;
        return out;
      }
      TRY_ASSIGN(pinned, run.reader(i).pinned());
      const TableReader& table = *pinned;
      if (table.tile_count() == 0) continue;
      for (std::uint32_t tile = table.first_tile(from_); tile < table.tile_count(); ++tile) {
        if (enough()) {
          std::string start = std::max(table.tile_start(tile), stats.smallest);
          if (start > from_) {
            out.end = std::move(start);
            return out;
          }
        }
        ++tiles;
        const std::uint64_t before = out.keys.size();
        TRY_ASSIGN(looked, table.collect_stamps(tile, range_.lo, range_.hi, from_, &out.keys, &reads_));
        if (looked) pages += 1;
        if (out.keys.size() - before > 1) forget_versions(&out.keys, before);
      }
    }
    return out;
  }

  /// Removes duplicates from index `first` on: a key counts once even if a tile has several versions of it.
  static void forget_versions(std::vector<std::string>* keys, std::uint64_t first) {
    const auto begin = keys->begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(begin, keys->end());
    keys->erase(std::unique(begin, keys->end()), keys->end());
  }

  const TreeView& view_;
  const StampRange range_;
  const std::string from_;
  const std::size_t max_keys_;
  std::uint64_t pages_each_ = 1;
  ReadCounters reads_;
};

/// Returns the fraction of [min, max] that lies in `range`.
double share_of(const StampRange& range, DeleteKey min, DeleteKey max) {
  const DeleteKey low = std::max(min, range.lo), high = std::min(max, range.hi - 1);
  if (low > high) return 0;
  return (static_cast<double>(high - low) + 1) / (static_cast<double>(max - min) + 1);
}

double estimate_memtable(const MemTable& memtable, const StampRange& range) {
  const auto walk = memtable.new_iterator();
  std::uint64_t walked = 0, found = 0;
  std::string last;
  bool any = false;
  for (walk->seek_to_first(); walk->valid() && walked < kMaxWalked; walk->next(), ++walked) {
    const Entry& entry = walk->entry();
    if (any && entry.key == Bytes(last)) continue;  // an older version of the last key
    any = true;
    last.assign(entry.key);
    if (!entry.is_tombstone() && range.has(entry.delete_key)) ++found;
  }
  if (walked == 0) return 0;
  return static_cast<double>(found) * static_cast<double>(std::max(memtable.entries(), walked)) / static_cast<double>(walked);
}

double estimate_table(const OpenTable& table, const StampRange& range, const std::vector<SharedRecords>& records,
                      SeqNum view_seq) {
  const TableStats& stats = table.meta->stats;
  if (!range.meets(stats.min_delete_key, stats.max_delete_key)) return 0;
  const auto loaded = table.reader->pinned_if_loaded();
  if (loaded == nullptr) return static_cast<double>(stats.entries) * share_of(range, stats.min_delete_key, stats.max_delete_key);
  double sum = 0;
  for (std::uint32_t p = 0; p < loaded->page_count(); ++p) {
    const PageFence fence = loaded->page_fence(p);
    if (!range.meets(fence.min_delete_key, fence.max_delete_key)) continue;
    const bool covered = std::any_of(records.begin(), records.end(), [&](const SharedRecords& set) {
      return set->covers_all(std::max(fence.min_delete_key, range.lo), std::min(fence.max_delete_key, range.hi - 1),
                             fence.max_seq, view_seq);
    });
    if (!covered) sum += fence.entries * share_of(range, fence.min_delete_key, fence.max_delete_key);
  }
  return sum;
}

}  // namespace

Result<StampedKeys> scan_stamps(const ReadView& lease, DeleteKey lo, DeleteKey hi, Bytes from, std::size_t max_keys,
                                std::uint64_t max_pages) {
  StampedKeys out;
  if (!lease.has_tree() || lo >= hi) return out;
  ASSERT_MSG(ViewParts::lease(lease) != nullptr, "a lookup by stamp may read for a long time, so it needs a leased view");
  const StampRange range{lo, hi};
  max_keys = std::max<std::size_t>(1, max_keys);
  ReadEnv& env = ViewParts::env(lease);
  EpochGuard guard(env.epoch);
  StampLookup lookup(*ViewParts::tree(lease), range, from, max_keys, max_pages);
  std::vector<std::string> candidates;
  std::optional<std::string> end;
  TRY(lookup.collect(&candidates, &end));
  out.pages_read = lookup.reads().pages_read;
  env.counters.mine().add(lookup.reads());
  for (std::string& key : candidates) {
    if (out.keys.size() == max_keys) {
      end = std::move(key);
      break;
    }
    Found found;
    const Status status = locate_entry(lease, {key, hash_key(key)}, &found);
    if (status.is_not_found()) continue;
    TRY(status);
    if (range.has(found.stamp)) out.keys.push_back({std::move(key), found.kind, found.stamp});
  }
  out.more = end.has_value();
  if (end) out.resume = std::move(*end);
  return out;
}

std::uint64_t estimate_stamps(const ReadView& view, DeleteKey lo, DeleteKey hi) {
  if (!view.has_tree() || lo >= hi) return 0;
  const StampRange range{lo, hi};
  const TreeView& tree = *ViewParts::tree(view);
  const std::vector<SharedRecords> records = tree.record_sets();
  double sum = 0;
  for (const auto& memtable : tree.memtables) sum += estimate_memtable(*memtable, range);
  for (const RunView& run : tree.tables->runs) {
    for (const OpenTablePtr& table : run.tables()) sum += estimate_table(*table, range, records, view.seq());
  }
  return static_cast<std::uint64_t>(sum + 0.5);
}

}  // namespace ebbtide

#include "compaction/merge_part.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/oldest.h"
#include "compaction/output_writer.h"
#include "iter/merging_iterator.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kAbortCheckEntries = 1024;

/// The range tombstones of all sources, clipped to the part, and the seqs of range tombstones that were cut at its ends.
struct Fragmented {
  FragmentedRangeTombstones all;
  std::set<SeqNum> cut_at_start, cut_at_end;
};

Fragmented fragment(const MergePart& part) {
  const KeyRange& range = part.tombstone_range ? *part.tombstone_range : part.range;
  const SharedKey start = range.start, end = range.end;
  std::vector<RangeTombstone> all;
  Fragmented out;
  for (const SharedTombstones& set : part.tombstones) {
    for (std::size_t i = 0; i < set->size(); ++i) {
      RangeTombstone t = set->tombstone(i);
      // Skips a tombstone that does not overlap the part: other parts merge it.
      if (ends_at_or_before(t.end, part.range.start) || ends_at_or_before(part.range.end, t.start)) continue;
      if (t.start < range.start) {
        out.cut_at_start.insert(t.seq);
        t.start = start;
      }
      if (end_before(range.end, t.end)) {
        out.cut_at_end.insert(t.seq);
        t.end = end;
      }
      all.push_back(std::move(t));
    }
  }
  out.all = FragmentedRangeTombstones(all);
  return out;
}

using Cover = FragmentedRangeTombstones::Cover;

/// Sets `covers` to the range tombstones over a fragment, newest first. There may be very many. So if all are in one stripe
/// (survivors.h), sets `covers` to the newest one, with the oldest birth: only that one survives.
void covers_of(const FragmentedRangeTombstones& tombstones, const FragmentedRangeTombstones::Fragment& fragment,
               const Judgement& judgement, std::vector<Cover>* covers) {
  if (judgement.stripe(fragment.oldest_seq) == judgement.stripe(fragment.newest.seq)) {
    covers->assign(1, {fragment.newest.seq, fragment.oldest_birth});
  } else {
    tombstones.covers(fragment, covers);
  }
}

/// Joins adjacent fragments of one range tombstone again, with their oldest birth: they were cut at the key of another delete. A
/// tombstone is kept whole if some part of it is needed, even where the run is final. Cutting off the unneeded part would put the
/// key of an older delete into bounds. Keeping the unneeded part costs nothing, since it hides no entries.
class TombstoneJoiner {
 public:
  /// Adds a fragment; fragments come in key order. `needed` is false if older versions cannot exist under the fragment.
  void add(const SharedKey& start, const SharedKey& end, const Cover& cover, bool needed) {
    const auto [last, first] = last_.try_emplace(cover.seq, joined_.size());
    if (!first && joined_[last->second].end == start) {
      joined_[last->second].end = end;
      keep_oldest(&joined_[last->second].birth, cover.birth);
      needed_[last->second] = needed_[last->second] || needed;
      return;
    }
    last->second = joined_.size();
    joined_.push_back({start, end, cover.seq, cover.birth});
    needed_.push_back(needed);
  }
  /// Returns the tombstones of which some part is needed, sorted by start. Call it once.
  std::vector<RangeTombstone> take_needed() {
    std::size_t at = 0;
    std::erase_if(joined_, [&](const RangeTombstone&) { return !needed_[at++]; });
    return std::move(joined_);
  }

 private:
  std::vector<RangeTombstone> joined_;
  std::vector<bool> needed_;            // says for each element of joined_ whether some part of it is needed
  std::map<SeqNum, std::size_t> last_;  // for each seq, the index of its last part in joined_
};

/// If a tombstone was cut at an end of the part, lowers its birth to that of the oldest pending delete of the key there
/// (name_debts.h).
void take_over_births(const Fragmented& tombstones, const MergePart& part, const NameDebts* names,
                      std::vector<RangeTombstone>* out) {
  const KeyRange& range = part.tombstone_range ? *part.tombstone_range : part.range;
  const auto pending_birth_at = [&](const std::optional<Millis>& known, const std::string& key) {
    return known ? *known : names == nullptr ? 0 : names->birth_at(key);
  };
  std::optional<Millis> start, end;  // oldest births at the part's ends; computed once, if a tombstone was cut at that end
  for (RangeTombstone& t : *out) {
    if (t.start == range.start && tombstones.cut_at_start.count(t.seq) != 0) {
      if (!start) start = pending_birth_at(part.pending_at_start, range.start);
      keep_oldest(&t.birth, *start);
    }
    if (t.end == range.end && tombstones.cut_at_end.count(t.seq) != 0) {
      if (!end) end = pending_birth_at(part.pending_at_end, range.end);
      keep_oldest(&t.birth, *end);
    }
  }
}

/// Returns the range tombstones that stay, sorted by start.
std::vector<RangeTombstone> surviving_tombstones(const Fragmented& tombstones, const MergePart& part, const MergeShared& shared) {
  TombstoneJoiner joiner;
  std::vector<Cover> covers;
  for (const auto& fragment : tombstones.all.fragments()) {
    covers_of(tombstones.all, fragment, *shared.judgement, &covers);
    const bool final = shared.finality->is_final(fragment.range());
    const auto needed = surviving_covers(covers, *shared.judgement, final);
    for (const Cover& cover : surviving_covers(covers, *shared.judgement, false)) {
      const auto same = [&](const Cover& other) { return other.seq == cover.seq; };
      joiner.add(fragment.start, fragment.end, cover, std::any_of(needed.begin(), needed.end(), same));
    }
  }
  std::vector<RangeTombstone> out = joiner.take_needed();
  take_over_births(tombstones, part, shared.names, &out);
  return out;
}

class PartMerger {
 public:
  PartMerger(MergePart part, const MergeShared& shared, Fragmented tombstones)
      : part_(std::move(part)),
        shared_(shared),
        surviving_(surviving_tombstones(tombstones, part_, shared)),
        tombstones_(std::move(tombstones.all)),
        source_(std::move(part_.sources), part_.shared_prefix),
        survivors_(*shared.judgement, shared.records),
        writer_({shared.env, shared.settings, part_.compression, part_.applied_seq, part_.filter_slices, part_.points_at},
                OutputSplitter(part_.limits, std::move(surviving_), std::move(part_.below), std::move(part_.partitions),
                               shared.names)) {}

  MergePartResult run() {
    MergePartResult result;
    result.status = merge();
    if (!result.status.is_ok()) shared_.failed->store(true, std::memory_order_relaxed);
    result.outputs = writer_.outputs();
    result.pending_at_start = pending_birth_of(first_);
    result.pending_at_end = pending_birth_of(last_);
    result.entries_in = entries_in_;
    result.entries_out = entries_out_;
    result.bytes_written = writer_.bytes_written();
    return result;
  }

 private:
  Status merge() {
    if (part_.range.start.empty()) {
      source_.seek_to_first();
    } else {
      source_.seek(part_.range.start);
    }
    while (more()) {
      TRY(merge_key());
      if (entries_in_ >= next_check_) TRY(check_abort());
    }
    TRY(source_.status());
    TRY(check_abort());
    return writer_.finish();
  }

  [[nodiscard]] bool more() const {
    return source_.valid() && (part_.range.end.empty() || source_.entry().key < Bytes(part_.range.end));
  }

  Status check_abort() {
    next_check_ = entries_in_ + kAbortCheckEntries;
    const std::atomic<bool>* abort = shared_.env->abort;
    if (abort != nullptr && abort->load(std::memory_order_relaxed)) return Status::aborted("the compaction was aborted");
    if (shared_.failed->load(std::memory_order_relaxed)) return Status::aborted("another part of the compaction failed");
    return Status::ok();
  }

  /// Merges all versions of the source's current key.
  Status merge_key() {
    survivors_.begin(source_.entry().key, covers_of(source_.entry().key));
    const Bytes key = survivors_.key();
    do {
      survivors_.add(source_.entry());
      ++entries_in_;
      source_.next();
    } while (source_.valid() && source_.entry().key == key);
    TRY(source_.status());  // an entry that could not be read might be another version of the key
    const bool final =
        shared_.finality->is_final(key, &final_at_) || (part_.keys_below != nullptr && part_.keys_below->absent(key));
    // The next key's filter rows are loaded while this key is written.
    if (part_.keys_below != nullptr && source_.valid()) part_.keys_below->announce(source_.entry().key);
    const std::span<const Entry> kept = survivors_.finish({.nothing_below = final, .mark_first = part_.mark_first});
    if (kept.empty()) return Status::ok();
    last_ = {kept.front().kind, kept.front().delete_key, kept.front().expiry, kept.front().seq};
    if (entries_out_ == 0) first_ = last_;
    entries_out_ += kept.size();
    return writer_.add(kept, survivors_.applied_seq());
  }

  /// The fields of a key's newest kept entry that show whether the key is deleted.
  struct Newest {
    EntryKind kind = EntryKind::kValue;
    DeleteKey delete_key = kNoStamp;
    Millis expiry = 0;
    SeqNum seq = 0;
  };
  /// Returns the time when a key was deleted or will expire, from its newest kept entry; 0 = never.
  [[nodiscard]] Millis pending_birth_of(const Newest& newest) const {
    if (newest.kind == EntryKind::kTombstone) return newest.delete_key;  // the birth of a tombstone
    const bool stamped = shared_.records != nullptr && newest.delete_key != kNoStamp;
    return older(newest.expiry, stamped ? shared_.records->oldest_birth(newest.delete_key, newest.seq, kMaxSeqNum) : 0);
  }

  /// Returns the range tombstones that cover a key, newest first. Keys ascend from call to call, so the search steps from
  /// fragment to fragment.
  std::span<const FragmentedRangeTombstones::Cover> covers_of(Bytes key) {
    const auto& fragments = tombstones_.fragments();
    while (fragment_at_ < fragments.size() && ends_at_or_before(fragments[fragment_at_].end, key)) ++fragment_at_;
    if (fragment_at_ == fragments.size() || key < Bytes(fragments[fragment_at_].start)) return {};
    if (covers_of_ != &fragments[fragment_at_]) {
      covers_of_ = &fragments[fragment_at_];
      tombstones_.covers(*covers_of_, &covers_);
    }
    return covers_;
  }

  MergePart part_;
  const MergeShared& shared_;
  std::vector<RangeTombstone> surviving_;  // the tombstones for the writer
  const FragmentedRangeTombstones tombstones_;
  MergingIterator source_;
  Survivors survivors_;
  OutputWriter writer_;
  std::size_t fragment_at_ = 0, final_at_ = 0;
  const FragmentedRangeTombstones::Fragment* covers_of_ = nullptr;
  std::vector<FragmentedRangeTombstones::Cover> covers_;  // the covers of *covers_of_
  std::uint64_t entries_in_ = 0, entries_out_ = 0, next_check_ = 0;
  Newest first_, last_;  // newest entries of the first and the last key that was written
};

}  // namespace

MergePartResult run_merge_part(MergePart part, const MergeShared& shared) {
  Fragmented tombstones = fragment(part);
  return PartMerger(std::move(part), shared, std::move(tombstones)).run();
}

}  // namespace ebbtide

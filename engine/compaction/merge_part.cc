#include "compaction/merge_part.h"

#include <map>
#include <set>

#include "base/oldest.h"
#include "compaction/output_writer.h"
#include "iter/merging_iterator.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kAbortCheckEntries = 1024;

/// The range tombstones of all sources, and where they begin and end: those names were said when they were born.
struct Fragmented {
  FragmentedRangeTombstones all;
  std::set<std::string> ends;
};

Fragmented fragment(const std::vector<SharedTombstones>& sets, const KeyRange& range) {
  std::vector<RangeTombstone> all;
  std::set<std::string> ends;
  for (const SharedTombstones& set : sets) {
    for (std::size_t i = 0; i < set->size(); ++i) {
      RangeTombstone t = set->tombstone(i);
      KeyRange clipped = intersection({t.start, t.end}, range);
      if (is_empty(clipped)) continue;
      ends.insert(std::move(t.start));
      ends.insert(std::move(t.end));
      all.push_back({std::move(clipped.start), std::move(clipped.end), t.seq, t.birth});
    }
  }
  return {FragmentedRangeTombstones(all), std::move(ends)};
}

/// The pieces of a fragment's covers that stay, sorted by start. Those of one tombstone that touch are one again: what fragments were
/// cut at is another delete's name.
std::vector<RangeTombstone> surviving_tombstones(const Fragmented& tombstones, const MergePart& part, const MergeShared& shared) {
  std::vector<RangeTombstone> out;
  std::map<SeqNum, std::size_t> last;  // piece of each tombstone
  std::vector<FragmentedRangeTombstones::Cover> covers;
  for (const auto& fragment : tombstones.all.fragments()) {
    // Of one stripe the newest stays, with the oldest birth: the others need not be listed, and there may be very many.
    const Judgement& judgement = *shared.judgement;
    if (judgement.stripe(fragment.oldest_seq) == judgement.stripe(fragment.newest.seq)) {
      covers.assign(1, {fragment.newest.seq, fragment.oldest_birth});
    } else {
      tombstones.all.covers(fragment, &covers);
    }
    for (const auto& [piece, final] : shared.finality->pieces({fragment.start, fragment.end})) {
      for (const auto& cover : surviving_covers(covers, judgement, final)) {
        const auto [before, first] = last.try_emplace(cover.seq, out.size());
        if (!first && out[before->second].end == piece.start) {
          out[before->second].end = piece.end;
          keep_oldest(&out[before->second].birth, cover.birth);
          continue;
        }
        before->second = out.size();
        out.push_back({piece.start, piece.end, cover.seq, cover.birth});
      }
    }
  }
  if (shared.names == nullptr) return out;
  const KeyRange& range = part.tombstone_range ? *part.tombstone_range : part.range;
  for (RangeTombstone& t : out) {
    for (const std::string* end : {&t.start, &t.end}) {
      if (tombstones.ends.count(*end) != 0) continue;
      if (part.ends_have_no_names && (*end == range.start || *end == range.end)) continue;
      keep_oldest(&t.birth, shared.names->birth_at(*end));
    }
  }
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
        writer_({shared.env, shared.settings, part_.compression, part_.applied_seq, part_.filter_slices},
                OutputSplitter(part_.limits, std::move(surviving_), std::move(part_.below), std::move(part_.partitions),
                               shared.names)) {}

  MergePartResult run() {
    MergePartResult result;
    result.status = merge();
    if (!result.status.is_ok()) shared_.failed->store(true, std::memory_order_relaxed);
    result.outputs = writer_.outputs();
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
    if (abort != nullptr && abort->load(std::memory_order_relaxed)) return Status::aborted("the compaction was asked to stop");
    if (shared_.failed->load(std::memory_order_relaxed)) return Status::aborted("another part of the compaction failed");
    return Status::ok();
  }

  /// All versions of the key that the source stands on.
  Status merge_key() {
    survivors_.begin(source_.entry().key, covers_of(source_.entry().key));
    const Bytes key = survivors_.key();
    do {
      survivors_.add(source_.entry());
      ++entries_in_;
      source_.next();
    } while (source_.valid() && source_.entry().key == key);
    TRY(source_.status());  // what was not read might be another version of the key
    const bool final =
        shared_.finality->is_final(key, &final_at_) || (part_.keys_below != nullptr && part_.keys_below->absent(key));
    // Writing this key out is time enough for the next one's filter rows to come in.
    if (part_.keys_below != nullptr && source_.valid()) part_.keys_below->announce(source_.entry().key);
    const std::span<const Entry> kept = survivors_.finish({.nothing_below = final, .mark_first = part_.mark_first});
    if (kept.empty()) return Status::ok();
    entries_out_ += kept.size();
    return writer_.add(kept, survivors_.applied_seq());
  }

  /// Keys ascend, so the fragment that may cover one is found by stepping.
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
  std::vector<RangeTombstone> surviving_;  // for the writer
  const FragmentedRangeTombstones tombstones_;
  MergingIterator source_;
  Survivors survivors_;
  OutputWriter writer_;
  std::size_t fragment_at_ = 0, final_at_ = 0;
  const FragmentedRangeTombstones::Fragment* covers_of_ = nullptr;
  std::vector<FragmentedRangeTombstones::Cover> covers_;  // of that fragment
  std::uint64_t entries_in_ = 0, entries_out_ = 0, next_check_ = 0;
};

}  // namespace

MergePartResult run_merge_part(MergePart part, const MergeShared& shared) {
  Fragmented tombstones = fragment(part.tombstones, part.tombstone_range ? *part.tombstone_range : part.range);
  return PartMerger(std::move(part), shared, std::move(tombstones)).run();
}

}  // namespace ebbtide

// Turns a plan into an edit. The groups of a merge are moved or merged (subranges.h). Merged groups are divided into partitions
// (partitions.h) and cut into parts (merge_part.h); parts run in parallel (parallel.h). The result is one edit. A Move is a merge
// whose groups have one file each; a Rewrite is a merge of one file that may not be moved.
//
// A Slice is one group, cut to its range, whose output goes into the target. For each input that straddles an end of the range
// there is one more group of this file alone, which writes the entries outside the range into the file's run. Its finality
// differs: all older runs are below it, the other inputs included, since their entries outside the range stay in place. If a
// straddling file has range tombstones, these groups come last: a range tombstone that reaches into the slice is cut where the
// slice's output begins or ends, not at the end of the range. That end is often a key that the slice purges, and no piece may
// keep its name (compaction/name_debts.h). If the slice has no output, no range tombstone is cut.
#include "compaction/executor.h"

#include <deque>
#include <map>
#include <optional>
#include <set>

#include "base/invariant.h"
#include "compaction/merge_part.h"
#include "compaction/name_debts.h"
#include "compaction/output_writer.h"
#include "compaction/page_drop_job.h"
#include "compaction/parallel.h"
#include "compaction/partitions.h"
#include "compaction/plan_inputs.h"
#include "compaction/subranges.h"
#include "iter/run_iterator.h"
#include "tree/apply.h"
#include "tree/frozen.h"

namespace ebbtide {
namespace {

// An output file overlaps at most this many times its size in the run below.
constexpr std::uint64_t kBelowFactor = 25;

// Samples of an input table for its histogram: four for each bin.
constexpr std::size_t kByteSamples = 512;

Judgement judgement_of(const CompactionContext& context) { return {context.view_seqs, context.visible_seq, context.now}; }

/// Bytes that all keys of the range begin with.
std::size_t shared_prefix(const KeyRange& range) {
  std::size_t n = 0;
  while (n < range.start.size() && n < range.end.size() && range.start[n] == range.end[n]) ++n;
  return n;
}

/// The parts of `whole` before and after `middle`, which it overlaps.
std::vector<KeyRange> outside_of(const KeyRange& whole, const KeyRange& middle) {
  std::vector<KeyRange> out;
  if (whole.start < middle.start) out.push_back({whole.start, middle.start});
  if (end_before(middle.end, whole.end)) out.push_back({middle.end, whole.end});
  return out;
}

/// Files that are merged together, into the same run.
struct Group {
  FileGroup files;
  std::optional<KeyRange> hole{};       ///< of a slice, around which this is
  RunId run = 0;                        ///< that the output goes to
  const Finality* finality = nullptr;   ///< there
  bool has_below = false;               ///< cut where files of the run below end
  std::vector<Partition> partitions{};  ///< one at least, once it is divided
};

/// Ends of a slice's output: its first key, the successor of its last one, and the oldest pending births of these two, if known.
struct SliceEnds {
  std::string first, last;
  std::optional<Millis> owed_at_first, owed_at_last;
};

/// The tables that a merge reads, open. Immutable once filled.
using OpenTables = std::vector<std::pair<FileNum, std::shared_ptr<TableReader>>>;

const std::shared_ptr<TableReader>& table_of(const OpenTables& tables, FileNum file) {
  const auto at = std::lower_bound(tables.begin(), tables.end(), file, [](const auto& t, FileNum f) { return t.first < f; });
  ASSERT(at != tables.end() && at->first == file);
  return at->second;
}

class Job {
 public:
  Job(const Plan& plan, const Version& version, const CompactionContext& context, const CompactionEnv& env)
      : plan_(plan), version_(version), context_(context), env_(env), judgement_(judgement_of(context)) {}

  Result<CompactionResult> run() {
    TRY_ASSIGN(inputs, resolve_inputs(plan_, version_));
    inputs_ = std::move(inputs);
    frozen_ = frozen_ranges(version_.shape());
    if (const auto* slice = std::get_if<Slice>(&plan_.action)) {
      take_slice(slice->range);
    } else {
      TRY(sort_out(overlapping_groups(inputs_.files)));
    }
    TRY(open_tables());
    names_ = NameDebts(version_, newest_input(), context_.now);
    const Status status = merge_all();
    if (!status.is_ok()) {
      unlink_outputs(env_, result_.outputs);
      return status;
    }
    make_edit();
    return std::move(result_);
  }

 private:
  struct Part {
    const Group* group;
    KeyRange range;
    ReadCounters counters;
    MergePartResult result;
  };

  [[nodiscard]] bool may_move(const InputFile& file) const {
    if (std::holds_alternative<Rewrite>(plan_.action)) return false;
    const TableStats& stats = file.meta->stats;
    const bool owes = stats.tombstones + stats.range_tombstones + stats.debts != 0 || file.meta->lingering_birth != 0 ||
                      records_birth(stats, *version_.records) != 0 || (stats.min_expiry != 0 && stats.min_expiry <= context_.now);
    if (!owes) return true;
    // The keys of its tombstones are unknown: there must be an older entry below every key that it may have.
    const auto pieces = inputs_.finality.pieces(file.range);
    return std::none_of(pieces.begin(), pieces.end(), [](const auto& piece) { return piece.second; });
  }

  /// Decides which groups move and which are merged; small adjacent merged groups share their output files.
  Status sort_out(std::vector<FileGroup> groups) {
    bool joinable = false;
    for (FileGroup& group : groups) {
      if (!inputs_.new_run && !inputs_.target_gaps.is_final(group.range)) {
        return Status::invalid_argument("a plan's output would overlap files that stay in run " + std::to_string(inputs_.target));
      }
      if (group.files.size() == 1 && may_move(group.files.front())) {
        if (group.files.front().run_id != inputs_.target) moved_.push_back(std::move(group.files.front()));
        joinable = false;
        continue;
      }
      FileGroup* last = joinable ? &merged_.back().files : nullptr;
      const bool fits = last != nullptr && last->bytes < context_.settings.file_size &&
                        (inputs_.new_run || inputs_.target_gaps.is_final(KeyRange{last->range.start, group.range.end})) &&
                        frozen_at(frozen_, {last->range.start, group.range.end}) == nullptr;
      if (fits) {
        last->range.end = group.range.end;
        last->bytes += group.bytes;
        for (InputFile& file : group.files) last->files.push_back(std::move(file));
      } else {
        merged_.push_back({std::move(group), {}, inputs_.target, &inputs_.finality, true});
      }
      joinable = true;
    }
    return Status::ok();
  }

  void take_slice(const KeyRange& range) {
    FileGroup inside{range, inputs_.files, 0};
    for (const InputFile& file : inside.files) inside.bytes += file.meta->data_bytes;
    std::sort(inside.files.begin(), inside.files.end(),
              [](const InputFile& a, const InputFile& b) { return a.range.start < b.range.start; });
    merged_.push_back({std::move(inside), {}, inputs_.target, &inputs_.finality, true});
  }

  /// Groups for the entries outside the slice. `ends`: none if no range tombstone is cut.
  void take_outside(const KeyRange& range, const std::optional<SliceEnds>& ends) {
    ends_ = ends;
    std::map<std::size_t, const Finality*> below;  // by run
    for (const InputFile& file : inputs_.files) {
      std::vector<KeyRange> rests = outside_of(file.range, range);
      if (rests.empty()) continue;
      const Finality*& finality = below[file.run];
      if (finality == nullptr) finality = &outside_finality_.emplace_back(finality_outside(file.run, range));
      std::optional<KeyRange> hole;
      if (!ends && rests.size() == 2 && file.meta->stats.range_tombstones != 0) {  // they stay whole, so it stays one file
        hole = range;
        rests = {file.range};
      }
      for (KeyRange& rest : rests) {
        merged_.push_back({{std::move(rest), {file}, file.meta->data_bytes}, hole, file.run_id, finality, false});
      }
    }
  }

  Status open_tables() {
    for (const Group& group : merged_) {
      for (const InputFile& file : group.files.files) {
        TRY_ASSIGN(table, env_.open_table(*file.meta));
        tables_.emplace_back(file.meta->data_file, std::move(table));
      }
    }
    std::sort(tables_.begin(), tables_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return Status::ok();
  }

  /// Divides groups from number `first` on into partitions. For a global range the key space is the tree's; it becomes wider here
  /// if the inputs' common prefix is shorter.
  void divide(std::size_t first) {
    const Partitioning partitioning = context_.settings.partitioning;
    if (partitioning == Partitioning::kGlobalRange) widen_key_space();
    for (std::size_t g = first; g < merged_.size(); ++g) {
      Group& group = merged_[g];
      PartitionRequest request{partitioning, context_.settings.file_size, group.files.range, key_space_.value_or("")};
      if (partitioning == Partitioning::kSize) {
        group.partitions = {{request.keys.start, static_cast<double>(group.files.bytes)}};
        continue;
      }
      KeyRange whole = group.files.files.front().range;
      for (const InputFile& file : group.files.files) whole = hull(whole, file.range);
      request.keys = intersection(whole, group.files.range);
      StreamingHistogram bytes = bytes_of(group, key_space_of(request));
      group.partitions = partitions_of(request, &bytes);
    }
  }

  void widen_key_space() {
    key_space_ = version_.key_space;
    for (const InputFile& file : inputs_.files) {
      const TableStats& stats = file.meta->stats;
      key_space_ = shared_prefix_with(key_space_, stats.smallest, stats.unbounded ? stats.smallest : stats.largest);
    }
  }

  /// The distribution of the group's bytes: a histogram of each table, from its fences, and their sum.
  [[nodiscard]] StreamingHistogram bytes_of(const Group& group, const KeySpace& space) const {
    StreamingHistogram sum(bins_for(static_cast<double>(group.files.bytes), context_.settings.file_size));
    for (const InputFile& file : group.files.files) {
      StreamingHistogram one;
      const auto& table = table_of(tables_, file.meta->data_file);
      for (const auto& [key, bytes] : table->byte_samples(group.files.range, kByteSamples)) {
        one.add(space.position(key), static_cast<double>(bytes));
      }
      sum.merge(one);
    }
    return sum;
  }

  void cut_parts(std::size_t first) {
    const auto split_points = [this](const FileMeta& file, const KeyRange& range, std::size_t count) {
      return table_of(tables_, file.data_file)->split_points(range, count);
    };
    for (std::size_t g = first; g < merged_.size(); ++g) {
      const Group& group = merged_[g];
      const std::uint64_t by_size = group.files.bytes / std::max<std::uint64_t>(env_.sub_merge_bytes, 1);
      const std::size_t parts =
          env_.pool == nullptr || by_size < 2 ? 1 : std::min<std::uint64_t>(by_size, 2 * env_.pool->width());
      // A single partition is cut only if it does not become a single file.
      const bool is_one_file = context_.settings.partitioning != Partitioning::kSize &&
                               group.partitions.front().bytes <= static_cast<double>(context_.settings.file_size);
      std::vector<KeyRange> ranges = group.hole ? std::vector<KeyRange>{group.files.range}
                                     : group.partitions.size() > 1 || is_one_file
                                         ? cut_at_partitions(group.files.range, group.partitions, parts)
                                         : cut_evenly(group.files, parts, split_points);
      if (group.has_below && context_.settings.partitioning == Partitioning::kSize) align(&ranges);
      for (KeyRange& range : ranges) parts_.push_back({&group, std::move(range), {}, {}});
    }
  }

  /// Moves the cuts between parts to the ends of files below: an output file ends at each cut (OutputSplitter).
  void align(std::vector<KeyRange>* ranges) const {
    const auto ends_before = [](const FileMetaPtr& file, const std::string& key) {
      return end_before(range_of(file->stats).end, key);
    };
    std::vector<KeyRange> aligned{ranges->front()};
    for (std::size_t i = 1; i < ranges->size(); ++i) {
      const std::string& cut = (*ranges)[i].start;
      const auto file = std::lower_bound(inputs_.below.begin(), inputs_.below.end(), cut, ends_before);
      std::string end = file == inputs_.below.end() ? cut : range_of((*file)->stats).end;
      if (end_before((*ranges)[i].end, end) || end == (*ranges)[i].end) end = cut;
      aligned.back().end = end;
      aligned.push_back({std::move(end), (*ranges)[i].end});
    }
    *ranges = std::move(aligned);
  }

  /// Run number of the newest run that the plan takes a file of.
  [[nodiscard]] std::size_t newest_input() const {
    std::size_t newest = version_.runs.size();
    for (const InputFile& file : inputs_.files) newest = std::min(newest, file.run);
    return newest;
  }

  /// The keys at which range tombstones from outside are cut, once the slice is merged; none if it has no output.
  [[nodiscard]] std::optional<SliceEnds> slice_ends() const {
    std::optional<SliceEnds> ends;
    for (const Part& part : parts_) {
      const MergePartResult& done = part.result;
      if (done.outputs.empty()) continue;
      const TableStats &first = done.outputs.front().stats, &last = done.outputs.back().stats;
      // The key at the end of a range tombstone has the same pending birth as the tombstone.
      const auto owed = [](const TableStats& stats, Millis birth) {
        return stats.range_tombstones == 0 ? std::optional(birth) : std::nullopt;
      };
      if (!ends) ends = SliceEnds{first.smallest, {}, owed(first, done.owed_at_start), {}};
      ends->last = range_of(last).end;
      ends->owed_at_last = owed(last, done.owed_at_end);
    }
    return ends;
  }

  /// The files below the entries outside the slice: files of older runs, and the parts outside the slice of its inputs.
  [[nodiscard]] Finality finality_outside(std::size_t run, const KeyRange& range) const {
    std::vector<KeyRange> below;
    std::set<FileNum> cut;
    for (const InputFile& file : inputs_.files) cut.insert(file.meta->data_file);
    for (std::size_t older = run + 1; older < version_.runs.size(); ++older) {
      for (const FileMetaPtr& file : version_.runs[older].files) {
        const KeyRange whole = range_of(file->stats);
        for (KeyRange& rest : cut.count(file->data_file) == 0 ? std::vector<KeyRange>{whole} : outside_of(whole, range)) {
          below.push_back(std::move(rest));
        }
      }
    }
    return Finality(std::move(below));
  }

  /// The range outside the slice, extended into the slice's range up to the slice's first or last output key.
  [[nodiscard]] KeyRange reaching_into(const KeyRange& rest, const KeyRange& range) const {
    KeyRange out = rest;
    if (!range.end.empty() && rest.start == range.end) out.start = ends_ ? ends_->last : range.start;
    if (!range.start.empty() && rest.end == range.start) out.end = ends_ ? ends_->first : range.end;
    return out;
  }

  /// Merges groups from number `first` on.
  Status merge_groups(std::size_t first) {
    divide(first);
    const std::size_t before = parts_.size();
    cut_parts(first);
    std::atomic<bool> failed{false};
    run_parts(env_.pool, parts_.size() - before, [&](std::size_t i) {
      Part& part = parts_[before + i];
      const MergeShared shared{&env_,  &context_.settings, &judgement_, part.group->finality, version_.records.get(), &failed,
                               &names_};
      part.result = run_merge_part(make_part(&part), shared);
    });
    result_.sub_merges = parts_.size();
    const auto failure = std::find_if(parts_.begin(), parts_.end(), [](const Part& p) { return !p.result.status.is_ok(); });
    return failure == parts_.end() ? Status::ok() : failure->result.status;
  }

  Status merge_all() {
    if (const auto* slice = std::get_if<Slice>(&plan_.action)) {
      const bool in_turn = std::any_of(inputs_.files.begin(), inputs_.files.end(), [&](const InputFile& file) {
        return file.meta->stats.range_tombstones != 0 && !outside_of(file.range, slice->range).empty();
      });
      if (in_turn && merge_groups(0).is_ok()) {
        std::optional<SliceEnds> ends = slice_ends();
        // A file is cut at the ends of a frozen range, so that no output reaches into it.
        if (plan_.reason == Reason::kScrub) ends = SliceEnds{slice->range.start, slice->range.end, {}, {}};
        take_outside(slice->range, ends);
        (void)merge_groups(1);
      } else if (!in_turn) {
        take_outside(slice->range, std::nullopt);
        (void)merge_groups(0);
      }
    } else {
      (void)merge_groups(0);
    }
    return collect();
  }

  Status collect() {
    Status status;
    for (Part& part : parts_) {
      MergePartResult& done = part.result;
      if (status.is_ok() || (status.code() == Code::kAborted && !done.status.is_ok())) {
        if (!done.status.is_ok()) status = done.status;
      }
      output_runs_.insert(output_runs_.end(), done.outputs.size(), part.group->run);
      std::move(done.outputs.begin(), done.outputs.end(), std::back_inserter(result_.outputs));
      result_.entries_in += done.entries_in;
      result_.entries_out += done.entries_out;
      result_.bytes_written += done.bytes_written;
      result_.bytes_read += part.counters.bytes_read;
    }
    if (status.is_ok() && !result_.outputs.empty()) status = env_.fs->sync_dir(env_.dir);
    return status;
  }

  MergePart make_part(Part* part) const {
    const FileGroup& group = part->group->files;
    MergePart out;
    out.range = part->range;
    if (const auto* slice = std::get_if<Slice>(&plan_.action); slice != nullptr && part->group != &merged_.front()) {
      out.tombstone_range = reaching_into(part->range, slice->range);
      if (ends_ && out.tombstone_range->start == ends_->last) out.owed_at_start = ends_->owed_at_last;
      if (ends_ && out.tombstone_range->end == ends_->first) out.owed_at_end = ends_->owed_at_first;
    }
    out.applied_seq = version_.flushed_seq;  // the version has every record up to it that may cover an entry
    // One source a run, newest first; a run's files are in key order already.
    std::vector<std::size_t> runs;
    for (const InputFile& file : group.files) runs.push_back(file.run);
    std::sort(runs.begin(), runs.end());
    runs.erase(std::unique(runs.begin(), runs.end()), runs.end());
    for (std::size_t run : runs) {
      auto files = std::make_shared<std::vector<const FileMeta*>>();
      for (const InputFile& file : group.files) {
        if (file.run != run || !ranges_overlap(file.range, part->range)) continue;
        files->push_back(file.meta.get());
        const SharedTombstones& tombstones = table_of(tables_, file.meta->data_file)->range_tombstones();
        if (!tombstones->empty()) out.tombstones.push_back(tombstones);
      }
      if (files->empty()) continue;
      for (const KeyRange& bounds : part->group->hole ? outside_of(part->range, *part->group->hole) : std::vector{part->range}) {
        const TableIteratorOptions options{bounds, false, &part->counters};
        out.sources.push_back(std::make_unique<RunIterator>(
            RunFiles{files->size(), [files](std::size_t i) -> const TableStats& { return (*files)[i]->stats; },
                     [files, options, this](std::size_t i) {
                       return table_of(tables_, (*files)[i]->data_file)->new_iterator(options);
                     }},
            bounds));
      }
    }
    KeyRange whole = group.range;  // of whole files: sources need not clip
    for (const InputFile& file : group.files) whole = hull(whole, file.range);
    out.shared_prefix = shared_prefix(whole);
    out.limits = limits_of(context_.settings, kBelowFactor * context_.settings.file_size);
    for (const Partition& partition : part->group->partitions) {
      if (partition.start > part->range.start && !ends_at_or_before(part->range.end, partition.start)) {
        out.partitions.push_back(partition.start);
      }
    }
    if (part->group->has_below) {
      for (const FileMetaPtr& file : inputs_.below) {
        if (file->stats.overlaps(part->range)) out.below.push_back({range_of(file->stats).end, file->data_bytes});
      }
    }
    const bool last = part->group->finality->is_final(group.range);
    out.filter_slices = context_.filter_slices(part->group->run);
    out.compression = last ? context_.settings.compression_last_level : context_.settings.compression;
    return out;
  }

  void make_edit() {
    TreeEdit& edit = result_.edit;
    edit.tree = version_.tree;
    const bool slice = std::holds_alternative<Slice>(plan_.action);
    for (const Group& group : merged_) {
      if (slice && &group != &merged_.front()) continue;  // the first has all inputs
      for (const InputFile& file : group.files.files) edit.removed_files.emplace_back(file.run_id, file.meta->data_file);
    }
    for (const InputFile& file : moved_) {
      edit.removed_files.emplace_back(file.run_id, file.meta->data_file);
      edit.added_files.emplace_back(inputs_.target, *file.meta);
    }
    for (std::size_t i = 0; i < result_.outputs.size(); ++i) edit.added_files.emplace_back(output_runs_[i], result_.outputs[i]);
    result_.files_moved = moved_.size();
    if (inputs_.new_run && !edit.added_files.empty()) {
      edit.added_runs.push_back({inputs_.target, inputs_.level, inputs_.before, false});
      edit.next_run = inputs_.target + 1;
    }
    if (key_space_) note_key_space(*key_space_, version_, &edit);
    const TreeShape shape = version_.shape();
    edit.removed_runs = removed_runs(shape, plan_);
    if (context_.settings.file_choice == FileChoice::kRoundRobin && plan_.reason != Reason::kDeadline) {
      if (auto cursor = cursor_after(shape, plan_)) edit.cursors.push_back(std::move(*cursor));
    }
  }

  const Plan& plan_;
  const Version& version_;
  const CompactionContext& context_;
  const CompactionEnv& env_;
  const Judgement judgement_;
  PlanInputs inputs_;
  std::vector<KeyRange> frozen_;
  std::vector<InputFile> moved_;
  std::deque<Group> merged_;               // a deque: parts point into it
  std::deque<Finality> outside_finality_;  // of what a slice leaves outside; a deque: groups point into it
  std::optional<SliceEnds> ends_;
  NameDebts names_;
  OpenTables tables_;
  std::optional<std::string> key_space_;  // of global ranges: what all keys begin with
  std::deque<Part> parts_;
  std::vector<RunId> output_runs_;  // of result_.outputs
  CompactionResult result_;
};

}  // namespace

std::vector<double> CompactionContext::filter_slices(RunId run) const {
  if (const auto at = filters.find(run); at != filters.end()) return at->second;
  return settings.filter_bits_per_key > 0 ? std::vector<double>{settings.filter_bits_per_key} : std::vector<double>();
}

Result<CompactionResult> execute(const Plan& plan, const Version& version, const CompactionContext& context,
                                 const CompactionEnv& env) {
  if (plan.empty()) return CompactionResult{};
  if (std::holds_alternative<Drop>(plan.action)) return execute_drop(plan, version, context, env);
  return Job(plan, version, context, env).run();
}

}  // namespace ebbtide

#include "compaction/group_merge.h"

#include <algorithm>
#include <iterator>

#include "compaction/output_writer.h"
#include "compaction/parallel.h"

namespace ebbtide {
namespace {

/// Returns the index of the newest run that has an input; the number of runs if there is none.
std::size_t newest_run(const Version& version, const PlanInputs& inputs) {
  std::size_t newest = version.runs.size();
  for (const InputFile& file : inputs.files) newest = std::min(newest, file.run);
  return newest;
}

}  // namespace

GroupMerge::GroupMerge(const Version& version, const CompactionContext& context, const CompactionEnv& env,
                       const PlanInputs& inputs)
    : version_(version),
      context_(context),
      env_(env),
      judgement_{context.visible_seq, context.now, context.reaped},
      names_(version, newest_run(version, inputs), context.now),
      cuts_(version, context, env, inputs, tables_),
      builder_(version, context, inputs, tables_, env.readahead_bytes) {}

Status GroupMerge::run(std::vector<MergeGroup> groups) {
  const std::size_t first = parts_.size();
  for (MergeGroup& group : groups) {
    MergeGroup& kept = groups_.emplace_back(std::move(group));
    cuts_.divide(&kept);
    for (KeyRange& range : cuts_.parts_of(kept)) parts_.push_back({&kept, std::move(range)});
  }
  std::atomic<bool> failed{false};
  run_parts(env_.pool, parts_.size() - first, [&](std::size_t i) {
    Part& part = parts_[first + i];
    const MergeShared shared{&env_,  &context_.settings, &judgement_, part.group->finality, version_.records.get(), &failed,
                             &names_};
    part.result = run_merge_part(builder_.build(*part.group, part.range, &part.counters), shared);
  });
  const auto failure = std::find_if(parts_.begin(), parts_.end(), [](const Part& p) { return !p.result.status.is_ok(); });
  return failure == parts_.end() ? Status::ok() : failure->result.status;
}

std::optional<SliceEnds> GroupMerge::output_ends() const {
  // If an output has range tombstones, its first or last key may be a bound of a range tombstone. The oldest birth of the key's
  // pending deletes is then unknown, and is looked up when it is needed (MergeShared::names).
  const auto pending = [](const TableStats& stats, Millis birth) {
    return stats.range_tombstones == 0 ? std::optional(birth) : std::nullopt;
  };
  std::optional<SliceEnds> ends;
  for (const Part& part : parts_) {
    const MergePartResult& done = part.result;
    if (done.outputs.empty()) continue;
    const TableStats &first = done.outputs.front().stats, &last = done.outputs.back().stats;
    if (!ends) ends = SliceEnds{first.smallest, {}, pending(first, done.pending_at_start), {}};
    ends->last = range_of(last).end;
    ends->pending_at_last = pending(last, done.pending_at_end);
  }
  return ends;
}

Status GroupMerge::finish(CompactionResult* result) {
  Status status;
  result->sub_merges = parts_.size();
  for (Part& part : parts_) {
    MergePartResult& done = part.result;
    const bool says_more = status.is_ok() || status.code() == Code::kAborted;
    if (!done.status.is_ok() && says_more) status = done.status;
    for (const FileMeta& output : done.outputs) result->edit.added_files.emplace_back(part.group->run, output);
    std::move(done.outputs.begin(), done.outputs.end(), std::back_inserter(result->outputs));
    result->entries_in += done.entries_in;
    result->entries_out += done.entries_out;
    result->bytes_written += done.bytes_written;
    result->bytes_read += part.counters.bytes_read;
  }
  if (status.is_ok() && !result->outputs.empty()) status = env_.fs->sync_dir(env_.dir);
  if (!status.is_ok()) unlink_outputs(env_, result->outputs);
  if (cuts_.key_space()) note_key_space(*cuts_.key_space(), version_, &result->edit);
  return status;
}

}  // namespace ebbtide

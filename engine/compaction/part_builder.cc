#include "compaction/part_builder.h"

#include <algorithm>
#include <map>

#include "iter/run_iterator.h"

namespace ebbtide {
namespace {

// An output file is closed when it overlaps as many bytes of the next older run as this many full files have.
constexpr std::uint64_t kBelowFactor = 25;

/// Returns the number of bytes that all keys of the range have in common at their beginning.
std::size_t shared_prefix(const KeyRange& range) {
  std::size_t n = 0;
  while (n < range.start.size() && n < range.end.size() && range.start[n] == range.end[n]) ++n;
  return n;
}

/// Like shared_prefix(), for all keys of the group's files. Includes keys outside the group's range, since the sources read
/// these, too.
std::size_t shared_prefix_of(const FileGroup& group) {
  KeyRange whole = group.range;
  for (const InputFile& file : group.files) whole = hull(whole, file.range);
  return shared_prefix(whole);
}

/// Returns the files that overlap the range, by the index of their run, so newest run first; files of one run stay in order.
std::map<std::size_t, std::vector<FileMetaPtr>> files_by_run(const std::vector<InputFile>& files, const KeyRange& range) {
  std::map<std::size_t, std::vector<FileMetaPtr>> runs;
  for (const InputFile& file : files) {
    if (ranges_overlap(file.range, range)) runs[file.run].push_back(file.meta);
  }
  return runs;
}

using SourceFiles = std::shared_ptr<const std::vector<FileMetaPtr>>;

/// Returns an iterator over the given files of one run, which are in key order.
std::unique_ptr<InternalIterator> source_of(const SourceFiles& files, const OpenTables& tables,
                                            const TableIteratorOptions& options) {
  RunFiles run;
  run.files = files->size();
  run.stats = [files](std::size_t i) -> const TableStats& { return (*files)[i]->stats; };
  run.open = [files, options, &tables](std::size_t i) { return tables.of(*(*files)[i]).new_iterator(options); };
  return std::make_unique<RunIterator>(std::move(run), options.bounds);
}

}  // namespace

MergePart PartBuilder::build(const MergeGroup& group, const KeyRange& range, ReadCounters* counters) const {
  MergePart part;
  part.range = range;
  if (group.border) clip_at_slice(*group.border, &part);
  part.applied_seq = version_.flushed_seq;  // the version has every record up to this seq that may cover an entry
  part.shared_prefix = shared_prefix_of(group.files);
  add_sources(group, counters, &part);
  add_cuts(group, &part);
  const bool last = group.finality->is_final(group.files.range);
  part.compression = last ? context_.settings.compression_last_level : context_.settings.compression;
  part.filter_slices = context_.filter_slices(group.run);
  part.points_at = context_.settings.points_at;
  // After a start, merges may begin before the options of an index tree are set. Its tables keep their bounds all the same.
  for (const InputFile& file : group.files.files) {
    if (part.points_at == kNoPoints) part.points_at = file.meta->stats.points_at;
  }
  return part;
}

/// Adds one source per run, newest first; two sources per run if the group leaves out a range.
void PartBuilder::add_sources(const MergeGroup& group, ReadCounters* counters, MergePart* part) const {
  const std::vector<KeyRange> ranges = group.hole ? outside_of(part->range, *group.hole) : std::vector{part->range};
  auto runs = files_by_run(group.files.files, part->range);
  const std::size_t readahead = readahead_of_each(runs.size() * ranges.size(), readahead_bytes_);
  for (auto& [run, files] : runs) {
    for (const FileMetaPtr& file : files) {
      const SharedTombstones& tombstones = tables_.of(*file).range_tombstones();
      if (!tombstones->empty()) part->tombstones.push_back(tombstones);
    }
    const auto list = std::make_shared<const std::vector<FileMetaPtr>>(std::move(files));
    for (const KeyRange& bounds : ranges) part->sources.push_back(source_of(list, tables_, {bounds, false, counters, readahead}));
  }
}

/// Adds the partitions that begin within the part, and the files of the next older run that the part overlaps.
void PartBuilder::add_cuts(const MergeGroup& group, MergePart* part) const {
  part->limits = limits_of(context_.settings, kBelowFactor * context_.settings.file_size);
  for (const Partition& partition : group.partitions) {
    const bool begins_within = partition.start > part->range.start && !ends_at_or_before(part->range.end, partition.start);
    if (begins_within) part->partitions.push_back(partition.start);
  }
  if (!group.has_below) return;
  for (const FileMetaPtr& file : inputs_.below) {
    if (file->stats.overlaps(part->range)) part->below.push_back({range_of(file->stats).end, file->data_bytes});
  }
}

void clip_at_slice(const SliceBorder& border, MergePart* part) {
  KeyRange clip = part->range;
  const KeyRange& slice = border.slice;
  const bool begins_at_slice = !slice.end.empty() && clip.start == slice.end;
  const bool ends_at_slice = !slice.start.empty() && clip.end == slice.start;
  if (begins_at_slice) clip.start = border.ends ? border.ends->last : slice.start;
  if (ends_at_slice) clip.end = border.ends ? border.ends->first : slice.end;
  if (border.ends && clip.start == border.ends->last) part->pending_at_start = border.ends->pending_at_last;
  if (border.ends && clip.end == border.ends->first) part->pending_at_end = border.ends->pending_at_first;
  part->tombstone_range = std::move(clip);
}

}  // namespace ebbtide

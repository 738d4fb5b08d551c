#include "policy/fade_strategy.h"

#include <algorithm>
#include <limits>

namespace ebbtide {
namespace {

/// Returns the earliest deadline of the expired files that overlap `target` in newer runs.
Millis earliest_deadline_over(const FadeQuery& query, const FileShape& target, std::size_t below) {
  Millis earliest = std::numeric_limits<Millis>::max();
  const KeyRange range = target.range();
  for (std::size_t run = 0; run < below; ++run) {
    const RunShape& above = query.shape.runs[run];
    for (const FileShape& file : files_in(above, range)) {
      if (query.due.is_expired(file, above.level)) earliest = std::min(earliest, query.due.deadline_of(file));
    }
  }
  return earliest;
}

}  // namespace

void InputList::take(const RunShape& run, FileSpan files) {
  if (files.empty()) return;
  PlanInput& input = inputs.emplace_back(PlanInput{run.id, {}});
  for (const FileShape& file : files) {
    input.files.push_back(file.num);
    reserved.bytes += file.bytes;
    reserved.busy |= file.busy;
  }
}

FileSpan files_in(const RunShape& run, const KeyRange& range) {
  const auto [first, last] = run.overlapping(range.start, range.end);
  const auto begin = run.files.begin();
  return {begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last)};
}

std::size_t next_overlapping(const TreeShape& shape, std::size_t run, const KeyRange& range) {
  while (run < shape.runs.size() && files_in(shape.runs[run], range).empty()) ++run;
  return run;
}

std::size_t oldest_overlapping(const TreeShape& shape, std::size_t run, const KeyRange& range) {
  for (std::size_t oldest = shape.runs.size(); oldest > run; --oldest) {
    if (!files_in(shape.runs[oldest - 1], range).empty()) return oldest - 1;
  }
  return shape.runs.size();
}

bool is_final_in(const TreeShape& shape, std::size_t run, const KeyRange& range) {
  return next_overlapping(shape, run + 1, range) == shape.runs.size();
}

const FileShape& most_urgent_target(const FadeQuery& query, const ExpiredFile& e, std::size_t below) {
  const FileShape* found = nullptr;
  Millis earliest = 0;
  for (const FileShape& target : files_in(query.shape.runs[below], e.file->range())) {
    const Millis deadline = earliest_deadline_over(query, target, below);
    if (found != nullptr && deadline >= earliest) continue;
    found = &target;
    earliest = deadline;
  }
  return *found;
}

}  // namespace ebbtide

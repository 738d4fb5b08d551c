// Plans that no policy asks for: a merge by hand, and files that may go unread.
#include <algorithm>

#include "compaction/delete_only.h"
#include "db/db_impl.h"

namespace ebbtide {

namespace {

/// A merge by hand in the making. A file that takes part brings all files of the merge's runs that it overlaps: what is newer
/// must not be left above, nor what the output would overlap in its run. A file brings others once, and each of them is found in
/// the logarithm of their run's number of files: all of it costs about as much as there are pairs of overlapping files in two
/// runs.
class FullMerge {
 public:
  FullMerge(const TreeShape& shape, const KeyRange& range) : shape_(shape), taken_(shape.runs.size()) {
    for (std::size_t r = 0; r < shape.runs.size(); ++r) {
      taken_[r].resize(shape.runs[r].files.size());
      const auto [first, last] = shape.runs[r].overlapping(range.start, range.end);
      if (first < last) runs_.push_back(r);
      for (std::size_t i = first; i < last; ++i) take(r, i);
    }
  }

  [[nodiscard]] std::size_t runs() const { return runs_.size(); }
  [[nodiscard]] bool busy() const { return busy_; }
  [[nodiscard]] bool dirty() const { return dirty_; }  ///< something in it is owed
  /// Until no file overlaps another one's run outside.
  void grow() {
    while (!fresh_.empty()) {
      const KeyRange range = fresh_.back()->range();
      fresh_.pop_back();
      for (const std::size_t r : runs_) {
        const auto [first, last] = shape_.runs[r].overlapping(range.start, range.end);
        for (std::size_t i = first; i < last; ++i) take(r, i);
      }
    }
  }
  [[nodiscard]] Plan plan() const {
    Merge merge;
    for (const std::size_t r : runs_) {
      const RunShape& run = shape_.runs[r];
      PlanInput& input = merge.inputs.emplace_back(PlanInput{run.id, {}});
      for (std::size_t i = 0; i < run.files.size(); ++i) {
        if (taken_[r][i]) input.files.push_back(run.files[i].num);
      }
      merge.target = {run.id, run.level};
    }
    Plan plan;
    plan.action = std::move(merge);
    plan.reason = Reason::kManual;
    return plan;
  }

 private:
  void take(std::size_t r, std::size_t i) {
    if (taken_[r][i]) return;
    taken_[r][i] = true;
    const FileShape& file = shape_.runs[r].files[i];
    busy_ |= file.busy;
    dirty_ |= file.tombstones + file.range_tombstones + file.dead > 0;
    fresh_.push_back(&file);
  }

  const TreeShape& shape_;
  std::vector<std::vector<bool>> taken_;  // by run and file
  std::vector<std::size_t> runs_;         // those that take part, newest first
  std::vector<const FileShape*> fresh_;   // taken, and what they overlap is not looked at yet
  bool busy_ = false, dirty_ = false;
};

}  // namespace

// All files that meet the range, of all runs, merged into the oldest of these runs. Empty if at most one run has any and nothing
// in them is owed. `busy`: a running job has one of them.
Plan DbImpl::plan_full_merge(const TreeShape& shape, const KeyRange& range, bool* busy) {
  FullMerge merge(shape, range);
  *busy = merge.busy();
  if (merge.runs() == 0 || *busy || (merge.runs() == 1 && !merge.dirty())) return {};
  merge.grow();
  *busy = merge.busy();
  return *busy ? Plan{} : merge.plan();
}

Plan DbImpl::next_drop(const Tree& tree, const TablesView& tables) const {
  std::map<FileNum, const TableLookup*> ranged;  // the tables that have range tombstones
  for (const RunView& run : tables.runs) {
    for (std::size_t i = 0; i < run.tables().size(); ++i) {
      if (run.has_range_tombstones(i)) ranged[run.tables()[i]->meta->data_file] = &run.reader(i);
    }
  }
  if (ranged.empty()) return {};
  DeleteOnlyInput input;
  input.version = tables.version.get();
  input.visible_seq = visible_seq_.load(std::memory_order_acquire);
  input.tombstones = [&](const FileMeta& file) { return ranged.at(file.data_file)->range_tombstones(); };
  input.busy = [&](FileNum file) { return tree.jobs.is_busy(file); };
  return plan_delete_only(input);
}

}  // namespace ebbtide

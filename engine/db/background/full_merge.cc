#include "db/background/full_merge.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace ebbtide {
namespace {

// Collects the files of a merge. Each file of the merge adds all files that it overlaps in the merge's runs: the output must not
// overlap a file of its run, and no overlapping newer file may be left out. Each file is expanded once, and overlapping files are
// found by bisection in their run. So the cost is about the number of pairs of overlapping files of two runs.
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
  [[nodiscard]] bool dirty() const { return dirty_; }  // true if a file has tombstones or dead entries
  // Takes files until no file of the merge overlaps a file outside it.
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
  std::vector<std::vector<bool>> taken_;  // by run and file: true if the file is in the merge
  std::vector<std::size_t> runs_;         // indexes of the merge's runs, newest first
  std::vector<const FileShape*> fresh_;   // files of the merge whose overlapping files were not added yet
  bool busy_ = false, dirty_ = false;
};

}  // namespace

Plan plan_full_merge(const TreeShape& shape, const KeyRange& range, bool* busy) {
  FullMerge merge(shape, range);
  *busy = merge.busy();
  if (merge.runs() == 0 || *busy || (merge.runs() == 1 && !merge.dirty())) return {};
  merge.grow();
  *busy = merge.busy();
  return *busy ? Plan{} : merge.plan();
}

}  // namespace ebbtide

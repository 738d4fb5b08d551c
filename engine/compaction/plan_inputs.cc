#include "compaction/plan_inputs.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "base/planted_bug.h"
#include "tree/apply.h"

namespace ebbtide {
namespace {

std::string text(RunId id) { return "run " + std::to_string(id); }

struct Resolver {
  const Version& version;
  bool unread = false;  // true if the plan drops whole files without reading them
  std::set<FileNum> taken{};
  std::vector<std::size_t> taken_of_run{};  // number of inputs of each run
  std::optional<KeyRange> touched{};        // the smallest range that contains all inputs
  PlanInputs out{};

  Result<std::size_t> index_of(RunId id) const {
    for (std::size_t i = 0; i < version.runs.size(); ++i) {
      if (version.runs[i].id == id) return i;
    }
    return Status::invalid_argument("a plan names " + text(id) + ", which is not in the tree");
  }

  Status take(const PlanInput& input) {
    TRY_ASSIGN(index, index_of(input.run));
    taken_of_run.resize(version.runs.size());
    taken_of_run[index] += input.files.size();
    for (FileNum num : input.files) {
      FileMetaPtr file = version.find(version.runs[index], num);
      if (file != nullptr && file->quarantined() && !unread) {
        return Status::invalid_argument("a plan names file " + std::to_string(num) + ", which is quarantined");
      }
      if (file == nullptr || !taken.insert(num).second) {
        return Status::invalid_argument("a plan names file " + std::to_string(num) + ", which is not in " + text(input.run) +
                                        " or named twice");
      }
      KeyRange range = range_of(file->stats);
      touched = touched ? hull(*touched, range) : range;
      out.files.push_back({index, input.run, std::move(file), std::move(range)});
    }
    return Status::ok();
  }

  /// Calls `visit` for each file of a run that overlaps the range and is not an input, until `visit` returns false.
  template <typename Visit>
  void visit_staying(std::size_t run, const KeyRange& range, Visit visit) const {
    const FileList& files = version.runs[run].files;
    auto at = files.partition_point([&](const FileMetaPtr& file) { return file->stats.ends_before(range.start); });
    for (; at != files.end() && (range.end.empty() || Bytes((*at)->stats.smallest) < Bytes(range.end)); ++at) {
      if (taken.count((*at)->data_file) == 0 && !visit(*at)) return;
    }
  }
  /// True if all files of the run are inputs, so that no file stays. Comparing numbers is enough, since take() refuses a file
  /// that is named twice.
  [[nodiscard]] bool is_whole(std::size_t run) const { return taken_of_run[run] == version.runs[run].files.size(); }
  /// Returns true if a file of the run overlaps the range and is not an input.
  [[nodiscard]] bool stays_in(std::size_t run, const KeyRange& range) const {
    bool any = false;
    visit_staying(run, range, [&](const FileMetaPtr& file) {
      any = !(planted(PlantedBug::kFinalOverQuarantined) && file->quarantined());
      return !any;
    });
    return any;
  }
  /// Returns the ranges of the run's files that are not inputs and overlap the range of all inputs, which is also the output's.
  [[nodiscard]] std::vector<KeyRange> staying(std::size_t run) const {
    std::vector<KeyRange> ranges;
    visit_staying(run, *touched, [&](const FileMetaPtr& file) {
      if (!planted(PlantedBug::kFinalOverQuarantined) || !file->quarantined()) ranges.push_back(range_of(file->stats));
      return true;
    });
    return ranges;
  }

  /// Sets the outputs' run (`target`), its level, and its index among the runs (`place`).
  Status aim(const Plan& plan, const std::vector<PlanInput>& inputs) {
    const PlanTarget* target = target_of(plan);
    std::size_t oldest = 0;
    for (const InputFile& file : out.files) oldest = std::max(oldest, file.run);
    if (target == nullptr || target->run != 0) {
      out.target = target == nullptr ? inputs.front().run : target->run;
      TRY_ASSIGN(index, index_of(out.target));
      out.place = index;
      if (index < oldest) return Status::invalid_argument("a plan would move entries of an older run into " + text(out.target));
      return Status::ok();
    }
    const TreeShape shape = version.shape();
    out.new_run = true;
    out.target = version.next_run;
    out.level = target->level;
    out.before = place_new_run(shape, inputs, target->level);
    out.place = version.runs.size();
    if (out.before != 0) {
      TRY_ASSIGN(index, index_of(out.before));
      out.place = index;
    }
    return Status::ok();
  }

  /// Like check_ages(), for a slice, which moves only entries in its range. Refuses the slice if a file that overlaps the range
  /// is not an input, in any run from the run of the newest input to the target.
  Status check_slice(const Slice& slice) const {
    if (slice.target.run == 0) return Status::invalid_argument("a slice needs an existing target run");
    if (is_empty(slice.range)) return Status::invalid_argument("the range of a slice is empty");
    std::size_t newest = version.runs.size();
    for (const InputFile& file : out.files) newest = std::min(newest, file.run);
    for (std::size_t run = newest; run <= out.place; ++run) {
      if (stays_in(run, slice.range)) {
        return Status::invalid_argument("a slice leaves out files of " + text(version.runs[run].id) + " within its range");
      }
    }
    return Status::ok();
  }

  /// Refuses a plan that would put a file above newer entries of the file's keys, or below older entries of these keys.
  Status check_ages() const {
    for (std::size_t run = 0; run < out.place && run < version.runs.size(); ++run) {
      if (is_whole(run)) continue;
      for (const InputFile& file : out.files) {
        if (file.run < run && stays_in(run, file.range)) {
          return Status::invalid_argument("a plan would move file " + std::to_string(file.meta->data_file) +
                                          " below older entries in " + text(version.runs[run].id));
        }
      }
    }
    for (std::size_t run = out.place; run < version.runs.size(); ++run) {
      if (is_whole(run)) continue;
      for (const InputFile& file : out.files) {
        if (file.run > run && stays_in(run, file.range)) {
          return Status::invalid_argument("a plan would move file " + std::to_string(file.meta->data_file) +
                                          " above newer entries in " + text(version.runs[run].id));
        }
      }
    }
    return Status::ok();
  }

  void look_below() {
    std::vector<KeyRange> below;
    bool found_below = false;
    for (std::size_t run = out.place; run < version.runs.size(); ++run) {
      if (!out.new_run && run == out.place) continue;
      std::vector<KeyRange> ranges = staying(run);
      if (!found_below) {
        visit_staying(run, *touched, [&](const FileMetaPtr& file) {
          out.below.push_back(file);
          return true;
        });
        found_below = !is_whole(run);
      }
      below.insert(below.end(), std::make_move_iterator(ranges.begin()), std::make_move_iterator(ranges.end()));
    }
    out.finality = Finality(std::move(below));
    if (!out.new_run) out.target_gaps = Finality(staying(out.place));
  }
};

}  // namespace

Result<PlanInputs> resolve_inputs(const Plan& plan, const Version& version) {
  Resolver resolver{version};
  const std::vector<PlanInput> inputs = inputs_of(plan);
  const auto* const drop = std::get_if<Drop>(&plan.action);
  resolver.unread = drop != nullptr && drop->pages.empty();
  for (const PlanInput& input : inputs) TRY(resolver.take(input));
  if (resolver.out.files.empty()) return Status::invalid_argument("the plan has no files");
  if (std::holds_alternative<Drop>(plan.action)) return std::move(resolver.out);
  TRY(resolver.aim(plan, inputs));
  if (const auto* slice = std::get_if<Slice>(&plan.action)) {
    resolver.touched = hull(*resolver.touched, slice->range);
    TRY(resolver.check_slice(*slice));
  } else {
    TRY(resolver.check_ages());
  }
  resolver.look_below();
  return std::move(resolver.out);
}

Finality finality_below(const Version& version, std::size_t run) {
  std::vector<KeyRange> below;
  for (++run; run < version.runs.size(); ++run) {
    for (const FileMetaPtr& file : version.runs[run].files) below.push_back(range_of(file->stats));
  }
  return Finality(std::move(below));
}

Finality finality_of(const Version& version, const KeyRange& range) {
  std::vector<KeyRange> below;
  for (const Run& run : version.runs) {
    auto at = run.files.partition_point([&](const FileMetaPtr& file) { return file->stats.ends_before(range.start); });
    for (; at != run.files.end() && (range.end.empty() || Bytes((*at)->stats.smallest) < Bytes(range.end)); ++at) {
      below.push_back(range_of((*at)->stats));
    }
  }
  return Finality(std::move(below));
}

}  // namespace ebbtide

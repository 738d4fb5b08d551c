#include "compaction/plan_inputs.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/planted_bug.h"
#include "tree/apply.h"

namespace ebbtide {
namespace {

std::string text(RunId id) { return "run " + std::to_string(id); }

struct Resolver {
  const Version& version;
  bool unread = false;  // the plan drops whole files only
  std::set<FileNum> taken{};
  std::map<std::size_t, std::map<FileNum, const FileMetaPtr*>> by_number{};
  PlanInputs out{};

  Result<std::size_t> index_of(RunId id) const {
    for (std::size_t i = 0; i < version.runs.size(); ++i) {
      if (version.runs[i].id == id) return i;
    }
    return Status::invalid_argument("a plan names " + text(id) + ", which is not in the tree");
  }

  Status take(const PlanInput& input) {
    TRY_ASSIGN(index, index_of(input.run));
    // Files by number, built once for each run: a merge may name thousands of the tens of thousands of files of a run.
    std::map<FileNum, const FileMetaPtr*>& files = by_number[index];
    if (files.empty()) {
      for (const FileMetaPtr& file : version.runs[index].files) files.emplace(file->data_file, &file);
    }
    for (FileNum num : input.files) {
      const auto at = files.find(num);
      if (at != files.end() && (*at->second)->quarantined() && !unread) {
        return Status::invalid_argument("a plan names file " + std::to_string(num) + ", which is quarantined");
      }
      if (at == files.end() || !taken.insert(num).second) {
        return Status::invalid_argument("a plan names file " + std::to_string(num) + ", which is not in " + text(input.run) +
                                        " or named twice");
      }
      out.files.push_back({index, input.run, *at->second, range_of((*at->second)->stats)});
    }
    return Status::ok();
  }

  [[nodiscard]] std::vector<KeyRange> staying(std::size_t run) const {
    std::vector<KeyRange> ranges;
    for (const FileMetaPtr& file : version.runs[run].files) {
      if (planted(PlantedBug::kFinalOverQuarantined) && file->quarantined()) continue;
      if (taken.count(file->data_file) == 0) ranges.push_back(range_of(file->stats));
    }
    return ranges;
  }

  /// Sets target, place and level of the outputs.
  Status aim(const Plan& plan, const std::vector<PlanInput>& inputs) {
    const PlanTarget* target = target_of(plan);
    std::size_t oldest = 0;
    for (const InputFile& file : out.files) oldest = std::max(oldest, file.run);
    if (target == nullptr || target->run != 0) {
      out.target = target == nullptr ? inputs.front().run : target->run;
      TRY_ASSIGN(index, index_of(out.target));
      out.place = index;
      if (index < oldest) return Status::invalid_argument("a plan would put entries of an older run into " + text(out.target));
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

  /// Like check_ages(), for a slice. Only entries in its range move: in all runs from its newest to its target every file in the
  /// range must take part.
  Status check_slice(const Slice& slice) const {
    if (slice.target.run == 0) return Status::invalid_argument("a slice needs an existing target run");
    if (is_empty(slice.range)) return Status::invalid_argument("a slice of an empty range");
    std::size_t newest = version.runs.size();
    for (const InputFile& file : out.files) newest = std::min(newest, file.run);
    for (std::size_t run = newest; run <= out.place; ++run) {
      if (!Finality(staying(run)).is_final(slice.range)) {
        return Status::invalid_argument("a slice leaves out files of " + text(version.runs[run].id) + " within its range");
      }
    }
    return Status::ok();
  }

  /// Refuses a plan that would leave a file above newer entries of its keys, or below older ones.
  Status check_ages() const {
    for (std::size_t run = 0; run < out.place && run < version.runs.size(); ++run) {
      const Finality stays(staying(run));
      for (const InputFile& file : out.files) {
        if (file.run < run && !stays.is_final(file.range)) {
          return Status::invalid_argument("a plan would take file " + std::to_string(file.meta->data_file) +
                                          " below older entries in " + text(version.runs[run].id));
        }
      }
    }
    for (std::size_t run = out.place; run < version.runs.size(); ++run) {
      const Finality stays(staying(run));
      for (const InputFile& file : out.files) {
        if (file.run > run && !stays.is_final(file.range)) {
          return Status::invalid_argument("a plan would take file " + std::to_string(file.meta->data_file) +
                                          " above newer entries in " + text(version.runs[run].id));
        }
      }
    }
    return Status::ok();
  }

  void look_below() {
    std::vector<KeyRange> below;
    for (std::size_t run = out.place; run < version.runs.size(); ++run) {
      if (!out.new_run && run == out.place) continue;
      std::vector<KeyRange> ranges = staying(run);
      if (out.below.empty()) {
        std::copy_if(version.runs[run].files.begin(), version.runs[run].files.end(), std::back_inserter(out.below),
                     [&](const FileMetaPtr& file) { return taken.count(file->data_file) == 0; });
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
  if (resolver.out.files.empty()) return Status::invalid_argument("a plan without files");
  if (std::holds_alternative<Drop>(plan.action)) return std::move(resolver.out);
  TRY(resolver.aim(plan, inputs));
  if (const auto* slice = std::get_if<Slice>(&plan.action)) {
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

}  // namespace ebbtide

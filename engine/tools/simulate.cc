#include "tools/simulate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "base/invariant.h"
#include "compaction/output_splitter.h"
#include "policy/registry.h"
#include "tree/apply.h"
#include "tree/text.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kProgressEvery = 4096;
constexpr double kLargestFile = 1e6;  // in memtables
/// No tree needs so many merges for one flush: if a policy returns more plans, it would never stop.
constexpr std::size_t kMostPlans = 100'000;

std::string cell_key(std::uint32_t cell) {
  char text[16];
  std::snprintf(text, sizeof(text), "c%05u", cell);
  return text;
}

/// Returns the files of the next older run than the output of `merge`.
std::vector<BelowFile> files_below(const TreeShape& shape, const Merge& merge) {
  const RunId target = merge.target.run, before = target != 0 ? 0 : place_new_run(shape, merge.inputs, merge.target.level);
  std::vector<BelowFile> below;
  bool older = false;
  for (const RunShape& run : shape.runs) {
    older |= before != 0 && run.id == before;
    if (older && !run.files.empty()) {
      for (const FileShape& file : run.files) below.push_back({file.largest, file.bytes});
      break;
    }
    older |= target != 0 && run.id == target;
  }
  return below;
}

bool by_file(const std::string& name) {
  const auto policies = all_policies();
  return std::any_of(policies.begin(), policies.end(), [&](const PolicyInfo& p) { return name == p.name && p.by_file; });
}

}  // namespace

Result<std::unique_ptr<Simulation>> Simulation::make(const SimulationSettings& settings) {
  TRY_ASSIGN(policy, make_policy(settings.policy));
  const std::uint32_t cells = settings.cells != 0 ? settings.cells : by_file(settings.policy.name) ? kCellsByFile : 1;
  if (cells > 4096 || (cells & (cells - 1)) != 0) {
    return Status::invalid_argument("cells is " + std::to_string(cells) + "; allowed: a power of two from 1 to 4096");
  }
  if (!(settings.file_size > 0 && settings.file_size <= kLargestFile)) {
    return Status::invalid_argument("the size of files is " + std::to_string(settings.file_size) +
                                    " memtables; allowed: above 0, up to " + std::to_string(kLargestFile));
  }
  return std::unique_ptr<Simulation>(new Simulation(std::move(policy), settings, cells));
}

Simulation::Simulation(std::shared_ptr<const Policy> policy, const SimulationSettings& settings, std::uint32_t cells)
    : policy_(std::move(policy)),
      cells_(cells),
      cadence_(settings.as_engine ? Cadence::kAlways : policy_->cadence()),
      context_{0, settings.file_choice},
      workload_(settings.workload) {
  for (std::uint32_t cell = 0; cell <= cells_; ++cell) cell_keys_.push_back(cell_key(cell));
  shape_.memtable_bytes = kSimulatedMemtable;
  shape_.file_bytes =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(settings.file_size * static_cast<double>(kSimulatedMemtable)));
}

double Simulation::cell_bytes(const Span& span) const {
  return span.from == span.to ? 0 : workload_.bytes(span.from, span.to) / cells_;
}

FileShape Simulation::add_file(Content content) {
  FileShape file;
  file.num = ++last_file_;
  file.smallest = cell_keys_[content.first];
  file.largest = cell_keys_[content.first + content.cells.size()];
  file.largest_exclusive = true;
  double bytes = 0;
  for (const Span& span : content.cells) bytes += cell_bytes(span);
  file.bytes = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(bytes)));
  file.entries = file.bytes;
  contents_[file.num] = std::move(content);
  return file;
}

/// Cuts outputs into files as the engine does, at cells instead of keys: a file ends before a cell if half of that cell would
/// make the file too large.
std::vector<FileShape> Simulation::cut(const Content& merged, std::vector<BelowFile> below) {
  OutputSplitter splitter({.file_bytes = shape_.file_bytes, .aligned = true}, {}, std::move(below));
  std::vector<FileShape> files;
  Content part;
  double bytes = 0;
  const auto finish = [&](Bytes key) {
    if (part.cells.empty()) return;
    files.push_back(add_file(std::exchange(part, {})));
    bytes = 0;
    (void)splitter.close_before(key);
  };
  for (std::size_t i = 0; i < merged.cells.size(); ++i) {
    const Span& span = merged.cells[i];
    const std::string& key = cell_keys_[merged.first + i];
    const double more = cell_bytes(span);
    const auto so_far = part.cells.empty() ? 0 : static_cast<std::uint64_t>(std::llround(bytes + more / 2));
    if (splitter.should_close(key, so_far) || span.from == span.to) finish(key);
    if (span.from == span.to) continue;
    if (part.cells.empty()) part.first = merged.first + static_cast<std::uint32_t>(i);
    part.cells.push_back(span);
    bytes += more;
  }
  finish(cell_keys_.back());
  return files;
}

Simulation::Content Simulation::merge(const std::vector<PlanInput>& inputs) const {
  Content merged;
  merged.cells.resize(cells_);
  for (const PlanInput& input : inputs) {  // newest first
    for (const FileNum num : input.files) {
      const Content& content = contents_.at(num);
      for (std::size_t i = 0; i < content.cells.size(); ++i) {
        Span& into = merged.cells[content.first + i];
        const Span& span = content.cells[i];
        // Inputs come newest first, so `span` must end where the data already merged into this cell begins.
        ASSERT(into.from == into.to || into.from == span.to);
        into = into.from == into.to ? span : Span{span.from, into.to};
      }
    }
  }
  return merged;
}

void Simulation::count_peak(std::uint64_t bytes) { peak_bytes_ = std::max(peak_bytes_, bytes); }

Status Simulation::carry_out(const Plan& plan, bool with_flush) {
  const std::vector<PlanInput> inputs = inputs_of(plan);
  const std::uint64_t before = shape_.bytes();
  std::vector<PlanOutput> outputs;
  if (const auto* merge_plan = std::get_if<Merge>(&plan.action)) {
    std::uint64_t bytes = 0;
    for (FileShape& file : cut(merge(inputs), files_below(shape_, *merge_plan))) {
      bytes += file.bytes;
      outputs.push_back({0, std::move(file)});
    }
    written_ += static_cast<double>(bytes);
    // If the flush is part of the merge, its data are not on disk before the merge.
    const RunShape* flushed = with_flush ? shape_.run(flushed_run_) : nullptr;
    count_peak(before + bytes - (flushed == nullptr ? 0 : flushed->bytes()));
  } else if (!std::holds_alternative<Move>(plan.action)) {
    return Status::invalid_argument("the simulator does not support this plan: " + to_text(plan));
  }
  TRY_ASSIGN(next, apply(std::move(shape_), plan, outputs));
  shape_ = std::move(next);
  if (!outputs.empty() || std::holds_alternative<Merge>(plan.action)) {
    for (const PlanInput& input : inputs) {
      for (const FileNum num : input.files) contents_.erase(num);
    }
  }
  return Status::ok();
}

Status Simulation::flush() {
  workload_.flush();
  const std::uint64_t now = workload_.moment();
  const double size = workload_.flushed(now);
  flushed_ += size;
  ++flushes_;
  ++shape_.flushes;
  Content content;
  content.cells.assign(cells_, Span{now - 1, now});
  flushed_run_ = next_run_id(shape_);
  shape_.runs.insert(shape_.runs.begin(), RunShape{flushed_run_, 0, cut(content, {})});
  shape_.levels = policy_->levels(shape_);

  plans_.clear();
  Plan plan = policy_->next(shape_, context_);
  const auto takes_flush = [&] {
    const auto inputs = inputs_of(plan);
    return std::any_of(inputs.begin(), inputs.end(), [&](const PlanInput& input) { return input.run == flushed_run_; });
  };
  const bool with_flush = cadence_ == Cadence::kWithFlush && takes_flush();
  if (!with_flush) {
    written_ += size;
    count_peak(shape_.bytes());
  }
  while (!plan.empty()) {
    if (plans_.size() == kMostPlans) return Status::invalid_argument("the policy never stops returning plans: " + to_text(plan));
    TRY(carry_out(plan, with_flush));
    plans_.push_back(std::move(plan));
    shape_.levels = policy_->levels(shape_);
    shape_.flushes = policy_->flushes(shape_);
    plan = cadence_ == Cadence::kAlways ? policy_->next(shape_, context_) : Plan();
  }
  if (std::string wrong = check_bounds(*policy_, shape_, context_); !wrong.empty()) return Status::invalid_argument(wrong);
  const auto runs = static_cast<std::uint64_t>(
      std::count_if(shape_.runs.begin(), shape_.runs.end(), [](const RunShape& run) { return !run.files.empty(); }));
  runs_sum_ += runs;
  runs_max_ = std::max(runs_max_, runs);
  return Status::ok();
}

SimulationSample Simulation::sample() const {
  SimulationSample out;
  out.flushes = flushes_;
  if (flushes_ == 0) return out;
  const double live = std::max(workload_.live(), 1.0);
  out.write_amp = written_ / flushed_;
  out.avg_runs = static_cast<double>(runs_sum_) / static_cast<double>(flushes_);
  out.max_runs = runs_max_;
  out.space_amp = static_cast<double>(shape_.bytes()) / live;
  out.transient_space_amp = static_cast<double>(peak_bytes_) / live;
  return out;
}

Result<std::vector<SimulationSample>> simulate(const SimulationSettings& settings, std::span<const std::uint64_t> at,
                                               const std::function<void(std::uint64_t flushes)>& progress) {
  TRY_ASSIGN(simulation, Simulation::make(settings));
  std::vector<SimulationSample> samples;
  std::uint64_t done = 0;
  for (const std::uint64_t until : at) {
    for (; done < until; ++done) {
      const Status status = simulation->flush();
      if (!status.is_ok()) return status.with_context(settings.policy.name + " at flush " + std::to_string(done + 1));
      if (progress != nullptr && (done + 1) % kProgressEvery == 0) progress(done + 1);
    }
    samples.push_back(simulation->sample());
  }
  return samples;
}

}  // namespace ebbtide

// Stack-based policies (Mao's thesis, sections 3.2 and 4.2): the runs are one stack, newest on top. A merge replaces some
// adjacent runs by one run.
//
//   bigtable      more than k runs: merge the flush with the smallest number of runs below it after which every run is larger
//                 than all newer runs together
//   constant      more than k runs: merge all
//   exploring     candidates are groups of C to D neighbours whose largest run is at most lambda times the others together. At
//                 most k runs: merge the longest candidate. More than k runs: merge the candidate with the smallest average, or,
//                 without a candidate, the C neighbours of least size
//   concurrent    the longest group of C to D runs, from the newest on, whose oldest run is at most lambda times the others
//                 together; with more than k runs, the D newest runs of any size
//   min_latency, binomial   stack_schedule.h computes the merge from the number of the flush
//
// All runs of a stack are on level 0; only their order matters. With a level for each run, every flush would change the level of
// all runs. Runs that another policy left on deeper levels take part and keep their level.
//
// A merge writes into its oldest run, so run ids and order stay. One merge runs at a time; only `concurrent` may also merge runs
// above the busy runs.
//
// Eager policies (all but exploring and concurrent) write flushed entries only as part of the merge, if there is a merge (the
// thesis' model); see Cadence::kWithFlush. A caller that flushes first gets the same decision for the stack with the flushed run
// on top.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "policy/policy.h"

namespace ebbtide {

enum class StackRule : std::uint8_t { kBigtable, kConstant, kExploring, kConcurrent, kMinLatency, kBinomial };

struct StackParameters {
  int k = 4;           ///< the largest number of runs at rest
  double lambda = 1;   ///< exploring, concurrent: largest allowed ratio of the largest run to the sum of the others in its group
  int min_merge = 2;   ///< C: the smallest number of runs of a merge
  int max_merge = 64;  ///< D: the largest number of runs of a merge, at least C
};

/// Returns the runs to merge, at least two, as indexes [first, last] of `sizes`; none = no merge. `sizes`: bytes of the runs,
/// newest first, the new flush included. `flushes`: number of that flush, from 1.
std::optional<std::pair<std::size_t, std::size_t>> choose_merge(StackRule rule, const StackParameters& parameters,
                                                                std::span<const std::uint64_t> sizes, std::uint64_t flushes);

class StackPolicy final : public Policy {
 public:
  StackPolicy(std::string name, StackRule rule, const StackParameters& parameters);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Plan next(const TreeShape& shape, const PolicyContext& context) const override;
  [[nodiscard]] std::uint64_t debt_bytes(const TreeShape& shape) const override;
  /// Returns k memtables for any level, since a stack has no levels to fill.
  [[nodiscard]] double capacity_bytes(const TreeShape& shape, int level) const override;
  [[nodiscard]] int slowdown_runs() const override;
  [[nodiscard]] int stop_runs() const override;
  [[nodiscard]] std::string check(const TreeShape& shape) const override;
  [[nodiscard]] Cadence cadence() const override;
  [[nodiscard]] bool by_schedule() const override { return rule_ == StackRule::kMinLatency || rule_ == StackRule::kBinomial; }
  /// Returns the number of flushes by which a static schedule chooses its merges: TreeShape::flushes, the thesis's t. Updates and
  /// deletes can make the data smaller than t memtables. So if all data is one run of at most t / 2 memtables, returns the run's
  /// size in memtables, rounded up (thesis, section 3.4.4).
  [[nodiscard]] std::uint64_t flushes(const TreeShape& shape) const override;

 private:
  const std::string name_;
  const StackRule rule_;
  const StackParameters parameters_;
};

}  // namespace ebbtide

// Stack-based policies (Mao's thesis, sections 3.2 and 4.2): the runs are one stack, newest on top. A merge replaces some
// adjacent runs by one run.
//
//   bigtable      with more than k runs: merge the flushed run with as few of the next runs as possible, so that afterwards every
//                 run is larger than all newer runs together
//   constant      with more than k runs: merge all runs
//   exploring     candidates are groups of C to D neighbours whose largest run is at most lambda times the others together. With
//                 at most k runs: merge the longest candidate. With more than k runs: merge the candidate with the smallest
//                 average size; if there is no candidate, the C neighbours with the smallest total size
//   concurrent    the longest group of C to D runs, from the newest on, whose oldest run is at most lambda times the others
//                 together; with more than k runs, the D newest runs of any size
//   min_latency, binomial   stack_schedule.h computes the merge from the number of the flush
//
// All runs of a stack are on level 0; only their order matters. (If each run had a level of its own, every flush would change
// the levels of all runs.) Runs that another policy left on deeper levels take part in merges and keep their level.
//
// A merge writes into its oldest run, so run ids and order stay. One merge runs at a time; only `concurrent` may also merge runs
// above the busy runs.
//
// All policies but exploring and concurrent are eager: if a flush causes a merge, they write the flushed entries only to the
// merge's output, as in the thesis (Cadence::kWithFlush). A caller that flushes first passes the flushed run as the newest run,
// and gets the same decision.
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
  double lambda = 1;   ///< exploring, concurrent: largest ratio of a group's largest run to the sum of its other runs
  int min_merge = 2;   ///< C: the smallest number of runs of a merge
  int max_merge = 64;  ///< D: the largest number of runs of a merge, at least C
};

/// Returns the runs to merge, at least two, as indexes [first, last] of `sizes`; no value = no merge. `sizes`: bytes of the
/// runs, newest first, the flushed run included. `flushes`: number of that flush, counted from 1.
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
  /// Returns the number of flushes (the thesis's t) by which a static schedule chooses its merges: TreeShape::flushes, with one
  /// exception. Updates and deletes can make the data smaller than t memtables. So if all data is one run of at most t / 2
  /// memtables, returns that run's size in memtables, rounded up (thesis, section 3.4.4).
  [[nodiscard]] std::uint64_t flushes(const TreeShape& shape) const override;

 private:
  const std::string name_;
  const StackRule rule_;
  const StackParameters parameters_;
};

}  // namespace ebbtide

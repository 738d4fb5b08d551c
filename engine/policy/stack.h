// Stack-based policies (Mao's thesis, sections 3.2 and 4.2): the runs are one stack, newest on top. A merge replaces some
// adjacent runs by one.
//
//   bigtable      more than k runs: merge the flush with the fewest runs below it that make every run larger than all newer ones
//                 together
//   constant      more than k runs: merge all
//   exploring     of the groups of C to D neighbours whose largest run is at most lambda times the others together: the longest,
//                 or, with more than k runs, the one of the smallest average; none and more than k runs: the C neighbours of
//                 least size
//   concurrent    the longest group of C to D runs, from the newest on, whose oldest is at most lambda times the others together;
//                 with more than k runs, the D newest whatever their sizes
//   min_latency, binomial   as stack_schedule.h computes from the number of the flush
//
// All runs of a stack are on level 0; only their order matters. With a level per run every flush would change the level of all
// runs. Runs that another policy left on deeper levels take part where they are.
//
// A merge goes into its oldest run, so run ids and order stay. One merge runs at a time; only `concurrent` may also merge runs
// above the busy ones.
//
// Eager policies (all but exploring and concurrent) write flushed entries only as part of the merge, if there is one (the thesis'
// model); see Cadence::kWithFlush. Without that, they decide the same for the stack with the flushed run on top.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "policy/policy.h"

namespace ebbtide {

enum class StackRule : std::uint8_t { kBigtable, kConstant, kExploring, kConcurrent, kMinLatency, kBinomial };

struct StackParameters {
  int k = 4;           ///< most runs at rest
  double lambda = 1;   ///< exploring, concurrent: largest ratio of the largest run to the others of its group together
  int min_merge = 2;   ///< C: fewest runs of a merge
  int max_merge = 64;  ///< D: most runs of a merge, at least C
};

/// Returns the runs to merge, at least two, as indexes [first, last] of `sizes`; none = no merge. `sizes`: newest first, the new
/// flush included. `flushes`: number of that flush, from 1.
std::optional<std::pair<std::size_t, std::size_t>> choose_merge(StackRule rule, const StackParameters& parameters,
                                                                std::span<const std::uint64_t> sizes, std::uint64_t flushes);

class StackPolicy final : public Policy {
 public:
  StackPolicy(std::string name, StackRule rule, const StackParameters& parameters);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Plan next(const TreeShape& shape, const PolicyContext& context) const override;
  [[nodiscard]] std::uint64_t debt_bytes(const TreeShape& shape) const override;
  /// A stack has no levels to fill, so this is k memtables for any level.
  [[nodiscard]] double capacity_bytes(const TreeShape& shape, int level) const override;
  [[nodiscard]] int slowdown_runs() const override;
  [[nodiscard]] int stop_runs() const override;
  [[nodiscard]] std::string check(const TreeShape& shape) const override;
  [[nodiscard]] Cadence cadence() const override;
  [[nodiscard]] bool by_schedule() const override { return rule_ == StackRule::kMinLatency || rule_ == StackRule::kBinomial; }
  /// Static schedules: updates and deletes make the data smaller than t flushes. Once everything is one run of at most half of
  /// what t flushes wrote, t becomes that run's size in flushes (thesis, section 3.4.4).
  [[nodiscard]] std::uint64_t flushes(const TreeShape& shape) const override;

 private:
  const std::string name_;
  const StackRule rule_;
  const StackParameters parameters_;
};

}  // namespace ebbtide

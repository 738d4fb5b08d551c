// A merge policy is a pure function from the shape of a tree to the next plan. The engine's scheduler and the simulator use the
// same objects. engine/docs/policies.md has a table of every policy's parameters, triggers and level numbers.
#pragma once

#include <memory>
#include <string>

#include <engine/options.h>
#include <engine/result.h>
#include "tree/plan.h"
#include "tree/shape.h"

namespace ebbtide {

struct PolicyContext {
  Millis now = 0;
  FileChoice file_choice = FileChoice::kLeastOverlap;
};

/// Says when the scheduler calls Policy::next().
enum class Cadence : std::uint8_t {
  kAlways,        ///< after every change of the shape, until next() returns an empty plan
  kOncePerFlush,  ///< one decision per flush, with the flushed run in the shape
  kWithFlush,  ///< like kOncePerFlush, but flush and merge are one step: flushed entries are written only to the merge's output
};

/// Policies are stateless, immutable and thread-safe.
class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Returns the most urgent plan that uses no busy files, or an empty plan if there is none. Files of running jobs are marked
  /// busy in the shape.
  [[nodiscard]] virtual Plan next(const TreeShape& shape, const PolicyContext& context) const = 0;
  /// Returns the compaction debt: the bytes that merges must still write until next() returns an empty plan. Write stalls
  /// depend on it.
  [[nodiscard]] virtual std::uint64_t debt_bytes(const TreeShape& shape) const = 0;
  /// Returns the capacity of a level in bytes. The capacity of level 0 (the memtable and the runs flushed from it) is the
  /// memtable's size times the number of runs at which level 0 merges down.
  [[nodiscard]] virtual double capacity_bytes(const TreeShape& shape, int level) const = 0;
  /// Return the number of runs of level 0 at which writes slow down, and at which they stop. Runs without files are not counted.
  [[nodiscard]] virtual int slowdown_runs() const = 0;
  [[nodiscard]] virtual int stop_runs() const = 0;
  /// Checks a tree at rest (no job runs, and no plan is due). Returns "" if the tree is within the policy's bounds (runs of a
  /// level, capacities, depth of a stack). Otherwise returns a text with level, value and bound. check_bounds() may be called for
  /// any tree.
  [[nodiscard]] virtual std::string check(const TreeShape& shape) const = 0;

  [[nodiscard]] virtual Cadence cadence() const { return Cadence::kAlways; }
  /// Returns true for policies with a static schedule. Their plans depend on TreeShape::flushes, so the merge of one flush must
  /// end before the next flush.
  [[nodiscard]] virtual bool by_schedule() const { return false; }
  /// Returns true if each level from 1 on is one run, and its files are merged into the next level one by one. Merges for
  /// deadlines then also go down file by file (fade.h).
  [[nodiscard]] virtual bool by_file() const { return false; }
  /// Returns the value that TreeShape::levels should have for this shape. The caller stores it with this edit of the tree or with
  /// the next one. Only Garnering has a persisted number of levels; the other policies reset it to 0.
  [[nodiscard]] virtual int levels(const TreeShape&) const { return 0; }
  /// Returns the new value of TreeShape::flushes. The caller stores it when a plan is done, before the next flush is counted.
  /// Only static stacks change the number.
  [[nodiscard]] virtual std::uint64_t flushes(const TreeShape& shape) const { return shape.flushes; }
};

/// Checks a tree after an edit: returns the result of Policy::check(), but "" while a job runs or the policy has a plan.
std::string check_bounds(const Policy& policy, const TreeShape& shape, const PolicyContext& context);
/// Like check_bounds(), for a shape for which next() has returned an empty plan. Returns "" also if the number of levels is
/// about to change.
std::string check_at_rest(const Policy& policy, const TreeShape& shape);

/// Makes a policy by name and checks its parameters. The message of kInvalidArgument names the policy or parameter, the value
/// and the allowed values.
Result<std::shared_ptr<const Policy>> make_policy(const PolicySettings& settings);

}  // namespace ebbtide

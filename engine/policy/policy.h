// A merge policy: a pure function from the shape of a tree to what to do next. The engine's scheduler, the simulator and the
// tuner call the same objects. engine/docs/policies.md has every policy's parameters, triggers and level numbering in one table.
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

/// When a policy wants to be asked.
enum class Cadence : std::uint8_t {
  kAlways,        ///< after every change of the shape, until it asks for nothing
  kOncePerFlush,  ///< one decision a flush, taken with the flushed run in the shape
  kWithFlush,     ///< as kOncePerFlush, and flush and merge are one step: what is flushed is written into the merge's output only
};

/// Stateless and immutable; thread-safe.
class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// The most urgent thing to do with what is not busy; an empty plan if there is nothing. Jobs that run are marked busy in the
  /// shape.
  [[nodiscard]] virtual Plan next(const TreeShape& shape, const PolicyContext& context) const = 0;
  /// Bytes that must still be rewritten until the shape satisfies the policy: what write stalls go by.
  [[nodiscard]] virtual std::uint64_t debt_bytes(const TreeShape& shape) const = 0;
  /// Capacity of a level in bytes. Level 0 is the memtable and the runs flushed from it: the memtable's size times the runs it
  /// may have before they merge down.
  [[nodiscard]] virtual double capacity_bytes(const TreeShape& shape, int level) const = 0;
  /// Number of runs of level 0, empty ones not counted, at which writes slow down, and at which they stop.
  [[nodiscard]] virtual int slowdown_runs() const = 0;
  [[nodiscard]] virtual int stop_runs() const = 0;
  /// Why a tree at rest is out of the policy's bounds (runs of a level, capacities, depth of a stack), naming level, figure and
  /// bound; "" if it is not. While something runs or is asked for, bounds may be passed: check_bounds() knows.
  [[nodiscard]] virtual std::string check(const TreeShape& shape) const = 0;

  [[nodiscard]] virtual Cadence cadence() const { return Cadence::kAlways; }
  /// Static schedules: what they ask for goes by TreeShape::flushes, so the merge of one flush must be done before the next one.
  [[nodiscard]] virtual bool by_schedule() const { return false; }
  /// Whether levels from 1 on are one run each, of which single files go down: then FADE steps files down, too (fade.h).
  [[nodiscard]] virtual bool by_file() const { return false; }
  /// What TreeShape::levels should be from now on: whoever changes the shape stores it, with that change or the next. Only
  /// Garnering has a persisted number of levels; the others leave none behind, so that it begins anew after them.
  [[nodiscard]] virtual int levels(const TreeShape&) const { return 0; }
  /// What TreeShape::flushes should be from now on, asked when a plan is done or before the next flush is counted; only static
  /// stacks ever set it back.
  [[nodiscard]] virtual std::uint64_t flushes(const TreeShape& shape) const { return shape.flushes; }
};

/// For whoever changes a tree, after each edit: "", or why the shape is out of the policy's bounds although no job runs and the
/// policy asks for none.
std::string check_bounds(const Policy& policy, const TreeShape& shape, const PolicyContext& context);
/// The same for who has asked the policy already, and it asks for nothing: "" while a job runs or the number of levels is to
/// change.
std::string check_at_rest(const Policy& policy, const TreeShape& shape);

/// A policy by name, its parameters checked: kInvalidArgument names the policy or parameter, the value and what is allowed.
Result<std::shared_ptr<const Policy>> make_policy(const PolicySettings& settings);

}  // namespace ebbtide

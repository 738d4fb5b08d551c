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
};

/// By name, parameters checked: kInvalidArgument names the policy or parameter, the value and what is allowed.
Result<std::shared_ptr<const Policy>> make_policy(const PolicySettings& settings);

}  // namespace ebbtide

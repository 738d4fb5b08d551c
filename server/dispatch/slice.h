// A time slice: work that takes long is done in slices, one in each round of an event loop.
#pragma once

#include <functional>
#include <utility>

namespace ebbtide {

/// The work calls over() after each step and stops if it is true, so every slice does at least one step.
class Slice {
 public:
  /// Makes a slice that is never over.
  Slice() = default;
  explicit Slice(std::function<bool()> over) : over_(std::move(over)) {}

  [[nodiscard]] bool over() const { return over_ && over_(); }

 private:
  std::function<bool()> over_;
};

}  // namespace ebbtide

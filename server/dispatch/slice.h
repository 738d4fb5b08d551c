// A share of a round of an event loop, for work that takes many rounds.
#pragma once

#include <functional>
#include <utility>

namespace ebbtide {

/// Work calls over() after each step, so that every slice has at least one.
class Slice {
 public:
  /// Never over.
  Slice() = default;
  explicit Slice(std::function<bool()> over) : over_(std::move(over)) {}

  [[nodiscard]] bool over() const { return over_ && over_(); }

 private:
  std::function<bool()> over_;
};

}  // namespace ebbtide

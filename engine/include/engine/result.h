// A value, or the Status with the reason why there is none.
#pragma once

#include <optional>
#include <utility>

#include <engine/status.h>

namespace ebbtide {

/// Holds a T on success, an error Status otherwise. Do not construct it from an ok Status.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}        // NOLINT: implicit, so that `return value;` reads well
  Result(Status error) : status_(std::move(error)) {}  // NOLINT: implicit, so that `return Status::...;` reads well

  [[nodiscard]] bool is_ok() const { return value_.has_value(); }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] T& value() & { return *value_; }
  [[nodiscard]] const T& value() const& { return *value_; }
  [[nodiscard]] T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace ebbtide

#define EBBTIDE_CONCAT_(a, b) a##b
#define EBBTIDE_CONCAT(a, b) EBBTIDE_CONCAT_(a, b)
#define EBBTIDE_TRY_ASSIGN_(result, lhs, expr) \
  auto result = (expr);                        \
  if (!result.is_ok()) [[unlikely]]            \
    return result.status();                    \
  auto lhs = std::move(result).value()

/// Declares `lhs` with the value of `expr`, a Result. If `expr` has no value, returns its Status from the calling function.
#define TRY_ASSIGN(lhs, expr) EBBTIDE_TRY_ASSIGN_(EBBTIDE_CONCAT(try_result_, __LINE__), lhs, expr)

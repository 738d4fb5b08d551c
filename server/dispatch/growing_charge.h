// Charges data that grows in small steps while a command builds it.
#pragma once

#include <algorithm>
#include <cstdint>

#include <engine/types.h>

#include "dispatch/context.h"

namespace ebbtide {

/// Reserves memory for data that grows, in steps of kStep. The first kLargeValueBytes are not charged, as in Ctx::reserve().
class GrowingCharge {
 public:
  explicit GrowingCharge(Ctx& ctx) : ctx_(ctx) {}
  /// Charges `bytes` more. Call it before they are allocated. Errors are those of Ctx::reserve().
  Status add(std::uint64_t bytes) {
    used_ += bytes;
    if (used_ <= charged_ + kLargeValueBytes) return Status::ok();
    const std::uint64_t more = std::max(kStep, used_ - charged_);
    TRY(ctx_.reserve(more));
    charged_ += more;
    return Status::ok();
  }

 private:
  static constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
  Ctx& ctx_;
  std::uint64_t used_ = 0, charged_ = 0;
};

}  // namespace ebbtide

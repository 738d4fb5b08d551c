#include "version/flush_size.h"

#include <algorithm>
#include <cmath>

namespace ebbtide {
namespace {
constexpr double kMemory = 8;    // number of full memtables that the average remembers
constexpr double kRestored = 4;  // a share from the manifest counts as this many memtables
// The least weight, in full memtables, with which the average is used. Small flushes alone are not representative.
constexpr double kEnough = 0.25;
constexpr double kHysteresis = 0.25;  // the share in use changes when the average differs from it by more than this fraction
}  // namespace

std::uint64_t FlushShare::bytes(std::uint32_t share, std::uint64_t memtable_size) {
  if (share == 0) return memtable_size;
  // Two products, since memtable_size * share may overflow.
  return memtable_size / kOne * share + memtable_size % kOne * share / kOne;
}

std::optional<std::uint32_t> FlushSize::add(double full_memtables, std::uint64_t written, std::uint64_t memtable_size,
                                            std::uint32_t in_force) {
  if (full_memtables <= 0 || memtable_size == 0) return std::nullopt;
  if (weight_ == 0 && in_force != 0) {
    mean_ = in_force;
    weight_ = kRestored;
  }
  const double share = static_cast<double>(written) * FlushShare::kOne / (full_memtables * static_cast<double>(memtable_size));
  const double weight = std::min(full_memtables, kMemory);
  weight_ = std::min(weight_ + weight, kMemory);
  mean_ += (std::min<double>(share, FlushShare::kMost) - mean_) * weight / weight_;
  if (weight_ < kEnough) return std::nullopt;
  const auto now = static_cast<std::uint32_t>(std::lround(std::clamp<double>(mean_, FlushShare::kLeast, FlushShare::kMost)));
  if (in_force != 0 && std::abs(static_cast<double>(now) - in_force) <= kHysteresis * in_force) return std::nullopt;
  return now;
}

}  // namespace ebbtide

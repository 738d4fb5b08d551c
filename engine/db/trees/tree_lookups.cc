#include "db/trees/tree_lookups.h"

#include <memory>

namespace ebbtide {
namespace {

constexpr std::uint64_t kEnoughLookups = 4096;
constexpr double kLeastArrivals = 1.0 / 16;

}  // namespace

TreeLookups::~TreeLookups() {
  for (const auto& place : slots_) delete place.load(std::memory_order_relaxed);
}

TreeLookups::Slot& TreeLookups::make_slot(std::atomic<Slot*>& place) {
  auto fresh = std::make_unique<Slot>();
  Slot* other = nullptr;  // the slot that another thread has stored meanwhile
  if (!place.compare_exchange_strong(other, fresh.get(), std::memory_order_acq_rel, std::memory_order_acquire)) return *other;
  return *fresh.release();
}

LookupsByLevel TreeLookups::total() const {
  LookupsByLevel sum{};
  for (const auto& place : slots_) {
    const Slot* const slot = place.load(std::memory_order_acquire);
    if (slot == nullptr) continue;
    for (std::size_t l = 0; l < kLookupLevels; ++l) {
      sum[l].denied += slot->levels[l].denied.load(std::memory_order_relaxed);
      sum[l].in_vain += slot->levels[l].in_vain.load(std::memory_order_relaxed);
      sum[l].found += slot->levels[l].found.load(std::memory_order_relaxed);
    }
  }
  return sum;
}

TileUse TreeLookups::tile_use() const {
  TileUse sum;
  for (const auto& place : slots_) {
    const Slot* const slot = place.load(std::memory_order_acquire);
    if (slot == nullptr) continue;
    sum.pages_in_vain += slot->pages_in_vain.load(std::memory_order_relaxed);
    sum.iterators += slot->iterators.load(std::memory_order_relaxed);
    sum.range_deletes += slot->range_deletes.load(std::memory_order_relaxed);
  }
  return sum;
}

std::optional<Arrivals> measured_arrivals(const Arrivals& before, const LookupsByLevel& lookups,
                                          const std::array<std::uint64_t, kLookupLevels>& runs) {
  Arrivals now{};
  std::uint64_t most_reached = 0;
  double most = 0;
  for (std::size_t l = 0; l < kLookupLevels; ++l) {
    const std::uint64_t missed = lookups[l].denied + lookups[l].in_vain, n = std::max<std::uint64_t>(runs[l], 1);
    most_reached = std::max(most_reached, (missed + lookups[l].found) / n);
    now[l] = static_cast<double>(missed) / static_cast<double>(n);
    most = std::max(most, now[l]);
  }
  if (most_reached < kEnoughLookups) return std::nullopt;
  for (std::size_t l = 0; l < kLookupLevels; ++l) {
    const bool unknown = lookups[l].denied + lookups[l].in_vain + lookups[l].found == 0;
    now[l] = unknown || most == 0 ? 1 : std::max(kLeastArrivals, now[l] / most);
    now[l] = (before[l] + now[l]) / 2;
  }
  return now;
}

}  // namespace ebbtide

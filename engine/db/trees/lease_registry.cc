#include "db/trees/lease_registry.h"

#include <utility>

#include "base/oldest.h"

namespace ebbtide {

std::shared_ptr<Lease> LeaseRegistry::lease(std::shared_ptr<const TreeView> view, SeqNum seq, Millis now) {
  auto lease = std::make_shared<Lease>(std::move(view), seq, now, count_);
  MutexLock lock(mutex_);
  if (leases_.size() >= 2 * count() + 16) {
    std::erase_if(leases_, [](const std::weak_ptr<Lease>& held) { return held.expired(); });
  }
  leases_.push_back(lease);
  return lease;
}

void LeaseRegistry::revoke_if(const std::function<bool(const TreeView& view)>& hinders) {
  std::vector<std::shared_ptr<Lease>> leases;  // a lease that ends in this function frees its view after the mutex is released
  {
    MutexLock lock(mutex_);
    for (const std::weak_ptr<Lease>& held : leases_) {
      if (auto lease = held.lock(); lease != nullptr && !lease->revoked()) leases.push_back(std::move(lease));
    }
  }
  for (const std::shared_ptr<Lease>& lease : leases) {
    if (!hinders(*lease->view())) continue;
    lease->revoke();
    revoked_.fetch_add(1, std::memory_order_relaxed);
  }
}

Millis LeaseRegistry::oldest_taken() const {
  Millis oldest = 0;
  std::vector<std::shared_ptr<Lease>> leases;
  MutexLock lock(mutex_);
  for (const std::weak_ptr<Lease>& held : leases_) {
    if (auto lease = held.lock(); lease != nullptr) {
      keep_oldest(&oldest, lease->taken());
      leases.push_back(std::move(lease));
    }
  }
  return oldest;
}

}  // namespace ebbtide

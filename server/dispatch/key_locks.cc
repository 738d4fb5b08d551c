#include "dispatch/key_locks.h"

#include <algorithm>

namespace ebbtide {

KeyLocks::Guard::Guard(KeyLocks& locks, std::span<const LookupKey> keys, DatabaseId database) {
  if (!locks.enabled() || keys.empty()) return;
  locks_ = &locks;
  if (keys.size() == 1) {
    single_ = stripe_of(keys.front(), database);
    locks.stripes_[single_].lock();
    return;
  }
  stripes_.reserve(keys.size());
  for (const LookupKey& key : keys) stripes_.push_back(stripe_of(key, database));
  lock_stripes();
}

KeyLocks::Guard::Guard(KeyLocks& locks, std::vector<std::uint16_t> stripes) {
  if (!locks.enabled() || stripes.empty()) return;
  locks_ = &locks;
  stripes_ = std::move(stripes);
  lock_stripes();
}

void KeyLocks::Guard::lock_stripes() {
  std::sort(stripes_.begin(), stripes_.end());
  stripes_.erase(std::unique(stripes_.begin(), stripes_.end()), stripes_.end());
  for (const std::uint16_t stripe : stripes_) locks_->stripes_[stripe].lock();
}

KeyLocks::Guard::Guard(KeyLocks& locks) {
  if (!locks.enabled()) return;
  locks_ = &locks;
  all_ = true;
  for (std::mutex& stripe : locks.stripes_) stripe.lock();
}

KeyLocks::Guard::~Guard() {
  if (locks_ == nullptr) return;
  if (all_) {
    for (std::mutex& stripe : locks_->stripes_) stripe.unlock();
  } else if (stripes_.empty()) {
    locks_->stripes_[single_].unlock();
  } else {
    for (const std::uint16_t stripe : stripes_) locks_->stripes_[stripe].unlock();
  }
}

}  // namespace ebbtide

#include "command/key_locks.h"

#include <algorithm>

namespace ebbtide {
namespace {

std::uint16_t stripe_of(const LookupKey& key, DatabaseId database) {
  return static_cast<std::uint16_t>(((key.hash >> 32) + database * 0x9e37u) % KeyLocks::kStripes);
}

}  // namespace

KeyLocks::Guard::Guard(KeyLocks& locks, std::span<const LookupKey> keys, DatabaseId database) {
  if (!locks.enabled_ || keys.empty()) return;
  locks_ = &locks;
  if (keys.size() == 1) {
    single_ = stripe_of(keys.front(), database);
    locks.stripes_[single_].lock();
    return;
  }
  stripes_.reserve(keys.size());
  for (const LookupKey& key : keys) stripes_.push_back(stripe_of(key, database));
  std::sort(stripes_.begin(), stripes_.end());
  stripes_.erase(std::unique(stripes_.begin(), stripes_.end()), stripes_.end());
  for (const std::uint16_t stripe : stripes_) locks.stripes_[stripe].lock();
}

KeyLocks::Guard::Guard(KeyLocks& locks) {
  if (!locks.enabled_) return;
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

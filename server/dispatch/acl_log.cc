#include "dispatch/acl_log.h"

#include <algorithm>
#include <utility>

namespace ebbtide {

void AclLog::add(AclLogEntry entry) {
  constexpr std::size_t kObjectBytes = 1024;
  entry.object.resize(std::min(entry.object.size(), kObjectBytes));
  std::lock_guard lock(mutex_);
  auto at = entries_.begin();
  for (std::size_t i = 0; at != entries_.end() && i < kCompared; ++at, ++i) {
    const bool near = entry.updated_ms - at->updated_ms <= kGroupMs;
    if (!near || at->reason != entry.reason || at->context != entry.context || at->object != entry.object ||
        at->user != entry.user)
      continue;
    ++at->count;
    at->updated_ms = entry.updated_ms;
    at->client = std::move(entry.client);
    return entries_.splice(entries_.begin(), entries_, at);
  }
  entry.id = next_id_++;
  entry.count = 1;
  entry.created_ms = entry.updated_ms;
  entries_.push_front(std::move(entry));
  while (entries_.size() > limit_) entries_.pop_back();
}

std::vector<AclLogEntry> AclLog::newest(std::size_t most) const {
  std::lock_guard lock(mutex_);
  std::vector<AclLogEntry> out;
  for (auto at = entries_.begin(); at != entries_.end() && out.size() < most; ++at) out.push_back(*at);
  return out;
}

void AclLog::set_limit(std::size_t entries) {
  std::lock_guard lock(mutex_);
  limit_ = entries;
  while (entries_.size() > limit_) entries_.pop_back();
}

void AclLog::reset() {
  std::lock_guard lock(mutex_);
  entries_.clear();
}

}  // namespace ebbtide

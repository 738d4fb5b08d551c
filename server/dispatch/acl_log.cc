#include "dispatch/acl_log.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "resp/disposal.h"

namespace ebbtide {
namespace {

std::size_t memory_of(const std::string& text) {
  static const std::size_t inside = std::string().capacity();
  return text.capacity() > inside ? text.capacity() + 1 : 0;
}

std::size_t memory_of(const AclLogEntry& entry) {
  constexpr std::size_t kNodeBytes = 2 * sizeof(void*);
  return sizeof(entry) + kNodeBytes + memory_of(entry.context) + memory_of(entry.object) + memory_of(entry.user) +
         memory_of(entry.client);
}

/// Frees entries. Event loops call this, so many entries are freed on another thread.
void drop(std::list<AclLogEntry> entries) {
  constexpr std::size_t kPiecesPerEntry = 4;
  if (entries.size() * kPiecesPerEntry < kDisposedPieces) return;
  let_go(std::make_shared<std::list<AclLogEntry>>(std::move(entries)), true);
}

}  // namespace

void AclLog::add(AclLogEntry entry) {
  constexpr std::size_t kObjectBytes = 1024;
  // substr() copies, so the cut part is freed, too.
  if (entry.object.size() > kObjectBytes) entry.object = entry.object.substr(0, kObjectBytes);
  Entries removed;  // freed after the lock is released
  std::lock_guard lock(mutex_);
  auto at = entries_.begin();
  for (std::size_t i = 0; at != entries_.end() && i < kCompared; ++at, ++i) {
    const bool near = entry.updated_ms - at->updated_ms <= kGroupMs;
    if (!near || at->reason != entry.reason || at->context != entry.context || at->object != entry.object ||
        at->user != entry.user)
      continue;
    bytes_ -= memory_of(*at);
    ++at->count;
    at->updated_ms = entry.updated_ms;
    at->client = std::move(entry.client);
    bytes_ += memory_of(*at);
    entries_.splice(entries_.begin(), entries_, at);
    removed = keep_limits();
    return;
  }
  entry.id = next_id_++;
  entry.count = 1;
  entry.created_ms = entry.updated_ms;
  bytes_ += memory_of(entry);
  entries_.push_front(std::move(entry));
  removed = keep_limits();
}

AclLog::Entries AclLog::keep_limits() {
  Entries removed;
  while (!entries_.empty() && (entries_.size() > limit_ || bytes_ > most_bytes_)) {
    bytes_ -= memory_of(entries_.back());
    removed.splice(removed.begin(), entries_, std::prev(entries_.end()));
  }
  memory.follow(bytes_);
  return removed;
}

std::vector<AclLogEntry> AclLog::newest(std::size_t most) const {
  std::lock_guard lock(mutex_);
  std::vector<AclLogEntry> out;
  out.reserve(std::min(most, entries_.size()));
  for (auto at = entries_.begin(); at != entries_.end() && out.size() < most; ++at) out.push_back(*at);
  return out;
}

std::size_t AclLog::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t AclLog::memory_bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

void AclLog::set_budget(std::uint64_t bytes) {
  Entries removed;
  {
    std::lock_guard lock(mutex_);
    most_bytes_ = std::min(bytes / kBudgetPart, kMostBytes);
    removed = keep_limits();
  }
  drop(std::move(removed));
}

void AclLog::set_limit(std::size_t entries) {
  Entries removed;
  {
    std::lock_guard lock(mutex_);
    limit_ = entries;
    removed = keep_limits();
  }
  drop(std::move(removed));
}

void AclLog::reset() {
  Entries removed;
  {
    std::lock_guard lock(mutex_);
    removed.swap(entries_);
    bytes_ = 0;
    memory.follow(bytes_);
  }
  drop(std::move(removed));
}

}  // namespace ebbtide

#include "blocking/key_waiters.h"

namespace ebbtide {

KeyWaiters::Wait::Wait(KeyWaiters& waiters, const Client& client, DatabaseId database, std::span<const LookupKey> keys)
    : waiters_(waiters), loop_(client.loop), client_id_(client.id) {
  std::unique_lock lock(waiters_.mutex_);
  ticket_ = waiters_.next_ticket_++;
  waiters_.waits_.fetch_add(1, std::memory_order_relaxed);
  places_.reserve(keys.size());
  for (const LookupKey& key : keys) {
    const auto [at, is_new] = waiters_.queues_.try_emplace(Name(database, key.key));
    if (is_new) at->second.name = &at->first;
    ++at->second.waits;
    places_.push_back({&at->second, Baton::kNone, std::nullopt});
    waiters_.fall_asleep(*this, places_.size() - 1);
    if (places_.size() % kPlacesAtOnce == 0) let_others_in(lock);
  }
}

// Before this wait passes on its batons, it removes all of its entries that may be woken: otherwise it could get its own baton
// back.
KeyWaiters::Wait::~Wait() {
  std::unique_lock lock(waiters_.mutex_);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    if (place.sleeper) place.queue->asleep.erase(*std::exchange(place.sleeper, std::nullopt));
    if ((i + 1) % kPlacesAtOnce == 0) let_others_in(lock);
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.baton != Baton::kNone) waiters_.wake_first(*place.queue);
    if (--place.queue->waits == 0) waiters_.queues_.erase(waiters_.queues_.find(*place.queue->name));
    if ((i + 1) % kPlacesAtOnce == 0) let_others_in(lock);
  }
  waiters_.waits_.fetch_sub(1, std::memory_order_relaxed);
}

void KeyWaiters::Wait::let_others_in(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  lock.lock();
}

void KeyWaiters::Wait::begin_look() {
  std::lock_guard lock(waiters_.mutex_);
  for (const std::size_t place : batons_) {
    if (places_[place].baton != Baton::kWoken) continue;
    places_[place].baton = Baton::kLooking;
    waiters_.fall_asleep(*this, place);
  }
}

bool KeyWaiters::Wait::found_nothing() {
  std::lock_guard lock(waiters_.mutex_);
  std::erase_if(batons_, [this](std::size_t place) {
    if (places_[place].baton == Baton::kWoken) return false;
    places_[place].baton = Baton::kNone;
    return true;
  });
  return !batons_.empty();
}

// Takes the lock only for operations that may concern a waiting client. Most batches have no such operation.
std::vector<KeyWaiters::Written> KeyWaiters::waited_for(const WriteBatch& batch, bool own) const {
  std::vector<Written> found;
  std::unique_lock lock(mutex_, std::defer_lock);
  WriteBatch::Op op;
  for (std::size_t cursor = 0; batch.next_command_op(&cursor, &op);) {
    if (op.element) continue;
    const bool has_elements = op.kind == OpKind::kHeader || (op.kind == OpKind::kPut && op.value_kind == EntryKind::kCompact);
    const bool ends_elements =
        own && (op.kind == OpKind::kPut || op.kind == OpKind::kTombstone || op.kind == OpKind::kRangeTombstone);
    if (!has_elements && !ends_elements && op.kind != OpKind::kSwapDatabases) continue;
    if (!lock.owns_lock()) lock.lock();
    if (op.kind != OpKind::kSwapDatabases) {
      Name name(op.tree, op.key);
      if (queues_.contains(name)) found.push_back({name.first, std::move(name.second), has_elements});
    } else {
      for (const auto& [name, queue] : queues_) {
        if (name.first == op.lo || name.first == op.hi) found.push_back({name.first, name.second, true});
      }
    }
  }
  return found;
}

void KeyWaiters::Wait::has_written(const std::vector<Written>& keys) {
  std::lock_guard lock(waiters_.mutex_);
  for (const Written& key : keys) {
    const auto at = waiters_.queues_.find(Name(key.database, key.key));
    for (std::size_t i = 0; at != waiters_.queues_.end() && i < batons_.size(); ++i) {
      Place& place = places_[batons_[i]];
      if (place.queue == &at->second && place.baton == Baton::kLooking) place.baton = Baton::kNone;
    }
  }
}

void KeyWaiters::wake(const std::vector<Written>& keys) {
  std::lock_guard lock(mutex_);
  for (const Written& key : keys) {
    if (!key.has_elements) continue;
    const auto at = queues_.find(Name(key.database, key.key));
    if (at != queues_.end()) wake_first(at->second);
  }
}

void KeyWaiters::wake_first(Queue& queue) {
  const auto first = queue.asleep.begin();
  if (first == queue.asleep.end()) return;
  const auto [wait, place] = first->second;
  queue.asleep.erase(first);
  wait->places_[place].sleeper.reset();
  // If the entry has a baton already, it is in batons_.
  if (wait->places_[place].baton == Wait::Baton::kNone) wait->batons_.push_back(place);
  wait->places_[place].baton = Wait::Baton::kWoken;
  wait->loop_->resume(wait->client_id_);
}

void KeyWaiters::fall_asleep(Wait& wait, std::size_t place) {
  Wait::Place& entered = wait.places_[place];
  entered.sleeper = entered.queue->asleep.emplace(wait.ticket_, Sleeper{&wait, place});
}

}  // namespace ebbtide

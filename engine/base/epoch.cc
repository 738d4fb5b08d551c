#include "base/epoch.h"

#include <algorithm>
#include <limits>

#include "base/invariant.h"

namespace ebbtide {

// Each thread has one slot per Epoch, on its own cache line. `epoch` is 0 while the thread has no guard, otherwise the global
// epoch when the guard began. A slot is never freed before the Epoch, since another thread may be reading it.
struct alignas(64) Epoch::Slot {
  std::atomic<std::uint64_t> epoch{0};
  std::atomic<bool> taken{true};
  unsigned depth = 0;  // number of nested guards; only the slot's thread uses it
  Slot* next = nullptr;
};

namespace {

std::atomic<std::uint64_t> next_id{1};
constexpr std::size_t kCollectEvery = 64;

// The ids of the Epochs that exist. A thread that ends returns its slot only to an Epoch that still exists.
struct LiveEpochs {
  Mutex mutex;
  std::vector<std::uint64_t> ids GUARDED_BY(mutex);
};
LiveEpochs& live_epochs() {
  static auto* live = new LiveEpochs;  // never destroyed, since threads may end later
  return *live;
}

struct ThreadSlots {
  struct Held {
    std::uint64_t id;
    void* slot;
    std::atomic<bool>* taken;
  };
  std::vector<Held> held;
  std::uint64_t last_id = 0;
  void* last_slot = nullptr;
  ~ThreadSlots() {
    MutexLock lock(live_epochs().mutex);
    auto& ids = live_epochs().ids;
    for (const Held& h : held) {
      if (std::find(ids.begin(), ids.end(), h.id) != ids.end()) h.taken->store(false, std::memory_order_release);
    }
  }
};
thread_local ThreadSlots thread_slots;

}  // namespace

Epoch::Epoch() : id_(next_id.fetch_add(1)) {
  MutexLock lock(live_epochs().mutex);
  live_epochs().ids.push_back(id_);
}

Epoch::~Epoch() {
  {
    MutexLock lock(live_epochs().mutex);
    std::erase(live_epochs().ids, id_);
  }
  // A `free` function may retire further objects, so the loop repeats until no retired object is left.
  for (;;) {
    std::vector<Retired> rest;
    {
      MutexLock lock(mutex_);
      rest.swap(retired_);
    }
    if (rest.empty()) break;
    for (Retired& r : rest) r.free();
  }
  for (Slot* slot = slots_.load(); slot != nullptr;) {
    ASSERT_MSG(slot->epoch.load() == 0, "a guard must not outlive its Epoch");
    Slot* next = slot->next;
    delete slot;
    slot = next;
  }
}

Epoch::Slot* Epoch::slot() {
  ThreadSlots& mine = thread_slots;
  if (mine.last_id == id_) return static_cast<Slot*>(mine.last_slot);
  Slot* found = nullptr;
  for (const auto& held : mine.held) {
    if (held.id == id_) found = static_cast<Slot*>(held.slot);
  }
  if (found == nullptr) {
    for (Slot* slot = slots_.load(std::memory_order_acquire); slot != nullptr && found == nullptr; slot = slot->next) {
      bool expected = false;
      if (!slot->taken.load(std::memory_order_relaxed) && slot->taken.compare_exchange_strong(expected, true)) found = slot;
    }
    if (found == nullptr) {
      found = new Slot;
      found->next = slots_.load(std::memory_order_relaxed);
      while (!slots_.compare_exchange_weak(found->next, found, std::memory_order_release, std::memory_order_relaxed)) {
      }
    }
    {
      // Slots of destroyed Epochs are removed from the thread's list.
      MutexLock lock(live_epochs().mutex);
      const auto& ids = live_epochs().ids;
      std::erase_if(mine.held, [&](const auto& h) { return std::find(ids.begin(), ids.end(), h.id) == ids.end(); });
    }
    mine.held.push_back({id_, found, &found->taken});
  }
  mine.last_id = id_;
  mine.last_slot = found;
  return found;
}

void Epoch::enter() {
  Slot* s = slot();
  if (s->depth++ != 0) return;
  // The store must be visible before this thread loads shared pointers. So if a writer does not see the store, these loads see
  // the pointers after the writer's unlink, and do not find the unlinked objects.
  s->epoch.store(global_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Epoch::leave() {
  Slot* s = slot();
  DEBUG_ASSERT(s->depth > 0);
  if (--s->depth == 0) s->epoch.store(0, std::memory_order_release);
}

std::uint64_t Epoch::oldest_active() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
  for (Slot* slot = slots_.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
    const std::uint64_t epoch = slot->epoch.load(std::memory_order_seq_cst);
    if (epoch != 0) oldest = std::min(oldest, epoch);
  }
  return oldest;
}

void Epoch::retire(std::function<void()> free) {
  bool full = false;
  {
    MutexLock lock(mutex_);
    // A reader that enters from now on gets a larger epoch than the retired object's, and cannot see the object, which was
    // unlinked before this call.
    retired_.push_back({global_.fetch_add(1, std::memory_order_seq_cst), std::move(free)});
    full = retired_.size() % kCollectEvery == 0;
  }
  if (full) collect();
}

void Epoch::collect() {
  std::vector<Retired> ready;
  {
    MutexLock lock(mutex_);
    if (retired_.empty()) return;
    const std::uint64_t oldest = oldest_active();
    // A reader in epoch e may use objects that were retired in epoch e or later. The list is in epoch order, so the objects
    // that can be freed are at its beginning.
    auto end = std::find_if(retired_.begin(), retired_.end(), [&](const Retired& r) { return r.epoch >= oldest; });
    ready.assign(std::make_move_iterator(retired_.begin()), std::make_move_iterator(end));
    retired_.erase(retired_.begin(), end);
  }
  for (Retired& r : ready) r.free();
}

std::size_t Epoch::pending() const {
  MutexLock lock(mutex_);
  return retired_.size();
}

}  // namespace ebbtide

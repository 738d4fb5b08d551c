#include "cache/striped_counter.h"

#include <vector>

#include "base/mutex.h"

namespace ebbtide {
namespace {

/// The stripes that no running thread has. Never destroyed, since threads may end after static objects are destroyed.
class FreeStripes {
 public:
  unsigned take() {
    MutexLock lock(mutex_);
    if (!returned_.empty()) {
      const unsigned stripe = returned_.back();
      returned_.pop_back();
      return stripe;
    }
    return next_ < kSharedStripe ? next_++ : kSharedStripe;
  }
  void give_back(unsigned stripe) {
    if (stripe == kSharedStripe) return;
    MutexLock lock(mutex_);
    returned_.push_back(stripe);
  }

 private:
  Mutex mutex_;
  std::vector<unsigned> returned_ GUARDED_BY(mutex_);
  unsigned next_ GUARDED_BY(mutex_) = 0;
};

FreeStripes& free_stripes() {
  static auto* free = new FreeStripes;
  return *free;
}

struct HeldStripe {
  unsigned stripe = free_stripes().take();
  ~HeldStripe() { free_stripes().give_back(stripe); }
};

}  // namespace

unsigned thread_stripe() {
  // Hot paths read the plain copy. The holder, which has a destructor, is accessed once per thread.
  thread_local unsigned cached = kStripes;
  if (cached == kStripes) [[unlikely]] {
    thread_local const HeldStripe held;
    cached = held.stripe;
  }
  return cached;
}

}  // namespace ebbtide

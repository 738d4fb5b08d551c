// Leased views. A lease holds a tree's view, and so the files that the view reads, until the lease ends. A lease is revoked
// before a file that only this lease keeps breaks a delete deadline (db/purge/retention.h). Readers notice at the next page.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include <engine/status.h>
#include <engine/types.h>
#include "base/mutex.h"

namespace ebbtide {

struct TreeView;

class Lease {
 public:
  /// The lease counts itself in `count`, the number of existing leases, which must outlive the lease.
  Lease(std::shared_ptr<const TreeView> view, SeqNum seq, Millis taken, std::atomic<std::uint64_t>& count)
      : view_(std::move(view)), seq_(seq), taken_(taken), count_(count) {
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  ~Lease() { count_.fetch_sub(1, std::memory_order_relaxed); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  [[nodiscard]] const TreeView* view() const { return view_.get(); }
  [[nodiscard]] SeqNum seq() const { return seq_; }
  [[nodiscard]] Millis taken() const { return taken_; }  ///< engine time at which the lease was taken
  void revoke() { revoked_.store(true, std::memory_order_release); }
  [[nodiscard]] bool revoked() const { return revoked_.load(std::memory_order_acquire); }

 private:
  const std::shared_ptr<const TreeView> view_;
  const SeqNum seq_;
  const Millis taken_;
  std::atomic<bool> revoked_{false};
  std::atomic<std::uint64_t>& count_;
};

/// Returns the error for reads through a revoked lease.
inline Status revoked_view() { return Status::revoked("read view revoked to meet a delete deadline; retry"); }

/// Makes and revokes leases; has weak references to all of them. Thread-safe. Must outlive its leases.
class LeaseRegistry {
 public:
  std::shared_ptr<Lease> lease(std::shared_ptr<const TreeView> view, SeqNum seq, Millis now) EXCLUDES(mutex_);
  /// Calls `hinders` with the view of each lease, without a lock. If it returns true, the view keeps deleted bytes that would
  /// miss a deadline, and the lease is revoked.
  void revoke_if(const std::function<bool(const TreeView& view)>& hinders) EXCLUDES(mutex_);

  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  /// Returns the engine time at which the oldest lease was taken; 0 = there is none.
  [[nodiscard]] Millis oldest_taken() const EXCLUDES(mutex_);
  /// Returns the number of leases revoked since the start.
  [[nodiscard]] std::uint64_t revoked() const { return revoked_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> count_{0}, revoked_{0};
  mutable Mutex mutex_;
  // The list also contains ended leases, which are removed when the list has doubled.
  std::vector<std::weak_ptr<Lease>> leases_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide

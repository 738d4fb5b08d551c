// Decides when writes wait, and when they are refused.
//
// Pressure (pressure.h) is measured when the shape of a tree changes and on each tick. Ticks come late while the log waits for a
// sync, so the pressure is also measured when commits have added 1 / 64 of the memory budget (commit_counter.h). Other commits
// only read a few flags.
//
// Slowdown: at pressure p a byte costs p * kSlowNsPerByte; above pressure kSteep, a factor on this price rises to kSteepest. So
// writes become slower than any compaction before they have to stop. A thread that may sleep does so once its delays add up to a
// millisecond. A caller that must not sleep gets the next free slot of a queue that moves at the reduced rate. All clients
// together write at that rate.
//
// Stop: writes wait until the pressure falls. If no compaction can end the stop, writes that add data are refused.
//
// Only writes that add data are refused. Deletes, range deletes and FLUSHDB work when disk or memory is full, and no pressure
// delays a FLUSHDB. The tree of an emptied database stays in the manifest until the manifest is synced: a FLUSHDB waits while
// there are too many such trees.
//
// The stalled time is the sum of all delays by slowdowns plus the time for which writes are stopped. A stop is counted once,
// however many clients wait.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

#include <engine/status.h>
#include <engine/write_batch.h>
#include "base/clock.h"
#include "base/mutex.h"
#include "db/write/pressure.h"

namespace ebbtide {

/// Like check_batch(), for a batch that may be too long.
Status check_long_batch(const WriteBatch& batch, std::uint32_t databases);

/// Returns kInvalidArgument for a batch that can never be committed: the batch or one of its keys is too long, or the batch
/// empties databases too often. `databases`: Settings::databases. Pure function.
inline Status check_batch(const WriteBatch& batch, std::uint32_t databases) {
  if (batch.payload_bytes() <= kMaxKeyBytes && batch.flushes() == 0) [[likely]]  // a key cannot be longer than its batch
    return Status::ok();
  return check_long_batch(batch, databases);
}

/// Delays and refuses writes. Thread-safe.
class WriteController {
 public:
  struct Env {
    const Clock* clock = nullptr;
    bool threads = true;                           ///< false: a waiting caller runs background tasks
    std::function<WriteLoad()> load;               ///< called by measure(), one call at a time
    std::function<void(const MemoryUse&)> divide;  ///< called by measure(): MemoryBudget::divide()
    std::function<Status()> write_status;          ///< returns kReadOnly while the database is read-only
    std::function<bool()> closing;
    std::function<std::uint64_t()> pending_drops;  ///< returns the number of dropped trees that are still in the manifest
    std::function<bool()> run_task;                ///< runs a background task; returns false if there is none
  };
  explicit WriteController(Env env) : env_(std::move(env)) {}

  /// Measures the pressure and divides the memory. The caller must not hold a lock that Env::load takes.
  void measure() EXCLUDES(measure_mutex_, wait_mutex_);
  /// Like measure(), but does nothing while another thread is measuring: for event loops. `relieved`: true if memtables that use
  /// too much memory were already chosen for flushes. If false, writes are not refused for lack of memory, since the next flushes
  /// may free enough.
  void try_measure(bool relieved) EXCLUDES(measure_mutex_, wait_mutex_);
  /// Returns kNoSpace or kOutOfMemory if the batch adds data and there is no room for it.
  Status refuse(const WriteBatch& batch, bool disk_full) const {
    const bool memory_full = out_of_memory_.load(std::memory_order_relaxed);
    if (!disk_full && !memory_full && !stuck()) [[likely]]
      return Status::ok();
    return refuse_data(batch, disk_full, memory_full);
  }
  /// Waits as long as the pressure requires. Returns an error if the database becomes read-only during the wait, or if the stop
  /// cannot end.
  Status await(const WriteBatch& batch) EXCLUDES(wait_mutex_);
  /// Like await(), for a caller that must not sleep: returns the ms to wait before the next attempt; 0 = commit now. `waited`:
  /// true if the batch has waited for its slot of a slowdown. Requires that refuse() returned ok.
  std::uint32_t delay_ms(const WriteBatch& batch, bool waited) {
    if (permille() == 0 && batch.flushes() == 0) [[likely]]
      return 0;
    return reserve_slot(batch, waited);
  }
  /// Makes callers of await() check again: the database became read-only, or the manifest has fewer dropped trees.
  void wake() EXCLUDES(wait_mutex_);

  /// True if writes are stopped.
  [[nodiscard]] bool stopped() const { return permille() >= 1000; }
  /// True if writes are stopped, and the compactions that would end the stop fail.
  [[nodiscard]] bool stuck() const { return stuck_.load(std::memory_order_relaxed) && stopped(); }
  [[nodiscard]] std::uint64_t stalled_ns(StallReason reason) const {
    return stalled_ns_[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
  }

 private:
  [[nodiscard]] std::uint32_t permille() const { return permille_.load(std::memory_order_relaxed); }
  Status refuse_data(const WriteBatch& batch, bool disk_full, bool memory_full) const;
  void measure_locked(bool relieved) REQUIRES(measure_mutex_) EXCLUDES(wait_mutex_);
  std::uint32_t reserve_slot(const WriteBatch& batch, bool waited);
  Status sleep_off(const WriteBatch& batch, std::uint32_t pressure) EXCLUDES(wait_mutex_);
  Status await_until(const std::function<bool()>& done) EXCLUDES(wait_mutex_);
  void count_stall(std::uint64_t ns) {
    stalled_ns_[static_cast<std::size_t>(reason_.load(std::memory_order_relaxed))].fetch_add(ns, std::memory_order_relaxed);
  }

  const Env env_;
  // Every commit reads these values; measure() writes them.
  std::atomic<std::uint32_t> permille_{0};
  std::atomic<bool> stuck_{false}, out_of_memory_{false};
  std::atomic<StallReason> reason_{StallReason::kNone};

  std::array<std::atomic<std::uint64_t>, kStallReasons> stalled_ns_{};
  std::atomic<std::uint64_t> sleep_due_ns_{0};  // sum of short delays for which callers of await() have not slept yet
  std::atomic<std::uint64_t> next_slot_ns_{0};  // mono_ns() at which the next free slot begins

  Mutex measure_mutex_;  // held during a measurement, so that an older result does not replace a newer result
  std::uint64_t measured_ns_ GUARDED_BY(measure_mutex_) = 0;
  Mutex wait_mutex_;
  CondVar wake_;  // used with wait_mutex_
};

}  // namespace ebbtide

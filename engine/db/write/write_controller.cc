#include "db/write/write_controller.h"

#include <algorithm>
#include <string>

#include <engine/types.h>

namespace ebbtide {
namespace {

constexpr std::uint64_t kSlowNsPerByte = 200;  // delay for each byte at pressure 1000, without kSteepest: 5 MB/s
constexpr std::uint32_t kSteep = 800;          // pressure, in thousandths, above which a rising factor multiplies the delay
constexpr std::uint64_t kSteepest = 40;        // the factor at pressure 1000: writes then pass at 125 kB/s
constexpr std::uint64_t kSleepNs = 1'000'000;
constexpr std::uint64_t kLongestSleepMs = 100;  // longest delay of one batch by a slowdown
constexpr std::uint64_t kPollMs = 10;           // ms between two checks of a batch that waits for the end of a stop
constexpr std::uint64_t kMaxPendingDrops = 64;
constexpr std::uint32_t kMaxFlushes = 256;  // most databases that one batch may empty, unless there are more databases

/// Returns the delay of a batch under a slowdown, in ns.
std::uint64_t price_ns(const WriteBatch& batch, std::uint32_t pressure) {
  const std::uint64_t price = batch.payload_bytes() * kSlowNsPerByte * pressure / 1000;
  if (pressure <= kSteep) return price;
  const std::uint64_t steep = pressure - kSteep, all = 1000 - kSteep;
  return price + price * (kSteepest - 1) * steep * steep / (all * all);
}

Status stuck_error() { return Status::no_space("too many sorted runs, and compactions fail; the text log has the reason"); }

}  // namespace

Status check_long_batch(const WriteBatch& batch, std::uint32_t databases) {
  TRY(batch.check_length());
  if (batch.longest_key() > kMaxKeyBytes) {  // a replay of the log would refuse the key
    return Status::invalid_argument("a key has " + std::to_string(batch.longest_key()) + " bytes; at most " +
                                    std::to_string(kMaxKeyBytes) + " are allowed");
  }
  if (const std::uint32_t most = std::max(kMaxFlushes, databases * (1 + kMaxIndexTrees)); batch.flushes() > most) {
    return Status::invalid_argument("a batch empties databases " + std::to_string(batch.flushes()) + " times; at most " +
                                    std::to_string(most) + " are allowed");
  }
  return Status::ok();
}

void WriteController::measure() {
  MutexLock lock(measure_mutex_);
  measure_locked(true);
}

void WriteController::try_measure(bool relieved) {
  if (!measure_mutex_.try_lock()) return;
  measure_locked(relieved);
  measure_mutex_.unlock();
}

void WriteController::measure_locked(bool relieved) {
  const WriteLoad load = env_.load();
  const Pressure pressure = pressure_of(load);
  const std::uint64_t at = env_.clock->mono_ns();
  const std::uint32_t before = permille();
  if (before >= 1000) count_stall(at - measured_ns_);
  measured_ns_ = at;
  if (relieved || !pressure.out_of_memory) out_of_memory_.store(pressure.out_of_memory, std::memory_order_relaxed);
  stuck_.store(pressure.stuck, std::memory_order_relaxed);
  reason_.store(pressure.reason, std::memory_order_relaxed);
  permille_.store(pressure.permille, std::memory_order_relaxed);
  env_.divide(load.memory);
  if (pressure.permille < before) wake();
}

void WriteController::wake() {
  MutexLock lock(wait_mutex_);
  wake_.notify_all();
}

Status WriteController::refuse_data(const WriteBatch& batch, bool disk_full, bool memory_full) const {
  if (!batch.adds_data()) return Status::ok();
  if (disk_full) return Status::no_space("the disk is full, or storage.max_disk_bytes is used up");
  if (memory_full) return Status::out_of_memory("storage.memory_budget is spent");
  return stuck_error();
}

Status WriteController::await(const WriteBatch& batch) {
  if (batch.flushes() != 0) return await_until([this] { return env_.pending_drops() <= kMaxPendingDrops; });
  const std::uint32_t pressure = permille();
  if (pressure == 0) return Status::ok();
  if (pressure < 1000) return sleep_off(batch, pressure);
  TRY(await_until([this] { return !stopped() || stuck(); }));
  return stuck() && batch.adds_data() ? stuck_error() : Status::ok();
}

// Returns the ms to wait. The wait is limited to kLongestSleepMs for any number of waiting batches.
std::uint32_t WriteController::reserve_slot(const WriteBatch& batch, bool waited) {
  if (batch.flushes() != 0) return env_.pending_drops() > kMaxPendingDrops ? kPollMs : 0;
  const std::uint32_t pressure = permille();
  if (pressure >= 1000) return stuck() ? 0 : kPollMs;  // refuse() has already refused batches that add data
  if (pressure == 0 || waited) return 0;
  const std::uint64_t now = env_.clock->mono_ns();
  const std::uint64_t price = price_ns(batch, pressure), latest = now + kLongestSleepMs * kSleepNs;
  std::uint64_t slot = next_slot_ns_.load(std::memory_order_relaxed), begin = 0, end = 0;
  do {
    begin = std::min(std::max(slot, now), latest);
    end = std::min(begin + price, latest);
  } while (!next_slot_ns_.compare_exchange_weak(slot, end, std::memory_order_relaxed));
  count_stall(end - begin);
  return static_cast<std::uint32_t>((end - now) / kSleepNs);
}

Status WriteController::sleep_off(const WriteBatch& batch, std::uint32_t pressure) {
  const std::uint64_t price = price_ns(batch, pressure);
  if (sleep_due_ns_.fetch_add(price, std::memory_order_relaxed) + price < kSleepNs) return Status::ok();
  const std::uint64_t ms = std::min(sleep_due_ns_.exchange(0, std::memory_order_relaxed) / kSleepNs, kLongestSleepMs);
  count_stall(ms * kSleepNs);
  if (!env_.threads || ms == 0 || !env_.write_status().is_ok()) return Status::ok();
  MutexLock lock(wait_mutex_);
  wake_.wait_for(wait_mutex_, std::chrono::milliseconds(ms));
  return Status::ok();
}

// Waits until `done`. Without threads, the caller runs the tasks that it waits for. If there is no task, nothing can end the
// wait.
Status WriteController::await_until(const std::function<bool()>& done) {
  while (!done() && !env_.closing() && env_.write_status().is_ok()) {
    if (env_.threads) {
      MutexLock lock(wait_mutex_);
      wake_.wait_for(wait_mutex_, std::chrono::milliseconds(kPollMs));
    } else if (!env_.run_task()) {
      measure();
      break;
    }
  }
  return env_.write_status();
}

}  // namespace ebbtide

#include "db/background/disk_watch.h"

#include <algorithm>
#include <limits>

namespace ebbtide {
namespace {

constexpr std::uint64_t kLowDivisor = 20;      // `low` is 1 / 20 = 5 % of the disk
constexpr std::uint64_t kReserveDivisor = 16;  // the reserve is DiskWatchOptions::reserve_bytes, but at most 1 / 16 of the disk
constexpr std::uint64_t kFloorDivisor = 8;     // the floor is 1 / 8 of `low`
constexpr std::uint64_t kDeadlineDivisor = 2;  // the space for deadlines is at most 1 / 2 of `low` and the reserve together
// Smallest number of logged bytes between two measurements. A measurement is one system call.
constexpr std::uint64_t kShortestLook = 64 << 10;

}  // namespace

DiskWatch::DiskWatch(DiskWatchOptions options) : options_(std::move(options)), reserve_(*options_.fs, options_.dir) {}

std::uint64_t DiskWatch::wanted_reserve(const DiskSpace& space) const {
  return std::min(options_.reserve_bytes, space.total_bytes / kReserveDivisor);
}

// Returns `low`: 5 % of the disk. If max_disk_bytes is set, the limit of the files replaces the 5 %, and `low` is only the size
// of the reserve, but at most 5 %.
std::uint64_t DiskWatch::low(const DiskSpace& space) const {
  const std::uint64_t share = space.total_bytes / kLowDivisor;
  return options_.max_disk_bytes == 0 ? share : std::min(share, wanted_reserve(space));
}

Status DiskWatch::open() {
  TRY_ASSIGN(space, options_.fs->disk_space(options_.dir));
  TRY(reserve_.open(wanted_reserve(space)));
  look({});
  return Status::ok();
}

void DiskWatch::look(const Use& use) {
  MutexLock lock(mutex_);
  use_ = use;
  measure(use.logged_bytes);
}

bool DiskWatch::full(std::uint64_t logged_bytes) {
  if (logged_bytes >= look_again_at_.load(std::memory_order_relaxed) && mutex_.try_lock()) {
    measure(logged_bytes);
    mutex_.unlock();
  }
  return full_.load(std::memory_order_relaxed);
}

void DiskWatch::measure(std::uint64_t logged_bytes) {
  const auto space = options_.fs->disk_space(options_.dir);
  if (!space.is_ok()) return;
  const std::uint64_t unflushed = use_.unflushed_bytes + logged_bytes - std::min(logged_bytes, use_.logged_bytes);
  unflushed_bytes_.store(unflushed, std::memory_order_relaxed);
  deadline_bytes_.store(use_.deadline_bytes, std::memory_order_relaxed);
  // The code below still counts the released space as used; the next measurement counts it as free.
  if (space->free_bytes < low(*space) / 2 + unflushed) (void)reserve_.release();
  const std::uint64_t wanted = wanted_reserve(*space);
  const bool held = reserve_.bytes() != 0;
  const std::uint64_t needed = low(*space) + unflushed + (held ? 0 : wanted);
  const bool over = options_.max_disk_bytes != 0 && use_.file_bytes > options_.max_disk_bytes;
  const auto part = [](std::uint64_t bytes, std::uint64_t of) {
    return of == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(of);
  };
  used_ratio_.store(std::max(part(use_.file_bytes, options_.max_disk_bytes),
                             part(space->total_bytes - std::min(space->total_bytes, space->free_bytes), space->total_bytes)),
                    std::memory_order_relaxed);
  full_.store(over || space->free_bytes < needed, std::memory_order_relaxed);
  // The reserve is created only if a further quarter of its size is free. Otherwise creating the reserve could fill the disk at
  // once.
  wants_reserve_.store(!held && wanted != 0 && space->free_bytes >= needed + wanted / 4, std::memory_order_relaxed);
  const std::uint64_t room = space->free_bytes - std::min(space->free_bytes, needed);
  look_again_at_.store(logged_bytes + std::max(kShortestLook, room / 8), std::memory_order_relaxed);
}

// When the disk counts as full for new data, `low` and the reserve's space are still free. At most half of that space is reserved
// for merges for deadlines.
std::uint64_t DiskWatch::room_of(const DiskSpace& space, DiskUse use) const {
  std::uint64_t kept = low(space) / kFloorDivisor + unflushed_bytes_.load(std::memory_order_relaxed), free = space.free_bytes;
  const std::uint64_t held = reserve_.bytes();
  if (use == DiskUse::kDeadline) {
    free += held;
  } else {
    const std::uint64_t most = (low(space) + wanted_reserve(space)) / kDeadlineDivisor;
    const std::uint64_t deadlines = held != 0 ? 0 : std::min(deadline_bytes_.load(std::memory_order_relaxed), most);
    kept += std::max(deadlines, claimed_bytes());
  }
  return free - std::min(free, kept);
}

std::uint64_t DiskWatch::room(DiskUse use) const {
  const auto space = options_.fs->disk_space(options_.dir);
  return space.is_ok() ? room_of(*space, use) : std::numeric_limits<std::uint64_t>::max();
}

Status DiskWatch::may_compact(std::uint64_t bytes, DiskUse use) {
  const auto space = options_.fs->disk_space(options_.dir);
  if (!space.is_ok()) return Status::ok();
  const std::uint64_t room = room_of(*space, use), held = reserve_.bytes();
  if (room >= bytes) {
    if (use == DiskUse::kDeadline && room - std::min(room, held) < bytes) give_up_reserve();
    return Status::ok();
  }
  return Status::no_space("the disk has " + std::to_string(space->free_bytes) + " free bytes, of which a compaction may use " +
                          std::to_string(room) + "; the rest is reserved for the log, for flushes and for delete deadlines");
}

bool DiskWatch::give_up_reserve() {
  MutexLock lock(mutex_);
  const bool held = reserve_.bytes() != 0;
  const bool given_up = held && reserve_.release().is_ok();
  full_.store(true, std::memory_order_relaxed);
  look_again_at_.store(0, std::memory_order_relaxed);
  return given_up;
}

Status DiskWatch::set_aside_reserve() {
  TRY_ASSIGN(space, options_.fs->disk_space(options_.dir));
  wants_reserve_.store(false, std::memory_order_relaxed);
  return reserve_.create(wanted_reserve(space));
}

}  // namespace ebbtide

// The file is created under a temporary name and then renamed, so that RESERVE is always complete. The unlink is not synced: if
// a crash undoes it, the next open takes the file over.
#include "io/reserve_file.h"

#include <utility>

#include "io/file_names.h"

namespace ebbtide {

ReserveFile::ReserveFile(FileSystem& fs, std::string dir)
    : fs_(fs), dir_(std::move(dir)), path_(join_path(dir_, kReserveFileName)) {}

Status ReserveFile::open(std::uint64_t bytes) {
  const auto occupied = fs_.allocated_bytes(path_);
  if (occupied.status().is_not_found()) return Status::ok();
  if (!occupied.is_ok() || *occupied < bytes) {
    // RESERVE has no content to lose, so it is removed if its size cannot be read. If it cannot be removed, for example because
    // it is a directory, the database works without reserved space, and create() returns the reason.
    (void)fs_.unlink(path_);
    return Status::ok();
  }
  bytes_.store(*occupied, std::memory_order_release);
  return Status::ok();
}

Status ReserveFile::create(std::uint64_t bytes) {
  if (bytes == 0 || bytes_.load(std::memory_order_acquire) != 0 || creating_.exchange(true)) return Status::ok();
  const std::string half_made = path_ + std::string(kTemporarySuffix);
  Status status = fs_.exists(half_made) ? fs_.unlink(half_made) : Status::ok();
  // An old RESERVE is unlinked before the allocation, which may take long. So if the unlink fails, each retry of create() fails
  // at once.
  if (status.is_ok()) status = fs_.exists(path_) ? fs_.unlink(path_) : Status::ok();
  if (status.is_ok()) status = fs_.allocate(half_made, bytes);
  if (status.is_ok()) {
    status = fs_.rename(half_made, path_);
    if (!status.is_ok()) (void)fs_.unlink(half_made);
  }
  if (status.is_ok()) {
    bytes_.store(bytes, std::memory_order_release);
    status = fs_.sync_dir(dir_);
  }
  creating_.store(false);
  return status;
}

Status ReserveFile::release() {
  const std::uint64_t held = bytes_.exchange(0, std::memory_order_acq_rel);
  if (held == 0) return Status::ok();
  const Status status = fs_.unlink(path_);
  if (status.is_ok() || status.is_not_found()) return Status::ok();
  bytes_.store(held, std::memory_order_release);
  return status;
}

}  // namespace ebbtide

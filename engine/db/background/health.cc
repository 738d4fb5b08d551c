#include "db/background/health.h"

namespace ebbtide {
namespace {

// Recovery is tried every 2 s: writes must be accepted at most 5 s after the cause of the failure has ended.
constexpr std::uint64_t kHealNs = 2'000'000'000;
constexpr const char* kDirectory = "data directory";

}  // namespace

Status Health::error() const {
  MutexLock lock(mutex_);
  return error_;
}

Status Health::write_status() const {
  if (!read_only()) return Status::ok();
  MutexLock lock(mutex_);
  return error_.is_ok() ? Status::ok() : Status::read_only(error_.to_string());
}

void Health::note_refusal(const Status& status) {
  const bool by_disk = status.code() == Code::kNoSpace || status.code() == Code::kIoError;
  if (by_disk) disk_refused_at_.store(env_.now(), std::memory_order_relaxed);
}

void Health::failed(const Status& status, const char* what) {
  if (const Status directory = env_.check_directory(); !directory.is_ok()) return become_read_only(directory, kDirectory);
  become_read_only(status, what);
}

void Health::become_read_only(const Status& status, const char* what) {
  note_refusal(status);
  // If the reserve is released now, there is space again, so the next tick tries to recover without a wait.
  const bool soon = status.code() == Code::kNoSpace && env_.give_up_reserve();
  {
    MutexLock lock(mutex_);
    if (soon) last_try_ns_ = 0;  // an earlier failure may have set the time of the last attempt
    if (!error_.is_ok()) return;
    error_ = status.with_context(what);
    last_try_ns_ = status.code() == Code::kNoSpace ? 0 : env_.clock->mono_ns();
    read_only_ = true;
  }
  env_.changed();
  env_.log(Severity::kError, std::string("read-only: ") + what + ": " + status.to_string());
}

void Health::tick() {
  {
    MutexLock lock(mutex_);
    if (error_.is_ok() || error_.code() == Code::kCorruption || env_.closing()) return;
    if (last_try_ns_ != 0 && env_.clock->mono_ns() - last_try_ns_ < kHealNs) return;
    last_try_ns_ = env_.clock->mono_ns();
  }
  env_.submit([this] { heal(); });
}

void Health::heal() {
  {
    FlushGateAlone alone(*env_.gate);
    if (env_.closing() || is_ok()) return;  // another attempt has succeeded while this attempt waited for the gate
    Status status = env_.check_directory().with_context(kDirectory);
    if (status.is_ok()) status = env_.recover();
    if (!status.is_ok()) return still_failed(status);
  }
  {
    MutexLock lock(mutex_);
    error_ = Status::ok();
    last_try_code_ = Code::kOk;
    read_only_ = false;
  }
  env_.changed();
  env_.log(Severity::kInfo, "writes are accepted again");
  env_.healed();
}

// Notes the error of an attempt to recover. Logs the error unless it equals the current failure, or has the same code as the
// error of the last attempt. The texts of two attempts always differ, since each writes other files.
void Health::still_failed(const Status& status) {
  note_refusal(status);
  {
    MutexLock lock(mutex_);
    if (status.code() == Code::kAborted || status.message() == error_.message()) return;
    if (status.code() != Code::kCorruption) error_ = status;  // corruption would end the attempts
    if (status.code() == last_try_code_) return;
    last_try_code_ = status.code();
  }
  env_.log(Severity::kWarning, "still read-only: " + status.to_string());
}

}  // namespace ebbtide

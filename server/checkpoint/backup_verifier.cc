#include "checkpoint/backup_verifier.h"

#include <chrono>
#include <utility>

namespace ebbtide {

BackupVerifier::BackupVerifier(Env env) : env_(std::move(env)) {}

BackupVerifier::~BackupVerifier() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackupVerifier::check(const std::string& path) {
  std::lock_guard lock(mutex_);
  waiting_ = path;
  state_.result = BackupCheck::kRunning;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

BackupCheckState BackupVerifier::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

void BackupVerifier::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_ && waiting_.empty(); });
}

void BackupVerifier::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const std::string path = std::exchange(waiting_, {});
    busy_ = true;
    lock.unlock();
    verify_one(path);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void BackupVerifier::verify_one(const std::string& path) {
  std::uint64_t debt_ns = 0;
  const auto report = env_.verify(path, [&](std::uint64_t bytes) { return pace(bytes, &debt_ns); });
  BackupCheckState next = state();
  if (!report.is_ok() && report.status().code() == Code::kAborted) return;  // the server is stopping
  const bool good = report.is_ok() && report->errors.empty();
  next.result = good ? BackupCheck::kOk : BackupCheck::kDamaged;
  next.pruning_held.clear();
  if (good) next.last_ok_unix_seconds = env_.unix_seconds();
  if (!good) {
    const std::string why = report.is_ok() ? report->errors.front() : report.status().to_string();
    next.pruning_held = "the backup " + path + " is damaged: " + why;
  } else if (const std::string damage = env_.damage(); !damage.empty()) {
    next.pruning_held = "the database is damaged: " + damage;
  } else if (const Status status = env_.prune(path); !status.is_ok()) {
    next.pruning_held = status.to_string();
  }
  if (!next.pruning_held.empty()) {
    env_.log(true, "no older backup is removed: " + next.pruning_held);
  } else {
    env_.log(false, "backup verified: " + path);
  }
  std::lock_guard lock(mutex_);
  if (!waiting_.empty()) next.result = BackupCheck::kRunning;
  state_ = std::move(next);
}

// Adds the time that reading `bytes` should take to `*debt_ns`. Once that is kStepNs or more, waits for this time, and sets it to
// 0. Returns false if the server stops.
bool BackupVerifier::pace(std::uint64_t bytes, std::uint64_t* debt_ns) {
  constexpr std::uint64_t kStepNs = 50'000'000, kSecond = 1'000'000'000;
  const auto seconds = static_cast<double>(bytes) / static_cast<double>(env_.bytes_per_second);
  *debt_ns += static_cast<std::uint64_t>(seconds * static_cast<double>(kSecond));
  std::unique_lock lock(mutex_);
  if (*debt_ns >= kStepNs)
    changed_.wait_for(lock, std::chrono::nanoseconds(std::exchange(*debt_ns, 0)), [this] { return stop_; });
  return !stop_;
}

}  // namespace ebbtide

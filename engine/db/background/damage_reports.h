// DamageReports stores read errors of tables until Quarantine handles them. FileChecks schedules repeated checks of files.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

#include "base/mutex.h"
#include "table/table_reader.h"

namespace ebbtide {

/// Stores read errors. Thread-safe.
class DamageReports final : public DamageSink {
 public:
  /// Stores the first report of each file. A report of damage replaces a report of a device error.
  void report(FileNum data_file, const Status& status) override {
    MutexLock lock(mutex_);
    const auto [at, fresh] = reports_.try_emplace(data_file, status);
    if (!fresh && status.code() == Code::kCorruption && at->second.code() != Code::kCorruption) at->second = status;
    pending_.store(true, std::memory_order_relaxed);
  }
  /// Drops the report of a file that was read without an error.
  void forget(FileNum data_file) {
    MutexLock lock(mutex_);
    reports_.erase(data_file);
  }
  [[nodiscard]] bool pending() const { return pending_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::map<FileNum, Status> take() {
    MutexLock lock(mutex_);
    pending_.store(false, std::memory_order_relaxed);
    return std::exchange(reports_, {});
  }

 private:
  mutable Mutex mutex_;
  std::map<FileNum, Status> reports_ GUARDED_BY(mutex_);
  std::atomic<bool> pending_{false};
};

/// Files that are to be checked again, after waits that double each time. Thread-safe.
class FileChecks {
 public:
  /// Adds a file whose check is due `wait_ns` from now. No effect if the file was added before.
  void add(FileNum file, std::uint64_t now_ns, std::uint64_t wait_ns) {
    MutexLock lock(mutex_);
    checks_.try_emplace(file, Check{now_ns + wait_ns, wait_ns, 0});
  }
  void remove(FileNum file) {
    MutexLock lock(mutex_);
    checks_.erase(file);
  }
  /// Returns the file whose check has been due for longest, if any is due. The file's next check is due after twice its last
  /// wait, at most `longest_ns`.
  std::optional<FileNum> next(std::uint64_t now_ns, std::uint64_t longest_ns) {
    MutexLock lock(mutex_);
    const auto first = std::min_element(checks_.begin(), checks_.end(),
                                        [](const auto& a, const auto& b) { return a.second.due_ns < b.second.due_ns; });
    if (first == checks_.end() || first->second.due_ns > now_ns) return std::nullopt;
    Check& check = first->second;
    check.wait_ns = std::min(2 * check.wait_ns, longest_ns);
    check.due_ns = now_ns + check.wait_ns;
    return first->first;
  }
  /// Counts a failed check; returns the number of failed checks of the file.
  unsigned failed(FileNum file) {
    MutexLock lock(mutex_);
    const auto at = checks_.find(file);
    return at == checks_.end() ? 0 : ++at->second.failures;
  }

 private:
  struct Check {
    std::uint64_t due_ns = 0, wait_ns = 0;
    unsigned failures = 0;
  };
  Mutex mutex_;
  std::map<FileNum, Check> checks_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide

// Verifies each new backup in the background, and removes older backups only after that.
//
// A new backup consists of links to the database's files, or of copies, so damage in these files is in the backup, too. So older
// backups are kept until every byte of the new one was read and is sound. While any damage is known, no backup is removed: an
// older one may be the last that is sound.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include <engine/result.h>
#include <engine/stats.h>

#include "dispatch/server_control.h"

namespace ebbtide {

/// The rate of verification, in bytes per second: low, since it must not disturb the service, and is not urgent.
inline constexpr std::uint64_t kBackupVerifyRate = std::uint64_t{64} << 20;

/// Verifies backups on a thread of its own. Thread-safe.
class BackupVerifier {
 public:
  struct Env {
    /// Reads a whole backup, like verify_checkpoint() (engine/verify_checkpoint.h).
    std::function<Result<VerifyReport>(const std::string& path, const std::function<bool(std::uint64_t bytes)>& go_on)> verify;
    /// Returns the known damage of the database, as a text for people; "" if there is none.
    std::function<std::string()> damage;
    /// Removes backups that are older than the one at `path`, but leaves the configured number of backups.
    std::function<Status(const std::string& path)> prune;
    std::function<void(bool error, const std::string& text)> log;
    std::function<std::uint64_t()> unix_seconds;
    std::uint64_t bytes_per_second = kBackupVerifyRate;
  };

  explicit BackupVerifier(Env env);
  /// Aborts the running verification, and waits for its end.
  ~BackupVerifier();
  BackupVerifier(const BackupVerifier&) = delete;
  BackupVerifier& operator=(const BackupVerifier&) = delete;

  /// Queues a completed backup for verification. If another backup is queued, the newer one replaces it.
  void check(const std::string& path);
  [[nodiscard]] BackupCheckState state() const;
  /// Waits until no verification is queued or running. For tests.
  void wait();

 private:
  void run();
  void verify_one(const std::string& path);
  bool pace(std::uint64_t bytes, std::uint64_t* debt_ns);

  const Env env_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;  // path of the queued backup; "" = none. mutex_ guards this and all members below
  bool busy_ = false, stop_ = false;
  BackupCheckState state_;
  std::thread thread_;  // started by the first check()
};

}  // namespace ebbtide

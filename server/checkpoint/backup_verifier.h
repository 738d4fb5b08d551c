// Reads each new backup as a whole, in the background, and has older ones pruned only then.
//
// A backup that was just made is links to the files that the database uses, or copies of them: it is no better than they are. So
// it replaces no other before every byte of it has been read. And where anything is known to be damaged, nothing is pruned at
// all: the older backup may be the last good one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include <engine/result.h>
#include <engine/stats.h>

#include "command/server_control.h"

namespace ebbtide {

/// Bytes per second: a backup is read beside the service, and there is no hurry.
inline constexpr std::uint64_t kBackupVerifyRate = std::uint64_t{64} << 20;

/// Thread-safe.
class BackupVerifier {
 public:
  struct Env {
    /// Reads a backup: as verify_checkpoint() (engine/verify_checkpoint.h).
    std::function<Result<VerifyReport>(const std::string& path, const std::function<bool(std::uint64_t bytes)>& go_on)> verify;
    /// What is known to be damaged in the database, for people; "" = nothing.
    std::function<std::string()> damage;
    /// Removes what is older than the backup at `path`, but for as many as are to be kept.
    std::function<Status(const std::string& path)> prune;
    std::function<void(bool error, const std::string& text)> log;
    std::function<std::uint64_t()> unix_seconds;
    std::uint64_t bytes_per_second = kBackupVerifyRate;
  };

  explicit BackupVerifier(Env env);
  /// Gives up what is under way.
  ~BackupVerifier();
  BackupVerifier(const BackupVerifier&) = delete;
  BackupVerifier& operator=(const BackupVerifier&) = delete;

  /// A backup is complete: it is verified once the one before is. Of several that wait only the newest is.
  void check(const std::string& path);
  [[nodiscard]] BackupCheckState state() const;
  /// Returns once nothing waits. For tests.
  void wait();

 private:
  void run();
  void verify_one(const std::string& path);
  bool pace(std::uint64_t bytes, std::uint64_t* debt_ns);

  const Env env_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;  // path; "" = none. Guarded by mutex_, as all below
  bool busy_ = false, stop_ = false;
  BackupCheckState state_;
  std::thread thread_;  // begun by the first check()
};

}  // namespace ebbtide

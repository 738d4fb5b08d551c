// Injects faults into any file system by a script: the n-th call of a kind fails, once or from then on. A hook can run before
// the n-th call; in the hook a test can make a crash_clone() of the memory file system below.
//
//   FaultFileSystem fs(memory);
//   fs.inject({.ops = ops_of(FileOp::kSync), .nth = 3, .sticky = true, .path_has = ".wal"});
//
// After a failed sync, later syncs of the file return ok but make nothing durable, as on Linux. So a test that then crashes
// detects code that retries a sync on the same file.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "io/interposed_fs.h"

namespace ebbtide {

struct FileFault {
  enum class Effect : std::uint8_t {
    kNone,  ///< the failed call changes nothing
    kHalf,  ///< a failed write writes half of its bytes; other failed calls change nothing
    kFull,  ///< the call takes full effect, but returns the failure
  };
  FileOps ops = kMutatingOps;
  std::uint64_t nth = 1;  ///< 1 is the next matching call after inject()
  bool sticky = false;    ///< true: all later matching calls fail, too, until clear_faults()
  Code code = Code::kIoError;
  std::string path_has{};  ///< matches only calls whose path, or new name, contains this text
  Effect effect = Effect::kNone;
};

/// Thread-safe.
class FaultFileSystem final : public InterposedFileSystem {
 public:
  explicit FaultFileSystem(FileSystem& base) : InterposedFileSystem(base) {}

  /// Adds a fault. If several faults are due at one call, the fault that was injected first takes effect.
  void inject(FileFault fault);
  /// Removes all faults. Files whose sync failed stay broken: later syncs make nothing durable.
  void clear_faults();
  /// Calls `hook` once, before the nth matching call from now, on the thread of that call. Hooks may use this file system; their
  /// calls are counted, too.
  void before_nth(std::uint64_t nth, FileOps ops, std::function<void()> hook);
  /// Removes all hooks that were not called yet.
  void clear_hooks();

  /// Returns the number of calls so far, including failed ones.
  [[nodiscard]] std::uint64_t operations(FileOps ops = kMutatingOps) const;
  /// Returns the number of calls so far that failed by an injected fault.
  [[nodiscard]] std::uint64_t failures() const;

 private:
  struct Hook {
    std::uint64_t left = 0;
    FileOps ops = 0;
    std::function<void()> hook;
  };
  struct Strike {
    bool fails = false;
    FileFault::Effect effect = FileFault::Effect::kNone;
    Code code = Code::kOk;
  };
  Status around(const FileCall& call, const Run& run) override;
  std::vector<std::function<void()>> count(const FileCall& call) EXCLUDES(mutex_);
  Strike strike(const FileCall& call) EXCLUDES(mutex_);

  mutable Mutex mutex_;
  std::vector<FileFault> faults_ GUARDED_BY(mutex_);  // each matching call decrements `nth`; at 0 the fault is active
  std::vector<Hook> hooks_ GUARDED_BY(mutex_);
  std::map<FileOp, std::uint64_t> counts_ GUARDED_BY(mutex_);
  std::set<std::uint64_t> lost_ GUARDED_BY(mutex_);  // handles of files whose sync failed: later syncs make nothing durable
  std::uint64_t failures_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ebbtide

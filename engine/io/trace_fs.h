// Records calls as text, one line per call, for golden tests of which files are synced, renamed and unlinked, and in which order.
//
//   create data/000001.wal
//   write data/000001.wal
//   sync data/000001.wal
//   sync_dir data
//   rename data/CURRENT.tmp -> data/CURRENT
//   unlink data/000001.wal = i/o error
#pragma once

#include <string>
#include <vector>

#include "base/mutex.h"
#include "io/interposed_fs.h"

namespace ebbtide {

struct TraceOptions {
  FileOps ops = kMutatingOps;  ///< the calls that are recorded
  bool lengths = false;        ///< if true, lines have lengths, such as "write data/000001.wal 32"
};

/// Thread-safe. A call's line is recorded when the call has returned.
class TraceFileSystem final : public InterposedFileSystem {
 public:
  explicit TraceFileSystem(FileSystem& base, TraceOptions options = {}) : InterposedFileSystem(base), options_(options) {}

  /// Returns all lines so far.
  [[nodiscard]] std::vector<std::string> lines() const;
  /// Returns all lines so far, each ended by a newline, and removes them.
  std::string take();

 private:
  Status around(const FileCall& call, const Run& run) override;

  const TraceOptions options_;
  mutable Mutex mutex_;
  std::vector<std::string> lines_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide

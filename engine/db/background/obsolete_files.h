// Unlinks table files that no reader has open.
//
//   table that left its tree          the last view that has it calls sink(): queued
//   output of an edit that failed     disown(): kept, since the torn end of the manifest may name it; queued when that is rolled
//   output that no edit has named     remove(): unlinked at once
//   unlink that failed                tried again every 10 s: one refusal of the system must not keep a deleted value
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <engine/types.h>
#include "base/clock.h"
#include "base/mutex.h"
#include "db/trees/tree_view.h"
#include "io/removals_fs.h"

namespace ebbtide {

/// Thread-safe.
class ObsoleteFileRemover {
 public:
  struct Env {
    const Clock* clock = nullptr;
    RemovalsFileSystem* fs = nullptr;
    std::string dir;
    std::function<void()> collect;                      ///< ends views that no reader uses; their tables come to sink()
    std::function<void(FileNum)> forget;                ///< removes the file's pages from the block cache
    std::function<void(std::function<void()>)> submit;  ///< for work that waits for the device
    std::function<void(const std::string&)> warn;
  };

  explicit ObsoleteFileRemover(Env env) : env_(std::move(env)) {}

  /// Open tables pass their files to this sink when they are no longer needed. It outlives them.
  [[nodiscard]] const ObsoleteSink* sink() const { return &sink_; }
  /// Unlinks all files that are queued.
  void remove_queued() EXCLUDES(mutex_);
  void remove(const ObsoleteFiles& files);
  /// `name` is without the directory.
  void remove(const std::string& name);
  /// The manifest may name these files until it is rolled.
  void disown(const std::vector<ObsoleteFiles>& files) EXCLUDES(mutex_);
  /// Call it after the manifest was rolled: queues disowned files.
  void queue_disowned() EXCLUDES(mutex_);
  /// Called on each tick of the database: submits the removal of queued files, and retries of failed unlinks.
  void tick() EXCLUDES(mutex_);

 private:
  void add(const ObsoleteFiles& files) EXCLUDES(mutex_);

  const Env env_;
  const ObsoleteSink sink_ = [this](const ObsoleteFiles& files) { add(files); };
  Mutex mutex_;
  std::vector<ObsoleteFiles> queued_ GUARDED_BY(mutex_), disowned_ GUARDED_BY(mutex_);
  std::uint64_t last_retry_ns_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ebbtide

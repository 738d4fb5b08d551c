// Unlinks table files that no reader has open.
//
//   table that left its tree          the destructor of the last view that has the table calls sink(), which queues the files
//   output of an edit that failed     disown() keeps the files, since the torn end of the manifest may name them; they are queued
//                                     when the manifest is rolled
//   output that no edit has named     remove() unlinks the files at once
//   unlink that failed                tried again every 10 s, so that an error of the system does not keep a deleted value.
//                                     Logged once for each file and reason; for many files, only their number
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <engine/types.h>
#include "base/clock.h"
#include "base/mutex.h"
#include "db/trees/tree_view.h"
#include "io/removals_fs.h"

namespace ebbtide {

/// Removes the files of all trees. Thread-safe.
class ObsoleteFileRemover {
 public:
  struct Env {
    const Clock* clock = nullptr;
    RemovalsFileSystem* fs = nullptr;
    std::string dir;
    std::function<void()> collect;        ///< ends views that no reader uses; the destructors pass obsolete tables to sink()
    std::function<void(FileNum)> forget;  ///< removes the file's pages from the block cache
    std::function<void(std::function<void()>)> submit;  ///< runs a function on a thread that may wait for the device
    std::function<void(const std::string&)> warn;
  };

  explicit ObsoleteFileRemover(Env env) : env_(std::move(env)) {}

  /// Returns the sink to which open tables pass their files when they are obsolete. This object must outlive the tables.
  [[nodiscard]] const ObsoleteSink* sink() const { return &sink_; }
  /// Unlinks all queued files.
  void remove_queued() EXCLUDES(mutex_);
  /// Unlinks these files at once.
  void remove(const ObsoleteFiles& files);
  /// Unlinks one file at once. `name` is the file name without the directory.
  void remove(const std::string& name);
  /// Keeps `files`, which the torn end of the manifest may name, until the manifest is rolled.
  void disown(const std::vector<ObsoleteFiles>& files) EXCLUDES(mutex_);
  /// Queues the disowned files. Called after the manifest was rolled.
  void queue_disowned() EXCLUDES(mutex_);
  /// Called on each tick of the database: submits the removal of queued files, and retries of failed unlinks.
  void tick() EXCLUDES(mutex_);

 private:
  void add(const ObsoleteFiles& files) EXCLUDES(mutex_);
  void note_failure(const std::string& name, const Status& status) EXCLUDES(mutex_);

  const Env env_;
  const ObsoleteSink sink_ = [this](const ObsoleteFiles& files) { add(files); };
  Mutex mutex_;
  std::vector<ObsoleteFiles> queued_ GUARDED_BY(mutex_), disowned_ GUARDED_BY(mutex_);
  std::uint64_t last_retry_ns_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::string> failed_ GUARDED_BY(mutex_);  // files that could not be removed, each with the last reason
};

}  // namespace ebbtide

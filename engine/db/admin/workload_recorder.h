// Cuts the counts of operations into windows, and keeps their history in the file WORKLOAD.
//
// The file is written every ten minutes and when the database closes, so a crash loses up to ten minutes of history. If the file
// is damaged, the history is lost, but the database opens. Without operations nothing is written.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <engine/workload.h>
#include "base/mutex.h"
#include "db/admin/workload_history.h"
#include "db/trees/counters.h"
#include "io/file_system.h"

namespace ebbtide {

/// Thread-safe.
class WorkloadRecorder {
 public:
  static constexpr Millis kSaveEvery = 10 * WorkloadHistory::kWindow;

  struct Env {
    FileSystem* fs = nullptr;
    std::string dir;
    bool keep = false;                   ///< false: there is no file, and the history ends with the process
    const Counters* counters = nullptr;  ///< outlives the recorder
    std::function<Millis()> now;         ///< returns the engine time
    std::function<bool()> writable;      ///< false: the file is not written
    /// Runs a function that is not urgent on a thread that may wait for the device. The function runs before close() is called,
    /// or not at all.
    std::function<void(std::function<void()>)> submit;
    std::function<void(const std::string&)> warn;
  };

  explicit WorkloadRecorder(Env env) : env_(std::move(env)) {}

  /// Reads the file, and begins the first window. Called once, before the first operation.
  void open() EXCLUDES(mutex_);
  /// Ends the window if its time is over, and submits a write of the file every kSaveEvery ms. Called several times a second.
  void tick() EXCLUDES(mutex_);
  /// Ends the window and writes the file. Called once, when no other call runs. No effect without open().
  void close() EXCLUDES(mutex_);

  /// Returns the windows of a database, oldest first; the last window is the running window, unless it has no operations.
  [[nodiscard]] std::vector<WorkloadWindow> windows(DatabaseId database) const EXCLUDES(mutex_);

 private:
  void end_window(Millis end) REQUIRES(mutex_);
  void save() EXCLUDES(mutex_);

  const Env env_;
  std::atomic<bool> saving_{false};
  std::string failure_;  // the last failed write that was reported; used only by save(), of which one runs at a time
  mutable Mutex mutex_;
  WorkloadHistory history_ GUARDED_BY(mutex_);
  std::vector<OperationCounts> counted_ GUARDED_BY(mutex_);  // by database: the counters at the start of the running window
  Millis start_ GUARDED_BY(mutex_) = 0;                      // start of the running window; 0: open() was not called
  Millis saved_at_ GUARDED_BY(mutex_) = 0;
  bool changed_ GUARDED_BY(mutex_) = false;  // the history has a window that the file lacks
};

}  // namespace ebbtide

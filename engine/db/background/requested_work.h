// Flushes and merges that a caller requests and waits for (Db::flush, Db::compact).
//
// A requested merge first flushes. Once no running job has a file of the range, one job merges all files of the range into the
// oldest run with such a file (full_merge.h). Whole files are merged. So keys outside the range may be merged, too, and their
// tombstones may have to stay. Data that is flushed after the start of the job is not merged. A file that reaches into the range
// of a quarantined file is cut first (policy/around.h): otherwise the output could overlap the quarantined file. The cut-off
// parts inside the quarantined range are not merged.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include <engine/status.h>
#include "base/mutex.h"
#include "compaction/job_registry.h"
#include "db/background/progress.h"
#include "db/trees/tree_registry.h"

namespace ebbtide {

/// Carries out requested work. Thread-safe. The calls return the errors of Progress::wait_until().
class RequestedWork {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    Progress* progress = nullptr;
    std::function<SeqNum()> last_seq;  ///< returns the last assigned seq; called with the commit mutex held
    std::function<Status(const TreePtr&, const RunningJob&)> run;  ///< carries out the job; kAborted: another job needs its files
    std::function<void(const TreePtr&, const RunningJob&)> finish;  ///< called when the job has ended
    std::function<void(const TreePtr&)> schedule;                   ///< starts the jobs of the tree that can start now
    std::function<void()> progressed;  ///< wakes waiting callers, measures the pressure, and removes files
  };

  explicit RequestedWork(Env env) : env_(std::move(env)) {}

  /// Waits until every operation that the database got before the call is in tables.
  Status flush(DatabaseId database) EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);
  Status compact(DatabaseId database, const KeyRange& range) EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);

 private:
  struct Started {
    std::optional<RunningJob> job;  ///< no value: there is nothing to merge
    bool cuts = false;              ///< true if the job cuts files at a quarantined range; the merge follows
  };
  /// Starts the next job. Returns false if another running job has one of the files that the next job needs.
  bool start(Tree& tree, const KeyRange& range, Started* started) const REQUIRES(env_.trees->state_mutex);

  const Env env_;
};

}  // namespace ebbtide

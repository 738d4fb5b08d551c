// The running jobs and their reservations: input files, and the key ranges of their outputs in the target run.
//
// Jobs of one tree run concurrently if they share no input and write into no common range of one run. The first rule does not
// imply the second: two merges may have disjoint inputs, and write into the same gap between files of their target run.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/mutex.h"
#include "compaction/key_ranges.h"
#include "policy/fade.h"
#include "policy/policy.h"
#include "version/version.h"

namespace ebbtide {

using JobId = std::uint64_t;

struct RunningJob {
  JobId id = 0;
  Plan plan;
  std::shared_ptr<std::atomic<bool>> abort;  ///< the flag for CompactionEnv::abort
  std::uint64_t bytes = 0;                   ///< bytes of the inputs' data files
};

/// The running jobs of one tree. Thread-safe.
class JobRegistry {
 public:
  /// Admits the plan as a running job and makes its reservations. Returns no value if a running job conflicts or the plan does
  /// not match the version. If the plan is urgent, conflicting jobs are asked to stop, except jobs that are urgent or for a
  /// deadline. The caller retries when the conflicting jobs have stopped.
  std::optional<RunningJob> start(const Plan& plan, const Version& version);
  /// Ends the job, whether its edit was installed or the job failed or was aborted.
  void finish(JobId id);

  /// Returns the next plan of `policy`, given the running jobs and the files reserved for an urgent plan that cannot start yet.
  /// If there is no plan and `broken` is not null, sets `broken` to the invariant of the policy that the shape breaks, or to ""
  /// (check_at_rest()).
  [[nodiscard]] Plan next(const Policy& policy, const PolicyContext& context, TreeShape shape, const Plan& reserved = {},
                          std::string* broken = nullptr) const;
  /// Returns the next plan for the deadlines, given the running jobs; an empty plan if there is none. A late plan may need files
  /// of jobs that can be aborted: start() asks these jobs to stop.
  [[nodiscard]] Plan next_urgent(const Policy& policy, FadeContext context, const TreeShape& shape) const;
  /// Marks the files of running jobs as busy in the shape.
  void mark_running(TreeShape* shape) const { mark_running(shape, false); }
  [[nodiscard]] bool is_busy(FileNum data_file) const;
  /// A snapshot of all running jobs.
  struct Running {
    std::vector<Plan> plans;
    std::set<FileNum> files;  ///< inputs of all jobs
  };
  [[nodiscard]] Running now() const;
  [[nodiscard]] std::size_t running() const;
  /// abort_all() asks all jobs to stop; abort_others() asks only jobs that are neither urgent nor for a deadline.
  void abort_all();
  void abort_others();

 private:
  struct Held {
    Plan plan;
    std::vector<FileNum> files;    // the inputs, ascending
    std::uint64_t bytes = 0;       // bytes of the input files
    RunId target = 0;              // the target run; 0: a new run, which has no conflicts
    std::vector<KeyRange> ranges;  // ranges of the output
    std::shared_ptr<std::atomic<bool>> abort;
  };
  [[nodiscard]] static std::optional<Held> hold(const Plan& plan, const Version& version);
  void mark_running(TreeShape* shape, bool for_late) const;  ///< `for_late`: skips jobs that a late plan may abort
  [[nodiscard]] static bool collide(const Held& a, const Held& b);

  mutable Mutex mutex_;
  std::map<JobId, Held> jobs_ GUARDED_BY(mutex_);
  std::set<FileNum> busy_ GUARDED_BY(mutex_);
  JobId last_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ebbtide

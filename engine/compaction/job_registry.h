// The running jobs and their reservations: input files, and the key ranges of their outputs in the target run.
//
// Jobs of one tree run concurrently if they share no input and write into no common range of one run. The second rule does not
// follow from the first: two merges may take disjoint files above a gap of their target run.
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
  std::shared_ptr<std::atomic<bool>> abort;  ///< for CompactionEnv::abort
  std::uint64_t bytes = 0;                   ///< of its inputs' data files
};

/// Of one tree. Thread-safe.
class JobRegistry {
 public:
  /// Admits the job and makes its reservations. Returns nothing if a running job conflicts or the plan does not fit the version.
  /// An urgent plan asks conflicting jobs to stop, except those that are urgent or work for a deadline themselves: retry when
  /// they have stopped.
  std::optional<RunningJob> start(const Plan& plan, const Version& version);
  /// Ends the job: installed, failed or aborted.
  void finish(JobId id);

  /// The next plan of `policy`, given the running jobs and the files reserved for an urgent plan that cannot start yet. If it is
  /// empty, `broken`, if given, receives the result of check_at_rest().
  [[nodiscard]] Plan next(const Policy& policy, const PolicyContext& context, TreeShape shape, const Plan& reserved = {},
                          std::string* broken = nullptr) const;
  /// The next plan for the deadlines, given the running jobs. A late plan may need files of jobs that can be aborted: start()
  /// asks them to stop. Empty if there is no plan.
  [[nodiscard]] Plan next_urgent(const Policy& policy, FadeContext context, const TreeShape& shape) const;
  /// Marks the files of running jobs as busy in the shape.
  void mark_running(TreeShape* shape) const { mark_running(shape, false); }
  [[nodiscard]] bool is_busy(FileNum data_file) const;
  /// A snapshot of all running jobs.
  struct Running {
    std::vector<Plan> plans;
    std::set<FileNum> files;  ///< inputs
  };
  [[nodiscard]] Running now() const;
  [[nodiscard]] std::size_t running() const;
  /// Asks all jobs to stop; or all jobs that are neither urgent nor for a deadline.
  void abort_all();
  void abort_others();

 private:
  struct Held {
    Plan plan;
    std::vector<FileNum> files;    // ascending
    std::uint64_t bytes = 0;       // of those
    RunId target = 0;              // 0: a new run, without conflicts
    std::vector<KeyRange> ranges;  // of the output
    std::shared_ptr<std::atomic<bool>> abort;
  };
  [[nodiscard]] static std::optional<Held> hold(const Plan& plan, const Version& version);
  void mark_running(TreeShape* shape, bool for_late) const;  ///< for_late: without jobs that can be aborted
  [[nodiscard]] static bool collide(const Held& a, const Held& b);

  mutable Mutex mutex_;
  std::map<JobId, Held> jobs_ GUARDED_BY(mutex_);
  std::set<FileNum> busy_ GUARDED_BY(mutex_);
  JobId last_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ebbtide

// Which jobs run, and what they hold: files that are their inputs, and the place where their output will go.
//
// Jobs of one tree run side by side if they share no input and write into no common range of one run. The second rule is no
// consequence of the first: two merges may take disjoint files above a gap of their target run.
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
  /// Admits the job and holds what it needs, or nothing if a running job is in its way or it does not fit the version. An urgent
  /// plan asks those jobs that are in its way to stop, but for those that are urgent or work for a deadline themselves: try again
  /// when they have.
  std::optional<RunningJob> start(const Plan& plan, const Version& version);
  /// The job is over: installed, failed or aborted.
  void finish(JobId id);

  /// What `policy` asks for next, given what runs and what is reserved for an urgent plan that cannot start yet. Empty if there
  /// is nothing; then `broken`, if it is given, becomes what check_at_rest() says of the tree.
  [[nodiscard]] Plan next(const Policy& policy, const PolicyContext& context, TreeShape shape, const Plan& reserved = {},
                          std::string* broken = nullptr) const;
  /// What the deadlines ask for next, given what runs; what is late may need files of jobs that make way: start() asks
  /// them to stop. Empty if there is nothing.
  [[nodiscard]] Plan next_urgent(const Policy& policy, FadeContext context, const TreeShape& shape) const;
  /// Marks in the shape what running jobs hold.
  void mark_running(TreeShape* shape) const { mark_running(shape, false); }
  [[nodiscard]] bool is_busy(FileNum data_file) const;
  /// What runs, all at one moment.
  struct Running {
    std::vector<Plan> plans;
    std::set<FileNum> files;  ///< inputs
  };
  [[nodiscard]] Running now() const;
  [[nodiscard]] std::size_t running() const;
  /// Asks all jobs to stop; all that are neither urgent nor work for a deadline.
  void abort_all();
  void abort_others();

 private:
  struct Held {
    Plan plan;
    std::vector<FileNum> files;    // ascending
    std::uint64_t bytes = 0;       // of those
    RunId target = 0;              // 0: a new run, in nobody's way
    std::vector<KeyRange> ranges;  // of the output
    std::shared_ptr<std::atomic<bool>> abort;
  };
  [[nodiscard]] static std::optional<Held> hold(const Plan& plan, const Version& version);
  void mark_running(TreeShape* shape, bool for_late) const;  ///< for_late: but for what makes way
  [[nodiscard]] static bool collide(const Held& a, const Held& b);

  mutable Mutex mutex_;
  std::map<JobId, Held> jobs_ GUARDED_BY(mutex_);
  std::set<FileNum> busy_ GUARDED_BY(mutex_);
  JobId last_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ebbtide

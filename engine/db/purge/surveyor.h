// Draws surveys (survey.h): gathers everything that may hold bytes of deletes.
//
// The order matters. Entries move from memtables to tables; tables and log segments move to the ledger of files on their way out. Each is
// noted at the new place before it leaves the old one. A survey visits the places in that order, so it finds everything at least once.
//
// A survey's `now` is drawn from the time that births have. Every later birth is `now` or later, and the survey sees every earlier one
// (fence). A ticket that is done stays done over restarts, too: open() keeps only what the manifest and the log name, with its births.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <engine/purge.h>
#include "base/mutex.h"
#include "db/purge/purge_ledger.h"
#include "db/purge/survey.h"
#include "db/trees/tree_registry.h"
#include "wal/log_segment.h"

namespace ebbtide {

/// The oldest birth of a delete that is pending in the view; `now` if there is none. `dropped_at` as in Tree. Pure.
[[nodiscard]] Millis pending_floor(const TreeView& view, Millis dropped_at, Millis now);

/// Thread-safe.
class Surveyor {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    PurgeLedger* ledger = nullptr;
    /// Moves the time of the next batch to the present and returns it. Sets `*last` to the last seq that a batch was given. The commit
    /// mutex is held.
    std::function<Millis(SeqNum* last)> advance_time;
    std::function<void(SeqNum)> await_visible;          ///< until every operation up to it is in its memtable
    std::function<Millis()> now;                        ///< engine time, as lateness is measured by it
    std::function<std::vector<LogSegment>()> segments;  ///< of the log
  };

  explicit Surveyor(Env env) : env_(std::move(env)) {}

  /// Returns a time: every delete that was born before it can be seen, and every later one is born then or later. `*up_to` is the last
  /// seq of those before.
  Millis fence(SeqNum* up_to) EXCLUDES(env_.trees->commit_mutex);
  Millis fence() EXCLUDES(env_.trees->commit_mutex) {
    SeqNum up_to = 0;
    return fence(&up_to);
  }
  /// pending_floor() of the tree at a fence. The fence's time if the tree is retired.
  Millis floor_of(const TreePtr& tree) EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);
  /// Also forgets changes of deadlines that no pending delete waits for. One call at a time.
  std::shared_ptr<const PurgeSurvey> draw() EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);
  /// Makes the ticket's deletes overdue: PURGE.NOW. The ticket's tree, or all.
  void make_overdue(const PurgeTicket& ticket) EXCLUDES(env_.trees->commit_mutex);

 private:
  std::vector<TreePtr> begin(PurgeSurvey* survey, Millis* longest_deadline) EXCLUDES(env_.trees->commit_mutex);
  void survey_trees(const std::vector<TreePtr>& trees, PurgeSurvey* survey) EXCLUDES(env_.trees->state_mutex);
  void survey_log(PurgeSurvey* survey) const;
  void survey_ledger(PurgeSurvey* survey) const;
  void add_gone_trees(Millis longest_deadline, PurgeSurvey* survey) EXCLUDES(env_.trees->state_mutex);
  void forget_changes(const std::vector<TreePtr>& trees, const PurgeSurvey& survey) EXCLUDES(env_.trees->state_mutex);

  const Env env_;
  std::atomic<Millis> purge_before_{0};  // as Tree::purge_before, of dropped trees
};

}  // namespace ebbtide

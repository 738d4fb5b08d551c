// Makes surveys (survey.h): collects everything that may have bytes of deletes.
//
// A survey visits holders in the order in which deleted bytes move: memtables, tables and log segments, the ledger of files that
// are being removed. Bytes are in the next holder before they leave the one before, so a survey finds all of them.
//
// A survey's `now` comes from the same clock as births. Every later birth is `now` or later, and the survey finds every earlier
// birth (fence). A ticket that is done stays done over restarts, too: open() keeps only files that the manifest and the log name,
// with their births.
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

/// Returns the oldest birth of a delete that is pending in the view; `now` if there is none. `dropped_at`: see Tree. Pure
/// function.
[[nodiscard]] Millis pending_floor(const TreeView& view, Millis dropped_at, Millis now);

/// Makes surveys of all trees. Thread-safe.
class Surveyor {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    PurgeLedger* ledger = nullptr;
    /// Advances the time of the next batch to the current time and returns it. Sets `*last` to the last assigned seq. Called with
    /// the commit mutex held.
    std::function<Millis(SeqNum* last)> advance_time;
    std::function<void(SeqNum)> await_visible;          ///< waits until every operation up to the seq is in its memtable
    std::function<Millis()> now;                        ///< returns the engine time by which missed deadlines are measured
    std::function<std::vector<LogSegment>()> segments;  ///< returns the log's segments
  };

  explicit Surveyor(Env env) : env_(std::move(env)) {}

  /// Returns an engine time: every delete born before it is visible when fence() returns, and every later delete is born at this
  /// time or later. Sets `*up_to` to the last seq before this time.
  Millis fence(SeqNum* up_to) EXCLUDES(env_.trees->commit_mutex);
  Millis fence() EXCLUDES(env_.trees->commit_mutex) {
    SeqNum up_to = 0;
    return fence(&up_to);
  }
  /// Returns pending_floor() of the tree at a fence; the fence's time if the tree is retired or null.
  Millis floor_of(const TreePtr& tree) EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);
  /// Makes a survey, and forgets changes of deadlines that affect no pending delete. One call at a time.
  std::shared_ptr<const PurgeSurvey> draw() EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);
  /// Makes the ticket's deletes overdue, for PURGE.NOW: the deletes of the ticket's tree, or of all trees.
  void make_overdue(const PurgeTicket& ticket) EXCLUDES(env_.trees->commit_mutex);

 private:
  std::vector<TreePtr> begin(PurgeSurvey* survey, Millis* longest_deadline) EXCLUDES(env_.trees->commit_mutex);
  void survey_trees(const std::vector<TreePtr>& trees, PurgeSurvey* survey) EXCLUDES(env_.trees->state_mutex);
  void survey_log(PurgeSurvey* survey) const;
  void survey_ledger(PurgeSurvey* survey) const;
  void add_gone_trees(Millis longest_deadline, PurgeSurvey* survey) EXCLUDES(env_.trees->state_mutex);
  void forget_changes(const std::vector<TreePtr>& trees, const PurgeSurvey& survey) EXCLUDES(env_.trees->state_mutex);

  const Env env_;
  std::atomic<Millis> purge_before_{0};  // deletes of dropped trees that were born by this time are overdue; set by PURGE.NOW
};

}  // namespace ebbtide

// Keeps delete deadlines for everything except tables: log segments, the manifest, unlinked files, leased views. Merges remove
// deleted bytes from tables.
//
//   a log segment                 is retired when a quarter of the time from its oldest birth to the deadline is over; memtables
//                                 that need the segment are then flushed
//   the manifest                  is rolled a quarter of the deadline after an edit removed files from a tree. It is rolled
//                                 earlier if three quarters of the time from birth to deadline of their deletes are over. Also
//                                 rolled when edits name many trees
//   leased views and log pins     are revoked when seven eighths of that time are over for a delete in a file that they keep
//   the directory                 is synced if a file was unlinked, once a second
//
// PURGE.NOW makes all this work due at once. Work that waits for the device is submitted to other threads, not done in tick().
//
// A tick makes a survey (PurgeTracker), computes a list of actions (plan_retention, a pure function), and performs the actions
// (Env).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <engine/events.h>
#include <engine/status.h>
#include "base/clock.h"
#include "base/mutex.h"
#include "db/purge/log_pins.h"
#include "db/purge/missed_deadlines.h"
#include "db/purge/purge_ledger.h"
#include "db/purge/purge_tracker.h"
#include "db/purge/survey.h"

namespace ebbtide {

/// Action: revoke leased views that keep files with due deletes.
struct RevokeViews {};
/// Action: revoke pins of these segments.
struct RevokeLogPins {
  std::vector<FileNum> segments;
};
/// Action: flush the tree's frozen memtables at once, and also the active memtable if `freeze` is true.
struct FlushMemTables {
  TreeId tree = kNoTree;
  bool freeze = false;
};
/// Action: end the segment `last` and older segments, so that the log can continue without them.
struct RetireSegments {
  FileNum last = kNoFile;
};
/// Action: remove unneeded segments, roll the manifest if `roll` is true, and sync the directory if files were removed.
struct CleanUp {
  bool roll = false;
};
using RetentionAction = std::variant<RevokeViews, RevokeLogPins, FlushMemTables, RetireSegments, CleanUp>;
/// Returns "revoke views", "revoke pins of 3 4", "freeze and flush 7", "flush 7", "retire up to 4", "clean up" or "clean up and
/// roll".
std::string to_string(const RetentionAction& action);

struct RetentionInput {
  const PurgeSurvey& survey;
  std::map<TreeId, PurgeLedger::Superseded> superseded{};  ///< keys of removed files that edits of the manifest name
  bool unsynced_removals = false;
  FileNum log_begins = kNoFile;  ///< the first segment that the log needs; only pins keep older segments
};
struct RetentionPlan {
  std::vector<RetentionAction> actions;
  bool look_again = false;  ///< true if deletes to which PURGE.NOW applies are still pending: the next tick surveys again
};
/// Returns the actions that are due, in the order in which to perform them. Pure function.
RetentionPlan plan_retention(const RetentionInput& input);

/// Leased views and log pins that keep bytes of a delete are revoked after this many eighths of the time from the delete's birth
/// to its deadline.
inline constexpr unsigned kRevokeEighths = 7;

/// Returns the ns from one survey to the next, if a survey took `took_ns`: a second, or a sixteenth of the shortest deadline. In
/// the last eighth before a deadline it is a 64th of the deadline. So after the last merge and before the deadline, one survey
/// can revoke views, and a later one can find their files removed. The time is longer if surveys would take more than a twentieth
/// of all time, but never so long that a deadline passes in between. Pure function.
std::uint64_t survey_interval_ns(const PurgeSurvey& survey, std::uint64_t took_ns);

/// Keeps the deadlines of everything except tables. Thread-safe.
class Retention {
 public:
  struct Env {
    const Clock* clock = nullptr;
    PurgeTracker* tracker = nullptr;
    PurgeLedger* ledger = nullptr;
    LogPins* pins = nullptr;
    std::function<FileNum()> log_begins;
    std::function<MissCauses()> causes;
    std::function<void(const PurgeSurvey&)> revoke_views;
    std::function<void(TreeId, bool freeze)> flush;
    std::function<void(FileNum)> retire_segments;
    std::function<void(std::function<void()>)> submit;  ///< runs a function on a thread that may wait for the device
    /// Removes old log segments and rolls the manifest. No effect when the database is closing.
    std::function<Status(bool roll)> shorten;
    std::function<Status()> sync_dir;
    std::function<bool()> closing;
    std::function<void(const Status&)> failed;  ///< called with the error if shorten() has failed
    std::function<void(const std::string&)> report_error;
  };

  explicit Retention(Env env) : env_(std::move(env)) {}

  /// Called on each tick of the database; surveys only as often as needed.
  void tick() EXCLUDES(mutex_);
  /// Makes the next tick do a survey.
  void look_soon() { asked_ = true; }
  /// Submits a clean-up unless one is running.
  void request_clean_up(bool roll);
  [[nodiscard]] const MissedDeadlines& missed() const { return missed_; }

 private:
  void report_missed(const PurgeSurvey& survey) REQUIRES(mutex_);
  void perform(const RetentionAction& action, const PurgeSurvey& survey);
  void clean_up(bool roll);

  const Env env_;
  std::atomic<bool> asked_{false}, cleaning_{false};
  MissedDeadlines missed_;  // note() requires mutex_
  Mutex mutex_;             // held during a tick; locked before the tracker's mutex
  std::uint64_t last_ns_ GUARDED_BY(mutex_) = 0, every_ns_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ebbtide

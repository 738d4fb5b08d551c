// Keeps delete deadlines for everything but tables: log segments, the manifest, unlinked files, leased views. Merges remove deleted bytes
// from tables.
//
//   after a quarter of the time from the oldest birth to its deadline:
//                                    a log segment is retired, and the trees that keep it are flushed.
//   a quarter of the deadline after an edit removed files from a tree, or after three quarters of the time that their deletes have;
//   or when edits name many trees:   the manifest is rolled
//   after seven eighths:             leased views and log pins that keep such files are revoked
//   at once, once a second:          the directory is synced if a file was unlinked
//
// PURGE.NOW makes all of it due at once. Work that waits for the device is submitted, not done in tick().
//
// It makes a survey (PurgeTracker), computes a list of actions (plan_retention, pure), and performs them (Env).
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

/// Action: revoke leased views that keep files that are due.
struct RevokeViews {};
/// Action: revoke pins of these segments.
struct RevokeLogPins {
  std::vector<FileNum> segments;
};
/// Action: flush the tree's frozen memtables at once, and the active one if `freeze`.
struct FlushMemTables {
  TreeId tree = kNoTree;
  bool freeze = false;
};
/// Action: end this segment and older ones, so that the log can continue without them.
struct RetireSegments {
  FileNum last = kNoFile;
};
/// Action: remove unneeded segments, roll the manifest if `roll`, sync removals.
struct CleanUp {
  bool roll = false;
};
using RetentionAction = std::variant<RevokeViews, RevokeLogPins, FlushMemTables, RetireSegments, CleanUp>;
/// "revoke views", "revoke pins of 3 4", "freeze and flush 7", "flush 7", "retire up to 4", "clean up", "clean up and roll".
std::string to_string(const RetentionAction& action);

struct RetentionInput {
  const PurgeSurvey& survey;
  std::map<TreeId, PurgeLedger::Superseded> superseded{};  ///< edits of the manifest that name keys of removed files
  bool unsynced_removals = false;
  FileNum log_begins = kNoFile;  ///< only pins keep older segments
};
struct RetentionPlan {
  std::vector<RetentionAction> actions;
  bool look_again = false;  ///< PURGE.NOW asked for deletes that are still pending: the next tick surveys again
};
/// Returns the actions that are due, in the order in which to perform them. Pure.
RetentionPlan plan_retention(const RetentionInput& input);

/// A leased view or a log pin is revoked after this many eighths of the time from birth to deadline of deletes in its files.
inline constexpr unsigned kRevokeEighths = 7;

/// The time from one survey to the next, if the first took `took_ns`: a second, or a sixteenth of the shortest deadline. In the last eighth
/// before a deadline, a 64th of it: between the last merge and the deadline, one survey revokes views and a later one finds their files gone.
/// Longer if surveys would take more than a twentieth of the time, but never so long that a deadline passes meanwhile. Pure.
std::uint64_t survey_interval_ns(const PurgeSurvey& survey, std::uint64_t took_ns);

/// Thread-safe.
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
    std::function<void(std::function<void()>)> submit;  ///< for work that waits for the device
    std::function<Status(bool roll)> shorten;           ///< removes old log segments, rolls the manifest; no effect when closing
    std::function<Status()> sync_dir;
    std::function<bool()> closing;
    std::function<void(const Status&)> failed;  ///< shorten() failed
    std::function<void(const std::string&)> report_error;
  };

  explicit Retention(Env env) : env_(std::move(env)) {}

  /// Called on each tick of the database; surveys only as often as needed.
  void tick() EXCLUDES(mutex_);
  /// Makes the next tick survey.
  void look_soon() { asked_ = true; }
  /// Submits a clean-up unless one is under way.
  void request_clean_up(bool roll);
  [[nodiscard]] const MissedDeadlines& missed() const { return missed_; }

 private:
  void report_missed(const PurgeSurvey& survey) REQUIRES(mutex_);
  void perform(const RetentionAction& action, const PurgeSurvey& survey);
  void clean_up(bool roll);

  const Env env_;
  std::atomic<bool> asked_{false}, cleaning_{false};
  MissedDeadlines missed_;  // note() requires mutex_
  Mutex mutex_;             // one tick at a time; locked before the tracker's mutex
  std::uint64_t last_ns_ GUARDED_BY(mutex_) = 0, every_ns_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ebbtide

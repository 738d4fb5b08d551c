// Delete deadlines for whatever is not a table: log segments, the manifest, unlinked files, leased views. Tables lose deleted bytes
// in merges.
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
// Three steps: a survey (PurgeTracker), a list of actions (plan_retention, pure), performing them (Env).
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

/// Leased views are revoked if they keep files that are due.
struct RevokeViews {};
/// Pins of these segments are revoked.
struct RevokeLogPins {
  std::vector<FileNum> segments;
};
/// The tree's frozen memtables are flushed at once; the active one, too, if `freeze`.
struct FlushMemTables {
  TreeId tree = kNoTree;
  bool freeze = false;
};
/// The log goes on without this segment and older ones.
struct RetireSegments {
  FileNum last = kNoFile;
};
/// Segments that are not needed are removed, the manifest is rolled if `roll`, removals are synced.
struct CleanUp {
  bool roll = false;
};
using RetentionAction = std::variant<RevokeViews, RevokeLogPins, FlushMemTables, RetireSegments, CleanUp>;
/// "revoke views", "revoke pins of 3 4", "freeze and flush 7", "flush 7", "retire up to 4", "clean up", "clean up and roll".
std::string to_string(const RetentionAction& action);

struct RetentionInput {
  const PurgeSurvey& survey;
  std::map<TreeId, PurgeLedger::Superseded> superseded{};  ///< edits of the manifest that name keys of files that are gone
  bool unsynced_removals = false;
  FileNum log_begins = kNoFile;  ///< older segments are kept for pins alone
};
struct RetentionPlan {
  std::vector<RetentionAction> actions;
  bool look_again = false;  ///< PURGE.NOW asked for deletes that are not gone: the next tick surveys again
};
/// What is due now, in the order in which it is to be done. Pure.
RetentionPlan plan_retention(const RetentionInput& input);

/// A leased view or a log pin is revoked after so many eighths of the time that deletes in its files have.
inline constexpr unsigned kRevokeEighths = 7;

/// How long after a survey the next one is drawn, if that one took `took_ns`: a second, or a sixteenth of the shortest deadline; more
/// where surveys would take more than a twentieth of the time, but never so long that a deadline passes meanwhile. Pure.
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
    std::function<Status(bool roll)> shorten;           ///< removes old log segments, rolls the manifest; nothing when closing
    std::function<Status()> sync_dir;
    std::function<bool()> closing;
    std::function<void(const Status&)> failed;  ///< shorten() failed
    std::function<void(const std::string&)> report_error;
  };

  explicit Retention(Env env) : env_(std::move(env)) {}

  /// Called on each tick of the database; surveys only as often as needed.
  void tick() EXCLUDES(mutex_);
  /// The next tick surveys in any case.
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
  MissedDeadlines missed_;  // note() under mutex_
  Mutex mutex_;             // one tick at a time; before the tracker's
  std::uint64_t last_ns_ GUARDED_BY(mutex_) = 0, every_ns_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ebbtide

// Knows which deletes are gone from all files, and answers the tickets that clients hold for them.
//
//   survey   the Env gathers everything that still holds bytes of deletes (PurgeSurvey). Of each tree the tracker remembers, over
//            all surveys, up to which birth nothing was left, and when that was found (PurgeHistory).
//   ticket   a moment. It is done once a survey drawn after that moment finds nothing born at or before it.
//
// Monotone: a ticket that is done stays done, since floors never get older and every later birth is the survey's `now` or later.
//
// Memory is bounded: trees that are gone and that left nothing are remembered up to a number; of all others it is known only when
// the last of them was found to be gone.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <engine/purge.h>
#include <engine/result.h>
#include "base/clock.h"
#include "base/mutex.h"
#include "db/purge/purge_history.h"
#include "db/purge/survey.h"

namespace ebbtide {

/// Thread-safe. One survey is drawn at a time.
class PurgeTracker {
 public:
  struct Env {
    const Clock* clock = nullptr;
    /// Gathers what holds bytes of deletes now. Every delete that it does not name was born at its `now` or later. Called with the
    /// tracker's lock held.
    std::function<std::shared_ptr<const PurgeSurvey>()> survey;
    std::function<TreeId()> tree_limit;  ///< no tree has this number or a higher one
    std::function<Millis()> opened_at;   ///< engine time; promises of trees that went before it are unknown
  };
  /// Of trees that are gone and left nothing, so many are remembered one by one.
  static constexpr std::size_t kMaxGoneTrees = 256;
  static constexpr std::size_t kMaxTickets = 1000;
  /// A survey that answers a client may be so old: clients may ask very often.
  static constexpr std::uint64_t kSurveyMaxAgeNs = 20'000'000;

  explicit PurgeTracker(Env env) : env_(std::move(env)) {}

  /// Draws a survey, and takes down what it says.
  std::shared_ptr<const PurgeSurvey> look() EXCLUDES(mutex_);
  /// kInvalidArgument if no such ticket was ever given out.
  Result<PurgeStatus> status(const PurgeTicket& ticket) EXCLUDES(mutex_);
  /// Keeps a ticket for open_tickets(). The oldest is forgotten beyond kMaxTickets.
  void note_ticket(const PurgeTicket& ticket) EXCLUDES(ticket_mutex_);
  /// The noted tickets that are not done, in the order in which they were noted.
  std::vector<PurgeTicket> open_tickets() EXCLUDES(mutex_, ticket_mutex_);
  /// How long deletes took until nothing of them was left, in seconds.
  [[nodiscard]] HistogramInfo persist_times() const { return persist_times_.info(); }

 private:
  struct GoneTree {
    PurgeHistory history;
    DeadlineRule deadlines;
  };
  struct Purged {
    bool done = false;
    Millis known_at = 0;  ///< done: when that was known, at the latest
    Millis left_at = 0;   ///< as PurgeHistory::left_at
    void add(const PurgeHistory& history, Millis n);
  };
  std::shared_ptr<const PurgeSurvey> draw() REQUIRES(mutex_);
  void note(const PurgeSurvey& survey) REQUIRES(mutex_);
  void note_tree(TreeId tree, Millis floor, Millis looked_at) REQUIRES(mutex_);
  void note_gone_trees(const PurgeSurvey& survey, const std::map<TreeId, Millis>& floors) REQUIRES(mutex_);
  [[nodiscard]] Purged purged(const PurgeTicket& ticket, const PurgeSurvey& survey) const REQUIRES(mutex_);
  [[nodiscard]] Purged purged_tree(TreeId tree, Millis n, Purged others) const REQUIRES(mutex_);
  void add_promises(const PurgeTicket& ticket, const PurgeSurvey& survey, PurgeStatus* status) const REQUIRES(mutex_);

  const Env env_;
  PersistTimes persist_times_;  // own synchronization

  Mutex mutex_;
  std::shared_ptr<const PurgeSurvey> survey_ GUARDED_BY(mutex_);  // the last one
  std::uint64_t surveyed_ns_ GUARDED_BY(mutex_) = 0;
  std::map<TreeId, PurgeHistory> trees_ GUARDED_BY(mutex_);  // those that live or left something
  std::map<TreeId, GoneTree> gone_ GUARDED_BY(mutex_);       // those that left nothing
  PurgeHistory others_ GUARDED_BY(mutex_);                   // those that no survey ever met
  Millis others_gone_at_ GUARDED_BY(mutex_) = 0;             // the last of those that were met, and are not remembered
  Millis surveyed_until_ GUARDED_BY(mutex_) = 0;

  Mutex ticket_mutex_;
  std::deque<PurgeTicket> tickets_ GUARDED_BY(ticket_mutex_);  // in the order of their births
};

}  // namespace ebbtide

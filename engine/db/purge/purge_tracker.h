// Tracks which deletes are purged from all files, and computes the status of purge tickets.
//
//   survey   The Env gathers all holders of deleted bytes (PurgeSurvey). For each tree the tracker remembers up to which birth all
//            deletes were purged, and when a survey found that (PurgeHistory).
//   ticket   A moment. It is done once a later survey finds no pending delete born at or before that moment.
//
// Monotone: a ticket that is done stays done, since floors never get older and every later birth is the survey's `now` or later.
//
// Memory is bounded: of removed trees without deleted data, kMaxGoneTrees are remembered. For all others only the time is known at which
// the last of them was found purged.
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

/// Thread-safe. One survey is made at a time.
class PurgeTracker {
 public:
  struct Env {
    const Clock* clock = nullptr;
    /// Gathers the current holders of deleted bytes. Every pending delete without a holder was born at the survey's `now` or later. Called
    /// with the tracker's lock held.
    std::function<std::shared_ptr<const PurgeSurvey>()> survey;
    std::function<TreeId()> tree_limit;  ///< no tree has this number or a higher one
    std::function<Millis()> opened_at;   ///< engine time; deadlines of trees removed before it are unknown
  };
  /// Number of removed trees without deleted data that are remembered individually.
  static constexpr std::size_t kMaxGoneTrees = 256;
  static constexpr std::size_t kMaxTickets = 1000;
  /// The largest age of a survey that answers a client, since clients may ask very often.
  static constexpr std::uint64_t kSurveyMaxAgeNs = 20'000'000;

  explicit PurgeTracker(Env env) : env_(std::move(env)) {}

  /// Makes a survey and records its results.
  std::shared_ptr<const PurgeSurvey> look() EXCLUDES(mutex_);
  /// kInvalidArgument if no such ticket was ever issued.
  Result<PurgeStatus> status(const PurgeTicket& ticket) EXCLUDES(mutex_);
  /// Keeps a ticket for open_tickets(). The oldest is forgotten beyond kMaxTickets.
  void note_ticket(const PurgeTicket& ticket) EXCLUDES(ticket_mutex_);
  /// The noted tickets that are not done, in the order in which they were noted.
  std::vector<PurgeTicket> open_tickets() EXCLUDES(mutex_, ticket_mutex_);
  /// How long deletes took to be purged, in seconds.
  [[nodiscard]] HistogramInfo persist_times() const { return persist_times_.info(); }

 private:
  struct GoneTree {
    PurgeHistory history;
    PurgeSurvey::Terms terms;
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
  std::map<TreeId, PurgeHistory> trees_ GUARDED_BY(mutex_);  // trees that exist or have deleted data left
  std::map<TreeId, GoneTree> gone_ GUARDED_BY(mutex_);       // removed trees without deleted data
  PurgeHistory others_ GUARDED_BY(mutex_);                   // trees that no survey found
  Millis others_gone_at_ GUARDED_BY(mutex_) = 0;             // when the last tree that is in none of these was found purged
  Millis surveyed_until_ GUARDED_BY(mutex_) = 0;

  Mutex ticket_mutex_;
  std::deque<PurgeTicket> tickets_ GUARDED_BY(ticket_mutex_);  // in the order of their births
};

}  // namespace ebbtide

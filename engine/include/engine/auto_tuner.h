// Decides, window by window, whether a database should change its settings for its workload, and to which: online tuning with
// hysteresis and a cost of change.
//
// At the end of each window of time the caller passes the window's operations. The tuner finds the settings that are best for
// their mix, allowing for a divergence of rho (Huynh et al., Endure, Problem 2). A change to these settings is advised if
//
//   1. an operation costs at least kLeastGain less with them;
//   2. the same settings were nearly the best for the window before, too; and
//   3. a day at the present rate saves more than the merges to the new shape cost.
//
// A change is due (to be applied now) if it is advised, and
//
//   4. the last change is at least kStayWindows windows ago;
//   5. the change would have paid by now: since the settings became best, they would have saved what the change costs; and
//   6. the ledger has room for the worst case: the change, one window with only the kind of operation whose cost the change
//      raises most, and the change back. (A change back to the base needs no room.)
//
// The *base* is the settings that the tuner found at its first window, or that an operator has set since. The ledger compares
// two sums of page reads, by the cost model, over all operations since then. The first sum is for the settings in effect,
// with the merges of all changes; the second is for the base. The first may exceed the second by at most kMostLoss of the second.
// In the first hour, the limit is kMostLoss of what the base costs in an hour. The change back is due at once under two
// conditions: the base is better for the present mix, and the ledger has room for only one more bad window and that change. So
// the page reads of an hour or more exceed the page reads of the base by at most kMostLoss, however the mix changes. This holds
// if the rate of operations stays the same.
//
// Waiting until the change would have paid (rule 5) solves a ski-rental problem: a mix of short duration costs at most twice as
// much as without the change.
//
// Pure: no clock and no database; `now` and all facts are arguments. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <engine/tuner.h>

namespace ebbtide {

/// The use of an AutoTuner: it is off, its decisions are only shown, or its decisions are applied.
enum class TuningMode : std::uint8_t { kOff, kAdvise, kApply };

struct AutoTunerOptions {
  double rho = 0.5;  ///< see TunerQuestion::rho
  /// The mix to tune for, as shares that sum to 1. No value: the mix of the newest window.
  std::optional<OperationFigures> expected;
};

class AutoTuner {
 public:
  static constexpr int kStayWindows = 5;     ///< fewest windows from one change to the next
  static constexpr double kMostLoss = 0.05;  ///< the ledger's limit: a fraction of the base's page reads
  /// In ms. While the ledger is shorter than this, kMostLoss is a fraction of the base's page reads in this time.
  static constexpr Millis kLedgerSpan = Millis{3600} * 1000;
  /// Settings count as nearly the best if they cost at most this fraction more than the best.
  static constexpr double kSameAdvice = 0.05;

  struct Decision {
    /// True if the change is advised (rules 1 to 3 above), or the ledger requires the change back to the base.
    bool advised = false;
    bool due = false;        ///< true if all rules hold, or the change back is required: apply `advice`, then call applied()
    TunerAdvice advice;      ///< the advised settings and their costs at the window's mix; valid if `advised` is true
    double cost_now = 0;     ///< page reads of an operation of the window, with the present settings; 0: unknown
    double change_cost = 0;  ///< page reads of the merges to the new shape
    /// Divergence of the window's mix, in nats, from AutoTunerOptions::expected, or else from the mix of the last window.
    double divergence = 0;
    OperationFigures mix;  ///< shares of the window's operations
    std::string why;       ///< the decision and its reason, in one sentence
  };

  /// Ends a window and decides. `counts`: the operations from `start`, which is the time of the last call, until `now`.
  /// `workload` has the tree and its settings; its windows are not used. Fewer than 1,000 operations are kept for the next call.
  /// If the settings have changed since the last call, and applied() was not called, an operator has changed them. They then
  /// become the base, and the ledger starts again. Takes up to a quarter of a second if the mix has changed.
  Decision end_window(Millis start, Millis now, const Workload& workload, const OperationCounts& counts,
                      const AutoTunerOptions& options);
  /// Call this when the advice of the last decision was applied, at the time `now`.
  void applied(Millis now);

  /// Return the two sums of the ledger, in page reads: own_pages() with the settings in effect and the merges of all changes,
  /// base_pages() with the base.
  [[nodiscard]] double own_pages() const { return own_; }
  [[nodiscard]] double base_pages() const { return base_pages_; }

 private:
  /// Settings to which a change may become due.
  struct Candidate {
    TunerAdvice advice;
    int windows = 0;    ///< number of windows for which these settings were nearly the best
    double regret = 0;  ///< page reads that these settings would have saved in those windows
    bool is_base = false;
  };
  void start_again(const TunerSettings& settings, Millis start);
  Result<TunerAdvice> best_for(const TunerQuestion& question);
  void choose(const TunerQuestion& at_mix, TunerAdvice best, const TunerAdvice& base);
  void judge(Millis now, Millis span, double operations, Decision* out);
  /// Returns how many page reads the ledger still allows.
  [[nodiscard]] double room(Millis now) const;
  [[nodiscard]] bool must_return(Millis now, double loss, double needed) const;

  std::optional<TunerSettings> settings_;  // in effect at the last call
  TunerSettings base_;
  bool at_base_ = true, adopt_ = false;  // adopt_: applied() was called since the last call
  Millis since_ = 0;                     // engine time at which the ledger began
  double own_ = 0, base_pages_ = 0;
  std::optional<Millis> changed_at_;
  std::optional<Candidate> candidate_;
  OperationCounts waiting_;  // operations of windows with fewer than 1,000, kept for the next window
  std::optional<Millis> waiting_since_;
  std::optional<OperationFigures> last_mix_;
  double last_change_cost_ = 0, last_reserve_ = 0, last_base_cost_ = 0;
  std::optional<TunerQuestion> asked_;  // the question to which best_ is the answer
  TunerAdvice best_;
};

}  // namespace ebbtide

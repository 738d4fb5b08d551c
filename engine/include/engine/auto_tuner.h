// Decides, window by window, whether a database should change its settings for its workload, and to which: online tuning with
// hysteresis and a cost of change.
//
// At the end of each window the caller passes the window's operations. The tuner finds the settings that are best for their mix
// within rho (Huynh et al., Endure, Problem 2). A change to them is advised if
//
//   1. an operation costs at least kLeastGain less with them;
//   2. the same settings were nearly the best for the window before, too; and
//   3. a day at the present rate saves more than the merges to the new shape cost.
//
// A change is due if it is advised, and
//
//   4. the last change is at least kStayWindows windows ago;
//   5. the change would have paid by now: since the settings became best, they would have saved what the change costs; and
//   6. the change, one window of the operations that it makes dearest, and the way back fit into the ledger.
//
// The ledger holds the cost model's page reads for all operations so far: those with the settings in effect, merges of changes
// included, and those with the base, the settings that the tuner found. The first sum may exceed the second by kMostLoss of it, or
// of what the base costs in an hour, if less than an hour has passed. When no more is left than one bad window and the way back
// need, the tuner returns at once, if the base is better for the present mix. So however the mix changes, the page reads of an hour
// or more exceed those of the base by at most kMostLoss, if the rate of operations stays.
//
// Rule 5 is the rule of renting skis: it limits what a short-lived mix can cost to twice what it costs to ignore it.
//
// Pure: no clock and no database; `now` and all facts are arguments. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <engine/tuner.h>

namespace ebbtide {

/// What happens with the decisions of an AutoTuner: nothing is decided, decisions are shown, or they are applied.
enum class TuningMode : std::uint8_t { kOff, kAdvise, kApply };

struct AutoTunerOptions {
  double rho = 0.5;  ///< see TunerQuestion::rho
  /// The mix to tune for, shares that sum to 1; empty: the mix of the newest window.
  std::optional<OperationFigures> expected;
};

class AutoTuner {
 public:
  static constexpr int kStayWindows = 5;
  static constexpr double kMostLoss = 0.05;
  static constexpr Millis kLedgerSpan = Millis{3600} * 1000;
  /// Settings that cost at most this part more than the best ones count as the same advice.
  static constexpr double kSameAdvice = 0.05;

  struct Decision {
    bool advised = false;    ///< rules 1 to 3 hold
    bool due = false;        ///< all rules hold: apply `advice`, then call applied()
    TunerAdvice advice;      ///< the settings and their costs at the window's mix; meaningful if `advised`
    double cost_now = 0;     ///< page reads of an operation of the window, with the present settings; 0: unknown
    double change_cost = 0;  ///< page reads of the merges to the new shape
    double divergence = 0;   ///< of the window's mix from the expected one, or from that of the window before, in nats
    OperationFigures mix;    ///< shares of the window's operations
    std::string why;         ///< one sentence: what is decided, and why
  };

  /// Takes the operations since the last call, of which `start` is the time, until `now`. `workload` has the tree and its settings;
  /// its windows are not used. Fewer than 1,000 operations are kept for the next call. If the settings are not those of the last
  /// call, and applied() was not called, an operator has changed them: they become the base, and the ledger starts again. Takes up
  /// to a quarter of a second if the mix has changed.
  Decision end_window(Millis start, Millis now, const Workload& workload, const OperationCounts& counts,
                      const AutoTunerOptions& options);
  /// The caller has applied the advice of the last decision, at the time `now`.
  void applied(Millis now);

  /// Page reads since the base was found, by the cost model, for all windows: with the settings in effect and all changes, and
  /// with the base.
  [[nodiscard]] double own_pages() const { return own_; }
  [[nodiscard]] double base_pages() const { return base_pages_; }

 private:
  /// Settings that may be changed to, and what is known of them.
  struct Candidate {
    TunerAdvice advice;
    int windows = 0;    ///< for which they were nearly the best ones
    double regret = 0;  ///< page reads that they would have saved in these windows
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
  Millis since_ = 0;                     // the ledger's beginning
  double own_ = 0, base_pages_ = 0;
  std::optional<Millis> changed_at_;
  std::optional<Candidate> candidate_;
  OperationCounts waiting_;  // counts of windows that were too small
  std::optional<Millis> waiting_since_;
  std::optional<OperationFigures> last_mix_;
  double last_change_cost_ = 0, last_reserve_ = 0, last_base_cost_ = 0;
  std::optional<TunerQuestion> asked_;  // the last question for which best_ was found
  TunerAdvice best_;
};

}  // namespace ebbtide

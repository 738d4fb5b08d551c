// The tuner's results for each database. They are the last advice of TUNE.ADVISE, which TUNE.APPLY applies, the state of
// tuning.auto, and how often settings were changed. Also the costs of the device, on which all advice depends.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <engine/auto_tuner.h>
#include <engine/db.h>
#include <engine/tuner.h>
#include <engine/types.h>

namespace ebbtide {

/// An advice, with the time at which it was given.
struct KeptAdvice {
  Recommendation recommendation;
  Millis given_at = 0;  ///< engine time
};

/// The state of tuning.auto for one database, as of the newest window.
struct TuningState {
  TuningMode mode = TuningMode::kOff;
  AutoTuner::Decision decision;
  double own_pages = 0, base_pages = 0;  ///< AutoTuner::own_pages() and base_pages()
  bool known = false;                    ///< the costs of the decision are known
};

/// Thread-safe.
class TuningBoard {
 public:
  /// An older advice is not applied, since the workload may have changed.
  static constexpr Millis kAdviceAge = Millis{3600} * 1000;

  void keep(DatabaseId database, KeptAdvice advice) {
    std::lock_guard lock(mutex_);
    databases_[database].advice = std::move(advice);
  }
  /// Returns the last advice if it is younger than kAdviceAge, and the database still has the settings for which it was given.
  [[nodiscard]] std::optional<Recommendation> advice(DatabaseId database, Millis now, const TunerSettings& settings) const {
    std::lock_guard lock(mutex_);
    const auto at = databases_.find(database);
    if (at == databases_.end() || !at->second.advice) return std::nullopt;
    const KeptAdvice& kept = *at->second.advice;
    if (now >= kept.given_at + kAdviceAge || !(kept.recommendation.settings == settings)) return std::nullopt;
    return kept.recommendation;
  }
  /// Counts a change of the settings, by tuning.auto (`by_itself`) or by TUNE.APPLY, and drops the advice.
  void changed(DatabaseId database, bool by_itself) {
    std::lock_guard lock(mutex_);
    Entry& entry = databases_[database];
    entry.advice.reset();
    ++(by_itself ? entry.changes.by_itself : entry.changes.by_command);
  }
  struct Changes {
    std::uint64_t by_command = 0, by_itself = 0;
  };
  [[nodiscard]] Changes changes(DatabaseId database) const {
    std::lock_guard lock(mutex_);
    const auto at = databases_.find(database);
    return at == databases_.end() ? Changes{} : at->second.changes;
  }
  void decided(DatabaseId database, TuningState state) {
    std::lock_guard lock(mutex_);
    databases_[database].state = std::move(state);
  }
  /// Sets the values of the keys tuning.write_asymmetry and tuning.sequential_cost.
  void set_device(const DeviceCosts& device) {
    std::lock_guard lock(mutex_);
    device_ = device;
  }
  /// Returns Db::workload(), with the costs of the device.
  [[nodiscard]] Result<Workload> workload(const Db& db, DatabaseId database) const {
    auto out = db.workload(database);
    if (!out.is_ok()) return out;
    std::lock_guard lock(mutex_);
    out->device = device_;
    return out;
  }
  /// Clears the states, when tuning.auto is switched off.
  void clear_states() {
    std::lock_guard lock(mutex_);
    for (auto& entry : databases_) entry.second.state.reset();
  }
  /// Returns nullopt if tuning.auto is off, or has seen no window yet.
  [[nodiscard]] std::optional<TuningState> state(DatabaseId database) const {
    std::lock_guard lock(mutex_);
    const auto at = databases_.find(database);
    return at == databases_.end() ? std::nullopt : at->second.state;
  }

 private:
  struct Entry {
    std::optional<KeptAdvice> advice;
    std::optional<TuningState> state;
    Changes changes;
  };
  mutable std::mutex mutex_;
  std::map<DatabaseId, Entry> databases_;  // guarded by mutex_
  DeviceCosts device_;                     // guarded by mutex_
};

}  // namespace ebbtide

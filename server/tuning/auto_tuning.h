// tuning.auto: decides at the end of each window if a database should change its settings, and logs or applies the advice.
//
// AutoTuner (engine/auto_tuner.h) decides. This class gives it the operations of each window, and puts its decisions into effect.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <engine/auto_tuner.h>

#include "tuning/apply_advice.h"
#include "tuning/tuning_board.h"

namespace ebbtide {

/// The section `tuning` of the configuration.
struct TuningSettings {
  TuningMode mode = TuningMode::kOff;
  Millis window = 60'000;
  AutoTunerOptions options;
  DeviceCosts device;  ///< the costs of the device, for all advice, even if tuning.auto is off
};

/// Thread-safe. configure() and due() do not block: when run() changes the configuration, that change may call configure().
class AutoTuning {
 public:
  struct Env {
    std::function<Millis()> now;  ///< engine time
    /// Returns the databases that have a tree.
    std::function<std::vector<DatabaseId>()> databases;
    std::function<Result<Workload>(DatabaseId)> workload;
    ConfigAccess config;
    std::function<Status()> writable;  ///< returns the error with which the engine refuses writes, or OK
    std::function<void(bool warning, const std::string& text)> log;
    TuningBoard* board = nullptr;
  };
  explicit AutoTuning(Env env) : env_(std::move(env)) {}

  void configure(const TuningSettings& settings);
  /// Returns true if a window has ended, so that run() must be called. The server calls this several times a second.
  [[nodiscard]] bool due() const;
  /// Ends the window of every database. Takes up to a quarter of a second for each database whose mix has changed, and waits for
  /// other changes of the configuration. Does nothing while another call runs.
  void run();

 private:
  struct Database {
    AutoTuner tuner;
    OperationCounts counted;  ///< the counts at the beginning of the window
    Millis since = 0;         ///< when the window began
    std::string logged;       ///< the last advice or failure that was logged
  };
  /// Returns the settings, and begins the next window.
  TuningSettings begin_run(Millis now);
  void end_window(DatabaseId database, Millis now, const TuningSettings& settings);
  void act(Database& state, const Workload& workload, const AutoTuner::Decision& decision, TuningMode mode, Millis now);
  void log_once(Database& state, bool warning, const std::string& text);

  const Env env_;
  std::mutex mutex_;         // held for a moment
  TuningSettings settings_;  // guarded by mutex_
  std::atomic<Millis> next_{0};
  std::atomic<bool> off_{true}, running_{false};
  std::map<DatabaseId, Database> states_;  // used by run() only
};

}  // namespace ebbtide

#include "tuning/auto_tuning.h"

#include <utility>

namespace ebbtide {
namespace {

/// Returns keys and values as arguments of CONFIG SET.
std::string settings_text(DatabaseId database, const TunerAdvice& advice) {
  std::string out;
  for (const auto& [key, value] : database_config(database, advice)) out += (out.empty() ? "" : " ") + key + " " + value;
  return out;
}

/// Returns the decision as an advice that TUNE.APPLY can apply.
KeptAdvice kept(const Workload& workload, const AutoTuner::Decision& decision, Millis now) {
  Recommendation out;
  out.settings = settings_now(workload);
  out.verdict = decision.why;
  out.nominal = Proposal{.advice = decision.advice,
                         .change_cost = decision.change_cost,
                         .saved_per_day = 0,
                         .worthwhile = true,
                         .verdict = decision.why};
  return {std::move(out), now};
}

}  // namespace

void AutoTuning::configure(const TuningSettings& settings) {
  env_.board->set_device(settings.device);
  std::lock_guard lock(mutex_);
  const bool same_windows = settings.mode == settings_.mode && settings.window == settings_.window;
  settings_ = settings;
  if (same_windows) return;
  next_ = 0;
  off_ = settings.mode == TuningMode::kOff;
}

TuningSettings AutoTuning::begin_run(Millis now) {
  std::lock_guard lock(mutex_);
  next_ = now + settings_.window;
  return settings_;
}

bool AutoTuning::due() const { return !running_ && (off_ ? next_ == 0 : env_.now() >= next_); }

void AutoTuning::run() {
  if (running_.exchange(true)) return;
  const Millis now = env_.now();
  const TuningSettings settings = begin_run(now);
  if (settings.mode == TuningMode::kOff) {
    states_.clear();
    env_.board->clear_states();
  } else {
    for (const DatabaseId database : env_.databases()) end_window(database, now, settings);
  }
  running_ = false;
}

void AutoTuning::end_window(DatabaseId database, Millis now, const TuningSettings& settings) {
  const auto workload = env_.workload(database);
  if (!workload.is_ok()) return;
  const auto [at, is_new] = states_.try_emplace(database);
  Database& state = at->second;
  const OperationCounts counts = counts_since(workload->since_open, std::exchange(state.counted, workload->since_open));
  const Millis since = std::exchange(state.since, now);
  if (is_new || now <= since) return;  // only begins the first window
  const AutoTuner::Decision decision = state.tuner.end_window(since, now, *workload, counts, settings.options);
  act(state, *workload, decision, settings.mode, now);
  env_.board->decided(database,
                      {settings.mode, decision, state.tuner.own_pages(), state.tuner.base_pages(), decision.cost_now > 0});
}

void AutoTuning::act(Database& state, const Workload& workload, const AutoTuner::Decision& decision, TuningMode mode,
                     Millis now) {
  const std::string where = "tuning.auto, database " + std::to_string(workload.database) + ": ";
  if (!decision.advised) return;
  env_.board->keep(workload.database, kept(workload, decision, now));
  if (mode == TuningMode::kAdvise)
    return log_once(state, false, where + "advised: CONFIG SET " + settings_text(workload.database, decision.advice));
  if (!decision.due) return;
  if (const Status status = env_.writable(); !status.is_ok())
    return log_once(state, true, where + "nothing is changed while writes are refused: " + std::string(status.message()));
  const auto changes = apply_advice(env_.config, workload.database, decision.advice);
  if (!changes.is_ok()) return log_once(state, true, where + std::string(changes.status().message()));
  // The configuration already has the advised values, but the engine uses others: for example, it limits a memtable to a quarter
  // of the memory budget.
  if (changes->empty())
    return log_once(state, true,
                    where + "nothing is changed: the configuration has the advised values, but not all are in effect");
  state.tuner.applied(now);
  state.logged.clear();
  env_.board->changed(workload.database, true);
  env_.log(false, where + changes_text(*changes) + "; " + decision.why);
}

void AutoTuning::log_once(Database& state, bool warning, const std::string& text) {
  if (std::exchange(state.logged, text) != text) env_.log(warning, text);
}

}  // namespace ebbtide

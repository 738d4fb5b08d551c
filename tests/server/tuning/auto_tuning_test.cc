// Tests of tuning.auto with a fake configuration, in simulated time.
#include "tuning/auto_tuning.h"

#include <map>

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

constexpr Millis kWindow = 60'000;

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A server with one database of 2 GB, whose settings are those of a map.
struct Fake {
  Fake() {
    workload.database = 3;
    workload.table_entries = 10'000'000;
    workload.table_bytes = 200 * workload.table_entries;
    workload.settings.memtable_size = 16 << 20;
    workload.settings.policy = {"one_leveling", {{"size_ratio", 6}, {"level0_runs", 4}}};
  }
  AutoTuning::Env env() {
    AutoTuning::Env out;
    out.now = [this] { return now; };
    out.databases = [] { return std::vector<DatabaseId>{3}; };
    out.workload = [this](DatabaseId) -> Result<Workload> {
      if (!workload_error.is_ok()) return workload_error;
      return workload;
    };
    out.config.get = [this](const std::string& key) { return keys.contains(key) ? keys[key] : std::string(); };
    out.config.set = [this](std::span<const std::pair<std::string, std::string>> items) {
      ++sets;
      if (!refusal.is_ok()) return refusal;
      PolicySettings policy;
      for (const auto& [key, value] : items) {
        keys[key] = value;
        if (key == "databases.3.policy.name")
          policy.name = value;
        else if (key.starts_with("databases.3.policy."))
          policy.parameters[key.substr(19)] = std::stod(value);
        else if (key == "databases.3.memtable_size")
          workload.settings.memtable_size = std::stoull(value) * 1024;
        else if (key == "databases.3.filters.bits_per_key")
          workload.settings.filter_bits_per_key = std::stod(value);
      }
      workload.settings.policy = policy;
      return Status::ok();
    };
    out.writable = [this] { return writable; };
    out.log = [this](bool warning, const std::string& text) { log.emplace_back(warning, text); };
    out.board = &board;
    return out;
  }
  /// Lets windows with many writes pass.
  void windows(AutoTuning* tuning, int count) {
    for (int i = 0; i < count; ++i) {
      workload.since_open.reads += 100'000;
      workload.since_open.empty_reads += 50'000;
      workload.since_open.writes += 2'850'000;
      now += kWindow;
      if (tuning->due()) tuning->run();
    }
  }

  Millis now = 1'000'000;
  Workload workload;
  Status workload_error, refusal, writable;
  std::map<std::string, std::string> keys = {{"databases.3.policy.name", "one_leveling"}, {"databases.3.policy.size_ratio", "6"}};
  int sets = 0;
  std::vector<std::pair<bool, std::string>> log;
  TuningBoard board;
};

TuningSettings with(TuningMode mode) { return {mode, kWindow, {}}; }

TEST_CASE("tuning.auto is off: no window is measured, and no setting is advised or changed") {
  Fake fake;
  AutoTuning tuning(fake.env());
  tuning.run();  // the first one only clears the board
  CHECK_FALSE(tuning.due());
  fake.windows(&tuning, 20);
  CHECK_FALSE(tuning.due());
  CHECK((fake.log.empty() && fake.sets == 0 && !fake.board.state(3)));
}

TEST_CASE("tuning.auto is advise: the advice is logged once, shown to users, and kept for TUNE.APPLY") {
  Fake fake;
  AutoTuning tuning(fake.env());
  tuning.configure(with(TuningMode::kAdvise));
  fake.windows(&tuning, 30);
  REQUIRE(fake.log.size() == 1);
  CHECK(says(fake.log[0].second, "tuning.auto, database 3: advised: CONFIG SET databases.3.policy.name "));
  CHECK(fake.sets == 0);
  const auto state = fake.board.state(3);
  REQUIRE(state);
  CHECK((state->decision.advised && state->known && state->mode == TuningMode::kAdvise));
  const auto kept = fake.board.advice(3, fake.now, settings_now(fake.workload));
  REQUIRE(kept);
  CHECK(kept->nominal->worthwhile);
}

TEST_CASE("tuning.auto is apply: settings change once, and the log has their old and new values") {
  Fake fake;
  AutoTuning tuning(fake.env());
  tuning.configure(with(TuningMode::kApply));
  fake.windows(&tuning, 40);
  CHECK(fake.sets == 1);
  REQUIRE(fake.log.size() == 1);
  CHECK_FALSE(fake.log[0].first);
  CHECK(says(fake.log[0].second, "tuning.auto, database 3: policy."));
  CHECK(says(fake.log[0].second, "size_ratio 6 -> "));
  CHECK(says(fake.log[0].second, "; change: an operation costs"));
  CHECK(fake.board.changes(3).by_itself == 1);
  CHECK(fake.board.changes(3).by_command == 0);
  CHECK(fake.board.state(3)->own_pages < fake.board.state(3)->base_pages);  // base_pages stays that of the settings before the change
}

TEST_CASE("CONFIG SET or writes are refused: tuning.auto logs one warning, and tries again") {
  Fake fake;
  fake.refusal = Status::invalid_argument("ERR CONFIG SET failed (possibly related to argument 'x') - too small");
  AutoTuning tuning(fake.env());
  tuning.configure(with(TuningMode::kApply));
  fake.windows(&tuning, 20);
  CHECK(fake.sets > 1);
  REQUIRE(fake.log.size() == 1);
  CHECK(fake.log[0].first);
  CHECK(says(fake.log[0].second, "the advice was not applied, and nothing has changed: CONFIG SET failed"));
  CHECK(fake.board.changes(3).by_itself == 0);
  fake.refusal = Status::ok();
  fake.writable = Status::read_only("the disk is full");
  fake.windows(&tuning, 5);
  CHECK(says(fake.log.back().second, "nothing is changed while writes are refused: the disk is full"));
  fake.writable = Status::ok();
  fake.windows(&tuning, 5);
  CHECK(fake.board.changes(3).by_itself == 1);
}

TEST_CASE("tuning.auto has configured values that are not in effect: one warning is logged, and no change is counted") {
  Fake fake;
  AutoTuning::Env env = fake.env();
  int sets = 0;
  env.config.set = [&](std::span<const std::pair<std::string, std::string>> items) {
    ++sets;
    for (const auto& [key, value] : items) fake.keys[key] = value;
    return Status::ok();
  };
  env.config.get = [&](const std::string& key) { return sets == 0 && !fake.keys.contains(key) ? "" : fake.keys[key]; };
  AutoTuning tuning(std::move(env));
  tuning.configure(with(TuningMode::kApply));
  fake.windows(&tuning, 40);
  CHECK(sets > 2);
  CHECK(fake.board.changes(3).by_itself == 1);
  REQUIRE(fake.log.size() == 2);
  CHECK(says(fake.log[1].second, "nothing is changed: the configuration has the advised values"));
}

TEST_CASE("tuning.auto changes to off: its state is no longer shown, and switching it on begins a new window") {
  Fake fake;
  AutoTuning tuning(fake.env());
  tuning.configure(with(TuningMode::kAdvise));
  fake.windows(&tuning, 5);
  REQUIRE(fake.board.state(3));
  tuning.configure(with(TuningMode::kOff));
  CHECK(tuning.due());
  tuning.run();
  CHECK_FALSE(fake.board.state(3));
  CHECK_FALSE(tuning.due());
  tuning.configure(with(TuningMode::kAdvise));
  fake.windows(&tuning, 1);
  CHECK_FALSE(fake.board.state(3));
  fake.windows(&tuning, 1);
  CHECK(fake.board.state(3));
}

TEST_CASE("tuning.rho changes: the window continues, but a change of tuning.window begins a new one") {
  Fake fake;
  AutoTuning tuning(fake.env());
  tuning.configure(with(TuningMode::kAdvise));
  fake.windows(&tuning, 1);
  TuningSettings other = with(TuningMode::kAdvise);
  other.options.rho = 1;
  tuning.configure(other);
  CHECK_FALSE(tuning.due());
  other.window = 1000;
  tuning.configure(other);
  CHECK(tuning.due());
}

TEST_CASE("database has no workload: tuning.auto shows no state for it") {
  Fake fake;
  fake.workload_error = Status::not_found("no tree");
  AutoTuning tuning(fake.env());
  tuning.configure(with(TuningMode::kApply));
  fake.windows(&tuning, 5);
  CHECK_FALSE(fake.board.state(3));
}

}  // namespace TEST_FILE
}  // namespace ebbtide

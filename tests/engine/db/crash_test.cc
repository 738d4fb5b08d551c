// Power loss and faults. After each the database opens, has everything that was promised, and is a prefix of what was written.
#include <iterator>
#include <set>

#include "engine/db/model.h"
#include "support/long_run.h"
#include "support/planted.h"

using namespace ebbtide;

namespace {

const PolicySettings kPolicies[] = {{"one_leveling", {}},
                                    {"tiering", {{"size_ratio", 2}}},
                                    {"klsm", {}},
                                    {"lazy_leveling", {{"size_ratio", 3}}},
                                    {"exploring", {{"k", 2}}},
                                    {"garnering", {{"level0_runs", 1}, {"scaling_ratio", 0.25}}}};
/// They take turns.
const PolicySettings& policy_of(std::uint64_t turn) { return kPolicies[turn % std::size(kPolicies)]; }

Settings crash_settings(FsyncMode fsync) {
  Settings s = Harness::small();
  s.memtable_size = 16 << 10;
  s.wal_segment_size = 64 << 10;
  s.fsync = fsync;
  s.tree.stamp = StampMode::kExplicit;  // deletes by stamp reach old versions
  s.tree.delete_deadline = 2000;        // so that urgent plans are among what is cut short
  return s;
}

void some_work(Harness& h, ModelDriver& driver, int operations) {
  for (int i = 0; i < operations; ++i) {
    const auto dice = driver.random().uniform(100);
    if (dice < 85) {
      driver.write();
    } else if (dice < 92) {
      h.pool.run_one();
    } else if (dice < 95) {
      demand_ok(h.db->flush(0), "flush");
    } else if (dice < 97) {
      h.advance(driver.random().uniform(3000));
    } else {
      h.settle();
    }
  }
}

/// A life with three power losses. After each, what was synced is there, and what is there is a prefix.
void lose_power(std::uint64_t seed) {
  const FsyncMode modes[] = {FsyncMode::kAlways, FsyncMode::kEverySecond, FsyncMode::kNo};
  const FsyncMode fsync = modes[seed % 3];
  Settings settings = crash_settings(fsync);
  settings.tree.policy = policy_of(seed / 3);
  settings.tree.partitioning = static_cast<Partitioning>(seed / 2 % 3);
  settings.tree.stamp = static_cast<StampMode>(seed / 18 % 3);
  if (seed % 4 == 3) settings.tree.delete_deadline = 24ull * 3600 * 1000;
  Harness h(settings);
  h.open();
  ModelDriver driver(h, seed, 150);
  for (std::uint64_t crash = 0; crash < 3; ++crash) {
    some_work(h, driver, 120);
    const SeqNum promised = fsync == FsyncMode::kAlways ? driver.durable() : driver.synced();
    h.crash(seed % 5 == 0 ? CrashMode::kNothing : CrashMode::kRandom, seed * 10 + crash);
    h.open();
    driver.check_recovered(promised);
  }
}

/// One fixed script that goes through log switches, flushes, compactions, manifest edits and a FLUSHDB; the power goes before its
/// k-th mutating operation. False if the script has no more than k.
bool crash_before(std::uint64_t k, CrashMode mode, std::uint64_t policy = 0) {
  std::unique_ptr<MemoryFileSystem> left;
  SeqNum promised = 0;
  bool armed = true;
  Settings settings = crash_settings(FsyncMode::kAlways);
  settings.tree.policy = policy_of(policy);
  Harness h(settings);
  h.open();
  ModelDriver driver(h, first_seed() + 42, 120);
  h.faults->before_nth(k, kMutatingOps, [&] {
    if (!armed) return;
    left = h.files->crash_clone(k, mode);
    promised = h.db->durable_seq();
  });
  for (int i = 0; i < 8 && left == nullptr; ++i) some_work(h, driver, 30);
  armed = false;
  if (left == nullptr) return false;
  h.abandon(std::move(left));
  h.open();
  driver.check_recovered(promised);
  h.settle();
  driver.check_everything();
  h.verify(0);
  some_work(h, driver, 20);
  h.reopen();
  driver.check_everything();
  return true;
}

}  // namespace

TEST_CASE("power loss: what was synced survives, and what survives is a prefix") {
  const std::uint64_t seeds = number_from_env("EBBTIDE_CRASH_SEEDS", 2000);
  for (std::uint64_t seed = first_seed(); seed < first_seed() + seeds; ++seed) {
    INFO("seed " << seed);
    lose_power(seed);
  }
}

TEST_CASE("a crash at every k-th file operation, power lost: opens, verifies, and is a prefix") {
  const std::uint64_t step = number_from_env("EBBTIDE_CRASH_STEP", 1);
  // The policies take turns, operation by operation, and in a long run round by round.
  std::uint64_t policy = round_of_seeds();
  for (const CrashMode mode : {CrashMode::kNothing, CrashMode::kRandom, CrashMode::kEverything}) {
    std::uint64_t ended = 0;  // of those whose turn it was last, in a row
    for (std::uint64_t k = 1; ended < std::size(kPolicies); k += step, ++policy) {
      INFO("crash before operation " << k << ", mode " << static_cast<int>(mode) << ", " << policy_of(policy).name);
      ended = crash_before(k, mode, policy) ? 0 : ended + 1;
    }
    ++policy;
  }
}

TEST_CASE("a crash during recovery: the next one does it again") {
  for (std::uint64_t k = 1; k < 60; k += 3) {
    INFO("second crash before operation " << k);
    std::unique_ptr<MemoryFileSystem> left;
    Harness h(crash_settings(FsyncMode::kAlways));
    h.open();
    ModelDriver driver(h, 7, 120);
    some_work(h, driver, 200);
    const SeqNum promised = driver.durable();
    h.crash(CrashMode::kRandom, k);
    bool armed = true;
    h.faults->before_nth(k, kMutatingOps, [&] {
      if (armed) left = h.files->crash_clone(k, CrashMode::kRandom);
    });
    h.open();
    h.settle();
    armed = false;
    if (left == nullptr) left = h.files->crash_clone(k, CrashMode::kRandom);
    h.abandon(std::move(left));
    h.open();
    driver.check_recovered(promised);
  }
}

TEST_CASE("an I/O error at the n-th operation, once or from then on: an error, no abort, and a clean reopening") {
  const std::uint64_t step = number_from_env("EBBTIDE_FAULT_STEP", 1), most = number_from_env("EBBTIDE_FAULTS", 300);
  for (const bool sticky : {false, true}) {
    bool met = true;
    for (std::uint64_t n = 1; n <= most && met; n += step) {
      const std::uint64_t turn = n / step + round_of_seeds();  // which part of it happens all the same, and the policy
      INFO("fault at " << n << (sticky ? ", sticky" : ", once") << ", effect " << turn % 3 << ", " << policy_of(turn / 3).name);
      Settings settings = crash_settings(FsyncMode::kAlways);
      settings.tree.policy = policy_of(turn / 3);
      Harness h(settings);
      h.open();
      FileFault fault;
      fault.nth = n;
      fault.sticky = sticky;
      fault.effect = static_cast<FileFault::Effect>(turn % 3);
      h.faults->inject(fault);
      std::map<std::string, std::string> certain;
      std::map<std::string, std::set<std::string>> possible;  // outcome unknown
      for (int i = 0; i < 400; ++i) {
        const std::string key = "key" + std::to_string(i % 90), value = std::to_string(i) + std::string(150, 'v');
        WriteBatch batch;
        batch.put(0, key, value);
        const Status status = h.db->commit(batch);
        if (!status.is_ok()) {
          h.advance(3000);
          h.settle();
          continue;
        }
        h.db->write_log();
        if (h.db->durable_seq() >= batch.last_seq()) {
          certain[key] = value;
          possible.erase(key);
        } else {
          possible[key].insert(value);
        }
        if (i % 40 == 0) h.settle();
      }
      met = h.faults->failures() != 0;
      h.faults->clear_faults();
      // It heals by itself, without a restart, once the fault is gone.
      for (int i = 0; i < 5; ++i) {
        h.advance(3000);
        h.settle();
      }
      CHECK(h.db->write_status().is_ok());
      const auto check = [&] {
        for (const auto& [key, value] : certain) {
          const std::string got = h.get(0, key);
          if (got != value && possible[key].count(got) == 0) FAIL_CHECK(key << ": lost or wrong");
        }
      };
      check();
      (void)h.db->close();
      h.drop();
      h.use(h.files->crash_clone(n, CrashMode::kNothing));
      h.open();
      check();
    }
  }
}

// --- planted bugs (support/planted.h): the proofs above find what they are there for

namespace {

/// Often enough to meet flushes and merges.
void crash_now_and_then() {
  for (std::uint64_t k = 10; k <= 400 && crash_before(k, CrashMode::kNothing); k += 10) {
  }
}

}  // namespace

TEST_CASE("planted: a table that is not synced before the manifest names it is found by crashes", "[planted]") {
  must_catch(PlantedBug::kSkipTableSync, crash_now_and_then);
}

TEST_CASE("planted: names of tables that are not synced before the manifest has them are found by crashes", "[planted]") {
  must_catch(PlantedBug::kSkipDirectorySync, crash_now_and_then);
}

TEST_CASE("planted: a write that is called durable before its sync has answered is found by crashes", "[planted]") {
  must_catch(PlantedBug::kAcknowledgeBeforeSync, [] {
    for (std::uint64_t k = 1; k <= 20; ++k) demand(crash_before(k, CrashMode::kNothing), "the script ends early");
  });
}

TEST_CASE("planted: a torn record that is taken for whole is found by power losses", "[planted]") {
  must_catch(PlantedBug::kAcceptGarbageTail, [] {
    for (std::uint64_t seed = 0; seed < 40; ++seed) lose_power(seed);
  });
}

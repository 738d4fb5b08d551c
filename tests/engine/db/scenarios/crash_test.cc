// Tests of power loss and faults. After each the database opens, has all acknowledged writes, and its state is a prefix of the
// writes.
#include <iterator>
#include <set>

#include "engine/db/layouts.h"
#include "engine/db/model.h"
#include "support/long_run.h"
#include "support/planted.h"

namespace TEST_FILE {

using namespace ebbtide;

Settings crash_settings(FsyncMode fsync) {
  Settings s = Harness::small();
  s.tree.memtable_size = 16 << 10;
  s.wal_segment_size = 64 << 10;
  s.fsync = fsync;
  s.tree.stamp = StampMode::kExplicit;  // deletes by stamp reach old versions
  s.tree.delete_deadline = 2000;        // short, so that crashes also interrupt urgent plans
  return s;
}

/// Returns settings of a crash test. `turn` chooses the layout.
Settings crash_settings(FsyncMode fsync, std::uint64_t turn) {
  Settings s = crash_settings(fsync);
  layout_of(turn).set(&s.tree);
  return s;
}

/// Returns the number of the model's second database. Every second turn it is an index tree.
DatabaseId second_tree(std::uint64_t turn) {
  return turn % 2 == 0 ? 1 : index_tree(0, 1 + static_cast<std::uint32_t>(turn / 2 % kMaxIndexTrees));
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

/// Opens the files after a crash. Power is lost again before the k-th mutating operation, if there are so many, and the files are
/// opened once more.
void open_with_a_crash(Harness& h, std::uint64_t k, CrashMode mode) {
  struct Second {
    bool armed = true;
    std::unique_ptr<MemoryFileSystem> left{};
  };
  const auto second = std::make_shared<Second>();  // outlives this function, since the hook stays if there are fewer operations
  h.faults->before_nth(k, kMutatingOps, [&h, second, k, mode] {
    if (second->armed) second->left = h.files->crash_clone(first_seed() + k, mode);
  });
  h.open();
  h.settle();
  second->armed = false;
  if (second->left == nullptr) return;
  h.abandon(std::move(second->left));
  h.open();
}

/// Makes a run with three power losses. After each, synced writes are there, and the state is that after a prefix
/// of all writes.
void lose_power(std::uint64_t seed) {
  const FsyncMode modes[] = {FsyncMode::kAlways, FsyncMode::kEverySecond, FsyncMode::kNo};
  const FsyncMode fsync = modes[seed % 3];
  Settings settings = crash_settings(fsync, seed / 3);
  settings.tree.stamp = static_cast<StampMode>(seed / 18 % 3);
  if (seed % 4 == 3) settings.tree.delete_deadline = 24ull * 3600 * 1000;
  Harness h(settings);
  h.open();
  ModelDriver driver(h, seed, 150, second_tree(seed / 2));
  for (std::uint64_t crash = 0; crash < 3; ++crash) {
    some_work(h, driver, 120);
    const SeqNum promised = fsync == FsyncMode::kAlways ? driver.durable() : driver.synced();
    const CrashMode mode = seed % 5 == 0 ? CrashMode::kNothing : CrashMode::kRandom;
    h.crash(mode, seed * 10 + crash);
    if (seed % 4 == 1) {
      open_with_a_crash(h, 1 + seed / 4 % 40, mode);
    } else {
      h.open();
    }
    driver.check_recovered(promised);
  }
}

/// Runs a fixed script with log switches, flushes, compactions, manifest edits and a FLUSHDB. Power is lost before its k-th
/// mutating operation. Returns false if the script has fewer operations.
bool crash_before(std::uint64_t k, CrashMode mode, std::uint64_t layout = 0, std::uint64_t seed = 42) {
  std::unique_ptr<MemoryFileSystem> left;
  SeqNum promised = 0;
  bool armed = true;
  Harness h(crash_settings(FsyncMode::kAlways, layout));
  h.open();
  ModelDriver driver(h, seed, 120, second_tree(layout));
  h.faults->before_nth(k, kMutatingOps, [&] {
    if (!armed) return;
    left = h.files->crash_clone(first_seed() + k, mode);
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

TEST_CASE("power loss at any moment: synced writes survive, and the surviving writes are a prefix of all writes") {
  const std::uint64_t seeds = number_from_env("EBBTIDE_CRASH_SEEDS", 2000);
  for (std::uint64_t seed = first_seed(); seed < first_seed() + seeds; ++seed) {
    INFO("seed " << seed);
    lose_power(seed);
  }
}

TEST_CASE("crash with power loss at every k-th file operation: the database opens, verifies, and has a prefix of the writes") {
  const std::uint64_t step = number_from_env("EBBTIDE_CRASH_STEP", 1);
  // The layout changes with each operation, and with each round of a long run.
  std::uint64_t turn = round_of_seeds();
  for (const CrashMode mode : {CrashMode::kNothing, CrashMode::kRandom, CrashMode::kEverything}) {
    std::uint64_t ended = 0;  // consecutive turns without a k-th operation
    for (std::uint64_t k = 1; ended < small_policies().size(); k += step, ++turn) {
      INFO("crash before operation " << k << ", mode " << static_cast<int>(mode) << ", " << text_of(layout_of(turn)));
      ended = crash_before(k, mode, turn, first_seed() + 42) ? 0 : ended + 1;
    }
    ++turn;
  }
}

TEST_CASE("crash during recovery: the next open recovers") {
  for (std::uint64_t k = 1; k < 60; k += 3) {
    const std::uint64_t turn = k / 3 + round_of_seeds();
    INFO("second crash before operation " << k << ", " << text_of(layout_of(turn)));
    Harness h(crash_settings(FsyncMode::kAlways, turn));
    h.open();
    ModelDriver driver(h, first_seed() + 7, 120);
    some_work(h, driver, 200);
    const SeqNum promised = driver.durable();
    h.crash(CrashMode::kRandom, k);
    open_with_a_crash(h, k, CrashMode::kRandom);
    driver.check_recovered(promised);
    h.settle();
    driver.check_everything();
  }
}

TEST_CASE("file operation fails, once or for good: the caller gets the error, nothing aborts, and the database reopens") {
  const std::uint64_t step = number_from_env("EBBTIDE_FAULT_STEP", 1), most = number_from_env("EBBTIDE_FAULTS", 300);
  for (const bool sticky : {false, true}) {
    bool met = true;
    for (std::uint64_t n = 1; n <= most && met; n += step) {
      // Chooses the policy, and how much of the failing operation is done.
      const std::uint64_t turn = n / step + round_of_seeds();
      INFO("fault at " << n << (sticky ? ", sticky" : ", once") << ", effect " << turn % 3 << ", "
                       << text_of(layout_of(turn / 3)));
      Harness h(crash_settings(FsyncMode::kAlways, turn / 3));
      h.open();
      FileFault fault;
      fault.nth = n;
      fault.sticky = sticky;
      fault.effect = static_cast<FileFault::Effect>(turn % 3);
      h.faults->inject(fault);
      std::map<std::string, std::string> certain;
      for (int i = 0; i < 90; ++i) certain["key" + std::to_string(i)] = "(absent)";
      std::map<std::string, std::set<std::string>> possible;  // the possible values of keys whose write has an unknown outcome
      for (int i = 0; i < 400; ++i) {
        const bool puts = i % 7 != 3 && i % 30 != 29;
        const std::string value = puts ? std::to_string(i) + std::string(150, 'v') : "(absent)";
        std::string key = "key" + std::to_string(i % 90), end = key + '\0';
        WriteBatch batch;
        if (puts) {
          batch.put(0, key, value);
        } else if (i % 30 == 29) {
          key = "key" + std::to_string(10 + i % 80);
          end = "key" + std::to_string(15 + i % 80);
          batch.delete_range(0, key, end);
        } else {
          batch.del(0, key);
        }
        const Status status = h.db->commit(batch);
        if (!status.is_ok()) {
          h.advance(3000);
          h.settle();
          continue;
        }
        h.db->write_log();
        const bool durable = h.db->durable_seq() >= batch.last_seq();
        for (auto it = certain.lower_bound(key); it != certain.end() && it->first < end; ++it) {
          if (durable) {
            it->second = value;
            possible.erase(it->first);
          } else {
            possible[it->first].insert(value);
          }
        }
        if (i % 40 == 0) {
          for (int steps = 0; steps < 10; ++steps) {  // deletes are due before the run ends
            h.advance(70);
            h.settle();
          }
        }
      }
      met = h.faults->failures() != 0;
      h.faults->clear_faults();
      // The database heals without a restart once the fault has ended.
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
      h.verify(0);
      (void)h.db->close();
      h.drop();
      h.use(h.files->crash_clone(n, CrashMode::kNothing));
      h.open();
      check();
      h.verify(0);
    }
  }
}

TEST_CASE("read from the disk fails, once or for good: the caller gets an error, no wrong value, and no data is lost") {
  const std::uint64_t step = number_from_env("EBBTIDE_FAULT_STEP", 1), most = number_from_env("EBBTIDE_FAULTS", 300);
  for (const bool sticky : {false, true}) {
    bool met = true;
    for (std::uint64_t n = 1; n <= most && met; n += step) {
      const std::uint64_t turn = n / step + round_of_seeds();
      INFO("fault at " << n << (sticky ? ", sticky" : ", once") << ", " << text_of(layout_of(turn)));
      Settings settings = crash_settings(FsyncMode::kAlways, turn);
      settings.block_cache = 64 << 10;  // small, so that lookups read from the disk
      Harness h(settings);
      h.open();
      std::map<std::string, std::string> written;
      const auto write = [&](int i) {
        const std::string key = "key" + std::to_string(i % 90);
        WriteBatch batch;
        if (i % 7 == 3) {
          batch.del(0, key);
        } else {
          batch.put(0, key, std::to_string(i) + std::string(150, 'v'));
        }
        if (!h.db->commit(batch).is_ok()) return;  // reported as failed, and not done
        h.db->write_log();
        if (i % 7 == 3) {
          written.erase(key);
        } else {
          written[key] = std::to_string(i) + std::string(150, 'v');
        }
      };
      for (int i = 0; i < 300; ++i) write(i);
      h.settle();
      FileFault fault;
      fault.ops = kReadOps;
      fault.nth = n;
      fault.sticky = sticky;
      h.faults->inject(fault);
      for (int i = 300; i < 500; ++i) {
        write(i);
        const std::string key = "key" + std::to_string(i * 37 % 100);
        const auto found = written.find(key);
        const std::string expected = found == written.end() ? "(absent)" : found->second;
        Found value;
        const Status status = h.db->lease(0).get({key, hash_key(key)}, &value);
        if (status.is_ok() || status.is_not_found()) {
          const std::string got = status.is_ok() ? std::string(value.value) : "(absent)";
          if (got != expected) FAIL_CHECK(key << " reads " << got);
        }
        if (i % 25 == 0) {
          std::size_t seen = 0;
          const auto all = h.db->iterate(h.db->lease(0), IteratorOptions{});
          for (all->seek_to_first(); all->valid(); all->next()) ++seen;
          if (all->status().is_ok()) CHECK(seen == written.size());
          h.advance(500);
          h.settle();
        }
      }
      met = h.faults->failures() != 0;
      h.faults->clear_faults();
      for (int i = 0; i < 5; ++i) {
        h.advance(3000);
        h.settle();
      }
      const auto check = [&] {
        for (const auto& [key, value] : written) {
          if (h.get(0, key) != value) FAIL_CHECK(key << ": lost or wrong");
        }
      };
      check();
      h.verify(0);
      h.reopen();
      check();
    }
  }
}

TEST_CASE("file operation fails during open: open fails or gives a complete database, and the next open succeeds") {
  for (std::uint64_t n = 1;; ++n) {
    INFO("fault at operation " << n << ", " << text_of(layout_of(n)));
    Harness h(crash_settings(FsyncMode::kAlways, n));
    h.open();
    ModelDriver driver(h, first_seed() + 9, 120);
    some_work(h, driver, 150);
    const SeqNum promised = driver.durable();
    h.crash(CrashMode::kRandom, n);
    h.faults->inject({.ops = kAllOps, .nth = n});
    const Status status = h.try_open();
    const bool met = h.faults->failures() != 0;
    h.faults->clear_faults();
    if (!status.is_ok()) {
      CHECK(met);
      h.drop();
      h.open();
    }
    driver.check_recovered(promised);
    h.settle();
    for (int i = 0; i < 5; ++i) {
      h.advance(3000);
      h.settle();
    }
    driver.check_everything();
    if (!met) break;
  }
}

// --- planted bugs (support/planted.h): the tests above find them

/// Runs enough turns to include flushes and merges.
void crash_now_and_then() {
  for (std::uint64_t k = 10; k <= 400 && crash_before(k, CrashMode::kNothing); k += 10) {
  }
}

TEST_CASE("planted bug does not sync a table before the manifest names it: simulated power losses find the bug", "[planted]") {
  must_catch(PlantedBug::kSkipTableSync, crash_now_and_then);
}

TEST_CASE("planted bug does not sync table names before the manifest: simulated power losses find the bug", "[planted]") {
  must_catch(PlantedBug::kSkipDirectorySync, crash_now_and_then);
}

TEST_CASE("planted bug reports a write durable before its sync has ended: simulated power losses find the bug", "[planted]") {
  must_catch(PlantedBug::kAcknowledgeBeforeSync, [] {
    for (std::uint64_t k = 1; k <= 20; ++k) demand(crash_before(k, CrashMode::kNothing), "the script ends early");
  });
}

TEST_CASE("planted bug accepts a torn log record as complete: simulated power losses find the bug", "[planted]") {
  must_catch(PlantedBug::kAcceptGarbageTail, [] {
    for (std::uint64_t seed = 0; seed < 40; ++seed) lose_power(seed);
  });
}

}  // namespace TEST_FILE

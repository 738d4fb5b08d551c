// Tests of the engine with its own threads on real files: concurrent writers and readers during flushes and compactions.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include <stdlib.h>

#include <engine/db.h>
#include <catch2/catch.hpp>

#include "base/random.h"
#include "engine/db/harness.h"
#include "engine/db/layouts.h"

namespace TEST_FILE {

using namespace ebbtide;

struct TempDir {
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ebbtide-test-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~TempDir() { std::filesystem::remove_all(path); }
  std::string path;
};

// Counts errors on any thread, and keeps the first one.
class Wrong {
 public:
  void operator++() { ++count_; }
  void unless_ok(const Status& status, const char* what = "commit") {
    if (status.is_ok()) return;
    ++count_;
    const std::lock_guard lock(mutex_);
    if (first_.empty()) first_ = std::string(what) + ": " + status.to_string();
  }
  bool operator==(int count) const { return count_ == count; }
  friend std::ostream& operator<<(std::ostream& out, const Wrong& wrong) {
    const std::lock_guard lock(wrong.mutex_);
    return out << wrong.count_ << (wrong.first_.empty() ? "" : ", first: ") << wrong.first_;
  }

 private:
  std::atomic<int> count_{0};
  mutable std::mutex mutex_;
  std::string first_;
};

// Reports an error at once, since threads that still run would end the process.
void require_ok(const Status& status) {
  INFO(status.to_string());
  REQUIRE(status.is_ok());
}

Settings settings_in(const std::string& dir, FsyncMode fsync) {
  Settings s;
  s.dir = dir + "/data";
  s.max_disk_bytes = 1 << 30;  // otherwise 5 % of the machine's disk would have to be free
  s.fsync = fsync;
  s.memory_budget = 64 << 20;
  s.tree.memtable_size = 128 << 10;
  s.wal_segment_size = 512 << 10;
  s.background_threads = 2;
  s.tree.file_size = 256 << 10;
  s.tree.pages_per_tile = 2;
  return s;
}

// Returns a value with its key and a rising count, so that a reader detects wrong and older values.
std::string value_of(std::uint64_t key, std::uint64_t count) {
  return std::to_string(key) + ":" + std::to_string(count) + std::string(80, '.');
}

/// Writes `rounds` keys of those that belong to writer w of `writers`: each key has one writer, and `committed` is its count of
/// writes. `add` puts the write of a key with its next count into the batch; `then` is called after each round.
template <typename Add, typename Then>
void write_own_keys(Db& db, std::uint64_t w, std::uint64_t writers, std::uint64_t rounds,
                    std::vector<std::atomic<std::uint64_t>>& committed, Wrong& wrong, const Add& add, const Then& then) {
  Random random(w);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const std::uint64_t k = random.uniform(committed.size() / writers) * writers + w;
    const std::uint64_t count = committed[k].load() + 1;
    WriteBatch batch;
    add(batch, k, count);
    wrong.unless_ok(db.commit(batch));
    committed[k].store(count);
    if (i % 8 == 0) db.write_log();
    then(i);
  }
  db.write_log();
}

TEST_CASE("threads write, read, scan, flush and compact at once: no reader sees a wrong or older value", "[threads]") {
  const FsyncMode fsync = GENERATE(FsyncMode::kEverySecond, FsyncMode::kAlways);
  TempDir dir;
  auto opened = Db::open(settings_in(dir.path, fsync), {});
  INFO(opened.status().to_string());
  REQUIRE(opened.is_ok());
  auto db = std::move(opened).value();
  constexpr std::uint64_t kKeys = 400, kWriters = 2;
  const std::uint64_t rounds = fsync == FsyncMode::kAlways ? 1500 : 12'000;
  std::vector<std::atomic<std::uint64_t>> committed(kKeys);
  std::atomic<bool> stop{false};
  Wrong wrong;
  std::vector<std::thread> threads;
  for (std::uint64_t w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      const auto add = [](WriteBatch& batch, std::uint64_t k, std::uint64_t count) {
        batch.put(0, key_of(k), value_of(k, count));
      };
      write_own_keys(*db, w, kWriters, rounds, committed, wrong, add, [](std::uint64_t) {});
    });
  }
  std::vector<std::thread> readers;
  readers.emplace_back([&] {
    Random random(99);
    while (!stop) {
      const std::uint64_t k = random.uniform(kKeys);
      const std::uint64_t least = committed[k].load();
      const std::string key = key_of(k);
      PassGuard guard(*db);
      const ReadView view = db->view(0, db->now(), ReadMode::kBlocking, nullptr);
      Found found;
      const Status status = view.get({key, hash_key(key)}, &found);
      if (status.is_not_found() && least == 0) continue;
      if (!status.is_ok()) {
        ++wrong;
        continue;
      }
      const std::string text(found.value);
      const std::size_t colon = text.find(':');
      if (std::stoull(text) != k || std::stoull(text.substr(colon + 1)) < least) ++wrong;
    }
  });
  readers.emplace_back([&] {
    while (!stop) {
      auto it = db->iterate(db->lease(0), {});
      std::string last;
      for (it->seek_to_first(); it->valid(); it->next()) {
        if (!last.empty() && it->key() <= Bytes(last)) ++wrong;
        last.assign(it->key());
        if (key_of(std::stoull(std::string(it->value()))) != last) ++wrong;
      }
      if (!it->status().is_ok()) ++wrong;
    }
  });
  for (std::thread& t : threads) t.join();
  CHECK(db->flush(0).is_ok());
  CHECK(db->compact(0, {}).is_ok());
  stop = true;
  for (std::thread& t : readers) t.join();
  CHECK(wrong == 0);
  CHECK(db->wait_synced(db->visible_seq()).is_ok());
  CHECK(db->stats().flushes > 0);
  const auto report = db->verify(0);
  REQUIRE(report.is_ok());
  CHECK(report->errors.empty());
  REQUIRE(db->close().is_ok());
  db.reset();

  auto again = Db::open(settings_in(dir.path, fsync), {});
  REQUIRE(again.is_ok());
  for (std::uint64_t k = 0; k < kKeys; ++k) {
    const std::string key = key_of(k);
    Found found;
    const Status status = (*again)->lease(0).get({key, hash_key(key)}, &found);
    if (committed[k] == 0) {
      CHECK(status.is_not_found());
    } else {
      REQUIRE(status.is_ok());
      CHECK(found.value == value_of(k, committed[k]));
    }
  }
}

TEST_CASE("databases are flushed and swapped during reads and writes: their contents stay correct", "[threads]") {
  TempDir dir;
  auto opened = Db::open(settings_in(dir.path, FsyncMode::kNo), {});
  REQUIRE(opened.is_ok());
  auto db = std::move(opened).value();
  std::atomic<bool> stop{false};
  Wrong wrong;
  std::vector<std::thread> threads;
  for (int w = 0; w < 2; ++w) {
    threads.emplace_back([&, w] {
      Random random(static_cast<std::uint64_t>(w));
      for (int i = 0; i < 3000; ++i) {
        WriteBatch batch;
        const auto database = static_cast<DatabaseId>(random.uniform(3));
        if (random.one_in(200)) {
          batch.flush_database(database);
        } else if (random.one_in(200)) {
          batch.swap_databases(database, static_cast<DatabaseId>(random.uniform(3)));
        } else {
          batch.put(database, key_of(random.uniform(1000)), std::string(200, 'x'));
        }
        wrong.unless_ok(db->commit(batch));
        db->write_log();
      }
    });
  }
  std::thread reader([&] {
    Random random(7);
    while (!stop) {
      const std::string key = key_of(random.uniform(1000));
      PassGuard guard(*db);
      Found found;
      const Status status = db->view(static_cast<DatabaseId>(random.uniform(3)), db->now(), ReadMode::kBlocking, nullptr)
                                .get({key, hash_key(key)}, &found);
      if (!status.is_ok() && !status.is_not_found()) ++wrong;
      if (status.is_ok() && found.value.size() != 200) ++wrong;
    }
  });
  for (std::thread& t : threads) t.join();
  stop = true;
  reader.join();
  CHECK(wrong == 0);
  CHECK(db->close().is_ok());
}

// Regression: freeze() followed a pointer that the dropped tree no longer had.
TEST_CASE("manual flushes and merges run while threads empty databases: their contents stay correct", "[threads]") {
  TempDir dir;
  auto opened = Db::open(settings_in(dir.path, FsyncMode::kNo), {});
  REQUIRE(opened.is_ok());
  auto db = std::move(opened).value();
  std::atomic<bool> stop{false};
  Wrong wrong;
  std::vector<std::thread> others;
  for (int t = 0; t < 2; ++t) {
    others.emplace_back([&] {
      while (!stop) {
        wrong.unless_ok(db->flush(0), "flush");
        wrong.unless_ok(db->compact(0, {}), "compact");
      }
    });
  }
  for (int i = 0; i < 1000; ++i) {
    WriteBatch batch;
    batch.put(0, key_of(static_cast<std::uint64_t>(i)), "v");
    if (i % 3 == 0) batch.flush_database(0);
    batch.put(0, "after", "v");
    wrong.unless_ok(db->commit(batch));
    db->write_log();
  }
  stop = true;
  for (std::thread& t : others) t.join();
  CHECK(wrong == 0);
}

// Regression: a batch that arrived during a sync waited for the next write, and its client waited forever.
TEST_CASE("commit arrives during a sync: it is logged without a further write", "[threads]") {
  const FsyncMode fsync = GENERATE(FsyncMode::kEverySecond, FsyncMode::kAlways);
  TempDir dir;
  auto opened = Db::open(settings_in(dir.path, fsync), {});
  REQUIRE(opened.is_ok());
  auto db = std::move(opened).value();
  std::atomic<bool> stop{false};
  // Another thread requests syncs all the time, as range deletes and flushes do.
  std::thread syncer([&] {
    while (!stop) {
      if (!db->wait_synced(db->visible_seq()).is_ok()) return;
    }
  });
  for (int i = 0; i < 500; ++i) {
    WriteBatch batch;
    batch.put(0, key_of(static_cast<std::uint64_t>(i)), "v");
    require_ok(db->commit(batch));
    db->write_log();
    // One client waits for each reply, and no write follows. A lost wake-up hangs here.
    while (db->durable_seq() < batch.last_seq()) std::this_thread::yield();
  }
  stop = true;
  syncer.join();
}

TEST_CASE("batch empties and refills a database: readers see all of the batch or nothing, and never ahead of visible_seq",
          "[threads]") {
  TempDir dir;
  auto opened = Db::open(settings_in(dir.path, FsyncMode::kNo), {});
  REQUIRE(opened.is_ok());
  auto db = std::move(opened).value();
  const auto fill = [&](int n) {
    WriteBatch batch;
    batch.flush_database(0);
    for (int i = 0; i < 20; ++i) batch.put(0, key_of(static_cast<std::uint64_t>(i)), std::to_string(n));
    batch.put(1, key_of(0), std::to_string(n));
    return db->commit(batch).is_ok();
  };
  REQUIRE(fill(0));
  std::atomic<bool> stop{false};
  Wrong wrong;
  std::vector<std::thread> readers;
  const std::string key = key_of(19);
  readers.emplace_back([&] {
    while (!stop) {
      PassGuard guard(*db);
      Found found;
      if (!db->view(0, db->now(), ReadMode::kBlocking, nullptr).get({key, hash_key(key)}, &found).is_ok()) ++wrong;
    }
  });
  readers.emplace_back([&] {
    while (!stop) {
      Found found;
      if (!db->lease(0).get({key, hash_key(key)}, &found).is_ok()) ++wrong;
    }
  });
  for (int i = 1; i < 1500; ++i) {
    if (!fill(i)) ++wrong;
    db->write_log();
  }
  stop = true;
  for (std::thread& t : readers) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("databases are swapped and rewritten by one batch: readers of a database never see the other's value", "[threads]") {
  TempDir dir;
  auto opened = Db::open(settings_in(dir.path, FsyncMode::kNo), {});
  REQUIRE(opened.is_ok());
  auto db = std::move(opened).value();
  const auto put = [&](DatabaseId d, const char* value) {
    WriteBatch batch;
    batch.put(d, "k", value);
    require_ok(db->commit(batch));
  };
  // Each batch swaps the databases, and writes to each of them its own name again: "zero" to database 0, "one" to database 1.
  put(0, "zero");
  put(1, "one");
  std::atomic<bool> stop{false};
  Wrong wrong;
  std::thread reader([&] {
    while (!stop) {
      for (DatabaseId d = 0; d < 2; ++d) {
        const char* mine = d == 0 ? "zero" : "one";
        Found found;
        {
          PassGuard guard(*db);
          const Status status = db->view(d, db->now(), ReadMode::kBlocking, nullptr).get({"k", hash_key("k")}, &found);
          if (!status.is_ok() || found.value != mine) ++wrong;
        }
        const ReadView lease = db->lease(d);
        if (!lease.get({"k", hash_key("k")}, &found).is_ok() || found.value != mine) ++wrong;
      }
    }
  });
  for (int i = 0; i < 3000; ++i) {
    WriteBatch batch;
    batch.swap_databases(0, 1);
    batch.put(0, "k", "zero");
    batch.put(1, "k", "one");
    require_ok(db->commit(batch));
    db->write_log();
  }
  stop = true;
  reader.join();
  CHECK(wrong == 0);
}

// Opens a database with 4,000 keys in tables that are read past the page cache.
std::unique_ptr<Db> on_disk(const std::string& dir, unsigned fetch_threads) {
  Settings settings = settings_in(dir, FsyncMode::kNo);
  settings.fetch_threads = fetch_threads;
  settings.direct_io = true;
  auto opened = Db::open(settings, {});
  REQUIRE(opened.is_ok());
  auto db = std::move(opened).value();
  for (std::uint64_t i = 0; i < 4000; ++i) {
    WriteBatch batch;
    batch.put(0, key_of(i), value_of(i, 0));
    require_ok(db->commit(batch));
  }
  db->write_log();
  REQUIRE(db->flush(0).is_ok());
  return db;
}

// Fetches the missing pages of 400 lookups. Returns the number of pending fetches.
int begin_fetches(Db& db, FetchQueue* queue, std::vector<MissSet>* sets, const std::function<void()>& done) {
  int asked = 0;
  sets->resize(400);
  for (std::size_t i = 0; i < sets->size(); ++i) {
    MissSet& misses = (*sets)[i];
    const std::string key = key_of(i * 10);
    Found found;
    {
      PassGuard guard(db);
      (void)db.view(0, db.now(), ReadMode::kResident, &misses).get({key, hash_key(key)}, &found);
    }
    if (!misses.empty() && !db.fetch(&misses, done, queue)) ++asked;
  }
  return asked;
}

TEST_CASE("fetches are under way: close() ends all of them", "[threads]") {
  TempDir dir;
  const std::unique_ptr<Db> db = on_disk(dir.path, 1);
  std::vector<MissSet> sets;
  std::atomic<int> answered{0};
  const int asked = begin_fetches(*db, nullptr, &sets, [&] { ++answered; });
  CHECK(asked > 0);
  REQUIRE(db->close().is_ok());
  CHECK(answered == asked);
  sets.clear();
}

TEST_CASE("fetch queue is destroyed: every fetch that was begun ends", "[threads]") {
  TempDir dir;
  const std::unique_ptr<Db> db = on_disk(dir.path, 4);
  std::unique_ptr<FetchQueue> queue = db->new_fetch_queue();
  if (queue == nullptr) {
    WARN("io_uring is not allowed here");
    return;
  }
  std::vector<MissSet> sets;
  int answered = 0;
  const int asked = begin_fetches(*db, queue.get(), &sets, [&] { ++answered; });
  CHECK(asked > 0);
  queue.reset();
  CHECK(answered == asked);
  sets.clear();
  REQUIRE(db->close().is_ok());
}

TEST_CASE("fetch queue loads all missing pages of lookups: the lookups then find the right values", "[threads]") {
  TempDir dir;
  Settings settings = settings_in(dir.path, FsyncMode::kNo);
  settings.direct_io = true;
  settings.block_cache = 0;
  auto opened = Db::open(settings, {});
  REQUIRE(opened.is_ok());
  auto db = std::move(opened).value();
  db->pause_compactions();  // a merge would replace the tables whose pages were fetched
  std::unique_ptr<FetchQueue> queue = db->new_fetch_queue();
  if (queue == nullptr) {
    WARN("io_uring is not allowed here");
    return;
  }
  const std::string large(200'000, 'L');
  for (std::uint64_t i = 0; i < 4000; ++i) {
    WriteBatch batch;
    batch.put(0, key_of(i), i % 500 == 0 ? large : value_of(i, 0));
    require_ok(db->commit(batch));
  }
  db->write_log();
  REQUIRE(db->flush(0).is_ok());
  // The sets have 1, 2, ... keys, some with large values, which threads read.
  std::vector<MissSet> sets(80);
  std::vector<std::atomic<int>> ended(sets.size());
  std::size_t waits = 0;
  const auto lookup = [&](std::size_t s, std::size_t k, Found* found) {
    const std::string key = key_of((s * 50 + k) % 4000);
    return db->view(0, db->now(), ReadMode::kResident, &sets[s]).get({key, hash_key(key)}, found);
  };
  for (std::size_t s = 0; s < sets.size(); ++s) {
    {
      PassGuard guard(*db);
      Found found;
      for (std::size_t k = 0; k <= s; ++k) (void)lookup(s, k, &found);
    }
    if (sets[s].empty()) continue;  // earlier sets have loaded the pages
    if (!db->fetch(
            &sets[s], [&ended, s] { ended[s] = 1; }, queue.get()))
      ++waits;
    if (s % 10 == 9) queue->poll();
  }
  CHECK(waits > 0);
  const auto all_ended = [&] {
    std::size_t n = 0;
    for (auto& e : ended) n += static_cast<std::size_t>(e.load());
    return n == waits;
  };
  while (!all_ended()) queue->poll();
  for (std::size_t s = 0; s < sets.size(); ++s) {
    for (std::size_t k = 0; k <= s; ++k) {
      const std::uint64_t i = (s * 50 + k) % 4000;
      for (bool lacks = true; lacks;) {  // for a large value, perhaps only the page is there
        {
          PassGuard guard(*db);
          Found found;
          lacks = lookup(s, k, &found).is_not_resident();
        }
        REQUIRE((!lacks || i % 500 == 0));
        std::atomic<bool> done{!lacks};
        const auto end = [&] { done = true; };
        if (lacks && db->fetch(&sets[s], end, queue.get())) done = true;
        while (!done) queue->poll();
      }
      PassGuard guard(*db);
      Found found;
      REQUIRE(lookup(s, k, &found).is_ok());
      REQUIRE(found.value == (i % 500 == 0 ? large : value_of(i, 0)));
    }
  }
  queue.reset();
  sets.clear();
  REQUIRE(db->close().is_ok());
}

// Regression: a flush opened tables that a compaction had replaced and unlinked, and then commits were refused.
TEST_CASE("younger and smaller batches are inserted before a batch: readers still see all of the batch or nothing", "[threads]") {
  TempDir dir;
  auto opened = Db::open(settings_in(dir.path, FsyncMode::kNo), {});
  REQUIRE(opened.is_ok());
  auto db = std::move(opened).value();
  constexpr std::uint64_t kKeys = 300;
  const auto fill = [&](int n) {
    WriteBatch batch;
    for (std::uint64_t k = 0; k < kKeys; ++k) batch.put(0, key_of(k), std::to_string(n));
    return db->commit(batch).is_ok();
  };
  REQUIRE(fill(0));
  std::atomic<bool> stop{false};
  Wrong wrong;
  std::vector<std::thread> others;
  others.emplace_back([&] {
    while (!stop) {
      WriteBatch batch;
      batch.put(0, "small", "x");
      wrong.unless_ok(db->commit(batch));
    }
  });
  const std::string first = key_of(0), last = key_of(kKeys - 1);
  others.emplace_back([&] {
    SeqNum seen = 0;
    while (!stop) {
      PassGuard guard(*db);
      const ReadView view = db->view(0, db->now(), ReadMode::kBlocking, nullptr);
      if (view.seq() < seen) ++wrong;
      seen = view.seq();
      Found a, b;
      if (!view.get({first, hash_key(first)}, &a).is_ok() || !view.get({last, hash_key(last)}, &b).is_ok()) ++wrong;
      if (a.value != b.value) ++wrong;
    }
  });
  for (int i = 1; i < 1000; ++i) {
    if (!fill(i)) ++wrong;
    db->write_log();
  }
  stop = true;
  for (std::thread& t : others) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("filters are loaded and dropped during lookups: no result changes", "[threads]") {
  TempDir dir;
  Settings settings = settings_in(dir.path, FsyncMode::kNo);
  settings.tree.filter_allocation = FilterAllocation::kMonkey;
  auto opened = Db::open(settings, {});
  REQUIRE(opened.is_ok());
  auto db = std::move(opened).value();
  constexpr std::uint64_t kKeys = 6'000;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    WriteBatch batch;
    batch.put(0, key_of(i), value_of(i, 0));
    require_ok(db->commit(batch));
    if (i % 2'000 == 1'999) REQUIRE(db->flush(0).is_ok());
  }
  std::atomic<bool> stop{false};
  Wrong wrong;
  std::vector<std::thread> readers;
  for (std::uint64_t r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] {
      Random random(r);
      while (!stop) {
        PassGuard guard(*db);
        const ReadView view = db->view(0, db->now(), ReadMode::kBlocking, nullptr);
        for (int i = 0; i < 16; ++i) {
          const std::string key = key_of(random.uniform(2 * kKeys));
          const bool there = key < key_of(kKeys);
          LookupState state;
          const LookupKey lookup{key, hash_key(key), &state};
          for (int stage = 0; stage < ReadView::kPrefetchStages; ++stage) view.prefetch(lookup, stage);
          Found found;
          const Status status = view.get(lookup, &found);
          if (there ? !status.is_ok() : !status.is_not_found()) ++wrong;
        }
      }
    });
  }
  for (int round = 0; round < 60; ++round) {
    settings.tree.filter_bits_per_key = round % 3 == 0 ? 0 : round % 3 == 1 ? 16 : 5;
    REQUIRE(db->reconfigure(settings).is_ok());
    WriteBatch batch;
    batch.put(0, key_of(0), value_of(0, 1));
    require_ok(db->commit(batch));
    REQUIRE(db->flush(0).is_ok());
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
}

TEST_CASE("merge policy changes repeatedly during reads and writes: no write is lost, and no deleted key comes back",
          "[threads]") {
  TempDir dir;
  Settings settings = settings_in(dir.path, FsyncMode::kEverySecond);
  settings.tree.memtable_size = 32 << 10;
  settings.tree.file_size = 64 << 10;
  auto opened = Db::open(settings, {});
  REQUIRE(opened.is_ok());
  auto db = std::move(opened).value();
  // Every fourth write of a key deletes the key. Each policy is used twice.
  constexpr std::uint64_t kKeys = 400, kWriters = 2, kRounds = 12'000, kDeletes = 4;
  const std::uint64_t turn = kRounds / (2 * small_policies().size());
  std::vector<std::atomic<std::uint64_t>> committed(kKeys);
  std::atomic<bool> stop{false};
  Wrong wrong;
  std::vector<std::thread> writers;
  for (std::uint64_t w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      const auto add = [](WriteBatch& batch, std::uint64_t k, std::uint64_t count) {
        if (count % kDeletes == 0) {
          batch.del(0, key_of(k));
        } else {
          batch.put(0, key_of(k), value_of(k, count));
        }
      };
      write_own_keys(*db, w, kWriters, kRounds, committed, wrong, add, [&, w](std::uint64_t i) {
        if (w != 0 || i % turn != 0) return;
        settings.tree.policy = small_policies()[i / turn % small_policies().size()];
        if (!db->reconfigure(settings).is_ok()) ++wrong;
      });
    });
  }
  // Checks a read of a key that had at least `least` writes before: no older value, and absent only if a later write is a delete.
  const auto judge = [&](std::uint64_t k, std::uint64_t least, const std::string& text) {
    const std::uint64_t most = committed[k].load() + 1;  // a write is visible before it is counted here
    if (text.empty()) {
      if (most / kDeletes * kDeletes < least) ++wrong;
      return;
    }
    const std::uint64_t count = std::stoull(text.substr(text.find(':') + 1));
    if (std::stoull(text) != k || count < least || count > most) ++wrong;
  };
  std::vector<std::thread> readers;
  readers.emplace_back([&] {
    Random random(99);
    while (!stop) {
      const std::uint64_t k = random.uniform(kKeys);
      const std::uint64_t least = committed[k].load();
      const std::string key = key_of(k);
      PassGuard guard(*db);
      Found found;
      const Status status = db->view(0, db->now(), ReadMode::kBlocking, nullptr).get({key, hash_key(key)}, &found);
      if (!status.is_ok() && !status.is_not_found()) ++wrong;
      judge(k, least, status.is_ok() ? std::string(found.value) : "");
    }
  });
  readers.emplace_back([&] {
    while (!stop) {
      std::vector<std::uint64_t> least;
      for (const auto& count : committed) least.push_back(count.load());
      std::vector<std::string> seen(kKeys);
      const auto it = db->iterate(db->lease(0), {});
      for (it->seek_to_first(); it->valid(); it->next()) {
        const std::string text(it->value());
        const std::uint64_t k = std::stoull(text);
        if (k >= kKeys || it->key() != Bytes(key_of(k)) || !seen[k].empty()) {
          ++wrong;
        } else {
          seen[k] = text;
        }
      }
      if (!it->status().is_ok()) ++wrong;
      for (std::uint64_t k = 0; k < kKeys; ++k) judge(k, least[k], seen[k]);
    }
  });
  for (std::thread& t : writers) t.join();
  CHECK(db->flush(0).is_ok());
  CHECK(db->compact(0, {}).is_ok());
  stop = true;
  for (std::thread& t : readers) t.join();
  CHECK(wrong == 0);
  const Stats stats = db->stats();
  CHECK(stats.flushes > 5);
  CHECK(stats.compactions > 0);
  CHECK(stats.bounds_broken == 0);
  CHECK(db->tree_info(0)->policy == settings.tree.policy.name);
  const auto report = db->verify(0);
  REQUIRE(report.is_ok());
  CHECK(report->errors.empty());
  REQUIRE(db->close().is_ok());
  db.reset();

  auto again = Db::open(settings, {});
  REQUIRE(again.is_ok());
  for (std::uint64_t k = 0; k < kKeys; ++k) {
    const std::string key = key_of(k);
    const std::uint64_t count = committed[k].load();
    Found found;
    const Status status = (*again)->lease(0).get({key, hash_key(key)}, &found);
    if (count % kDeletes == 0) {
      CHECK(status.is_not_found());
    } else {
      REQUIRE(status.is_ok());
      CHECK(found.value == value_of(k, count));
    }
  }
}

/// A log that waits for the message of a missed deadline.
class MissHeard final : public EventListener {
 public:
  void on_message(Severity /*severity*/, const std::string& text) override {
    if (text.find("missed their deadline") == std::string::npos) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    heard_ = true;
    changed_.notify_all();
  }
  void await() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [this] { return heard_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool heard_ = false;
};

/// Delays a sync of the directory until a miss was logged: the first sync after the edit that follows a new log segment.
class SlowToOpen final : public InterposedFileSystem {
 public:
  SlowToOpen(FileSystem& base, MissHeard& miss) : InterposedFileSystem(base), miss_(miss) {}

 private:
  Status around(const FileCall& call, const Run& run) override {
    if (call.op == FileOp::kCreate && call.path.ends_with(".wal")) segment_ = true;
    if (call.op == FileOp::kWrite && call.path.find("MANIFEST") != std::string::npos && segment_) edit_ = true;
    if (call.op == FileOp::kSyncDir && edit_ && !waited_.exchange(true)) miss_.await();
    return run(call.length);
  }
  MissHeard& miss_;
  std::atomic<bool> segment_{false}, edit_{false}, waited_{false};
};

TEST_CASE("deletes are late at open: the reason is `down`, also if a tick comes before open has ended", "[threads]") {
  MemoryFileSystem files;
  SimulatedClock clock;
  Settings settings = Harness::small();
  settings.tree.delete_deadline = 10'000;
  settings.fsync = FsyncMode::kAlways;
  Components components;
  components.fs = &files;
  components.clock = &clock;
  {
    auto opened = Db::open(settings, components);
    REQUIRE(opened.is_ok());
    const auto db = std::move(opened).value();
    WriteBatch batch;
    batch.put(0, "k", "v");
    require_ok(db->commit(batch));
    REQUIRE(db->flush(0).is_ok());
    batch.clear();
    batch.del(0, "k");
    require_ok(db->commit(batch));
    REQUIRE(db->close().is_ok());
  }
  clock.advance(60'000);
  MissHeard miss;
  SlowToOpen slow(files, miss);
  components.fs = &slow;
  components.events = &miss;
  auto opened = Db::open(settings, components);
  REQUIRE(opened.is_ok());
  const auto db = std::move(opened).value();
  miss.await();
  CHECK(db->stats().deadlines_missed_down == 1);
  CHECK(db->stats().deadlines_missed_load == 0);
}

TEST_CASE("staged batches commit beside small ones, readers and flushes: readers see each whole and in order",
          "[threads][staged]") {
  const FsyncMode fsync = GENERATE(FsyncMode::kEverySecond, FsyncMode::kAlways);
  TempDir dir;
  const Settings settings = settings_in(dir.path, fsync);
  auto db = std::move(Db::open(settings, {})).value();
  constexpr std::uint64_t kKeys = 200, kRounds = 60, kStagers = 2;
  std::atomic<std::uint64_t> running{kStagers}, small{0};
  Wrong wrong;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kStagers; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        WriteBatch batch;
        for (std::uint64_t k = 0; k < kKeys; ++k) batch.put(0, std::to_string(t) + "-" + key_of(k), value_of(t, round), {});
        batch.delete_range(0, std::to_string(t) + "-z", std::to_string(t) + "-zz");
        auto staged = db->stage(std::move(batch));
        wrong.unless_ok(staged.status(), "stage");
        if (!staged.is_ok()) continue;
        wrong.unless_ok(db->commit(**staged));
        db->write_log();
        wrong.unless_ok(db->wait_durable((*staged)->batch().last_seq()), "wait_durable");
      }
      --running;
    });
  }
  threads.emplace_back([&] {
    while (running != 0 && small < 20'000) {  // some megabytes of log, since the disk may be small
      WriteBatch batch;
      batch.put(0, "small", std::to_string(small.load() + 1), {});
      wrong.unless_ok(db->commit(batch));
      db->write_log();
      small += 1;
    }
  });
  threads.emplace_back([&] {
    while (running != 0) {
      const ReadView view = db->lease(0);
      for (std::uint64_t t = 0; t < kStagers; ++t) {
        std::string first;
        for (std::uint64_t k = 0; k < kKeys; k += 40) {
          const std::string key = std::to_string(t) + "-" + key_of(k);
          Found found;
          const Status status = view.get({key, hash_key(key)}, &found);
          const std::string value = status.is_ok() ? std::string(found.value) : "";
          if (k == 0) first = value;
          if (value != first) ++wrong;  // half a batch was visible
        }
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  const auto check = [&] {
    for (std::uint64_t t = 0; t < kStagers; ++t) {
      for (std::uint64_t k = 0; k < kKeys; ++k) {
        const std::string key = std::to_string(t) + "-" + key_of(k);
        Found found;
        REQUIRE(db->lease(0).get({key, hash_key(key)}, &found).is_ok());
        CHECK(found.value == value_of(t, kRounds));
      }
    }
    Found found;
    REQUIRE(db->lease(0).get({"small", hash_key("small")}, &found).is_ok());
    CHECK(found.value == std::to_string(small.load()));
  };
  check();
  REQUIRE(db->close().is_ok());
  db.reset();
  db = std::move(Db::open(settings, {})).value();
  check();
}

}  // namespace TEST_FILE

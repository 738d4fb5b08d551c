// Two threads that read the same keys one after the other, for shared_writes.py: it watches which cache lines they write.
//
// Each thread reads all keys before it is measured, so that it has its slots and counters, and so that all pages are in the cache.
// Then one thread at a time makes its reads, and writes the marker of the phase before and after. The engine has no threads of its own here,
// and memory comes from malloc, so nothing else writes meanwhile.
//
//   shared_writes_reads DIR      prints the number of reads of a phase, and a name for each phase
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <engine/db.h>

#include "base/background_pool.h"

extern "C" {
alignas(64) volatile std::uint64_t shared_writes_marker[16];  // shared_writes.py looks its address up
}

namespace ebbtide {
namespace {

constexpr int kKeys = 120;  // half of them in a table, a third in the memtable, the rest in neither
constexpr int kReads = 50;  // of a phase
constexpr std::size_t kThreads = 2;

void check(const Status& status) {
  if (status.is_ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

std::string key(int i) {
  char text[32];
  std::snprintf(text, sizeof text, "key:%06d", i);
  return text;
}

void write(Db& db, int from, int to) {
  WriteBatch batch;
  for (int i = from; i < to; ++i) batch.put(0, key(i), std::string(50, 'v'));
  check(db.commit(batch));
  db.write_log();
}

/// Reads a key as a server does: in a pass, with the result in memory. Returns true if it exists. A server asks for the time once in
/// a pass of many reads; the first thread that asks in a millisecond writes it to a line that all threads read.
bool read(Db& db, const std::string& name, Millis now) {
  const PassGuard guard(db);
  MissSet misses;
  const ReadView view = db.view(0, now, ReadMode::kResident, &misses);
  Found found;
  const Status status = view.get({name, hash_key(name)}, &found);
  if (status.is_not_resident()) {  // while warming up
    std::mutex mutex;
    std::condition_variable done;
    bool is_done = false;
    const bool at_once = db.fetch(&misses, [&] {
      const std::lock_guard lock(mutex);
      is_done = true;
      done.notify_one();
    });
    std::unique_lock lock(mutex);
    if (!at_once) done.wait(lock, [&] { return is_done; });
    return read(db, name, now);
  }
  return status.is_ok();
}

struct Phase {
  const char* name;
  int from, to;  ///< the keys that it reads
  bool exist;
};
constexpr Phase kPhases[] = {
    {"keys of a table", 0, kKeys / 2, true},
    {"keys of the memtable", kKeys / 2, kKeys * 5 / 6, true},
    {"absent keys", kKeys * 5 / 6, kKeys, false},
};

void read_all(Db& db, const Phase& phase, int reads, Millis now) {
  for (int i = 0; i < reads; ++i) {
    if (read(db, key(phase.from + i % (phase.to - phase.from)), now) != phase.exist) {
      std::fprintf(stderr, "%s: wrong result\n", phase.name);
      std::exit(1);
    }
  }
}

/// Runs each function on a thread of its own, one after the other; all threads exist until the end.
class Turns {
 public:
  void wait(std::size_t turn) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == turn; });
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ++turn_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t turn_ = 0;
};

int run(const char* dir) {
  ManualPool pool;
  Settings settings;
  settings.dir = dir;
  settings.memory_budget = std::uint64_t{32} << 20;
  settings.tree.memtable_size = std::uint64_t{1} << 20;
  settings.io_uring = false;
  Components components;
  components.background = &pool;
  auto opened = Db::open(settings, components);
  check(opened.status());
  Db& db = *opened.value();
  write(db, 0, kKeys / 2);
  check(db.flush(0));
  write(db, kKeys / 2, kKeys * 5 / 6);

  std::printf("%d", kReads);
  for (const Phase& phase : kPhases) std::printf(",%s", phase.name);
  std::printf("\n");
  Turns turns;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      turns.wait(thread);
      for (int round = 0; round < 2; ++round) {
        for (const Phase& phase : kPhases) read_all(db, phase, phase.to - phase.from, db.now());
      }
      turns.end();
      std::size_t turn = kThreads + thread;
      for (std::size_t phase = 0; phase < std::size(kPhases); ++phase, turn += kThreads) {
        turns.wait(turn);
        const Millis now = db.now();
        shared_writes_marker[phase] = 1;
        read_all(db, kPhases[phase], kReads, now);
        shared_writes_marker[phase] = 0;
        turns.end();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  check(db.close());
  return 0;
}

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) {
  if (argc == 2) return ebbtide::run(argv[1]);
  std::fprintf(stderr, "usage: shared_writes_reads DIR\n");
  return 2;
}

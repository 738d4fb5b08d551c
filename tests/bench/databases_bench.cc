// Measures one point of the axis "databases" of growth.py: the cost of an engine with so many databases, all of which have keys.
//
// The same number of entries of 100 bytes is spread over the databases, in random order. The figure has
//   - CPU time per put of the load, with the flushes and merges that it causes;
//   - CPU time of a GET of a random key of a random database;
//   - the time of a flush of one key in one database, and its CPU time;
//   - the CPU time of the idle engine, its memory per database beyond that of one, and the time of the next open.
//
// Prints `progress: TEXT` lines and one line `figure: {...}`.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <engine/db.h>
#include "bench/engines/data.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

struct Parameters {
  std::uint64_t count = 16, entries = 500'000, reads = 200'000, flushes = 21;
  double idle_seconds = 5;
  std::string dir;
};

constexpr std::size_t kValueBytes = 100;

void check(const Status& status) {
  if (!status.is_ok()) die("ebbtide: " + status.to_string());
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double thread_seconds() {
  timespec at{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) + 1e-9 * static_cast<double>(at.tv_nsec);
}

class Bench {
 public:
  explicit Bench(const Parameters& p) : p_(p), values_(kValueBytes) { open(); }

  void run() {
    JsonLine line;
    line.add("count", p_.count);
    load(&line);
    line.add("kib_per_database", resident_bytes() / 1024 / static_cast<double>(p_.count));
    read(&line);
    flush_one_by_one(&line);
    const Stopwatch idle;
    std::this_thread::sleep_for(std::chrono::duration<double>(p_.idle_seconds));
    line.add("idle_cores", idle.stop(1).cpu_ns * 1e-9 / idle.seconds());
    check(db_->close());
    db_.reset();
    const Stopwatch start;
    open();
    line.add("open_seconds", start.seconds());
    check(db_->close());
    line.print();
  }

 private:
  void open() {
    Settings settings;
    settings.dir = p_.dir;
    settings.databases = static_cast<int>(p_.count);
    settings.fsync = FsyncMode::kNo;
    settings.tree.memtable_size = std::uint64_t{8} << 20;
    settings.block_cache = std::uint64_t{128} << 20;
    settings.memory_budget = std::uint64_t{1} << 30;
    settings.background_threads = 1;
    auto opened = Db::open(settings, Components{});
    check(opened.status());
    db_ = std::move(opened).value();
  }
  /// Returns the database of an entry, which follows from the entry's number.
  [[nodiscard]] std::uint32_t database_of(std::uint64_t number) const { return static_cast<std::uint32_t>(number % p_.count); }

  void put(std::uint64_t number) {
    WriteBatch batch;
    batch.put(database_of(number), Key::scattered(number).view(), values_.at(number));
    check(db_->commit(batch));
    db_->write_log();
  }
  void settle() {
    wait_for_rest(kRestLooks, [this] { return db_->stats().compactions_running != 0; });
  }

  void load(JsonLine* line) {
    Progress progress("writing");
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < p_.entries; ++i) {
      put(i);
      if (i % 1024 == 0) progress.at(i, p_.entries);
    }
    settle();
    line->add("put_cpu_us", watch.stop(p_.entries).cpu_ns / 1000);
  }

  /// Adds the cost of GETs to the figure: the median of five rounds.
  void read(JsonLine* line) {
    Random random(17);
    std::vector<double> rounds;
    for (int round = 0; round < 6; ++round) {
      const double start = thread_seconds();
      for (std::uint64_t i = 0; i < p_.reads / 5; ++i) {
        const std::uint64_t number = random.uniform(p_.entries);
        const Key key = Key::scattered(number);
        PassGuard guard(*db_);
        Found result;
        check(db_->view(database_of(number), db_->now(), ReadMode::kBlocking, nullptr)
                  .get(LookupKey{key.view(), hash_key(key.view())}, &result));
        if (result.value.empty()) die("a key that was written is absent");
      }
      if (round > 0) rounds.push_back((thread_seconds() - start) * 1e9 / static_cast<double>(p_.reads / 5));
    }
    std::sort(rounds.begin(), rounds.end());
    line->add("get_ns", rounds[rounds.size() / 2]);
  }

  void flush_one_by_one(JsonLine* line) {
    std::vector<double> wall, used;
    for (std::uint64_t i = 0; i < p_.flushes; ++i) {
      const std::uint64_t number = p_.entries + i * 7919;
      put(number);
      const Stopwatch watch;
      check(db_->flush(database_of(number)));
      wall.push_back(watch.seconds() * 1000);
      settle();
      used.push_back(watch.stop(1).cpu_ns * 1e-6);
    }
    std::sort(wall.begin(), wall.end());
    std::sort(used.begin(), used.end());
    line->add("flush_ms", wall[wall.size() / 2]).add("flush_ms_max", wall.back()).add("flush_cpu_ms", used[used.size() / 2]);
  }

  const Parameters& p_;
  const Values values_;
  std::unique_ptr<Db> db_;
};

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  CLI::App app{"One point of ./dev bench growth --axes databases; its --help explains more"};
  app.add_option("--count", p.count, "databases")->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1024}));
  const auto number = [&](const char* name, std::uint64_t* value, const char* what) {
    app.add_option(name, *value, what)->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
  };
  number("--entries", &p.entries, "keys of all databases together");
  number("--reads", &p.reads, "GETs");
  number("--flushes", &p.flushes, "flushes of one key");
  app.add_option("--idle", p.idle_seconds, "seconds without work");
  app.add_option("--dir", p.dir, "folder for the database; it is removed");
  CLI11_PARSE(app, argc, argv);
  in_empty_dir(&p.dir, 500 * p.entries + p.count * 4096 * 8, [&] { Bench(p).run(); });
  return 0;
}

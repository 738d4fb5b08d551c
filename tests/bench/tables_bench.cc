// Measures one point of the axis "tables" of growth.py: the cost of an edit of the manifest in a database of so many tables, and of
// ingest in key order. Such an ingest consists mostly of edits: each table is flushed once and then moved from level to level.
//
// Keys ascend. A value fills most of a table, so a put makes about one table. The figure has
//   - puts per second and CPU time per put of the last tenth of the ingest, with the merges after it;
//   - at rest, the median time of a flush of one key among all keys, and its CPU time with the merges that it causes;
//   - the CPU time of an idle database, and the time of the next open.
// With --dir on a file system in memory, the engine is measured without the disk.
//
// Prints `progress: TEXT` lines and one line `figure: {...}`.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <engine/db.h>
#include <engine/stats.h>
#include <CLI/CLI.hpp>

#include "bench/engines/data.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

struct Parameters {
  std::uint64_t count = 1000, file_kib = 64, memtable_mib = 16, flushes = 21;
  double idle_seconds = 5;
  std::string dir;
};

constexpr std::uint64_t kLeastPuts = 512;

void check(const Status& status) {
  if (!status.is_ok()) die("ebbtide: " + status.to_string());
}

std::string key(std::uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "key:%012llu", static_cast<unsigned long long>(number));
  return text;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  explicit Bench(const Parameters& p) : p_(p), value_(p.file_kib * 1024 * 15 / 16, '\0') {
    for (char& c : value_) c = static_cast<char>(random_.next());
    open();
  }

  void run() {
    JsonLine line;
    line.add("count", p_.count);
    ingest(&line);
    line.add("moves", db_->stats().trivial_moves);
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
    settings.databases = 1;
    settings.fsync = FsyncMode::kNo;
    settings.memory_budget = std::uint64_t{8} << 30;
    settings.block_cache = std::uint64_t{64} << 20;
    settings.tree.memtable_size = p_.memtable_mib << 20;
    settings.wal_segment_size = std::uint64_t{64} << 20;
    settings.scrub_interval = 0;
    settings.max_disk_bytes = std::uint64_t{1} << 40;
    settings.max_open_files = 10'000;
    settings.tree.file_size = p_.file_kib * 1024;
    settings.tree.compression = settings.tree.compression_last_level = Compression::kNone;
    auto opened = Db::open(settings, Components{});
    check(opened.status());
    db_ = std::move(opened).value();
  }
  void put(const std::string& name, Bytes value) {
    WriteBatch batch;
    batch.put(0, name, value);
    check(db_->commit(batch));
    db_->write_log();
  }
  void settle() {
    wait_for_rest(kRestLooks, [this] { return db_->stats().compactions_running != 0; });
  }

  void ingest(JsonLine* line) {
    Progress progress("writing");
    const std::uint64_t last = std::min(p_.count, std::max(p_.count / 10, kLeastPuts));
    Stopwatch watch;
    for (std::uint64_t i = 0; i < p_.count; ++i) {
      if (i + last == p_.count) watch = Stopwatch{};
      put(key(i), value_);
      progress.at(i, p_.count);
    }
    settle();
    line->add("puts_per_second", static_cast<double>(last) / (watch.seconds() - kRestSeconds));
    line->add("put_cpu_us", watch.stop(last).cpu_ns / 1000);
  }

  void flush_one_by_one(JsonLine* line) {
    std::vector<double> wall, used;
    for (std::uint64_t i = 0; i < p_.flushes; ++i) {
      put(key(random_.uniform(p_.count)), "v");
      const Stopwatch watch;
      check(db_->flush(0));
      wall.push_back(watch.seconds() * 1000);
      settle();
      used.push_back(watch.stop(1).cpu_ns * 1e-6);
    }
    line->add("flush_ms", median(wall)).add("flush_cpu_ms", median(used));
  }

  const Parameters& p_;
  std::string value_;
  std::unique_ptr<Db> db_;
  Random random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  CLI::App app{"One point of ./dev bench growth --axes tables; its --help explains more"};
  app.add_option("--count", p.count, "tables")->check(CLI::Range(std::uint64_t{1}, std::uint64_t{10'000'000}));
  app.add_option("--file-kib", p.file_kib, "size of a table");
  app.add_option("--memtable-mib", p.memtable_mib, "size of a memtable");
  app.add_option("--flushes", p.flushes, "flushes of one key")->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}));
  app.add_option("--idle", p.idle_seconds, "seconds without work");
  app.add_option("--dir", p.dir, "folder for the database; it is removed");
  CLI11_PARSE(app, argc, argv);
  in_empty_dir(&p.dir, p.count * p.file_kib * 1024 * 2 + (std::uint64_t{64} << 20), [&] { Bench(p).run(); });
  return 0;
}

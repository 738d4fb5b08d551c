// Runs one engine with one merge policy in a process of its own: Autumn's measurements (Zhao et al., section 4). autumn.py has
// the order of runs, tables and headlines.
//
//   db_bench   A fill in random order; then reads: existing keys, absent keys, seeks, seeks with 10 and 100 steps.
//   scans      The fill, and seeks with 10 steps.
//   ycsb       A load in random order; then YCSB's core workloads, A B C F D E in YCSB's own order.
//
// As in the paper there are no compression, no filters unless asked for, and hardly any block cache (a thousandth of the data; pages
// are in the system's page cache). Both engines have the same memtable, level 0 is merged down at four runs, and the first level has at
// least four memtables (engines/engine.h).
//
// At rest level 0 would have none to three runs by chance, which cost reads more than the compared levels do. So before each part
// runs of new keys, half a memtable each, are written until level 0 has none; at most four.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/engines/engine.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

struct Parameters {
  std::string engine = "ebbtide", part = "db_bench", dir;
  double size_ratio = 2, scaling_ratio = 0.8, filter_bits = 0;
  std::uint64_t entries = 2'000'000, operations = 1'000'000;
  std::size_t value_bytes = 50;
  std::uint64_t memtable_bytes = std::uint64_t{2} << 20;
  bool monkey = false;
  std::vector<int> multipliers;
  unsigned background = 1;

  [[nodiscard]] std::uint64_t data_bytes() const { return entries * (Key::kBytes + value_bytes); }
};

/// Draws ranks from 0, smaller ranks more often: P(rank) ~ 1 / (rank + 1)^0.99, as YCSB does (Gray et al., SIGMOD 1994).
class Zipfian {
 public:
  explicit Zipfian(std::uint64_t items) : items_(static_cast<double>(items)) {
    for (std::uint64_t i = 1; i <= items; ++i) sum_ += std::pow(static_cast<double>(i), -kTheta);
    const double two = 1 + std::pow(0.5, kTheta);
    eta_ = (1 - std::pow(2 / items_, 1 - kTheta)) / (1 - two / sum_);
  }
  std::uint64_t next(Random& random) const {
    const double u = random.fraction(), part = u * sum_;
    if (part < 1) return 0;
    if (part < 1 + std::pow(0.5, kTheta)) return 1;
    const double rank = items_ * std::pow(eta_ * u - eta_ + 1, 1 / (1 - kTheta));
    return std::min(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(items_) - 1);
  }

 private:
  static constexpr double kTheta = 0.99;
  const double items_;
  double sum_ = 0, eta_ = 0;
};

std::uint64_t nanoseconds() { return static_cast<std::uint64_t>(now_seconds() * 1e9); }

JsonLine latencies(const Histogram& histogram) {
  const auto us = [](double ns) { return ns / 1e3; };
  const auto at = [&](double q) { return us(static_cast<double>(histogram.quantile(q))); };
  JsonLine line;
  line.add("count", histogram.count()).add("mean_us", us(histogram.mean())).add("p50_us", at(0.5)).add("p95_us", at(0.95));
  line.add("p99_us", at(0.99)).add("p999_us", at(0.999)).add("max_us", us(static_cast<double>(histogram.max())));
  return line;
}

class Bench {
 public:
  explicit Bench(const Parameters& p) : p_(p), values_(p.value_bytes), zipfian_(p.entries) {
    EngineSetup setup;
    setup.dir = p.dir;
    setup.memtable_bytes = p.memtable_bytes;
    setup.cache_bytes = std::max<std::uint64_t>(p.data_bytes() / 1000, 64 << 10);
    setup.entries = p.entries;
    setup.merge_threads = p.background;
    setup.size_ratio = p.size_ratio;
    setup.filter_bits = p.filter_bits;
    setup.monkey = p.monkey;
    setup.multipliers = p.multipliers;
    setup.policy = "garnering";
    setup.policy_parameters = {{"scaling_ratio", p.scaling_ratio}};
    engine_ = open_engine(p.engine, setup);
  }

  void run() {
    load();
    if (p_.part == "scans") return scans(10);
    if (p_.part == "db_bench") {
      reads("read", [&] { expect(engine_->get(key(random_.uniform(written_)).view()), true); });
      reads("read absent", [&] { expect(engine_->get(absent().view()), false); });
      for (const std::size_t steps : {0, 10, 100}) scans(steps);
      return;
    }
    workload("A", {.reads = 50, .updates = 50});
    workload("B", {.reads = 95, .updates = 5});
    workload("C", {.reads = 100});
    workload("F", {.reads = 50, .changes = 50});
    workload("D", {.reads = 95, .inserts = 5, .latest = true});
    workload("E", {.inserts = 5, .scans = 95});
  }

 private:
  /// The percentages of operations.
  struct Mix {
    unsigned reads = 0, updates = 0, inserts = 0, scans = 0, changes = 0;
    bool latest = false;
  };

  static Key key(std::uint64_t number) { return Key::scattered(number); }
  /// Returns a key that is never written, in the range of the other keys.
  Key absent() { return key((std::uint64_t{1} << 40) + random_.uniform(std::uint64_t{1} << 40)); }
  void expect(bool found, bool wanted) const {
    if (found != wanted) die(p_.engine + (wanted ? " has lost a key" : " has found a key that was never written"));
  }
  void put(std::uint64_t number) { engine_->put(key(number).view(), values_.at(number + random_.uniform(64))); }
  void insert() { put(written_++); }

  void load() {
    Progress progress("loading");
    const IoBytes before = IoBytes::now();
    const Stopwatch watch;
    Histogram puts;
    while (written_ < p_.entries) {
      const std::uint64_t begin = nanoseconds();
      insert();
      puts.record(nanoseconds() - begin);
      if (written_ % 256 == 0) progress.at(written_, p_.entries);
    }
    const PerOperation written = watch.stop(p_.entries);
    engine_->settle();
    const PerOperation rested = watch.stop(p_.entries);
    JsonLine line;
    line.add("what", "load").add("per_second", written.per_second).add("at_rest_per_second", rested.per_second);
    line.add("cpu_ns", rested.cpu_ns).add("written_bytes", (IoBytes::now() - before).written).add("put", latencies(puts));
    tree(&line);
    line.print();
  }
  /// Adds runs until level 0 has none. Small entries take up to three times their bytes of a memtable. A sixth of a memtable is
  /// not flushed by itself, so each settle() makes exactly one run.
  void even_out() {
    const std::uint64_t some = std::max<std::uint64_t>(1, p_.memtable_bytes / (Key::kBytes + p_.value_bytes) / 6);
    for (int tries = 0;; ++tries) {
      engine_->settle();
      const std::vector<LevelCounts> levels = engine_->levels();
      if (levels.empty() || levels.front().level != 0) return;
      if (tries == 40) die(p_.engine + " cannot empty level 0; runs left there: " + std::to_string(levels.front().runs));
      for (std::uint64_t i = 0; i < some; ++i) insert();
    }
  }
  void tree(JsonLine* line) const {
    std::vector<std::vector<double>> rows;
    std::uint64_t bytes = 0;
    for (const LevelCounts& level : engine_->levels()) {
      rows.push_back({static_cast<double>(level.level), static_cast<double>(level.runs), static_cast<double>(level.files),
                      static_cast<double>(level.bytes)});
      bytes += level.bytes;
    }
    line->add("levels", rows).add("table_bytes", bytes).add("entries", written_);
  }

  /// Measures seeks that each move on `steps` times. With 0 steps, a seek only reads the entry that it finds.
  void scans(std::size_t steps) {
    reads(steps == 0 ? "seek" : "seek and " + std::to_string(steps) + " next",
          [&] { engine_->scan(key(random_.uniform(written_)).view(), steps + 1); });
  }
  void reads(const std::string& what, const std::function<void()>& operation) {
    even_out();
    engine_->renew_scan();
    Progress progress(what);
    const std::uint64_t pages = engine_->pages_read();
    Histogram histogram;
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < p_.operations; ++i) {
      const std::uint64_t begin = nanoseconds();
      operation();
      histogram.record(nanoseconds() - begin);
      if (i % 256 == 0) progress.at(i, p_.operations);
    }
    const PerOperation took = watch.stop(p_.operations);
    const double read = static_cast<double>(engine_->pages_read() - pages) / static_cast<double>(p_.operations);
    JsonLine line;
    line.add("what", what).add("per_second", took.per_second).add("cpu_ns", took.cpu_ns).add("pages", read);
    line.add("latency", latencies(histogram));
    tree(&line);
    line.print();
  }

  /// Returns the number of an existing key, by the workload's distribution; popular keys are scattered.
  std::uint64_t popular(bool latest) {
    const std::uint64_t rank = zipfian_.next(random_);
    return latest ? written_ - 1 - rank : Key::scatter(rank) % p_.entries;
  }
  void workload(const std::string& name, const Mix& mix) {
    even_out();
    Progress progress("YCSB " + name);
    Histogram reads, updates, inserts, scans, changes;
    const auto timed = [](Histogram* histogram, const auto& operation) {
      const std::uint64_t begin = nanoseconds();
      operation();
      histogram->record(nanoseconds() - begin);
    };
    JsonLine line;
    line.add("what", "ycsb").add("workload", name);
    tree(&line);
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < p_.operations; ++i) {
      const std::uint64_t dice = random_.uniform(100);
      const std::uint64_t number = popular(mix.latest);
      if (dice < mix.reads) {
        timed(&reads, [&] { expect(engine_->get(key(number).view()), true); });
      } else if (dice < mix.reads + mix.updates) {
        timed(&updates, [&] { put(number); });
      } else if (dice < mix.reads + mix.updates + mix.inserts) {
        timed(&inserts, [&] { insert(); });
      } else if (dice < mix.reads + mix.updates + mix.inserts + mix.scans) {
        const std::uint64_t length = 1 + random_.uniform(100);
        timed(&scans, [&] {
          engine_->renew_scan();
          engine_->scan(key(number).view(), length);
        });
      } else {
        timed(&changes, [&] {
          expect(engine_->get(key(number).view()), true);
          put(number);
        });
      }
      if (i % 256 == 0) progress.at(i, p_.operations);
    }
    const PerOperation took = watch.stop(p_.operations);
    line.add("per_second", took.per_second).add("cpu_ns", took.cpu_ns);
    const std::pair<const char*, const Histogram*> kinds[] = {
        {"read", &reads}, {"update", &updates}, {"insert", &inserts}, {"scan", &scans}, {"read_modify_write", &changes}};
    for (const auto& [kind, histogram] : kinds) {
      if (histogram->count() != 0) line.add(kind, latencies(*histogram));
    }
    line.print();
  }

  const Parameters& p_;
  const Values values_;
  const Zipfian zipfian_;
  Random random_{47};
  std::unique_ptr<Engine> engine_;
  std::uint64_t written_ = 0;  // keys 0 to written_ - 1 exist
};

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  CLI::App app{"One engine under Autumn's loads; ./dev bench paper autumn runs it for all variants"};
  app.add_option("--engine", p.engine)->check(CLI::IsMember({"ebbtide", "rocksdb"}));
  app.add_option("--part", p.part)->check(CLI::IsMember({"db_bench", "scans", "ycsb"}));
  app.add_option("--size-ratio", p.size_ratio, "T of both engines")->check(CLI::Range(2, 1024));
  app.add_option("--scaling-ratio", p.scaling_ratio, "c of Ebbtide; 1 is leveling")->check(CLI::Range(0.25, 1.0));
  app.add_option("--filter-bits", p.filter_bits, "filter bits per key")->check(CLI::Range(0.0, 32.0));
  app.add_flag("--monkey", p.monkey, "Ebbtide: filter memory by Monkey instead of uniform");
  app.add_option("--multipliers", p.multipliers, "RocksDB: factors of the capacity of level 1 and of T for each further level")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000));
  app.add_option("--entries", p.entries)->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--operations", p.operations, "operations of each kind of read, or of each workload")
      ->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--value-bytes", p.value_bytes)->check(CLI::Range(std::size_t{8}, std::size_t{60'000}));
  app.add_option("--memtable", p.memtable_bytes, "bytes of a memtable of each engine");
  app.add_option("--background", p.background, "merge threads");
  app.add_option("--dir", p.dir, "directory for the database, removed at the end");
  CLI11_PARSE(app, argc, argv);
  in_empty_dir(&p.dir, 4 * p.data_bytes() + 16 * p.memtable_bytes + (std::uint64_t{1} << 28), [&] { Bench(p).run(); });
  return 0;
}

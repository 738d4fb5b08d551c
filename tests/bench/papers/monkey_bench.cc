// One variant of filters.py: pages read by lookups of absent and existing keys while the data doubles several times.
//
// After each doubling merges come to rest and lookups are counted. The block cache is tiny (a thousandth of the data), so each
// page that a lookup visits is read; indexes and filters stay in memory. Absent keys are scattered over the range of every file.
//
// Trees are alike without --policy (engines/engine.h: size_ratio): level 0 is merged down at four runs, and every further level
// is size_ratio times the level before. Two sources of chance are removed. Level 0 would have none to three runs at rest, which
// cost lookups, so before each count runs are added until level 0 has none. The places of files would depend on which merge ends
// first, which changes the number of runs with a file for a key by a fifth. So each run of half a memtable waits for the merges
// of the run before, and one thread merges. Then all variants of Ebbtide have the same tree.
//
// --measured: Monkey uses the measured lookups. Before each count there are four times as many lookups of its kind, with a run
// after each quarter, which makes the engine choose the filters in memory again. Without --measured only the runs are added. A
// file's filters on disk stay as they were written.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/engines/engine.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

constexpr int kFillLooks = 3;  // there are hundreds of runs

struct Parameters {
  std::uint64_t entries = 2'000'000;
  std::uint64_t reads = 100'000;
  int doublings = 3;
  double size_ratio = 2;
  std::string policy = "one_leveling";
  std::size_t value_bytes = 100;
  std::uint64_t memtable_bytes = std::uint64_t{1} << 20;
  unsigned background = 1;  // with two threads, chance decides which files a merge overlaps
  double bits = 10;
  std::string engine = "ebbtide";
  bool monkey = false, measured = false;
  std::string dir;

  [[nodiscard]] std::uint64_t data_bytes() const { return entries * (Key::kBytes + value_bytes); }
};

/// Counts lookups of one kind.
struct Reads {
  double pages = 0;  ///< per lookup
  PerOperation took;
};

struct Row {
  std::uint64_t entries = 0;
  std::uint64_t runs = 0;
  double write_amplification = 0;  ///< bytes written by flushes and merges, divided by those of flushes
  double bits_in_memory = 0;       ///< per key
  Reads absent, existing;
};

class Bench {
 public:
  explicit Bench(const Parameters& p) : p_(p), values_(p.value_bytes) {}

  void run() {
    EngineSetup setup;
    setup.dir = p_.dir;
    setup.memtable_bytes = p_.memtable_bytes;
    setup.cache_bytes = std::max<std::uint64_t>(p_.data_bytes() / 1000, 64 << 10);
    setup.entries = p_.entries;
    setup.merge_threads = p_.background;
    setup.size_ratio = p_.size_ratio;
    setup.policy = p_.policy;
    setup.filter_bits = p_.bits;
    setup.monkey = p_.monkey;
    setup.measured_lookups = p_.measured;
    const auto engine = open_engine(p_.engine, setup);
    for (int left = p_.doublings; left >= 0; --left) {
      fill(*engine, p_.entries >> left);
      even_out(*engine);
      const Reads absent = count(*engine, false), existing = count(*engine, true);
      print({written_, runs_of(*engine), write_amplification(*engine), engine->filter_bits_per_key(), absent, existing});
    }
  }

 private:
  void fill(Engine& engine, std::uint64_t until) {
    Progress progress("filling");
    while (written_ < until) {
      add_run(engine, kFillLooks);
      progress.at(std::min(written_, p_.entries), p_.entries);
    }
  }
  void add_run(Engine& engine, int looks = kRestLooks) {
    const std::uint64_t half = std::max<std::uint64_t>(1, p_.memtable_bytes / (Key::kBytes + p_.value_bytes) / 2);
    for (std::uint64_t i = 0; i < half; ++i, ++written_) engine.put(Key::scattered(written_).view(), values_.at(written_));
    engine.settle_after(looks);
  }
  static std::uint64_t runs_of(Engine& engine) {
    std::uint64_t runs = 0;
    for (const LevelCounts& level : engine.levels()) runs += level.runs;
    return runs;
  }
  static double write_amplification(Engine& engine) {
    const EngineCounters done = engine.counters();
    return 1 +
           static_cast<double>(done.merged_bytes_written) / static_cast<double>(std::max<std::uint64_t>(done.flushed_bytes, 1));
  }
  /// Adds runs until level 0 has none.
  void even_out(Engine& engine) {
    engine.settle();
    for (int tries = 0;; ++tries) {
      const std::vector<LevelCounts> levels = engine.levels();
      if (levels.empty() || levels.front().level != 0) return;
      if (tries == 40) die(p_.engine + " cannot empty level 0");
      add_run(engine);
    }
  }

  [[nodiscard]] Reads count(Engine& engine, bool existing) {
    for (int i = 0; i < 4; ++i) {  // shares are averaged with those before
      if (p_.measured) (void)look_up(engine, existing);
      add_run(engine);
    }
    even_out(engine);
    return look_up(engine, existing);
  }
  [[nodiscard]] Reads look_up(Engine& engine, bool existing) const {
    Random random(existing ? 41 : 43);
    std::uint64_t hits = 0;
    const std::uint64_t pages = engine.pages_read();
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < p_.reads; ++i) {
      const std::uint64_t number = existing ? random.uniform(written_) : 2 * p_.entries + random.uniform(std::uint64_t{1} << 40);
      hits += engine.get(Key::scattered(number).view()) ? 1 : 0;
    }
    Reads reads;
    reads.took = watch.stop(p_.reads);
    reads.pages = static_cast<double>(engine.pages_read() - pages) / static_cast<double>(p_.reads);
    if (hits != (existing ? p_.reads : 0)) die(std::to_string(hits) + " of " + std::to_string(p_.reads) + " were found");
    return reads;
  }

  static void print(const Row& row) {
    const auto line_of = [](const Reads& reads) {
      return JsonLine().add("pages", reads.pages).add("per_second", reads.took.per_second).add("cpu_ns", reads.took.cpu_ns);
    };
    JsonLine()
        .add("entries", row.entries)
        .add("runs", row.runs)
        .add("write_amplification", row.write_amplification)
        .add("bits_in_memory", row.bits_in_memory)
        .add("absent", line_of(row.absent))
        .add("existing", line_of(row.existing))
        .print();
  }

  const Parameters& p_;
  const Values values_;
  std::uint64_t written_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  CLI::App app{"One run of ./dev bench filters; its --help explains more"};
  app.add_option("--engine", p.engine)->check(CLI::IsMember({"ebbtide", "rocksdb"}));
  app.add_flag("--monkey", p.monkey, "Ebbtide: filter memory by Monkey instead of uniform");
  app.add_flag("--measured", p.measured, "Monkey for the measured lookups instead of absent keys");
  app.add_option("--bits", p.bits, "filter bits per key")->check(CLI::Range(0, 32));
  app.add_option("--entries", p.entries, "entries at the end")
      ->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--reads", p.reads, "lookups of each kind after each doubling")
      ->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--doublings", p.doublings, "doublings of the data, with lookups counted before each")->check(CLI::Range(0, 10));
  app.add_option("--size-ratio", p.size_ratio)->check(CLI::Range(2, 32))->capture_default_str();
  app.add_option("--policy", p.policy, "Ebbtide's policy, with a size ratio and merges out of level 0")
      ->check(CLI::IsMember({"one_leveling", "leveling", "tiering", "lazy_leveling", "klsm", "garnering"}))
      ->capture_default_str();
  app.add_option("--memtable", p.memtable_bytes, "bytes of a memtable")->capture_default_str();
  app.add_option("--background", p.background, "merge threads")->capture_default_str();
  app.add_option("--dir", p.dir, "directory for the database, removed at the end");
  CLI11_PARSE(app, argc, argv);
  in_empty_dir(&p.dir, 4 * p.data_bytes() + (std::uint64_t{1} << 28), [&] { Bench(p).run(); });
  return 0;
}

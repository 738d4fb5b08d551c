// Compares the engine with RocksDB: the same keys, values, order, memory and durability, in one process, in turn.
//
// A round builds a database in random order on one engine, waits until its merges are at rest, reads from it, builds another in
// key order, and removes both; then the other engine does the same. Rounds begin with each engine in turn. Results are medians
// over the rounds.
//
// Equal for both are 16-byte keys, 100-byte values, a log that is written at each put but never synced, and no compression. There
// are 10 filter bits a key, 4 KiB pages, memtables of 64 MiB, as many merge threads and one flush thread. The block cache holds
// all of the data (engines/engine.h). Everything else is each engine's default. Stored keys are even numbers and absent keys are
// odd, so an absent key lies in the range of every file.
//
// "span 16" looks up sixteen keys at once. Ebbtide uses staged prefetch, like its server, and its four fetch threads read the
// missing pages together. RocksDB uses MultiGet.
//
// "Cold" reads come last, on the same database, reopened with a cache of a twentieth of the data and without the system's page
// cache: nearly each read waits for the drive. Indexes and filters of both engines stay in memory.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/engines/engine.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

struct Parameters {
  std::uint64_t entries = 10'000'000;
  std::uint64_t reads = 2'000'000;
  std::uint64_t scans = 200'000;
  std::uint64_t cold_reads = 100'000;
  unsigned rounds = 3;
  unsigned background = 2;
  std::size_t value_bytes = 100;
  std::uint64_t memtable_bytes = std::uint64_t{64} << 20;
  std::string policy = "one_leveling";
  std::uint32_t pages_per_tile = 1;
  std::string dir;
  std::string engine = "both";
  std::string only;

  [[nodiscard]] std::uint64_t data_bytes() const { return entries * (16 + value_bytes); }
  /// Returns the size of a block cache for all data and indexes, or for a twentieth of them if `cold`.
  [[nodiscard]] std::uint64_t cache_bytes(bool cold) const {
    if (cold) return std::max(data_bytes() / 20, std::uint64_t{8} << 20);
    return 2 * data_bytes() + (std::uint64_t{256} << 20);
  }
};

constexpr std::size_t kSpan = Engine::kSpan;
constexpr std::size_t kScanLength = 10;

/// The results: (load, engine) -> one sample per round; loads are in the order of their first run.
struct Results {
  std::vector<std::string> loads;
  std::map<std::pair<std::string, std::string>, std::vector<PerOperation>> samples;

  void add(const std::string& load, const std::string& engine, PerOperation sample) {
    if (std::find(loads.begin(), loads.end(), load) == loads.end()) loads.push_back(load);
    samples[{load, engine}].push_back(sample);
  }
};

class Round {
 public:
  Round(const Parameters& p, const Values& values, Results& results, std::string engine, unsigned number)
      : p_(p), values_(values), results_(results), name_(std::move(engine)), number_(number) {}

  void run() {
    if (wanted("load random") || wanted("read") || wanted("seek") || wanted("cold")) {
      with_database("random", [&](const std::string& dir) {
        random_order(*open(dir, false));
        if (wanted("cold")) cold(*open(dir, true));
      });
    }
    if (wanted("load in order"))
      with_database("ordered", [&](const std::string& dir) { load(*open(dir, false), "load in order", in_order()); });
  }

 private:
  [[nodiscard]] bool wanted(const std::string& load) const {
    return p_.only.empty() || load.find(p_.only) != std::string::npos || p_.only.find(load) != std::string::npos;
  }

  [[nodiscard]] std::unique_ptr<Engine> open(const std::string& dir, bool cold) const {
    EngineSetup setup;
    setup.dir = dir;
    setup.memtable_bytes = p_.memtable_bytes;
    setup.cache_bytes = p_.cache_bytes(cold);
    setup.entries = p_.entries;
    setup.direct_reads = cold;
    setup.merge_threads = p_.background;
    setup.policy = p_.policy;
    setup.pages_per_tile = p_.pages_per_tile;
    return open_engine(name_, setup);
  }
  void with_database(const std::string& suffix, const std::function<void(const std::string& dir)>& work) {
    const std::string dir = p_.dir + "/" + name_ + "-" + suffix;
    std::filesystem::remove_all(dir);
    std::filesystem::create_directories(p_.dir);
    work(dir);
    std::filesystem::remove_all(dir);
  }

  [[nodiscard]] std::vector<std::uint32_t> in_order() const {
    std::vector<std::uint32_t> order(p_.entries);
    std::iota(order.begin(), order.end(), 0u);
    return order;
  }
  [[nodiscard]] std::vector<std::uint32_t> shuffled() const {
    std::vector<std::uint32_t> order = in_order();
    Random random(17);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.uniform(i)]);
    return order;
  }

  void load(Engine& engine, const std::string& load, const std::vector<std::uint32_t>& order) {
    progress(load);
    const Stopwatch watch;
    for (const std::uint32_t i : order) engine.put(Key(std::uint64_t{2} * i).view(), values_.at(i));
    results_.add(load, name_, watch.stop(order.size()));
    engine.settle();
    results_.add(load + ", merges at rest", name_, watch.stop(order.size()));
  }

  void random_order(Engine& engine) {
    load(engine, "load random", shuffled());
    progress("read");
    for (std::uint64_t i = 0; i < p_.entries; i += 8) {  // loads every page of the last run into the cache
      if (!engine.get(Key(2 * i).view())) die(name_ + " has lost key " + std::to_string(2 * i));
    }
    gets(engine, "read hit", 0, p_.reads);
    gets(engine, "read miss", 1, p_.reads);
    spans(engine, "read hit, span 16", 0, p_.reads);
    spans(engine, "read miss, span 16", 1, p_.reads);
    seeks(engine, "seek and 10 next", p_.scans);
  }

  void cold(Engine& engine) {
    progress("cold reads");
    gets(engine, "cold read hit", 0, p_.cold_reads);
    gets(engine, "cold read miss", 1, p_.cold_reads);
    spans(engine, "cold read hit, span 16", 0, p_.cold_reads);
    seeks(engine, "cold seek and 10 next", p_.cold_reads);
  }

  void seeks(Engine& engine, const std::string& load, std::uint64_t count) {
    Random random(23);
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < count; ++i) engine.scan(Key(2 * random.uniform(p_.entries)).view(), kScanLength);
    results_.add(load, name_, watch.stop(count));
  }

  void gets(Engine& engine, const std::string& load, std::uint64_t odd, std::uint64_t count) {
    Random random(19 + odd);
    std::uint64_t hits = 0;
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < count; ++i) hits += engine.get(Key(2 * random.uniform(p_.entries) + odd).view());
    results_.add(load, name_, watch.stop(count));
    if (hits != (odd ? 0 : count)) die(name_ + ": " + load + " found " + std::to_string(hits) + " of " + std::to_string(count));
  }
  void spans(Engine& engine, const std::string& load, std::uint64_t odd, std::uint64_t reads) {
    Random random(29 + odd);
    std::uint64_t hits = 0;
    const std::uint64_t count = reads / kSpan * kSpan;
    std::vector<Key> keys(kSpan, Key(0));
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < count; i += kSpan) {
      for (Key& key : keys) key = Key(2 * random.uniform(p_.entries) + odd);
      hits += engine.get_span(keys.data());
    }
    results_.add(load, name_, watch.stop(count));
    if (hits != (odd ? 0 : count)) die(name_ + ": " + load + " found " + std::to_string(hits) + " of " + std::to_string(count));
  }

  void progress(const std::string& what) const {
    std::fprintf(stderr, "round %u of %u: %s, %s\n", number_ + 1, p_.rounds, name_.c_str(), what.c_str());
  }

  const Parameters& p_;
  const Values& values_;
  Results& results_;
  std::string name_;
  unsigned number_;
};

PerOperation median(const std::vector<PerOperation>& samples) {
  const auto middle = [&](auto member) {
    std::vector<double> values;
    for (const PerOperation& sample : samples) values.push_back(sample.*member);
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
  };
  return {middle(&PerOperation::per_second), middle(&PerOperation::cpu_ns)};
}

void show(Results& results, const std::vector<std::string>& engines) {
  std::printf("%-30s %14s %14s %7s %12s %12s\n", "load", "rocksdb /s", "ebbtide /s", "ratio", "cpu ns", "cpu ns");
  for (const std::string& load : results.loads) {
    std::map<std::string, PerOperation> medians;
    for (const std::string& engine : engines) {
      const std::vector<PerOperation>& samples = results.samples[{load, engine}];
      medians[engine] = median(samples);
      std::printf(
          "figure: {\"load\": \"%s\", \"engine\": \"%s\", \"ops_per_second\": %.1f, \"cpu_ns_per_op\": %.1f, \"rounds\": [",
          load.c_str(), engine.c_str(), medians[engine].per_second, medians[engine].cpu_ns);
      for (std::size_t i = 0; i < samples.size(); ++i) std::printf("%s%.1f", i ? ", " : "", samples[i].per_second);
      std::printf("]}\n");
    }
    const PerOperation r = medians["rocksdb"], e = medians["ebbtide"];
    const double ratio = engines.size() == 2 ? e.per_second / r.per_second : 0;
    std::printf("%-30s %14.0f %14.0f %7.2f %12.0f %12.0f\n", load.c_str(), r.per_second, e.per_second, ratio, r.cpu_ns, e.cpu_ns);
  }
  std::printf(
      "\nPairs are rocksdb, ebbtide; ratio is ebbtide / rocksdb. cpu ns: of the whole process, per operation. Medians over the "
      "rounds.\n");
}

/// Ends the program now if it would later run out of memory or disk.
void check_room(const Parameters& p) {
  const auto memory =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
  const std::uint64_t wanted_memory = p.cache_bytes(false) + 8 * p.memtable_bytes + 16 * p.entries;
  if (wanted_memory > memory / 10 * 9)
    die(std::to_string(p.entries) + " entries need about " + std::to_string(wanted_memory >> 20) +
        " MiB of memory, as both caches hold all data; this machine has " + std::to_string(memory >> 20) + " MiB");
  need_disk(p.dir,
            4 * p.data_bytes() + 16 * p.memtable_bytes);  // one database at a time, twice its size during merges, and its log
}

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  bool quick = false;
  CLI::App app{"Ebbtide's engine beside RocksDB"};
  app.add_flag("--quick", quick, "a million entries, half a million reads, one round");
  app.add_option("--entries", p.entries, "keys in each database")
      ->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}))
      ->capture_default_str();
  app.add_option("--reads", p.reads, "lookups per load")->capture_default_str();
  app.add_option("--scans", p.scans, "seeks")->capture_default_str();
  app.add_option("--cold-reads", p.cold_reads, "lookups or seeks per cold load")->capture_default_str();
  app.add_option("--rounds", p.rounds)->check(CLI::Range(1, 100))->capture_default_str();
  app.add_option("--background", p.background, "background threads of each engine")->capture_default_str();
  app.add_option("--memtable", p.memtable_bytes, "bytes of a memtable of each engine")->capture_default_str();
  app.add_option("--policy", p.policy, "Ebbtide's merge policy")->capture_default_str();
  app.add_option("--pages-per-tile", p.pages_per_tile, "Ebbtide's h")->capture_default_str();
  app.add_option("--engine", p.engine)->check(CLI::IsMember({"both", "ebbtide", "rocksdb"}))->capture_default_str();
  app.add_option("--only", p.only, "only loads with this text in their names");
  app.add_option("--dir", p.dir, "directory for the databases; default: a new folder under the system's temporary one");
  CLI11_PARSE(app, argc, argv);
  if (quick) {
    const auto shorten = [&app](const char* option, auto& value, std::uint64_t shorter) {
      if (app.count(option) == 0) value = static_cast<std::remove_reference_t<decltype(value)>>(shorter);
    };
    shorten("--entries", p.entries, 1'000'000);
    shorten("--reads", p.reads, 500'000);
    shorten("--scans", p.scans, 50'000);
    shorten("--cold-reads", p.cold_reads, 20'000);
    shorten("--rounds", p.rounds, 1);
  }
  if (p.dir.empty()) p.dir = default_dir();

  check_room(p);

  std::vector<std::string> engines = {"rocksdb", "ebbtide"};
  if (p.engine != "both") engines = {p.engine};
  const Values values(p.value_bytes);
  Results results;
  for (unsigned round = 0; round < p.rounds; ++round) {
    for (const std::string& engine : engines) Round(p, values, results, engine, round).run();
    std::reverse(engines.begin(), engines.end());
  }
  std::sort(engines.begin(), engines.end(), std::greater<>());
  std::error_code not_empty;  // other programs use the directory, too
  std::filesystem::remove(p.dir, not_empty);
  show(results, engines);
  return 0;
}

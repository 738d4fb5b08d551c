// Measures one database of papers/kiwi.py. It is built once and read. Then, on a copy of its files for each
// selectivity, all entries with a stamp below a bound are deleted.
//
// Keys are scattered over their domain and written in the order of their numbers. Stamps are the key's place in the domain
// (correlated) or the order of arrival, like write times (uncorrelated). Bytes are those that the process passed to read and
// write calls of the system, from the delete until no file has deleted data.
//
// Prints `progress: TEXT` lines and lines `figure: {...}`: one of "what": "reads", then one of "what": "delete" for each
// selectivity and way to delete.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/engines/engine.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

struct Parameters {
  std::string engine = "ebbtide";
  std::uint64_t entries = 128'000;
  std::size_t value_bytes = 984;
  std::uint32_t pages_per_tile = 8;
  bool correlated = false;
  std::vector<double> selectivities;
  std::uint64_t reads = 100'000, cold_reads = 20'000;
  unsigned merge_threads = 2;
  std::string dir;

  [[nodiscard]] std::uint64_t data_bytes() const { return entries * (Key::kBytes + value_bytes); }
  [[nodiscard]] EngineSetup setup(const std::string& at, bool cold) const {
    EngineSetup setup;
    setup.dir = at;
    setup.memtable_bytes = std::clamp<std::uint64_t>(data_bytes() / 64, std::uint64_t{1} << 20, std::uint64_t{64} << 20);
    setup.cache_bytes =
        cold ? std::max(data_bytes() / 20, std::uint64_t{8} << 20) : 2 * data_bytes() + (std::uint64_t{256} << 20);
    setup.entries = entries;
    setup.direct_reads = cold;
    setup.merge_threads = merge_threads;
    setup.size_ratio = 10;
    setup.pages_per_tile = pages_per_tile;
    setup.stamps = true;
    return setup;
  }
  [[nodiscard]] std::uint64_t stamp_of(std::uint64_t number) const {
    if (correlated) return Key::scatter(number) >> 1;
    return static_cast<std::uint64_t>(0x1p63 / static_cast<double>(entries) * static_cast<double>(number));
  }
};

class Bench {
 public:
  explicit Bench(const Parameters& p) : p_(p), base_(p.dir + "/base"), copy_(p.dir + "/copy") {}

  void run() {
    std::filesystem::remove_all(base_);
    std::filesystem::create_directories(base_);
    load();
    reads().add("what", std::string("reads")).print();
    for (const double selectivity : p_.selectivities) {
      const auto end = static_cast<std::uint64_t>(selectivity * 0x1p63);
      if (p_.engine == "ebbtide") {
        on_copy(selectivity, "drop", [&](JsonLine* line) { drop(end, line); });
      } else {
        on_copy(selectivity, "filter", [&](JsonLine* line) { compact(end, line, &RocksEngine::filter_out); });
        on_copy(selectivity, "scan", [&](JsonLine* line) { compact(end, line, &RocksEngine::scan_and_delete); });
      }
    }
    std::filesystem::remove_all(base_);
  }

 private:
  void load() {
    const auto engine = open_engine(p_.engine, p_.setup(base_, false));
    const Values values(p_.value_bytes);
    Progress progress("filling");
    std::string value;
    for (std::uint64_t i = 0; i < p_.entries; ++i) {
      value.assign(values.at(i));
      engine->put_stamped(Key::scattered(i).view(), &value, p_.stamp_of(i));
      if (i % 256 == 0) progress.at(i, p_.entries);
    }
    engine->settle();
  }

  // --- reads: cached, and from the disk

  JsonLine reads() {
    JsonLine line;
    {
      const auto engine = open_engine(p_.engine, p_.setup(base_, false));
      warm(*engine);
      Progress progress("cached reads");
      line.add("cached_hit", gets(*engine, 0, p_.reads, &progress))
          .add("cached_miss", gets(*engine, p_.entries, p_.reads, &progress));
      line.add("cached_scan_10", scans(*engine, 10, p_.reads / 10, &progress));
      line.add("cached_scan_1000", scans(*engine, 1000, p_.reads / 1000, &progress));
    }
    const auto engine = open_engine(p_.engine, p_.setup(base_, true));
    Progress progress("reads from the disk");
    gets(*engine, 0, p_.cold_reads / 4, &progress);
    line.add("cold_hit", gets(*engine, 0, p_.cold_reads, &progress))
        .add("cold_miss", gets(*engine, p_.entries, p_.cold_reads, &progress));
    line.add("cold_scan_10", scans(*engine, 10, p_.cold_reads / 10, &progress));
    line.add("cold_scan_1000", scans(*engine, 1000, p_.cold_reads / 200, &progress));
    line.add("table_bytes", DiskBytes::of(base_).tables);
    return line;
  }
  void warm(Engine& engine) {
    Progress progress("warming the cache");
    for (std::uint64_t i = 0; i < p_.entries; ++i) {
      engine.get(Key::scattered(i).view());
      if (i % 256 == 0) progress.at(i, p_.entries);
    }
  }
  /// Looks up as many numbers from `first` on as there are entries: existing or absent keys.
  JsonLine gets(Engine& engine, std::uint64_t first, std::uint64_t count, Progress* progress) {
    Random random(19 + first);
    std::uint64_t hits = 0;
    const std::uint64_t pages = engine.pages_read();
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < count; ++i) {
      hits += engine.get(Key::scattered(first + random.uniform(p_.entries)).view()) ? 1 : 0;
      if (i % 256 == 0) progress->at(i, count);
    }
    if (hits != (first == 0 ? count : 0))
      die(p_.engine + ": " + std::to_string(hits) + " of " + std::to_string(count) + " were found");
    return line_of(watch.stop(count), engine.pages_read() - pages, count);
  }
  JsonLine scans(Engine& engine, std::size_t length, std::uint64_t count, Progress* progress) {
    Random random(23);
    const std::uint64_t pages = engine.pages_read();
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < count; ++i) {
      engine.scan(Key::at(random.next()).view(), length);
      progress->at(i, count);
    }
    return line_of(watch.stop(count), engine.pages_read() - pages, count);
  }
  static JsonLine line_of(const PerOperation& took, std::uint64_t pages, std::uint64_t count) {
    JsonLine line;
    line.add("per_second", took.per_second).add("cpu_ns", took.cpu_ns);
    line.add("pages", static_cast<double>(pages) / static_cast<double>(count));
    return line;
  }

  // --- deletes

  void on_copy(double selectivity, const std::string& way, const std::function<void(JsonLine*)>& work) {
    char what[64];
    std::snprintf(what, sizeof what, "%s of %.3g %%", way.c_str(), selectivity * 100);
    Progress(what).at(0, 1);
    std::filesystem::remove_all(copy_);
    std::filesystem::copy(base_, copy_, std::filesystem::copy_options::recursive);
    JsonLine line;
    line.add("what", std::string("delete")).add("way", way).add("selectivity", selectivity);
    line.add("table_bytes", DiskBytes::of(copy_).tables);
    work(&line);
    line.add("table_bytes_after", DiskBytes::of(copy_).tables).print();
    std::filesystem::remove_all(copy_);
  }
  void drop(std::uint64_t end, JsonLine* line) {
    const auto engine = open_ebbtide(p_.setup(copy_, false));
    engine->settle();
    const IoBytes before = IoBytes::now();
    const double cpu = cpu_seconds();
    const EbbtideEngine::Purge purge = engine->purge_stamps(end);
    note(IoBytes::now() - before, purge.seconds, cpu_seconds() - cpu, line);
    line->add("logical_us", purge.logical_us).add("pages_whole", purge.pages_whole).add("pages_in_part", purge.pages_in_part);
    line->add("rewritten_bytes", purge.rewritten_bytes);
    after(*engine, end, line);
  }
  void compact(std::uint64_t end, JsonLine* line, void (RocksEngine::*way)(std::uint64_t)) {
    const auto engine = open_rocksdb(p_.setup(copy_, false));
    engine->settle();  // the filter would not see the output of a running compaction
    const IoBytes before = IoBytes::now();
    const double cpu = cpu_seconds();
    const Stopwatch watch;
    ((*engine).*way)(end);
    note(IoBytes::now() - before, watch.seconds(), cpu_seconds() - cpu, line);
    after(*engine, end, line);
  }
  static void note(const IoBytes& moved, double seconds, double cpu, JsonLine* line) {
    line->add("read_bytes", moved.read).add("written_bytes", moved.written).add("seconds", seconds).add("cpu_seconds", cpu);
  }
  /// Checks that exactly the deleted keys are absent, and measures reads.
  void after(Engine& engine, std::uint64_t end, JsonLine* line) {
    std::vector<std::uint64_t> left;
    Random random(29);
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t number = random.uniform(p_.entries);
      const bool stays = p_.stamp_of(number) >= end;
      if (engine.get(Key::scattered(number).view()) != stays)
        die(p_.engine + ": key number " + std::to_string(number) + (stays ? " is missing" : " is still there"));
      if (stays) left.push_back(number);
    }
    if (left.empty()) return;
    const Stopwatch watch;
    for (const std::uint64_t number : left) engine.get(Key::scattered(number).view());
    line->add("hit_after", line_of(watch.stop(left.size()), 0, left.size()));
    Progress progress("scans after the delete");
    scans(engine, 10, p_.reads / 100, &progress);
    line->add("scan_10_after", scans(engine, 10, p_.reads / 100, &progress));
  }

  const Parameters& p_;
  const std::string base_, copy_;
};

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  CLI::App app{"One database of ./dev bench paper lethe; its --help explains more"};
  app.add_option("--engine", p.engine)->check(CLI::IsMember({"ebbtide", "rocksdb"}));
  app.add_option("--entries", p.entries)->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--value-bytes", p.value_bytes)->check(CLI::Range(std::size_t{8}, std::size_t{60'000}));
  app.add_option("--pages-per-tile", p.pages_per_tile, "Ebbtide's h")->check(CLI::Range(1, 64));
  app.add_flag("--correlated", p.correlated, "stamps in the order of keys");
  app.add_option("--selectivity", p.selectivities, "fractions of all entries, each deleted from a copy of its own; default none");
  app.add_option("--reads", p.reads)->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--cold-reads", p.cold_reads)->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--merge-threads", p.merge_threads);
  app.add_option("--dir", p.dir, "directory for the databases, removed at the end");
  CLI11_PARSE(app, argc, argv);
  if (p.dir.empty()) p.dir = default_dir();
  need_disk(p.dir, 5 * p.data_bytes() + (1u << 30));  // one database, its rewritten copy, and merges during the build
  Bench(p).run();
  std::error_code not_empty;  // other programs use the directory, too
  std::filesystem::remove(p.dir, not_empty);
  return 0;
}

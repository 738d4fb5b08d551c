// One tuning of tuning.py: loads a database, then runs sessions of operations, each with its own mix (Huynh et al., Endure, section
// 9.2).
//
// There is hardly any block cache, so each page that an operation visits is read. Reads bypass the system's page cache, unless there
// is --buffered. Stored keys are scattered over the domain, and so are absent keys and the keys of writes, which are new. A range
// read begins at a stored key. At the end of a session the program waits for the merges that the session has caused: they count as
// its pages, and as its time. A page is 4 KiB; pages of flushes and merges are their bytes divided by that.
//
// --flushes: the load ends with the given number of flushes and waits for the merges of each, so that the tree has a known shape.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/engines/engine.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

constexpr double kPageBytes = 4096;
constexpr std::uint64_t kCacheBytes = 64 << 10;

/// The kinds of operation, in the order of the shares of a mix.
constexpr const char* kKinds[] = {"empty_read", "read", "range", "write"};
enum Kind : std::size_t { kEmptyRead, kRead, kRange, kWrite, kKindCount };

struct Session {
  std::string name;
  std::array<double, kKindCount> shares{};

  /// Parses NAME:z0,z1,q,w. Returns false for another text.
  static bool parse(const std::string& text, Session* parsed) {
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) return false;
    parsed->name = text.substr(0, colon);
    const char* at = text.data() + colon + 1;
    const char* const end = text.data() + text.size();
    double sum = 0;
    for (double& share : parsed->shares) {
      const auto [next, error] = std::from_chars(at, end, share);
      if (error != std::errc() || share < 0) return false;
      sum += share;
      at = next == end ? next : next + 1;
    }
    return at == end && sum > 0.999 && sum < 1.001;
  }
};

struct Parameters {
  std::string engine = "ebbtide", policy = "one_leveling";
  std::vector<std::string> settings;  // of the policy: NAME=VALUE
  double level1_memtables = 0, bits = 10;
  bool measured = false, buffered = false;
  std::uint64_t memtable_bytes = std::uint64_t{4} << 20;
  std::uint64_t entries = 500'000, flushes = 0, operations = 20'000;
  std::size_t value_bytes = 1008, scan_length = 4;
  std::vector<std::string> sessions;
  std::string dir;

  [[nodiscard]] std::uint64_t entry_bytes() const { return Key::kBytes + value_bytes; }
  [[nodiscard]] std::uint64_t data_bytes() const {
    return std::max(entries * entry_bytes(), (flushes + 1) * memtable_bytes) + sessions.size() * operations * entry_bytes();
  }
};

class Bench {
 public:
  Bench(const Parameters& p, const std::vector<Session>& sessions) : p_(p), sessions_(sessions), values_(p.value_bytes) {}

  void run() {
    const auto engine = open_engine(p_.engine, setup());
    load(*engine);
    Random random(47);
    for (const Session& session : sessions_) run_session(*engine, session, random);
  }

 private:
  [[nodiscard]] EngineSetup setup() const {
    EngineSetup setup;
    setup.dir = p_.dir;
    setup.memtable_bytes = p_.memtable_bytes;
    setup.cache_bytes = kCacheBytes;
    setup.entries = p_.entries;
    setup.direct_reads = !p_.buffered;
    setup.merge_threads = 1;
    setup.filter_bits = p_.bits;
    setup.file_bytes = std::max<std::uint64_t>(p_.memtable_bytes, 64 << 10);
    setup.policy = p_.policy;
    setup.monkey = true;
    setup.measured_lookups = p_.measured;
    setup.level1_memtables = p_.level1_memtables;
    setup.policy_parameters = parameters_of(p_.settings);
    return setup;
  }

  [[nodiscard]] double pages_of_merges(Engine& engine) const {
    const EngineCounters done = engine.counters();
    return static_cast<double>(done.flushed_bytes + done.merged_bytes_read + done.merged_bytes_written) / kPageBytes;
  }
  void put(Engine& engine) {
    engine.put(Key::scattered(written_).view(), values_.at(written_));
    ++written_;
  }

  void load(Engine& engine) {
    Progress progress("load");
    if (p_.flushes == 0) {
      while (written_ < p_.entries) {
        put(engine);
        progress.at(written_, p_.entries);
      }
      engine.settle();
    } else {
      fill(engine, &progress);
    }
    std::vector<std::vector<double>> rows;
    for (const LevelCounts& level : engine.levels())
      rows.push_back({static_cast<double>(level.level), static_cast<double>(level.runs), static_cast<double>(level.bytes)});
    JsonLine()
        .add("session", std::string("load"))
        .add("entries", written_)
        .add("write_pages", pages_of_merges(engine) / static_cast<double>(written_))
        .add("filter_bits", engine.filter_bits_per_key())
        .add("levels", rows)
        .print();
  }
  /// Writes until the engine has flushed p_.flushes memtables, with merges at rest meanwhile. One flush may take several memtables: the
  /// bytes of a flush, divided by those of the first flush, tell how many. No write follows, so that the tree keeps its shape.
  void fill(Engine& engine, Progress* progress) {
    const std::uint64_t look_every = std::max<std::uint64_t>(1, p_.memtable_bytes / p_.entry_bytes() / 10);
    std::uint64_t unit = 0, counted_bytes = 0;
    for (std::uint64_t flushes = 0; flushes < p_.flushes;) {
      for (std::uint64_t i = 0; i < look_every; ++i) put(engine);
      engine.rest(1);
      const std::uint64_t flushed = engine.counters().flushed_bytes - counted_bytes;
      if (unit == 0) unit = flushed;
      if (unit == 0 || flushed < unit * 9 / 10) continue;
      flushes += (flushed + unit / 2) / unit;
      counted_bytes += flushed;
      engine.rest(kFillLooks);
      progress->at(flushes, p_.flushes);
    }
    engine.rest(kRestLooks);
  }

  void operate(Engine& engine, Kind kind, Random& random) {
    switch (kind) {
      case kEmptyRead:
        if (engine.get(Key::scattered(kAbsent + random.uniform(kAbsent)).view())) die("an absent key was found");
        return;
      case kRead:
        if (!engine.get(Key::scattered(random.uniform(written_)).view())) die("a key was not found");
        return;
      case kRange:
        engine.renew_scan();
        if (engine.scan(Key::scattered(random.uniform(written_)).view(), p_.scan_length) == 0) die("a range is empty");
        return;
      default:
        put(engine);
    }
  }
  [[nodiscard]] static Kind choose(const Session& session, Random& random) {
    double at = static_cast<double>(random.uniform(1'000'000)) / 1e6;
    for (std::size_t kind = 0; kind + 1 < kKindCount; ++kind) {
      if (at < session.shares[kind]) return static_cast<Kind>(kind);
      at -= session.shares[kind];
    }
    return kWrite;
  }

  void run_session(Engine& engine, const Session& session, Random& random) {
    Progress progress(session.name);
    Histogram latency;
    std::array<double, kKindCount> pages{};
    std::array<std::uint64_t, kKindCount> counts{};
    const double merged = pages_of_merges(engine);
    double worked = 0;  // without the time to read counters
    for (std::uint64_t i = 0; i < p_.operations; ++i) {
      const Kind kind = choose(session, random);
      const std::uint64_t before = engine.pages_read();
      const double start = now_seconds();
      operate(engine, kind, random);
      const double took = now_seconds() - start;
      worked += took;
      latency.record(static_cast<std::uint64_t>(took * 1e9));
      pages[kind] += static_cast<double>(engine.pages_read() - before);
      ++counts[kind];
      progress.at(i, p_.operations);
    }
    engine.renew_scan();
    const double begin = now_seconds();
    session.shares[kWrite] > 0 ? engine.settle() : engine.rest(kRestLooks);
    const double rest = std::max(0.0, now_seconds() - begin - kRestSeconds);
    pages[kWrite] += pages_of_merges(engine) - merged;
    double all = 0;
    JsonLine by_kind;
    for (std::size_t kind = 0; kind < kKindCount; ++kind) {
      all += pages[kind];
      if (counts[kind] != 0) by_kind.add(kKinds[kind], pages[kind] / static_cast<double>(counts[kind]));
    }
    const auto operations = static_cast<double>(p_.operations);
    JsonLine()
        .add("session", session.name)
        .add("pages", all / operations)
        .add("pages_by_kind", by_kind)
        .add("mean_us", (worked + rest) * 1e6 / operations)
        .add("latency_ms", milliseconds(latency))
        .add("per_second", operations / (worked + rest))
        .add("rest_seconds", rest)
        .print();
  }

  static constexpr int kFillLooks = 3;
  static constexpr std::uint64_t kAbsent = std::uint64_t{1} << 40;  // stored keys have smaller numbers
  const Parameters& p_;
  const std::vector<Session>& sessions_;
  const Values values_;
  std::uint64_t written_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  CLI::App app{"One tuning of ./dev bench tuning, whose --help explains more"};
  app.add_option("--engine", p.engine)->check(CLI::IsMember({"ebbtide", "rocksdb"}));
  app.add_option("--policy", p.policy, "Ebbtide's policy");
  app.add_option("--set", p.settings, "parameters of the policy, NAME=VALUE")->delimiter(',');
  app.add_option("--level1-memtables", p.level1_memtables, "RocksDB: size of level 1 in memtables");
  app.add_flag("--buffered", p.buffered, "reads use the system's page cache");
  app.add_flag("--measured", p.measured, "Ebbtide: filter memory for the measured lookups instead of absent keys");
  app.add_option("--bits", p.bits, "filter bits per key")->check(CLI::Range(0.0, 32.0));
  app.add_option("--memtable", p.memtable_bytes, "bytes of a memtable");
  app.add_option("--entries", p.entries, "entries of the load")
      ->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--flushes", p.flushes, "instead of --entries: flushes of the load, each with its merges");
  app.add_option("--value-bytes", p.value_bytes, "bytes of a value; keys have 16")->check(CLI::Range(0, 1 << 20));
  app.add_option("--scan-length", p.scan_length, "entries of a range read");
  app.add_option("--operations", p.operations, "operations of a session")->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--session", p.sessions, "NAME:z0,z1,q,w: shares of empty reads, reads, range reads and writes")->take_all();
  app.add_option("--dir", p.dir, "directory for the database, removed at the end");
  CLI11_PARSE(app, argc, argv);
  std::vector<Session> sessions(p.sessions.size());
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    if (!Session::parse(p.sessions[i], &sessions[i])) die("'" + p.sessions[i] + "' is no session; see --help");
  }
  in_empty_dir(&p.dir, 3 * p.data_bytes() + (std::uint64_t{1} << 28), [&] { Bench(p, sessions).run(); });
  return 0;
}

// Measures one tree of papers/monkey.py: the pages that lookups read, each time that the data has doubled.
//
// After each doubling merges come to rest and lookups are counted. Without --cache-share the block cache is tiny (a thousandth of
// the data), so each page that a lookup visits is read; indexes and filters stay in memory. Absent keys are scattered over the
// range of every file.
//
// Two sources of chance are removed. Level 0 would have none to three runs at rest, which cost lookups, so before each count runs
// are added until level 0 has none. The places of files would depend on which merge ends first, which changes the number of runs
// with a file for a key by a fifth. So each run of half a memtable waits for the merges of the run before, and one thread merges.
// Then all variants of Ebbtide have the same tree.
//
// --measured: Monkey uses the measured lookups. Before each count there are four times as many lookups of its kind, with a run
// after each quarter, which makes the engine choose the filters in memory again. Without --measured only the runs are added. A
// file's filters on disk stay as they were written.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/engines/engine.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

constexpr int kFillLooks = 3;  // there are thousands of runs
constexpr double kPageBytes = 4096;

/// Which keys a lookup asks for.
struct Lookups {
  enum class Keys { kAbsent, kMixed, kAged, kHot };
  std::string name;
  Keys keys = Keys::kAbsent;
  double number = 0;

  /// Parses absent, existing, mix:SHARE, age:LEVEL or hot:SHARE. Returns false for another text.
  static bool parse(const std::string& text, Lookups* parsed) {
    *parsed = {text, Keys::kMixed, 1};
    if (text == "existing") return true;
    if (text == "absent") {
      parsed->keys = Keys::kAbsent;
      return true;
    }
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) return false;
    const std::string kind = text.substr(0, colon);
    if (kind == "age") {
      parsed->keys = Keys::kAged;
    } else if (kind == "hot") {
      parsed->keys = Keys::kHot;
    } else if (kind != "mix") {
      return false;
    }
    const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), parsed->number);
    const double most = parsed->keys == Keys::kAged ? 64 : 1;
    return error == std::errc() && end == text.data() + text.size() && parsed->number >= 0 && parsed->number <= most;
  }
};

struct Parameters {
  std::uint64_t entries = 2'000'000;
  std::uint64_t reads = 100'000;
  int doublings = 3;
  double size_ratio = 2;
  std::string policy = "leveling";
  std::size_t value_bytes = 100;
  std::uint64_t memtable_bytes = std::uint64_t{1} << 20;
  unsigned background = 1;  // with two threads, chance decides which files a merge overlaps
  double cache_share = 0;   // of the data
  double bits = 10;
  std::string engine = "ebbtide";
  bool monkey = false, measured = false;
  std::vector<std::string> lookups = {"absent", "existing"}, last_lookups;
  std::string dir;

  [[nodiscard]] std::uint64_t entry_bytes() const { return Key::kBytes + value_bytes; }
  [[nodiscard]] std::uint64_t data_bytes() const { return entries * entry_bytes(); }
};

class Bench {
 public:
  /// `last` are counted after the last doubling only.
  Bench(const Parameters& p, const std::vector<Lookups>& lookups, const std::vector<Lookups>& last)
      : p_(p), lookups_(lookups), last_(last), values_(p.value_bytes) {}

  void run() {
    EngineSetup setup;
    setup.dir = p_.dir;
    setup.memtable_bytes = p_.memtable_bytes;
    const double share = p_.cache_share > 0 ? p_.cache_share : 0.001;
    setup.cache_bytes =
        std::max<std::uint64_t>(static_cast<std::uint64_t>(share * static_cast<double>(p_.data_bytes())), 64 << 10);
    setup.entries = p_.entries;
    setup.merge_threads = p_.background;
    setup.file_bytes = std::max<std::uint64_t>(p_.memtable_bytes, 64 << 10);  // the smallest that the engine takes
    setup.size_ratio = p_.size_ratio;
    setup.policy = p_.policy;
    setup.filter_bits = p_.bits;
    setup.monkey = p_.monkey;
    setup.measured_lookups = p_.measured;
    const auto engine = open_engine(p_.engine, setup);
    for (int left = p_.doublings; left >= 0; --left) {
      fill(*engine, p_.entries >> left);
      even_out(*engine);
      for (const Lookups& lookups : lookups_) count(*engine, lookups);
    }
    for (const Lookups& lookups : last_) count(*engine, lookups);
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
    const std::uint64_t half = std::max<std::uint64_t>(1, p_.memtable_bytes / p_.entry_bytes() / 2);
    for (std::uint64_t i = 0; i < half; ++i, ++written_) engine.put(Key::scattered(written_).view(), values_.at(written_));
    engine.settle_after(looks);
  }
  static std::uint64_t runs_of(Engine& engine) {
    std::uint64_t runs = 0;
    for (const LevelCounts& level : engine.levels()) runs += level.runs;
    return runs;
  }
  /// Returns the pages that flushes and merges have read and written for each entry.
  [[nodiscard]] double write_pages(Engine& engine) const {
    const EngineCounters done = engine.counters();
    return static_cast<double>(done.flushed_bytes + done.merged_bytes_read + done.merged_bytes_written) / kPageBytes /
           static_cast<double>(written_);
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

  /// Counts lookups of one kind, and prints the figure.
  void count(Engine& engine, const Lookups& lookups) {
    for (int i = 0; i < 4; ++i) {  // the engine averages measured shares with earlier ones
      if (p_.measured) (void)look_up(engine, lookups);
      add_run(engine);
    }
    even_out(engine);
    if (p_.cache_share > 0) (void)look_up(engine, lookups);
    const double pages = look_up(engine, lookups);
    JsonLine()
        .add("lookups", lookups.name)
        .add("pages", pages)
        .add("entries", written_)
        .add("runs", runs_of(engine))
        .add("write_pages", write_pages(engine))
        .add("bits_in_memory", engine.filter_bits_per_key())
        .print();
  }
  /// Returns the pages that a lookup reads.
  [[nodiscard]] double look_up(Engine& engine, const Lookups& lookups) const {
    Random random(43);
    std::uint64_t hits = 0, present = 0;
    const std::uint64_t pages = engine.pages_read();
    for (std::uint64_t i = 0; i < p_.reads; ++i) {
      const std::uint64_t number = choose(lookups, random);
      present += number < written_ ? 1 : 0;
      hits += engine.get(Key::scattered(number).view()) ? 1 : 0;
    }
    if (hits != present) die(std::to_string(hits) + " keys of " + std::to_string(present) + " were found");
    return static_cast<double>(engine.pages_read() - pages) / static_cast<double>(p_.reads);
  }
  /// Returns the number of a key; numbers from written_ on are absent.
  [[nodiscard]] std::uint64_t choose(const Lookups& lookups, Random& random) const {
    const auto by_age = [&](double least, double most) {
      const auto entries = static_cast<double>(written_);
      const std::uint64_t low = static_cast<std::uint64_t>(std::min(least, entries - 1));
      const std::uint64_t high = static_cast<std::uint64_t>(std::max(std::min(most, entries), static_cast<double>(low + 1)));
      return written_ - 1 - low - random.uniform(high - low);
    };
    switch (lookups.keys) {
      case Lookups::Keys::kAbsent:
        break;
      case Lookups::Keys::kMixed:
        if (lookups.number < 1 && static_cast<double>(random.uniform(1'000'000)) >= lookups.number * 1e6) break;
        return random.uniform(written_);
      case Lookups::Keys::kAged: {
        const double youngest = static_cast<double>(p_.memtable_bytes) / static_cast<double>(p_.entry_bytes()) *
                                std::pow(p_.size_ratio, lookups.number);
        return by_age(youngest, youngest * p_.size_ratio);
      }
      case Lookups::Keys::kHot: {
        const double newest = lookups.number * static_cast<double>(written_);
        const bool hot = static_cast<double>(random.uniform(1'000'000)) >= lookups.number * 1e6;
        return hot ? by_age(0, newest) : by_age(newest, static_cast<double>(written_));
      }
    }
    return 2 * p_.entries + random.uniform(std::uint64_t{1} << 40);
  }

  const Parameters& p_;
  const std::vector<Lookups>& lookups_;
  const std::vector<Lookups>& last_;
  const Values values_;
  std::uint64_t written_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  CLI::App app{"One tree of ./dev bench paper monkey, whose --help explains more"};
  app.add_option("--engine", p.engine)->check(CLI::IsMember({"ebbtide", "rocksdb"}));
  app.add_flag("--monkey", p.monkey, "Ebbtide: filter memory by Monkey instead of uniform");
  app.add_flag("--measured", p.measured, "Monkey for the measured lookups instead of absent keys");
  app.add_option("--bits", p.bits, "filter bits per key")->check(CLI::Range(0.0, 32.0));
  app.add_option("--entries", p.entries, "entries at the end")
      ->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--value-bytes", p.value_bytes, "bytes of a value; keys have 16")->check(CLI::Range(0, 1 << 20));
  app.add_option("--reads", p.reads, "lookups of each kind at each count")
      ->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option(
         "--lookups", p.lookups,
         "kinds of lookups, counted one after the other: absent; existing; mix:S, a share S of existing keys; age:I, keys "
         "written as long ago as level I is large; hot:C, a share 1 - C of lookups for the newest share C of keys")
      ->delimiter(',');
  app.add_option("--last-lookups", p.last_lookups, "more kinds, counted after the last doubling only")->delimiter(',');
  app.add_option("--doublings", p.doublings, "doublings of the data, with lookups counted before each")->check(CLI::Range(0, 12));
  app.add_option("--size-ratio", p.size_ratio)->check(CLI::Range(2, 1024))->capture_default_str();
  app.add_option("--policy", p.policy, "Ebbtide's policy")
      ->check(CLI::IsMember({"one_leveling", "leveling", "tiering", "lazy_leveling", "klsm", "garnering"}))
      ->capture_default_str();
  app.add_option("--memtable", p.memtable_bytes, "bytes of a memtable")->capture_default_str();
  app.add_option("--cache-share", p.cache_share, "block cache / data; lookups of a kind then warm it first")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--background", p.background, "merge threads")->capture_default_str();
  app.add_option("--dir", p.dir, "directory for the database, removed at the end");
  CLI11_PARSE(app, argc, argv);
  const auto parsed = [](const std::vector<std::string>& texts) {
    std::vector<Lookups> kinds(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (!Lookups::parse(texts[i], &kinds[i])) die("'" + texts[i] + "' is no kind of lookup; see --help");
    }
    return kinds;
  };
  const std::vector<Lookups> lookups = parsed(p.lookups), last = parsed(p.last_lookups);
  in_empty_dir(&p.dir, 4 * p.data_bytes() + (std::uint64_t{1} << 28), [&] { Bench(p, lookups, last).run(); });
  return 0;
}

// Makes one run of papers/fade.py on one engine: writes with deletes. Then counts the deleted data that is left.
//
//   ingest  Keys are inserted in random order at a fixed rate; a part of the writes deletes existing keys, and a part overwrites
//           them. At the end merges stop, and every version in the tables is checked: the program knows for each key whether and
//           when it was deleted. Then inserted keys are looked up.
//   cold    A database at rest. Some keys of its lower half are deleted; then only the upper half is written.
//   empty   A database at rest. Every key is deleted; then nothing is written.
//
// The age of a delete counts from the moment at which the engine returned from it. The latency of a write counts from its due
// time if the write before it made it late, otherwise from its start: the timer's lateness is not the engine's.
//
// Prints `progress: TEXT` lines, and one line `figure: {...}` at the end.
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/engines/engine.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

struct Parameters {
  std::string engine = "ebbtide";
  std::string scenario = "ingest";
  double seconds = 15;
  double rate = 8000;
  std::uint64_t entries = 64'000;
  std::size_t value_bytes = 984;
  double deletes = 0.1;
  double updates = 0;
  double deadline = 0;
  std::uint64_t reads = 50'000;
  std::uint64_t memtable_bytes = std::uint64_t{1} << 20;
  double size_ratio = 10;
  unsigned merge_threads = 2;
  std::uint64_t ttl = 0, periodic = 0;
  bool collector = false, dynamic_levels = false;
  std::string dir;

  [[nodiscard]] double entry_bytes() const { return static_cast<double>(Key::kBytes + value_bytes); }
  [[nodiscard]] std::uint64_t most_entries() const {
    return scenario == "ingest" ? static_cast<std::uint64_t>(seconds * rate) : entries;
  }
  [[nodiscard]] EngineSetup setup() const {
    EngineSetup setup;
    setup.dir = dir + "/database";
    setup.memtable_bytes = memtable_bytes;
    setup.entries = most_entries();
    const double data = static_cast<double>(most_entries()) * entry_bytes();
    setup.cache_bytes = std::max(static_cast<std::uint64_t>(data / 10), std::uint64_t{8} << 20);
    setup.direct_reads = true;
    setup.merge_threads = merge_threads;
    setup.size_ratio = size_ratio;
    setup.delete_deadline = static_cast<Millis>(deadline * 1000);
    setup.ttl_seconds = ttl;
    setup.periodic_seconds = periodic;
    setup.delete_collector = collector;
    setup.dynamic_levels = dynamic_levels;
    return setup;
  }
};

/// The expected contents: existing keys, by number, and the times at which the other keys were deleted.
class Model {
 public:
  /// Returns the next number. Numbers ascend, but their keys are scattered.
  std::uint64_t insert() {
    live_.push_back(static_cast<std::uint32_t>(deleted_at_.size()));
    deleted_at_.push_back(0);
    return deleted_at_.size() - 1;
  }
  [[nodiscard]] std::uint64_t any(Random& random) const { return live_[random.uniform(live_.size())]; }
  /// Removes a random existing key. The caller calls note_deleted() once the engine has deleted it.
  std::uint64_t remove_any(Random& random) { return remove(random.uniform(live_.size())); }
  /// Removes all keys that `chosen` accepts, and passes each to `deleter`.
  template <typename Chosen, typename Deleter>
  void remove_if(Chosen chosen, Deleter deleter) {
    for (std::size_t i = live_.size(); i-- > 0;) {
      if (chosen(live_[i])) deleter(remove(i));
    }
  }
  void note_deleted(std::uint64_t number) { deleted_at_[number] = now_seconds(); }
  [[nodiscard]] std::size_t living() const { return live_.size(); }
  [[nodiscard]] std::size_t inserted() const { return deleted_at_.size(); }
  /// Returns the time of the delete, in seconds; 0 if the key exists.
  [[nodiscard]] double deleted_at(std::uint64_t number) const { return deleted_at_[number]; }

 private:
  std::uint64_t remove(std::size_t i) {
    const std::uint32_t number = live_[i];
    live_[i] = live_.back();
    live_.pop_back();
    return number;
  }
  std::vector<std::uint32_t> live_;
  std::vector<double> deleted_at_;
};

/// Samples the engine kLooks times a run, from a thread of its own: seconds since its start, bytes written into tables, bytes of
/// the tables on the disk, tombstones, and the part of its deadline that the oldest delete has used.
class Observer {
 public:
  Observer(Engine& engine, const std::string& dir, double seconds)
      : engine_(engine), ebbtide_(dynamic_cast<EbbtideEngine*>(&engine)), dir_(dir), step_(seconds / kLooks) {
    thread_ = std::thread([this] {
      for (int i = 1; !stopped_; ++i) {
        while (!stopped_ && now_seconds() < start_ + step_ * i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (!stopped_) look();
      }
    });
  }
  ~Observer() { stop(); }
  /// Takes a last sample and returns all rows.
  const std::vector<std::vector<double>>& stop() {
    if (!thread_.joinable()) return rows_;
    stopped_ = true;
    thread_.join();
    look();
    return rows_;
  }
  /// The maximum of all samples; NaN without deadlines.
  [[nodiscard]] double most_used() const { return most_used_; }

 private:
  static constexpr int kLooks = 60;
  void look() {
    const EngineCounters done = engine_.counters();
    double used = 0;
    if (ebbtide_ != nullptr) {
      const DeadlineState state = ebbtide_->deadlines();
      if (state.known) most_used_ = std::max(std::isnan(most_used_) ? 0 : most_used_, used = state.used);
    }
    rows_.push_back({now_seconds() - start_, static_cast<double>(done.flushed_bytes + done.merged_bytes_written),
                     static_cast<double>(DiskBytes::of(dir_).tables), static_cast<double>(engine_.tombstones()), used});
  }
  Engine& engine_;
  EbbtideEngine* const ebbtide_;
  const std::string dir_;
  const double start_ = now_seconds(), step_;
  double most_used_ = std::nan("");
  std::vector<std::vector<double>> rows_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

/// Compares the versions in the tables with the model.
struct Remains {
  std::uint64_t versions = 0, bytes = 0, tombstones = 0;
  std::uint64_t of_deleted = 0;  ///< versions with a value whose key was deleted
  std::uint64_t tombstones_late = 0, of_deleted_late = 0;
  double oldest_tombstone = 0, oldest_of_deleted = 0;  ///< age in seconds since the delete
  std::vector<double> ages;                            ///< ages of the tombstones, ascending

  static Remains of(Engine& engine, const Model& model, double now, double deadline) {
    Remains r;
    engine.visit([&](const StoredVersion& version) {
      ++r.versions;
      r.bytes += version.bytes;
      const std::uint64_t number = Key::number_of(version.key);
      if (number >= model.inserted()) die("a table has a key that was never written");
      const double deleted_at = model.deleted_at(number);
      if (deleted_at == 0) {
        if (version.tombstone) die("a table has a tombstone of a key that was never deleted");
        return;
      }
      const double age = now - deleted_at;
      const bool late = deadline > 0 && age > deadline;
      if (version.tombstone) {
        ++r.tombstones;
        r.tombstones_late += late ? 1 : 0;
        r.oldest_tombstone = std::max(r.oldest_tombstone, age);
        r.ages.push_back(age);
      } else {
        ++r.of_deleted;
        r.of_deleted_late += late ? 1 : 0;
        r.oldest_of_deleted = std::max(r.oldest_of_deleted, age);
      }
    });
    std::sort(r.ages.begin(), r.ages.end());
    return r;
  }
  /// Returns rows of [age in seconds, tombstones of this age or older] for ages from 0 to `span`, including a fifteenth, a sixth,
  /// a quarter and a half of it.
  [[nodiscard]] std::vector<std::vector<double>> by_age(double span) const {
    std::vector<std::vector<double>> rows;
    constexpr int kAges = 120;
    for (int i = 0; i <= kAges; ++i) {
      const double age = span * i / kAges;
      rows.push_back({age, static_cast<double>(ages.end() - std::lower_bound(ages.begin(), ages.end(), age))});
    }
    return rows;
  }
};

class Run {
 public:
  Run(const Parameters& p, Engine& engine) : p_(p), engine_(engine), values_(p.value_bytes) {
    ::prctl(PR_SET_TIMERSLACK, 1UL);  // for precise sleeps
  }

  JsonLine run() {
    if (p_.scenario == "ingest") {
      ingest();
      lookups();
    } else {
      fill();
      if (p_.scenario == "cold") cold();
      if (p_.scenario == "empty") empty();
    }
    return std::move(line_);
  }

 private:
  // --- writing

  void write_one() {
    const double what = random_.fraction();
    if (model_.living() > 100 && what < p_.deletes) {
      del(model_.remove_any(random_));
    } else if (model_.living() > 100 && what < p_.deletes + p_.updates) {
      put(model_.any(random_));
    } else {
      put(model_.insert());
    }
    ++writes_;
  }
  void del(std::uint64_t number) {
    engine_.del(Key::scattered(number).view());
    model_.note_deleted(number);
    ++deletes_;
  }
  void put(std::uint64_t number) { engine_.put(Key::scattered(number).view(), values_.at(puts_++)); }

  /// Calls `work` at `rate` a second for `seconds`, even if calls are late.
  template <typename Work>
  void paced(double seconds, double rate, const std::string& what, Work work) {
    Progress progress(what);
    const double start = now_seconds();
    const auto count = static_cast<std::uint64_t>(seconds * rate);
    double free_at = start;  // the end of the call before
    for (std::uint64_t i = 0; i < count; ++i) {
      const double due = start + static_cast<double>(i) / rate;
      double from = due;
      if (free_at < due) {
        sleep_until(due);
        from = std::max(due, now_seconds());
      }
      work();
      free_at = now_seconds();
      latency_.record(static_cast<std::uint64_t>((free_at - from) * 1e9));
      if (i % 64 == 0) progress.at(i, count);
    }
    sleep_until(start + seconds);
  }
  static void sleep_until(double when) {
    timespec at{};
    at.tv_sec = static_cast<time_t>(when);
    at.tv_nsec = static_cast<long>((when - std::floor(when)) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) != 0) {
    }
  }

  void fill() {
    Progress progress("filling");
    for (std::uint64_t i = 0; i < p_.entries; ++i) {
      put(model_.insert());
      if (i % 256 == 0) progress.at(i, p_.entries);
    }
    engine_.settle();
  }

  // --- measuring

  void ingest() {
    const IoBytes io = IoBytes::now();
    const Stopwatch watch;
    const double cpu = cpu_seconds();
    Observer observer(engine_, engine_.dir(), p_.seconds);
    paced(p_.seconds, p_.rate, "writing", [this] { write_one(); });
    const double took = watch.seconds();
    const EngineCounters done = engine_.counters();
    const IoBytes moved = IoBytes::now() - io;
    line_.add("seconds", took).add("writes", writes_).add("deletes", deletes_).add("cpu_seconds", cpu_seconds() - cpu);
    line_.add("flushed_bytes", done.flushed_bytes).add("merged_bytes", done.merged_bytes_written).add("merges", done.merges);
    line_.add("read_bytes", moved.read).add("written_bytes", moved.written).add("latency", milliseconds(latency_));
    finish(observer);
  }

  /// Measures a finished run, and adds its figures.
  void finish(Observer& observer) {
    const double now = now_seconds();
    deadline_figures();
    line_.add("timeline", observer.stop()).add("deadline_used", observer.most_used());
    Progress("checking all tables").at(0, 1);
    engine_.freeze();
    const Remains remains = Remains::of(engine_, model_, now, p_.deadline);
    const double live_bytes = static_cast<double>(model_.living()) * p_.entry_bytes();
    const DiskBytes disk = DiskBytes::of(engine_.dir());
    line_.add("living", std::uint64_t{model_.living()}).add("live_bytes", live_bytes);
    line_.add("versions", remains.versions).add("stored_bytes", remains.bytes).add("table_bytes", disk.tables);
    line_.add("space_amplification", live_bytes > 0 ? static_cast<double>(remains.bytes) / live_bytes - 1 : std::nan(""));
    line_.add("tombstones", remains.tombstones).add("tombstones_late", remains.tombstones_late);
    line_.add("deleted_values", remains.of_deleted).add("deleted_values_late", remains.of_deleted_late);
    line_.add("oldest_tombstone", remains.oldest_tombstone).add("oldest_deleted_value", remains.oldest_of_deleted);
    line_.add("tombstones_by_age", remains.by_age(p_.scenario == "ingest" ? p_.seconds : 1.25 * p_.deadline));
  }
  void deadline_figures() {
    auto* const ebbtide = dynamic_cast<EbbtideEngine*>(&engine_);
    if (ebbtide == nullptr) return;
    const DeadlineState state = ebbtide->deadlines();
    line_.add("missed", state.missed).add("missed_by_load", state.missed_by_load);
  }

  /// Measures lookups of inserted keys, including deleted keys.
  void lookups() {
    Random random(19);
    Progress progress("reading");
    const std::uint64_t warming = p_.reads / 4;
    for (std::uint64_t i = 0; i < warming; ++i) lookup(random);
    const std::uint64_t pages = engine_.pages_read();
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < p_.reads; ++i) {
      lookup(random);
      if (i % 256 == 0) progress.at(i, p_.reads);
    }
    const PerOperation took = watch.stop(p_.reads);
    line_.add("reads_per_second", took.per_second).add("read_cpu_ns", took.cpu_ns);
    line_.add("pages_per_read", static_cast<double>(engine_.pages_read() - pages) / static_cast<double>(p_.reads));
  }
  void lookup(Random& random) {
    const std::uint64_t number = random.uniform(model_.inserted());
    if (engine_.get(Key::scattered(number).view()) != (model_.deleted_at(number) == 0)) die("a lookup had the wrong result");
  }

  /// Returns true for keys of the lower half of all keys.
  static bool is_cold(std::uint64_t number) { return Key::scatter(number) >> 63 == 0; }

  void cold() {
    std::vector<std::uint32_t> hot;
    for (std::uint32_t number = 0; number < model_.inserted(); ++number) {
      if (!is_cold(number)) hot.push_back(number);
    }
    const double share = p_.deletes;
    remove("deleting", [&](std::uint64_t number) { return is_cold(number) && random_.fraction() < share; });
    wait_out(p_.rate, [&] { put(hot[random_.uniform(hot.size())]); });
  }
  void empty() {
    remove("deleting", [](std::uint64_t) { return true; });
    wait_out(1, [] {});
  }
  template <typename Chosen>
  void remove(const std::string& what, Chosen chosen) {
    Progress progress(what);
    const std::uint64_t all = model_.living();
    model_.remove_if(chosen, [&](std::uint64_t number) {
      del(number);
      progress.at(deletes_, all);
    });
  }
  /// Waits for the deadline and a quarter more, while `work` runs.
  template <typename Work>
  void wait_out(double rate, Work work) {
    const double seconds = 1.25 * p_.deadline;
    Observer observer(engine_, engine_.dir(), seconds);
    paced(seconds, rate, "waiting for the deadline", work);
    line_.add("deletes", deletes_);
    finish(observer);
  }

  const Parameters& p_;
  Engine& engine_;
  const Values values_;
  Model model_;
  Random random_{17};
  Histogram latency_;
  std::uint64_t writes_ = 0, puts_ = 0, deletes_ = 0;
  JsonLine line_;
};

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  CLI::App app{"One run of ./dev bench paper lethe; its --help explains more"};
  app.add_option("--engine", p.engine)->check(CLI::IsMember({"ebbtide", "rocksdb"}));
  app.add_option("--scenario", p.scenario)->check(CLI::IsMember({"ingest", "cold", "empty"}));
  app.add_option("--seconds", p.seconds, "duration of an ingest");
  app.add_option("--rate", p.rate, "writes a second; for cold, after the deletes");
  app.add_option("--entries", p.entries, "entries of a database that is filled first (cold, empty)");
  app.add_option("--value-bytes", p.value_bytes);
  app.add_option("--deletes", p.deletes, "fraction of deletes among an ingest's writes, or of the cold keys")
      ->check(CLI::Range(0.0, 0.4));
  app.add_option("--updates", p.updates, "fraction of overwrites among an ingest's writes")->check(CLI::Range(0.0, 0.9));
  app.add_option("--deadline", p.deadline, "delete deadline in seconds; 0 = none. For RocksDB, the age that counts as late");
  app.add_option("--reads", p.reads);
  app.add_option("--memtable", p.memtable_bytes);
  app.add_option("--size-ratio", p.size_ratio);
  app.add_option("--merge-threads", p.merge_threads);
  app.add_option("--ttl", p.ttl, "RocksDB, seconds");
  app.add_option("--periodic", p.periodic, "RocksDB's periodic_compaction_seconds");
  app.add_flag("--collector", p.collector, "RocksDB's CompactOnDeletionCollector");
  app.add_flag("--dynamic-levels", p.dynamic_levels, "RocksDB's level_compaction_dynamic_level_bytes");
  app.add_option("--dir", p.dir, "directory for the database, removed at the end");
  CLI11_PARSE(app, argc, argv);
  if (p.dir.empty()) p.dir = default_dir();
  const auto remove_ours = [&] {
    for (const char* name : {"/database", "/database-frozen"}) std::filesystem::remove_all(p.dir + name);
  };
  remove_ours();
  need_disk(p.dir, static_cast<std::uint64_t>(4 * static_cast<double>(p.most_entries()) * p.entry_bytes()) + (1u << 30));
  {
    const auto engine = open_engine(p.engine, p.setup());
    Run(p, *engine).run().print();
  }
  remove_ours();
  std::error_code not_empty;  // other programs use the directory, too
  std::filesystem::remove(p.dir, not_empty);
  return 0;
}

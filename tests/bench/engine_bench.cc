// The engine beside RocksDB: the same keys, values, order, memory and promises, in one process, taking turns.
//
// A round builds a database in random order on one engine, lets its merges come to rest, reads from it, builds another in key
// order, and throws both away; then the other engine does the same. Rounds begin with each engine in turn. What is shown is the
// median over the rounds.
//
// What is held equal: 16-byte keys, 100-byte values, log on and written at each put but never synced, no compression, 10 filter
// bits a key, 4 KiB pages, memtables of 64 MiB, as many background threads, and a block cache that holds all of the data. All
// else is each engine's default. Stored keys are even numbers and absent ones odd, so that a miss lies in the range of every
// file.
//
// "span 16" looks up sixteen keys at once: Ebbtide as its server does, with staged prefetch, and what is not in memory fetched
// together by the four threads that it has for that; RocksDB with MultiGet.
//
// "Cold" reads come after the others, on the same database, opened anew with a cache of a twentieth of the data and past the
// system's page cache: nearly each one waits for the drive. Indexes and filters of both engines stay in memory.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <semaphore>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include <engine/db.h>

#include "base/random.h"

namespace {

using namespace ebbtide;

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
  /// Room for all of the data and its indexes, or, of a cold database, for a twentieth.
  [[nodiscard]] std::uint64_t cache_bytes(bool cold) const {
    if (cold) return std::max(data_bytes() / 20, std::uint64_t{8} << 20);
    return 2 * data_bytes() + (std::uint64_t{256} << 20);
  }
};

constexpr std::size_t kSpan = 16;
constexpr std::size_t kScanLength = 10;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "engine_bench: %s\n", why.c_str());
  std::exit(1);
}
void check(const Status& status) {
  if (!status.is_ok()) die(status.to_string());
}
void check(const rocksdb::Status& status) {
  if (!status.ok()) die(status.ToString());
}

/// Key number i as 16 digits, in a buffer of its own.
struct Key {
  char bytes[16];
  explicit Key(std::uint64_t number) {
    for (int i = 15; i >= 0; --i, number /= 10) bytes[i] = static_cast<char>('0' + number % 10);
  }
  [[nodiscard]] Bytes view() const { return {bytes, sizeof bytes}; }
};

/// Values cut out of one run of random bytes: nothing to generate while the clock runs.
class Values {
 public:
  explicit Values(std::size_t bytes) : bytes_(bytes), pool_((std::size_t{1} << 20) + bytes, '\0') {
    Random random(301);
    for (char& byte : pool_) byte = static_cast<char>(random.next());
  }
  [[nodiscard]] Bytes at(std::uint64_t i) const { return Bytes(pool_).substr((i * 7919) & ((std::size_t{1} << 20) - 1), bytes_); }

 private:
  std::size_t bytes_;
  std::string pool_;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual void put(Bytes key, Bytes value) = 0;
  virtual bool get(Bytes key) = 0;
  /// How many of kSpan keys exist.
  virtual std::size_t get_span(const Key* keys) = 0;
  /// Seeks and moves on up to kScanLength times; how many entries it saw.
  virtual std::size_t scan(Bytes key) = 0;
  /// Until nothing is left to flush into order or to merge.
  virtual void settle() = 0;
};

class Ebbtide final : public Engine {
 public:
  Ebbtide(const Parameters& p, const std::string& dir, bool cold) {
    Settings settings;
    settings.dir = dir;
    settings.fsync = FsyncMode::kNo;
    settings.memtable_size = p.memtable_bytes;
    settings.block_cache = p.cache_bytes(cold);
    settings.memory_budget = p.cache_bytes(cold) + 8 * p.memtable_bytes + p.entries * 8;
    settings.direct_io = cold;
    settings.background_threads = p.background;
    settings.tree.policy.name = p.policy;
    settings.tree.pages_per_tile = p.pages_per_tile;
    settings.tree.page_size = 4096;
    settings.tree.filter_bits_per_key = 10;
    settings.tree.compression = Compression::kNone;
    settings.tree.compression_last_level = Compression::kNone;
    auto opened = Db::open(settings, Components{});
    check(opened.status());
    db_ = std::move(opened).value();
  }
  ~Ebbtide() override {
    iterator_.reset();
    check(db_->close());
  }
  void put(Bytes key, Bytes value) override {
    batch_.clear();
    batch_.put(0, key, value);
    check(db_->commit(batch_));
    db_->write_log();
  }
  bool get(Bytes key) override {
    PassGuard guard(*db_);
    const ReadView view = db_->view(0, db_->now(), ReadMode::kBlocking, nullptr);
    return found(view, LookupKey{key, hash_key(key)});
  }
  // As the server reads: what is in memory at once, then all that was missing together, side by side.
  std::size_t get_span(const Key* keys) override {
    LookupKey lookups[kSpan];
    LookupState states[kSpan];
    for (std::size_t i = 0; i < kSpan; ++i) lookups[i] = LookupKey{keys[i].view(), hash_key(keys[i].view()), &states[i]};
    const std::span<const LookupKey> span(lookups);
    std::vector<const LookupKey*> left;
    for (const LookupKey& lookup : span) left.push_back(&lookup);
    std::size_t hits = 0;
    for (misses_.clear();; fetch_misses()) {
      PassGuard guard(*db_);
      const ReadView view = db_->view(0, db_->now(), ReadMode::kResident, &misses_);
      view.prefetch(left);
      std::erase_if(left, [&](const LookupKey* lookup) {
        Found result;
        const Status status = view.get(*lookup, &result);
        if (status.is_not_resident()) return false;
        if (!status.is_not_found()) check(status);
        hits += status.is_ok() ? 1 : 0;
        sum_ += result.value.size();
        return true;
      });
      if (left.empty()) return hits;
    }
  }
  std::size_t scan(Bytes key) override {
    if (!iterator_) iterator_ = db_->iterate(db_->lease(0), IteratorOptions{});
    std::size_t seen = 0;
    for (iterator_->seek(key); iterator_->valid() && seen < kScanLength; iterator_->next()) {
      sum_ += iterator_->value().size();
      ++seen;
    }
    check(iterator_->status());
    return seen;
  }
  void settle() override {
    check(db_->flush(0));
    // At rest: nothing running and no plan made for a while.
    for (int quiet = 0; quiet < 20; ++quiet) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (db_->stats().compactions_running != 0) quiet = -1;
    }
  }

 private:
  void fetch_misses() {
    const auto fetched = std::make_shared<std::binary_semaphore>(0);
    if (!db_->fetch(&misses_, [fetched] { fetched->release(); })) fetched->acquire();
  }
  bool found(const ReadView& view, const LookupKey& lookup) {
    Found result;
    const Status status = view.get(lookup, &result);
    if (status.is_not_found()) return false;
    check(status);
    sum_ += result.value.size();
    return true;
  }
  std::unique_ptr<Db> db_;
  std::unique_ptr<Iterator> iterator_;
  MissSet misses_;
  WriteBatch batch_;
  std::uint64_t sum_ = 0;
};

class RocksDb final : public Engine {
 public:
  RocksDb(const Parameters& p, const std::string& dir, bool cold) {
    rocksdb::BlockBasedTableOptions table;
    table.block_size = 4096;
    table.block_cache = rocksdb::NewLRUCache(p.cache_bytes(cold));
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    rocksdb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = p.memtable_bytes;
    options.max_background_jobs = static_cast<int>(p.background);
    options.compression = rocksdb::kNoCompression;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    options.use_direct_reads = cold;
    rocksdb::DB* db = nullptr;
    check(rocksdb::DB::Open(options, dir, &db));
    db_.reset(db);
  }
  ~RocksDb() override {
    iterator_.reset();
    check(db_->Close());
  }
  void put(Bytes key, Bytes value) override { check(db_->Put(rocksdb::WriteOptions(), slice(key), slice(value))); }
  bool get(Bytes key) override {
    pinned_.Reset();
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), slice(key), &pinned_);
    if (status.IsNotFound()) return false;
    check(status);
    sum_ += pinned_.size();
    return true;
  }
  std::size_t get_span(const Key* keys) override {
    rocksdb::Slice slices[kSpan];
    rocksdb::PinnableSlice values[kSpan];
    rocksdb::Status statuses[kSpan];
    for (std::size_t i = 0; i < kSpan; ++i) slices[i] = slice(keys[i].view());
    db_->MultiGet(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), kSpan, slices, values, statuses);
    std::size_t hits = 0;
    for (std::size_t i = 0; i < kSpan; ++i) {
      if (statuses[i].IsNotFound()) continue;
      check(statuses[i]);
      sum_ += values[i].size();
      ++hits;
    }
    return hits;
  }
  std::size_t scan(Bytes key) override {
    if (!iterator_) iterator_.reset(db_->NewIterator(rocksdb::ReadOptions()));
    std::size_t seen = 0;
    for (iterator_->Seek(slice(key)); iterator_->Valid() && seen < kScanLength; iterator_->Next()) {
      sum_ += iterator_->value().size();
      ++seen;
    }
    check(iterator_->status());
    return seen;
  }
  void settle() override {
    check(db_->Flush(rocksdb::FlushOptions()));
    for (int quiet = 0; quiet < 20; ++quiet) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      std::uint64_t running = 0, pending = 0;
      db_->GetIntProperty(rocksdb::DB::Properties::kNumRunningCompactions, &running);
      db_->GetIntProperty(rocksdb::DB::Properties::kCompactionPending, &pending);
      if (running + pending != 0) quiet = -1;
    }
  }

 private:
  static rocksdb::Slice slice(Bytes bytes) { return {bytes.data(), bytes.size()}; }
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
  rocksdb::PinnableSlice pinned_;
  std::uint64_t sum_ = 0;
};

struct Sample {
  double ops_per_second = 0;
  double cpu_ns_per_op = 0;
};
/// (load, engine) -> one sample a round; loads in the order in which they first ran.
struct Results {
  std::vector<std::string> loads;
  std::map<std::pair<std::string, std::string>, std::vector<Sample>> samples;

  void add(const std::string& load, const std::string& engine, Sample sample) {
    if (std::find(loads.begin(), loads.end(), load) == loads.end()) loads.push_back(load);
    samples[{load, engine}].push_back(sample);
  }
};

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Wall time and CPU time of the whole process, background threads included.
class Stopwatch {
 public:
  [[nodiscard]] Sample stop(std::uint64_t operations) const {
    const double n = static_cast<double>(operations);
    return {n / (seconds_of(CLOCK_MONOTONIC) - wall_), (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_) * 1e9 / n};
  }

 private:
  double wall_ = seconds_of(CLOCK_MONOTONIC);
  double cpu_ = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
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
    if (name_ == "rocksdb") return std::make_unique<RocksDb>(p_, dir, cold);
    return std::make_unique<Ebbtide>(p_, dir, cold);
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
    for (std::uint64_t i = 0; i < p_.entries; i += 8) {  // every page of the last run comes into the cache
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
    for (std::uint64_t i = 0; i < count; ++i) engine.scan(Key(2 * random.uniform(p_.entries)).view());
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

Sample median(const std::vector<Sample>& samples) {
  const auto middle = [&](auto member) {
    std::vector<double> values;
    for (const Sample& sample : samples) values.push_back(sample.*member);
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
  };
  return {middle(&Sample::ops_per_second), middle(&Sample::cpu_ns_per_op)};
}

void show(Results& results, const std::vector<std::string>& engines) {
  std::printf("%-30s %14s %14s %7s %12s %12s\n", "load", "rocksdb /s", "ebbtide /s", "ratio", "cpu ns", "cpu ns");
  for (const std::string& load : results.loads) {
    std::map<std::string, Sample> medians;
    for (const std::string& engine : engines) {
      const std::vector<Sample>& samples = results.samples[{load, engine}];
      medians[engine] = median(samples);
      std::printf(
          "figure: {\"load\": \"%s\", \"engine\": \"%s\", \"ops_per_second\": %.1f, \"cpu_ns_per_op\": %.1f, \"rounds\": [",
          load.c_str(), engine.c_str(), medians[engine].ops_per_second, medians[engine].cpu_ns_per_op);
      for (std::size_t i = 0; i < samples.size(); ++i) std::printf("%s%.1f", i ? ", " : "", samples[i].ops_per_second);
      std::printf("]}\n");
    }
    const Sample r = medians["rocksdb"], e = medians["ebbtide"];
    const double ratio = engines.size() == 2 ? e.ops_per_second / r.ops_per_second : 0;
    std::printf("%-30s %14.0f %14.0f %7.2f %12.0f %12.0f\n", load.c_str(), r.ops_per_second, e.ops_per_second, ratio,
                r.cpu_ns_per_op, e.cpu_ns_per_op);
  }
  std::printf(
      "\nPairs are rocksdb, ebbtide; ratio is ebbtide / rocksdb. cpu ns: of the whole process, per operation. Medians over the "
      "rounds.\n");
}

/// Ends the program rather than have it pushed out of memory, or fill the disk, an hour later.
void check_room(const Parameters& p) {
  const auto memory =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
  const std::uint64_t wanted_memory = p.cache_bytes(false) + 8 * p.memtable_bytes + 16 * p.entries;
  if (wanted_memory > memory / 10 * 9)
    die(std::to_string(p.entries) + " entries need about " + std::to_string(wanted_memory >> 20) +
        " MiB of memory, as both caches hold all data; this machine has " + std::to_string(memory >> 20) + " MiB");
  std::filesystem::create_directories(p.dir);
  const std::uint64_t free = std::filesystem::space(p.dir).available;
  const std::uint64_t wanted_disk =
      4 * p.data_bytes() + 16 * p.memtable_bytes;  // one database at a time, twice over while it merges, and its log
  if (wanted_disk > free)
    die(std::to_string(p.entries) + " entries need about " + std::to_string(wanted_disk >> 20) + " MiB of disk; " + p.dir +
        " has " + std::to_string(free >> 20) + " MiB free");
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
  app.add_option("--cold-reads", p.cold_reads, "lookups, and seeks, per cold load")->capture_default_str();
  app.add_option("--rounds", p.rounds)->check(CLI::Range(1, 100))->capture_default_str();
  app.add_option("--background", p.background, "background threads of each engine")->capture_default_str();
  app.add_option("--memtable", p.memtable_bytes, "bytes of a memtable of each engine")->capture_default_str();
  app.add_option("--policy", p.policy, "Ebbtide's merge policy")->capture_default_str();
  app.add_option("--pages-per-tile", p.pages_per_tile, "Ebbtide's h")->capture_default_str();
  app.add_option("--engine", p.engine)->check(CLI::IsMember({"both", "ebbtide", "rocksdb"}))->capture_default_str();
  app.add_option("--only", p.only, "loads that have this in their name");
  app.add_option("--dir", p.dir,
                 "where the databases go while it runs; default: a folder of its own under the system's temporary one");
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
  if (p.dir.empty()) {
    const char* where = std::getenv("EBBTIDE_BENCH_DIR");
    const std::filesystem::path folder = where != nullptr ? std::filesystem::path(where) : std::filesystem::temp_directory_path();
    p.dir = folder / ("ebbtide-bench-" + std::to_string(::getpid()));
  }

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
  std::error_code not_empty;  // then it is not only ours
  std::filesystem::remove(p.dir, not_empty);
  show(results, engines);
  return 0;
}

// Measures one point of the axes "records" and "range tombstones" of growth.py: the cost of reads, flushes and idling beside many
// live deletes.
//
// The database has entries of 100 bytes, whose stamps are spread over twice as many users as there are deletes. A leased view
// that was opened before keeps all deletes alive. Deletes by stamp name every second user; range deletes name gaps between keys.
// Then remaining keys are read and scanned, one key is written and flushed at a time, and nothing is done for a while.
//
// Prints `progress: TEXT` lines and one line `figure: {...}`.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
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
  std::string axis = "records";
  std::uint64_t count = 1000, entries = 200'000, reads = 200'000, flushes = 11;
  double idle_seconds = 5;
  std::string dir;
};

constexpr std::size_t kValueBytes = 100;
constexpr std::uint64_t kStampsPerUser = 1000, kDeletesPerBatch = 256, kScanLength = 100;

void check(const Status& status) {
  if (!status.is_ok()) die("ebbtide: " + status.to_string());
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

class Bench {
 public:
  explicit Bench(const Parameters& p) : p_(p), values_(kValueBytes) {
    settings_.dir = p.dir;
    settings_.fsync = FsyncMode::kNo;
    settings_.tree.memtable_size = std::uint64_t{8} << 20;
    settings_.block_cache = std::uint64_t{128} << 20;
    settings_.memory_budget = std::uint64_t{4} << 30;
    settings_.background_threads = 1;
    settings_.tree.stamp = StampMode::kExplicit;
    open();
  }

  void run() {
    load();
    JsonLine line;
    line.add("axis", p_.axis).add("count", p_.count);
    line.add("before", reads());
    const double memory = resident_bytes();
    {
      // Later reads use newer views.
      const ReadView held = db_->lease(0);
      issue(&line);
      const auto info = db_->tree_info(0);
      check(info.status());
      line.add("live_records", info->records);
      line.add("bytes_per_delete",
               std::max(0.0, resident_bytes() - memory) / static_cast<double>(std::max<std::uint64_t>(p_.count, 1)));
      line.add("after", reads());
      flush_one_by_one(&line);
      idle(&line);
    }
    check(db_->close());
    db_.reset();
    const double start = now_seconds();
    open();
    line.add("open_seconds", now_seconds() - start);
    check(db_->close());
    line.print();
  }

 private:
  void open() {
    auto opened = Db::open(settings_, Components{});
    check(opened.status());
    db_ = std::move(opened).value();
  }
  [[nodiscard]] std::uint64_t users() const { return 2 * std::max<std::uint64_t>(p_.count, 1); }
  [[nodiscard]] std::uint64_t user_of(std::uint64_t number) const { return Key::scatter(number) % users(); }

  void put(std::uint64_t number) {
    WriteBatch batch;
    batch.put(0, Key::scattered(number).view(), values_.at(number),
              {.stamp = user_of(number) * kStampsPerUser + number % kStampsPerUser});
    check(db_->commit(batch));
    db_->write_log();
  }
  void load() {
    Progress progress("writing");
    for (std::uint64_t i = 0; i < p_.entries; ++i) {
      put(i);
      if (i % 1024 == 0) progress.at(i, p_.entries);
    }
    check(db_->compact(0, {}));
    wait_for_rest(kRestLooks, [this] { return db_->stats().compactions_running != 0; });
  }

  void issue(JsonLine* line) {
    Progress progress("deleting");
    const Stopwatch watch;
    WriteBatch batch;
    for (std::uint64_t i = 0; i < p_.count;) {
      batch.clear();
      for (const std::uint64_t end = std::min(p_.count, i + kDeletesPerBatch); i < end; ++i) {
        if (p_.axis == "records") {
          const std::uint64_t user = 2 * (i * 2654435761 % p_.count);
          batch.delete_stamps(0, user * kStampsPerUser, (user + 1) * kStampsPerUser);
        } else {
          const Key gap = Key::scattered(i + (std::uint64_t{1} << 50));
          batch.delete_range(0, gap.view(), std::string(gap.view()) + "!");
        }
      }
      check(db_->commit(batch));
      db_->write_log();
      progress.at(i, p_.count);
    }
    check(db_->flush(0));
    line->add("delete_seconds", watch.seconds());
    line->add("delete_us", watch.stop(p_.count).cpu_ns / 1000);
  }

  /// Measures ns of CPU per GET of a remaining key, and per entry of a scan.
  JsonLine reads() {
    std::vector<Key> keys;
    Random random(17);
    while (keys.size() < 4096) {
      const std::uint64_t number = random.uniform(p_.entries);
      if (user_of(number) % 2 == 1) keys.push_back(Key::scattered(number));
    }
    const auto get_all = [&](std::uint64_t reads) {
      for (std::uint64_t i = 0; i < reads; ++i) {
        const Bytes key = keys[i % keys.size()].view();
        PassGuard guard(*db_);
        Found result;
        check(db_->view(0, db_->now(), ReadMode::kBlocking, nullptr).get(LookupKey{key, hash_key(key)}, &result));
        if (result.value.empty()) die("a key that is not deleted is absent");
      }
    };
    get_all(keys.size());
    std::vector<double> gets, scans;
    for (int round = 0; round < 5; ++round) {
      const double start = thread_seconds();
      get_all(p_.reads / 5);
      gets.push_back((thread_seconds() - start) * 1e9 / static_cast<double>(p_.reads / 5));
      scans.push_back(scan(keys));
    }
    const double first = first_scan(keys);
    std::sort(gets.begin(), gets.end());
    std::sort(scans.begin(), scans.end());
    return JsonLine().add("get_ns", gets[2]).add("scan_entry_ns", scans[2]).add("new_scan_us", first);
  }
  static double thread_seconds() {
    timespec at{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return static_cast<double>(at.tv_sec) + 1e-9 * static_cast<double>(at.tv_nsec);
  }
  double scan(const std::vector<Key>& keys) {
    std::uint64_t seen = 0;
    const auto iterator = db_->iterate(db_->lease(0), IteratorOptions{});
    const double start = thread_seconds();
    for (std::size_t i = 0; i < 200; ++i) {
      std::uint64_t n = 0;
      for (iterator->seek(keys[i].view()); iterator->valid() && n < kScanLength; iterator->next()) ++n;
      check(iterator->status());
      seen += n;
    }
    return (thread_seconds() - start) * 1e9 / static_cast<double>(std::max<std::uint64_t>(seen, 1));
  }
  /// Returns the time of a scan of one entry in us, including the time to make its iterator.
  double first_scan(const std::vector<Key>& keys) {
    const double start = thread_seconds();
    for (std::size_t i = 0; i < 20; ++i) {
      const auto iterator = db_->iterate(db_->lease(0), IteratorOptions{});
      iterator->seek(keys[i].view());
      check(iterator->status());
    }
    return (thread_seconds() - start) * 1e6 / 20;
  }

  void flush_one_by_one(JsonLine* line) {
    std::vector<double> took;
    for (std::uint64_t i = 0; i < p_.flushes; ++i) {
      put(p_.entries + 1'000'000 + i);
      const double start = now_seconds();
      check(db_->flush(0));
      took.push_back((now_seconds() - start) * 1000);
    }
    std::sort(took.begin(), took.end());
    if (took.empty()) return;
    line->add("flush_ms", took[took.size() / 2]);
    line->add("flush_ms_max", took.back());
  }

  /// Measures idling. Begins once no merge runs, or after a minute.
  void idle(JsonLine* line) {
    const double limit = now_seconds() + 60;
    wait_for_rest(kRestLooks, [&] { return db_->stats().compactions_running != 0 && now_seconds() < limit; });
    const double start = now_seconds(), cpu = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(p_.idle_seconds));
    line->add("idle_cores", (cpu_seconds() - cpu) / (now_seconds() - start));
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(wall).count();
    const Millis now = db_->now();
    line->add("clock_behind_ms", static_cast<double>(ms) - static_cast<double>(db_->stamped(now)));
  }

  const Parameters& p_;
  const Values values_;
  Settings settings_;
  std::unique_ptr<Db> db_;
};

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  CLI::App app{"One point of ./dev bench growth --axes records,tombstones; its --help explains more"};
  const auto number = [&](const char* name, std::uint64_t* value, const char* what) {
    app.add_option(name, *value, what)->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1'000'000'000}));
  };
  app.add_option("--axis", p.axis)->check(CLI::IsMember({"records", "tombstones"}));
  number("--count", &p.count, "deletes");
  number("--entries", &p.entries, "keys");
  number("--reads", &p.reads, "GETs");
  number("--flushes", &p.flushes, "flushes of one key");
  app.add_option("--idle", p.idle_seconds, "seconds without work");
  app.add_option("--dir", p.dir, "folder for the database; it is removed");
  CLI11_PARSE(app, argc, argv);
  in_empty_dir(&p.dir, 500 * (p.entries + p.count), [&] { Bench(p).run(); });
  return 0;
}

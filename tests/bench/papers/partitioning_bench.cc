// Makes one run of chapter 5 of papers/mao.py: the time of writes and the work of merges under a stack policy, by where files end.
//
// The experiments are those of Mao's thesis, section 5.5: entries of 1 KiB, each key written once, with these kinds of keys:
//
// ~  semi      ascending, but some come late, so that neighbouring flushes overlap a little
//   random    8 random bytes
//   skewed    8 bytes, most of them near the beginning: Zipf with q = 0.5, so that a quarter of the range has half of the keys
//   strings   4 to 32 random bytes
//
// Files end by size, by local ranges or by global ranges, or have a whole output (`none`: 4 GiB).
//
// Writes are timed until the last merge is done. Then keys and ranges of 1000 keys are read.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <engine/db.h>
#include "bench/engines/data.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

struct Parameters {
  std::uint64_t entries = 1'000'000;
  std::uint64_t reads = 100'000, scans = 1'000;
  std::uint64_t memtable_bytes = std::uint64_t{8} << 20, file_bytes = std::uint64_t{8} << 20;
  unsigned background = 2;
  double k = 8;
  std::string keys = "random", policy = "exploring", partitioning = "size";
  std::string dir;
};

constexpr std::size_t kEntryBytes = 1024, kScanLength = 1000;

void check(const Status& status) {
  if (!status.is_ok()) die("ebbtide: " + status.to_string());
}

/// Returns key number i of a kind; all keys differ.
class Keys {
 public:
  Keys(std::string kind, const Parameters& p) : kind_(std::move(kind)), entries_(p.entries) {
    late_ = std::max<std::uint64_t>(p.memtable_bytes / kEntryBytes / 20, 1);
  }

  Bytes at(std::uint64_t i) {
    std::uint64_t place = Key::scatter(i);
    if (kind_ == "strings") return string_at(place);
    if (kind_ == "semi") place = late(i) * (~std::uint64_t{0} / (entries_ + 2 * late_));
    if (kind_ == "skewed") {
      const double u = std::ldexp(static_cast<double>(place >> 11), -53);
      place = static_cast<std::uint64_t>(std::ldexp(u * u, 63)) << 1;
      place = (place & ~std::uint64_t{0xffffff}) | (i & 0xffffff);  // makes all keys differ
    }
    return number(place);
  }

 private:
  /// Returns a nearly ordered permutation: in blocks of twice the largest delay, odd numbers come one block later.
  [[nodiscard]] std::uint64_t late(std::uint64_t i) const { return i % 2 == 0 ? i + 2 * late_ : i; }
  Bytes number(std::uint64_t place) {
    buffer_.clear();
    for (int shift = 56; shift >= 0; shift -= 8) buffer_ += static_cast<char>(place >> shift);
    return buffer_;
  }
  Bytes string_at(std::uint64_t place) {
    Random random(place);
    buffer_.clear();
    for (int shift = 56; shift >= 24; shift -= 8) buffer_ += static_cast<char>(place >> shift);
    for (std::uint64_t n = random.uniform(28); n > 0; --n) buffer_ += static_cast<char>(random.next());
    return buffer_;
  }
  const std::string kind_;
  const std::uint64_t entries_;
  std::uint64_t late_;
  std::string buffer_;
};

struct Row {
  double seconds = 0, cpu_seconds = 0;  ///< seconds of all writes
  std::uint64_t merges = 0, sub_merges = 0, moves = 0;
  double merged = 0;  ///< bytes written by merges, divided by bytes of users
  std::uint64_t runs = 0, files = 0;
  PerOperation gets, scans;
};

class Round {
 public:
  explicit Round(const Parameters& p) : p_(p), keys_(p.keys, p), values_(kEntryBytes - 8) {
    Settings settings;
    settings.dir = p.dir;
    settings.fsync = FsyncMode::kNo;
    settings.tree.memtable_size = p.memtable_bytes;
    settings.block_cache = std::uint64_t{64} << 20;
    settings.memory_budget = settings.block_cache + 8 * p.memtable_bytes + p.entries * 16 + (std::uint64_t{64} << 20);
    settings.background_threads = p.background;
    settings.tree.policy = {p.policy, {{"k", p.k}}};
    settings.tree.compression = settings.tree.compression_last_level = Compression::kNone;
    settings.tree.file_size = p.partitioning == "none" ? std::uint64_t{4} << 30 : p.file_bytes;
    if (p.partitioning == "local_range") settings.tree.partitioning = Partitioning::kLocalRange;
    if (p.partitioning == "global_range") settings.tree.partitioning = Partitioning::kGlobalRange;
    auto opened = Db::open(settings, Components{});
    check(opened.status());
    db_ = std::move(opened).value();
  }
  ~Round() { check(db_->close()); }

  Row run() {
    write();
    look();
    read();
    scan();
    return row_;
  }

 private:
  void write() {
    Progress progress("writing");
    const Stopwatch watch;
    const double cpu = cpu_seconds();
    WriteBatch batch;
    for (std::uint64_t i = 0; i < p_.entries; ++i) {
      batch.clear();
      batch.put(0, keys_.at(i), values_.at(i));
      check(db_->commit(batch));
      db_->write_log();
      if (i % 256 == 0) progress.at(i, p_.entries);
    }
    settle();
    row_.seconds = watch.seconds() - kRestSeconds;
    row_.cpu_seconds = cpu_seconds() - cpu;
  }
  void settle() {
    check(db_->flush(0));
    wait_for_rest(kRestLooks, [this] { return db_->stats().compactions_running != 0; });
  }
  void look() {
    const Stats stats = db_->stats();
    row_.merges = stats.compactions;
    row_.sub_merges = stats.sub_merges;
    row_.moves = stats.trivial_moves;
    row_.merged = static_cast<double>(stats.compaction_bytes_written) / static_cast<double>(p_.entries * kEntryBytes);
    const auto info = db_->tree_info(0);
    check(info.status());
    for (const RunInfo& run : info->runs) {
      row_.runs += run.files != 0 ? 1 : 0;
      row_.files += run.files;
    }
  }
  void read() {
    Random random(17);
    std::uint64_t found = 0;
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < p_.reads; ++i) {
      const Bytes key = keys_.at(random.uniform(p_.entries));
      PassGuard guard(*db_);
      const ReadView view = db_->view(0, db_->now(), ReadMode::kBlocking, nullptr);
      Found result;
      check(view.get(LookupKey{key, hash_key(key)}, &result));
      found += result.value.size();
    }
    row_.gets = watch.stop(p_.reads);
    if (found == 0 && p_.reads != 0) die("nothing was read");
  }
  void scan() {
    Random random(19);
    std::uint64_t seen = 0;
    const auto iterator = db_->iterate(db_->lease(0), IteratorOptions{});
    const Stopwatch watch;
    for (std::uint64_t i = 0; i < p_.scans; ++i) {
      std::size_t n = 0;
      for (iterator->seek(keys_.at(random.uniform(p_.entries))); iterator->valid() && n < kScanLength; iterator->next()) {
        seen += iterator->value().size();
        ++n;
      }
      check(iterator->status());
    }
    row_.scans = watch.stop(p_.scans);
    if (seen == 0 && p_.scans != 0) die("nothing was scanned");
  }

  const Parameters& p_;
  Row row_;
  Keys keys_;
  const Values values_;
  std::unique_ptr<Db> db_;
};

void print(const Row& row) {
  const auto line_of = [](const PerOperation& took) {
    return JsonLine().add("per_second", took.per_second).add("cpu_ns", took.cpu_ns);
  };
  JsonLine()
      .add("write_seconds", row.seconds)
      .add("write_cpu_seconds", row.cpu_seconds)
      .add("merges", row.merges)
      .add("sub_merges", row.sub_merges)
      .add("moves", row.moves)
      .add("merged_by_written", row.merged)
      .add("runs", row.runs)
      .add("files", row.files)
      .add("gets", line_of(row.gets))
      .add("scans", line_of(row.scans))
      .print();
}

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  CLI::App app{"One run of ./dev bench paper mao; its --help explains more"};
  app.add_option("--entries", p.entries, "entries of 1 KiB")
      ->check(CLI::Range(std::uint64_t{1'000}, std::uint64_t{1'000'000'000}));
  app.add_option("--reads", p.reads)->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
  app.add_option("--scans", p.scans, "scans of 1000 entries")->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
  app.add_option("--memtable", p.memtable_bytes)->check(CLI::Range(std::uint64_t{1} << 20, std::uint64_t{1} << 32));
  app.add_option("--file", p.file_bytes, "size of a table's file")
      ->check(CLI::Range(std::uint64_t{1} << 16, std::uint64_t{1} << 32));
  app.add_option("--background", p.background, "merge threads")->check(CLI::Range(1, 256));
  app.add_option("--k", p.k, "runs of a stack")->check(CLI::Range(1, 64));
  app.add_option("--keys", p.keys)->check(CLI::IsMember({"semi", "random", "skewed", "strings"}));
  app.add_option("--policy", p.policy)->check(CLI::IsMember({"bigtable", "constant", "exploring", "concurrent", "binomial"}));
  app.add_option("--partitioning", p.partitioning)->check(CLI::IsMember({"none", "size", "local_range", "global_range"}));
  app.add_option("--dir", p.dir, "directory for the database, removed at the end");
  CLI11_PARSE(app, argc, argv);
  in_empty_dir(&p.dir, 4 * p.entries * kEntryBytes + (std::uint64_t{1} << 28), [&] { print(Round(p).run()); });
  return 0;
}

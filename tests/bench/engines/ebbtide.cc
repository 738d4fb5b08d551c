#include <algorithm>
#include <chrono>
#include <semaphore>
#include <span>
#include <thread>
#include <vector>

#include <engine/db.h>
#include "base/background_pool.h"
#include "base/epoch.h"
#include "bench/engines/engine.h"
#include "bench/engines/measure.h"
#include "cache/block_cache.h"
#include "table/table_reader.h"
#include "tools/inspect.h"

namespace ebbtide::bench {
namespace {

void check(const Status& status) {
  if (!status.is_ok()) die("ebbtide: " + status.to_string());
}

Settings settings_of(const EngineSetup& setup) {
  Settings settings;
  settings.dir = setup.dir;
  settings.fsync = FsyncMode::kNo;
  settings.tree.memtable_size = setup.memtable_bytes;
  settings.block_cache = setup.cache_bytes;
  // The budget includes memory for indexes, filters, and the fixed cost of many small tables.
  settings.memory_budget = setup.cache_bytes + 8 * setup.memtable_bytes + setup.entries * 32 + (std::uint64_t{64} << 20);
  settings.direct_io = setup.direct_reads;
  settings.background_threads = setup.merge_threads;
  settings.tree.policy = {setup.policy, setup.policy_parameters};
  if (setup.size_ratio > 0) {
    settings.tree.policy.parameters["size_ratio"] = setup.size_ratio;
    settings.tree.file_size = setup.memtable_bytes;
  }
  if (setup.file_bytes != 0) settings.tree.file_size = setup.file_bytes;
  settings.tree.pages_per_tile = setup.pages_per_tile;
  settings.tree.page_size = 4096;
  settings.tree.filter_bits_per_key = setup.filter_bits;
  settings.tree.filter_allocation = setup.monkey ? FilterAllocation::kMonkey : FilterAllocation::kUniform;
  settings.tree.filter_lookups = setup.measured_lookups ? FilterLookups::kMeasured : FilterLookups::kZeroResult;
  settings.tree.compression = Compression::kNone;
  settings.tree.compression_last_level = Compression::kNone;
  settings.tree.delete_deadline = setup.delete_deadline;
  if (setup.stamps) settings.tree.stamp = StampMode::kExplicit;
  return settings;
}

class Ebbtide final : public EbbtideEngine {
 public:
  explicit Ebbtide(const EngineSetup& setup) : settings_(settings_of(setup)) { open(); }
  ~Ebbtide() override {
    iterator_.reset();
    check(db_->close());
  }

  void put(Bytes key, Bytes value) override {
    batch_.clear();
    batch_.put(0, key, value);
    commit();
  }
  void put_stamped(Bytes key, std::string* value, std::uint64_t stamp) override {
    batch_.clear();
    batch_.put(0, key, *value, {.stamp = stamp, .expiry = 0});
    commit();
  }
  void del(Bytes key) override {
    batch_.clear();
    batch_.del(0, key);
    commit();
  }

  bool get(Bytes key) override {
    PassGuard guard(*db_);
    const ReadView view = db_->view(0, db_->now(), ReadMode::kBlocking, nullptr);
    Found result;
    const Status status = view.get(LookupKey{key, hash_key(key)}, &result);
    if (status.is_not_found()) return false;
    check(status);
    sum_ += result.value.size();
    return true;
  }
  // Reads like the server: first the pages in memory, then all missing pages in parallel.
  std::size_t get_span(const Key* keys) override {
    LookupKey lookups[kSpan];
    LookupState states[kSpan];
    for (std::size_t i = 0; i < kSpan; ++i) lookups[i] = LookupKey{keys[i].view(), hash_key(keys[i].view()), &states[i]};
    std::vector<const LookupKey*> left;
    for (const LookupKey& lookup : lookups) left.push_back(&lookup);
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
  std::size_t scan(Bytes key, std::size_t length) override {
    if (!iterator_) iterator_ = db_->iterate(db_->lease(0), IteratorOptions{});
    std::size_t seen = 0;
    for (iterator_->seek(key); iterator_->valid(); iterator_->next()) {
      sum_ += iterator_->value().size();
      if (++seen == length) break;
    }
    check(iterator_->status());
    return seen;
  }
  void renew_scan() override { iterator_.reset(); }

  void settle_after(int looks) override {
    check(db_->flush(0));
    rest(looks);
  }
  void rest(int looks) override {
    wait_for_rest(looks, [this] { return db_->stats().compactions_running != 0; });
  }
  // A pause does not stop work for deadlines, and deadlines survive a restart. So a checkpoint is opened instead, without threads
  // for background work.
  void freeze() override {
    db_->pause_compactions();
    check(db_->flush(0));
    const std::string frozen = settings_.dir + "-frozen";
    check(db_->checkpoint(frozen).status());
    iterator_.reset();
    check(db_->close());
    settings_.dir = frozen;
    components_.background = &nobody_;
    open();
  }
  [[nodiscard]] const std::string& dir() const override { return settings_.dir; }
  void visit(const std::function<void(const StoredVersion&)>& visitor) override {
    FileSystem& fs = *posix_file_system();
    const auto manifest = load_manifest(fs, settings_.dir);
    check(manifest.status());
    Epoch epoch;
    BlockCache cache(std::uint64_t{8} << 20, epoch);  // a cache must exist, but pages bypass it
    for (const auto& [id, version] : manifest->state.trees) {
      for (const Run& run : version->runs) {
        for (const FileMetaPtr& file : run.files) {
          const auto table = TableReader::open({&fs, &cache, settings_.dir, false},
                                               {file->data_file, file->metadata_file, file->data_bytes, file->metadata_bytes,
                                                file->data_checksum, file->metadata_checksum});
          check(table.status());
          const auto entries = (*table)->new_iterator({.bounds = {}, .fill_cache = false, .counters = nullptr});
          for (entries->seek_to_first(); entries->valid(); entries->next()) {
            const Entry& entry = entries->entry();
            visitor({entry.key, entry.is_tombstone(), entry.key.size() + entry.value_length()});
          }
          check(entries->status());
        }
      }
    }
  }

  EngineCounters counters() override {
    const Stats stats = db_->stats();
    return {stats.flush_bytes_written, stats.compaction_bytes_read, stats.compaction_bytes_written, stats.compactions,
            stats.flushes};
  }
  std::uint64_t pages_read() override { return db_->stats().pages_read; }
  std::uint64_t tombstones() override {
    const TreeInfo tree = tree_info();
    std::uint64_t tombstones = 0;
    for (const RunInfo& run : tree.runs) tombstones += run.tombstones;
    return tombstones;
  }
  std::vector<LevelCounts> levels() override {
    std::vector<LevelCounts> levels;
    for (const RunInfo& run : tree_info().runs) {  // the newest run comes first, so levels ascend
      if (run.files == 0) continue;
      if (levels.empty() || levels.back().level != run.level) levels.push_back({run.level, 0, 0, 0});
      levels.back().runs += 1;
      levels.back().files += run.files;
      levels.back().bytes += run.bytes;
    }
    return levels;
  }
  double filter_bits_per_key() override {
    const TreeInfo tree = tree_info();
    double bits = 0, entries = 0;
    for (const RunInfo& run : tree.runs) {
      bits += static_cast<double>(run.filter_bits);
      entries += static_cast<double>(run.entries);
    }
    return entries == 0 ? 0 : bits / entries;
  }
  DeadlineState deadlines() override {
    const TreeInfo tree = tree_info();
    const Stats stats = db_->stats();
    DeadlineState state;
    state.known = tree.delete_deadline != 0;
    const Millis born = tree.oldest_obligation, due = tree.oldest_obligation_deadline, now = stats.engine_time;
    if (born != 0 && due > born && now > born) state.used = static_cast<double>(now - born) / static_cast<double>(due - born);
    state.missed_by_load = stats.deadlines_missed_load;
    state.missed = stats.deadlines_missed_down + stats.deadlines_missed_clock + state.missed_by_load;
    return state;
  }

  Purge purge_stamps(std::uint64_t end) override {
    const Stats before = db_->stats();
    batch_.clear();
    batch_.delete_stamps(0, 0, end);
    const Stopwatch watch;
    commit();
    Purge purge;
    purge.logical_us = watch.seconds() * 1e6;
    SeqNum up_to = 0;
    const PurgeTicket ticket = db_->purge_ticket(&up_to);
    check(db_->purge_now(ticket));
    for (bool done = false; !done;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const auto status = db_->purge_status(ticket);
      check(status.status());
      done = status->done;
    }
    purge.seconds = watch.seconds();
    const Stats after = db_->stats();
    purge.pages_whole = after.pages_dropped_full - before.pages_dropped_full;
    purge.pages_in_part = after.pages_dropped_partial - before.pages_dropped_partial;
    purge.rewritten_bytes = after.compaction_bytes_written - before.compaction_bytes_written;
    return purge;
  }

 private:
  void commit() {
    check(db_->commit(batch_));
    db_->write_log();
  }
  void fetch_misses() {
    const auto fetched = std::make_shared<std::binary_semaphore>(0);
    if (!db_->fetch(&misses_, [fetched] { fetched->release(); })) fetched->acquire();
  }
  [[nodiscard]] TreeInfo tree_info() const {
    auto info = db_->tree_info(0);
    check(info.status());
    return std::move(info).value();
  }

  void open() {
    auto opened = Db::open(settings_, components_);
    check(opened.status());
    db_ = std::move(opened).value();
  }

  Settings settings_;
  Components components_;
  ManualPool nobody_;  // runs no task
  std::unique_ptr<Db> db_;
  std::unique_ptr<Iterator> iterator_;
  MissSet misses_;
  WriteBatch batch_;
  std::uint64_t sum_ = 0;
};

}  // namespace

std::unique_ptr<EbbtideEngine> open_ebbtide(const EngineSetup& setup) { return std::make_unique<Ebbtide>(setup); }

}  // namespace ebbtide::bench

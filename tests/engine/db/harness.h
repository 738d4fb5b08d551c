// A database that the test controls completely: its files are in memory and can lose power, and time and background work advance
// only on request.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <engine/db.h>
#include <engine/events.h>
#include <catch2/catch.hpp>

#include "base/background_pool.h"
#include "base/clock.h"
#include "io/fault_fs.h"
#include "io/memory_fs.h"
#include "support/finding.h"
#include "support/keys.h"

namespace ebbtide {

/// Calls `on_call` before each call, except for calls made by the callback itself.
class WatchedFileSystem final : public InterposedFileSystem {
 public:
  explicit WatchedFileSystem(FileSystem& base) : InterposedFileSystem(base) {}
  std::function<void(const FileCall&)> on_call;

 private:
  Status around(const FileCall& call, const Run& run) override {
    if (on_call && !inside_) {
      inside_ = true;
      on_call(call);
      inside_ = false;
    }
    return run(call.length);
  }
  bool inside_ = false;
};

/// Collects the engine's log messages.
class Listener final : public EventListener {
 public:
  void on_message(Severity severity, const std::string& text) override {
    if (severity >= Severity::kWarning) warnings.push_back(text);
  }
  [[nodiscard]] bool heard(const std::string& part) const {
    for (const std::string& text : warnings) {
      if (text.find(part) != std::string::npos) return true;
    }
    return false;
  }
  std::vector<std::string> warnings;
};

struct Harness {
  explicit Harness(Settings s = small()) : settings(std::move(s)) { use(std::make_unique<MemoryFileSystem>()); }
  ~Harness() {
    // Closing the database makes file operations. Hooks refer to variables of the test, which may have ended.
    faults->clear_hooks();
    watch->on_call = nullptr;
    db.reset();
  }

  /// Returns settings with which a few keys fill a memtable, and a few memtables fill a level.
  static Settings small() {
    Settings s;
    s.dir = "data";
    s.memory_budget = 64 << 20;
    s.tree.memtable_size = 64 << 10;
    s.wal_segment_size = 256 << 10;
    s.tree.file_size = 128 << 10;
    s.tree.page_size = 1024;
    s.tree.compression = Compression::kNone;
    s.tree.compression_last_level = Compression::kNone;
    return s;
  }

  Status try_open() {
    Components components;
    components.fs = faults.get();
    components.clock = &clock;
    components.background = &pool;
    components.events = &events;
    components.seed = 1;
    auto opened = Db::open(settings, components);
    if (!opened.is_ok()) return opened.status();
    db = std::move(opened).value();
    return Status::ok();
  }
  void open() { demand_ok(try_open(), "open"); }
  /// Stops cleanly and starts again.
  void reopen() {
    demand_ok(db->close(), "close");
    drop();
    open();
  }
  /// Ends the database without closing files. `mode` chooses what survives the crash.
  void crash(CrashMode mode, std::uint64_t seed) {
    auto left = files->crash_clone(seed, mode);
    abandon(std::move(left));
  }
  /// Starts with the files in `left`.
  void abandon(std::unique_ptr<MemoryFileSystem> left) {
    drop();
    use(std::move(left));
    clock.reboot();
  }
  void drop() {
    db.reset();
    while (pool.run_one()) {
    }
  }
  void use(std::unique_ptr<MemoryFileSystem> base) {
    files = std::move(base);
    watch = std::make_unique<WatchedFileSystem>(*files);
    faults = std::make_unique<FaultFileSystem>(*watch);
  }
  /// Returns the paths in the directory that end in `suffix`, sorted.
  [[nodiscard]] std::vector<std::string> paths(const std::string& suffix) const {
    std::vector<std::string> out;
    for (const std::string& path : files->tree()) {
      if (path.ends_with(suffix)) out.push_back(path);
    }
    return out;
  }
  /// Returns the contents of all table files, concatenated.
  [[nodiscard]] std::string table_bytes() const {
    std::string bytes;
    for (const char* suffix : {".data", ".meta"}) {
      for (const std::string& path : paths(suffix)) bytes += read_file(*files, path).value();
    }
    return bytes;
  }
  /// Checks that verify finds no error in a database.
  void verify(DatabaseId d) const {
    const auto report = db->verify(d);
    demand_ok(report.status(), "verify");
    for (const std::string& error : report->errors) throw Finding("verify: " + error);
    if (db->stats().bounds_broken != 0) throw Finding("a tree at rest is out of its policy's bounds");
  }
  /// Runs all pending background work.
  void settle() { pool.run_all(); }
  void advance(Millis ms) {
    clock.advance(ms);
    db->tick();
    db->tick();
  }

  SeqNum put(DatabaseId d, Bytes key, Bytes value, Millis expiry = 0) {
    WriteBatch batch;
    batch.put(d, key, value, {kNoStamp, expiry});
    return write(batch);
  }
  SeqNum del(DatabaseId d, Bytes key) {
    WriteBatch batch;
    batch.del(d, key);
    return write(batch);
  }
  SeqNum del_range(DatabaseId d, Bytes start, Bytes end) {
    WriteBatch batch;
    batch.delete_range(d, start, end);
    return write(batch);
  }
  /// Makes one write fail in the log: it is visible but in no file. Returns its seq.
  SeqNum lose_write() {
    faults->inject({.ops = ops_of(FileOp::kWrite), .path_has = ".wal"});
    WriteBatch batch;
    batch.put(0, "lost", "1");
    REQUIRE(db->commit(batch).is_ok());
    db->write_log();
    return batch.last_seq();
  }
  /// Advances time until writes are accepted again.
  void heal() {
    for (int i = 0; i < 60 && !db->write_status().is_ok(); ++i) {
      advance(100);
      settle();
    }
    REQUIRE(db->write_status().is_ok());
  }
  SeqNum write(WriteBatch& batch) {
    demand_ok(db->commit(batch), "commit");
    db->write_log();
    return batch.empty() ? 0 : batch.last_seq();
  }
  /// Returns the value, "(absent)", or the error. Reads without blocking first, like the server.
  std::string get(DatabaseId d, Bytes key) {
    const LookupKey lookup{key, hash_key(key)};
    MissSet misses;
    for (int round = 0;; ++round) {
      PassGuard guard(*db);
      Found found;
      const ReadView view = db->view(d, db->now(), round < 4 ? ReadMode::kResident : ReadMode::kBlocking, &misses);
      const Status status = view.get(lookup, &found);
      if (status.is_ok()) return std::string(found.value);
      if (status.is_not_found()) return "(absent)";
      if (!status.is_not_resident()) return status.to_string();
      REQUIRE(db->fetch(&misses, [] {}));
    }
  }

  /// Returns the stamp of an existing key, or kNoStamp.
  DeleteKey stamp(DatabaseId d, Bytes key) {
    Found found;
    REQUIRE(db->lease(d).get({key, hash_key(key)}, &found).is_ok());
    return found.stamp;
  }

  Settings settings;
  Listener events;
  SimulatedClock clock;
  ManualPool pool;
  std::unique_ptr<MemoryFileSystem> files;
  std::unique_ptr<WatchedFileSystem> watch;  ///< wraps files
  std::unique_ptr<FaultFileSystem> faults;   ///< wraps watch
  std::unique_ptr<Db> db;
};

}  // namespace ebbtide

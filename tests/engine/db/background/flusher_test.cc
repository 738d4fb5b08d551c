// Tests that frozen memtables become tables that the manifest names and readers see. After a failed log, all of its operations go
// to tables.
#include <catch2/catch.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "db/background/flusher.h"
#include "engine/db/background/installer_env.h"
#include "engine/db/background/remover_env.h"
#include "engine/db/background/tables.h"
#include "engine/db/trees/registry_env.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

constexpr std::uint64_t kMemTableBytes = 64 << 10;

// A database of two trees. Its log is only numbers: segment 900, or 901 after a restart.
struct Bed {
  TreeFixture files{1};
  RemovalsFileSystem removals{files.fs, "db"};
  SimulatedClock clock;
  Epoch epoch;
  SeqNum last_seq = 0, synced_seq = 0, restarted_at = 0;
  bool log_failed = false, salvaged = false;
  Status sync_status = Status::ok();
  std::vector<SeqNum> synced;
  std::unique_ptr<VersionSet> versions;
  PurgeLedger ledger{removals, "db"};
  LogPins pins;
  TreeRegistry trees{registry_env(clock, epoch, Millis{1000}, [this] { return last_seq; }), databases_of(2, kMemTableBytes)};
  ObsoleteFileRemover obsolete_files{remover_env(clock, removals, [this] { epoch.collect(); })};
  TableInstaller installer{installer_env(removals, obsolete_files.sink(), ledger, trees, versions)};
  FlushJob job{{.state_mutex = &trees.state_mutex,
                .installer = &installer,
                .empty_memtable_bytes = [] { return MemTable(kMemTableBytes).memory_bytes(); },
                .await_visible = [](SeqNum) {},
                .visible_seq = [this] { return last_seq; },
                .settings = [this](const Tree&) { return files.context.settings; },
                .filters = [](const Tree&, const TablesView&, std::uint64_t) { return std::map<RunId, std::vector<double>>{}; }}};
  ManifestEditor manifest{{.trees = &trees,
                           .ledger = &ledger,
                           .pins = &pins,
                           .installer = &installer,
                           .obsolete_files = &obsolete_files,
                           .versions = [this]() -> VersionSet& { return *versions; },
                           .now = [] { return Millis{1000}; },
                           .stamped = [] { return Millis{1000}; },
                           .fence = [] { return Millis{1000}; },
                           .floor = [](const TreePtr&) { return Millis{1000}; },
                           .wait_synced = [this](SeqNum seq) { return wait_synced(seq); },
                           .oldest_needed = [](SeqNum) { return FileNum{900}; },
                           .segments = [] { return std::vector<LogSegment>{}; },
                           .log_tip = [] { return LogTip{}; },
                           .has_segments_below = [](FileNum) { return false; },
                           .take_segments_below = [](FileNum) { return std::vector<FileNum>{}; },
                           .await_settled = [](SeqNum) {},
                           .forget = [](TreeId) {},
                           .submit = [](std::function<void()>) {},
                           .submit_later = [](std::function<void()>) {},
                           .closing = [] { return false; },
                           .healthy = [] { return true; },
                           .failed = [](const Status&, const char*) {},
                           .mapping_written = [] {}}};
  FailedOutputs outputs{{.ledger = &ledger, .fs = &removals, .obsolete_files = &obsolete_files, .floor = [](const TreePtr&) {
                           return Millis{1000};
                         }}};
  Flusher flusher{{.trees = &trees,
                   .manifest = &manifest,
                   .job = &job,
                   .installer = &installer,
                   .outputs = &outputs,
                   .obsolete_files = &obsolete_files,
                   .versions = [this]() -> VersionSet& { return *versions; },
                   .now = [] { return Millis{1000}; },
                   .visible_seq = [this] { return last_seq; },
                   .await_visible = [](SeqNum) {},
                   .last_seq = [this] { return last_seq; },
                   .log_failed = [this] { return log_failed; },
                   .synced_seq = [this] { return synced_seq; },
                   .wait_synced = [this](SeqNum seq) { return wait_synced(seq); },
                   .salvage = [this] { salvaged = true; },
                   .prepare_restart = [] { return Result<FileNum>(FileNum{901}); },
                   .restart =
                       [this](SeqNum last) {
                         restarted_at = last;
                         log_failed = false;
                       }}};
  TreePtr a, b;

  Bed() {
    versions = VersionSet::create(removals, "db").value();
    versions->mark_file_used(901);
    a = make(0);
    b = make(1);
  }
  Status wait_synced(SeqNum seq) {
    synced.push_back(seq);
    if (log_failed && seq > synced_seq) return Status::unknown_outcome("log");
    return sync_status;
  }
  TreePtr make(DatabaseId database) {
    MutexLock lock(trees.commit_mutex);
    TreePtr tree = trees.make(versions->new_tree(), database, StampMode::kWriteTime);
    trees.map(database, tree);
    trees.note_mapping(++last_seq);
    return tree;
  }
  void write(Tree& tree, const std::string& key) {
    MutexLock lock(trees.commit_mutex);
    const std::string value(100, 'v');
    Entry e;
    e.key = key;
    e.seq = ++last_seq;
    e.value = value;
    tree.active->insert({e.key, hash_key(e.key)}, e);
    trees.mark_active(tree.id, e.seq, e.seq);
  }
  void freeze(Tree& tree) {
    MutexLock lock(trees.commit_mutex);
    trees.freeze(tree);
  }
  Status flush(const std::vector<TreePtr>& which) {
    FlushGateShared flushing(flusher.gate);
    return flusher.flush(which);
  }
  Status flush_replayed(const std::vector<TreePtr>& which) {
    FlushGateAlone alone(flusher.gate);
    return flusher.flush_replayed(which);
  }
  Status recover() {
    FlushGateAlone alone(flusher.gate);
    return flusher.recover();
  }
  std::size_t runs(const TreePtr& tree) { return trees.view_of(*tree)->tables->runs.size(); }
  std::size_t data_files() {
    std::size_t count = 0;
    const std::vector<std::string> names = files.fs.list("db").value();
    for (const std::string& name : names) count += name.ends_with(".data") ? 1 : 0;
    return count;
  }
};

TEST_CASE("memtables of several trees are flushed: one edit adds the tables once the log has their operations durably") {
  Bed bed;
  bed.write(*bed.a, "x");
  bed.write(*bed.b, "y");
  bed.freeze(*bed.a);
  bed.freeze(*bed.b);
  REQUIRE(bed.flush({bed.a, bed.b}).is_ok());
  CHECK((bed.runs(bed.a) == 1 && bed.runs(bed.b) == 1));
  CHECK((bed.a->frozen.empty() && bed.b->frozen.empty()));
  CHECK(bed.synced == std::vector<SeqNum>{2, 4});  // first the mapping, then both memtables
  CHECK((bed.versions->last_seq() == 4 && bed.versions->tree(bed.a->id)->runs.size() == 1));
}

TEST_CASE("sync of the log fails before a flush: the flush leaves no file, and the memtables stay") {
  Bed bed;
  REQUIRE(bed.flush({}).is_ok());  // the trees are in the manifest now
  bed.write(*bed.a, "x");
  bed.freeze(*bed.a);
  bed.sync_status = Status::io_error("log");
  CHECK(bed.flush({bed.a}).code() == Code::kIoError);
  CHECK((bed.runs(bed.a) == 0 && bed.a->frozen.size() == 1 && bed.data_files() == 0));
  CHECK_FALSE(bed.ledger.leaving().empty());
}

TEST_CASE("memtables are flushed during replay: one edit adds the tables, and the log is not synced") {
  Bed bed;
  REQUIRE(bed.flush({}).is_ok());
  bed.synced.clear();
  bed.a->deadlines = DeadlineRule(77);
  bed.write(*bed.a, "x");
  bed.write(*bed.b, "y");
  bed.freeze(*bed.a);
  bed.freeze(*bed.b);
  REQUIRE(bed.flush_replayed({bed.a, bed.b}).is_ok());
  CHECK((bed.runs(bed.a) == 1 && bed.runs(bed.b) == 1 && bed.a->frozen.empty() && bed.b->frozen.empty()));
  CHECK((bed.synced.empty() && bed.versions->last_seq() == bed.last_seq));
  CHECK(bed.versions->tree(bed.a->id)->deadlines != bed.a->deadlines);
}

TEST_CASE("flush during replay cannot write a table: it unlinks the tables that it wrote, and the memtables stay") {
  Bed bed;
  REQUIRE(bed.flush({}).is_ok());
  bed.write(*bed.a, "x");
  bed.write(*bed.b, "y");
  bed.freeze(*bed.a);
  bed.freeze(*bed.b);
  bed.files.fs.inject({.ops = ops_of(FileOp::kCreate), .nth = 2, .path_has = ".data"});
  CHECK_FALSE(bed.flush_replayed({bed.a, bed.b}).is_ok());
  CHECK((bed.runs(bed.a) == 0 && bed.data_files() == 0 && bed.a->frozen.size() == 1 && bed.b->frozen.size() == 1));
  CHECK_FALSE(bed.ledger.leaving().empty());
}

TEST_CASE("edit of a flush during replay fails: its tables stay until the manifest is rolled") {
  Bed bed;
  REQUIRE(bed.flush({}).is_ok());
  bed.write(*bed.a, "x");
  bed.freeze(*bed.a);
  bed.files.fs.inject({.ops = ops_of(FileOp::kSync), .path_has = "MANIFEST"});
  const Status status = bed.flush_replayed({bed.a});
  CHECK(status.to_string().find("manifest") != std::string::npos);
  CHECK((bed.data_files() == 1 && bed.runs(bed.a) == 0 && bed.a->frozen.size() == 1));
}

TEST_CASE("edit of a flush fails: the flush's outputs stay until the manifest is rolled, and recovery flushes again") {
  Bed bed;
  REQUIRE(bed.flush({}).is_ok());
  bed.write(*bed.a, "x");
  bed.freeze(*bed.a);
  bed.files.fs.inject({.ops = ops_of(FileOp::kSync), .path_has = "MANIFEST"});
  CHECK_FALSE(bed.flush({bed.a}).is_ok());
  CHECK((bed.data_files() == 1 && bed.a->frozen.size() == 1));
  REQUIRE(bed.recover().is_ok());
  CHECK((bed.data_files() == 1 && bed.runs(bed.a) == 1 && bed.a->frozen.empty()));
  CHECK((!bed.salvaged && bed.restarted_at == 0));
}

TEST_CASE("tree is dropped while its flush writes tables: the tables are unlinked") {
  Bed bed;
  REQUIRE(bed.flush({}).is_ok());
  bed.write(*bed.a, "x");
  bed.freeze(*bed.a);
  const TreePtr a = bed.a;
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.map(0, nullptr);
    bed.trees.drop(a, 1000);
    bed.trees.note_mapping(++bed.last_seq);
  }
  REQUIRE(bed.flush({a, bed.b}).is_ok());
  CHECK((bed.versions->tree(a->id) == nullptr && bed.data_files() == 0));
}

TEST_CASE("log failed: one edit adds tables with all operations, and the log continues in a new segment") {
  Bed bed;
  REQUIRE(bed.flush({}).is_ok());
  bed.write(*bed.a, "x");
  bed.freeze(*bed.a);
  bed.synced_seq = bed.last_seq;  // all operations so far are durable
  bed.write(*bed.a, "y");
  bed.write(*bed.b, "z");
  bed.log_failed = true;
  REQUIRE(bed.recover().is_ok());
  CHECK((bed.salvaged && bed.restarted_at == bed.last_seq && !bed.log_failed));
  CHECK((bed.runs(bed.a) == 2 && bed.runs(bed.b) == 1));  // the durable operations were flushed first, by themselves
  CHECK((bed.versions->oldest_log() == 901 && bed.versions->last_seq() == bed.last_seq));
  MutexLock lock(bed.trees.commit_mutex);
  CHECK((bed.a->active_first_seq == 0 && bed.b->active_first_seq == 0));
}

}  // namespace TEST_FILE

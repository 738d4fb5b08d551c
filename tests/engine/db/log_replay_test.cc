// Tests that a replay gives every tree the operations of the log that tables lack, within a part of the memory budget.
#include "db/log_replay.h"

#include <algorithm>

#include "base/oldest.h"
#include "engine/db/write/commit_bed.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

constexpr std::uint64_t kRoomy = 64 << 20;

/// A database that opens: a registry without trees, and the manifest in the test's directory.
struct Opened {
  explicit Opened(CommitBed& bed, std::uint64_t memory_budget = kRoomy, DatabaseId databases = CommitBed::kDatabases)
      : files(bed.files),
        budget(memory_budget),
        trees(registry_env(clock, epoch, CommitBed::kNow, [] { return SeqNum{0}; }),
              databases_of(databases, CommitBed::kMemTableBytes)) {
    auto opened = VersionSet::open(files, "db");
    if (!opened.is_ok()) opened = VersionSet::create(files, "db");
    REQUIRE(opened.is_ok());
    versions = std::move(opened).value();
    MutexLock lock(trees.commit_mutex);
    trees.start_mapping(versions->databases_seq());
    for (const auto& [database, id] : versions->databases()) {
      trees.map(database, trees.make(id, database, StampMode::kWriteTime));
      published.map(database, trees.mapped(database).get());
    }
  }
  Result<LogReplay::Replayed> replay() NO_THREAD_SAFETY_ANALYSIS {
    MutexLock lock(trees.commit_mutex);
    LogReplay replay({.fs = &files,
                      .dir = "db",
                      .trees = &trees,
                      .versions = versions.get(),
                      .published = &published,
                      .memory_budget = budget,
                      .empty_memtable_bytes = MemTable(CommitBed::kMemTableBytes).memory_bytes(),
                      .advance_time = [this](Millis to) { time = std::max(time, to); },
                      .flush =
                          [this](const std::vector<TreePtr>& of) {
                            ++flushes;
                            if (flush_status.is_ok()) flush_all(of);
                            return flush_status;
                          },
                      .collect = [this] { epoch.collect(); },
                      .progressed =
                          [this](std::uint64_t d, std::uint64_t t) {
                            done = d;
                            total = t;
                          },
                      .warn = [this](const std::string& text) { warnings.push_back(text); }});
    return replay.run();
  }
  /// Removes the trees' frozen memtables, as if they were in tables now. These tables are empty here.
  void flush_all(const std::vector<TreePtr>& of) {
    MutexLock commit(trees.commit_mutex);  // no other thread has it: jobs that build tables lock it themselves
    MutexLock lock(trees.state_mutex);
    for (const TreePtr& tree : of) {
      auto view = std::make_shared<TreeView>(*tree->view_owner);
      view->memtables.resize(1);
      tree->frozen.clear();
      trees.publish(*tree, std::move(view));
    }
  }
  /// Writes the current mapping of databases to the manifest.
  void write_mapping() {
    VersionEdit edit;
    (void)trees.collect_changes(*versions, &edit);
    REQUIRE(versions->commit(std::move(edit)).is_ok());
  }
  std::string get(DatabaseId database, const std::string& key) {
    const TreePtr tree = trees.tree_of(database);
    if (tree == nullptr) return "(no tree)";
    Entry entry;
    for (const auto& memtable : trees.view_of(*tree)->memtables) {
      if (memtable->get({key, hash_key(key)}, kMaxSeqNum, &entry)) return entry.is_tombstone() ? "" : std::string(entry.value);
    }
    return "(none)";
  }

  MemoryFileSystem& files;
  const std::uint64_t budget;
  SimulatedClock clock;
  Epoch epoch;
  Publication published;
  std::unique_ptr<VersionSet> versions;
  TreeRegistry trees;
  Millis time = 0;
  int flushes = 0;
  Status flush_status;
  std::uint64_t done = 0, total = 0;
  std::vector<std::string> warnings;
};

void put(CommitBed& bed, DatabaseId database, const std::string& key, const std::string& value) {
  WriteBatch batch;
  batch.put(database, key, value);
  REQUIRE(bed.pipeline.commit(batch).is_ok());
}

void write_log(CommitBed& bed) {
  while (bed.log.write()) {
  }
}

/// Returns the note of a tree in the only segment.
LogNote note_in(const LogReplay::Replayed& replayed, TreeId tree) {
  REQUIRE(replayed.segments.size() == 1);
  const LogNotes& notes = replayed.segments.front().notes;
  const auto note = std::find_if(notes.begin(), notes.end(), [tree](const LogNote& n) { return n.tree == tree; });
  REQUIRE(note != notes.end());
  return *note;
}
Millis birth_in(const LogReplay::Replayed& replayed, TreeId tree) { return note_in(replayed, tree).oldest_delete; }

TEST_CASE("log is replayed: trees have the operations of the log, and each database has its tree of before") {
  CommitBed bed;
  put(bed, 0, "a", "1");
  put(bed, 1, "b", "2");
  WriteBatch batch;
  batch.swap_databases(0, 1);
  batch.flush_database(1);
  batch.put(1, "c", "3");
  batch.del(0, "b");
  REQUIRE(bed.pipeline.commit(batch).is_ok());
  write_log(bed);
  Opened db(bed);
  const auto replayed = db.replay();
  REQUIRE(replayed.status().to_string() == Status::ok().to_string());
  CHECK((db.get(0, "a") == "(none)" && db.get(0, "b").empty()));
  CHECK((db.get(1, "a") == "(none)" && db.get(1, "c") == "3"));
  for (DatabaseId d = 0; d < 2; ++d) {
    CHECK(db.trees.tree_of(d)->id == bed.tree(d)->id);
    CHECK(db.published.tree(d) == db.trees.tree_of(d).get());
  }
  CHECK(replayed->last_seq == bed.pipeline.last_seq());
  CHECK((replayed->segments.size() == 1 && replayed->segments.front().last_seq == replayed->last_seq));
  CHECK(replayed->segments.front().since == CommitBed::kNow);
  CHECK((db.time == CommitBed::kNow && db.flushes == 0 && db.warnings.empty() && replayed->skipped_in == kNoFile));
  CHECK((db.total > 0 && db.done > 0 && db.done <= db.total));
}

TEST_CASE("log has a put with a delete debt, in any record: after replay, memtable and segment have the debt's birth") {
  const std::size_t bytes = GENERATE(std::size_t{10}, kLongRecordBytes + 1);
  CommitBed bed;
  put(bed, 0, "a", "old");
  WriteBatch batch;
  batch.put(0, "a", std::string(bytes, 'x'), {.kind = EntryKind::kCompact, .debt = true});
  batch.put(1, "b", "no debt");
  REQUIRE(bed.pipeline.commit(batch).is_ok());
  write_log(bed);
  Opened db(bed);
  const auto replayed = db.replay();
  REQUIRE(replayed.status().to_string() == Status::ok().to_string());
  for (const DatabaseId d : {0, 1}) {
    const Millis birth = d == 0 ? CommitBed::kNow : 0;
    const TreePtr tree = db.trees.tree_of(d);
    CHECK(tree->active->oldest_birth() == birth);
    Entry entry;
    const std::string key = d == 0 ? "a" : "b";
    REQUIRE(tree->active->get({key, hash_key(key)}, kMaxSeqNum, &entry));
    CHECK(entry.debt == birth);
    CHECK(birth_in(*replayed, tree->id) == birth);
  }
}

TEST_CASE("log has a FLUSHDB: after the replay, its segment has a pending delete of the old tree's values") {
  CommitBed bed;
  put(bed, 0, "a", "1");
  const TreeId old = bed.tree(0)->id;
  WriteBatch batch;
  batch.flush_database(0);
  batch.put(0, "b", "2");
  REQUIRE(bed.pipeline.commit(batch).is_ok());
  write_log(bed);
  Opened db(bed);
  const auto replayed = db.replay();
  REQUIRE(replayed.status().to_string() == Status::ok().to_string());
  CHECK(birth_in(*replayed, old) == CommitBed::kNow);
  CHECK(birth_in(*replayed, bed.tree(0)->id) == 0);
}

TEST_CASE("log has pieces of a batch without its commit: the segment's note has the earliest expiry of the pieces' values") {
  CommitBed bed;
  put(bed, 0, "a", "1");
  const TreeId tree = bed.tree(0)->id;
  {
    WriteBatch batch;
    batch.put(0, "b", std::string(2000, 'x'), {.expiry = CommitBed::kNow + 70});
    batch.put(0, "c", std::string(2000, 'x'), {.expiry = CommitBed::kNow + 50});
    StagedParts staged;
    REQUIRE(bed.staged.stage(std::move(batch), nullptr, &staged).is_ok());
    write_log(bed);
  }
  Opened db(bed);
  const auto replayed = db.replay();
  REQUIRE(replayed.status().to_string() == Status::ok().to_string());
  CHECK(db.get(0, "c") == "(none)");
  CHECK(note_in(*replayed, tree).min_expiry == CommitBed::kNow + 50);
}

TEST_CASE("replay skips a damaged part of the log: its segment may have deletes of every tree, of unknown birth") {
  CommitBed bed;
  put(bed, 0, "a", "1");
  put(bed, 1, "b", "2");
  write_log(bed);
  const std::string path = join_path("db", log_file_name(bed.log.segments().back().file));
  const std::uint64_t end = bed.files.file_size(path).value();
  {
    Opened first(bed);
    REQUIRE(first.replay().is_ok());
    first.write_mapping();
    VersionEdit edit;
    edit.complete_seq = bed.pipeline.last_seq();  // as if tables had all operations so far
    REQUIRE(first.versions->commit(edit).is_ok());
  }
  const TreeId emptied = bed.tree(0)->id;
  WriteBatch batch;
  batch.flush_database(0);
  batch.put(0, "c", "3");
  REQUIRE(bed.pipeline.commit(batch).is_ok());
  write_log(bed);
  std::string bytes = read_file(bed.files, path).value();
  bytes[end - 1] ^= 1;
  REQUIRE(write_file_atomically(bed.files, "db", path.substr(3), bytes).is_ok());
  Opened db(bed);
  const auto replayed = db.replay();
  REQUIRE(replayed.status().to_string() == Status::ok().to_string());
  CHECK((db.warnings.size() == 1 && replayed->skipped_in == replayed->segments.front().file));
  CHECK((db.get(1, "b") == "(none)" && db.get(0, "c") == "3"));
  for (const TreeId tree : {emptied, bed.tree(0)->id, bed.tree(1)->id}) CHECK(birth_in(*replayed, tree) == kUnknownBirth);
}

TEST_CASE("manifest has the changes of the mapping of databases: the replay does not apply them again") {
  CommitBed bed;
  put(bed, 0, "a", "1");
  write_log(bed);
  {
    Opened first(bed);
    REQUIRE(first.replay().is_ok());
    first.write_mapping();
  }
  Opened db(bed);
  const TreePtr tree = db.trees.tree_of(0);
  REQUIRE(tree != nullptr);
  REQUIRE(db.replay().is_ok());
  CHECK(db.trees.tree_of(0) == tree);
  CHECK(db.get(0, "a") == "1");
}

TEST_CASE("log names a database beyond the configured number: the replay returns an error") {
  CommitBed bed;
  put(bed, 3, "a", "1");
  write_log(bed);
  Opened db(bed, kRoomy, 3);
  const Status status = db.replay().status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.to_string().find("the log names database 3") != std::string::npos);
}

TEST_CASE("log has a torn end: the replay cuts it off, and keeps the batches before it") {
  CommitBed bed;
  put(bed, 0, "a", "1");
  write_log(bed);
  const std::string path = join_path("db", log_file_name(bed.log.segments().back().file));
  const std::uint64_t first = bed.files.file_size(path).value();
  put(bed, 0, "b", "2");
  write_log(bed);
  const std::string bytes = read_file(bed.files, path).value();
  REQUIRE(write_file_atomically(bed.files, "db", path.substr(3), Bytes(bytes).substr(0, bytes.size() - 1)).is_ok());
  Opened db(bed);
  const auto replayed = db.replay();
  REQUIRE(replayed.status().to_string() == Status::ok().to_string());
  CHECK((db.get(0, "a") == "1" && db.get(0, "b") == "(none)"));
  CHECK(replayed->last_seq == 2);
  const std::uint64_t left = bed.files.file_size(path).value();
  CHECK((left >= first && left < bytes.size() - 1 && replayed->segments.front().bytes == left));
}

TEST_CASE("memtables take three quarters of the budget: they are flushed if the manifest has their trees") {
  constexpr std::uint64_t kBudget = 256 << 10;
  constexpr int kKeys = 400;  // 1 KiB each: more than the budget
  CommitBed bed;
  const std::string value(1024, 'v');
  for (int i = 0; i < kKeys; ++i) put(bed, 0, "k" + std::to_string(i), value);
  write_log(bed);
  {
    Opened first(bed, kBudget);
    REQUIRE(first.replay().is_ok());
    CHECK(first.flushes == 0);
    first.write_mapping();
  }
  {
    Opened db(bed, kBudget);
    REQUIRE(db.replay().is_ok());
    CHECK((db.flushes >= 1 && db.flushes <= 4 && db.warnings.empty()));
    CHECK((db.get(0, "k0") == "(none)" && db.get(0, "k399") == value));
    CHECK((db.published.visible_seq() > 0 && db.published.visible_seq() < kKeys));
  }
  Opened full(bed, kBudget);
  full.flush_status = Status::no_space("disk");
  REQUIRE(full.replay().is_ok());
  CHECK((full.flushes == 1 && full.warnings.size() == 1));
  CHECK((full.get(0, "k0") == value && full.get(0, "k399") == value));
}

}  // namespace TEST_FILE

// Tests of edits of the manifest: the pending changes that they include, and the steps that follow them.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "db/background/manifest_editor.h"
#include "engine/db/background/installer_env.h"
#include "engine/db/background/remover_env.h"
#include "engine/db/trees/registry_env.h"
#include "io/fault_fs.h"
#include "io/file_names.h"
#include "io/memory_fs.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

struct Bed {
  MemoryFileSystem memory;
  FaultFileSystem fs{memory};
  RemovalsFileSystem removals{fs, "db"};
  SimulatedClock clock;
  Epoch epoch;
  SeqNum last_seq = 0;
  std::vector<SeqNum> synced, settled;
  std::vector<TreeId> forgotten;
  std::vector<std::string> failures;
  std::vector<LogSegment> segments;
  std::vector<std::function<void()>> submitted;
  Status sync_status = Status::ok();
  bool closing = false, healthy = true;
  int written = 0;
  LogTip tip;
  std::unique_ptr<VersionSet> versions;
  PurgeLedger ledger{removals, "db"};
  LogPins pins;
  TreeRegistry trees{registry_env(clock, epoch, Millis{5000}, [this] { return last_seq; }), databases_of(2, 4096)};
  ObsoleteFileRemover obsolete_files{remover_env(clock, removals, [this] { epoch.collect(); })};
  std::vector<TreeId> installed;
  TableInstaller installer{installer_env()};
  ManifestEditor editor{{.trees = &trees,
                         .ledger = &ledger,
                         .pins = &pins,
                         .installer = &installer,
                         .obsolete_files = &obsolete_files,
                         .versions = [this]() -> VersionSet& { return *versions; },
                         .now = [] { return Millis{6000}; },
                         .stamped = [] { return Millis{5000}; },
                         .fence = [] { return Millis{5000}; },
                         .floor = [](const TreePtr&) { return Millis{3000}; },
                         .wait_synced =
                             [this](SeqNum seq) {
                               synced.push_back(seq);
                               return sync_status;
                             },
                         .oldest_needed = [this](SeqNum seq) { return segment_of(seq); },
                         .segments = [this] { return segments; },
                         .log_tip = [this] { return tip; },
                         .has_segments_below = [this](FileNum file) { return segments.front().file < file; },
                         .take_segments_below = [this](FileNum file) { return take(file); },
                         .await_settled = [this](SeqNum seq) { settled.push_back(seq); },
                         .forget = [this](TreeId id) { forgotten.push_back(id); },
                         .submit = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
                         .submit_later = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
                         .closing = [this] { return closing; },
                         .healthy = [this] { return healthy; },
                         .failed = [this](const Status&, const char* what) { failures.emplace_back(what); },
                         .mapping_written = [this] { ++written; }}};

  /// Makes a log of three segments of ten operations; each segment has a delete of tree 1.
  Bed() {
    REQUIRE(fs.create_dir("db").is_ok());
    versions = VersionSet::create(removals, "db").value();
    for (FileNum file = 501; file <= 503; ++file) {
      LogSegment segment;
      segment.file = file;
      segment.bytes = 100;
      segment.last_seq = (file - 500) * 10;
      segment.notes = {{1, 4000, 0}};
      segments.push_back(segment);
      auto out = std::move(removals.create("db/" + log_file_name(file))).value();
      REQUIRE((out->append("x").is_ok() && out->close().is_ok()));
      versions->mark_file_used(file);
    }
  }
  FileNum segment_of(SeqNum seq) {
    for (const LogSegment& segment : segments) {
      if (segment.last_seq >= seq) return segment.file;
    }
    return segments.back().file;
  }
  std::vector<FileNum> take(FileNum below) {
    std::vector<FileNum> out;
    while (segments.size() > 1 && segments.front().file < below) {
      out.push_back(segments.front().file);
      segments.erase(segments.begin());
    }
    return out;
  }
  TreePtr make() {
    MutexLock lock(trees.commit_mutex);
    TreePtr tree = trees.make(versions->new_tree(), 0, StampMode::kWriteTime);
    trees.map(0, tree);
    trees.note_mapping(++last_seq);
    return tree;
  }
  TableInstaller::Env installer_env() {
    TableInstaller::Env env = testing::installer_env(fs, obsolete_files.sink(), ledger, trees, versions);
    env.publish = [this, publish = env.publish](Tree& tree, std::shared_ptr<const TreeView> view) {
      installed.push_back(tree.id);
      publish(tree, std::move(view));
    };
    return env;
  }
  TreePtr committed() {
    TreePtr tree = make();
    editor.schedule_mapping();
    run_submitted();
    return tree;
  }
  void drop(const TreePtr& tree) {
    MutexLock lock(trees.commit_mutex);
    trees.map(0, nullptr);
    trees.drop(tree, 5000);
    trees.note_mapping(++last_seq);
  }
  void run_submitted() {
    for (const auto& work : std::exchange(submitted, {})) work();
  }
  bool exists(FileNum segment) { return fs.exists("db/" + log_file_name(segment)); }
};

TEST_CASE("tree is made: the manifest gets the tree and its deadline, once the log has the tree's first operation durably") {
  Bed bed;
  const TreePtr tree = bed.make();
  bed.editor.schedule_mapping();
  bed.editor.schedule_mapping();
  CHECK(bed.submitted.size() == 1);
  bed.run_submitted();
  CHECK((bed.synced == std::vector<SeqNum>{1} && bed.written == 1 && bed.failures.empty()));
  REQUIRE(bed.versions->tree(tree->id) != nullptr);
  CHECK(bed.versions->tree(tree->id)->deadlines == tree->deadlines);
  bed.editor.schedule_mapping();
  CHECK(bed.submitted.size() == 1);
  bed.run_submitted();
  CHECK(bed.synced.size() == 1);  // there was nothing left to write
}

TEST_CASE("log cannot make a new mapping of databases to trees durable: the manifest does not get the mapping") {
  Bed bed;
  const TreePtr tree = bed.make();
  bed.sync_status = Status::io_error("log");
  bed.editor.schedule_mapping();
  bed.run_submitted();
  CHECK((bed.failures == std::vector<std::string>{"database change"} && bed.written == 1));
  CHECK(bed.versions->tree(tree->id) == nullptr);
  bed.closing = true;
  bed.editor.schedule_mapping();
  bed.run_submitted();
  CHECK(bed.failures.size() == 1);
}

TEST_CASE("tree is dropped: its state is removed after the edit, once readers see its successor") {
  Bed bed;
  const TreePtr tree = bed.make();
  MutexLock lock(bed.editor.mutex);
  REQUIRE(bed.editor.commit_mapping().is_ok());
  bed.drop(tree);
  REQUIRE(bed.editor.commit_mapping().is_ok());
  CHECK((bed.settled == std::vector<SeqNum>{1, 2} && bed.forgotten == std::vector<TreeId>{tree->id}));
  CHECK((bed.trees.view_of(*tree) == nullptr && bed.trees.tree_with(tree->id) == nullptr));
  CHECK(bed.versions->tree(tree->id) == nullptr);
  const auto superseded = bed.ledger.superseded();
  REQUIRE(superseded.count(tree->id) == 1);
  CHECK((superseded.at(tree->id).floor == 3000 && superseded.at(tree->id).since == 6000));
}

TEST_CASE("log segments are not needed any more: they are unlinked after a durable edit, and the purge ledger lists them") {
  Bed bed;
  bed.last_seq = 25;
  REQUIRE(bed.editor.shorten(false).is_ok());
  CHECK((bed.versions->oldest_log() == 503 && bed.editor.log_begins() == 503));
  CHECK((!bed.exists(501) && !bed.exists(502) && bed.exists(503)));
  const auto leaving = bed.ledger.leaving();
  REQUIRE(leaving.size() == 2);
  CHECK(leaving[0].floors == PurgeLedger::Floors{{1, 4000}});
}

TEST_CASE("segments are pinned: they stay until they are unpinned") {
  Bed bed;
  bed.last_seq = 25;
  const auto pin = bed.pins.pin(502, 503);
  REQUIRE(bed.editor.shorten(false).is_ok());
  CHECK(bed.editor.log_begins() == 503);
  CHECK((!bed.exists(501) && bed.exists(502)));
  bed.editor.unpin(pin);
  CHECK((!bed.exists(502) && bed.exists(503)));
}

TEST_CASE("database is read-only or closing: no log segment is removed, and the manifest is not rolled") {
  Bed bed;
  bed.last_seq = 25;
  const FileNum manifest = bed.versions->manifest_file();
  bed.healthy = false;
  REQUIRE(bed.editor.shorten(true).is_ok());
  bed.healthy = true;
  bed.closing = true;
  REQUIRE(bed.editor.shorten(true).is_ok());
  CHECK((bed.exists(501) && bed.versions->manifest_file() == manifest));
  bed.closing = false;
  REQUIRE(bed.editor.shorten(true).is_ok());
  CHECK((!bed.exists(501) && bed.versions->manifest_file() != manifest));
}

TEST_CASE("edit is written: it names the oldest log segment that is still needed, and no seq beyond the synced ones") {
  Bed bed;
  bed.last_seq = 15;
  MutexLock lock(bed.editor.mutex);
  VersionEdit edit;
  edit.last_seq = 12;
  bed.editor.note_log_needs({}, {}, &edit);
  CHECK((edit.oldest_log == FileNum{502} && edit.complete_seq == SeqNum{12}));
  REQUIRE(bed.editor.commit(std::move(edit)).is_ok());
  bed.last_seq = 25;
  VersionEdit next;  // it relies on no operation of its own
  bed.editor.note_log_needs({}, {}, &next);
  CHECK((next.oldest_log == FileNum{503} && next.complete_seq == SeqNum{12}));
}

TEST_CASE("manifest is rolled: the purge ledger lists no more deleted keys of old edits") {
  Bed bed;
  const TreePtr tree = bed.make();
  MutexLock lock(bed.editor.mutex);
  REQUIRE(bed.editor.commit_mapping().is_ok());
  bed.drop(tree);
  REQUIRE(bed.editor.commit_mapping().is_ok());
  const FileNum old = bed.versions->manifest_file();
  REQUIRE(bed.editor.roll().is_ok());
  CHECK(bed.versions->manifest_file() != old);
  CHECK(bed.ledger.superseded().empty());
}

TEST_CASE("deadline changes: the manifest gets the change, later if a write fails") {
  Bed bed;
  const TreePtr tree = bed.make();
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.settle();
  }
  {
    MutexLock lock(bed.editor.mutex);
    REQUIRE(bed.editor.commit_mapping().is_ok());
  }
  bed.editor.schedule_deadlines();
  CHECK(bed.submitted.empty());
  TreeSettings settings;
  settings.delete_deadline = 1234;
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.change_settings(0, settings);
  }
  bed.fs.inject({.ops = ops_of(FileOp::kSync)});
  bed.editor.schedule_deadlines();
  bed.editor.schedule_deadlines();
  REQUIRE(bed.submitted.size() == 1);
  bed.run_submitted();
  CHECK(bed.failures == std::vector<std::string>{"a change of the delete deadline"});
  CHECK(bed.trees.deadlines_changed());
  {
    MutexLock lock(bed.editor.mutex);
    REQUIRE(bed.editor.roll().is_ok());
  }
  bed.editor.schedule_deadlines();
  bed.run_submitted();
  CHECK(bed.versions->tree(tree->id)->deadlines == tree->deadlines);
  CHECK((bed.failures.size() == 1 && !bed.trees.deadlines_changed()));
}

// Makes an edit that the test can recognize: it marks the tree as flushed `flushes` times.
TableChange mark_of(TreeId id, std::uint64_t flushes) {
  TableChange change;
  change.make = [=](const TableChange::Versions&) {
    VersionEdit edit;
    TreeEdit& tree = edit.trees.emplace_back();
    tree.tree = id;
    tree.flushes = flushes;
    return edit;
  };
  return change;
}

TEST_CASE("tables are changed: the edit is committed, then readers get the tables, then `installed` is called") {
  Bed bed;
  const TreePtr tree = bed.committed();
  TableChange change = mark_of(tree->id, 3);
  std::size_t installs = 0;
  change.installed = [&] { installs = bed.installed.size(); };
  REQUIRE(bed.editor.commit_change(change).is_ok());
  CHECK((bed.versions->tree(tree->id)->flushes == 3 && bed.installed == std::vector<TreeId>{tree->id} && installs == 1));
}

TEST_CASE("change of tables has no tree: no edit is written, and nothing is installed") {
  Bed bed;
  (void)bed.committed();
  bool called = false;
  const std::uint64_t bytes = bed.versions->manifest_bytes();
  CHECK(
      bed.editor.commit_change({.make = [](const auto&) { return VersionEdit{}; }, .installed = [&] { called = true; }}).is_ok());
  CHECK((!called && bed.installed.empty() && bed.versions->manifest_bytes() == bytes));
}

TEST_CASE("edit of a change of tables fails, or the database closes: readers keep the old tables") {
  Bed bed;
  const TreePtr tree = bed.committed();
  bed.closing = true;
  CHECK(bed.editor.commit_change(mark_of(tree->id, 3)).code() == Code::kAborted);
  bed.closing = false;
  bed.fs.inject({.ops = ops_of(FileOp::kSync), .path_has = "MANIFEST"});
  CHECK_FALSE(bed.editor.commit_change(mark_of(tree->id, 3)).is_ok());
  CHECK((bed.versions->tree(tree->id)->flushes == 0 && bed.installed.empty()));
}

TEST_CASE("another edit is being written, or the database closes: no mark of engine time is written, and no failure reported") {
  Bed bed;
  CHECK(bed.editor.try_time_mark(7000));
  CHECK(bed.versions->time_mark() == 7000);
  {
    MutexLock busy(bed.editor.mutex);
    CHECK_FALSE(std::async(std::launch::async, [&] { return bed.editor.try_time_mark(8000); }).get());
  }
  CHECK((bed.versions->time_mark() == 7000 && bed.failures.empty()));
  bed.closing = true;
  CHECK_FALSE(bed.editor.try_time_mark(8000));
  CHECK(bed.failures.empty());
  bed.closing = false;
  bed.fs.inject({.ops = ops_of(FileOp::kSync), .path_has = "MANIFEST"});
  CHECK_FALSE(bed.editor.try_time_mark(8000));
  CHECK(bed.failures == std::vector<std::string>{"engine time"});
}

TEST_CASE("mark of engine time is written: its edit names newest log segment and last synced seq, neither older than before") {
  Bed bed;
  bed.tip = {503, 25};
  CHECK(bed.editor.try_time_mark(7000));
  CHECK((bed.versions->newest_log() == 503 && bed.versions->last_seq() == 25));
  bed.tip = {502, 20};
  CHECK(bed.editor.try_time_mark(8000));
  CHECK((bed.versions->newest_log() == 503 && bed.versions->last_seq() == 25));
}

TEST_CASE("filter update of a tree is scheduled twice: it runs once, and not at all for a dropped tree") {
  Bed bed;
  const TreePtr tree = bed.committed();
  bed.editor.schedule_filter_fit(tree);
  bed.editor.schedule_filter_fit(tree);
  CHECK(bed.submitted.size() == 1);
  bed.run_submitted();
  CHECK(bed.installed == std::vector<TreeId>{tree->id});
  bed.editor.schedule_filter_fit(tree);
  bed.drop(tree);
  bed.run_submitted();
  CHECK(bed.installed.size() == 1);
}

}  // namespace TEST_FILE

// Edits of the manifest: the pending changes that they include, and the steps that follow them.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "db/background/manifest_editor.h"
#include "engine/db/background/remover_env.h"
#include "engine/db/trees/registry_env.h"
#include "io/fault_fs.h"
#include "io/file_names.h"
#include "io/memory_fs.h"

using namespace ebbtide;
using namespace ebbtide::testing;

namespace {

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
  std::unique_ptr<VersionSet> versions;
  PurgeLedger ledger{removals, "db"};
  LogPins pins;
  TreeRegistry trees{registry_env(clock, epoch, 4096, Millis{5000}, [this] { return last_seq; }), std::vector<TreeSettings>(2)};
  ObsoleteFileRemover obsolete_files{remover_env(clock, removals, [this] { epoch.collect(); })};
  TableInstaller installer{
      {.fs = &fs, .dir = "db", .sink = obsolete_files.sink(), .ledger = &ledger, .state_mutex = &trees.state_mutex}};
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
                         .has_segments_below = [this](FileNum file) { return segments.front().file < file; },
                         .take_segments_below = [this](FileNum file) { return take(file); },
                         .await_settled = [this](SeqNum seq) { settled.push_back(seq); },
                         .forget = [this](TreeId id) { forgotten.push_back(id); },
                         .submit = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
                         .closing = [this] { return closing; },
                         .healthy = [this] { return healthy; },
                         .failed = [this](const Status&, const char* what) { failures.emplace_back(what); },
                         .mapping_written = [this] { ++written; }}};

  /// The log has three segments of ten operations; each has a delete of tree 1.
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

}  // namespace

TEST_CASE("new tree reaches the manifest with its deadline, once the log has its operation durably") {
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
  CHECK(bed.synced.size() == 1);  // nothing was left to write
}

TEST_CASE("change of the mapping that the log does not have durably is not written") {
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

TEST_CASE("dropped tree is retired after the edit, once readers are mapped to its successor") {
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

TEST_CASE("unneeded log segments are removed after a durable edit, and are in the ledger with their deletes") {
  Bed bed;
  bed.last_seq = 25;
  REQUIRE(bed.editor.shorten(false).is_ok());
  CHECK((bed.versions->oldest_log() == 503 && bed.editor.log_begins() == 503));
  CHECK((!bed.exists(501) && !bed.exists(502) && bed.exists(503)));
  const auto leaving = bed.ledger.leaving();
  REQUIRE(leaving.size() == 2);
  CHECK(leaving[0].floors == PurgeLedger::Floors{{1, 4000}});
}

TEST_CASE("pinned segments stay until they are unpinned") {
  Bed bed;
  bed.last_seq = 25;
  const auto pin = bed.pins.pin(502, 503);
  REQUIRE(bed.editor.shorten(false).is_ok());
  CHECK(bed.editor.log_begins() == 503);
  CHECK((!bed.exists(501) && bed.exists(502)));
  bed.editor.unpin(pin);
  CHECK((!bed.exists(502) && bed.exists(503)));
}

TEST_CASE("neither log nor manifest is shortened while the database is read-only or closes") {
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

TEST_CASE("edit names the oldest needed log segment, and no seq beyond what is known to be synced") {
  Bed bed;
  bed.last_seq = 15;
  MutexLock lock(bed.editor.mutex);
  VersionEdit edit;
  edit.last_seq = 12;
  bed.editor.note_log_needs({}, {}, &edit);
  CHECK((edit.oldest_log == FileNum{502} && edit.complete_seq == SeqNum{12}));
  REQUIRE(bed.editor.commit(std::move(edit)).is_ok());
  bed.last_seq = 25;
  VersionEdit next;  // relies on no operation of its own
  bed.editor.note_log_needs({}, {}, &next);
  CHECK((next.oldest_log == FileNum{503} && next.complete_seq == SeqNum{12}));
}

TEST_CASE("rolled manifest ends what older edits had superseded") {
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

TEST_CASE("change of a deadline is written, and again later if that failed") {
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

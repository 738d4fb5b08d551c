// Tests that dead bytes are punched when the last reader with an older metadata file has ended, once the file system can punch.
#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "db/background/hole_puncher.h"
#include "engine/db/background/tables.h"
#include "io/file_names.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

constexpr TreeId kTree = 1;
constexpr Millis kRetryMs = 5'000;
constexpr std::uint64_t kHoleBytes = 8192;  // bytes at the ends of a hole that are in blocks with live bytes

// A table of 64 pages, half of which are dropped.
struct Bed {
  TreeFixture tree{1};
  ObsoleteSink sink = [](const ObsoleteFiles&) {};
  SimulatedClock clock;
  Mutex link_mutex;
  bool writable = true, closing = false, dropped = false;
  Status commit_status;
  std::vector<std::string> warnings, failures;
  using Punched = std::vector<std::pair<FileNum, std::uint64_t>>;
  std::vector<Punched> committed;
  std::vector<std::function<void()>> submitted;
  int plans = 0;
  std::shared_ptr<const TablesView> tables;
  HolePuncher puncher{{.clock = &clock,
                       .fs = &tree.fs,
                       .dir = "db",
                       .link_mutex = &link_mutex,
                       .tables = [this](TreeId) { return dropped ? nullptr : tables; },
                       .writable = [this] { return writable; },
                       .commit = [this](const TableChange& change) { return commit(change); },
                       .submit = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
                       .done = [this](TreeId) { ++plans; },
                       .failed = [this](const Status& status) { failures.push_back(status.to_string()); },
                       .closing = [this] { return closing; },
                       .warn = [this](const std::string& text) { warnings.push_back(text); }}};

  Bed() {
    clock.advance(60'000);
    tree.context.settings.pages_per_tile = 1;
    tree.context.settings.file_size = 1 << 20;
    tree.context.settings.compression = tree.context.settings.compression_last_level = Compression::kNone;
    Source source;
    for (int i = 0; i < 64; ++i) source.entries.push_back(entry("k" + std::to_string(10 + i), static_cast<SeqNum>(1 + i)));
    tree.context.visible_seq = 64;
    tree.flush(source);
    PageSet pages{tree.version->runs.front().id, tree.version->runs.front().files.front()->data_file};
    for (std::uint32_t page = 0; page < 32; ++page) pages.whole.push_back(page);
    Drop drop;
    drop.pages.push_back(std::move(pages));
    REQUIRE(tree.run({.action = std::move(drop)}).is_ok());
    tables = open_tables(tree, &sink);
    REQUIRE(file().dead_bytes != 0);
    puncher.note_dead(kTree);
  }
  [[nodiscard]] const FileMeta& file() const { return *tree.version->runs.front().files.front(); }
  [[nodiscard]] std::string path() const { return "db/" + data_file_name(file().data_file); }
  [[nodiscard]] std::uint64_t allocated() { return tree.memory.allocated_bytes(path()).value(); }
  std::function<void()> before_commit = [] {};
  Status commit(const TableChange& change) {
    before_commit();
    const VersionEdit edit = change.make({{kTree, tree.version}});
    if (edit.trees.empty()) return Status::ok();
    committed.push_back(edit.trees.front().punched);
    if (!commit_status.is_ok()) return commit_status;
    tree.install(edit.trees.front());
    tables = open_tables(tree, &sink);
    return Status::ok();
  }
  void turn() {
    puncher.schedule(kTree);
    for (const auto& work : std::exchange(submitted, {})) work();
  }
};

TEST_CASE("file has dead bytes: they are punched and synced once, the manifest has their number, and plans are requested") {
  Bed bed;
  const std::uint64_t before = bed.allocated(), dead = bed.file().dead_bytes;
  const std::uint64_t syncs = bed.tree.fs.operations(ops_of(FileOp::kSync));
  bed.turn();
  CHECK(bed.committed == std::vector<Bed::Punched>{{{bed.file().data_file, dead}}});
  CHECK(bed.file().punched_bytes == dead);
  CHECK(bed.allocated() + dead <= before + kHoleBytes);
  CHECK(bed.tree.fs.operations(ops_of(FileOp::kSync)) == syncs + 1);
  CHECK((bed.puncher.punched_bytes() == dead && bed.plans == 1));
  bed.turn();
  CHECK((bed.committed.size() == 1 && bed.plans == 1));
}

TEST_CASE("reader has the file's older metadata: the dead bytes are punched only after the reader ends") {
  Bed bed;
  auto reader = bed.tree.env.open_table(bed.file()).value();
  bed.tables->runs.front().tables().front()->data->add_reader(reader);
  bed.turn();
  CHECK(bed.committed.empty());
  reader.reset();
  bed.turn();
  CHECK(bed.committed.size() == 1);
}

TEST_CASE("database is closing, or its manifest cannot be written: no hole is punched") {
  Bed bed;
  bed.closing = true;
  bed.puncher.schedule(kTree);
  CHECK(bed.submitted.empty());
  bed.closing = false;
  bed.writable = false;
  bed.turn();
  CHECK(bed.committed.empty());
  bed.writable = true;
  bed.turn();  // the puncher still knows of the dead bytes
  CHECK(bed.committed.size() == 1);
}

TEST_CASE("file has a second name (a hard link): it is never punched, and not_punched() lists it for a rewrite") {
  Bed bed;
  REQUIRE(bed.tree.memory.link(bed.path(), "db/copy").is_ok());
  CHECK(bed.puncher.not_punched(*bed.tree.version).empty());
  bed.turn();
  CHECK(bed.committed.empty());
  CHECK(bed.puncher.not_punched(*bed.tree.version) == std::set<FileNum>{bed.file().data_file});
  REQUIRE(bed.tree.memory.unlink("db/copy").is_ok());
  bed.turn();
  CHECK(bed.committed.empty());
  Version rewritten;
  rewritten.tree = kTree;
  CHECK(bed.puncher.not_punched(rewritten).empty());  // the file was removed, and its entry in the list, too
  CHECK(bed.puncher.not_punched(*bed.tree.version).empty());
}

TEST_CASE("file system cannot punch holes: punching is tried only once") {
  Bed bed;
  bed.tree.fs.inject({.ops = ops_of(FileOp::kPunchHole), .sticky = true, .code = Code::kUnsupported});
  CHECK(bed.puncher.can_punch());
  bed.turn();
  CHECK_FALSE(bed.puncher.can_punch());
  CHECK((bed.warnings.size() == 1 && bed.committed.empty()));
  bed.puncher.schedule(kTree);
  CHECK(bed.submitted.empty());
}

TEST_CASE("punching a hole fails: punching is tried again after five seconds") {
  Bed bed;
  bed.tree.fs.inject({.ops = ops_of(FileOp::kPunchHole)});
  bed.turn();
  CHECK((bed.warnings.size() == 1 && bed.committed.empty()));
  bed.clock.advance(kRetryMs - 1);
  bed.turn();
  CHECK(bed.committed.empty());
  bed.clock.advance(1);
  bed.turn();
  CHECK(bed.committed.size() == 1);
}

TEST_CASE("sync of holes fails: the sync is not retried, and the file is listed for a rewrite") {
  Bed bed;
  bed.tree.fs.inject({.ops = ops_of(FileOp::kSync)});
  bed.turn();
  bed.clock.advance(kRetryMs);
  bed.turn();
  CHECK(bed.committed.empty());
  CHECK(bed.puncher.not_punched(*bed.tree.version).size() == 1);
}

TEST_CASE("edit after a punch fails: the failure is reported, and the holes are punched again") {
  Bed bed;
  bed.commit_status = Status::io_error("refused");
  bed.turn();
  CHECK(bed.failures.size() == 1);
  bed.commit_status = Status::aborted("");
  bed.turn();
  CHECK((bed.failures.size() == 1 && bed.committed.size() == 2));
  bed.puncher.forget(kTree);
  bed.turn();
  CHECK(bed.committed.size() == 2);
}

TEST_CASE("file leaves its tree while its holes are punched: the edit does not name it") {
  Bed bed;
  bed.before_commit = [&] {
    auto without = std::make_shared<Version>(*bed.tree.version);
    without->runs.clear();
    bed.tree.version = without;
  };
  bed.turn();
  CHECK((bed.puncher.punched_bytes() != 0 && bed.committed.empty() && bed.failures.empty()));
}

TEST_CASE("tree is dropped while a file of it is punched: no edit is written, and no failure is reported") {
  Bed bed;
  bed.before_commit = [&] { bed.dropped = true; };
  bed.turn();
  CHECK((bed.puncher.punched_bytes() != 0 && bed.committed.empty() && bed.failures.empty()));
}

}  // namespace TEST_FILE

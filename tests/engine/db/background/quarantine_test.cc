// Tests of how a file gets into quarantine, when it is read again, and how its quarantine ends.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compaction/table_files.h"
#include "db/background/quarantine.h"
#include "engine/db/background/tables.h"
#include "io/errno_status.h"
#include "io/file_names.h"
#include "table/metadata.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

constexpr TreeId kTree = 1;
constexpr Millis kMinute = 60'000;

// A tree of one table.
struct Bed {
  TreeFixture tree{1};
  ObsoleteSink sink = [](const ObsoleteFiles&) {};
  SimulatedClock clock;
  Mutex link_mutex;
  RemovalsFileSystem removals{tree.fs, "db"};
  PurgeLedger ledger{removals, "db"};
  bool writable = true, closing = false;
  Status refused;                // the error with which the manifest refuses edits
  std::vector<Status> findings;  // the results of the next reads of the file
  int reads = 0, edits = 0, installs = 0;
  std::vector<std::string> failures, log;
  std::vector<TreeId> changed;
  std::vector<std::function<void()>> soon, later;
  Quarantine quarantine{
      {.clock = &clock,
       .fs = &tree.fs,
       .dir = "db",
       .link_mutex = &link_mutex,
       .ledger = &ledger,
       .live_tables = [this] { return std::vector{open_tables(tree, &sink)}; },
       .commit = [this](const TableChange& change) { return commit(change); },
       .open = [this](const FileMeta& meta) { return tree.env.open_table(meta); },
       .open_unreadable =
           [this](const FileMeta& meta, Status why) {
             return TableReader::unreadable({&tree.fs, nullptr, "db", false}, files_of(meta), meta.stats, std::move(why));
           },
       .read =
           [this](const FileMeta&, const std::function<bool()>&, TableCheck*) {
             ++reads;
             return findings;
           },
       .floor = [](TreeId) { return Millis{1000}; },
       .submit_soon = [this](std::function<void()> work) { soon.push_back(std::move(work)); },
       .submit = [this](std::function<void()> work) { later.push_back(std::move(work)); },
       .writable = [this] { return writable; },
       .closing = [this] { return closing; },
       .failed = [this](const Status& status) { failures.push_back(status.to_string()); },
       .changed = [this](const std::vector<TreeId>& trees) { changed.insert(changed.end(), trees.begin(), trees.end()); },
       .log = [this](Severity, const std::string& text) { log.push_back(text); }}};

  Bed() {
    clock.advance(kMinute);
    tree.context.settings.pages_per_tile = 1;
    tree.context.settings.compression = tree.context.settings.compression_last_level = Compression::kNone;
    Source source;
    for (int i = 0; i < 16; ++i) source.entries.push_back(entry("k" + std::to_string(10 + i), static_cast<SeqNum>(1 + i)));
    tree.context.visible_seq = 16;
    tree.flush(source);
  }
  [[nodiscard]] FileMetaPtr meta() const { return tree.version->runs.front().files.front(); }
  [[nodiscard]] FileNum file() const { return meta()->data_file; }
  [[nodiscard]] bool quarantined() const { return meta()->quarantined(); }
  Status commit(const TableChange& change) {
    const VersionEdit edit = change.make({{kTree, tree.version}});
    if (edit.trees.empty()) return Status::ok();
    if (!refused.is_ok()) return refused;
    ++edits;
    for (const TreeEdit& one : edit.trees) tree.install(one);
    installs += static_cast<int>(change.opened.size());
    if (change.installed) change.installed();
    return Status::ok();
  }
  [[nodiscard]] std::vector<std::string> names() { return tree.memory.list("db").value(); }
  void damage() { quarantine.report(file(), {Status::corruption("bad page")}); }
  void tick() {
    quarantine.tick();
    for (auto* list : {&soon, &later}) {
      for (const auto& work : std::exchange(*list, {})) work();
    }
  }
  // Returns the number of reads of the file within these minutes, with a tick a second.
  int reads_within(int minutes) {
    const int before = reads;
    for (int second = 0; second < 60 * minutes; ++second) {
      clock.advance(1000);
      tick();
    }
    return reads - before;
  }
};

TEST_CASE("damage is reported: one edit quarantines the file, the damage is logged, and plans are requested") {
  Bed bed;
  bed.damage();
  CHECK_FALSE(bed.quarantined());
  bed.tick();
  CHECK(bed.meta()->damage == "corruption: bad page");
  CHECK(bed.log == std::vector<std::string>{"tree 1: a table is quarantined: corruption: bad page"});
  CHECK(bed.changed == std::vector<TreeId>{kTree});
  bed.damage();  // readers still report the damage
  bed.tick();
  CHECK(bed.edits == 1);
}

TEST_CASE("no tree has the reported file: the report is dropped") {
  Bed bed;
  bed.quarantine.report(999, {Status::corruption("bad page")});
  CHECK(bed.quarantine.take_reports().is_ok());
  CHECK((bed.edits == 0 && bed.log.empty()));
}

TEST_CASE("edit of a quarantine fails: the failure is reported, and the file is quarantined by a later edit") {
  Bed bed;
  bed.damage();
  bed.refused = Status::no_space("full");
  bed.tick();
  CHECK((bed.failures.size() == 1 && !bed.quarantined()));
  bed.writable = false;
  bed.tick();
  CHECK(bed.failures.size() == 1);
  bed.writable = true;
  bed.refused = Status::ok();
  bed.tick();
  CHECK(bed.quarantined());
}

TEST_CASE("database closes: nothing is quarantined, and no failure is reported") {
  Bed bed;
  bed.damage();
  bed.refused = Status::aborted("");
  CHECK(bed.quarantine.take_reports().is_ok());
  CHECK((bed.failures.empty() && !bed.quarantined()));
}

TEST_CASE("file is quarantined: it is read again after a minute, and then at growing intervals of at most an hour") {
  Bed bed;
  bed.damage();
  bed.tick();
  bed.findings = {Status::corruption("bad page")};
  CHECK(bed.reads_within(2) == 1);  // the table was read after 1 min
  CHECK(bed.reads_within(6) == 2);  // the table was read after 3 and 7 min
  (void)bed.reads_within(4 * 60);
  CHECK(bed.reads_within(4 * 60) == 4);
  CHECK(bed.quarantined());
}

TEST_CASE("file is found intact: its quarantine ends, the table is opened again, and older reports of damage are dropped") {
  Bed bed;
  bed.damage();
  bed.tick();
  bed.damage();  // reported before the copy was made, and not handled yet
  CHECK(bed.quarantine.found_whole(bed.file()).is_ok());
  CHECK_FALSE(bed.quarantined());
  CHECK(bed.installs == 1);
  bed.tick();
  CHECK_FALSE(bed.quarantined());
  CHECK(bed.reads_within(5) == 0);
  CHECK(bed.quarantine.found_whole(bed.file()).is_ok());  // the file is not in quarantine any more
  CHECK(bed.quarantine.found_whole(999).is_ok());
  CHECK(bed.installs == 1);
}

TEST_CASE("quarantined file is read completely and is intact: its quarantine ends without TREE.VERIFY") {
  Bed bed;
  bed.damage();
  bed.tick();
  CHECK(bed.reads_within(2) == 1);
  CHECK_FALSE(bed.quarantined());
}

TEST_CASE("operator restores an older copy of a table: it is rewritten without the dropped pages before its quarantine ends") {
  Bed bed;
  const std::string path = "db/" + data_file_name(bed.file());
  const std::string whole = read_file(bed.tree.memory, path).value();
  Drop drop;
  drop.pages.push_back({bed.tree.version->runs.front().id, bed.file(), {0, 1, 2, 3, 4, 5, 6, 7}, {}});
  REQUIRE(bed.tree.run({.action = std::move(drop)}).is_ok());
  bed.damage();
  bed.tick();
  // An operator restores a copy that was made before the drop, and that has a second name.
  REQUIRE(bed.tree.memory.unlink(path).is_ok());
  auto copy = bed.tree.memory.create(path);
  REQUIRE(copy.is_ok());
  REQUIRE((*copy)->append(whole).is_ok());
  REQUIRE((*copy)->close().is_ok());
  REQUIRE(bed.tree.memory.link(path, "db/backup").is_ok());

  bed.tree.fs.inject({.ops = ops_of(FileOp::kRename)});
  CHECK_FALSE(bed.quarantine.found_whole(bed.file()).is_ok());
  CHECK(bed.quarantined());
  CHECK_FALSE(bed.tree.memory.exists(path + std::string(kTemporarySuffix)));

  CHECK(bed.quarantine.found_whole(bed.file()).is_ok());
  CHECK_FALSE(bed.quarantined());
  const std::string clean = read_file(bed.tree.memory, path).value();
  CHECK((clean.size() == whole.size() && clean != whole));
  const auto reader = bed.tree.env.open_table(*bed.meta()).value();
  REQUIRE_FALSE(reader->dead_extents().empty());
  for (const FileExtent& dead : reader->dead_extents()) {
    const std::uint64_t length = std::min<std::uint64_t>(dead.length, clean.size() - dead.offset);
    CHECK(clean.substr(dead.offset, length) == std::string(length, '\0'));
  }
  CHECK(bed.tree.memory.link_count(path).value() == 1);
}

TEST_CASE("device returns an error: the file is quarantined only if all four further reads fail") {
  Bed bed;
  const Status device = errno_status("read", "db/1.data", EIO);
  bed.findings = {device};
  bed.quarantine.report(bed.file(), {device});
  bed.tick();
  CHECK_FALSE(bed.quarantined());
  CHECK(bed.reads_within(1) == 4);
  CHECK(bed.quarantined());
}

TEST_CASE("device fails once, and the second read succeeds: no table is quarantined") {
  Bed bed;
  bed.quarantine.report(bed.file(), {errno_status("read", "db/1.data", EIO)});
  CHECK(bed.reads_within(10) == 1);
  CHECK_FALSE(bed.quarantined());
}

TEST_CASE("many tables are quarantined: the log names ten of them a minute") {
  Bed bed;
  for (int i = 0; i < 25; ++i) {
    bed.damage();
    bed.tick();
    REQUIRE(bed.quarantine.found_whole(bed.file()).is_ok());
  }
  const auto named = std::count_if(bed.log.begin(), bed.log.end(), [](const std::string& line) {
    return line.find("a table is quarantined") != std::string::npos;
  });
  CHECK(named == 10);
  CHECK(std::count(bed.log.begin(), bed.log.end(), "more tables are quarantined; TREE.INFO names each") == 1);
}

TEST_CASE("table is missing at open: it is quarantined, and reading its placeholder returns the error") {
  Bed bed;
  REQUIRE(bed.tree.memory.unlink("db/" + data_file_name(bed.file())).is_ok());
  VersionEdit edit;
  const auto opened = bed.quarantine.open_tables({{kTree, bed.tree.version}}, bed.names(), &edit);
  REQUIRE(opened.is_ok());
  REQUIRE(edit.trees.size() == 1);
  CHECK(edit.trees.front().quarantined.front().first == bed.file());
  CHECK(opened->at(bed.meta()->metadata_file)->unreadable().code() == Code::kCorruption);
}

TEST_CASE("table cannot be opened, for a reason other than damage: open fails, and the file is not quarantined") {
  Bed bed;
  bed.tree.fs.inject({.ops = ops_of(FileOp::kOpen), .sticky = true, .code = Code::kOutOfMemory});
  VersionEdit edit;
  CHECK_FALSE(bed.quarantine.open_tables({{kTree, bed.tree.version}}, bed.names(), &edit).is_ok());
  bed.tree.fs.clear_faults();
  CHECK(bed.quarantine.open_tables({{kTree, bed.tree.version}}, bed.names(), &edit).is_ok());
  CHECK(edit.trees.empty());
}

}  // namespace TEST_FILE

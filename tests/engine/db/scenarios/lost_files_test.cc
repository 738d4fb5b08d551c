// Tests that no acknowledged write is lost if another program removes, truncates or overwrites files of the running database.
#include "db/background/file_watch.h"

#include "engine/db/harness.h"
#include "support/files.h"

namespace TEST_FILE {

using namespace ebbtide;

Settings several_segments() {
  Settings settings = Harness::small();
  settings.tree.memtable_size = 4 << 20;
  settings.wal_segment_size = 64 << 10;
  return settings;
}

/// Makes two databases with flushed and logged operations, and three log segments.
void fill_database(Harness& h) {
  h.open();
  h.put(0, "flushed", "1");
  REQUIRE(h.db->flush(0).is_ok());
  for (int i = 0; h.paths(".wal").size() < 3; ++i) h.put(1, "key" + std::to_string(i), std::string(1000, 'v'));
  h.put(0, "deleted", "1");
  h.del(0, "deleted");
  h.put(0, "last", "1");
}

void check_all(Harness& h) {
  CHECK(h.get(0, "flushed") == "1");
  CHECK(h.get(1, "key0") == std::string(1000, 'v'));
  CHECK(h.get(0, "deleted") == "(absent)");
  CHECK(h.get(0, "last") == "1");
}

/// Returns the names of all files that the watch checks.
std::vector<std::string> watched(const Harness& h) {
  std::vector<std::string> paths = h.paths(".wal");
  for (const std::string& path : h.files->tree()) {
    if (path.find("MANIFEST-") != std::string::npos || path.ends_with("CURRENT")) paths.push_back(path);
  }
  return paths;
}

void harm(Harness& h, const std::string& path, const std::string& how) {
  const std::string bytes = read_file(*h.files, path).value();
  if (how == "removed") REQUIRE(h.files->unlink(path).is_ok());
  if (how == "emptied") REQUIRE(h.files->truncate(path, 0).is_ok());
  if (how == "cut") REQUIRE(h.files->truncate(path, bytes.size() / 2).is_ok());
  if (how == "replaced by a directory") {
    REQUIRE(h.files->unlink(path).is_ok());
    REQUIRE(h.files->create_dir(path).is_ok());
  }
}

TEST_CASE("file of log or manifest is removed, cut or replaced: this is logged within a second, and no write is lost") {
  Harness pattern(several_segments());
  fill_database(pattern);
  const std::size_t files = watched(pattern).size();
  REQUIRE(files == 5);
  for (std::size_t at = 0; at < files; ++at) {
    for (const std::string how : {"removed", "emptied", "cut", "replaced by a directory"}) {
      if (at == files - 2 && how == "replaced by a directory") continue;  // nothing can replace such a CURRENT
      Harness h(several_segments());
      fill_database(h);
      h.advance(1000);
      REQUIRE(h.db->write_status().is_ok());
      const std::string path = watched(h)[at];
      INFO(path << " is " << how);
      harm(h, path, how);
      h.put(0, "afterwards", "1");
      h.advance(1000);
      CHECK(h.events.heard(path + " was "));
      h.heal();
      check_all(h);
      h.put(0, "healed", "1");
      h.crash(CrashMode::kEverything, 1);
      h.open();
      check_all(h);
      CHECK(h.get(0, "afterwards") == "1");
      CHECK(h.get(0, "healed") == "1");
    }
  }
}

TEST_CASE("file of log or manifest is removed or cut before the close: the close writes it again, and no write is lost") {
  Harness pattern(several_segments());
  fill_database(pattern);
  const std::size_t files = watched(pattern).size();
  for (std::size_t at = 0; at < files; ++at) {
    for (const std::string how : {"removed", "emptied", "cut"}) {
      Harness h(several_segments());
      fill_database(h);
      h.advance(1000);
      const std::string path = watched(h)[at];
      INFO(path << " is " << how);
      harm(h, path, how);
      h.put(0, "afterwards", "1");
      REQUIRE(h.db->close().is_ok());
      h.db.reset();
      CHECK(h.events.heard(path + " was "));
      h.open();
      check_all(h);
      CHECK(h.get(0, "afterwards") == "1");
    }
  }
}

TEST_CASE("middle byte of a finished log segment changes: the next full read finds it, and no write is lost") {
  Settings settings = several_segments();
  settings.scrub_interval = 30 * 60'000;  // contents are read once a minute
  Harness h(settings);
  fill_database(h);
  h.advance(1000);
  const std::string path = h.paths(".wal").front();
  flip(*h.files, path, *h.files->file_size(path) / 2);
  for (int i = 0; i < 50; ++i) h.advance(1000);
  h.settle();
  CHECK(h.db->write_status().is_ok());
  CHECK(h.events.warnings.empty());
  for (int i = 0; i < 11; ++i) h.advance(1000);
  h.settle();
  h.advance(1000);
  CHECK(h.events.heard(path + ": damaged at "));
  h.heal();
  check_all(h);
  h.crash(CrashMode::kEverything, 1);
  h.open();
  check_all(h);
}

TEST_CASE("file of a table is removed: this is logged once within a minute, before the next start needs the file") {
  for (const std::string suffix : {".data", ".meta"}) {
    Settings settings = several_segments();
    settings.scrub_interval = 0;  // the scrub would also find the missing table
    Harness h(settings);
    fill_database(h);
    h.advance(1000);
    const std::string path = h.paths(suffix).front();
    REQUIRE(h.files->unlink(path).is_ok());
    for (int i = 0; i < 125; ++i) {
      h.advance(1000);
      h.settle();
    }
    REQUIRE(h.events.warnings.size() == 1);
    CHECK(h.events.heard(path + " was removed while the database used it: its data can be read as long as the file is open"));
    CHECK(h.get(0, "flushed") == "1");
    CHECK(h.db->write_status().is_ok());
  }
}

TEST_CASE("undamaged files are checked and read again and again: nothing is reported") {
  Settings settings = several_segments();
  settings.scrub_interval = 30 * 2'000;
  Harness h(settings);
  h.open();
  for (int i = 0; i < 400; ++i) {
    h.put(0, "key" + std::to_string(i), std::string(1000, 'v'));
    if (i % 5 == 0) h.advance(1000);
    if (i % 50 == 0) REQUIRE(h.db->flush(0).is_ok());
    if (i % 10 == 0) h.settle();
  }
  CHECK(h.events.warnings.empty());
  CHECK(h.db->write_status().is_ok());
}

TEST_CASE("log segment is truncated, and grows before the next check: the truncation is logged, and no write is lost") {
  for (const std::uint64_t left : {0, 16, 200}) {
    Harness h(several_segments());
    h.open();
    h.put(0, "first", std::string(1000, 'v'));
    h.advance(1000);
    REQUIRE(h.db->write_status().is_ok());
    const std::string path = h.paths(".wal").back();
    INFO(path << " is truncated to " << left);
    REQUIRE(h.files->truncate(path, left).is_ok());
    h.put(0, "second", std::string(9000, 'v'));
    // On the real file system the writer continues at its old offset, which leaves a hole.
    const std::uint64_t grown = *h.files->file_size(path);
    REQUIRE(grown > 1000);
    h.advance(1000);
    CHECK(h.events.heard(path + " was "));
    h.heal();
    h.crash(CrashMode::kEverything, 1);
    h.open();
    CHECK(h.get(0, "first") == std::string(1000, 'v'));
    CHECK(h.get(0, "second") == std::string(9000, 'v'));
  }
}

TEST_CASE("directory is lost: writes are refused within a second, no file is made or removed, and no write is lost") {
  constexpr FileOps kNames = ops_of(FileOp::kCreate, FileOp::kRename, FileOp::kLink, FileOp::kUnlink);
  Harness h(several_segments());
  fill_database(h);
  h.advance(1000);
  h.settle();
  h.faults->inject({.ops = ops_of(FileOp::kStat), .sticky = true, .path_has = "LOCK"});
  h.put(0, "afterwards", "1");
  h.advance(1000);
  const Status refused = h.db->write_status();
  CHECK(refused.code() == Code::kReadOnly);
  CHECK(refused.to_string().find("data directory") != std::string::npos);
  const std::uint64_t names = h.faults->operations(kNames);
  for (int i = 0; i < 10; ++i) {
    h.advance(1000);
    h.settle();
  }
  CHECK(h.faults->operations(kNames) == names);
  CHECK(h.events.warnings.size() == 1);
  check_all(h);
  h.faults->clear_faults();
  h.heal();
  check_all(h);
  h.put(0, "healed", "1");
  h.crash(CrashMode::kEverything, 1);
  h.open();
  check_all(h);
  CHECK(h.get(0, "afterwards") == "1");
  CHECK(h.get(0, "healed") == "1");
}

TEST_CASE("segments end and the manifest rolls: the watch reports nothing about undamaged files") {
  Harness h(several_segments());
  h.open();
  for (int i = 0; i < 400; ++i) {
    h.put(0, "key" + std::to_string(i), std::string(1000, 'v'));
    if (i % 20 == 0) h.advance(1000);
    if (i % 50 == 0) REQUIRE(h.db->flush(0).is_ok());
    if (i % 10 == 0) h.settle();
  }
  CHECK(h.events.warnings.empty());
  CHECK(h.db->write_status().is_ok());
}

}  // namespace TEST_FILE

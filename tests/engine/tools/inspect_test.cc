// Tests of ebbtide-inspect with an undamaged data directory, with the same directory and each file damaged, and with random
// bytes. Copies and repaired directories must open.
#include <engine/db.h>
#include <catch2/catch.hpp>

#include <iterator>
#include <map>

#include "base/background_pool.h"
#include "base/clock.h"
#include "base/random.h"
#include "engine/version/version_samples.h"
#include "io/fault_fs.h"
#include "io/file_names.h"
#include "io/memory_fs.h"
#include "support/files.h"
#include "tools/inspect.h"
#include "version/version_set.h"
#include "wal/log_reader.h"

namespace ebbtide {
namespace TEST_FILE {

const std::string kDir = "db";

/// A database of `fs`, open.
struct Opened {
  explicit Opened(FileSystem& fs, const std::string& dir = kDir) {
    Settings settings;
    settings.dir = dir;
    settings.databases = 2;
    settings.memory_budget = 64 << 20;
    settings.tree.memtable_size = 64 << 10;
    Components components;
    components.fs = &fs;
    components.clock = &clock;
    components.background = &pool;
    auto opened = Db::open(settings, components);
    if (!opened.is_ok()) FAIL(opened.status().to_string());
    db = std::move(opened).value();
  }
  void write(const std::function<void(WriteBatch&)>& fill) const {
    WriteBatch batch;
    fill(batch);
    REQUIRE(db->commit(batch).is_ok());
    db->write_log();
  }
  void put(DatabaseId database, const std::string& key, const std::string& value) const {
    write([&](WriteBatch& batch) { batch.put(database, key, value); });
  }
  void flush(DatabaseId database) {
    if (const Status status = db->flush(database); !status.is_ok()) FAIL(status.to_string());
    pool.run_all();
  }
  [[nodiscard]] std::string get(DatabaseId database, const std::string& key) const {
    Found found;
    const ReadView view = db->lease(database);
    const Status status = view.get({key, hash_key(key)}, &found);
    return status.is_ok() ? std::string(found.value) : status.to_string();
  }

  SimulatedClock clock;
  ManualPool pool;
  std::unique_ptr<Db> db;
};

/// Makes a data directory with two tables, a segment with records, and a manifest.
std::unique_ptr<MemoryFileSystem> sample() {
  auto fs = std::make_unique<MemoryFileSystem>();
  Opened opened(*fs);
  const auto write = [&](DatabaseId database, int from, int to) {
    for (int i = from; i < to; ++i) {
      opened.write([&](WriteBatch& batch) {
        batch.put(database, "key" + std::to_string(1000 + i), "value" + std::to_string(i));
        if (i % 5 == 0) batch.del(database, "key" + std::to_string(1000 + i));
        if (i == from) batch.delete_range(database, "x", "y");
      });
    }
  };
  write(0, 0, 300);
  opened.flush(0);
  write(1, 0, 50);
  opened.flush(1);
  write(0, 300, 320);
  REQUIRE(opened.db->close().is_ok());
  return fs;
}

std::vector<std::string> files_of(FileSystem& fs, FileKind kind) {
  std::vector<std::string> paths;
  const auto numbers = files_of_kind(fs, kDir, static_cast<int>(kind));
  REQUIRE(numbers.is_ok());
  for (const FileNum number : *numbers) {
    const std::string name = kind == FileKind::kData       ? data_file_name(number)
                             : kind == FileKind::kMetadata ? metadata_file_name(number)
                             : kind == FileKind::kLog      ? log_file_name(number)
                                                           : manifest_file_name(number);
    paths.push_back(join_path(kDir, name));
  }
  return paths;
}

void run_all(FileSystem& fs, const std::string& path) {
  for (const bool json : {false, true}) (void)inspect_entries(fs, path, {}, json, [](Bytes) {});
  (void)inspect_manifest(fs, path);
  (void)inspect_wal(fs, path, true);
  (void)inspect_table(fs, path);
  (void)inspect_deletes(fs, path, {1, 1, 1});
  (void)inspect_repair(fs, path, false);
}

TEST_CASE("data directory is undamaged: verify finds no error, and each kind of file can be printed", "[tools]") {
  const auto fs = sample();
  const Inspection verify = inspect_verify(*fs, kDir);
  INFO(verify.text);
  for (const std::string& error : verify.errors) FAIL_CHECK(error);
  CHECK(verify.text.find(" tables, ") != std::string::npos);
  const Inspection tree = inspect_tree(*fs, kDir);
  CHECK(tree.errors.empty());
  CHECK(tree.text.find("of database 0") != std::string::npos);
  CHECK(tree.text.find("of database 1") != std::string::npos);
  CHECK(tree.text.find("[key1001..key1299 ") != std::string::npos);
  const Inspection manifest = inspect_manifest(*fs, kDir);
  CHECK(manifest.errors.empty());
  CHECK(manifest.text.find("create, stamp write_time") != std::string::npos);
  const Inspection wal = inspect_wal(*fs, kDir, false);
  CHECK(wal.errors.empty());
  CHECK(wal.text.find("key1310 = 8 bytes") != std::string::npos);
  CHECK(wal.text.find("value310") == std::string::npos);
  CHECK(inspect_wal(*fs, kDir, true).text.find("key1310 = value310") != std::string::npos);
  REQUIRE(!files_of(*fs, FileKind::kData).empty());
  for (const FileKind kind : {FileKind::kData, FileKind::kMetadata}) {
    for (const std::string& path : files_of(*fs, kind)) {
      const Inspection table = inspect_table(*fs, path);
      for (const std::string& error : table.errors) FAIL_CHECK(error);
      CHECK(table.text.find("smallest key1001\n") != std::string::npos);
      CHECK(table.json.str().find("\"pages_per_tile\":1") != std::string::npos);
      CHECK(table.json.str().find("\"filter_slice_1_bytes\":") != std::string::npos);
    }
  }
}

TEST_CASE("log has a large batch in pieces: inspect prints, verifies, counts and copies it", "[tools]") {
  MemoryFileSystem fs;
  {
    Opened db(fs);
    db.put(0, "before", "1");
    WriteBatch batch;
    for (int i = 0; i < 500; ++i) batch.put(0, "key" + std::to_string(1000 + i), std::string(1000, 'v'));
    batch.del(0, "key1200");
    auto staged = db.db->stage(std::move(batch));
    REQUIRE(staged.is_ok());
    REQUIRE(db.db->commit(**staged).is_ok());
    db.put(0, "after", "1");
  }
  const Inspection wal = inspect_wal(fs, kDir, false);
  CHECK(wal.errors.empty());
  CHECK(wal.text.find("\npiece 3 of batch 2-1, ") != std::string::npos);
  CHECK(wal.text.find(" of 4 pieces, ") != std::string::npos);
  CHECK(wal.text.find(" bytes: seq 3, 501 operations, time ") != std::string::npos);
  CHECK(wal.json.str().find("\"batch\":\"2-1\",\"pieces\":4,") != std::string::npos);
  CHECK(inspect_verify(fs, kDir).errors.empty());
  CHECK(inspect_deletes(fs, kDir, {}).text.find(" 1 deletes") != std::string::npos);
  const std::string log = files_of(fs, FileKind::kLog).front();
  std::string bytes = *read_file(fs, log);
  bytes[200'000] ^= 1;  // a byte in piece 1
  rewrite(fs, log, bytes);
  const Inspection damaged = inspect_verify(fs, kDir);
  REQUIRE_FALSE(damaged.errors.empty());
  CHECK(damaged.errors.front().find("is missing") != std::string::npos);
}

TEST_CASE("directory has an unknown file: verify lists it as unknown, but not the server's DATABASE_ID", "[tools]") {
  MemoryFileSystem fs;
  {
    Opened db(fs);
    db.put(0, "k", "v");
  }
  for (const char* name : {"DATABASE_ID", "notes.txt"}) rewrite(fs, join_path(kDir, name), "x");
  const Inspection verify = inspect_verify(fs, kDir);
  CHECK(verify.errors.empty());
  CHECK(verify.text.find("notes.txt is not a file of a database") != std::string::npos);
  CHECK(verify.text.find("DATABASE_ID") == std::string::npos);
}

TEST_CASE("directory has pending deletes: inspect prints them by level, by file and for the log", "[tools]") {
  MemoryFileSystem fs;
  SimulatedClock clock;
  ManualPool pool;
  const Millis start = clock.wall_ms();
  {
    Settings settings;
    settings.dir = kDir;
    Components components;
    components.fs = &fs;
    components.clock = &clock;
    components.background = &pool;
    auto db = Db::open(settings, components);
    REQUIRE(db.is_ok());
    const auto write = [&](const std::function<void(WriteBatch&)>& fill) {
      WriteBatch batch;
      fill(batch);
      REQUIRE((*db)->commit(batch).is_ok());
      (*db)->write_log();
    };
    for (int i = 0; i < 10; ++i) write([i](WriteBatch& b) { b.put(0, "name" + std::to_string(i), "v"); });
    write([&](WriteBatch& b) { b.put(0, "name_x", "v", {kNoStamp, start + 20'000}); });
    REQUIRE((*db)->flush(0).is_ok());
    clock.advance(10'000);
    // There is an older run below, so a merge may not drop these deletes.
    for (int i = 0; i < 3; ++i) write([i](WriteBatch& b) { b.del(0, "name" + std::to_string(i)); });
    write([](WriteBatch& b) { b.delete_range(0, "name5", "name7"); });
    REQUIRE((*db)->flush(0).is_ok());
    REQUIRE((*db)->close().is_ok());
  }
  const Inspection early = inspect_deletes(fs, kDir, {start + 15'000, 60'000, 20});
  for (const std::string& error : early.errors) FAIL_CHECK(error);
  {
    INFO(early.text);
    CHECK(early.text.find("tree 1 of database 0: 2 runs, 2 files, ") != std::string::npos);
    CHECK(early.text.find("\n1 file has pending deletes, oldest first\n") != std::string::npos);
    CHECK(early.text.find("tombstone  2023-11-14 22:13:30Z   5s     55s\n") != std::string::npos);
    CHECK(early.text.find("log: 1 segment, ") != std::string::npos);
    CHECK(early.text.find("late") == std::string::npos);
    CHECK(early.text.find("name") == std::string::npos);  // this output has no keys
  }
  const std::string json = early.json.str();
  INFO(json);
  CHECK(json.find("\"tombstones\":3,\"range_tombstones\":1,\"debts\":0,\"files_with_expired\":0,") != std::string::npos);
  CHECK(json.find("\"age_ms\":5000,\"deadline_ms\":1700000070000,\"overdue\":false") != std::string::npos);
  CHECK(json.find("\"files_owing\":1,") != std::string::npos);
  const Inspection late = inspect_deletes(fs, kDir, {start + 90'000, 60'000, 1});
  INFO(late.text);
  CHECK(late.text.find("late by 20s\n") != std::string::npos);
  CHECK(late.text.find("2 files have pending deletes, oldest first (listed: 1; --files lists more)\n") != std::string::npos);
  CHECK(late.json.str().find("\"overdue\":true") != std::string::npos);
  CHECK(late.json.str().find("\"files_with_expired\":1,") != std::string::npos);
  const Inspection open = inspect_deletes(fs, kDir, {start + 90'000, 0, 20});
  CHECK(open.text.find(", deadline 24h\n") != std::string::npos);  // the deadline in the manifest
  CHECK(open.text.find("  expiry  2023-11-14 22:13:40Z") != std::string::npos);
  CHECK(open.json.str().find("\"delete_deadline_ms\":86400000,") != std::string::npos);
  CHECK(open.json.str().find("\"overdue\":false") != std::string::npos);
  CHECK(open.json.str().find("\"overdue\":true") == std::string::npos);
}

TEST_CASE("deadline was changed: due times of older deletes follow the deadline before the change", "[tools]") {
  MemoryFileSystem fs;
  REQUIRE(fs.create_dir(kDir).is_ok());
  auto set = VersionSet::create(fs, kDir);
  REQUIRE(set.is_ok());
  VersionEdit edit;
  for (const bool promised : {true, false}) {
    TreeEdit& tree = edit.trees.emplace_back();
    tree.tree = (*set)->new_tree();
    tree.create = true;
    tree.added_runs = {{1, 0, 0}};
    FileMeta file = test::plain_file((*set)->new_file(), "a", "b");
    file.metadata_file = (*set)->new_file();
    file.stats.tombstones = 1;
    file.stats.oldest_tombstone = 1000;
    tree.added_files.emplace_back(1, file);
    if (promised) tree.deadlines = DeadlineRule(0, {{5000, 60'000}});
  }
  REQUIRE((*set)->commit(std::move(edit)).is_ok());
  const Inspection found = inspect_deletes(fs, kDir, {41'000, 0, 20});
  for (const std::string& error : found.errors) FAIL_CHECK(error);
  INFO(found.text);
  CHECK(found.text.find(", changed 36s ago\n") != std::string::npos);
  CHECK(found.text.find("  40s     20s\n") != std::string::npos);
  CHECK(found.text.find("  40s       -\n") != std::string::npos);
}

TEST_CASE("page drops left lingering names and holes to punch: inspect lists them as such, not as deletes by stamp", "[tools]") {
  MemoryFileSystem fs;
  REQUIRE(fs.create_dir(kDir).is_ok());
  auto set = VersionSet::create(fs, kDir);
  REQUIRE(set.is_ok());
  VersionEdit edit;
  TreeEdit& tree = edit.trees.emplace_back();
  tree.tree = (*set)->new_tree();
  tree.create = true;
  tree.added_runs = {{1, 0, 0}};
  const auto add = [&](const char* key, Millis lingering, Millis dead) {
    FileMeta file = test::plain_file((*set)->new_file(), key, key);
    file.metadata_file = (*set)->new_file();
    file.lingering_birth = lingering;
    file.dead_birth = dead;
    file.dead_bytes = 10;
    tree.added_files.emplace_back(1, file);
  };
  add("a", 5000, 6000);
  add("b", 8000, 7000);
  REQUIRE((*set)->commit(edit).is_ok());
  const Inspection found = inspect_deletes(fs, kDir, {10'000, 0, 20});
  INFO(found.text);
  CHECK(found.text.find("  names  1970-01-01 00:00:05Z") != std::string::npos);
  CHECK(found.text.find("  punching  1970-01-01 00:00:07Z") != std::string::npos);
  CHECK(found.text.find("record") == std::string::npos);
}

TEST_CASE("duration of one unit is printed, such as 24h: its text can be parsed", "[tools]") {
  CHECK(duration_text(250) == "250ms");
  CHECK(duration_text(65'000) == "1m 5s");
  CHECK(duration_text(86'400'000) == "24h");
  CHECK(duration_text(200'000'000) == "2d 7h");
  CHECK(*parse_duration("24h") == 86'400'000);
  CHECK(*parse_duration("250ms") == 250);
  for (const char* wrong : {"", "h", "5", "5w", "-1s", "99999999999999d", "1.5h"}) CHECK(!parse_duration(wrong).is_ok());
}

TEST_CASE("any byte of a table has a flipped bit: verify reports an error", "[tools]") {
  const auto fs = sample();
  Random random(5);
  for (const FileKind kind : {FileKind::kData, FileKind::kMetadata}) {
    for (const std::string& path : files_of(*fs, kind)) {
      const std::string good = *read_file(*fs, path);
      for (std::size_t at = random.uniform(16); at < good.size(); at += 16) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << random.uniform(8)));
        rewrite(*fs, path, bad);
        INFO(path << " byte " << at);
        const Inspection verify = inspect_verify(*fs, kDir);
        REQUIRE(!verify.errors.empty());
        CHECK(verify.errors[0].find(path.substr(kDir.size() + 1)) != std::string::npos);
        (void)inspect_table(*fs, path);
      }
      rewrite(*fs, path, Bytes(good).substr(0, good.size() / 2));
      CHECK(!inspect_verify(*fs, kDir).errors.empty());
      REQUIRE(fs->unlink(path).is_ok());
      CHECK(!inspect_verify(*fs, kDir).errors.empty());
      rewrite(*fs, path, good);
    }
  }
  CHECK(inspect_verify(*fs, kDir).errors.empty());
}

TEST_CASE("files of two tables were swapped: verify reports an error", "[tools]") {
  const auto fs = sample();
  const auto tables = files_of(*fs, FileKind::kData);
  REQUIRE(tables.size() >= 2);
  const std::string a = *read_file(*fs, tables[0]), b = *read_file(*fs, tables[1]);
  rewrite(*fs, tables[0], b);
  rewrite(*fs, tables[1], a);
  CHECK(inspect_verify(*fs, kDir).errors.size() >= 2);
}

TEST_CASE("files are damaged or hostile: inspect commands report errors and do not crash", "[tools]") {
  const auto fs = sample();
  Random random(11);
  std::vector<std::string> paths;
  for (const FileKind kind : {FileKind::kData, FileKind::kMetadata, FileKind::kLog, FileKind::kManifest}) {
    for (const std::string& path : files_of(*fs, kind)) paths.push_back(path);
  }
  for (const std::string& path : paths) {
    const std::string good = *read_file(*fs, path);
    for (int i = 0; i < 60; ++i) {
      std::string bad = good.substr(0, random.one_in(3) ? random.uniform(good.size() + 1) : good.size());
      for (auto n = random.uniform(6); n > 0 && !bad.empty(); --n)
        bad[random.uniform(bad.size())] = static_cast<char>(random.uniform(256));
      if (random.one_in(10)) {
        for (char& c : bad) c = static_cast<char>(random.uniform(256));
      }
      rewrite(*fs, path, bad);
      run_all(*fs, path);
      (void)inspect_verify(*fs, kDir);
      (void)inspect_deletes(*fs, kDir, {1'700'000'000'000, 1'000, 3});
    }
    rewrite(*fs, path, good);
  }
  for (const char* path : {"nowhere", "db/nothing.data", "db/999999.wal", "", "/"}) {
    run_all(*fs, path);
    CHECK(!inspect_tree(*fs, path).errors.empty());
    CHECK(!inspect_deletes(*fs, path, {}).errors.empty());
    CHECK(!inspect_verify(*fs, path).errors.empty());
  }
}

// --- repair

/// Returns the contents of the directory, without the lock file, which may be there or not.
std::map<std::string, std::string> contents(MemoryFileSystem& fs) {
  std::map<std::string, std::string> found;
  for (const std::string& path : fs.tree()) {
    if (path.starts_with("db/") && !path.ends_with('/') && !path.ends_with("/LOCK")) found[path] = *read_file(fs, path);
  }
  return found;
}

constexpr const char* kNothingToRepair =
    "There is nothing to repair.\nThe pages of the tables were not read: ebbtide-inspect verify db reads them.\n";

/// Runs the repair twice: first without writing, which must change nothing, then with writing. Both must report the same errors.
/// If there are errors, neither may change anything.
Inspection repaired(MemoryFileSystem& fs) {
  const auto before = contents(fs);
  const Inspection would = inspect_repair(fs, kDir, false);
  CHECK(contents(fs) == before);
  Inspection did = inspect_repair(fs, kDir, true);
  CHECK(did.errors == would.errors);
  if (!did.errors.empty()) CHECK(contents(fs) == before);
  return did;
}

void require_repaired(MemoryFileSystem& fs) {
  const Inspection did = repaired(fs);
  INFO(did.text);
  for (const std::string& error : did.errors) FAIL_CHECK(error);
  REQUIRE(did.errors.empty());
  const Inspection again = inspect_repair(fs, kDir, true);
  CHECK(again.text == kNothingToRepair);
}

void flip_in_the_middle(FileSystem& fs, const std::string& path) {
  flip(fs, path, static_cast<std::size_t>(fs.file_size(path).value() / 2));
}

TEST_CASE("directory is undamaged: repair finds nothing to repair", "[tools][repair]") {
  const auto fs = sample();
  const auto before = contents(*fs);
  const Inspection found = inspect_repair(*fs, kDir, true);
  CHECK(found.errors.empty());
  CHECK(found.text == kNothingToRepair);
  CHECK(found.json.str() == "{\"directory\":\"db\",\"write\":true,\"steps\":[]}");
  CHECK(contents(*fs) == before);
}

TEST_CASE("page of a table is damaged: repair finds nothing, and names the command that reads pages", "[tools][repair]") {
  const auto fs = sample();
  const std::string table = files_of(*fs, FileKind::kData).front();
  flip_in_the_middle(*fs, table);
  const Inspection found = inspect_repair(*fs, kDir, true);
  CHECK(found.errors.empty());
  CHECK(found.text == kNothingToRepair);
  const Inspection verified = inspect_verify(*fs, kDir);
  REQUIRE(verified.errors.size() == 1);
  CHECK(verified.errors[0].find(table.substr(3)) != std::string::npos);
}

TEST_CASE("log has a torn end: repair cuts it off, and saves it in a file beside the log", "[tools][repair]") {
  const auto fs = sample();
  const std::string log = files_of(*fs, FileKind::kLog).back(), good = *read_file(*fs, log), torn = "no whole record";
  rewrite(*fs, log, good + torn);
  const std::string aside = "db-repair" + log.substr(2) + ".torn";
  REQUIRE(fs->create_dir("db-repair").is_ok());
  rewrite(*fs, aside, "of an earlier one");
  const Inspection would = inspect_repair(*fs, kDir, false);
  CHECK(would.text.find("would cut " + log.substr(3) + " at " + std::to_string(good.size()) + " and keep the 15 bytes") == 0);
  CHECK(would.json.str().find("\"action\":\"cut_log\",\"file\":\"" + log.substr(3) + "\",") != std::string::npos);
  require_repaired(*fs);
  CHECK(*read_file(*fs, log) == good);
  CHECK(*read_file(*fs, aside + "2") == torn);
  CHECK(*read_file(*fs, aside) == "of an earlier one");
  CHECK(Opened(*fs).get(0, "key1319") == "value319");
}

TEST_CASE("log is cut within its first, needed record: repair reports damage, and leaves the log as it is", "[tools][repair]") {
  const auto fs = sample();
  const std::string log = files_of(*fs, FileKind::kLog).back(), cut = read_file(*fs, log)->substr(0, 40);
  rewrite(*fs, log, cut);
  const Inspection would = inspect_repair(*fs, kDir, true);
  INFO(would.text);
  REQUIRE(would.errors.size() == 1);
  CHECK(would.errors.front().find(log + ": record at 32: ") != std::string::npos);
  CHECK(would.errors.front().find("the manifest relies on operations up to ") != std::string::npos);
  CHECK(*read_file(*fs, log) == cut);
}

TEST_CASE("directory has leftover files: repair removes only those", "[tools][repair]") {
  const auto fs = sample();
  for (const char* leftover : {"900001.data", "900001.meta", "MANIFEST-900002", "CURRENT.tmp"}) {
    REQUIRE_FALSE(fs->exists(join_path(kDir, leftover)));
    rewrite(*fs, join_path(kDir, leftover), "x");
  }
  rewrite(*fs, join_path(kDir, "notes.txt"), "mine");
  auto wanted = contents(*sample());
  wanted[join_path(kDir, "notes.txt")] = "mine";
  require_repaired(*fs);
  CHECK(contents(*fs) == wanted);
}

TEST_CASE("CURRENT is lost or damaged: repair writes it again", "[tools][repair]") {
  const std::string current = join_path(kDir, "CURRENT");
  for (const char* content : {"", "MANIFEST-000001", "gone"}) {
    INFO(content);
    const auto fs = sample();
    const std::string good = *read_file(*fs, current);
    if (Bytes(content) == "gone") {
      REQUIRE(fs->unlink(current).is_ok());
    } else {
      rewrite(*fs, current, content);
    }
    CHECK_FALSE(inspect_verify(*fs, kDir).errors.empty());
    require_repaired(*fs);
    CHECK(*read_file(*fs, current) == good);
    const Opened opened(*fs);
    CHECK(opened.get(0, "key1319") == "value319");
    CHECK(opened.get(1, "key1049") == "value49");
  }
}

TEST_CASE("manifest is damaged: repair goes back to an older one only if tables and log complete it", "[tools][repair]") {
  const auto fs = sample();
  const std::string older = files_of(*fs, FileKind::kManifest).back(), older_content = *read_file(*fs, older);
  const std::string first_log = files_of(*fs, FileKind::kLog).front();
  std::vector<std::uint64_t> records;
  {
    Opened opened(*fs);
    opened.put(0, "later", "1");
    opened.put(1, "flushed", "2");
    opened.flush(1);
    REQUIRE(opened.db->close().is_ok());
  }
  const std::string newer = files_of(*fs, FileKind::kManifest).back(), log = files_of(*fs, FileKind::kLog).back();
  REQUIRE(newer != older);
  flip_in_the_middle(*fs, newer);
  {
    const auto alone = fs->crash_clone(0, CrashMode::kEverything);
    const Inspection found = repaired(*alone);
    REQUIRE_FALSE(found.errors.empty());
    CHECK(found.errors[0].find(newer.substr(3)) != std::string::npos);
    CHECK(found.text.find("Nothing was changed") == 0);
  }
  rewrite(*fs, older, older_content);
  SECTION("tables and log are complete") {
    const Inspection did = repaired(*fs);
    for (const std::string& error : did.errors) FAIL_CHECK(error);
    CHECK(did.text.find("2 files that " + older.substr(3) + " does not need will be removed at the next start") !=
          std::string::npos);
    CHECK(join_path(kDir, manifest_file_name(*read_current(*fs, kDir))) == older);
    CHECK(fs->exists("db-repair" + newer.substr(2) + ".damaged"));
    CHECK_FALSE(fs->exists(newer));
    const Opened opened(*fs);
    CHECK(opened.get(0, "later") == "1");
    CHECK(opened.get(1, "flushed") == "2");
    CHECK(opened.get(0, "key1319") == "value319");
  }
  SECTION("segment of the log is missing") {
    REQUIRE(fs->unlink(first_log).is_ok());
    const Inspection found = repaired(*fs);
    REQUIRE(found.errors.size() >= 3);
    CHECK(found.errors[1].find("does not describe the whole database") != std::string::npos);
    CHECK(found.errors[2].find(first_log + " is missing") != std::string::npos);
  }
  SECTION("table has the operations of the lost end of the log") {
    const auto end = read_log(*fs, kDir, files_of_kind(*fs, kDir, static_cast<int>(FileKind::kLog))->back(),
                              [&](const std::string&, std::uint64_t offset) { return records.push_back(offset), Status::ok(); });
    REQUIRE(end.is_ok());
    REQUIRE(records.size() == 2);
    REQUIRE(fs->truncate(log, records[1]).is_ok());
    const Inspection found = repaired(*fs);
    REQUIRE(found.errors.size() == 3);
    CHECK(found.errors[2].find(" has operations up to ") != std::string::npos);
  }
}

TEST_CASE("directory is open in a server, or has no database: repair changes nothing", "[tools][repair]") {
  const auto fs = sample();
  rewrite(*fs, join_path(kDir, "CURRENT"), "damaged");
  const auto lock = fs->lock(join_path(kDir, "LOCK"));
  REQUIRE(lock.is_ok());
  for (const bool write : {false, true}) {
    const Inspection found = inspect_repair(*fs, kDir, write);
    REQUIRE(found.errors.size() == 1);
    CHECK(found.errors[0].find("a server has db open") != std::string::npos);
  }
  CHECK(*read_file(*fs, join_path(kDir, "CURRENT")) == "damaged");
  REQUIRE(fs->create_dir("other").is_ok());
  for (const char* none : {"other", "nowhere", "", ".", "/", "db/.."})
    CHECK_FALSE(inspect_repair(*fs, none, true).errors.empty());
  CHECK(fs->list("other")->empty());
}

/// Checks sample() after damage to one file: lost data was in that file, and reading it is an error, or it was in the log.
void check_sample(const Opened& opened, const std::string& damaged) {
  const bool log = damaged.ends_with(".wal"), table = damaged.ends_with(".data") || damaged.ends_with(".meta");
  for (const DatabaseId database : {0, 1}) {
    for (int i = 0; i < (database == 0 ? 320 : 50); ++i) {
      const std::string found = opened.get(database, "key" + std::to_string(1000 + i));
      const std::string wanted = i % 5 == 0 ? "not found" : "value" + std::to_string(i);
      CAPTURE(database, i, found);
      REQUIRE((found == wanted || (table && found.starts_with("corruption")) || (log && i >= 300 && found == "not found")));
    }
  }
}

TEST_CASE("directory is damaged at random: repair either changes nothing, or the database opens afterwards", "[tools][repair]") {
  const auto whole = sample();
  const auto paths = contents(*whole);
  Random random(23);
  int given_up = 0, mended = 0;
  for (int i = 0; i < 300; ++i) {
    const auto fs = whole->crash_clone(0, CrashMode::kEverything);
    auto victim = paths.begin();
    std::advance(victim, random.uniform(paths.size()));
    std::string bytes = victim->second;
    const auto kind = random.uniform(4);
    INFO(victim->first << ", damage " << kind << ", round " << i);
    if (kind == 0) bytes.resize(random.uniform(bytes.size() + 1));
    if (kind == 1 && !bytes.empty()) bytes[random.uniform(bytes.size())] ^= static_cast<char>(1 + random.uniform(255));
    if (kind == 2) bytes += std::string(1 + random.uniform(30), static_cast<char>(random.uniform(256)));
    if (kind == 3) {
      REQUIRE(fs->unlink(victim->first).is_ok());
    } else {
      rewrite(*fs, victim->first, bytes);
    }
    const Inspection did = repaired(*fs);
    did.errors.empty() ? ++mended : ++given_up;
    if (!did.errors.empty()) continue;
    const Opened after(*fs);
    check_sample(after, victim->first);
    after.put(0, "goes", "on");
  }
  CHECK(given_up > 50);
  CHECK(mended > 50);
}

// --- copies

TEST_CASE("database is copied: the copy opens, and writes to the copy do not reach its source", "[tools][copy]") {
  const bool link = GENERATE(false, true);
  const auto fs = sample();
  const auto before = contents(*fs);
  rewrite(*fs, join_path(kDir, "notes.txt"), "mine");
  const Inspection done = copy_database(*fs, kDir, "copy", link);
  for (const std::string& error : done.errors) FAIL_CHECK(error);
  CHECK_FALSE(fs->exists("copy/notes.txt"));
  for (const std::string& path : files_of(*fs, FileKind::kData)) CHECK(*fs->link_count(path) == (link ? 2 : 1));
  for (const std::string& path : files_of(*fs, FileKind::kLog)) CHECK(*fs->link_count(path) == 1);
  CHECK(done.text.find("copy has ") != std::string::npos);
  {
    Opened copy(*fs, "copy");
    CHECK(copy.get(0, "key1319") == "value319");
    CHECK(copy.get(1, "key1049") == "value49");
    copy.put(0, "more", "x");
    copy.flush(0);
    REQUIRE(copy.db->close().is_ok());
  }
  REQUIRE(fs->unlink(join_path(kDir, "notes.txt")).is_ok());
  for (const auto& [path, bytes] : before) CHECK(*read_file(*fs, path) == bytes);
  CHECK(Opened(*fs).get(0, "more") == "not found");
}

TEST_CASE("backup is incomplete, or its target is not empty: copy is refused", "[tools][copy]") {
  const auto fs = sample();
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& why) {
    const Inspection done = copy_database(*fs, from, to, false);
    INFO(from << " to " << to);
    REQUIRE_FALSE(done.errors.empty());
    CHECK(done.errors[0].find(why) != std::string::npos);
    CHECK(done.text.find("Nothing was copied.\n") != std::string::npos);
  };
  refused(kDir, "db/inside", "neither may be inside the other");
  refused("db/..", "db/../db/x", "neither may be inside the other");
  refused("nowhere", "copy", "has no CURRENT");
  REQUIRE(fs->create_dir("full").is_ok());
  rewrite(*fs, "full/theirs", "x");
  refused(kDir, "full", "is not empty");
  {
    const auto lock = fs->lock(join_path(kDir, "LOCK"));
    REQUIRE(lock.is_ok());
    refused(kDir, "copy", "BGSAVE");
  }
  const std::string table = files_of(*fs, FileKind::kData).front(), good = *read_file(*fs, table);
  flip_in_the_middle(*fs, table);
  refused(kDir, "copy", table);
  rewrite(*fs, table, good);
  REQUIRE(fs->unlink(join_path(kDir, "CURRENT")).is_ok());
  refused(kDir, "copy", "an unfinished backup");
  CHECK_FALSE(fs->exists("copy"));
  CHECK(*fs->list("full") == std::vector<std::string>{"theirs"});
}

TEST_CASE("copy meets an error or a power loss: the target does not open, or is complete", "[tools][copy]") {
  const auto whole = sample();
  for (std::uint64_t n = 1;; ++n) {
    INFO("operation " << n);
    const auto fs = whole->crash_clone(0, CrashMode::kEverything);
    FaultFileSystem faults(*fs);
    faults.inject({.nth = n});
    const Inspection failed = copy_database(faults, kDir, "copy", false);
    const bool met = faults.failures() != 0;
    if (failed.errors.empty()) {
      CHECK(Opened(*fs, "copy").get(0, "key1319") == "value319");
    } else {
      CHECK_FALSE(fs->exists("copy"));
    }
    const auto other = whole->crash_clone(0, CrashMode::kEverything);
    FaultFileSystem hooked(*other);
    std::unique_ptr<MemoryFileSystem> left;
    hooked.before_nth(n, kMutatingOps, [&] { left = other->crash_clone(n); });
    REQUIRE(copy_database(hooked, kDir, "copy", true).errors.empty());
    if (left != nullptr && left->exists("copy/CURRENT")) CHECK(Opened(*left, "copy").get(0, "key1319") == "value319");
    if (!met) break;
  }
}

TEST_CASE("strings have any bytes: they are printed as valid JSON", "[tools]") {
  CHECK(json_string(Bytes("a\"\\\n\0\xff", 6)) == "\"a\\\"\\\\\\u000a\\u0000\\u00ff\"");
  JsonArray array;
  array.add("1");
  array.add("2");
  CHECK(JsonObject().add("n", std::uint64_t{7}).add("s", "x").add("a", array).str() == "{\"n\":7,\"s\":\"x\",\"a\":[1,2]}");
}

}  // namespace TEST_FILE
}  // namespace ebbtide

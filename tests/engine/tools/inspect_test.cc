// ebbtide-inspect on a data directory that is whole, then on the same one with every file damaged, and on garbage.
#include <engine/db.h>
#include <catch2/catch.hpp>

#include "base/background_pool.h"
#include "base/clock.h"
#include "base/random.h"
#include "engine/version/version_samples.h"
#include "io/file_names.h"
#include "io/memory_fs.h"
#include "tools/inspect.h"
#include "version/version_set.h"

namespace ebbtide {
namespace {

const std::string kDir = "db";

/// A data directory with two tables, a segment with records, and a manifest.
std::unique_ptr<MemoryFileSystem> sample() {
  auto fs = std::make_unique<MemoryFileSystem>();
  SimulatedClock clock;
  ManualPool pool;
  Settings settings;
  settings.dir = kDir;
  settings.databases = 2;
  Components components;
  components.fs = fs.get();
  components.clock = &clock;
  components.background = &pool;
  auto db = Db::open(settings, components);
  if (!db.is_ok()) FAIL(db.status().to_string());
  const auto write = [&](DatabaseId database, int from, int to) {
    for (int i = from; i < to; ++i) {
      WriteBatch batch;
      batch.put(database, "key" + std::to_string(1000 + i), "value" + std::to_string(i));
      if (i % 5 == 0) batch.del(database, "key" + std::to_string(1000 + i));
      if (i == from) batch.delete_range(database, "x", "y");
      REQUIRE((*db)->commit(batch).is_ok());
    }
    (*db)->write_log();
  };
  write(0, 0, 300);
  const auto flush = [&](DatabaseId database) {
    if (const Status status = (*db)->flush(database); !status.is_ok()) FAIL(status.to_string());
  };
  flush(0);
  write(1, 0, 50);
  flush(1);
  write(0, 300, 320);
  REQUIRE((*db)->close().is_ok());
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

void write_file(FileSystem& fs, const std::string& path, Bytes content) {
  if (fs.exists(path)) REQUIRE(fs.unlink(path).is_ok());
  auto file = fs.create(path);
  REQUIRE(file.is_ok());
  REQUIRE((*file)->append(content).is_ok());
}

void run_all(FileSystem& fs, const std::string& path) {
  (void)inspect_manifest(fs, path);
  (void)inspect_wal(fs, path, true);
  (void)inspect_table(fs, path);
  (void)inspect_deletes(fs, path, {1, 1, 1});
}

TEST_CASE("a whole data directory", "[tools]") {
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
    }
  }
}

TEST_CASE("what is owed to deletes, by level, file and in the log", "[tools]") {
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
    // Above an older run, so that they must stay.
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
    CHECK(early.text.find("\n1 files owe something, the oldest first\n") != std::string::npos);
    CHECK(early.text.find("tombstone  2023-11-14 22:13:30Z   5s     55s\n") != std::string::npos);
    CHECK(early.text.find("log: 1 segments, ") != std::string::npos);
    CHECK(early.text.find("late") == std::string::npos);
    CHECK(early.text.find("name") == std::string::npos);  // keys are nobody's business here
  }
  const std::string json = early.json.str();
  INFO(json);
  CHECK(json.find("\"tombstones\":3,\"range_tombstones\":1,\"debts\":0,\"files_with_expired\":0,") != std::string::npos);
  CHECK(json.find("\"age_ms\":5000,\"deadline_ms\":1700000070000,\"overdue\":false") != std::string::npos);
  CHECK(json.find("\"files_owing\":1,") != std::string::npos);
  const Inspection late = inspect_deletes(fs, kDir, {start + 90'000, 60'000, 1});
  INFO(late.text);
  CHECK(late.text.find("late by 20s\n") != std::string::npos);
  CHECK(late.text.find("2 files owe something, the oldest first (1 of them; --files shows more)\n") != std::string::npos);
  CHECK(late.json.str().find("\"overdue\":true") != std::string::npos);
  CHECK(late.json.str().find("\"files_with_expired\":1,") != std::string::npos);
  const Inspection open = inspect_deletes(fs, kDir, {start + 90'000, 0, 20});
  CHECK(open.text.find(", deadline 24h\n") != std::string::npos);  // as the manifest has it
  CHECK(open.text.find("  expiry  2023-11-14 22:13:40Z") != std::string::npos);
  CHECK(open.json.str().find("\"delete_deadline_ms\":86400000,") != std::string::npos);
  CHECK(open.json.str().find("\"overdue\":false") != std::string::npos);
  CHECK(open.json.str().find("\"overdue\":true") == std::string::npos);
}

TEST_CASE("what is due goes by what was promised before the deadline was changed", "[tools]") {
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

TEST_CASE("what page drops left to be done is owed to them, not to records", "[tools]") {
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

TEST_CASE("durations for people", "[tools]") {
  CHECK(duration_text(250) == "250ms");
  CHECK(duration_text(65'000) == "1m 5s");
  CHECK(duration_text(86'400'000) == "24h");
  CHECK(duration_text(200'000'000) == "2d 7h");
  CHECK(*parse_duration("24h") == 86'400'000);
  CHECK(*parse_duration("250ms") == 250);
  for (const char* wrong : {"", "h", "5", "5w", "-1s", "99999999999999d", "1.5h"}) CHECK(!parse_duration(wrong).is_ok());
}

TEST_CASE("verify finds a flipped bit anywhere in a table", "[tools]") {
  const auto fs = sample();
  Random random(5);
  for (const FileKind kind : {FileKind::kData, FileKind::kMetadata}) {
    for (const std::string& path : files_of(*fs, kind)) {
      const std::string good = *read_file(*fs, path);
      for (std::size_t at = random.uniform(16); at < good.size(); at += 16) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << random.uniform(8)));
        write_file(*fs, path, bad);
        INFO(path << " byte " << at);
        const Inspection verify = inspect_verify(*fs, kDir);
        REQUIRE(!verify.errors.empty());
        CHECK(verify.errors[0].find(path.substr(kDir.size() + 1)) != std::string::npos);
        (void)inspect_table(*fs, path);
      }
      write_file(*fs, path, Bytes(good).substr(0, good.size() / 2));
      CHECK(!inspect_verify(*fs, kDir).errors.empty());
      REQUIRE(fs->unlink(path).is_ok());
      CHECK(!inspect_verify(*fs, kDir).errors.empty());
      write_file(*fs, path, good);
    }
  }
  CHECK(inspect_verify(*fs, kDir).errors.empty());
}

TEST_CASE("tables exchanged for each other are found", "[tools]") {
  const auto fs = sample();
  const auto tables = files_of(*fs, FileKind::kData);
  REQUIRE(tables.size() >= 2);
  const std::string a = *read_file(*fs, tables[0]), b = *read_file(*fs, tables[1]);
  write_file(*fs, tables[0], b);
  write_file(*fs, tables[1], a);
  CHECK(inspect_verify(*fs, kDir).errors.size() >= 2);
}

TEST_CASE("damaged and hostile files are reported, not crashed on", "[tools]") {
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
      write_file(*fs, path, bad);
      run_all(*fs, path);
      (void)inspect_verify(*fs, kDir);
      (void)inspect_deletes(*fs, kDir, {1'700'000'000'000, 1'000, 3});
    }
    write_file(*fs, path, good);
  }
  for (const char* path : {"nowhere", "db/nothing.data", "db/999999.wal", "", "/"}) {
    run_all(*fs, path);
    CHECK(!inspect_tree(*fs, path).errors.empty());
    CHECK(!inspect_deletes(*fs, path, {}).errors.empty());
    CHECK(!inspect_verify(*fs, path).errors.empty());
  }
}

TEST_CASE("strings of any bytes are valid JSON", "[tools]") {
  CHECK(json_string(Bytes("a\"\\\n\0\xff", 6)) == "\"a\\\"\\\\\\u000a\\u0000\\u00ff\"");
  JsonArray array;
  array.add("1");
  array.add("2");
  CHECK(JsonObject().add("n", std::uint64_t{7}).add("s", "x").add("a", array).str() == "{\"n\":7,\"s\":\"x\",\"a\":[1,2]}");
}

}  // namespace
}  // namespace ebbtide

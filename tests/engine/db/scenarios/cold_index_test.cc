// Tests of databases whose indexes and filters are not all in memory: a start does not read all tables, or the budget is too
// small for their indexes.
#include "compaction/table_files.h"
#include "db/background/quarantine.h"
#include "engine/db/harness.h"
#include "io/file_names.h"
#include "version/version_set.h"

namespace ebbtide {
namespace TEST_FILE {

std::string key_number(std::uint64_t i) {
  std::string digits = std::to_string(i);
  return "key" + std::string(8 - digits.size(), '0') + digits;
}

/// Writes one run of `count` tables with `keys` keys each. Returns the tables in key order.
std::vector<FileMeta> write_many_tables(FileSystem& fs, const std::string& dir, std::uint64_t count, std::uint64_t keys = 2) {
  REQUIRE(fs.create_dir(dir).is_ok());
  auto versions = VersionSet::create(fs, dir);
  REQUIRE(versions.is_ok());
  VersionEdit edit;
  TreeEdit& tree = edit.trees.emplace_back();
  tree.tree = (*versions)->new_tree();
  tree.create = true;
  tree.added_runs.push_back({1, 3, 0});
  tree.next_run = 2;
  std::vector<FileMeta> files;
  for (std::uint64_t t = 0; t < count; ++t) {
    TableBuilderOptions options;
    options.fs = &fs;
    options.dir = dir;
    options.data_file = (*versions)->new_file();
    options.metadata_file = (*versions)->new_file();
    TableBuilder builder(options);
    for (std::uint64_t i = keys * t; i < keys * (t + 1); ++i) {
      const std::string key = key_number(i);
      Entry entry;
      entry.key = key;
      entry.value = key;
      entry.seq = i + 1;
      REQUIRE(builder.add(entry).is_ok());
    }
    auto built = builder.finish();
    REQUIRE(built.is_ok());
    files.push_back(meta_of(*built));
    tree.added_files.emplace_back(1, files.back());
  }
  tree.flushed_seq = keys * count;
  edit.databases.emplace_back(0, tree.tree);
  edit.last_seq = keys * count;
  REQUIRE((*versions)->commit(std::move(edit)).is_ok());
  return files;
}

Status read_key(Harness& h, std::uint64_t i, std::string* value) {
  PassGuard guard(*h.db);
  const std::string key = key_number(i);
  Found found;
  TRY(h.db->view(0, h.db->now(), ReadMode::kBlocking, nullptr).get({key, hash_key(key)}, &found));
  value->assign(found.value);
  return Status::ok();
}

constexpr std::uint64_t kTables = Quarantine::kReadAtOpen + 50;

void flip_last_byte(Harness& h, const std::string& path) {
  auto bytes = read_file(*h.files, path);
  REQUIRE(bytes.is_ok());
  bytes->back() ^= 1;
  REQUIRE(h.files->unlink(path).is_ok());
  auto file = h.files->create(path);
  REQUIRE(file.is_ok());
  REQUIRE((*file)->append(*bytes).is_ok());
  REQUIRE((*file)->sync().is_ok());
  REQUIRE((*file)->close().is_ok());
}

TEST_CASE("database has many tables: open reads the metadata of 1,024, and lookups read the others") {
  Harness h;
  const std::vector<FileMeta> files = write_many_tables(*h.files, "data", kTables);
  std::uint64_t read = 0;
  h.watch->on_call = [&](const FileCall& call) {
    if (call.op == FileOp::kOpen && call.path.ends_with(".meta")) ++read;
  };
  h.open();
  CHECK(read == Quarantine::kReadAtOpen);
  std::string value;
  for (std::uint64_t i = 0; i < 2 * kTables; ++i) {
    demand_ok(read_key(h, i, &value), "read");
    REQUIRE(value == key_number(i));
  }
  CHECK(read == kTables);
}

TEST_CASE("walk may not read, and meets tables without index in memory: the indexes are fetched, and the walk shows all keys") {
  Harness h;
  (void)write_many_tables(*h.files, "data", kTables);
  h.open();
  IteratorOptions options;
  options.bounds.start = key_number(2 * Quarantine::kReadAtOpen - 4);
  options.resident = true;
  MissSet misses;
  std::uint64_t rounds = 0, next = 0;
  for (bool done = false; !done; ++rounds) {
    PassGuard guard(*h.db);
    const auto walk = h.db->iterate(h.db->view(0, h.db->now(), ReadMode::kResident, &misses), options);
    next = 2 * Quarantine::kReadAtOpen - 4;
    for (walk->seek_to_first(); walk->valid(); walk->next()) CHECK(walk->key() == key_number(next++));
    done = !walk->status().is_not_resident();
    if (done) demand_ok(walk->status(), "walk");
    if (!done) REQUIRE(h.db->fetch(&misses, [] {}));
  }
  CHECK(next == 2 * kTables);
  CHECK(rounds > 50);
}

TEST_CASE("keys are sampled: only the indexes of tables from which the sample takes entries are loaded") {
  Harness h;
  constexpr std::uint64_t kKeys = 100;  // of a table: far more in all than a sample takes
  (void)write_many_tables(*h.files, "data", kTables, kKeys);
  h.open();
  std::uint64_t read = 0;
  h.watch->on_call = [&](const FileCall& call) {
    if (call.op == FileOp::kOpen && call.path.ends_with(".meta")) ++read;
  };
  const auto keys = h.db->sample_keys(0, 1);
  demand_ok(keys.status(), "sample");
  CHECK(*keys == kTables * kKeys);
  CHECK(read > 0);
  CHECK(read < kTables - Quarantine::kReadAtOpen);
}

TEST_CASE("table that open does not read is damaged: it is quarantined when it is first searched") {
  Harness h;
  const std::vector<FileMeta> files = write_many_tables(*h.files, "data", kTables);
  flip_last_byte(h, "data/" + metadata_file_name(files.back().metadata_file));
  h.open();
  CHECK(h.db->stats().quarantined_files == 0);
  std::string value;
  CHECK(read_key(h, 2 * kTables - 1, &value).code() == Code::kCorruption);
  h.advance(1000);
  h.settle();
  CHECK(h.db->stats().quarantined_files == 1);
  CHECK(h.events.heard("a table is quarantined"));
  CHECK(read_key(h, 2 * kTables - 1, &value).code() == Code::kCorruption);
  demand_ok(read_key(h, 2 * kTables - 3, &value), "read beside the damage");
  demand_ok(h.db->write_status(), "writes go on");
  h.reopen();
  CHECK(h.db->stats().quarantined_files == 1);
}

TEST_CASE("file of a table is missing that open does not read: open finds this, and quarantines the table") {
  Harness h;
  const std::vector<FileMeta> files = write_many_tables(*h.files, "data", kTables);
  const bool data = GENERATE(true, false);
  REQUIRE(
      h.files->unlink("data/" + (data ? data_file_name(files.back().data_file) : metadata_file_name(files.back().metadata_file)))
          .is_ok());
  h.open();
  CHECK(h.db->stats().quarantined_files == 1);
  CHECK(h.events.heard("a file is missing"));
  std::string value;
  demand_ok(read_key(h, 2 * kTables - 3, &value), "read beside the missing table");
}

TEST_CASE("indexes exceed the memory budget: some are unloaded, reads find all keys, and writes are not stopped") {
  Settings settings = Harness::small();
  settings.memory_budget = 4 << 20;
  settings.tree.memtable_size = 16 << 10;
  settings.tree.file_size = 64 << 10;
  settings.tree.filter_bits_per_key = 16;
  Harness h(settings);
  h.open();
  // Only a small part of the budget is left for the tables.
  constexpr std::uint64_t kElsewhere = 7 << 19;
  REQUIRE(h.db->memory().try_charge(MemoryAccount::Kind::kCommands, kElsewhere));
  constexpr std::uint64_t kKeys = 100'000;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    WriteBatch batch;
    const std::string key = key_number(i * 7919 % kKeys);
    batch.put(0, key, key + std::string(50, 'v'), {});
    demand_ok(h.db->commit(batch), "write");
    if (i % 500 == 0) h.advance(100), h.settle();
  }
  h.del_range(0, key_number(100), key_number(200));
  demand_ok(h.db->flush(0), "flush");
  h.advance(100);
  h.settle();
  std::uint64_t metadata = 0;
  for (const std::string& path : h.paths(".meta")) metadata += h.files->file_size(path).value();
  CHECK(metadata > settings.memory_budget - kElsewhere);
  std::string value;
  for (std::uint64_t i = 0; i < kKeys; i += 7) {
    const Status status = read_key(h, i, &value);
    if (i >= 100 && i < 200) {
      REQUIRE(status.is_not_found());
      continue;
    }
    demand_ok(status, "read");
    REQUIRE(value.starts_with(key_number(i)));
    if (i % 700 == 0) h.advance(100), h.settle();
  }
  h.advance(100);
  CHECK(h.db->stats().table_bytes < metadata);
  std::uint64_t seen = 0;
  const auto walk = h.db->iterate(h.db->lease(0), {});
  for (walk->seek_to_first(); walk->valid(); walk->next()) ++seen;
  demand_ok(walk->status(), "walk");
  CHECK(seen == kKeys - 100);
  demand_ok(h.db->write_status(), "writes");
  h.put(0, "one more", "value");
  h.verify(0);
  h.db->memory().release(MemoryAccount::Kind::kCommands, kElsewhere);
}

}  // namespace TEST_FILE
}  // namespace ebbtide

// Tests of salvage: everything that can be read is saved, no deleted data comes back, and lost parts are listed.
#include <engine/db.h>
#include <engine/index.h>
#include <catch2/catch.hpp>

#include <map>
#include <set>

#include "base/random.h"
#include "engine/db/harness.h"
#include "io/fault_fs.h"
#include "io/file_names.h"
#include "support/files.h"
#include "tools/inspect.h"

namespace TEST_FILE {

using namespace ebbtide;

const std::string kOut = "out", kApart = "out-possibly-deleted";

/// Returns all keys of a database in `dir`, with their values, as the engine reads them.
std::map<std::string, std::string> contents(Harness& h, const std::string& dir, DatabaseId database) {
  std::map<std::string, std::string> found;
  if (!h.files->exists(join_path(dir, "CURRENT"))) return found;
  auto left = h.files->crash_clone(1, CrashMode::kEverything);
  Harness other(h.settings);
  other.use(std::move(left));
  other.settings.dir = dir;
  other.clock.advance(h.clock.wall_ms() - other.clock.wall_ms());
  demand_ok(other.try_open(), "open what was salvaged");
  const ReadView view = other.db->lease(database);
  const auto walk = other.db->iterate(view, {});
  for (walk->seek_to_first(); walk->valid(); walk->next()) {
    found[std::string(walk->key())] = std::string(walk->value());
    REQUIRE((walk->kind() == EntryKind::kCompact) == walk->key().starts_with("compact"));
  }
  demand_ok(walk->status(), "walk");
  other.verify(database);
  other.put(database, "a write", "works");
  REQUIRE(other.get(database, "a write") == "works");
  return found;
}

struct Saved {
  SalvageOutcome outcome;
  std::map<std::string, std::string> certain, apart;
};

Saved salvage(Harness& h, DatabaseId database = 0) {
  const auto before = h.files->tree();
  std::map<std::string, std::string> bytes;
  for (const std::string& path : before) {
    if (path.starts_with("data/") && !path.ends_with("/")) bytes[path] = read_file(*h.files, path).value();
  }
  Saved saved;
  saved.outcome = inspect_salvage(*h.files, "data", kOut, {});
  INFO(saved.outcome.report.text);
  for (const std::string& error : saved.outcome.report.errors) INFO(error);
  for (const auto& [path, content] : bytes) REQUIRE(read_file(*h.files, path).value() == content);
  REQUIRE(saved.outcome.exit_status != 2);
  saved.certain = contents(h, kOut, database);
  saved.apart = contents(h, kApart, database);
  return saved;
}

bool lists(const Saved& saved, const std::string& part) { return saved.outcome.report.text.find(part) != std::string::npos; }

/// Writes values of three ages into several runs. All are flushed, except for those that only the log must have.
std::map<std::string, std::string> fill(Harness& h) {
  std::map<std::string, std::string> expected;
  const auto put = [&](int i, const std::string& value) {
    char key[16];
    std::snprintf(key, sizeof(key), "key%05d", i);
    h.put(0, key, value + std::string(100, 'v'));
    expected[key] = value + std::string(100, 'v');
  };
  const auto del = [&](int i) {
    char key[16];
    std::snprintf(key, sizeof(key), "key%05d", i);
    h.del(0, key);
    expected.erase(key);
  };
  for (int i = 0; i < 1000; ++i) put(i, "old");
  REQUIRE(h.db->flush(0).is_ok());
  for (int i = 0; i < 1000; i += 3) put(i, "middle");
  for (int i = 1; i < 1000; i += 7) del(i);
  REQUIRE(h.db->flush(0).is_ok());
  for (int i = 0; i < 1000; i += 5) put(i, "new");
  h.del_range(0, "key00500", "key00600");
  expected.erase(expected.lower_bound("key00500"), expected.lower_bound("key00600"));
  REQUIRE(h.db->flush(0).is_ok());
  put(2000, "log");
  del(3);
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  return expected;
}

/// Returns settings under which nothing merges, so each flush stays a run.
Settings no_merges() {
  Settings settings = Harness::small();
  settings.tree.memtable_size = 1 << 20;
  settings.wal_segment_size = 4 << 20;
  return settings;
}

/// Checks that nothing in `saved` is wrong, and that no deleted or overwritten value is in the certain part.
void check_certain(const Saved& saved, const std::map<std::string, std::string>& expected) {
  for (const auto& [key, value] : saved.certain) {
    const auto at = expected.find(key);
    INFO(key);
    REQUIRE(at != expected.end());
    REQUIRE(at->second == value);
  }
  for (const auto& [key, value] : saved.apart) REQUIRE(saved.certain.count(key) == 0);
}

TEST_CASE("undamaged database is salvaged: the copy equals it, with deletes of all kinds and expiries") {
  Harness h(no_merges());
  h.open();
  auto expected = fill(h);
  const Millis now = h.db->now();
  h.put(0, "mortal", "1", now + 5000);
  h.put(0, "lasting", "1", now + 5'000'000);
  h.put(1, "swapped", "x");
  h.put(2, "flushed", "x");
  WriteBatch batch;
  batch.swap_databases(1, 3);
  batch.flush_database(2);
  h.write(batch);
  h.advance(10'000);
  expected["lasting"] = "1";
  WriteBatch compact;
  compact.put(0, "compact", "items", {.kind = EntryKind::kCompact});
  h.write(compact);
  expected["compact"] = "items";
  std::string large(300'000, 'l');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7919 >> 8);
  h.put(0, "large", large);
  expected["large"] = large;
  REQUIRE(h.db->flush(0).is_ok());
  WriteBatch logged;
  logged.put(0, "compact in the log", "items", {.kind = EntryKind::kCompact, .debt = true});
  h.write(logged);
  expected["compact in the log"] = "items";
  h.crash(CrashMode::kEverything, 1);
  const Saved saved = salvage(h);
  CHECK(saved.outcome.exit_status == 0);
  CHECK(saved.certain == expected);
  CHECK(saved.apart.empty());
  CHECK_FALSE(h.files->exists(kApart));
  CHECK(contents(h, kOut, 3) == std::map<std::string, std::string>{{"swapped", "x"}});
  CHECK(contents(h, kOut, 1).empty());
  CHECK(contents(h, kOut, 2).empty());
}

TEST_CASE("batch is in pieces: all of it is salvaged, unless a piece is damaged") {
  const bool damaged = GENERATE(false, true);
  Harness h(no_merges());
  h.open();
  h.put(0, "old", "1");
  WriteBatch batch;
  for (int i = 0; i < 300; ++i) batch.put(0, key_of(i), "value");
  auto staged = h.db->stage(std::move(batch));
  REQUIRE(staged.is_ok());
  demand_ok(h.db->commit(**staged), "commit");
  demand_ok(h.db->wait_synced((*staged)->batch().last_seq()), "sync");
  h.put(0, "new", "2");
  h.crash(CrashMode::kEverything, 1);
  if (damaged) flip(*h.files, h.paths(".wal").front(), 2000, 4);
  const Saved saved = salvage(h);
  CHECK(saved.outcome.exit_status == (damaged ? 1 : 0));
  CHECK(saved.certain.size() == (damaged ? 1 : 302));
  CHECK(saved.certain.count("new") == 1);
  CHECK(saved.apart.count("old") == (damaged ? 1 : 0));
  CHECK(lists(saved, "of batch 2-1 is missing") == damaged);
}

TEST_CASE("database has an index: salvage keeps its definition and leaves out its entries, which the server writes again") {
  Harness h(no_merges());
  h.open();
  const auto expected = fill(h);
  const IndexDefinition definition{.name = "place", .index = 1, .prefix = "key", .source = "town"};
  h.put(index_tree(0, kCatalog), definition.name, definition.encode());
  h.put(definition.tree(0), "entry", "");
  REQUIRE(h.db->flush(definition.tree(0)).is_ok());
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  h.drop();
  const Saved saved = salvage(h);
  CHECK(saved.certain == expected);
  CHECK(contents(h, kOut, index_tree(0, kCatalog)).at("place") == definition.encode());
  CHECK_FALSE(contents(h, kOut, definition.tree(0)).contains("entry"));
  CHECK(lists(saved, "index tree 1 of database 0 is left out"));
}

TEST_CASE("page is damaged: older versions of its keys are saved as possibly deleted, all other keys as certain") {
  Harness h(no_merges());
  h.open();
  const auto expected = fill(h);
  h.crash(CrashMode::kEverything, 1);
  const auto whole = h.files->crash_clone(1, CrashMode::kEverything);
  for (const std::string& path : h.paths(".data")) {
    INFO(path);
    h.abandon(whole->crash_clone(1, CrashMode::kEverything));
    flip(*h.files, path, 5000, 4);
    const Saved saved = salvage(h);
    CHECK(saved.outcome.exit_status == 1);
    CHECK(lists(saved, "lost: " + path.substr(5) + " at "));
    check_certain(saved, expected);
    CHECK(saved.certain.size() + saved.apart.size() > expected.size() - 120);  // the entries of a page or two
    CHECK(saved.certain.size() > expected.size() / 2);
  }
}

TEST_CASE("table is lost: values that it may have deleted are saved as possibly deleted") {
  for (const char* suffix : {".data", ".meta"}) {
    for (const bool gone : {true, false}) {
      INFO(suffix << gone);
      Harness h(no_merges());
      h.open();
      const auto expected = fill(h);
      h.crash(CrashMode::kEverything, 1);
      const std::vector<std::string> paths = h.paths(suffix);
      REQUIRE(paths.size() >= 3);
      const std::string lost = paths[1];  // the table of the second flush, with deletes of every seventh key
      if (gone) {
        REQUIRE(h.files->unlink(lost).is_ok());
      } else {
        rewrite(*h.files, lost, "x");
      }
      const Saved saved = salvage(h);
      CHECK(saved.outcome.exit_status == 1);
      CHECK(lists(saved, "lost: " + lost.substr(5)));
      check_certain(saved, expected);
      CHECK(saved.certain.count("key02000") == 1);  // the log has it
      CHECK(saved.certain.count("key00005") == 1);  // the third flush has it
      CHECK(saved.certain.count("key00001") == 0);  // the delete of this key is lost
      CHECK(saved.apart.count("key00001") == 1);
      CHECK(saved.apart.count("key00003") == 0);  // deleted by a write after the lost part
      CHECK(saved.apart.count("key00501") == 0);  // deleted by a range
      CHECK(saved.apart.count("key00002") == 1);  // the tool cannot know if the key was deleted
    }
  }
}

TEST_CASE("manifest and CURRENT are damaged or missing: all keys are saved as possibly deleted, none as certain") {
  Harness h(no_merges());
  h.open();
  const auto expected = fill(h);
  h.crash(CrashMode::kEverything, 1);
  const auto whole = h.files->crash_clone(1, CrashMode::kEverything);
  std::string manifest;
  for (const std::string& path : whole->tree()) {
    if (path.find("MANIFEST") != std::string::npos) manifest = path;
  }
  for (const std::string content : {"", "x", "gone"}) {
    INFO(content);
    h.abandon(whole->crash_clone(1, CrashMode::kEverything));
    if (content == "gone") {
      REQUIRE(h.files->unlink(manifest).is_ok());
      REQUIRE(h.files->unlink("data/CURRENT").is_ok());
    } else {
      rewrite(*h.files, manifest, content);
    }
    const Saved saved = salvage(h);
    CHECK(saved.outcome.exit_status == 1);
    CHECK(saved.certain.empty());
    CHECK(saved.apart == expected);
    CHECK(lists(saved, "MANIFEST"));
  }
  for (const bool gone : {true, false}) {
    h.abandon(whole->crash_clone(1, CrashMode::kEverything));
    if (gone) {
      REQUIRE(h.files->unlink("data/CURRENT").is_ok());
    } else {
      rewrite(*h.files, "data/CURRENT", "x");
    }
    const Saved saved = salvage(h);
    CHECK(saved.outcome.exit_status == 0);  // the manifest is intact
    CHECK(saved.certain == expected);
  }
}

TEST_CASE("newest log segment is missing: the report lists it, and no key is certain, since it may have had deletes") {
  Settings settings = no_merges();
  settings.tree.memtable_size = 4 << 20;
  settings.wal_segment_size = 64 << 10;
  Harness h(settings);
  h.open();
  for (int i = 0; h.paths(".wal").size() < 3; ++i) h.put(0, "key" + std::to_string(i), std::string(1000, 'v'));
  h.del(0, "key0");
  const std::vector<std::string> segments = h.paths(".wal");
  h.crash(CrashMode::kEverything, 1);
  REQUIRE(h.files->unlink(segments.back()).is_ok());
  const Saved saved = salvage(h);
  CHECK(saved.outcome.exit_status == 1);
  CHECK(saved.certain.empty());
  CHECK(saved.apart.contains("key0"));
  CHECK(saved.apart.contains("key1"));
  CHECK(lists(saved, segments.back().substr(5) + " is missing: " + segments[1].substr(5) + " names it"));
}

TEST_CASE("a byte of the manifest is damaged: certain keys have the right values, and no key is missing from the copy") {
  Harness h(no_merges());
  h.open();
  const auto expected = fill(h);
  h.crash(CrashMode::kEverything, 1);
  const auto whole = h.files->crash_clone(1, CrashMode::kEverything);
  std::string manifest;
  for (const std::string& path : whole->tree()) {
    if (path.find("MANIFEST") != std::string::npos) manifest = path;
  }
  const std::size_t size = read_file(*whole, manifest).value().size();
  for (std::size_t at = 0; at < size; at += 16) {
    INFO("byte " << at << " of " << size);
    h.abandon(whole->crash_clone(1, CrashMode::kEverything));
    flip(*h.files, manifest, at, 4);
    const Saved saved = salvage(h);
    check_certain(saved, expected);
    if (saved.outcome.exit_status == 0) {
      CHECK(saved.certain == expected);
    } else {
      CHECK(saved.certain.size() + saved.apart.size() >= expected.size());
    }
  }
}

TEST_CASE("part of the log is lost: of trees whose tables lack that part, only keys written later are certain") {
  Harness h(no_merges());
  h.open();
  h.put(0, "flushed", "1");
  h.put(1, "flushed", "1");
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(h.db->flush(1).is_ok());
  std::string bytes;
  const auto put = [&](DatabaseId d, const std::string& key) {
    h.put(d, key, "1");
    REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  };
  put(0, "before");
  const std::string path = h.paths(".wal").back();
  const std::size_t at = read_file(*h.files, path).value().size();
  h.del(0, "flushed");
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  put(0, "behind");
  put(0, "last");
  h.crash(CrashMode::kEverything, 1);
  flip(*h.files, path, at + 60, 4);
  const Saved saved = salvage(h);
  CHECK(saved.outcome.exit_status == 1);
  CHECK(lists(saved, "lost: " + path.substr(5) + " at "));
  CHECK(saved.certain == std::map<std::string, std::string>{{"behind", "1"}, {"last", "1"}});
  CHECK(saved.apart == std::map<std::string, std::string>{{"flushed", "1"}, {"before", "1"}});
}

TEST_CASE("manifest is missing, and tables have keys that the log lacks: these keys are saved as uncertain") {
  Harness h(no_merges());
  h.open();
  auto expected = fill(h);
  REQUIRE(h.db->flush(0).is_ok());
  h.reopen();  // begins a new segment
  h.put(0, "later", "1");
  expected["later"] = "1";
  REQUIRE(h.db->flush(0).is_ok());
  for (const std::string& path : h.paths(".wal")) REQUIRE(read_file(*h.files, path)->find("key0") == std::string::npos);
  h.crash(CrashMode::kEverything, 1);
  for (const std::string& path : h.files->tree()) {
    if (path.find("MANIFEST") != std::string::npos || path.ends_with("/CURRENT")) REQUIRE(h.files->unlink(path).is_ok());
  }
  const Saved saved = salvage(h);
  CHECK(saved.outcome.exit_status == 1);
  CHECK(saved.certain.empty());
  CHECK(saved.apart == expected);
  CHECK(lists(saved, "tables are in no readable manifest"));
}

TEST_CASE("manifest is older than a merge whose inputs are gone: keys of its output are saved as uncertain") {
  Harness h(no_merges());
  h.open();
  const auto expected = fill(h);
  std::string manifest;
  for (const std::string& path : h.files->tree()) {
    if (path.find("MANIFEST") != std::string::npos) manifest = path;
  }
  const std::string older = read_file(*h.files, manifest).value();
  REQUIRE(h.db->compact(0, {}).is_ok());
  h.settle();
  h.crash(CrashMode::kEverything, 1);
  REQUIRE(h.files->exists(manifest));
  rewrite(*h.files, manifest, older);
  const Saved saved = salvage(h);
  CHECK(saved.outcome.exit_status == 1);
  CHECK(saved.certain.empty());
  CHECK(saved.apart == expected);
  CHECK(lists(saved, "it may be older than the tables"));
}

TEST_CASE("tables of one tree show that the log's end is lost: keys of trees whose tables lack that end are uncertain") {
  Harness h(no_merges());
  h.open();
  h.put(0, "flushed", "1");
  REQUIRE(h.db->flush(0).is_ok());
  h.put(1, "first", "1");
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  const std::string path = h.paths(".wal").back();
  const std::size_t end = read_file(*h.files, path)->size();
  h.del(0, "flushed");
  h.put(1, "second", "1");
  REQUIRE(h.db->flush(1).is_ok());
  h.crash(CrashMode::kEverything, 1);
  rewrite(*h.files, path, read_file(*h.files, path)->substr(0, end));
  const Saved saved = salvage(h);
  CHECK(saved.outcome.exit_status == 1);
  CHECK(lists(saved, "lost: " + path.substr(5)));
  CHECK(saved.certain.empty());
  CHECK(saved.apart == std::map<std::string, std::string>{{"flushed", "1"}});
}

TEST_CASE("only the log knows that a database was emptied: keys from before are not saved") {
  Harness h(no_merges());
  h.open();
  h.put(0, "former", "1");
  REQUIRE(h.db->flush(0).is_ok());
  h.put(0, "in the log", "1");
  WriteBatch batch;
  batch.flush_database(0);
  h.write(batch);
  h.put(0, "after", "1");
  h.crash(CrashMode::kEverything, 1);
  const Saved saved = salvage(h);
  CHECK(saved.outcome.exit_status == 0);
  CHECK(saved.certain == std::map<std::string, std::string>{{"after", "1"}});
  CHECK(saved.apart.empty());
}

TEST_CASE("damaged part of the log has only writes that tables have, too: every key is saved as certain") {
  Harness h(no_merges());
  h.open();
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 5; ++i) {
    h.put(0, "key" + std::to_string(i), "1");
    expected["key" + std::to_string(i)] = "1";
    REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  }
  REQUIRE(h.db->flush(0).is_ok());
  h.put(0, "more", "1");
  expected["more"] = "1";
  h.crash(CrashMode::kEverything, 1);
  flip(*h.files, h.paths(".wal").front(), 60, 4);
  const Saved saved = salvage(h);
  CHECK(saved.outcome.exit_status == 0);
  CHECK(saved.certain == expected);
  CHECK(lists(saved, "tables and manifest have all operations"));
}

TEST_CASE("manifest and log have deletes by stamp: salvage applies them") {
  Settings settings = no_merges();
  settings.tree.stamp = StampMode::kExplicit;
  Harness h(settings);
  h.open();
  for (int i = 0; i < 100; ++i) {
    WriteBatch batch;
    batch.put(0, "key" + std::to_string(i), "1", {static_cast<DeleteKey>(i), 0});
    h.write(batch);
  }
  REQUIRE(h.db->flush(0).is_ok());
  WriteBatch some, more;
  some.delete_stamps(0, 10, 50);
  h.write(some);
  REQUIRE(h.db->flush(0).is_ok());
  more.delete_stamps(0, 50, 60);
  h.write(more);
  h.crash(CrashMode::kEverything, 1);
  const Saved saved = salvage(h);
  CHECK(saved.outcome.exit_status == 0);
  CHECK(saved.certain.size() == 50);
  CHECK(saved.certain.count("key10") == 0);
  CHECK(saved.certain.count("key59") == 0);
  CHECK(saved.certain.count("key60") == 1);
}

/// A drive that cannot read one sector of one file.
class BadSector final : public InterposedFileSystem {
 public:
  BadSector(FileSystem& base, std::string path, std::uint64_t begin)
      : InterposedFileSystem(base), path_(std::move(path)), begin_(begin) {}

 private:
  Status around(const FileCall& call, const Run& run) override {
    const bool bad =
        call.op == FileOp::kRead && call.path == path_ && call.offset < begin_ + 4096 && begin_ < call.offset + call.length;
    return bad ? Status::io_error(path_ + ": bad sector") : run(call.length);
  }
  const std::string path_;
  const std::uint64_t begin_;
};

TEST_CASE("drive cannot read a sector: the report has the sector's offset, and all other bytes are salvaged") {
  Harness h(no_merges());
  h.open();
  const auto expected = fill(h);
  h.crash(CrashMode::kEverything, 1);
  const auto whole = h.files->crash_clone(1, CrashMode::kEverything);
  for (const char* suffix : {".data", ".wal"}) {
    INFO(suffix);
    h.abandon(whole->crash_clone(1, CrashMode::kEverything));
    const std::string path = h.paths(suffix).front();
    BadSector drive(*h.files, path, 8192);
    const SalvageOutcome outcome = inspect_salvage(drive, "data", kOut, {});
    INFO(outcome.report.text);
    CHECK(outcome.exit_status <= 1);
    CHECK(outcome.report.text.find("4096 bytes at 8192 cannot be read") != std::string::npos);
    Saved saved{outcome, contents(h, kOut, 0), contents(h, kApart, 0)};
    check_certain(saved, expected);
    CHECK(saved.certain.size() + saved.apart.size() > expected.size() - 120);
  }
}

TEST_CASE("DIR is open, missing or empty, or OUT not empty or inside DIR: salvage is refused") {
  Harness h;
  h.open();
  h.put(0, "k", "v");
  const auto refused = [&](const std::string& dir, const std::string& out, const std::string& why) {
    const SalvageOutcome outcome = inspect_salvage(*h.files, dir, out, {});
    INFO(dir << " to " << out);
    CHECK(outcome.exit_status == 2);
    REQUIRE(outcome.report.errors.size() == 1);
    CHECK(outcome.report.errors.front().find(why) != std::string::npos);
  };
  refused("data", kOut, "a server has data open");
  h.db.reset();
  REQUIRE(h.files->create_dir("empty").is_ok());
  REQUIRE(h.files->create_dir("full").is_ok());
  rewrite(
      *h.files,
      [&] {
        REQUIRE(h.files->create("full/mine").is_ok());
        return std::string("full/mine");
      }(),
      "x");
  refused("nowhere", kOut, "nowhere");
  refused("empty", kOut, "has no database files");
  refused("full", kOut, "has no database files");
  refused("data", "full", "not empty");
  refused("data", "data/out", "neither may be inside the other");
  refused("data", "data", "neither may be inside the other");
  refused("data", "nowhere/out", "does not exist");
  REQUIRE(h.files->create_dir(kApart).is_ok());
  REQUIRE(h.files->create(kApart + "/mine").is_ok());
  refused("data", kOut, kApart + " is not empty");
  CHECK_FALSE(h.files->exists(kOut));
}

TEST_CASE("any file operation of salvage fails: no output directory is left") {
  for (std::uint64_t n = 1;; ++n) {
    INFO("error at operation " << n);
    Harness h(no_merges());
    h.open();
    fill(h);
    h.crash(CrashMode::kEverything, 1);
    h.faults->inject({.nth = n, .code = Code::kNoSpace});
    const SalvageOutcome outcome = inspect_salvage(*h.faults, "data", kOut, {});
    if (h.faults->failures() == 0) {
      CHECK(outcome.exit_status == 0);
      CHECK(n > 8);
      return;
    }
    if (outcome.exit_status != 0) {
      CHECK(outcome.exit_status == 2);
      CHECK(h.files->list(kOut).status().is_not_found());
    }
  }
}

TEST_CASE("salvage is interrupted: no output directory is left") {
  Harness h(no_merges());
  h.open();
  fill(h);
  h.crash(CrashMode::kEverything, 1);
  std::atomic<bool> stop{false};
  h.watch->on_call = [&](const FileCall& call) { stop = stop || (call.op == FileOp::kCreate && call.path.starts_with(kOut)); };
  const SalvageOutcome outcome = inspect_salvage(*h.watch, "data", kOut, {.stop = &stop});
  CHECK(outcome.exit_status == 2);
  CHECK(h.files->list(kOut).status().is_not_found());
}

}  // namespace TEST_FILE

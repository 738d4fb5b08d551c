// Tests of damaged tables: no plan takes them, only reads that need them fail, and only a complete file ends the quarantine.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/db/harness.h"
#include "engine/db/layouts.h"
#include "support/files.h"
#include "support/long_run.h"
#include "support/planted.h"
#include "table/metadata.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr Millis kMinute = 60'000, kDeadline = 10 * kMinute;

Settings settings_with(const Layout& layout, Millis deadline = 0) {
  Settings s = Harness::small();
  s.fsync = FsyncMode::kAlways;
  s.scrub_interval = 0;
  s.databases = 4;
  layout.set(&s.tree);
  s.tree.delete_deadline = deadline;
  return s;
}

Settings plain(Millis deadline = 0) {
  return settings_with({{"leveling", {{"size_ratio", 2}}}, Partitioning::kSize, 1}, deadline);
}

std::string key_of(int i) {
  std::string digits = std::to_string(i);
  return "key" + std::string(6 - digits.size(), '0') + digits;
}

void must(bool condition, const std::string& otherwise) {
  if (!condition) throw Finding(otherwise);
}

void flush(Harness& h, DatabaseId d) {
  demand_ok(h.db->flush(d), "flush");
  h.settle();
}

/// Writes the keys first, first + step, ... below `last`, each with `value`, into tables.
void fill(Harness& h, DatabaseId d, int first, int last, const std::string& value, int step = 1) {
  for (int i = first; i < last; i += step) h.put(d, key_of(i), value + std::string(100, '.'));
  flush(h, d);
}

/// Replaces a file's content durably.
void write(MemoryFileSystem& fs, const std::string& path, const std::string& bytes) {
  rewrite(fs, path, bytes);
  demand_ok(fs.sync_file(path), "sync");
  demand_ok(fs.sync_dir("data"), "sync");
}

/// Runs ticks until reported damage has been handled.
void take_notice(Harness& h) {
  for (int i = 0; i < 4; ++i) {
    h.advance(100);
    h.settle();
  }
}

/// Advances time with regular ticks, as in a running server.
void pass(Harness& h, Millis ms) {
  for (Millis passed = 0; passed < ms; passed += 1000) {
    h.advance(1000);
    h.settle();
    h.db->write_log();
  }
}

std::uint64_t quarantined(Harness& h) { return h.db->stats().quarantined_files; }

bool refused(const std::string& answer) { return answer.starts_with("corruption: "); }

/// Returns the keys of a walk, and its final status.
std::pair<std::vector<std::string>, Status> walk(Harness& h, DatabaseId d) {
  std::vector<std::string> keys;
  auto it = h.db->iterate(h.db->lease(d), {});
  for (it->seek_to_first(); it->valid(); it->next()) keys.emplace_back(it->key());
  return {keys, it->status()};
}

/// Makes one table that has keys 0 to 999 of database 0, with the value "old", at rest.
void one_table(Harness& h) {
  fill(h, 0, 0, 1000, "old");
  demand_ok(h.db->compact(0, {}), "compact");
  h.settle();
}

TEST_CASE("merge meets a flipped bit: the table is quarantined, and other databases and keys work") {
  Harness h(plain());
  h.open();
  fill(h, 0, 0, 400, "old");
  fill(h, 1, 0, 400, "other");
  const std::string victim = h.paths(".data").front();
  write(*h.files, victim, flipped(*read_file(*h.files, victim), 6000));
  h.reopen();  // nothing of the table is cached
  for (int round = 0; round < 8; ++round) {
    fill(h, 0, 200, 600, "new" + std::to_string(round));
    fill(h, 1, 0, 400, "other" + std::to_string(round));
  }
  (void)h.db->compact(0, {});
  take_notice(h);
  CHECK(quarantined(h) == 1);
  CHECK(h.events.heard(victim));
  CHECK_FALSE(h.db->stats().read_only);
  REQUIRE(h.db->damage().size() == 1);
  CHECK(h.db->damage().front().starts_with("database 0: corruption: " + victim));
  CHECK(h.db->tree_info(0)->quarantined.size() == 1);
  CHECK(h.db->tree_info(1)->quarantined.empty());
  CHECK(h.db->compact(1, {}).is_ok());
  CHECK(h.get(0, key_of(500)).starts_with("new7"));  // a newer run decides
  CHECK(h.get(1, key_of(10)).starts_with("other7"));
  int wrong = 0, right = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string got = h.get(0, key_of(i));
    (got.starts_with("old") ? right : wrong) += 1;
    if (!got.starts_with("old")) CHECK(refused(got));
  }
  CHECK(wrong > 0);
  CHECK(right > 100);  // intact pages can still be read
  h.reopen();
  CHECK(quarantined(h) == 1);
  WriteBatch empty;
  empty.flush_database(0);
  h.write(empty);
  take_notice(h);
  CHECK(quarantined(h) == 0);
  CHECK(h.get(0, key_of(1)) == "(absent)");
  CHECK_FALSE(h.files->exists(victim));
}

TEST_CASE("table is missing, or its metadata is damaged: the table is quarantined, and other databases work") {
  for (const bool missing : {true, false}) {
    INFO("missing: " << missing);
    Harness h(plain());
    h.open();
    fill(h, 0, 0, 400, "old");
    fill(h, 1, 0, 400, "other");
    demand_ok(h.db->close(), "close");
    h.drop();
    const std::string victim = missing ? h.paths(".data").front() : h.paths(".meta").front();
    if (missing) {
      REQUIRE(h.files->unlink(victim).is_ok());
    } else {
      write(*h.files, victim, flipped(*read_file(*h.files, victim), 50));
    }
    h.open();
    CHECK(quarantined(h) == 1);
    CHECK(h.events.heard(victim));
    CHECK(h.get(1, key_of(1)).starts_with("other"));
    const std::string got = h.get(0, key_of(1));
    CHECK(refused(got));
    CHECK(got.find(victim) != std::string::npos);
    CHECK(h.get(0, "a") == "(absent)");  // the key is outside of the table's range
    // Memtables and newer runs decide these reads.
    h.put(0, key_of(1), "new");
    h.del(0, key_of(2));
    CHECK(h.get(0, key_of(1)) == "new");
    CHECK(h.get(0, key_of(2)) == "(absent)");
    flush(h, 0);
    CHECK(h.get(0, key_of(1)) == "new");
    CHECK(h.get(0, key_of(2)) == "(absent)");
    CHECK(refused(h.get(0, key_of(3))));
    h.put(0, "a", "1");
    const auto [keys, status] = walk(h, 0);
    CHECK(keys.front() == "a");
    CHECK(keys.size() <= 2);
    CHECK(status.code() == Code::kCorruption);
    CHECK(walk(h, 1).first.size() == 400);
    h.reopen();
    CHECK(quarantined(h) == 1);
    CHECK(h.get(0, key_of(1)) == "new");
    CHECK(refused(h.get(0, key_of(3))));
  }
}

/// A tombstone in an unreadable table hides an older version, which must not come back after any merge.
void try_to_resurrect(const Layout& layout) {
  Harness h(settings_with(layout));
  h.open();
  fill(h, 0, 0, 300, "old");
  demand_ok(h.db->compact(0, {}), "compact");
  h.settle();
  const std::vector<std::string> before = h.paths(".meta");
  h.db->pause_compactions();
  for (int i = 100; i < 200; ++i) h.del(0, key_of(i));
  flush(h, 0);
  std::string victim;
  for (const std::string& path : h.paths(".meta")) {
    if (std::count(before.begin(), before.end(), path) == 0) victim = path;
  }
  must(!victim.empty(), "the tombstones have no table");
  const std::string good = *read_file(*h.files, victim);
  write(*h.files, victim, flipped(good, good.size() / 2));
  h.reopen();
  must(quarantined(h) == 1, "the damage was not found");
  for (int round = 0; round < 14; ++round) {
    fill(h, 0, 0, 300, "new", 3);
    for (int i = 100; i < 200; ++i) {
      const std::string got = h.get(0, key_of(i));
      must(i % 3 == 0 ? got.starts_with("new") : refused(got), key_of(i) + " answers " + got.substr(0, 40));
    }
    for (int i = 0; i < 100; ++i) {
      const std::string got = h.get(0, key_of(i));
      must(got.starts_with(i % 3 == 0 ? "new" : "old"), key_of(i) + " answers " + got.substr(0, 40));
    }
  }
  must(quarantined(h) == 1, "the quarantine ended");
  must(h.db->stats().bounds_broken == 0, "the tree is out of its bounds");
  must(!h.db->stats().write_stalled, "writes are stalled");
  demand_ok(h.db->compact(0, {}), "compact");
  // These newer tombstones must stay while the table may have the keys.
  for (int i = 102; i < 200; i += 3) h.del(0, key_of(i));
  flush(h, 0);
  demand_ok(h.db->compact(0, {}), "compact");
  h.settle();
  write(*h.files, victim, good);
  for (int i = 0; i < 3; ++i) {
    h.advance(2 * kMinute);
    h.settle();
  }
  must(quarantined(h) == 0, "a good copy does not end it");
  for (int i = 100; i < 200; ++i) must(h.get(0, key_of(i)) == "(absent)", key_of(i) + " is back");
  must(h.get(0, key_of(50)).starts_with("old"), "a key is lost");
  demand_ok(h.db->compact(0, {}), "compact");
  h.settle();
  for (int i = 100; i < 200; ++i) must(h.get(0, key_of(i)) == "(absent)", key_of(i) + " is back after a merge");
  h.verify(0);
}

/// Keys in an unreadable table are deleted by newer writes. They must stay deleted after a good copy is restored.
void try_to_lose_a_delete(const Layout& layout) {
  Harness h(settings_with(layout));
  h.open();
  one_table(h);
  const std::vector<std::string> metas = h.paths(".meta");
  std::vector<std::string> good;
  for (const std::string& path : metas) good.push_back(*read_file(*h.files, path));
  for (std::size_t i = 0; i < metas.size(); ++i) write(*h.files, metas[i], good[i].substr(0, good[i].size() / 2));
  h.reopen();
  must(quarantined(h) == metas.size(), "the damage was not found");
  for (int round = 0; round < 12; ++round) {
    for (int i = 100 + round; i < 900; i += 12) h.del(0, key_of(i));
    fill(h, 0, round, 100, "new", 50);
    demand_ok(h.db->compact(0, {}), "compact");
  }
  for (std::size_t i = 0; i < metas.size(); ++i) write(*h.files, metas[i], good[i]);
  demand_ok(h.db->verify(0).status(), "verify");
  h.settle();
  must(quarantined(h) == 0, "good copies do not end it");
  for (int i = 100; i < 900; ++i) must(h.get(0, key_of(i)) == "(absent)", key_of(i) + " is back");
  must(h.get(0, key_of(57)).starts_with("old") || h.get(0, key_of(57)).starts_with("new"), "a key is lost");
  h.verify(0);
}

TEST_CASE("tombstone is in an unreadable table: under any policy, the older version does not come back") {
  for (std::uint64_t turn = 0; turn < 2 * small_policies().size(); ++turn) {
    INFO(text_of(layout_of(turn)));
    CHECK(finding_of([&] { try_to_resurrect(layout_of(turn)); }) == "");
  }
}

TEST_CASE("keys of an unreadable table are deleted: after a good copy is restored, they stay deleted") {
  for (std::uint64_t turn = 0; turn < 2 * small_policies().size(); ++turn) {
    INFO(text_of(layout_of(turn)));
    CHECK(finding_of([&] { try_to_lose_a_delete(layout_of(turn)); }) == "");
  }
}

TEST_CASE("planted bug treats a quarantined table as empty in a merge: the search for lost deletes finds the bug", "[planted]") {
  must_catch(PlantedBug::kFinalOverQuarantined, [] { try_to_lose_a_delete(layout_of(0)); });
}

TEST_CASE("many flushes overlap a quarantined range: the number of runs stays small, and writes are not stopped") {
  for (std::uint64_t turn = 0; turn < small_policies().size(); ++turn) {
    INFO(text_of(layout_of(turn)));
    Harness h(settings_with(layout_of(turn)));
    h.open();
    one_table(h);
    const std::string victim = h.paths(".meta").front();
    write(*h.files, victim, "short");
    h.reopen();
    for (int round = 0; round < 80; ++round) fill(h, 0, 0, 1000, "new" + std::to_string(round), 20);
    CHECK_FALSE(h.db->stats().write_stalled);
    CHECK(h.db->tree_info(0)->runs.size() < 32);
    CHECK(h.get(0, key_of(20)).starts_with("new79"));
    CHECK(h.db->stats().bounds_broken == 0);
  }
}

TEST_CASE("range delete covers all of a quarantined table: the table is removed without a read") {
  Harness h(plain());
  h.open();
  one_table(h);
  for (const std::string& victim : h.paths(".meta")) write(*h.files, victim, "short");
  h.reopen();
  REQUIRE(quarantined(h) > 0);
  h.del_range(0, "key", "kez");
  CHECK(h.get(0, key_of(3)) == "(absent)");
  CHECK(walk(h, 0).first.empty());
  CHECK(walk(h, 0).second.is_ok());  // the delete decides all reads of the range
  flush(h, 0);
  take_notice(h);
  CHECK(quarantined(h) == 0);
  CHECK(h.paths(".meta").size() <= 1);
  CHECK(walk(h, 0).second.is_ok());
}

TEST_CASE("file of an open table is unlinked: verify quarantines the table, and reads of the open file still work") {
  Harness h(plain());
  h.open();
  one_table(h);
  const std::string victim = GENERATE(as<std::string>(), ".data", ".meta");
  for (const std::string& path : h.paths(victim)) REQUIRE(h.files->unlink(path).is_ok());
  const auto report = h.db->verify(0);
  REQUIRE(report.is_ok());
  REQUIRE(report->errors.size() == 1);
  CHECK(report->errors.front().find(victim) != std::string::npos);
  CHECK(quarantined(h) == 1);
  CHECK(h.get(0, key_of(3)).starts_with("old"));
}

TEST_CASE("delete is pending in a quarantined table: it stays pending, and misses its deadline with the reason damage") {
  for (const bool by_range : {false, true}) {
    INFO("ended by a range delete: " << by_range);
    Harness h(plain(kDeadline));
    h.open();
    one_table(h);
    for (const std::string& victim : h.paths(".meta")) write(*h.files, victim, "short");
    h.reopen();
    h.del(0, key_of(500));
    SeqNum up_to = 0;
    const PurgeTicket ticket = h.db->purge_ticket(&up_to);
    pass(h, 2 * kDeadline);
    const auto status = h.db->purge_status(ticket);
    REQUIRE(status.is_ok());
    CHECK_FALSE(status->done);
    CHECK(status->damage.files > 0);
    CHECK(h.db->stats().deadlines_missed_damage > 0);
    CHECK(h.db->stats().deadlines_missed_load == 0);
    CHECK(h.events.heard("reason: damage"));
    if (by_range) {
      h.del_range(0, "", "");
      flush(h, 0);
    } else {
      WriteBatch empty;
      empty.flush_database(0);
      h.write(empty);
    }
    pass(h, 2 * kDeadline);
    CHECK(quarantined(h) == 0);
    CHECK(h.db->purge_status(ticket)->done);
    CHECK(h.db->stats().deadlines_missed_load == 0);
  }
}

TEST_CASE("deletes are beside a quarantined range: they meet their deadline") {
  for (std::uint64_t turn = 0; turn < small_policies().size(); ++turn) {
    INFO(text_of(layout_of(turn)));
    Harness h(settings_with(layout_of(turn), kDeadline));
    h.open();
    fill(h, 0, 0, 600, "left");
    demand_ok(h.db->compact(0, {}), "compact");
    h.settle();
    const std::vector<std::string> left = h.paths(".meta");
    fill(h, 0, 10'000, 10'600, "right");
    h.settle();
    // The first table with keys of the first half is damaged. The second half is in other tables, or is cut off if the policy has
    // merged both.
    write(*h.files, left.front(), "short");
    if (!h.files->exists(left.front())) continue;
    h.reopen();
    if (quarantined(h) == 0) continue;  // the table was merged, so nothing is left to test
    for (int i = 10'000; i < 10'600; i += 2) h.del(0, key_of(i));
    for (int i = 20'000; i < 20'100; ++i) h.put(1, key_of(i), "1");
    for (int i = 20'000; i < 20'100; ++i) h.del(1, key_of(i));
    pass(h, 2 * kDeadline);
    CHECK(h.db->stats().deadlines_missed_load == 0);
    CHECK(quarantined(h) == 1);
  }
}

TEST_CASE("older copy of a table is restored: reads use it only after the table's dropped pages are removed from it") {
  for (const bool links : {false, true}) {
    INFO("the copy has another name: " << links);
    Settings s = plain();
    s.tree.stamp = StampMode::kExplicit;
    s.tree.pages_per_tile = 8;
    Harness h(s);
    h.open();
    for (int i = 0; i < 600; ++i) {
      WriteBatch batch;
      batch.put(0, key_of(i), (i % 2 == 0 ? "SECRET" : "public") + std::string(200, 'x'),
                {static_cast<DeleteKey>(i % 2 == 0 ? 1 : 2), 0});
      h.write(batch);
    }
    flush(h, 0);
    demand_ok(h.db->compact(0, {}), "compact");
    h.settle();
    const std::string victim = h.paths(".data").front(), backup = *read_file(*h.files, victim);
    REQUIRE(backup.find("SECRET") != std::string::npos);
    WriteBatch records;
    records.delete_stamps(0, 1, 2);
    h.write(records);
    h.db->pause_compactions();
    flush(h, 0);
    h.db->resume_compactions();
    SeqNum up_to = 0;
    REQUIRE(h.db->purge_now(h.db->purge_ticket(&up_to)).is_ok());
    for (int i = 0; i < 50; ++i) {
      h.advance(1000);
      h.settle();
    }
    if (!h.files->exists(victim)) continue;  // the table was merged
    REQUIRE(read_file(*h.files, victim)->find("SECRET") == std::string::npos);
    write(*h.files, victim, backup.substr(0, 100));
    h.reopen();
    REQUIRE(quarantined(h) == 1);
    write(*h.files, victim, backup);
    if (links) REQUIRE(h.files->link(victim, "elsewhere").is_ok());
    CHECK(refused(h.get(0, key_of(1))));
    h.reopen();
    for (int i = 0; i < 3; ++i) {
      h.advance(2000);
      h.settle();
    }
    CHECK(quarantined(h) == 0);
    CHECK(read_file(*h.files, victim)->find("SECRET") == std::string::npos);
    // The file has its own copy under the other name.
    if (links) CHECK(read_file(*h.files, "elsewhere")->find("SECRET") != std::string::npos);
    CHECK(h.get(0, key_of(0)) == "(absent)");
    CHECK(h.get(0, key_of(1)).starts_with("public"));
    h.verify(0);
  }
}

TEST_CASE("restored copy is not the file that the manifest names: the quarantine does not end") {
  Harness h(plain());
  h.open();
  fill(h, 0, 0, 300, "old");
  fill(h, 1, 0, 300, "other");
  const std::string first = h.paths(".data")[0], second = h.paths(".data")[1];
  const std::string good = *read_file(*h.files, first), other = *read_file(*h.files, second);
  write(*h.files, first, good.substr(0, 5000));
  h.reopen();
  REQUIRE(quarantined(h) == 1);
  for (const std::string& bad : {other, good + "x", flipped(good, good.size() - 3000), std::string()}) {
    write(*h.files, first, bad);
    CHECK_FALSE(h.db->verify(0)->errors.empty());
    CHECK(quarantined(h) == 1);
  }
  write(*h.files, first, good);
  CHECK(h.db->verify(0)->errors.empty());
  CHECK(quarantined(h) == 0);
  CHECK(h.get(0, key_of(3)).starts_with("old"));
}

TEST_CASE("good copy is restored after reads reported damage: the reports do not quarantine the table again") {
  Harness h(plain());
  h.open();
  fill(h, 0, 0, 300, "old");
  const std::string victim = h.paths(".data").front(), good = *read_file(*h.files, victim);
  write(*h.files, victim, flipped(good, 3000));
  h.reopen();
  const auto read_all = [&] {
    int wrong = 0;
    for (int i = 0; i < 300; ++i) wrong += refused(h.get(0, key_of(i))) ? 1 : 0;
    return wrong;
  };
  REQUIRE(read_all() > 0);
  take_notice(h);
  REQUIRE(quarantined(h) == 1);
  REQUIRE(read_all() > 0);  // reported again, with no tick in between
  write(*h.files, victim, good);
  CHECK(h.db->verify(0)->errors.empty());
  CHECK(quarantined(h) == 0);
  take_notice(h);
  CHECK(quarantined(h) == 0);
  CHECK(read_all() == 0);
}

TEST_CASE("device fails at each try of a read: the table is quarantined, and not after one failure") {
  for (const bool for_good : {false, true}) {
    INFO("for good: " << for_good);
    Harness h(plain());
    h.open();
    one_table(h);
    h.reopen();
    const std::string victim = h.paths(".data").front();
    h.faults->inject({.ops = ops_of(FileOp::kRead), .sticky = true, .path_has = victim});
    CHECK(h.get(0, key_of(5)).starts_with("I/O error: "));
    take_notice(h);
    CHECK(quarantined(h) == 0);
    if (!for_good) h.faults->clear_faults();
    for (int i = 0; i < 40; ++i) {
      h.advance(1000);
      h.settle();
    }
    CHECK(quarantined(h) == (for_good ? 1 : 0));
    h.faults->clear_faults();
    for (int i = 0; i < 3; ++i) {
      h.advance(2 * kMinute);
      h.settle();
    }
    CHECK(quarantined(h) == 0);  // the device works again
    CHECK(h.get(0, key_of(5)).starts_with("old"));
  }
}

TEST_CASE("device fails for ten seconds, or once at open: no table is quarantined") {
  Harness h(plain());
  h.open();
  one_table(h);
  h.reopen();
  const FileFault fails{.ops = ops_of(FileOp::kRead), .sticky = true, .path_has = h.paths(".data").front()};
  h.faults->inject(fails);
  CHECK(h.get(0, key_of(5)).starts_with("I/O error: "));
  for (int i = 0; i < 10; ++i) {
    h.advance(1000);
    h.settle();
    CHECK(quarantined(h) == 0);
  }
  h.faults->clear_faults();
  pass(h, 60'000);
  CHECK(quarantined(h) == 0);
  CHECK(h.get(0, key_of(5)).starts_with("old"));
  demand_ok(h.db->close(), "close");
  h.drop();
  FileFault once = fails;
  once.sticky = false;
  h.faults->inject(once);
  h.open();
  CHECK(h.faults->failures() > 0);
  CHECK(quarantined(h) == 0);
  CHECK(h.get(0, key_of(5)).starts_with("old"));
}

TEST_CASE("table is found damaged while its expired pages are dropped: the table stays quarantined") {
  Settings s = plain();
  s.tree.stamp = StampMode::kExpireTime;
  s.tree.pages_per_tile = 8;
  Harness h(s);
  h.open();
  const Millis expiry = h.db->now() + kMinute;
  for (int i = 0; i < 600; ++i) h.put(0, key_of(i), std::string(200, 'v'), i % 2 == 0 ? expiry : 0);
  flush(h, 0);
  demand_ok(h.db->compact(0, {}), "compact");
  h.settle();
  h.reopen();
  const std::string victim = h.paths(".data").front();
  bool met = false;
  h.watch->on_call = [&](const FileCall& call) {  // the drop writes new metadata of its table
    if (met || call.op != FileOp::kCreate || !call.path.ends_with(".meta")) return;
    met = true;
    h.faults->inject({.ops = ops_of(FileOp::kRead), .sticky = true, .code = Code::kCorruption, .path_has = victim});
    CHECK(refused(h.get(0, key_of(1))));
    take_notice(h);
    h.faults->clear_faults();
    CHECK(quarantined(h) == 1);
  };
  h.advance(kMinute + 1000);
  h.settle();
  h.watch->on_call = nullptr;
  REQUIRE(met);
  CHECK(quarantined(h) == 1);
  h.advance(2 * kMinute);
  h.settle();
  CHECK(quarantined(h) == 0);  // the table was read again and is intact
  h.verify(0);
  CHECK(h.get(0, key_of(1)) == std::string(200, 'v'));
}

TEST_CASE("crash at every k-th operation of a quarantine's begin or end: the next start reads correctly") {
  for (const CrashMode mode : {CrashMode::kNothing, CrashMode::kRandom, CrashMode::kEverything}) {
    bool crashed = true;
    for (std::uint64_t k = 1 + first_of_every_nth(); crashed; k += every_nth()) {
      INFO("crash before operation " << k << ", mode " << static_cast<int>(mode));
      Harness h(plain());
      h.open();
      one_table(h);
      for (int i = 0; i < 50; ++i) h.del(0, key_of(i));
      demand_ok(h.db->close(), "close");
      h.drop();
      const std::string victim = h.paths(".meta").front(), good = *read_file(*h.files, victim);
      write(*h.files, victim, "short");
      std::unique_ptr<MemoryFileSystem> left;
      bool armed = true;
      h.faults->before_nth(k, kMutatingOps, [&] {
        if (armed) left = h.files->crash_clone(k, mode);
      });
      h.open();
      flush(h, 0);
      fill(h, 0, 50, 100, "new");
      write(*h.files, victim, good);
      (void)h.db->verify(0);
      h.settle();
      armed = false;
      crashed = left != nullptr;
      if (!crashed) break;
      h.abandon(std::move(left));
      h.open();
      for (int i = 0; i < 200; ++i) {
        const std::string got = h.get(0, key_of(i));
        if (i < 50) {
          CHECK(got == "(absent)");
        } else {
          CHECK((refused(got) || got.starts_with("old") || got.starts_with("new")));
        }
      }
      write(*h.files, victim, good);
      h.advance(2000);
      h.settle();
      h.advance(2 * kMinute);
      h.settle();
      CHECK(quarantined(h) == 0);
      CHECK(h.get(0, key_of(999)).starts_with("old"));
      CHECK(h.get(0, key_of(1)) == "(absent)");
      h.verify(0);
    }
  }
}

TEST_CASE("table is quarantined: a checkpoint reports it, and refuses the same reads when opened") {
  Harness h(plain());
  h.open();
  one_table(h);
  fill(h, 1, 0, 100, "other");
  REQUIRE(h.files->unlink(h.paths(".data").front()).is_ok());
  h.reopen();
  REQUIRE(quarantined(h) == 1);
  const auto report = h.db->checkpoint("copy");
  REQUIRE(report.is_ok());
  CHECK(report->damaged == 1);
  demand_ok(h.db->close(), "close");
  h.drop();
  h.settings.dir = "copy";
  h.open();
  CHECK(quarantined(h) == 1);
  CHECK(refused(h.get(0, key_of(4))));
  CHECK(h.get(1, key_of(4)).starts_with("other"));
}

TEST_CASE("all tables of a tree are damaged: writes work, and at most twelve warnings are logged") {
  Harness h(plain());
  h.open();
  for (int part = 0; part < 30; ++part) fill(h, 0, part * 100, part * 100 + 100, "old");
  h.settle();
  const std::vector<std::string> victims = h.paths(".meta");
  for (const std::string& victim : victims) write(*h.files, victim, "short");
  h.events.warnings.clear();
  h.reopen();
  CHECK(quarantined(h) == victims.size());
  CHECK(h.events.warnings.size() <= 12);
  h.put(0, key_of(1), "new");
  flush(h, 0);
  CHECK(h.get(0, key_of(1)) == "new");
  CHECK(refused(h.get(0, key_of(2))));
}

}  // namespace TEST_FILE
}  // namespace ebbtide

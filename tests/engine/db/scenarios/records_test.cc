// Tests of secondary range deletes from the batch to the last file: a delete of the newest version must never restore an older
// one.
#include "engine/db/layouts.h"
#include "engine/db/model.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr int kKeys = 240;

struct Case {
  PolicySettings policy;
  std::uint32_t pages_per_tile;
  bool with_view;
  Partitioning partitioning = Partitioning::kSize;
};

Settings settings_for(const Case& c) {
  Settings s = Harness::small();
  s.tree.memtable_size = 16 << 10;
  s.tree.file_size = 64 << 10;
  s.tree.policy = c.policy;
  s.tree.pages_per_tile = c.pages_per_tile;
  s.tree.partitioning = c.partitioning;
  s.tree.stamp = StampMode::kExplicit;
  return s;
}

void put(Harness& h, int i, const std::string& value, DeleteKey stamp) {
  WriteBatch batch;
  batch.put(0, key_of(i), value, {stamp, 0});
  h.write(batch);
}

void delete_stamps(Harness& h, DeleteKey lo, DeleteKey hi) {
  WriteBatch batch;
  batch.delete_stamps(0, lo, hi);
  h.write(batch);
}

std::string padded(const std::string& what, int i) { return what + std::to_string(i) + std::string(100, '.'); }

/// Makes three generations of versions in separate runs. Each generation has half of the keys of the one before.
void write_generations(Harness& h, bool flush) {
  for (int i = 0; i < kKeys; ++i) put(h, i, padded("old", i), 10);
  if (flush) REQUIRE(h.db->flush(0).is_ok());
  for (int i = 0; i < kKeys; i += 2) put(h, i, padded("new", i), 100);
  if (flush) REQUIRE(h.db->flush(0).is_ok());
  for (int i = 0; i < kKeys; i += 4) put(h, i, padded("newest", i), 200);
}

std::string before_delete(int i) { return i % 4 == 0 ? padded("newest", i) : i % 2 == 0 ? padded("new", i) : padded("old", i); }
/// Returns the value after the delete. Keys divisible by 8 were written again later, with a stamp in the deleted range.
std::string after_delete(int i) {
  if (i % 8 == 0) return padded("again", i);
  return i % 2 == 0 ? "(absent)" : padded("old", i);
}

void check_keys(Harness& h, const ReadView* view, const std::string& when) {
  INFO(when);
  for (int i = 0; i < kKeys; ++i) {
    CAPTURE(i);
    REQUIRE(h.get(0, key_of(i)) == after_delete(i));
    if (view == nullptr) continue;
    Found found;
    const std::string key = key_of(i);
    REQUIRE(view->get({key, hash_key(key)}, &found).is_ok());
    REQUIRE(found.value == before_delete(i));
  }
  int there = 0;
  auto walk = h.db->iterate(h.db->lease(0), {});
  for (walk->seek_to_last(); walk->valid(); walk->prev()) ++there;
  REQUIRE(walk->status().is_ok());
  REQUIRE(there == kKeys / 2 + kKeys / 8);
  h.verify(0);
}

/// Checks that synced state survives a crash and a merge into one run.
void crash_and_merge_all(Harness& h) {
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  h.crash(CrashMode::kNothing, 1);
  h.open();
  check_keys(h, nullptr, "after a crash");
  REQUIRE(h.db->compact(0, {}).is_ok());
  check_keys(h, nullptr, "after everything was merged");
}

void resurrect(const Case& c, bool flush_between) {
  CAPTURE(c.policy.name, c.pages_per_tile, c.with_view, static_cast<int>(c.partitioning), flush_between);
  Harness h(settings_for(c));
  h.open();
  write_generations(h, flush_between);
  ReadView view;
  if (c.with_view) view = h.db->lease(0);
  delete_stamps(h, 100, 201);
  for (int i = 0; i < kKeys; i += 8) put(h, i, padded("again", i), 150);
  const ReadView* const open = c.with_view ? &view : nullptr;
  check_keys(h, open, "after the delete");
  REQUIRE(h.db->flush(0).is_ok());
  check_keys(h, open, "after the flush");
  while (h.pool.run_one()) check_keys(h, open, "after a job");
  // Merges half of the keys first. crash_and_merge_all() then merges all of them.
  REQUIRE(h.db->compact(0, {key_of(0), key_of(kKeys / 2)}).is_ok());
  check_keys(h, open, "after half was merged");
  view = ReadView();
  crash_and_merge_all(h);
  const TreeInfo info = *h.db->tree_info(0);
  std::uint64_t entries = 0;
  for (const RunInfo& run : info.runs) entries += run.entries;
  CHECK(entries == kKeys / 2 + kKeys / 8);
  CHECK(info.records == 0);
  h.reopen();
  check_keys(h, nullptr, "after a restart");
  const std::string tables = h.table_bytes();  // after the record has retired, no entry that it covered is left
  for (int i = 0; i < kKeys; i += 2) {
    for (const char* version : {"old", "new", "newest"}) {
      CAPTURE(i, version);
      REQUIRE(tables.find(version + std::to_string(i) + ".") == std::string::npos);
    }
  }
}

/// A merge knows the records in the version at its start. This record comes later, and its flush is before or after the merge's
/// edit.
void delete_while_merging(const Case& c, bool flush_first) {
  CAPTURE(c.policy.name, c.pages_per_tile, c.with_view, static_cast<int>(c.partitioning), flush_first);
  Harness h(settings_for(c));
  h.open();
  h.db->pause_compactions();  // manual merges still run
  write_generations(h, true);
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  ReadView view;
  if (c.with_view) view = h.db->lease(0);
  const ReadView* const open = c.with_view ? &view : nullptr;
  bool merging = false;
  h.watch->on_call = [&](const FileCall& call) {
    if (merging || call.op != FileOp::kCreate || !call.path.ends_with(".data")) return;
    merging = true;
    delete_stamps(h, 100, 201);
    for (int i = 0; i < kKeys; i += 8) put(h, i, padded("again", i), 150);
    if (flush_first) REQUIRE(h.db->flush(0).is_ok());
    check_keys(h, open, "in the middle of the merge");
  };
  REQUIRE(h.db->compact(0, {}).is_ok());
  h.watch->on_call = nullptr;
  REQUIRE(merging);
  check_keys(h, open, "after the merge");
  REQUIRE(h.db->flush(0).is_ok());
  check_keys(h, open, "after the flush");
  CHECK(h.db->tree_info(0)->records == 1);  // the merge's output needs it
  view = ReadView();
  crash_and_merge_all(h);
  CHECK(h.db->tree_info(0)->records == 0);
}

TEST_CASE("page drop removes the newest version of a key: no older version comes back, for any policy, h and view") {
  std::uint64_t turn = round_of_seeds();  // chooses the partitioning
  for (std::size_t p = first_of_every_nth(); p < small_policies().size(); p += every_nth()) {
    const PolicySettings& policy = small_policies()[p];
    for (const std::uint32_t h : {1u, 2u, 8u, 16u}) {
      for (const bool with_view : {false, true}) {
        for (const bool flush_between : {false, true}) {
          resurrect({policy, h, with_view, static_cast<Partitioning>(turn++ % 3)}, flush_between);
        }
      }
    }
  }
}

TEST_CASE("delete by stamp is written during a merge of its entries: it covers the merge's output") {
  std::uint64_t turn = round_of_seeds();  // chooses the partitioning
  for (std::size_t p = first_of_every_nth(); p < small_policies().size(); p += every_nth()) {
    const PolicySettings& policy = small_policies()[p];
    for (const std::uint32_t h : {1u, 8u}) {
      for (const bool with_view : {false, true}) {
        for (const bool flush_first : {false, true}) {
          delete_while_merging({policy, h, with_view, static_cast<Partitioning>(turn++ % 3)}, flush_first);
        }
      }
    }
  }
}

TEST_CASE("delete by stamp is written: views from before still see the entry, later ones do not, in memtable and tables") {
  Harness h(settings_for({{"one_leveling", {}}, 1, false}));
  h.open();
  put(h, 0, "a", 5);
  const ReadView before = h.db->lease(0);
  delete_stamps(h, 5, 6);
  const ReadView after = h.db->lease(0);
  put(h, 0, "b", 5);
  const auto value_in = [](const ReadView& view) {
    const std::string key = key_of(0);
    Found found;
    const Status status = view.get({key, hash_key(key)}, &found);
    return status.is_ok() ? std::string(found.value) : std::string("(absent)");
  };
  for (int round = 0; round < 3; ++round) {
    CHECK(value_in(before) == "a");
    CHECK(value_in(after) == "(absent)");
    CHECK(h.get(0, key_of(0)) == "b");
    if (round == 0) REQUIRE(h.db->flush(0).is_ok());
    if (round == 1) REQUIRE(h.db->compact(0, {}).is_ok());
  }
}

TEST_CASE("batch has puts and deletes by stamp: they take effect in their order") {
  Harness h(settings_for({{"one_leveling", {}}, 1, false}));
  h.open();
  WriteBatch batch;
  batch.put(0, "a", "1", {7, 0});
  batch.delete_stamps(0, 7, 8);
  batch.put(0, "b", "2", {7, 0});
  batch.delete_stamps(0, 9, 9);  // an empty range
  batch.put(1, "c", "3", {7, 0});
  REQUIRE(batch.count() == 4);
  h.write(batch);
  for (int round = 0; round < 3; ++round) {
    CHECK(h.get(0, "a") == "(absent)");
    CHECK(h.get(0, "b") == "2");
    CHECK(h.get(1, "c") == "3");  // this key is in another database
    if (round == 0) h.reopen();
    if (round == 1) REQUIRE(h.db->flush(0).is_ok());
  }
}

TEST_CASE("last entry that a delete by stamp covers is purged: the delete by stamp is removed, too") {
  Harness h(settings_for({{"one_leveling", {}}, 1, false}));
  h.open();
  put(h, 0, "covered", 50);
  REQUIRE(h.db->flush(0).is_ok());
  put(h, 1, "younger", 50);
  delete_stamps(h, 40, 60);
  put(h, 2, "later", 50);
  CHECK(h.db->tree_info(0)->records == 1);
  REQUIRE(h.db->flush(0).is_ok());
  CHECK(h.db->tree_info(0)->records == 1);
  CHECK(h.db->tree_info(0)->oldest_record_birth != 0);
  h.reopen();
  CHECK(h.db->tree_info(0)->records == 1);
  REQUIRE(h.db->compact(0, {}).is_ok());
  CHECK(h.db->tree_info(0)->records == 0);
  CHECK(h.get(0, key_of(0)) == "(absent)");
  CHECK(h.get(0, key_of(1)) == "(absent)");
  CHECK(h.get(0, key_of(2)) == "later");
  // A record that no table can need must never be stored in the version.
  delete_stamps(h, 1000, 2000);
  REQUIRE(h.db->flush(0).is_ok());
  CHECK(h.db->tree_info(0)->records == 0);
}

TEST_CASE("each delete by stamp contains the range of the one before: only one remains, with the oldest birth") {
  Harness h(settings_for({{"one_leveling", {}}, 1, false}));
  h.open();
  for (int i = 0; i < 100; ++i) put(h, i, "v", static_cast<DeleteKey>(i));
  REQUIRE(h.db->flush(0).is_ok());
  h.db->pause_compactions();
  const Millis first = h.db->now();
  for (int i = 1; i <= 50; ++i) {
    delete_stamps(h, 0, static_cast<DeleteKey>(i));
    h.advance(10);
    if (i % 7 == 0) REQUIRE(h.db->flush(0).is_ok());
  }
  REQUIRE(h.db->flush(0).is_ok());
  CHECK(h.db->tree_info(0)->records == 1);
  CHECK(h.db->tree_info(0)->oldest_record_birth >= first);
  CHECK(h.db->tree_info(0)->oldest_record_birth < first + 10);
  for (int i = 0; i < 100; ++i) CHECK(h.get(0, key_of(i)) == (i < 50 ? "(absent)" : "v"));
  h.db->resume_compactions();
}

TEST_CASE("more deletes by stamp are written than one memtable can have: further ones go to the next memtable") {
  Harness h(settings_for({{"one_leveling", {}}, 1, false}));
  h.settings.tree.memtable_size = 64 << 20;
  h.open();
  for (int i = 0; i < 100; ++i) put(h, i, "v", static_cast<DeleteKey>(10 * i));
  REQUIRE(h.db->flush(0).is_ok());
  for (DeleteKey d = 0; d < 5000; ++d) {
    WriteBatch batch;  // no record subsumes another
    batch.delete_stamps(0, 10 * (d % 50) + d / 50 % 10, 10 * (d % 50) + d / 50 % 10 + 1);
    REQUIRE(h.db->commit(batch).is_ok());
  }
  CHECK(h.db->tree_info(0)->frozen_memtables == 1);
  h.db->write_log();
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) CHECK(h.get(0, key_of(i)) == (i < 50 ? "(absent)" : "v"));
    if (round == 0) h.reopen();
    if (round == 1) REQUIRE(h.db->flush(0).is_ok());
  }
}

TEST_CASE("tree has more than 1,024 deletes by stamp: merges purge the oldest first, with and without a deadline") {
  constexpr int kLimit = 1024, kDeletes = kLimit + 76, kStep = 4;
  Harness h(settings_for({{"one_leveling", {}}, 1, false}));
  h.settings.tree.memtable_size = 8 << 20;
  h.settings.tree.delete_deadline = GENERATE(Millis{0}, Millis{24} * 3600 * 1000);
  h.open();
  for (int i = 0; i < kStep * kDeletes; ++i) put(h, i, padded("old", i), static_cast<DeleteKey>(i));
  REQUIRE(h.db->flush(0).is_ok());
  const auto add_run = [&](int run) {
    put(h, kStep * kDeletes + run, "v", 1'000'000);
    REQUIRE(h.db->flush(0).is_ok());
  };
  add_run(0);
  add_run(1);
  // Each record deletes one key, so every page has some: too many for partial drops. The oldest records have the last keys.
  const auto deleted_by = [](int n) { return kStep * (kDeletes - 1 - n); };
  const auto erase = [&](int from, int to) {
    for (int n = from; n < to; ++n) {
      const auto stamp = static_cast<DeleteKey>(deleted_by(n));
      delete_stamps(h, stamp, stamp + 1);
      h.clock.advance(1);
    }
  };
  const auto jobs = [&](const std::string& reason) {
    std::uint64_t sum = 0;
    for (const ReasonInfo& r : h.db->stats().merges_by_reason) sum += r.reason == reason ? r.jobs : 0;
    return sum;
  };
  erase(0, kLimit);
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  CHECK(h.db->tree_info(0)->records == kLimit);
  CHECK(h.db->stats().compactions == 0);
  erase(kLimit, kDeletes);
  add_run(2);  // the fourth run, so the policy merges all
  CHECK(h.db->tree_info(0)->records == kDeletes);
  while (h.db->tree_info(0)->records > kLimit) REQUIRE(h.pool.run_one());
  CHECK(jobs("deadline") > 0);
  CHECK(jobs("run_count") == 0);
  const std::string tables = h.table_bytes();
  const auto is_left = [&](int n) { return tables.find("old" + std::to_string(deleted_by(n)) + ".") != std::string::npos; };
  for (int n = 0; n < kDeletes - kLimit; ++n) CHECK_FALSE(is_left(n));
  for (int n = kDeletes / 2; n < kDeletes; n += 25) CHECK(is_left(n));
  h.settle();
  CHECK(h.db->tree_info(0)->records == 0);
  for (int i = 0; i < kStep * kDeletes; i += 3) CHECK(h.get(0, key_of(i)) == (i % kStep == 0 ? "(absent)" : padded("old", i)));
  h.verify(0);
}

TEST_CASE("entries have no stamp: they are in no range of stamps") {
  for (const StampMode mode : {StampMode::kExplicit, StampMode::kExpireTime}) {
    Harness h;
    h.settings.tree.stamp = mode;
    h.open();
    h.put(0, "none", "1");
    h.put(0, "expires", "2", h.db->now() + 100'000);
    WriteBatch stamped;
    stamped.put(0, "stamped", "3", {12, 0});
    h.write(stamped);
    delete_stamps(h, 0, kDeleteKeyEnd);
    for (int round = 0; round < 2; ++round) {
      CHECK(h.get(0, "none") == "1");
      CHECK(h.get(0, "expires") == (mode == StampMode::kExpireTime ? "(absent)" : "2"));
      CHECK(h.get(0, "stamped") == (mode == StampMode::kExplicit ? "(absent)" : "3"));
      REQUIRE(h.db->compact(0, {}).is_ok());
    }
  }
}

TEST_CASE("keys are looked up by stamp: only pages whose delete fence overlaps the range are read") {
  Harness h;
  h.settings.tree.stamp = StampMode::kExplicit;
  h.settings.tree.pages_per_tile = 8;
  h.settings.tree.memtable_size = 4 << 20;
  h.settings.tree.file_size = 4 << 20;
  h.open();
  Random random(5);
  std::vector<DeleteKey> stamps;
  for (int i = 0; i < 4000; ++i) {
    stamps.push_back(random.uniform(100'000));
    put(h, i, padded("v", i), stamps.back());
  }
  REQUIRE(h.db->compact(0, {}).is_ok());
  const std::uint64_t pages = h.db->verify(0)->pages;
  h.reopen();  // the cache is empty afterwards
  const ReadView view = h.db->lease(0);
  std::uint64_t read = 0, keys = 0;
  std::string from;
  for (bool more = true; more;) {
    const auto found = *h.db->scan_stamps(view, 50'000, 51'000, from, 100, 10);
    read += found.pages_read;
    keys += found.keys.size();
    more = found.more;
    from = found.resume;
  }
  const auto in_range = [](DeleteKey d) { return d >= 50'000 && d < 51'000; };
  CHECK(keys == static_cast<std::uint64_t>(std::count_if(stamps.begin(), stamps.end(), in_range)));
  // The lookup reads one or two of the eight pages of a tile.
  CHECK(read * 4 < pages);
  const std::uint64_t estimate = h.db->estimate_stamps(0, 50'000, 51'000);
  CHECK(estimate > keys / 2);
  CHECK(estimate < keys * 2);
  // Pages that a record covers completely do not count.
  delete_stamps(h, 0, 60'000);
  CHECK(h.db->estimate_stamps(0, 50'000, 51'000) == 0);
  const auto none = *h.db->scan_stamps(h.db->lease(0), 50'000, 51'000, "", 1000, 10'000);
  CHECK(none.keys.empty());
}

TEST_CASE("keys are looked up by stamp in steps of any size: each key of the range is found once, in order") {
  Harness h;
  h.settings.tree.stamp = StampMode::kExplicit;
  h.settings.tree.pages_per_tile = 4;
  h.settings.tree.file_size = 64 << 10;
  h.open();
  h.db->pause_compactions();
  Random random(11);
  std::map<std::string, DeleteKey> stamps;
  // The runs have different densities, each with newer stamps for some keys; the newest versions are in memory.
  for (const int step : {1, 7, 3, 40}) {
    for (int i = 0; i < 2000; i += step) {
      const DeleteKey stamp = random.uniform(20);
      put(h, i, padded("v", i), stamp);
      stamps[key_of(i)] = stamp;
    }
    if (step != 40) REQUIRE(h.db->flush(0).is_ok());
  }
  const ReadView view = h.db->lease(0);
  for (const auto& [lo, hi] : {std::pair<DeleteKey, DeleteKey>{3, 6}, {19, 20}, {0, 1}, {0, kDeleteKeyEnd}}) {
    std::vector<std::string> expected;
    for (const auto& [key, stamp] : stamps) {
      if (lo <= stamp && stamp < hi) expected.push_back(key);
    }
    for (const std::size_t keys_at_once : {1, 3, 1000}) {
      for (const std::uint64_t pages_at_once : {1, 5, 10'000}) {
        INFO(lo << " to " << hi << ", " << keys_at_once << " keys and " << pages_at_once << " pages at once");
        std::vector<std::string> seen;
        std::string from;
        for (bool more = true; more;) {
          const auto found = *h.db->scan_stamps(view, lo, hi, from, keys_at_once, pages_at_once);
          CHECK(found.keys.size() <= keys_at_once);
          for (const auto& key : found.keys) seen.push_back(key.key);
          more = found.more;
          from = found.resume;
        }
        REQUIRE(seen == expected);
      }
    }
  }
}

TEST_CASE("edit of a flush fails: no delete by stamp is lost, and a restart finds the deletes in the log") {
  Harness h(settings_for({{"one_leveling", {}}, 1, false}));
  h.open();
  put(h, 0, "covered", 50);
  REQUIRE(h.db->flush(0).is_ok());
  delete_stamps(h, 40, 60);
  for (const CrashMode mode : {CrashMode::kNothing, CrashMode::kEverything}) {
    h.faults->inject({.ops = ops_of(FileOp::kWrite), .path_has = "MANIFEST"});
    CHECK_FALSE(h.db->flush(0).is_ok());
    CHECK(h.faults->failures() == 1);
    CHECK(h.get(0, key_of(0)) == "(absent)");
    REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
    h.crash(mode, 3);
    h.open();
    CHECK(h.get(0, key_of(0)) == "(absent)");
  }
  REQUIRE(h.db->flush(0).is_ok());
  CHECK(h.get(0, key_of(0)) == "(absent)");
}

}  // namespace TEST_FILE

// Tests of page drops for secondary range deletes in a database: nothing is read, restored or lost.
#include <algorithm>
#include <optional>
#include <set>

#include "engine/db/data_reads.h"
#include "engine/db/harness.h"
#include "engine/db/layouts.h"
#include "io/file_names.h"
#include "support/long_run.h"
#include "support/planted.h"
#include "table/metadata.h"

namespace TEST_FILE {

using namespace ebbtide;

Settings record_settings(std::uint32_t h) {
  Settings s = Harness::small();
  s.fsync = FsyncMode::kAlways;
  s.tree.stamp = StampMode::kExplicit;
  s.tree.pages_per_tile = h;
  s.tree.delete_deadline = 1000;  // pages are dropped as soon as possible
  return s;
}

Settings record_settings(const Layout& layout) {
  Settings s = record_settings(layout.pages_per_tile);
  s.tree.memtable_size = 16 << 10;
  layout.set(&s.tree);
  return s;
}

std::string value_of(int i, const char* version) {
  return "<" + std::string(version) + " value " + std::to_string(i) + ">" + std::string(140, '.');
}
// Returns the stamp of a key. Stamps are spread over the keys, so that every tile has all of them.
DeleteKey stamp_of(int i) { return static_cast<DeleteKey>(i * 7919 % 1000); }

void put(Harness& h, int i, const char* version, DeleteKey stamp) {
  WriteBatch batch;
  batch.put(0, key_of(i), value_of(i, version), {stamp, 0});
  h.write(batch);
}

void erase(Harness& h, DeleteKey lo, DeleteKey hi) {
  WriteBatch batch;
  batch.delete_stamps(0, lo, hi);
  h.write(batch);
}

void flush(Harness& h) {
  demand_ok(h.db->flush(0), "flush");
  h.settle();
}

void let_drop(Harness& h) {
  for (int i = 0; i < 3; ++i) {
    h.advance(2000);
    h.settle();
  }
}

std::ptrdiff_t found_on_disk(Harness& h, const std::set<std::string>& markers) {
  const std::string tables = h.table_bytes();
  return std::count_if(markers.begin(), markers.end(), [&](const auto& m) { return tables.find(m) != std::string::npos; });
}

// Tests that deleted keys stay deleted through drops, a restart and a merge, with and without an open view, rewritten or not.
void try_to_bring_back(const Layout& layout, bool with_view, bool rewritten) {
  INFO(text_of(layout) << ", view " << with_view << ", rewritten " << rewritten);
  Settings settings = record_settings(layout);
  if (with_view) settings.tree.delete_deadline = 3'600'000;  // otherwise the view would be revoked
  Harness h(settings);
  h.open();
  const int keys = 300;
  // Every version has its own stamp; the stamps of older versions are outside of the deleted range.
  for (int i = 0; i < keys; ++i) put(h, i, "older", 2000 + stamp_of(i));
  flush(h);
  for (int i = 0; i < keys; ++i) put(h, i, "newer", stamp_of(i));
  flush(h);
  for (int i = keys; i < 2 * keys; ++i) put(h, i, "only", stamp_of(i));
  flush(h);
  std::optional<ReadView> view;
  if (with_view) view.emplace(h.db->lease(0));
  erase(h, 300, 700);
  if (rewritten) {
    for (int i = 0; i < 2 * keys; i += 3) put(h, i, "again", 500);
  }
  const auto expected = [&](int i) {
    if (rewritten && i % 3 == 0) return value_of(i, "again");
    const bool gone = stamp_of(i) >= 300 && stamp_of(i) < 700;
    return gone ? std::string("(absent)") : value_of(i, i < keys ? "newer" : "only");
  };
  const auto check = [&] {
    for (int i = 0; i < 2 * keys; ++i) {
      demand_same(h.get(0, key_of(i)), expected(i), key_of(i));
    }
    h.verify(0);
  };
  check();
  flush(h);
  let_drop(h);
  check();
  if (view) {
    for (int i = 0; i < 2 * keys; ++i) {
      const std::string key = key_of(i);
      Found found;
      const Status status = view->get({key, hash_key(key)}, &found);
      demand_ok(status, "get in a view");
      demand(found.value == Bytes(value_of(i, i < keys ? "newer" : "only")), "an open view has another value");
    }
    view.reset();
  }
  let_drop(h);
  check();
  h.reopen();
  let_drop(h);
  check();
  demand_ok(h.db->compact(0, {}), "compact");
  h.settle();
  check();
  std::set<std::string> markers;
  for (int i = 0; i < 2 * keys; ++i) {
    if (stamp_of(i) >= 300 && stamp_of(i) < 700)
      markers.insert("<" + std::string(i < keys ? "newer" : "only") + " value " + std::to_string(i) + ">");
  }
  let_drop(h);
  demand(found_on_disk(h, markers) == 0, "tables still have deleted data");
  demand(h.db->tree_info(0)->records == 0, "a record stays although it covers nothing");
}

TEST_CASE("dead pages cannot be punched: their tables are rewritten by the deadline, even if merges are paused", "[drops]") {
  Settings settings = record_settings(8);
  settings.tree.delete_deadline = 600'000;
  Harness h(settings);
  h.open();
  std::set<std::string> dead;
  for (int i = 0; i < 400; ++i) {
    put(h, i, "only", stamp_of(i));
    if (stamp_of(i) < 300) dead.insert("<only value " + std::to_string(i) + ">");
  }
  flush(h);
  REQUIRE(found_on_disk(h, dead) == static_cast<std::ptrdiff_t>(dead.size()));
  h.faults->inject({.ops = ops_of(FileOp::kSync), .path_has = ".data"});
  erase(h, 0, 300);
  h.advance(200'000);  // more than a quarter of the deadline, so pages are dropped
  while (h.db->stats().pages_dropped_full == 0) REQUIRE(h.pool.run_one());
  h.db->pause_compactions();
  h.settle();
  REQUIRE(h.db->stats().reclaimed_bytes_punched == 0);
  for (int i = 0; i < 70; ++i) {
    h.advance(6'000);
    h.db->write_log();
    h.settle();
  }
  CHECK(found_on_disk(h, dead) == 0);
  CHECK(h.db->stats().deadlines_missed_load == 0);
  h.verify(0);
}

TEST_CASE("delete by stamp covers whole bottommost pages: its drop reads no data", "[drops]") {
  for (const std::uint32_t tile : {2u, 8u, 16u}) {
    INFO("h " << tile);
    Settings settings = record_settings(tile);
    settings.tree.delete_deadline = 0;  // otherwise entries that share a page with live ones would be rewritten
    Harness h(settings);
    h.open();
    // There are two stamps, each in its own pages: the pages of a tile are cut between them.
    for (int i = 0; i < 400; ++i) put(h, i, "first", i % 2 == 0 ? 10 : 20);
    flush(h);
    std::uint64_t data_reads = 0;
    h.watch->on_call = [&](const FileCall& call) {
      if (reads_behind_header(call)) data_reads += call.length;
    };
    erase(h, 20, kDeleteKeyEnd);
    flush(h);
    let_drop(h);
    h.watch->on_call = nullptr;
    const Stats stats = h.db->stats();
    CHECK(stats.pages_dropped_full > 0);
    CHECK(stats.reclaimed_bytes_punched > 0);
    CHECK(data_reads <= stats.pages_dropped_partial * 4096);  // one block is read of each page that has both stamps
    for (int i = 0; i < 400; ++i) REQUIRE(h.get(0, key_of(i)) == (i % 2 == 0 ? value_of(i, "first") : "(absent)"));
    h.verify(0);
    h.reopen();
    for (int i = 0; i < 400; ++i) REQUIRE(h.get(0, key_of(i)) == (i % 2 == 0 ? value_of(i, "first") : "(absent)"));
  }
}

TEST_CASE("delete by stamp covers exactly whole pages: they are punched without reading a byte of data", "[drops]") {
  constexpr int kKeys = 200;
  for (const Millis deadline : {Millis{0}, Millis{1000}}) {
    INFO("deadline " << deadline);
    Settings settings = record_settings(64);
    settings.tree.delete_deadline = deadline;
    settings.scrub_interval = 0;  // verify reads everything
    Harness h(settings);
    h.open();
    // The tile is the whole table. The names of its ends stay, since the table stores them.
    const auto stamp = [](int i) { return i == 0 || i == kKeys - 1 ? DeleteKey{1000} : stamp_of(i); };
    for (int i = 0; i < kKeys; ++i) put(h, i, "only", stamp(i));
    flush(h);
    REQUIRE(h.paths(".meta").size() == 1);
    const std::string path = h.paths(".meta")[0];
    FileKind kind{};
    FileNum number = kNoFile;
    REQUIRE(parse_file_name(path.substr(path.find_last_of('/') + 1), &kind, &number));
    const auto table = TableMetadata::decode(read_file(*h.files, path).value(), number, path);
    REQUIRE(table.is_ok());
    REQUIRE(table->tiles.size() == 1);
    REQUIRE(table->pages.size() > 8);
    // The delete reaches from the first stamp of one page to the last stamp of another.
    const std::size_t first = 2, last = table->pages.size() / 2;
    const DeleteKey lo = table->pages[first].min_delete_key, hi = table->pages[last].max_delete_key + 1;
    const auto is_dead = [&](int i) { return lo <= stamp(i) && stamp(i) < hi; };
    std::set<std::string> dead;
    for (int i = 0; i < kKeys; ++i) {
      if (is_dead(i)) dead.insert("<only value " + std::to_string(i) + ">");
    }
    REQUIRE(found_on_disk(h, dead) == static_cast<std::ptrdiff_t>(dead.size()));
    std::uint64_t data_reads = 0;
    h.watch->on_call = [&](const FileCall& call) {
      if (reads_behind_header(call)) data_reads += call.length;
    };
    erase(h, lo, hi);
    flush(h);
    let_drop(h);
    h.watch->on_call = nullptr;
    CHECK(data_reads == 0);
    const Stats stats = h.db->stats();
    CHECK(stats.pages_dropped_full == last - first + 1);
    CHECK(stats.pages_dropped_partial == 0);
    CHECK(stats.reclaimed_bytes_punched == table->pages[last].offset + table->pages[last].length - table->pages[first].offset);
    for (const ReasonInfo& reason : stats.merges_by_reason) CHECK((reason.reason == "manual" || reason.bytes_read == 0));
    CHECK(found_on_disk(h, dead) == 0);
    for (int i = 0; i < kKeys; ++i) REQUIRE(h.get(0, key_of(i)) == (is_dead(i) ? "(absent)" : value_of(i, "only")));
    h.verify(0);
  }
}

TEST_CASE("delete by stamp partly covers over 1/8 of a table: no data is read, and the table is rewritten by the deadline",
          "[drops]") {
  constexpr int kKeys = 4000;
  const DeleteKey ranges = GENERATE(DeleteKey{1}, DeleteKey{8});  // each range is in one or two of a tile's 32 pages
  const bool in_part = ranges == 1;
  Settings settings = record_settings(32);
  settings.tree.memtable_size = 8 << 20;
  settings.tree.file_size = 4 << 20;
  settings.tree.delete_deadline = 600'000;
  settings.scrub_interval = 0;  // verify reads everything
  Harness h(settings);
  h.open();
  const auto is_dead = [&](int i) { return stamp_of(i) / 125 < ranges && stamp_of(i) % 125 >= 14 && stamp_of(i) % 125 < 17; };
  std::set<std::string> dead;
  for (int i = 0; i < kKeys; ++i) {
    put(h, i, "only", stamp_of(i));
    if (is_dead(i)) dead.insert("<only value " + std::to_string(i) + ">");
  }
  flush(h);
  const std::vector<std::string> tables = h.paths(".data");
  REQUIRE(tables.size() == 1);
  std::uint64_t data_reads = 0;
  h.watch->on_call = [&](const FileCall& call) {
    if (reads_behind_header(call)) data_reads += call.length;
  };
  for (DeleteKey r = 0; r < ranges; ++r) erase(h, 125 * r + 14, 125 * r + 17);
  flush(h);
  const auto pass = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      h.advance(6'000);
      h.db->write_log();
      h.settle();
    }
  };
  pass(40);  // more than a quarter of the deadline, so partial drops are done
  CHECK((h.db->stats().pages_dropped_partial > 0) == in_part);
  CHECK((data_reads > 0) == in_part);
  CHECK(h.paths(".data") == tables);
  pass(61);
  h.watch->on_call = nullptr;
  CHECK((h.paths(".data") == tables) == in_part);
  CHECK(found_on_disk(h, dead) == 0);
  for (const ReasonInfo& reason : h.db->stats().merges_by_reason) {
    if (reason.reason == "deadline") CHECK(reason.jobs == (in_part ? 0 : 1));
  }
  CHECK(h.db->stats().deadlines_missed_load == 0);
  CHECK(h.db->tree_info(0)->records == 0);
  for (int i = 0; i < kKeys; ++i) REQUIRE(h.get(0, key_of(i)) == (is_dead(i) ? "(absent)" : value_of(i, "only")));
  h.verify(0);
}

TEST_CASE("pages are dropped for any h and policy, with or without a view: no older version comes back", "[drops]") {
  for (std::size_t policy = first_of_every_nth(); policy < small_policies().size(); policy += every_nth()) {
    std::uint64_t turn = round_of_seeds() + policy;  // chooses the partitioning
    for (const std::uint32_t tile : {1u, 2u, 8u, 16u}) {
      for (const bool with_view : {false, true}) {
        for (const bool rewritten : {false, true}) {
          try_to_bring_back({small_policies()[policy], static_cast<Partitioning>(turn++ % 3), tile}, with_view, rewritten);
        }
      }
    }
  }
}

TEST_CASE("planted bug drops a page that hides older versions: the search for older versions finds the bug", "[drops][planted]") {
  // Not every policy leaves an older version below the page.
  must_catch(PlantedBug::kDropWhatHides, [] {
    for (std::uint64_t turn = 0; turn < small_policies().size(); ++turn) {
      Layout layout = layout_of(turn);
      layout.pages_per_tile = 8;
      try_to_bring_back(layout, false, false);
    }
  });
}

TEST_CASE("crash at every k-th operation of partial drops: deleted keys stay deleted, and live keys stay", "[drops]") {
  constexpr int kKeys = 400;
  const std::uint64_t step = number_from_env("EBBTIDE_CRASH_STEP", 1);
  const auto is_dead = [](int i) { return stamp_of(i) >= 330 && stamp_of(i) < 670; };
  const auto has_older = [](int i) { return i < kKeys / 2; };
  std::set<std::string> dead;
  for (int i = 0; i < kKeys; ++i) {
    if (!is_dead(i)) continue;
    dead.insert("<newer value " + std::to_string(i) + ">");
    if (has_older(i)) dead.insert("<older value " + std::to_string(i) + ">");
  }
  std::uint64_t turn = round_of_seeds();  // chooses the layout, one for each operation
  for (const CrashMode mode : {CrashMode::kNothing, CrashMode::kRandom, CrashMode::kEverything}) {
    std::uint64_t ended = 0, in_part = 0;  // ended: consecutive turns without a k-th operation
    for (std::uint64_t k = 1; ended < small_policies().size(); k += step, ++turn) {
      Layout layout = layout_of(turn);
      layout.pages_per_tile = 16;
      INFO("crash before operation " << k << ", mode " << static_cast<int>(mode) << ", " << text_of(layout));
      Harness h(record_settings(layout));
      h.open();
      // Older versions have stamps outside of the deleted range. If one of a deleted key can be read, a crash has restored it.
      for (int i = 0; i < kKeys; ++i) {
        if (has_older(i)) put(h, i, "older", 2000 + stamp_of(i));
      }
      flush(h);
      for (int i = 0; i < kKeys; ++i) put(h, i, "newer", stamp_of(i));
      flush(h);
      REQUIRE(found_on_disk(h, dead) > 0);
      erase(h, 330, 670);
      const auto check = [&] {
        for (int i = 0; i < kKeys; ++i)
          demand_same(h.get(0, key_of(i)), is_dead(i) ? "(absent)" : value_of(i, "newer"), key_of(i));
      };
      std::unique_ptr<MemoryFileSystem> left;
      std::uint64_t calls = 0;
      h.watch->on_call = [&](const FileCall& call) {
        if ((ops_of(call.op) & kMutatingOps) != 0 && ++calls == k) left = h.files->crash_clone(first_seed() + k, mode);
      };
      flush(h);
      let_drop(h);
      h.watch->on_call = nullptr;
      in_part = std::max(in_part, h.db->stats().pages_dropped_partial);
      ended = left == nullptr ? ended + 1 : 0;
      if (left == nullptr) left = h.files->crash_clone(first_seed() + k, mode);
      h.abandon(std::move(left));
      h.open();
      check();
      flush(h);
      let_drop(h);
      check();
      h.verify(0);
      REQUIRE(h.db->tree_info(0)->records == 0);  // all deleted keys must still be absent
      REQUIRE(found_on_disk(h, dead) == 0);
    }
    CHECK(in_part > 0);
    ++turn;
  }
}

TEST_CASE("table has younger deletes: the names of dropped keys are still removed by their own deadline", "[drops]") {
  const Millis hour = 3'600'000;
  Settings settings = record_settings(16);
  settings.tree.delete_deadline = hour;
  Harness h(settings);
  h.open();
  for (int i = 0; i < 800; ++i) put(h, i, "only", stamp_of(i));
  demand_ok(h.db->compact(0, {}), "compact");
  const Millis born = h.db->stats().engine_time;
  const auto go_on_until = [&](Millis time) {
    while (h.db->stats().engine_time < time) {
      h.advance(10'000);
      h.settle();
    }
  };
  erase(h, 0, 200);
  flush(h);
  go_on_until(born + hour / 3);
  REQUIRE(h.db->stats().pages_dropped_full > 0);
  REQUIRE(h.db->tree_info(0)->records == 0);
  CHECK(h.db->tree_info(0)->oldest_obligation == born);  // keys in the tables' metadata still need the record
  // There are too many edges for partial drops; their merge comes long after the first delete is due.
  erase(h, 600, 700);
  flush(h);
  go_on_until(born + 2 * hour);
  CHECK(h.db->stats().deadlines_missed_load == 0);
  CHECK(h.db->tree_info(0)->oldest_obligation == 0);
  h.verify(0);
}

}  // namespace TEST_FILE

// Tests of the choice of pages to drop. Each condition is tested on its own. Then random trees are compared with a model: no
// reader may see a drop.
#include "compaction/page_drops.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "base/epoch.h"
#include "base/hash.h"
#include "base/random.h"
#include "compaction/executor.h"
#include "compaction/table_files.h"
#include "io/file_names.h"
#include "io/memory_fs.h"
#include "table/metadata.h"
#include "tree/text.h"

namespace TEST_FILE {

using namespace ebbtide;

struct E {
  std::string key;
  SeqNum seq = 0;
  DeleteKey d = kNoStamp;
  Millis expiry = 0;
  EntryKind kind = EntryKind::kValue;
  bool first = false;
  Millis debt = 0;
  std::size_t bytes = 800;  // bytes of the value: with pages of 1 KiB each entry has a page of its own

  [[nodiscard]] Entry view(const std::string& value) const {
    Entry e;
    e.key = key;
    e.seq = seq;
    e.kind = kind;
    e.first = first;
    e.delete_key = d;
    e.expiry = expiry;
    e.debt = debt;
    if (kind != EntryKind::kTombstone) e.value = value;
    return e;
  }
};

// Runs of real tables, newest first, and all inputs of a plan.
struct Bed {
  MemoryFileSystem fs;
  Epoch epoch;
  BlockCache cache{std::uint64_t{4} << 20, epoch};
  std::map<FileNum, std::shared_ptr<TableReader>> readers;  // by the number of the metadata file
  std::shared_ptr<Version> version = std::make_shared<Version>();
  std::vector<Record> deletes;
  RecordSet records;
  PageDropInput input;
  FileNum next_file = 1;
  double filter_bits = 0;  // filter bits of the next run that is added
  std::set<FileNum> busy;
  CompactionEnv env;

  Bed() {
    REQUIRE(fs.create_dir("db").is_ok());
    version->tree = 1;
    version->stamp = StampMode::kExplicit;
    input.now = 1000;
    input.visible_seq = 10'000;
    input.busy = [this](FileNum file) { return busy.count(file) != 0; };
    input.table = [this](const FileMeta& file) { return readers.at(file.metadata_file).get(); };
    env.fs = &fs;
    env.dir = "db";
    env.new_file = [this] { return next_file++; };
    env.open_table = [this](const FileMeta& meta) -> Result<std::shared_ptr<TableReader>> {
      return readers.at(meta.metadata_file);
    };
  }

  std::shared_ptr<TableReader> open(const FileMeta& meta) {
    auto reader = TableReader::open({&fs, &cache, "db", false}, files_of(meta));
    INFO(reader.status().to_string());
    REQUIRE(reader.is_ok());
    return *reader;
  }
  // Adds a run that is older than all earlier ones. Entries are in table order.
  void run(const std::vector<E>& entries, std::uint32_t h = 1, const std::vector<RangeTombstone>& ranges = {}) {
    Run run;
    run.id = version->next_run++;
    run.level = static_cast<int>(run.id);
    if (!entries.empty()) {
      TableBuilderOptions options;
      options.fs = &fs;
      options.dir = "db";
      options.data_file = next_file++;
      options.metadata_file = next_file++;
      options.page_size = 1024;
      options.pages_per_tile = h;
      options.filter_slices.clear();
      if (filter_bits > 0) options.filter_slices.push_back(filter_bits);
      options.compression = Compression::kNone;
      TableBuilder builder(options);
      for (const E& e : entries) {
        const std::string value(e.bytes, 'v');
        REQUIRE(builder.add(e.view(value)).is_ok());
      }
      for (const RangeTombstone& t : ranges) builder.add_range_tombstone(t);
      auto built = builder.finish();
      REQUIRE(built.is_ok());
      run.files.push_back(std::make_shared<const FileMeta>(meta_of(*built)));
      readers[built->metadata_file] = open(*run.files.back());
    }
    version->runs.push_back(std::move(run));
  }
  void erase(DeleteKey lo, DeleteKey hi, SeqNum seq, Millis birth = 500) { deletes.push_back({lo, hi, seq, birth}); }

  PageDrops plan() {
    records = RecordSet(deletes);
    input.records = &records;
    input.version = version.get();
    return plan_page_drops(input);
  }
  // Carries out a plan for the version, with the records of the last plan(). The version stays as it is.
  CompactionResult carry_out(const Plan& plan) {
    version->records = std::make_shared<const RecordSet>(records);
    version->flushed_seq = input.visible_seq;
    CompactionContext context;
    context.now = input.now;
    context.visible_seq = input.visible_seq;
    auto done = execute(plan, *version, context, env);
    INFO(done.status().to_string());
    REQUIRE(done.is_ok());
    return std::move(done).value();
  }
  // Changes the description of the only file of the newest run.
  void describe(const std::function<void(FileMeta*)>& change) {
    FileMeta file = *version->runs.front().files.front();
    change(&file);
    version->runs.front().files = {std::make_shared<const FileMeta>(file)};
  }
  // Returns the plan's pages: "2: 0 3 | 1; ..." by the run's position in the list (1 = newest), or "none".
  std::string pages() {
    const PageDrops found = plan();
    if (found.plan.empty()) return "none";
    std::string out;
    for (const PageSet& set : std::get<Drop>(found.plan.action).pages) {
      if (!out.empty()) out += "; ";
      out += std::to_string(set.run) + ":";
      for (const std::uint32_t p : set.whole) out += " " + std::to_string(p);
      if (!set.parts.empty()) out += " |";
      for (const std::uint32_t p : set.parts) out += " " + std::to_string(p);
    }
    return out;
  }
};

TEST_CASE("all entries of a page have expired: the page is dropped, and no other page is", "[drops]") {
  Bed bed;
  bed.run({{"a", 1, kNoStamp, 900}, {"b", 2, kNoStamp, 1001}, {"c", 3}, {"d", 4, kNoStamp, 1000}, {"e", 5, 77, 10}});
  CHECK(bed.pages() == "1: 0 3 4");
  bed.input.now = 1001;
  CHECK(bed.pages() == "1: 0 1 3 4");
  bed.input.now = 9;
  CHECK(bed.pages() == "none");
  CHECK(bed.plan().next_look == 10);
}

TEST_CASE("page has an entry without expiry: it is not dropped as expired", "[drops]") {
  Bed bed;
  bed.run({{"a", 1, 5, 900, EntryKind::kValue, false, 0, 300},
           {"b", 2, 5, 0, EntryKind::kValue, false, 0, 300},  // b shares the page of a
           {"c", 3, 5, 900, EntryKind::kValue, false, 0, 300},
           {"d", 4, 5, 900, EntryKind::kValue, false, 0, 300}});
  CHECK(bed.pages() == "1: 1");
}

TEST_CASE("page has entries other than plain values: the page is not dropped unread", "[drops]") {
  // The first page has one such entry; the second has entries that can be dropped.
  const E others[] = {{"a", 1, 5, 900, EntryKind::kHeader, false, 0, 10},
                      {"a", 1, 900, 0, EntryKind::kTombstone, false, 0, 0},
                      {"a", 1, 5, 900, EntryKind::kValue, false, 0, 70'000}};  // the value is in blocks of its own
  for (const E& other : others) {
    for (const bool by_record : {false, true}) {
      Bed bed;
      bed.run({other, {"b", 3, 5, by_record ? Millis{0} : Millis{900}}, {"c", 4, 5, by_record ? Millis{0} : Millis{900}}});
      if (by_record) bed.erase(0, kDeleteKeyEnd, 50);
      CHECK(bed.pages() == "1: 1");
    }
  }
}

TEST_CASE("run is bottommost for a page of dead entries: the page is dropped, whatever newer runs contain", "[drops]") {
  Bed bed;
  bed.run({{"a", 11, 5, 2000}, {"e", 12, 5, 2000}});
  bed.run({{"a", 1, 5, 900}, {"c", 2, 5, 900}, {"e", 3, 5, 900}, {"g", 4, 5, 900}});
  CHECK(bed.pages() == "2: 0 1 2 3");
  bed.run({{"b", 0, 5, 2000}, {"d", 0, 5, 2000}});  // an older run from b to d
  CHECK(bed.pages() == "2: 2 3");
}

TEST_CASE("page has only versions flagged `first` (no older ones): it is dropped in any run", "[drops]") {
  Bed bed;
  bed.run({{"a", 11, 5, 900, EntryKind::kValue, true}, {"b", 12, 5, 900}, {"c", 13, 5, 900, EntryKind::kValue, true}});
  bed.run({{"a", 1, 5}, {"d", 2, 5}});
  CHECK(bed.pages() == "1: 0 2");
}

TEST_CASE("page has delete debts: the page is dropped only if the run is bottommost", "[drops]") {
  Bed bed;
  bed.run({{"a", 11, 5, 900, EntryKind::kValue, true, 77}, {"b", 12, 5, 900, EntryKind::kValue, true}});
  CHECK(bed.pages() == "1: 0 1");
  bed.run({{"a", 1, 5}, {"d", 2, 5}});
  CHECK(bed.pages() == "1: 1");
}

TEST_CASE("running job reads a table: none of its pages are dropped, and a time for the next search is set", "[drops]") {
  Bed bed;
  bed.run({{"a", 1, 5, 900}});
  bed.busy.insert(bed.version->runs[0].files[0]->data_file);
  const PageDrops found = bed.plan();
  CHECK(found.plan.empty());
  CHECK(found.next_look > bed.input.now);
  bed.busy.clear();
  CHECK(bed.pages() == "1: 0");
}

TEST_CASE("tile has two versions of a key: if the page of the older one is kept, so is that of the newer one", "[drops]") {
  for (const Millis older_expiry : {Millis{0}, Millis{2000}, Millis{900}}) {
    INFO("expiry of the older version " << older_expiry);
    Bed bed;
    // The entries are sorted by delete key: the newest version of b is in page 0, its older version in page 2.
    bed.run({{"a", 13, 20, 0}, {"b", 9, 10, 900}, {"b", 2, 30, older_expiry}, {"c", 14, 40, 0}}, 4);
    CHECK(bed.pages() == (older_expiry == 900 ? "1: 0 2" : "none"));
  }
  // If every page that stays is newer than this page, this page hides none of their entries.
  Bed bed;
  bed.run({{"a", 13, 20, 0}, {"b", 19, 10, 0}, {"b", 2, 30, 900}, {"c", 14, 40, 0}}, 4);
  CHECK(bed.pages() == "1: 2");
}

TEST_CASE("versions of one key fill several tiles: pages of these tiles are not dropped", "[drops]") {
  Bed bed;
  std::vector<E> entries;
  for (SeqNum seq = 60; seq > 0; --seq) entries.push_back({"b", seq, 5, 900, EntryKind::kValue, false, 0, 60'000});
  entries.push_back({"c", 1, 5, 900});
  bed.run(entries);
  const auto& table = *bed.readers.begin()->second;
  REQUIRE(table.tile_count() > 2);
  REQUIRE_FALSE(table.page_fence(0).unique_keys);
  CHECK(bed.pages() == "1: " + std::to_string(table.page_count() - 1));
}

TEST_CASE("deletes by stamp cover pages completely: the pages are dropped", "[drops]") {
  Bed bed;
  bed.run({{"a", 1, 10}, {"b", 2, 20}, {"c", 3, 30}, {"d", 4, kNoStamp}, {"e", 60, 20}});
  bed.erase(10, 30, 50);
  CHECK(bed.pages() == "1: 0 1");
  bed.erase(30, 31, 51);
  CHECK(bed.pages() == "1: 0 1 2");
  bed.erase(0, kDeleteKeyEnd, 52);
  CHECK(bed.pages() == "1: 0 1 2");  // d has no stamp and e is newer than all records, so both stay
}

TEST_CASE("some reader cannot see a delete by stamp yet: the delete drops no page", "[drops]") {
  Bed bed;
  bed.run({{"a", 1, 10}, {"b", 40, 20}});
  bed.erase(10, 30, 50);
  bed.input.visible_seq = 49;
  CHECK(bed.pages() == "none");
  bed.input.visible_seq = 50;
  CHECK(bed.pages() == "1: 0 1");
}

TEST_CASE("delete by stamp covers a page and all its older versions: the page is dropped", "[drops]") {
  const auto with = [](auto change) {
    Bed bed;
    bed.version->stamp = StampMode::kWriteTime;
    bed.run({{"a", 11, 110}, {"b", 12, 120}, {"c", 13, 130}});
    bed.run({{"a", 1, 10}, {"c", 2, 20}});
    bed.erase(10, 125, 50);
    change(bed);
    return bed.pages();
  };
  CHECK(with([](Bed&) {}) == "1: 0 1; 2: 0 1");
  CHECK(with([](Bed& bed) { bed.version->stamp = StampMode::kExplicit; }) == "2: 0 1");
  CHECK(with([](Bed& bed) { bed.deletes = {{11, 125, 50, 500}}; }) == "2: 1");
  CHECK(with([](Bed& bed) { bed.run({{"b", 0, kNoStamp}, {"bb", 0, 15}}); }) == "1: 0; 2: 1; 3: 1");
  CHECK(with([](Bed& bed) { bed.run({{"d", 0, kNoStamp}}); }) == "1: 0 1; 2: 0 1");  // d overlaps no page
  // There is a gap between the record over the page and the record over the older versions.
  CHECK(with([](Bed& bed) { bed.deletes = {{10, 50, 50, 500}, {60, 125, 51, 500}}; }) == "2: 0 1");
  CHECK(with([](Bed& bed) { bed.deletes = {{10, 60, 50, 500}, {60, 125, 51, 500}}; }) == "1: 0 1; 2: 0 1");
}

TEST_CASE("pages at the edge of a delete are at most 1/8 of the table: these pages are dropped in part", "[drops]") {
  for (const int pages : {12, 40}) {
    Bed bed;
    std::vector<E> entries;
    for (int i = 0; i < 2 * pages; ++i) {  // two entries on each page
      entries.push_back({"k" + std::to_string(1000 + i), static_cast<SeqNum>(i + 1), static_cast<DeleteKey>(i), 0,
                         EntryKind::kValue, false, 0, 400});
    }
    bed.run(entries);
    REQUIRE(bed.readers.begin()->second->page_count() == static_cast<std::uint32_t>(pages));
    bed.erase(1, 7, 500);  // half of page 0, all of pages 1 and 2, half of page 3
    CHECK(bed.pages() == (pages == 40 ? "1: 1 2 | 0 3" : "1: 1 2"));
    bed.input.parts_done = [](FileNum) { return SeqNum{500}; };
    CHECK(bed.pages() == "1: 1 2");
  }
}

TEST_CASE("drop frees fewer bytes than its metadata takes: the drop waits until a quarter of the deadline has passed",
          "[drops]") {
  Bed bed;
  std::vector<E> entries;
  for (int i = 0; i < 200; ++i) entries.push_back({"k" + std::to_string(1000 + i), 1, 5, i == 7 ? Millis{900} : Millis{5000}});
  bed.run(entries);
  REQUIRE(bed.version->runs[0].files[0]->metadata_bytes > 1024);
  CHECK(bed.pages() == "none");
  bed.input.purge_before = 899;  // PURGE.NOW, but only for entries that died before this time
  CHECK(bed.pages() == "none");
  bed.input.purge_before = 900;
  CHECK(bed.pages() == "1: 7");
  bed.input.purge_before = 0;
  bed.input.delete_deadline = 4000;
  CHECK(bed.pages() == "none");
  CHECK(bed.plan().next_look == 1900);
  bed.input.now = 1900;
  CHECK(bed.pages() == "1: 7");
  bed.input.now = 5000;
  bed.input.delete_deadline = 0;
  CHECK(bed.pages() != "none");  // all pages are dropped
  // A drop of all pages writes nothing, so it never waits.
  Bed small;
  small.run({{"a", 1, 5, 900, EntryKind::kValue, false, 0, 10}});
  CHECK(small.pages() == "1: 0");
}

TEST_CASE("partial drop frees fewer bytes than its metadata takes: the partial drop waits, too", "[drops]") {
  Bed bed;
  std::vector<E> entries;
  for (int i = 0; i < 200; ++i) {
    entries.push_back({"k" + std::to_string(1000 + i), 1, static_cast<DeleteKey>(i), 0, EntryKind::kValue, false, 0, 400});
  }
  bed.run(entries);
  bed.erase(7, 8, 50, 900);
  bed.input.delete_deadline = 4000;
  CHECK(bed.pages() == "none");
  CHECK(bed.plan().next_look == 1900);
  bed.input.now = 1900;
  CHECK(bed.pages() == "1: | 3");
}

TEST_CASE("page is dropped in part: each of its entries is kept, removed or replaced by a tombstone", "[drops]") {
  const RecordSet records(std::vector<Record>{{10, 20, 50, 500}, {10, 20, 60, 400}});
  const auto fate = [&](const E& e, bool nothing_older, SeqNum visible = 100) {
    const std::string value = "x";
    return judge_entry(e.view(value), records, visible, nothing_older).fate;
  };
  CHECK(fate({"a", 1, 15}, true) == EntryFate::kGoes);
  CHECK(fate({"a", 1, 15}, false) == EntryFate::kBecomesTombstone);
  CHECK(fate({"a", 1, 15, 0, EntryKind::kValue, true}, false) == EntryFate::kGoes);
  CHECK(fate({"a", 1, 20}, true) == EntryFate::kStays);
  CHECK(fate({"a", 60, 15}, true) == EntryFate::kStays);
  CHECK(fate({"a", 1, kNoStamp}, true) == EntryFate::kStays);
  CHECK(fate({"a", 1, 15, 0, EntryKind::kHeader}, true) == EntryFate::kStays);
  CHECK(fate({"a", 1, 15, 0, EntryKind::kTombstone}, true) == EntryFate::kStays);
  CHECK(fate({"a", 1, 15}, true, 55) == EntryFate::kGoes);
  CHECK(fate({"a", 1, 15}, true, 49) == EntryFate::kStays);
  CHECK(judge_entry(E{"a", 1, 15}.view("x"), records, 100, false).birth == 400);
  CHECK(judge_entry(E{"a", 1, 15}.view("x"), records, 55, false).birth == 500);
}

// Returns the result of a reader at `view` for each key: the seq of the version that exists, or 0.
std::map<std::string, SeqNum> answers(const std::vector<E>& all, const RecordSet& records, SeqNum view, Millis now) {
  std::map<std::string, const E*> newest;
  for (const E& e : all) {
    if (e.seq > view) continue;
    const E*& best = newest[e.key];
    if (best == nullptr || e.seq > best->seq) best = &e;
  }
  std::map<std::string, SeqNum> out;
  for (const auto& [key, e] : newest) {
    const bool dead = e->kind == EntryKind::kTombstone || (e->expiry != 0 && e->expiry <= now) ||
                      (e->d != kNoStamp && records.covers(e->d, e->seq, view));
    if (!dead) out[key] = e->seq;
  }
  return out;
}

std::vector<E> entries_of(const Bed& bed, const Version& version) {
  std::vector<E> all;
  for (const Run& run : version.runs) {
    for (const FileMetaPtr& file : run.files) {
      auto it = bed.readers.at(file->metadata_file)->new_iterator({});
      for (it->seek_to_first(); it->valid(); it->next()) {
        const Entry& e = it->entry();
        all.push_back({std::string(e.key), e.seq, e.delete_key, e.expiry, e.kind, e.first, e.debt, e.value.size()});
      }
      REQUIRE(it->status().is_ok());
    }
  }
  return all;
}

// Returns the number of pages that are dropped in part although records cover them completely.
int hidden_parts(const Bed& bed, const Plan& plan) {
  int count = 0;
  for (const PageSet& set : std::get<Drop>(plan.action).pages) {
    for (const auto& [file, reader] : bed.readers) {
      if (reader->files().data_file != set.file) continue;
      for (const std::uint32_t p : set.parts) {
        const PageFence page = reader->page_fence(p);
        count += bed.records.covers_all(page.min_delete_key, page.max_delete_key, page.max_seq, kMaxSeqNum) ? 1 : 0;
      }
    }
  }
  return count;
}

// Makes random versions of few keys, distributed over runs by age.
void fill(Bed& bed, Random& random, std::uint32_t h) {
  const bool grows = random.one_in(2);
  bed.version->stamp = grows ? StampMode::kWriteTime : StampMode::kExplicit;
  const int runs = 1 + static_cast<int>(random.uniform(3));
  const std::uint64_t keys = 4 + random.uniform(40);
  const bool versions_within = random.one_in(3);
  SeqNum seq = 1;
  std::vector<std::vector<E>> oldest_first;
  std::set<std::string> known;
  for (int r = 0; r < runs; ++r) {
    std::map<std::pair<std::string, SeqNum>, E> sorted;
    std::set<std::string> here;
    for (std::uint64_t n = 1 + random.uniform(keys); n > 0; --n) {
      E e;
      e.key = "key" + std::to_string(100 + random.uniform(keys));
      if (here.count(e.key) != 0 && !versions_within) continue;
      e.seq = seq++;
      e.first = known.count(e.key) == 0 && random.one_in(2);
      known.insert(e.key);
      here.insert(e.key);
      e.kind = random.one_in(12) ? EntryKind::kTombstone : random.one_in(25) ? EntryKind::kHeader : EntryKind::kValue;
      e.d = e.kind == EntryKind::kTombstone || grows ? 10 * e.seq : random.one_in(10) ? kNoStamp : random.uniform(400);
      if (e.kind != EntryKind::kTombstone && random.one_in(2)) e.expiry = 900 + random.uniform(200);
      if (!e.first && random.one_in(15)) e.debt = 100;
      e.bytes = 200 + random.uniform(700);
      sorted[{e.key, kMaxSeqNum - e.seq}] = e;
    }
    std::vector<E> entries;
    for (const auto& [place, e] : sorted) entries.push_back(e);
    oldest_first.push_back(std::move(entries));
  }
  bed.filter_bits = random.one_in(2) ? 10 : 0;
  for (std::size_t r = oldest_first.size(); r-- > 0;) bed.run(oldest_first[r], h);
  for (std::uint64_t n = random.uniform(4); n > 0; --n) {
    const DeleteKey lo = random.one_in(3) ? 0 : random.uniform(400);
    bed.erase(lo, lo + 1 + random.uniform(400), seq++, 1 + random.uniform(900));
  }
  // In some rounds no reader can see the newest record yet.
  bed.input.visible_seq = random.one_in(4) && !bed.records.empty() ? bed.records.newest() - 1 : seq;
}

TEST_CASE("deleted entry may hide an older version: it becomes a tombstone, or is removed if older filters exclude its key",
          "[drops]") {
  const bool below = GENERATE(true, false), filters = GENERATE(true, false);
  const bool opens = GENERATE(true, false);  // whether the older table can be opened
  Bed bed;
  bed.filter_bits = 10;
  std::vector<E> entries;
  for (int i = 0; i < 40; ++i) {
    const bool first = i != 7;
    entries.push_back(
        {"k" + std::to_string(100 + i), static_cast<SeqNum>(100 + i), static_cast<DeleteKey>(i), 0, EntryKind::kValue, first});
  }
  bed.run(entries);
  bed.filter_bits = filters ? 10 : 0;
  bed.run({{"k100a", 1, 90}, {below ? "k107" : "k107a", 2, 90}, {"k139", 3, 90}});
  bed.erase(0, 20, 500, 400);
  CHECK(bed.pages() == "1: 0 1 2 3 4 5 6 8 9 10 11 12 13 14 15 16 17 18 19 | 7");
  bed.env.open_table = [&](const FileMeta& meta) -> Result<std::shared_ptr<TableReader>> {
    if (!opens && meta.data_file == bed.version->runs[1].files[0]->data_file) return Status::io_error("no such device");
    return bed.readers.at(meta.metadata_file);
  };
  const CompactionResult done = bed.carry_out(bed.plan().plan);
  REQUIRE(done.redescribed.size() == 1);
  const TableStats& stats = done.redescribed[0].stats;
  const bool goes = !below && filters && opens;
  CHECK(stats.tombstones == (goes ? 0 : 1));
  CHECK(stats.oldest_tombstone == (goes ? 0 : 400));
  CHECK(stats.entries == (goes ? 20 : 21));
  CHECK(stats.applied_seq == 500);  // the record covers no more entries, so no merge is needed for it
}

TEST_CASE("delete by stamp covers a page that is kept: applied_seq stays below the delete, since the table still needs it",
          "[drops]") {
  const bool covers_header = GENERATE(true, false);
  Bed bed;
  // The page of the header is not dropped, since it is more than an eighth of the table.
  bed.run({{"a", 1, 5}, {"b", 2, 5}, {"c", 3, 9, 0, EntryKind::kHeader}});
  bed.erase(0, covers_header ? 10 : 9, 50);
  REQUIRE(bed.pages() == "1: 0 1");
  const CompactionResult done = bed.carry_out(bed.plan().plan);
  REQUIRE(done.redescribed.size() == 1);
  CHECK(done.redescribed[0].stats.entries == 1);
  CHECK(done.redescribed[0].stats.applied_seq == (covers_header ? 0 : 50));
}

TEST_CASE("table has dead bytes and lingering names: a drop keeps the oldest birth of each", "[drops]") {
  Bed bed;
  bed.run({{"a", 1, 6}, {"b", 2, 9}, {"c", 3, 5}});
  bed.erase(5, 6, 50, 500);
  bed.describe([](FileMeta* file) {
    file->dead_birth = 300, file->lingering_birth = 200;
    file->punched_bytes = 10;
  });
  REQUIRE(bed.pages() == "1: 2");
  CompactionResult done = bed.carry_out(bed.plan().plan);
  REQUIRE(done.redescribed.size() == 1);
  CHECK(done.redescribed[0].dead_birth == 300);
  CHECK(done.redescribed[0].punched_bytes == 10);
  CHECK(done.redescribed[0].lingering_birth == 200);  // c is a bound of the table
  bed.describe([](FileMeta* file) { file->dead_birth = 700, file->lingering_birth = 800; });
  done = bed.carry_out(bed.plan().plan);
  CHECK(done.redescribed[0].dead_birth == 500);
  CHECK(done.redescribed[0].lingering_birth == 500);
  // After the names are renewed, the dead bytes still have to be punched.
  bed.describe([](FileMeta* file) { file->dead_birth = 300; });
  Plan renewal;
  renewal.action = Drop{{}, {{bed.version->runs[0].id, bed.version->runs[0].files[0]->data_file, {}, {}, true}}};
  done = bed.carry_out(renewal);
  REQUIRE(done.redescribed.size() == 1);
  CHECK(done.redescribed[0].dead_birth == 300);
  CHECK(done.redescribed[0].lingering_birth == 0);
}

TEST_CASE("deletes of dropped entries are overdue: the drop also removes lingering names from the metadata", "[drops]") {
  const Millis purge_before = GENERATE(0, 499, 500);
  Bed bed;
  std::vector<E> entries;
  for (int i = 0; i < 40; ++i) entries.push_back({"k" + std::to_string(100 + i), 2, static_cast<DeleteKey>(i * 7 % 40)});
  bed.run(entries, 4);
  bed.describe([](FileMeta* file) { file->lingering_birth = 200; });
  bed.erase(0, 10, 50, 500);
  bed.input.purge_before = purge_before;
  const PageDrops found = bed.plan();
  REQUIRE_FALSE(found.plan.empty());
  const bool overdue = purge_before == 500;
  CHECK(std::get<Drop>(found.plan.action).pages.at(0).renew_names == overdue);
  const CompactionResult done = bed.carry_out(found.plan);
  REQUIRE(done.redescribed.size() == 1);
  CHECK(done.redescribed[0].lingering_birth == (overdue ? 0 : 200));
  CHECK(done.redescribed[0].dead_birth == 500);
  CHECK(done.redescribed[0].stats.smallest == (overdue ? "k102" : "k100"));
}

TEST_CASE("dropped page has a version that an older delete has hidden: the dead bytes get that older delete's birth", "[drops]") {
  const bool in_part = GENERATE(false, true);
  Bed bed;
  // A put with a debt deleted the older version of b. Both are in one page, since a reader saw the older one.
  std::vector<E> entries;
  for (int i = 0; i < 40; ++i) entries.push_back({"a" + std::to_string(100 + i), 1, 99});
  entries.push_back({"b", 9, 5, 0, EntryKind::kValue, false, 100, 300});
  entries.push_back({"b", 2, 5, 0, EntryKind::kValue, false, 0, 300});
  if (in_part) entries.push_back({"c", 3, 99, 0, EntryKind::kValue, false, 0, 10});
  bed.run(entries);
  bed.erase(5, 6, 50, 500);
  bed.input.purge_before = 500;  // one page is dropped at once, though its metadata takes more bytes
  REQUIRE(bed.pages() == (in_part ? "1: | 40" : "1: 40"));
  const CompactionResult done = bed.carry_out(bed.plan().plan);
  REQUIRE(done.redescribed.size() == 1);
  CHECK(done.redescribed[0].dead_birth == 100);
  CHECK(done.redescribed[0].oldest_obligation() == 100);
}

TEST_CASE("random pages are dropped: no older version becomes visible", "[drops]") {
  int whole = 0, in_part = 0, above_older = 0, with_versions = 0, hiding = 0;
  for (const std::uint32_t h : {1u, 2u, 8u, 16u}) {
    for (std::uint64_t seed = 0; seed < 250; ++seed) {
      INFO("h " << h << ", seed " << seed);
      Random random(seed * 31 + h);
      Bed bed;
      fill(bed, random, h);
      bed.input.purge_before = random.one_in(2) ? 1000 : 0;
      PageDrops found = bed.plan();
      if (found.plan.empty()) continue;
      INFO(to_text(found.plan));
      const std::vector<E> before = entries_of(bed, *bed.version);
      const CompactionResult done = bed.carry_out(found.plan);
      hiding += hidden_parts(bed, found.plan);
      auto applied = apply(*bed.version, done.edit);
      INFO(applied.status().to_string());
      REQUIRE(applied.is_ok());
      for (const FileMeta& table : done.redescribed) {
        bed.readers[table.metadata_file] = bed.open(table);
        std::vector<std::string> errors;
        std::uint64_t pages = 0, entries = 0;
        const bool clean = bed.readers[table.metadata_file]->verify(&errors, &pages, &entries);
        INFO((errors.empty() ? std::string() : errors.front()));
        REQUIRE(clean);
      }
      const std::vector<E> after = entries_of(bed, **applied);
      for (const SeqNum view : {bed.input.visible_seq, bed.input.visible_seq + 1}) {
        INFO("view " << view);
        REQUIRE(answers(before, bed.records, view, bed.input.now) == answers(after, bed.records, view, bed.input.now));
      }
      whole += static_cast<int>(done.pages_whole);
      in_part += static_cast<int>(done.pages_in_part);
      for (const PageSet& set : std::get<Drop>(found.plan.action).pages) {
        above_older += set.run != bed.version->runs.back().id && !set.whole.empty() ? 1 : 0;
        for (const std::uint32_t p : set.whole) {
          for (const auto& [file, reader] : bed.readers) {
            if (reader->files().data_file == set.file && p < reader->page_count())
              with_versions += reader->page_fence(p).single_versions ? 0 : 1;
          }
        }
      }
    }
  }
  // Each kind of drop must have occurred.
  CHECK(whole > 500);
  CHECK(in_part > 5);
  CHECK(hiding > 5);
  CHECK(above_older > 50);
  CHECK(with_versions > 10);
}

}  // namespace TEST_FILE

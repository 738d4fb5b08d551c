// The pure pieces of a compaction: finality, groups and cuts, output splitting, delete-only plans, the job registry.
#include <catch2/catch.hpp>

#include "../iter/entries.h"
#include "compaction/delete_only.h"
#include "compaction/job_registry.h"
#include "compaction/output_splitter.h"
#include "compaction/parallel.h"
#include "compaction/subranges.h"

namespace ebbtide {
namespace {

FileMetaPtr make_file(FileNum num, const std::string& first, const std::string& last, std::uint64_t bytes = 100, SeqNum seq = 1) {
  auto meta = std::make_shared<FileMeta>();
  meta->data_file = num;
  meta->metadata_file = num + 1000;
  meta->data_bytes = bytes;
  for (const std::string& key : {first, last}) {
    Entry entry;
    entry.key = key;
    entry.seq = seq;
    meta->stats.add_entry(entry);
  }
  return meta;
}

InputFile input(const FileMetaPtr& file, std::size_t run = 0) { return {run, run + 1, file, range_of(file->stats)}; }

TEST_CASE("finality: a key, a range and the pieces of a range agree") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::vector<KeyRange> below;
    const auto key = [&] { return std::string(1, static_cast<char>('a' + random.uniform(12))); };
    for (std::uint64_t n = random.uniform(5); n > 0; --n) {
      KeyRange range{key(), random.one_in(6) ? std::string() : key()};
      if (!is_empty(range)) below.push_back(range);
    }
    const Finality finality(below);
    const auto expected = [&](Bytes k) {
      return std::none_of(below.begin(), below.end(), [&](const KeyRange& r) { return r.contains(k); });
    };
    KeyRange range{key(), random.one_in(4) ? std::string() : key()};
    if (is_empty(range)) continue;
    const auto pieces = finality.pieces(range);
    bool all_final = true;
    std::size_t cursor = 0;
    for (char c = 'a'; c <= 'n'; ++c) {
      const std::string k(1, c);
      REQUIRE(finality.is_final(k, &cursor) == expected(k));
      if (!range.contains(k)) continue;
      all_final = all_final && expected(k);
      const auto piece = std::find_if(pieces.begin(), pieces.end(), [&](const auto& p) { return p.first.contains(k); });
      REQUIRE(piece != pieces.end());
      REQUIRE(piece->second == expected(k));
    }
    REQUIRE(finality.is_final(range) == all_final);
    REQUIRE(pieces.front().first.start == range.start);
    REQUIRE(pieces.back().first.end == range.end);
    for (std::size_t i = 1; i < pieces.size(); ++i) REQUIRE(pieces[i - 1].first.end == pieces[i].first.start);
  }
}

TEST_CASE("groups compare with the upper bound of all before, not of the last") {
  const auto groups =
      overlapping_groups({input(make_file(1, "a", "m")), input(make_file(2, "b", "c"), 1), input(make_file(3, "k", "p"), 1),
                          input(make_file(4, "q", "r")), input(make_file(5, "r", "s"), 1), input(make_file(6, "t", "t"))});
  REQUIRE(groups.size() == 3);
  REQUIRE(groups[0].files.size() == 3);
  REQUIRE(groups[0].range.start == "a");
  REQUIRE(groups[0].range.end == std::string("p\0", 2));
  REQUIRE(groups[0].bytes == 300);
  REQUIRE(groups[1].files.size() == 2);  // r is in both
  REQUIRE(groups[2].files.size() == 1);
}

TEST_CASE("a merge of more files than samples are wanted is cut all the same") {
  // It was not: each file's share of the samples was rounded down to none, and large merges ran on one thread.
  std::vector<InputFile> files = {input(make_file(1, "k000", "k999", 1000), 1)};
  for (std::uint64_t i = 0; i < 500; ++i) {
    const std::string low = std::to_string(1000 + 2 * i).substr(1), high = std::to_string(1001 + 2 * i).substr(1);
    files.push_back(input(make_file(2 + i, "k" + low, "k" + high, 1000)));
  }
  const auto groups = overlapping_groups(std::move(files));
  REQUIRE(groups.size() == 1);
  const auto ranges = cut_evenly(groups[0], 4, [](const FileMeta& file, const KeyRange&, std::size_t count) {
    return std::vector<std::string>(std::min<std::size_t>(count, 1), file.stats.smallest + "x");
  });
  REQUIRE(ranges.size() == 4);
}

TEST_CASE("cuts split the bytes evenly and leave no gap") {
  const auto groups =
      overlapping_groups({input(make_file(1, "k000", "k999", 1000)), input(make_file(2, "k000", "k499", 3000), 1)});
  const auto even = [](const FileMeta& file, const KeyRange&, std::size_t count) {
    std::vector<std::string> keys;
    const std::size_t span = file.data_file == 1 ? 1000 : 500;
    for (std::size_t i = 1; i <= count; ++i) {
      std::string digits = std::to_string(1000 + i * span / (count + 1));
      keys.push_back("k" + digits.substr(1));
    }
    return keys;
  };
  for (const std::size_t parts : {1, 2, 4, 7}) {
    const auto ranges = cut_evenly(groups[0], parts, even);
    REQUIRE(ranges.size() == parts);
    REQUIRE(ranges.front().start == groups[0].range.start);
    REQUIRE(ranges.back().end == groups[0].range.end);
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      REQUIRE(ranges[i].start == ranges[i - 1].end);
      REQUIRE(ranges[i - 1].start < ranges[i].start);
    }
  }
  // Seven eighths of the bytes lie in the first half of the keys.
  const auto halves = cut_evenly(groups[0], 2, even);
  REQUIRE(halves[1].start > "k230");
  REQUIRE(halves[1].start < "k340");
  REQUIRE(cut_evenly(groups[0], 4, [](const FileMeta&, const KeyRange&, std::size_t) {
            return std::vector<std::string>();
          }).size() == 1);
}

TEST_CASE("range tombstones are cut where files are, and every file has what covers it") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    SeqNum last = 0;
    std::vector<RangeTombstone> all =
        testing::random_sources(random, {.sources = 1, .versions = 0, .range_tombstones = 6}, &last)[0].tombstones;
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    OutputSplitter splitter({1000, 0}, all, {});
    std::vector<std::string> cuts;
    for (int i = 0; i < 3; ++i) cuts.push_back(testing::random_key(random, 30));
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::vector<RangeTombstone>> files;
    for (const std::string& cut : cuts) files.push_back(splitter.close_before(cut));
    files.push_back(splitter.close_last());
    for (int i = 0; i < 40; ++i) {
      const std::string key = testing::random_key(random, 30);
      const auto file = static_cast<std::size_t>(std::upper_bound(cuts.begin(), cuts.end(), key) - cuts.begin());
      for (std::size_t f = 0; f < files.size(); ++f) {
        for (const RangeTombstone& t : all) {
          const bool there =
              std::any_of(files[f].begin(), files[f].end(), [&](const auto& p) { return p.seq == t.seq && p.covers(key); });
          REQUIRE(there == (f == file && t.covers(key)));
        }
      }
    }
  }
}

TEST_CASE("a file closes at its size, or when it meets too much of the run below") {
  OutputSplitter splitter({800, 500}, {}, {{"c", 300}, {"e", 300}, {"", 300}});
  REQUIRE_FALSE(splitter.should_close("a", 799));
  REQUIRE(splitter.should_close("a", 800));
  REQUIRE_FALSE(splitter.should_close("d", 400));
  REQUIRE(splitter.should_close("e", 400));
  REQUIRE_FALSE(splitter.should_close("e", 99));  // too small for that
  (void)splitter.close_before("e");
  REQUIRE_FALSE(splitter.should_close("f", 400));
}

TEST_CASE("an aligned file ends with the file below that is likely to end nearest to its size") {
  const OutputSplitter::Limits limits{.file_bytes = 1000, .aligned = true};
  const std::vector<BelowFile> below{{"c", 1}, {"e", 1}, {"g", 1}, {"m", 1}, {"", 1}};
  OutputSplitter splitter(limits, {}, below);
  REQUIRE_FALSE(splitter.should_close("a", 0));
  REQUIRE_FALSE(splitter.should_close("c", 400));  // the next is likely to end at 800
  REQUIRE_FALSE(splitter.should_close("d", 790));
  REQUIRE(splitter.should_close("e", 800));  // the next one at 1200, no nearer
  (void)splitter.close_before("e");
  REQUIRE_FALSE(splitter.should_close("g", 600));
  REQUIRE_FALSE(splitter.should_close("h", 1499));
  REQUIRE(splitter.should_close("i", 1500));  // none ends near
  (void)splitter.close_before("i");
  REQUIRE(splitter.should_close("m", 667));  // the next one at 1334
  (void)splitter.close_before("m");
  REQUIRE_FALSE(splitter.should_close("n", 999));
  REQUIRE(splitter.should_close("o", 1000));  // the last has no end to wait for
  SECTION("a range tombstone is cut there, too, though the next key lies further on") {
    OutputSplitter cut(limits, {{"a", "z", 7, 70}}, below);
    REQUIRE_FALSE(cut.should_close("a", 0));
    REQUIRE(cut.should_close("d", 900));
    REQUIRE(cut.close_before("d").front().end == "c");
    REQUIRE(cut.close_last().front().start == "c");
  }
  SECTION("and takes over what is owed at the key where it is cut") {
    Version version;
    auto file = std::make_shared<FileMeta>();
    file->stats.entries = 1;
    file->stats.smallest = "a";
    file->stats.largest = "c";
    file->stats.oldest_tombstone = 50;
    version.runs.push_back({1, 0, {file}});
    const NameDebts names(version, 0, 100);
    for (const bool below_ends : {false, true}) {
      const auto expected = below_ends ? Millis{50} : Millis{60};
      OutputSplitter cut(limits, {{"a", "z", 7, 70}}, below_ends ? below : std::vector<BelowFile>(), {}, &names);
      REQUIRE_FALSE(cut.should_close("a", 0));
      REQUIRE(cut.should_close("d", 1500));
      REQUIRE(cut.close_before("d", 60).front().birth == expected);
      REQUIRE(cut.close_last().front().birth == expected);
    }
  }
  SECTION("below the last there is nothing to wait for") {
    OutputSplitter last(limits, {}, {{"c", 1}});
    REQUIRE_FALSE(last.should_close("b", 1000));
    REQUIRE_FALSE(last.should_close("d", 600));
    REQUIRE(last.should_close("e", 1000));
  }
  SECTION("without alignment the size alone counts") {
    OutputSplitter plain({.file_bytes = 1000}, {}, below);
    REQUIRE_FALSE(plain.should_close("e", 999));
    REQUIRE(plain.should_close("f", 1000));
  }
}

TEST_CASE("what is owed at a name: by the files that may have it, in this and older runs") {
  Version version;
  const auto add_run = [&](const char* smallest, const char* largest) {
    auto file = std::make_shared<FileMeta>();
    file->stats.entries = 1;
    file->stats.smallest = smallest;
    file->stats.largest = largest;
    version.runs.push_back({version.next_run++, 0, {file}});
    return file;
  };
  const auto tombstones = add_run("a", "f"), expired = add_run("c", "h"), names = add_run("g", "k"), nothing = add_run("a", "z");
  tombstones->stats.oldest_tombstone = 500;
  expired->stats.min_expiry = 300;
  expired->stats.max_expiry = 900;
  names->lingering_birth = 700;
  const NameDebts at_600(version, 0, 600), at_200(version, 0, 200), older_runs(version, 1, 600);
  CHECK(at_600.birth_at("b") == 500);
  CHECK(at_600.birth_at("d") == 300);
  CHECK(at_600.birth_at(std::string("h\0", 2)) == 300);  // a range up to and with h ends here
  CHECK(at_600.birth_at("i") == 700);
  CHECK(at_600.birth_at("x") == 0);
  CHECK(at_200.birth_at("d") == 500);  // it expires later
  CHECK(older_runs.birth_at("b") == 0);
  CHECK(older_runs.birth_at("d") == 300);
  CHECK(NameDebts().birth_at("d") == 0);
}

struct DropTree {
  Version version;
  std::map<FileNum, SharedTombstones> sets;
  DeleteOnlyInput input;

  DropTree() {
    input.version = &version;
    input.visible_seq = 1000;
    input.tombstones = [this](const FileMeta& file) { return sets.at(file.data_file); };
  }
  void add(RunId run, FileMetaPtr file) {
    if (version.runs.empty() || version.runs.back().id != run) version.runs.push_back({run, 0, {}});
    version.runs.back().files.push_back(std::move(file));
  }
  void add_tombstones(RunId run, FileNum num, const std::vector<RangeTombstone>& tombstones) {
    auto meta = std::make_shared<FileMeta>();
    meta->data_file = num;
    meta->metadata_file = num + 1000;
    for (const RangeTombstone& t : tombstones) meta->stats.add_range_tombstone(t);
    sets[num] = std::make_shared<FragmentedRangeTombstones>(std::span(tombstones));
    add(run, meta);
  }
  [[nodiscard]] std::vector<FileNum> dropped() const {
    std::vector<FileNum> out;
    for (const PlanInput& in : inputs_of(plan_delete_only(input))) out.insert(out.end(), in.files.begin(), in.files.end());
    return out;
  }
};

TEST_CASE("delete-only plans take what is wholly covered, in any run") {
  DropTree tree;
  tree.add_tombstones(1, 10, {{"c", "h", 100, 5}});
  tree.add_tombstones(2, 20, {{"h", "m", 90, 5}});
  tree.add(3, make_file(30, "a", "c", 100, 50));
  tree.add(3, make_file(31, "d", "g", 100, 50));
  tree.add(3, make_file(32, "g1", "l", 100, 50));  // covered by two runs together
  tree.add(3, make_file(33, "l1", "m", 100, 50));  // m is not
  tree.add(4, make_file(40, "e", "f", 100, 20));
  REQUIRE(tree.dropped() == std::vector<FileNum>{31, 32, 40});

  SECTION("not what a view needs") {
    tree.input.view_seqs = {60};
    REQUIRE(tree.dropped().empty());
    tree.input.view_seqs = {30};  // sees file 40 alone
    REQUIRE(tree.dropped() == std::vector<FileNum>{31, 32});
    tree.input.view_seqs = {10, 100};
    REQUIRE(tree.dropped() == std::vector<FileNum>{31, 32, 40});
  }
  SECTION("not before readers see the tombstone") {
    tree.input.visible_seq = 95;
    REQUIRE(tree.dropped().empty());
  }
  SECTION("not what a job has") {
    tree.input.busy = [](FileNum file) { return file == 31; };
    REQUIRE(tree.dropped() == std::vector<FileNum>{32, 40});
  }
}

TEST_CASE("a covered file with older debts than the tombstone's goes only when nothing older is left") {
  DropTree tree;
  tree.add_tombstones(1, 10, {{"a", "z", 100, 500}});
  auto owing = std::make_shared<FileMeta>(*make_file(20, "c", "d", 100, 50));
  owing->stats.oldest_tombstone = 400;
  tree.add(2, owing);
  REQUIRE(tree.dropped() == std::vector<FileNum>{20});
  tree.add(3, make_file(30, "c1", "zz", 100, 20));  // stays: zz is not covered
  REQUIRE(tree.dropped().empty());
  tree.version.runs.back().files = {make_file(31, "c1", "c2", 100, 20)};  // goes along
  REQUIRE(tree.dropped() == std::vector<FileNum>{20, 31});
}

TEST_CASE("newer versions than the tombstone keep their file") {
  DropTree tree;
  tree.add_tombstones(1, 10, {{"a", "z", 100, 5}});
  tree.add(2, make_file(20, "c", "d", 100, 100));
  REQUIRE(tree.dropped().empty());
}

TEST_CASE("the registry lets jobs run side by side that are not in each other's way") {
  Version version;
  version.next_run = 10;
  version.runs = {{1, 1, {make_file(1, "a", "c"), make_file(2, "f", "h"), make_file(3, "m", "p")}},
                  {2, 2, {make_file(4, "b", "d"), make_file(5, "n", "q")}},
                  {3, 3, {}}};
  const auto merge = [](std::vector<PlanInput> inputs, PlanTarget target) {
    Plan plan;
    plan.action = Merge{std::move(inputs), target};
    return plan;
  };
  JobRegistry registry;
  const auto first = registry.start(merge({{1, {1}}, {2, {4}}}, {2, 2}), version);
  REQUIRE(first);
  REQUIRE(registry.is_busy(4));
  REQUIRE_FALSE(registry.is_busy(5));
  REQUIRE(registry.start(merge({{1, {3}}, {2, {5}}}, {2, 2}), version));
  REQUIRE_FALSE(registry.start(merge({{2, {4}}}, {3, 3}), version));   // has an input of the first
  REQUIRE_FALSE(registry.start(merge({{1, {99}}}, {2, 2}), version));  // does not fit
  REQUIRE(registry.running() == 2);
  REQUIRE_FALSE(first->abort->load());

  Plan urgent = merge({{2, {4}}}, {3, 3});
  urgent.urgent = true;
  REQUIRE_FALSE(registry.start(urgent, version));
  REQUIRE(first->abort->load());
  registry.finish(first->id);
  REQUIRE(registry.start(urgent, version));
  registry.abort_all();
}

TEST_CASE("parts run once each, whoever runs them, with no pool, a busy one or a dead one") {
  std::vector<std::atomic<int>> ran(50);
  const auto part = [&](std::size_t i) { ++ran[i]; };
  run_parts(nullptr, ran.size(), part);
  ManualPool manual;  // nobody turns it
  run_parts(&manual, ran.size(), part);
  {
    ThreadPool pool(3, "test", 0);
    run_parts(&pool, ran.size(), part);
    run_parts(&pool, 0, part);
  }
  for (const auto& n : ran) REQUIRE(n == 3);
  manual.run_all();  // what it had queued finds nothing left
  for (const auto& n : ran) REQUIRE(n == 3);
}

}  // namespace
}  // namespace ebbtide

#include "compaction/executor.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>

#include "compaction/delete_only.h"
#include "compaction/merge_part.h"
#include "io/trace_fs.h"
#include "support/long_run.h"
#include "table/loaded_filter.h"
#include "tree_fixture.h"

namespace ebbtide {
namespace TEST_FILE {

using testing::Owned;
using testing::TreeFixture;

/// Returns the index of the first run of the level; -1 if there is none.
int find_level(const Version& version, int level) {
  for (std::size_t i = 0; i < version.runs.size(); ++i) {
    if (version.runs[i].level == level) return static_cast<int>(i);
  }
  return -1;
}

/// Returns a plan for a file of run `from`: it is merged with the files of run `to` that it overlaps, or moved there.
Plan step_down(TreeFixture& tree, std::size_t from, std::size_t to) {
  Plan plan;
  const Run& source = tree.version->runs[from];
  const Run& target = tree.version->runs[to];
  if (source.files.empty()) return plan;
  const FileMetaPtr file = source.files[tree.random.uniform(source.files.size())];
  Merge merge;
  merge.inputs.push_back({source.id, {file->data_file}});
  PlanInput below{target.id, {}};
  for (const FileMetaPtr& other : target.files) {
    if (ranges_overlap(range_of(file->stats), range_of(other->stats))) below.files.push_back(other->data_file);
  }
  merge.target = {target.id, target.level};
  if (below.files.empty() && tree.random.one_in(2)) {
    plan.action = Move{source.id, {file->data_file}, merge.target};
    return plan;
  }
  if (!below.files.empty()) merge.inputs.push_back(std::move(below));
  plan.action = std::move(merge);
  return plan;
}

/// Returns a slice of a random range, from one run down to another. Any file may reach out of the range.
Plan random_slice(TreeFixture& tree) {
  Plan plan;
  const auto& runs = tree.version->runs;
  if (runs.empty()) return plan;
  const std::size_t to = tree.random.uniform(runs.size()), from = to - tree.random.uniform(to + 1);
  Slice slice;
  slice.range = {testing::random_key(tree.random, 60), testing::random_key(tree.random, 60)};
  if (slice.range.end < slice.range.start) std::swap(slice.range.start, slice.range.end);
  if (tree.random.one_in(10)) slice.range.start.clear();
  if (tree.random.one_in(10) || is_empty(slice.range)) slice.range.end.clear();
  if (tree.random.one_in(2) && !runs[to].files.empty()) {
    slice.range = range_of(runs[to].files[tree.random.uniform(runs[to].files.size())]->stats);
  }
  for (std::size_t run = from; run <= to; ++run) {
    PlanInput input{runs[run].id, {}};
    for (const FileMetaPtr& file : runs[run].files) {
      if (ranges_overlap(range_of(file->stats), slice.range)) input.files.push_back(file->data_file);
    }
    if (!input.files.empty()) slice.inputs.push_back(std::move(input));
  }
  slice.target = {runs[to].id, runs[to].level};
  plan.reason = Reason::kDeadline;
  if (!slice.inputs.empty()) plan.action = std::move(slice);
  return plan;
}

/// Returns a random plan that fits the tree: tiering within level 0, level 0 into 1, files from level to level, slices, rewrites.
Plan random_plan(TreeFixture& tree) {
  const Version& v = *tree.version;
  std::size_t flushed = 0;
  while (flushed < v.runs.size() && v.runs[flushed].level == 0) ++flushed;
  Plan plan;
  switch (tree.random.uniform(8)) {
    case 0:
      if (flushed >= 2) {
        const std::size_t from = tree.random.uniform(flushed), to = from + tree.random.uniform(flushed - from);
        return tree.merge_of(from, to, tree.random.one_in(2) ? PlanTarget{0, 0} : PlanTarget{v.runs[to].id, 0});
      }
      return plan;
    case 1:
      if (flushed == 0) return plan;
      if (flushed < v.runs.size() && v.runs[flushed].level == 1) return tree.merge_of(0, flushed, {v.runs[flushed].id, 1});
      return tree.merge_of(0, flushed - 1, {0, 1});
    case 2:
    case 3: {
      const int level = 1 + static_cast<int>(tree.random.uniform(2));
      const int from = find_level(v, level), to = find_level(v, level + 1);
      if (from < 0) return plan;
      if (to < 0) return tree.merge_of(static_cast<std::size_t>(from), static_cast<std::size_t>(from), {0, level + 1});
      return step_down(tree, static_cast<std::size_t>(from), static_cast<std::size_t>(to));
    }
    case 4: {
      const Run& run = v.runs[tree.random.uniform(v.runs.size())];
      if (!run.files.empty()) plan.action = Rewrite{run.id, run.files[tree.random.uniform(run.files.size())]->data_file};
      return plan;
    }
    case 5:
    case 6:
      return random_slice(tree);
    default: {
      DeleteOnlyInput input{.version = tree.version.get(), .visible_seq = tree.context.visible_seq};
      input.tombstones = [&](const FileMeta& file) { return tree.env.open_table(file).value()->range_tombstones(); };
      return plan_delete_only(input);
    }
  }
}

TEST_CASE("random plans are carried out: no reader sees a change, and every delete stays pending until it is purged") {
  std::uint64_t plans = 0, drops = 0, moves = 0, parts = 0, retired = 0;
  ThreadPool pool(2, "test", 0);
  const std::uint64_t seeds = every_nth() == 1 ? 60 : 24;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    TreeFixture tree(seed);
    if (seed % 2 == 0) tree.env.pool = &pool;
    tree.context.settings.partitioning = static_cast<Partitioning>(seed / 6 % 3);
    const std::uint64_t keys = seed % 3 == 0 ? 10 : 120;
    for (int step = 0; step < 40; ++step) {
      CAPTURE(step);
      if (tree.version->runs.empty() || tree.random.one_in(3)) tree.flush_random(keys, 10 + tree.random.uniform(60));
      if (tree.version->runs.empty()) continue;
      const Plan plan = random_plan(tree);
      if (plan.empty()) continue;
      const auto result = tree.run(plan);
      CAPTURE(plan.action.index(), result.status().to_string());
      REQUIRE(result.is_ok());
      ++plans;
      drops += std::holds_alternative<Drop>(plan.action) ? 1 : 0;
      moves += result->files_moved;
      parts += result->sub_merges;
      tree.check();
      REQUIRE(tree.leftovers().empty());
    }
    // Merging everything into one run must leave only existing entries.
    while (!tree.version->runs.empty()) {
      Plan plan = tree.merge_of(0, tree.version->runs.size() - 1, {0, tree.version->runs.back().level});
      if (plan.empty()) break;
      const auto result = tree.run(plan);
      REQUIRE(result.is_ok());
      if (result->entries_in == result->entries_out) break;
    }
    // A file that overlaps no other was moved. It still has the versions that only past views could see.
    for (const Run& run : std::vector<Run>(tree.version->runs)) {
      for (const FileMetaPtr& file : run.files) {
        Plan plan;
        plan.action = Rewrite{run.id, file->data_file};
        REQUIRE(tree.run(plan).is_ok());
      }
    }
    tree.check();
    std::uint64_t entries = 0, range_tombstones = 0;
    for (const Run& run : tree.version->runs) {
      for (const FileMetaPtr& file : run.files) {
        entries += file->stats.entries;
        range_tombstones += file->stats.range_tombstones;
        REQUIRE(file->stats.oldest_obligation() == 0);
      }
    }
    REQUIRE(range_tombstones == 0);
    REQUIRE(tree.version->records->empty());
    retired += tree.retired;
    REQUIRE(entries == testing::visible({tree.history}, tree.context.visible_seq, tree.context.now).size());
  }
  CAPTURE(plans, drops, moves, parts);
  REQUIRE(plans > 8 * seeds);
  REQUIRE(drops > 5);
  REQUIRE(moves > seeds / 3);
  REQUIRE(parts > 8 * seeds);
  REQUIRE(retired > 8 * seeds);
}

TEST_CASE("merge is split into sub-merges: the content is that of a single merge") {
  std::uint64_t whole_parts = 0, cut_parts = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    ThreadPool pool(2, "test", 0);
    TreeFixture whole(seed), cut(seed);
    cut.env.pool = &pool;
    cut.env.sub_merge_bytes = 2048;
    for (TreeFixture* tree : {&whole, &cut}) {
      tree->context.settings.partitioning = static_cast<Partitioning>(seed % 3);
      for (int i = 0; i < 4; ++i) tree->flush_random(130, 150);
      const auto result = tree->run(tree->merge_of(0, tree->version->runs.size() - 1, {0, 1}));
      REQUIRE(result.is_ok());
      (tree == &cut ? cut_parts : whole_parts) += result->sub_merges;
      tree->check();
    }
    std::vector<Owned> a, b;
    for (auto [tree, out] : {std::pair{&whole, &a}, std::pair{&cut, &b}}) {
      auto it = tree->run_iterator(tree->version->runs.front());
      for (it->seek_to_first(); it->valid(); it->next()) {
        Owned e = Owned::of(it->entry());
        if (it->entry().is_large()) e.value = "large " + std::to_string(it->entry().large.length);
        out->push_back(std::move(e));
      }
    }
    REQUIRE(a == b);
  }
  REQUIRE(cut_parts > whole_parts);
}

TEST_CASE("merge reads many runs: each run gets an equal share of the readahead memory") {
  for (const std::size_t runs : {2, 8}) {
    TreeFixture tree(7);
    tree.context.settings.file_size = 256 << 10;
    tree.context.settings.pages_per_tile = 1;
    tree.context.settings.compression = Compression::kNone;
    for (std::size_t run = 0; run < runs; ++run) {
      testing::Source table;
      for (int i = 100; i < 900; ++i) {
        table.entries.push_back({.key = std::to_string(i), .seq = ++tree.context.visible_seq, .value = std::string(100, 'x')});
      }
      tree.flush(table);
    }
    TraceFileSystem trace(tree.fs, {.ops = ops_of(FileOp::kRead), .lengths = true});
    tree.env.open_table = [&](const FileMeta& meta) { return TableReader::open({&trace, nullptr, "db", false}, files_of(meta)); };
    tree.env.readahead_bytes = 64 << 10;
    tree.env.sub_merge_bytes = 1 << 20;
    REQUIRE(tree.run(tree.merge_of(0, runs - 1, {0, 1})).is_ok());
    std::size_t most = 0;
    for (const std::string& line : trace.lines()) {
      if (line.find(".data ") != std::string::npos) most = std::max<std::size_t>(most, std::stoul(line.substr(line.rfind(' '))));
    }
    CHECK(most == (64 << 10) / runs);
  }
}

/// Makes a run of values of `count` keys, which are spread over the keys of `prefix` and eight digits.
void flush_numbers(TreeFixture& tree, const std::string& prefix, int count) {
  testing::Source table;
  std::set<std::string> keys;
  while (keys.size() < static_cast<std::size_t>(count)) {
    keys.insert(prefix + std::to_string(100'000'000 + tree.random.uniform(100'000'000)).substr(1));
  }
  for (const std::string& key : keys) {
    table.entries.push_back({.key = key, .seq = ++tree.context.visible_seq, .value = std::string(300, 'x')});
  }
  tree.flush(table);
}

/// Merges a tree of three runs of such keys into one run, with a given partitioning. Without threads each group is one part.
CompactionResult merge_numbers(TreeFixture& tree, Partitioning partitioning) {
  tree.context.settings.partitioning = partitioning;
  tree.context.settings.pages_per_tile = 1;
  tree.context.settings.compression = tree.context.settings.compression_last_level = Compression::kNone;
  for (const int count : {1400, 600, 900}) flush_numbers(tree, "a long beginning of all names:", count);
  const auto result = tree.run(tree.merge_of(0, 2, {0, 0}));
  REQUIRE(result.is_ok());
  tree.check();
  for (const FileMeta& file : result->outputs) CHECK(file.data_bytes <= 16384 + 8192 + 2048);
  return *result;
}

TEST_CASE("partitioning is by global ranges: files of different runs end at the same keys, and merges divide into groups") {
  TreeFixture by_size(1), local(1), global(1);
  CHECK(merge_numbers(by_size, Partitioning::kSize).sub_merges == 1);
  const CompactionResult local_result = merge_numbers(local, Partitioning::kLocalRange);
  const CompactionResult result = merge_numbers(global, Partitioning::kGlobalRange);
  CHECK(result.sub_merges >= 8);
  CHECK(result.sub_merges > local_result.sub_merges);
  CHECK_FALSE(by_size.version->key_space);
  CHECK_FALSE(local.version->key_space);
  CHECK(global.version->key_space == "a long beginning of all names:");
  // In another merge, with a run that overlaps a few of the files, all other files are moved.
  testing::Source table;
  table.entries.push_back(
      {.key = "a long beginning of all names:5", .seq = ++global.context.visible_seq, .value = "in the middle"});
  global.flush(table);
  const auto again = global.run(global.merge_of(0, 1, {0, 0}));
  REQUIRE(again.is_ok());
  CHECK(again->files_moved >= result.outputs.size() - 1);
  global.check();
}

TEST_CASE("common key prefix is in the bounds of a file: the version stores the prefix, otherwise not") {
  TreeFixture tree(4);
  tree.context.settings.partitioning = Partitioning::kGlobalRange;
  flush_numbers(tree, "name:", 20);
  CHECK(tree.version->key_space == "name:");
  flush_numbers(tree, "nobody:", 20);
  CHECK(tree.version->key_space == "n");
  REQUIRE(tree.run(tree.merge_of(0, 1, {0, 0})).is_ok());
  CHECK(tree.version->key_space == "n");

  TreeFixture brief(5);
  brief.context.settings.partitioning = Partitioning::kGlobalRange;
  brief.context.visible_seq = 10;
  // A key that was written and deleted within one memtable is in no file, so the version stores no prefix.
  brief.flush(
      {{{.key = "secret", .seq = 2, .kind = EntryKind::kTombstone, .delete_key = 5}, {.key = "secret", .seq = 1, .value = "1"}},
       {}});
  CHECK(brief.version->runs.empty());
  CHECK_FALSE(brief.version->key_space);
  brief.flush({{{.key = "secret", .seq = 3, .value = "2"}}, {}});
  CHECK(brief.version->key_space == "secret");
  brief.flush({{{.key = "secret", .seq = 4, .kind = EntryKind::kTombstone, .delete_key = 5}}, {}});
  REQUIRE(brief.run(brief.merge_of(0, 1, {0, 0})).is_ok());
  CHECK(brief.version->runs.empty());
  CHECK_FALSE(brief.version->key_space);
}

TEST_CASE("tombstone deletes a version flagged `first` (no older one): a merge drops both") {
  TreeFixture tree(1);
  tree.context.visible_seq = 100;
  tree.flush({{{.key = "a", .seq = 1, .value = "old"}, {.key = "z", .seq = 2, .value = "old"}}, {}});
  // The bounds of the older file contain b and c, and its filter denies both.
  tree.flush({{{.key = "b", .seq = 11, .value = "v"},
               {.key = "c", .seq = 13, .value = "new"},
               {.key = "c", .seq = 12, .kind = EntryKind::kTombstone, .delete_key = 5}},
              {}});
  {
    const FileMeta& file = *tree.version->runs[0].files[0];
    REQUIRE(file.stats.tombstones == 0);  // no older version of c is below
    REQUIRE(file.stats.debts == 0);
    auto it = tree.run_iterator(tree.version->runs[0]);
    for (it->seek_to_first(); it->valid(); it->next()) REQUIRE(it->entry().first);
  }
  tree.flush({{{.key = "b", .seq = 21, .kind = EntryKind::kTombstone, .delete_key = 50},
               {.key = "z", .seq = 22, .kind = EntryKind::kTombstone, .delete_key = 50}},
              {}});
  REQUIRE(tree.version->runs[0].files[0]->stats.tombstones == 2);
  // Only the two newer runs are merged: b leaves no tombstone, and z keeps one.
  REQUIRE(tree.run(tree.merge_of(0, 1, {0, 0})).is_ok());
  REQUIRE(tree.version->runs.size() == 2);
  REQUIRE(tree.version->runs[0].files[0]->stats.tombstones == 1);
  tree.check();
}

TEST_CASE("filter of an older file is not loaded: a flush flags no key in that file's range as `first`") {
  TreeFixture tree(1);
  tree.context.visible_seq = 100;
  tree.flush(
      {{{.key = "a", .seq = 1, .value = "old"}, {.key = "c", .seq = 2, .value = "old"}, {.key = "z", .seq = 3, .value = "old"}},
       {}});
  const auto open = tree.env.open_table;
  tree.env.open_table = [open](const FileMeta& meta) {
    auto table = open(meta);
    REQUIRE((*table)->keep_slices(0).is_ok());
    REQUIRE((*table)->filter()->empty());
    return table;
  };
  tree.flush({{{.key = "b", .seq = 11, .value = "v"},
               {.key = "c", .seq = 13, .value = "new"},
               {.key = "c", .seq = 12, .kind = EntryKind::kTombstone, .delete_key = 5},
               {.key = "zz", .seq = 14, .value = "v"}},
              {}});
  auto it = tree.run_iterator(tree.version->runs[0]);
  for (it->seek_to_first(); it->valid(); it->next()) {
    INFO(it->entry().key);
    REQUIRE(it->entry().first == (it->entry().key == "zz"));  // zz is outside of the older file's bounds
  }
  REQUIRE(tree.version->runs[0].files[0]->stats.debts == 1);  // SET c keeps the debt for the versions that DEL c hides
  tree.check();
}

TEST_CASE("tree has more runs than a flush searches: keys in the range of all these runs are not flagged `first`") {
  TreeFixture tree(1);
  tree.context.visible_seq = 10'000;
  tree.context.settings.filter_bits_per_key = 30;  // no false positives
  for (SeqNum run = 0; run < 66; ++run) {
    tree.flush({{{.key = "a", .seq = 3 * run + 1, .value = "v"},
                 {.key = "b" + std::to_string(run), .seq = 3 * run + 2, .value = "v"},
                 {.key = "z", .seq = 3 * run + 3, .value = "v"}},
                {}});
    auto it = tree.run_iterator(tree.version->runs[0]);
    it->seek("b");
    REQUIRE(it->valid());
    CAPTURE(run);
    CHECK(it->entry().first == (run <= 64));  // run: the number of older runs
  }
}

TEST_CASE("file overlaps no other input: the file is moved unread, unless a rewrite could drop entries of it") {
  TreeFixture tree(2);
  tree.context.visible_seq = 100;
  tree.flush({{{.key = "a", .seq = 1, .value = "1"}, {.key = "c", .seq = 2, .value = "2"}}, {}});
  REQUIRE(tree.run(tree.merge_of(0, 0, {0, 2})).value().files_moved == 1);
  const RunId bottom = tree.version->runs[0].id;

  SECTION("no overlap and no pending delete: the file is moved") {
    tree.flush({{{.key = "x", .seq = 3, .value = "3"}}, {}});
    const FileNum file = tree.version->runs[0].files[0]->data_file;
    Plan plan;
    plan.action = Move{tree.version->runs[0].id, {file}, {bottom, 2}};
    const auto result = tree.run(plan);
    REQUIRE(result.is_ok());
    REQUIRE(result->files_moved == 1);
    REQUIRE(result->outputs.empty());
    REQUIRE(result->bytes_read == 0);
    REQUIRE(tree.version->runs.size() == 1);
    REQUIRE(tree.version->runs[0].files.back()->data_file == file);
  }
  SECTION("file has a tombstone with no older version below: the file is rewritten without it, not moved") {
    tree.flush({{{.key = "c", .seq = 3, .kind = EntryKind::kTombstone, .delete_key = 9}}, {}});
    const auto result = tree.run(tree.merge_of(0, 1, {bottom, 2}));
    REQUIRE(result->files_moved == 0);
    tree.check();
    // The tombstone may move into a level in between, since it is needed there.
    tree.flush({{{.key = "a", .seq = 4, .kind = EntryKind::kTombstone, .delete_key = 9}}, {}});
    REQUIRE(tree.run(tree.merge_of(0, 0, {0, 1})).value().files_moved == 1);
    tree.check();
  }
  SECTION("file overlaps an older file and has an expired entry: it is not moved") {
    // The range "b" to "d" goes beyond the older file's "a" to "c", and "d" has expired.
    tree.flush(
        {{{.key = "b", .seq = 3, .value = "3"}, {.key = "d", .seq = 4, .value = "4", .expiry = tree.context.now + 10}}, {}});
    tree.context.now += 10;
    const auto result = tree.run(tree.merge_of(0, 0, {0, 1}));
    REQUIRE(result->files_moved == 0);
    REQUIRE(result->entries_out == 1);
    tree.check();
  }
  SECTION("entry of the file has expired: it counts as a tombstone") {
    tree.flush({{{.key = "x", .seq = 3, .value = "3", .expiry = tree.context.now + 10}}, {}});
    tree.context.now += 10;
    Plan plan;
    plan.action = Move{tree.version->runs[0].id, {tree.version->runs[0].files[0]->data_file}, {bottom, 2}};
    const auto result = tree.run(plan);
    REQUIRE(result->files_moved == 0);
    REQUIRE(result->entries_out == 0);
    tree.check();
  }
}

TEST_CASE("plan does not fit the version: executing it returns an error") {
  TreeFixture tree(3);
  tree.context.visible_seq = 100;
  tree.flush({{{.key = "a", .seq = 1, .value = "1"}, {.key = "m", .seq = 2, .value = "2"}}, {}});
  tree.flush({{{.key = "b", .seq = 3, .value = "3"}}, {}});
  tree.flush({{{.key = "b", .seq = 5, .value = "5"}}, {}});
  const auto& runs = tree.version->runs;
  const auto file = [&](std::size_t run) { return runs[run].files[0]->data_file; };
  Plan plan;
  SECTION("plan leaves out a run between two of its inputs") {
    plan.action = Merge{{{runs[0].id, {file(0)}}, {runs[2].id, {file(2)}}}, {runs[2].id, 0}};
  }
  SECTION("output overlaps a file that stays") { plan.action = Merge{{{runs[1].id, {file(1)}}}, {runs[2].id, 0}}; }
  SECTION("output goes to a newer run") { plan.action = Merge{{{runs[1].id, {file(1)}}}, {runs[0].id, 0}}; }
  SECTION("file is unknown") { plan.action = Rewrite{runs[0].id, 999}; }
  SECTION("run is unknown") { plan.action = Rewrite{999, file(0)}; }
  SECTION("file is quarantined") {
    plan.action = Merge{{{runs[1].id, {file(1)}}, {runs[2].id, {file(2)}}}, {runs[2].id, 0}};
    TreeEdit edit;
    edit.quarantined.emplace_back(file(2), "damaged");
    tree.install(edit);
  }
  const auto result = execute(plan, *tree.version, tree.context, tree.env);
  REQUIRE_FALSE(result.is_ok());
  REQUIRE(result.status().code() == Code::kInvalidArgument);
  REQUIRE(tree.leftovers().empty());
}

TEST_CASE("any file operation of a merge fails: the merge leaves no output file behind") {
  for (std::uint64_t nth = 1; nth < 200; ++nth) {
    for (const FileOps ops : {kMutatingOps, ops_of(FileOp::kRead)}) {
      CAPTURE(nth, ops);
      ThreadPool pool(2, "test", 0);
      TreeFixture tree(7);
      if (nth % 2 == 0) tree.env.pool = &pool;
      for (int i = 0; i < 3; ++i) tree.flush_random(130, 60);
      tree.fs.inject({.ops = ops, .nth = nth});
      const auto result = execute(tree.merge_of(0, 2, {0, 1}), *tree.version, tree.context, tree.env);
      const bool struck = tree.fs.failures() > 0;
      tree.fs.clear_faults();
      if (!result.is_ok()) {
        REQUIRE(struck);
        REQUIRE(tree.leftovers().empty());
        tree.check();
      } else if (!struck) {
        if (ops != kMutatingOps) return;
        break;
      }
    }
  }
}

TEST_CASE("may_write refuses disk space to a merge: the merge ends with that error and leaves no file") {
  TreeFixture tree(9);
  tree.context.settings.compression = tree.context.settings.compression_last_level = Compression::kNone;
  for (int run = 0; run < 2; ++run) {
    testing::Source table;
    for (int i = 0; i < 2000; ++i) {
      const SeqNum seq = ++tree.context.visible_seq;
      table.entries.push_back({.key = "k" + std::to_string(10'000 + i), .seq = seq, .value = std::string(500, 'x')});
    }
    tree.flush(table);
  }
  std::uint64_t asked = 0;
  tree.env.may_write = [&](std::uint64_t) { return ++asked < 2 ? Status::ok() : Status::no_space("enough"); };
  const auto result = tree.run(tree.merge_of(0, 1, {0, 1}));
  REQUIRE(asked >= 2);
  REQUIRE(result.status().to_string() == "no space: enough");
  REQUIRE(tree.leftovers().empty());
  tree.env.may_write = nullptr;
  REQUIRE(tree.run(tree.merge_of(0, 1, {0, 1})).is_ok());
  tree.check();
}

TEST_CASE("merge is aborted: it ends and leaves no file") {
  TreeFixture tree(8);
  for (int i = 0; i < 3; ++i) tree.flush_random(130, 60);
  std::atomic<bool> abort{false};
  tree.env.abort = &abort;
  SECTION("abort is set before it starts") { abort = true; }
  SECTION("abort is set while it writes") {
    tree.fs.before_nth(1, kMutatingOps, [&] { abort = true; });
    REQUIRE_FALSE(abort);
  }
  const auto result = execute(tree.merge_of(0, tree.version->runs.size() - 1, {0, 1}), *tree.version, tree.context, tree.env);
  REQUIRE(result.status().code() == Code::kAborted);
  REQUIRE(tree.leftovers().empty());
  tree.check();
}

/// Returns a slice of the files (index of run, index of file) within the range, into run `to`.
Plan slice_of(const TreeFixture& tree, std::vector<std::pair<std::size_t, std::size_t>> files, KeyRange range, std::size_t to) {
  Slice slice;
  for (const auto& [run, file] : files) {
    const Run& from = tree.version->runs[run];
    if (slice.inputs.empty() || slice.inputs.back().run != from.id) slice.inputs.push_back({from.id, {}});
    slice.inputs.back().files.push_back(from.files[file]->data_file);
  }
  slice.range = std::move(range);
  slice.target = {tree.version->runs[to].id, tree.version->runs[to].level};
  Plan plan;
  plan.action = std::move(slice);
  plan.reason = Reason::kDeadline;
  return plan;
}

/// Makes a run of values (or tombstones) of the keys from `first` to `last`.
void flush_letters(TreeFixture& tree, char first, char last, bool tombstones) {
  testing::Source table;
  for (char c = first; c <= last; ++c) {
    Owned e{.key = std::string(1, c), .seq = ++tree.context.visible_seq, .value = tree.value_of(1)};
    if (tombstones) {
      e.kind = EntryKind::kTombstone;
      e.value.clear();
      e.delete_key = tree.context.now;
    }
    table.entries.push_back(e);
  }
  tree.flush(table);
}

TEST_CASE("slice is merged: entries in its range move to the target run, and all others remain in their runs") {
  TreeFixture tree(3);
  tree.context.settings.file_size = 1 << 20;
  flush_letters(tree, 'a', 'z', false);  // this becomes runs[2]
  flush_letters(tree, 'c', 'x', true);   // this becomes runs[1]
  flush_letters(tree, 'a', 'b', false);  // this becomes runs[0]
  // A slice of run 1 into run 2: files that reach out of the slice are cut, tombstones in the range are dropped, and those
  // outside stay.
  REQUIRE(tree.run(slice_of(tree, {{1, 0}, {2, 0}}, {"e", "g"}, 2)).is_ok());
  tree.check();
  REQUIRE(tree.version->runs.size() == 3);
  const Run& middle = tree.version->runs[1];
  REQUIRE(middle.files.size() == 2);
  CHECK(middle.files[0]->stats.smallest == "c");
  CHECK(middle.files[0]->stats.largest == "d");
  CHECK(middle.files[1]->stats.smallest == "g");
  CHECK(middle.files[1]->stats.largest == "x");
  std::uint64_t entries = 0;
  for (const FileMetaPtr& file : tree.version->runs[2].files) entries += file->stats.entries;
  CHECK(entries == 24);  // all letters but e and f
  // A run without files stays as an empty entry.
  REQUIRE(tree.run(slice_of(tree, {{1, 0}, {1, 1}, {2, 0}, {2, 1}}, {"a", ""}, 2)).is_ok());
  tree.check();
  REQUIRE(tree.version->runs.size() == 3);
  CHECK(tree.version->runs[1].files.empty());
}

/// Makes a run of one range tombstone, born now.
void flush_range(TreeFixture& tree, const std::string& start, const std::string& end) {
  testing::Source table;
  table.tombstones.push_back({start, end, ++tree.context.visible_seq, tree.context.now});
  tree.flush(table);
}

TEST_CASE("range tombstone reaches out of a slice: no part of the tombstone ends at a key that the slice purges") {
  TreeFixture tree(4);
  tree.context.settings.file_size = 1 << 20;
  flush_letters(tree, 'e', 'k', false);  // the target of the slice
  testing::Source beside;
  for (const char* key : {"c", "p"}) beside.entries.push_back({.key = key, .seq = ++tree.context.visible_seq, .value = "1"});
  tree.flush(beside);
  flush_letters(tree, 'e', 'e', true);
  flush_letters(tree, 'k', 'k', true);  // the key at the end of the slice, deleted at 1000
  tree.context.now = 5000;
  flush_range(tree, "b", "t");
  const bool has_output = GENERATE(false, true);
  CAPTURE(has_output);
  std::vector<std::pair<std::size_t, std::size_t>> inputs{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}};
  if (has_output) {
    flush_letters(tree, 'h', 'h', false);
    inputs.emplace_back(5, 0);
  }
  const std::size_t range_run = has_output ? 1 : 0;
  REQUIRE(tree.run(slice_of(tree, inputs, {"e", std::string("k\0", 2)}, range_run + 4)).is_ok());
  tree.check();
  const auto& files = tree.version->runs[range_run].files;
  REQUIRE(files.size() == (has_output ? 2 : 1));  // a slice without output cuts no file
  CHECK(files.front()->stats.smallest == "b");
  CHECK(files.back()->stats.largest == "t");
  if (has_output) {  // the tombstone is cut where the slice has output
    CHECK(files[0]->stats.largest == "h");
    CHECK(files[1]->stats.smallest == std::string("h\0", 2));
  }
  for (const FileMetaPtr& file : files) CHECK(file->stats.oldest_range_tombstone == 5000);
  // Entries of older runs outside the slice are still hidden. The file that straddles the slice is cut into two.
  CHECK(tree.version->runs[range_run + 3].files.size() == 2);
}

TEST_CASE("slice without output lies inside a file with a range tombstone: the file is rewritten as one file without the slice") {
  TreeFixture tree(4);
  tree.context.settings.file_size = 1 << 20;
  flush_letters(tree, 'e', 'k', false);
  testing::Source around;
  for (const char* key : {"c", "g", "p"}) {
    around.entries.push_back({.key = key, .seq = ++tree.context.visible_seq, .value = tree.value_of(1)});
  }
  around.tombstones.push_back({"d", "m", ++tree.context.visible_seq, tree.context.now});
  tree.flush(around);
  REQUIRE(tree.run(slice_of(tree, {{0, 0}, {1, 0}}, {"e", std::string("k\0", 2)}, 1)).is_ok());
  tree.check();
  const auto& files = tree.version->runs[0].files;
  REQUIRE(files.size() == 1);
  CHECK(files[0]->stats.entries == 2);
  CHECK(files[0]->stats.range_tombstones == 0);  // no older version is left below it
  CHECK(tree.version->runs[1].files.empty());
}

TEST_CASE("merge cuts a range tombstone at a key: the remaining part gets the birth of that key's pending delete") {
  TreeFixture tree(5);
  flush_letters(tree, 'e', 'z', false);
  flush_letters(tree, 'k', 'k', true);  // deleted at 1000
  const std::vector<RangeTombstone> range{{"b", "t", 1000, 5000}};
  const Judgement judgement{kMaxSeqNum, 5000};
  const Finality finality(std::vector<KeyRange>{{"a", "z"}});
  const NameDebts names(*tree.version, 0, 5000);
  std::atomic<bool> failed{false};
  const auto birth_after = [&](KeyRange part_range, std::optional<Millis> pending_at_start,
                               std::optional<Millis> pending_at_end) {
    MergePart part;
    part.range = std::move(part_range);
    part.tombstones = {std::make_shared<FragmentedRangeTombstones>(std::span(range))};
    part.limits.file_bytes = 1 << 20;
    part.pending_at_start = pending_at_start;
    part.pending_at_end = pending_at_end;
    const MergePartResult done =
        run_merge_part(std::move(part), {&tree.env, &tree.context.settings, &judgement, &finality, nullptr, &failed, &names});
    REQUIRE(done.status.is_ok());
    REQUIRE(done.outputs.size() == 1);
    return done.outputs[0].stats.oldest_range_tombstone;
  };
  CHECK(birth_after({"", ""}, {}, {}) == 5000);
  CHECK(birth_after({"", "k"}, {}, {}) == 1000);
  CHECK(birth_after({"k", ""}, {}, {}) == 1000);
  CHECK(birth_after({std::string("k\0", 2), ""}, {}, {}) == 1000);
  CHECK(birth_after({"", "m"}, {}, {}) == 5000);
  CHECK(birth_after({"", "k"}, {}, 0) == 5000);  // the key at the cut exists
  CHECK(birth_after({"k", ""}, 3000, {}) == 3000);
  CHECK(birth_after({"b", "t"}, 3000, 3000) == 5000);  // the cuts are the tombstone's own ends
}

TEST_CASE("part of a merge is written: its result has the births of pending deletes of its first and last key") {
  TreeFixture tree(5);
  const RecordSet records(std::vector<Record>{{5, 6, 50, 300}});
  const Judgement judgement{.visible_seq = 10, .now = 1000};  // a reader may not see the record yet
  const Finality finality(std::vector<KeyRange>{{"a", "zz"}});
  std::atomic<bool> failed{false};
  const auto births_of = [&](const Owned& first, const Owned& last) {
    const std::vector<Owned> entries = {first, {.key = "m", .seq = 5, .value = "1"}, last};
    MergePart part;
    part.sources.push_back(std::make_unique<testing::VectorIterator>(&entries));
    part.limits.file_bytes = 1 << 20;
    const MergePartResult done =
        run_merge_part(std::move(part), {&tree.env, &tree.context.settings, &judgement, &finality, &records, &failed});
    REQUIRE(done.status.is_ok());
    REQUIRE(done.entries_out == 3);
    return std::pair(done.pending_at_start, done.pending_at_end);
  };
  const Owned deleted{.key = "a", .seq = 4, .kind = EntryKind::kTombstone, .delete_key = 700};
  const Owned covered{.key = "z", .seq = 6, .value = "1", .delete_key = 5};
  const Owned expires{.key = "z", .seq = 6, .value = "1", .expiry = 2000};
  const Owned lives{.key = "z", .seq = 6, .value = "1", .debt = 600};  // the key exists: only its older versions are deleted
  CHECK(births_of(deleted, covered) == std::pair<Millis, Millis>{700, 300});
  CHECK(births_of(deleted, expires) == std::pair<Millis, Millis>{700, 2000});
  CHECK(births_of(deleted, lives) == std::pair<Millis, Millis>{700, 0});
}

TEST_CASE("parts of a large merge cut range tombstones: the parts get the births of pending deletes of the keys at the cuts") {
  TreeFixture tree(8);
  ThreadPool pool(2, "test", 0);
  tree.env.pool = &pool;
  testing::Source old, deletes;
  for (int i = 0; i < 1500; ++i) {
    const std::string key = "key" + std::to_string(10'000 + i);
    old.entries.push_back({.key = key, .seq = ++tree.context.visible_seq, .value = tree.value_of(1)});
    deletes.entries.push_back({.key = key, .seq = 10'000 + tree.context.visible_seq, .kind = EntryKind::kTombstone});
    deletes.entries.back().delete_key = tree.context.now;  // born at 1000
  }
  tree.flush(old);
  tree.context.visible_seq = 20'000;
  tree.flush(deletes);
  tree.context.now = 5000;
  flush_range(tree, "a", "z");
  tree.env.sub_merge_bytes = 4096;
  const auto result = tree.run(tree.merge_of(0, 1, {0, 0}));
  REQUIRE(result.is_ok());
  REQUIRE(result->sub_merges > 1);
  tree.check();
  for (const FileMeta& output : result->outputs) CHECK(output.stats.oldest_range_tombstone == 1000);
}

TEST_CASE("range tombstone reaches beyond the ends of older data: a flush does not cut it, and it keeps its own birth") {
  TreeFixture tree(7);
  tree.context.settings.file_size = 1 << 20;
  flush_letters(tree, 'e', 'k', false);
  for (const Millis born : {1000, 5000, 9000}) {
    tree.context.now = born;
    flush_range(tree, "b", "h");
    const TableStats& stats = tree.version->runs[0].files[0]->stats;
    CHECK(stats.smallest == "b");
    CHECK(stats.largest == "h");
    CHECK(stats.oldest_range_tombstone == born);
  }
  REQUIRE(tree.run(tree.merge_of(0, 3, {0, 0})).is_ok());
  tree.check();
  CHECK(tree.version->runs[0].files[0]->stats.range_tombstones == 0);
}

TEST_CASE("earlier merges have cut a range tombstone: a merge joins its parts, with the oldest birth among them") {
  TreeFixture tree(6);
  tree.context.settings.file_size = 1 << 20;
  flush_letters(tree, 'a', 'z', false);
  flush_range(tree, "g", "m");
  tree.context.now = 5000;
  flush_range(tree, "b", "t");
  REQUIRE(tree.run(tree.merge_of(0, 1, {0, 0})).is_ok());
  tree.check();
  const TableStats& stats = tree.version->runs[0].files[0]->stats;
  CHECK(stats.range_tombstones == 1);
  CHECK(stats.smallest == "b");
  CHECK(stats.largest == "t");
  CHECK(stats.oldest_range_tombstone == 1000);
}

TEST_CASE("run has many megabytes of range tombstones and few keys: files begin between tombstones, and none is cut") {
  const std::string prefix(100'000, 'x');
  const auto flushed = [&](bool with_one_over_all) {
    TreeFixture tree(9);
    tree.context.settings.file_size = 1 << 20;
    flush_letters(tree, 'a', 'z', false);
    testing::Source source;
    if (with_one_over_all) source.tombstones.push_back({"a", "", ++tree.context.visible_seq, tree.context.now});
    source.entries.push_back({.key = prefix + "0", .seq = ++tree.context.visible_seq, .value = "v"});
    for (int i = 0; i < 100; ++i) {
      const std::string start = prefix + std::to_string(1000 + i);
      source.tombstones.push_back({start, start + "5", ++tree.context.visible_seq, tree.context.now});
    }
    tree.flush(source);
    tree.check();
    std::vector<std::uint64_t> tombstones;
    for (const FileMetaPtr& file : tree.version->runs[0].files) tombstones.push_back(file->stats.range_tombstones);
    return tombstones;
  };
  const std::vector<std::uint64_t> files = flushed(false);
  CHECK(files.size() == 5);
  CHECK(std::accumulate(files.begin(), files.end(), std::uint64_t{0}) == 100);
  CHECK(*std::max_element(files.begin(), files.end()) <= 21);
  CHECK(flushed(true).size() == 10);  // newer tombstones cut the one over all keys into parts between them
}

TEST_CASE("slice cuts files around a quarantined one: range tombstones are cut at the slice's ends, not where its output ends") {
  TreeFixture tree(4);
  tree.context.settings.file_size = 1 << 20;
  flush_letters(tree, 'e', 'k', false);  // the target of the slice
  testing::Source beside;
  for (const char* key : {"c", "p"}) beside.entries.push_back({.key = key, .seq = ++tree.context.visible_seq, .value = "1"});
  tree.flush(beside);
  flush_range(tree, "b", "t");
  flush_letters(tree, 'h', 'h', false);
  const std::string end("k\0", 2);
  Plan plan = slice_of(tree, {{0, 0}, {1, 0}, {2, 0}, {3, 0}}, {"e", end}, 3);
  plan.reason = Reason::kScrub;
  REQUIRE(tree.run(plan).is_ok());
  tree.check();
  const auto& files = tree.version->runs[1].files;
  REQUIRE(files.size() == 2);
  CHECK(files[0]->stats.largest == "e");
  CHECK(files[1]->stats.smallest == end);
}

/// Changes the description of a file in the version.
void describe(TreeFixture& tree, std::size_t run, const std::function<void(FileMeta*)>& change) {
  auto version = std::make_shared<Version>(*tree.version);
  auto meta = std::make_shared<FileMeta>(*version->runs[run].files[0]);
  change(meta.get());
  version->runs[run].files.replace(version->runs[run].files.begin(), std::move(meta));
  version->by_number.clear();
  tree.version = std::move(version);
}

TEST_CASE("file has lingering names of purged keys: it is rewritten, not moved") {
  TreeFixture tree(2);
  flush_letters(tree, 'a', 'c', false);
  const auto moves = [&] { return execute(tree.merge_of(0, 0, {0, 1}), *tree.version, tree.context, tree.env)->files_moved; };
  CHECK(moves() == 1);
  describe(tree, 0, [](FileMeta* file) { file->lingering_birth = 500; });
  CHECK(moves() == 0);
}

TEST_CASE("file has a delete debt, or entries under a delete by stamp: it is rewritten, not moved") {
  TreeFixture tree(2);
  const SeqNum seq = ++tree.context.visible_seq;
  tree.flush({{{.key = "a", .seq = seq, .value = "1", .delete_key = 5}}, {}});
  const auto moves = [&] { return execute(tree.merge_of(0, 0, {0, 1}), *tree.version, tree.context, tree.env)->files_moved; };
  CHECK(moves() == 1);
  describe(tree, 0, [](FileMeta* file) { file->stats.debts = 1, file->stats.oldest_debt = 500; });
  CHECK(moves() == 0);
  describe(tree, 0, [](FileMeta* file) { file->stats.debts = 0, file->stats.oldest_debt = 0; });
  CHECK(moves() == 1);
  tree.flush({{}, {}, {{5, 6, ++tree.context.visible_seq, 500}}});
  REQUIRE(tree.version->records->size() == 1);
  CHECK(moves() == 0);
}

TEST_CASE("damaged file lies between two groups of a merge: the groups share no output file") {
  for (const bool damaged : {false, true}) {
    TreeFixture tree(2);
    flush_letters(tree, 'k', 'm', false);
    const Millis expiry = tree.context.now + 10;
    for (const auto& [first, last] : {std::pair{"a", "c"}, std::pair{"x", "z"}}) {
      tree.flush({{{.key = first, .seq = ++tree.context.visible_seq, .value = "1"},
                   {.key = last, .seq = ++tree.context.visible_seq, .value = "2", .expiry = expiry}},
                  {}});
    }
    tree.context.now = expiry;  // entries of both files have expired, so neither file is moved
    if (damaged) describe(tree, 2, [](FileMeta* file) { file->damage = "lost"; });
    const auto result = execute(tree.merge_of(0, 1, {0, 0}), *tree.version, tree.context, tree.env);
    REQUIRE(result.is_ok());
    CHECK(result->outputs.size() == (damaged ? 2 : 1));
  }
}

TEST_CASE("merge moves files down: the round-robin cursor advances, unless the merge is for a deadline") {
  TreeFixture tree(2);
  tree.context.settings.file_choice = FileChoice::kRoundRobin;
  flush_letters(tree, 'a', 'c', false);
  REQUIRE(tree.run(tree.merge_of(0, 0, {0, 2})).is_ok());
  flush_letters(tree, 'b', 'd', false);
  REQUIRE(tree.run(tree.merge_of(0, 0, {0, 1})).is_ok());
  Plan plan = tree.merge_of(0, 1, {tree.version->runs[1].id, 2});
  CHECK(execute(plan, *tree.version, tree.context, tree.env)->edit.cursors.size() == 1);
  plan.reason = Reason::kDeadline;
  CHECK(execute(plan, *tree.version, tree.context, tree.env)->edit.cursors.empty());
}

TEST_CASE("slice lacks a file that it requires: execute() refuses the slice and gives the reason") {
  TreeFixture tree(9);
  tree.context.settings.file_size = 1 << 20;
  flush_letters(tree, 'a', 'z', false);
  flush_letters(tree, 'c', 'x', false);
  flush_letters(tree, 'd', 'e', true);
  const auto refused = [&](const Plan& plan) {
    return execute(plan, *tree.version, tree.context, tree.env).status().to_string();
  };
  const std::string left_out = "a slice leaves out files of run ";
  CHECK(refused(slice_of(tree, {{0, 0}, {2, 0}}, {"a", "f"}, 2)).find(left_out) != std::string::npos);
  CHECK(refused(slice_of(tree, {{0, 0}, {1, 0}}, {"a", "f"}, 2)).find(left_out) != std::string::npos);
  CHECK(refused(slice_of(tree, {{2, 0}}, {"f", "f"}, 2)).find("range of a slice is empty") != std::string::npos);
  CHECK(refused(slice_of(tree, {{2, 0}}, {"a", "f"}, 1)).find("entries of an older run") != std::string::npos);
  tree.check();
}

}  // namespace TEST_FILE
}  // namespace ebbtide

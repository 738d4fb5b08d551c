#include "compaction/executor.h"

#include <catch2/catch.hpp>

#include "compaction/delete_only.h"
#include "tree_fixture.h"

namespace ebbtide {
namespace {

using testing::Owned;
using testing::TreeFixture;

/// Level number of the run, or -1.
int find_level(const Version& version, int level) {
  for (std::size_t i = 0; i < version.runs.size(); ++i) {
    if (version.runs[i].level == level) return static_cast<int>(i);
  }
  return -1;
}

/// A file of run `from` and what it overlaps in run `to`, merged into `to` or moved there.
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

/// Some plan that fits the tree: tiering within level 0, level 0 into 1, files from level to level, rewrites.
Plan random_plan(TreeFixture& tree) {
  const Version& v = *tree.version;
  std::size_t flushed = 0;
  while (flushed < v.runs.size() && v.runs[flushed].level == 0) ++flushed;
  Plan plan;
  switch (tree.random.uniform(6)) {
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
    default: {
      DeleteOnlyInput input{
          .version = tree.version.get(), .view_seqs = tree.context.view_seqs, .visible_seq = tree.context.visible_seq};
      input.tombstones = [&](const FileMeta& file) { return tree.env.open_table(file).value()->range_tombstones(); };
      return plan_delete_only(input);
    }
  }
}

void random_views(TreeFixture& tree) {
  auto& views = tree.context.view_seqs;
  if (tree.random.one_in(3)) views.push_back(tree.context.visible_seq);
  views.erase(std::unique(views.begin(), views.end()), views.end());
  if (!views.empty() && tree.random.one_in(3)) views.erase(views.begin() + static_cast<long>(tree.random.uniform(views.size())));
}

TEST_CASE("no plan changes what any reader sees, and every delete stays owed until it is done") {
  std::uint64_t plans = 0, drops = 0, moves = 0, parts = 0, retired = 0;
  ThreadPool pool(2, "test", 0);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    TreeFixture tree(seed);
    if (seed % 2 == 0) tree.env.pool = &pool;
    const std::uint64_t keys = seed % 3 == 0 ? 10 : 120;
    for (int step = 0; step < 40; ++step) {
      CAPTURE(step);
      if (tree.version->runs.empty() || tree.random.one_in(3)) tree.flush_random(keys, 10 + tree.random.uniform(60));
      if (tree.version->runs.empty()) continue;
      random_views(tree);
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
    // Everything into one run, with nobody looking at the past: what exists is all there is.
    tree.context.view_seqs.clear();
    while (!tree.version->runs.empty()) {
      Plan plan = tree.merge_of(0, tree.version->runs.size() - 1, {0, tree.version->runs.back().level});
      if (plan.empty()) break;
      const auto result = tree.run(plan);
      REQUIRE(result.is_ok());
      if (result->entries_in == result->entries_out) break;
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
  REQUIRE(plans > 500);
  REQUIRE(drops > 5);
  REQUIRE(moves > 20);
  REQUIRE(parts > 500);
  REQUIRE(retired > 500);
}

TEST_CASE("sub-merges give the same content as one merge") {
  std::uint64_t whole_parts = 0, cut_parts = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    ThreadPool pool(2, "test", 0);
    TreeFixture whole(seed), cut(seed);
    cut.env.pool = &pool;
    cut.env.sub_merge_bytes = 2048;
    for (TreeFixture* tree : {&whole, &cut}) {
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

TEST_CASE("the first flag lets a delete end where its key began") {
  TreeFixture tree(1);
  tree.context.visible_seq = 100;
  tree.flush({{{.key = "a", .seq = 1, .value = "old"}, {.key = "z", .seq = 2, .value = "old"}}, {}});
  // The bounds of the older file meet b and c, its filter does not know them (with these keys).
  tree.flush({{{.key = "b", .seq = 11, .value = "v"},
               {.key = "c", .seq = 13, .value = "new"},
               {.key = "c", .seq = 12, .kind = EntryKind::kTombstone, .delete_key = 5}},
              {}});
  {
    const FileMeta& file = *tree.version->runs[0].files[0];
    REQUIRE(file.stats.tombstones == 0);  // DEL c had nothing below
    REQUIRE(file.stats.debts == 0);
    auto it = tree.run_iterator(tree.version->runs[0]);
    for (it->seek_to_first(); it->valid(); it->next()) REQUIRE(it->entry().first);
  }
  tree.flush({{{.key = "b", .seq = 21, .kind = EntryKind::kTombstone, .delete_key = 50},
               {.key = "z", .seq = 22, .kind = EntryKind::kTombstone, .delete_key = 50}},
              {}});
  REQUIRE(tree.version->runs[0].files[0]->stats.tombstones == 2);
  // The two newer runs only: b ends here, z does not.
  REQUIRE(tree.run(tree.merge_of(0, 1, {0, 0})).is_ok());
  REQUIRE(tree.version->runs.size() == 2);
  REQUIRE(tree.version->runs[0].files[0]->stats.tombstones == 1);
  tree.check();
}

TEST_CASE("a file moves without being read, unless it could lose something on the way") {
  TreeFixture tree(2);
  tree.context.visible_seq = 100;
  tree.flush({{{.key = "a", .seq = 1, .value = "1"}, {.key = "c", .seq = 2, .value = "2"}}, {}});
  REQUIRE(tree.run(tree.merge_of(0, 0, {0, 2})).value().files_moved == 1);
  const RunId bottom = tree.version->runs[0].id;

  SECTION("no overlap, nothing owed: moved") {
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
  SECTION("a tombstone where nothing lies below: merged away, not moved") {
    tree.flush({{{.key = "c", .seq = 3, .kind = EntryKind::kTombstone, .delete_key = 9}}, {}});
    const auto result = tree.run(tree.merge_of(0, 1, {bottom, 2}));
    REQUIRE(result->files_moved == 0);
    tree.check();
    // Into a level between, the tombstone may move: it is needed there.
    tree.flush({{{.key = "a", .seq = 4, .kind = EntryKind::kTombstone, .delete_key = 9}}, {}});
    REQUIRE(tree.run(tree.merge_of(0, 0, {0, 1})).value().files_moved == 1);
    tree.check();
  }
  SECTION("a dead entry beside what lies below: the file does not move, though the rest of it could") {
    // "b" to "d" reaches past the older file's "a" to "c", and "d" has expired.
    tree.flush(
        {{{.key = "b", .seq = 3, .value = "3"}, {.key = "d", .seq = 4, .value = "4", .expiry = tree.context.now + 10}}, {}});
    tree.context.now += 10;
    const auto result = tree.run(tree.merge_of(0, 0, {0, 1}));
    REQUIRE(result->files_moved == 0);
    REQUIRE(result->entries_out == 1);
    tree.check();
  }
  SECTION("a passed expiry counts as a tombstone") {
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

TEST_CASE("plans that do not fit are refused, not carried out") {
  TreeFixture tree(3);
  tree.context.visible_seq = 100;
  tree.flush({{{.key = "a", .seq = 1, .value = "1"}, {.key = "m", .seq = 2, .value = "2"}}, {}});
  tree.flush({{{.key = "b", .seq = 3, .value = "3"}}, {}});
  tree.flush({{{.key = "b", .seq = 5, .value = "5"}}, {}});
  const auto& runs = tree.version->runs;
  const auto file = [&](std::size_t run) { return runs[run].files[0]->data_file; };
  Plan plan;
  SECTION("a run left out in between") {
    plan.action = Merge{{{runs[0].id, {file(0)}}, {runs[2].id, {file(2)}}}, {runs[2].id, 0}};
  }
  SECTION("output over a file that stays") { plan.action = Merge{{{runs[1].id, {file(1)}}}, {runs[2].id, 0}}; }
  SECTION("upwards") { plan.action = Merge{{{runs[1].id, {file(1)}}}, {runs[0].id, 0}}; }
  SECTION("an unknown file") { plan.action = Rewrite{runs[0].id, 999}; }
  SECTION("an unknown run") { plan.action = Rewrite{999, file(0)}; }
  const auto result = execute(plan, *tree.version, tree.context, tree.env);
  REQUIRE_FALSE(result.is_ok());
  REQUIRE(result.status().code() == Code::kInvalidArgument);
  REQUIRE(tree.leftovers().empty());
}

TEST_CASE("a merge that fails anywhere leaves no file behind") {
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

TEST_CASE("a merge that may not write on ends with the reason, and leaves no file behind") {
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

TEST_CASE("an aborted merge gives up and leaves no file behind") {
  TreeFixture tree(8);
  for (int i = 0; i < 3; ++i) tree.flush_random(130, 60);
  std::atomic<bool> abort{false};
  tree.env.abort = &abort;
  SECTION("before it starts") { abort = true; }
  SECTION("while it writes") {
    tree.fs.before_nth(1, kMutatingOps, [&] { abort = true; });
    REQUIRE_FALSE(abort);
  }
  const auto result = execute(tree.merge_of(0, tree.version->runs.size() - 1, {0, 1}), *tree.version, tree.context, tree.env);
  REQUIRE(result.status().code() == Code::kAborted);
  REQUIRE(tree.leftovers().empty());
  tree.check();
}

TEST_CASE("slices are refused with a sentence") {
  TreeFixture tree(9);
  Plan plan;
  plan.action = Slice{};
  REQUIRE(execute(plan, *tree.version, tree.context, tree.env).status().code() == Code::kUnsupported);
}

}  // namespace
}  // namespace ebbtide

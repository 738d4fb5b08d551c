// Tests of the cuts of groups into the parts that threads merge.
#include "compaction/group_cuts.h"

#include "tree_fixture.h"

namespace ebbtide {
namespace TEST_FILE {

using testing::TreeFixture;

void flush_even_numbers(TreeFixture& tree, int count) {
  testing::Source table;
  for (int i = 0; i < count; ++i) {
    table.entries.push_back(
        {.key = "k" + std::to_string(10'000 + 2 * i), .seq = ++tree.context.visible_seq, .value = std::string(300, 'x')});
  }
  tree.flush(table);
}

// Returns the parts of a rewrite of the newest run's first file.
std::vector<KeyRange> parts_of_rewrite(TreeFixture& tree, bool has_below) {
  Plan plan;
  plan.action = Rewrite{tree.version->runs[0].id, tree.version->runs[0].files[0]->data_file};
  const auto inputs = resolve_inputs(plan, *tree.version);
  REQUIRE(inputs.is_ok());
  std::vector<FileGroup> groups = overlapping_groups(inputs->files);
  REQUIRE(groups.size() == 1);
  MergeGroup group{std::move(groups[0]), inputs->target, &inputs->finality, has_below};
  group.files.bytes = tree.version->runs[0].files[0]->data_bytes;
  OpenTables tables;
  REQUIRE(tables.open({&group, 1}, tree.env).is_ok());
  const GroupCuts cuts(*tree.version, tree.context, tree.env, *inputs, tables);
  cuts.divide(&group);
  return cuts.parts_of(group);
}

// Makes a run of one large file above a run of small files.
void grow(TreeFixture& tree) {
  tree.context.settings.pages_per_tile = 1;
  tree.context.settings.compression = tree.context.settings.compression_last_level = Compression::kNone;
  flush_even_numbers(tree, 1000);
  REQUIRE(tree.run(tree.merge_of(0, 0, {0, 1})).is_ok());
  tree.context.settings.file_size = 1 << 20;
  flush_even_numbers(tree, 1000);
  REQUIRE(tree.version->runs[0].files.size() == 1);
  REQUIRE(tree.version->runs[1].files.size() > 10);
}

TEST_CASE("group is cut into parts: the parts cover the group without gaps, and each begins where a file below ends", "[cuts]") {
  TreeFixture tree(1);
  grow(tree);
  ThreadPool pool(2, "test", 0);
  tree.env.pool = &pool;
  std::set<std::string> ends;
  for (const FileMetaPtr& file : tree.version->runs[1].files) ends.insert(range_of(file->stats).end);
  for (const bool has_below : {true, false}) {
    const std::vector<KeyRange> parts = parts_of_rewrite(tree, has_below);
    REQUIRE(parts.size() == 4);
    CHECK(parts.front().start == tree.version->runs[0].files[0]->stats.smallest);
    CHECK(parts.back().end == range_of(tree.version->runs[0].files[0]->stats).end);
    std::size_t aligned = 0;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      CHECK(parts[i].start == parts[i - 1].end);
      aligned += ends.count(parts[i].start);
    }
    CHECK((aligned == parts.size() - 1) == has_below);
  }
}

TEST_CASE("output of a group fits into one file: the group is one part", "[cuts]") {
  TreeFixture tree(1);
  grow(tree);
  ThreadPool pool(2, "test", 0);
  tree.env.pool = &pool;
  CHECK(parts_of_rewrite(tree, true).size() == 4);
  tree.context.settings.partitioning = Partitioning::kLocalRange;
  CHECK(parts_of_rewrite(tree, true).size() == 1);
  tree.context.settings.file_size = 16384;
  CHECK(parts_of_rewrite(tree, true).size() > 1);
  tree.env.pool = nullptr;
  CHECK(parts_of_rewrite(tree, true).size() == 1);
}

}  // namespace TEST_FILE
}  // namespace ebbtide

#include "iter/merging_iterator.h"

#include <catch2/catch.hpp>

#include "entries.h"
#include "iter/run_iterator.h"

namespace ebbtide {
namespace TEST_FILE {

using testing::Owned;
using testing::VectorIterator;

std::unique_ptr<InternalIterator> walk(const std::vector<Owned>& entries) { return std::make_unique<VectorIterator>(&entries); }

/// Drives `it` with random moves and compares it with the sorted model after each move.
void compare(InternalIterator& it, const std::vector<Owned>& model, Random& random, int moves) {
  std::size_t at = model.size();  // model.size() = not valid
  for (int i = 0; i < moves; ++i) {
    const bool valid = at < model.size();
    const auto from = [&](const std::string& key) {
      return static_cast<std::size_t>(
          std::lower_bound(model.begin(), model.end(), key, [](const Owned& e, const std::string& k) { return e.key < k; }) -
          model.begin());
    };
    const std::uint64_t move = random.uniform(valid ? 16 : 4);
    if (move == 0) {
      it.seek_to_first();
      at = 0;
    } else if (move == 1) {
      it.seek_to_last();
      at = model.empty() ? 0 : model.size() - 1;
    } else if (move == 2) {
      const std::string key = testing::random_key(random, 40);
      it.seek(key);
      at = from(key);
    } else if (move == 3) {
      const std::string key = testing::random_key(random, 40);
      it.seek_before(key);
      at = from(key);
      at = at == 0 ? model.size() : at - 1;
    } else if (move < 10) {
      it.next();
      ++at;
    } else {
      it.prev();
      at = at == 0 ? model.size() : at - 1;
    }
    REQUIRE(it.status().is_ok());
    REQUIRE(it.valid() == (at < model.size()));
    if (it.valid()) REQUIRE(Owned::of(it.entry()) == model[at]);
  }
}

TEST_CASE("several iterators are merged: the result is the sorted union, forwards and backwards") {
  const std::size_t k = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{5}, std::size_t{8},
                                 std::size_t{33}, std::size_t{200});
  const std::size_t shared_prefix = GENERATE(std::size_t{0}, std::size_t{7});
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(k, shared_prefix, seed);
    Random random(seed * 1000 + k);
    SeqNum last = 0;
    auto sources = testing::random_sources(random, {.sources = k, .keys = 40, .versions = seed % 3 == 0 ? 2u : 25u}, &last);
    std::vector<Owned> model;
    std::vector<std::unique_ptr<InternalIterator>> children;
    for (const auto& source : sources) {
      model.insert(model.end(), source.entries.begin(), source.entries.end());
      children.push_back(walk(source.entries));
    }
    testing::sort_versions(&model);
    MergingIterator it(std::move(children), shared_prefix);
    REQUIRE_FALSE(it.valid());
    compare(it, model, random, 300);
  }
}

TEST_CASE("source of a merging iterator has an error: the iterator ends with the error") {
  std::vector<Owned> a = {{.key = "a", .seq = 1}, {.key = "c", .seq = 2}}, b = {{.key = "b", .seq = 3}, {.key = "d", .seq = 4}};
  auto failing = std::make_unique<VectorIterator>(&b);
  failing->fail_after(2);
  VectorIterator* raw = failing.get();
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(walk(a));
  children.push_back(std::move(failing));
  MergingIterator it(std::move(children));
  it.seek_to_first();
  REQUIRE(it.entry().key == "a");
  it.next();
  REQUIRE(it.entry().key == "b");
  it.next();
  REQUIRE_FALSE(it.valid());
  REQUIRE(it.status().code() == Code::kIoError);
  raw->fail_after(0);
  it.seek_to_last();
  REQUIRE(it.status().is_ok());
  REQUIRE(it.entry().key == "d");
}

TEST_CASE("key begins with bytes 0 or 255, like the cached prefix of an ended source: the iterator still returns the key") {
  const std::string high(10, '\xff'), low(10, '\0');
  std::vector<Owned> a = {{.key = low, .seq = 1}, {.key = high, .seq = 1}}, b = {{.key = high + "b", .seq = 2}}, none;
  for (const bool reversed : {false, true}) {
    std::vector<std::unique_ptr<InternalIterator>> children;
    for (const auto* entries : reversed ? std::vector{&none, &b, &a} : std::vector{&a, &b, &none})
      children.push_back(walk(*entries));
    MergingIterator it(std::move(children));
    std::size_t seen = 0;
    for (it.seek_to_first(); it.valid(); it.next()) ++seen;
    REQUIRE(seen == 3);
    for (it.seek_to_last(); it.valid(); it.prev()) --seen;
    REQUIRE(seen == 0);
  }
}

TEST_CASE("merging iterator is at an entry: child() is the index of the source that has the entry") {
  std::vector<Owned> a = {{.key = "k", .seq = 9}}, b = {{.key = "k", .seq = 4}}, c = {{.key = "k", .seq = 6}};
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(walk(a));
  children.push_back(walk(b));
  children.push_back(walk(c));
  MergingIterator it(std::move(children));
  it.seek("k");
  REQUIRE(it.child() == 0);
  it.next();
  REQUIRE(it.child() == 2);
  it.next();
  REQUIRE(it.child() == 1);
}

struct TestRun {
  std::vector<std::vector<Owned>> files;
  std::vector<TableStats> stats;
  std::vector<Owned> all;
  std::vector<int> opened;

  RunFiles files_of() {
    return {files.size(), [this](std::size_t i) -> const TableStats& { return stats[i]; },
            [this](std::size_t i) {
              ++opened[i];
              return walk(files[i]);
            }};
  }
};

/// Returns a run of random files, some of which have only range tombstones, or bounds wider than their entries.
TestRun random_run(Random& random, std::size_t files) {
  TestRun run;
  SeqNum last = 0;
  run.all = testing::random_sources(random, {.sources = 1, .keys = 40, .versions = 60}, &last)[0].entries;
  std::size_t from = 0;
  std::string below;
  for (std::size_t f = 0; f < files; ++f) {
    std::size_t to =
        f + 1 == files ? run.all.size() : std::min(run.all.size(), from + random.uniform(2 * run.all.size() / files + 1));
    while (to > from && to < run.all.size() && run.all[to].key == run.all[to - 1].key) ++to;
    std::vector<Owned> part(run.all.begin() + static_cast<long>(from), run.all.begin() + static_cast<long>(to));
    TableStats stats;
    for (const Owned& e : part) stats.add_entry(e.view());
    const std::string end = to < run.all.size() ? run.all[to].key : std::string();
    // The tombstone has the widest range that the file may cover: from the last file's end to the next file's first entry.
    if ((part.empty() || random.one_in(3)) && (below < end || end.empty())) stats.add_range_tombstone({below, end, 1000, 1});
    if (stats.entries + stats.range_tombstones == 0) continue;
    below = stats.largest_exclusive ? stats.largest : (stats.unbounded ? below : stats.largest + '\0');
    run.files.push_back(std::move(part));
    run.stats.push_back(stats);
    from = to;
    if (stats.unbounded) break;
  }
  run.all.resize(from);
  run.opened.assign(run.files.size(), 0);
  return run;
}

TEST_CASE("run is read, forwards or backwards: its files are read in key order") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    TestRun run = random_run(random, 1 + seed % 7);
    RunIterator it(run.files_of(), {});
    compare(it, run.all, random, 200);
  }
}

TEST_CASE("run is read within bounds: only files that overlap the bounds are opened, each when it is reached") {
  TestRun run;
  for (const char* key : {"a", "c", "e", "g"}) {
    run.files.push_back({{.key = key, .seq = 1}});
    run.stats.emplace_back().add_entry(run.files.back()[0].view());
  }
  run.opened.assign(4, 0);
  RunIterator it(run.files_of(), {"b", "g"});
  REQUIRE(run.opened == std::vector<int>{0, 0, 0, 0});
  it.seek_to_first();
  REQUIRE(it.entry().key == "c");
  REQUIRE(run.opened == std::vector<int>{0, 1, 0, 0});
  it.seek_before("z");
  REQUIRE(it.entry().key == "e");
  it.next();
  REQUIRE_FALSE(it.valid());
  it.seek("f");
  REQUIRE_FALSE(it.valid());
  it.seek_before("c");
  REQUIRE_FALSE(it.valid());
  REQUIRE(run.opened[0] == 0);
  REQUIRE(run.opened[3] == 0);
}

TEST_CASE("file of a run cannot be opened: the iterator ends with its error") {
  TestRun run;
  run.files = {{{.key = "a", .seq = 1}}, {{.key = "b", .seq = 1}}};
  for (const auto& file : run.files) run.stats.emplace_back().add_entry(file[0].view());
  run.opened.assign(2, 0);
  RunFiles files = run.files_of();
  files.open = [&](std::size_t i) { return i == 0 ? walk(run.files[0]) : error_iterator(Status::io_error("no file")); };
  RunIterator it(files, {});
  it.seek_to_first();
  REQUIRE(it.valid());
  it.next();
  REQUIRE_FALSE(it.valid());
  REQUIRE(it.status().code() == Code::kIoError);
  it.seek("a");
  REQUIRE(it.valid());
  REQUIRE(it.status().is_ok());
}

}  // namespace TEST_FILE
}  // namespace ebbtide

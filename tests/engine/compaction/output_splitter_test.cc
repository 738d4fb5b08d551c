// Tests of where the output of a merge is cut into files.
#include <algorithm>

#include <catch2/catch.hpp>

#include "compaction/output_splitter.h"
#include "engine/iter/entries.h"

namespace ebbtide {
namespace TEST_FILE {

TEST_CASE("output file ends: range tombstones are cut there, and every file has the tombstones over its keys") {
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

TEST_CASE("output reaches its size limit, or overlaps too much below: the file is closed") {
  OutputSplitter splitter({800, 500}, {}, {{"c", 300}, {"e", 300}, {"", 300}});
  REQUIRE_FALSE(splitter.should_close("a", 799));
  REQUIRE(splitter.should_close("a", 800));
  REQUIRE_FALSE(splitter.should_close("d", 400));
  REQUIRE(splitter.should_close("e", 400));
  REQUIRE_FALSE(splitter.should_close("e", 99));  // the file is too small to close
  (void)splitter.close_before("e");
  REQUIRE_FALSE(splitter.should_close("f", 400));
}

TEST_CASE("outputs are aligned: each ends at the end of a file of the next older run, near the size limit") {
  const OutputSplitter::Limits limits{.file_bytes = 1000, .aligned = true};
  const std::vector<BelowFile> below{{"c", 1}, {"e", 1}, {"g", 1}, {"m", 1}, {"", 1}};
  OutputSplitter splitter(limits, {}, below);
  REQUIRE_FALSE(splitter.should_close("a", 0));
  REQUIRE_FALSE(splitter.should_close("c", 400));  // the next file below probably ends at 800
  REQUIRE_FALSE(splitter.should_close("d", 790));
  REQUIRE(splitter.should_close("e", 800));  // the next file below probably ends at 1200, which is no nearer
  (void)splitter.close_before("e");
  REQUIRE_FALSE(splitter.should_close("g", 600));
  REQUIRE_FALSE(splitter.should_close("h", 1499));
  REQUIRE(splitter.should_close("i", 1500));  // no file below has ended near the size, so half as much again is the limit
  (void)splitter.close_before("i");
  REQUIRE(splitter.should_close("m", 667));  // the next file below probably ends at 1334
  (void)splitter.close_before("m");
  REQUIRE_FALSE(splitter.should_close("n", 999));
  REQUIRE(splitter.should_close("o", 1000));  // no other file below ends later
  SECTION("file below ends before the next key: the range tombstone is cut where the file below ends") {
    OutputSplitter cut(limits, {{"a", "z", 7, 70}}, below);
    REQUIRE_FALSE(cut.should_close("a", 0));
    REQUIRE(cut.should_close("d", 900));
    REQUIRE(cut.close_before("d").front().end == "c");
    REQUIRE(cut.close_last().front().start == "c");
  }
  SECTION("range tombstone is cut: the pieces take over the pending birth of the key at the cut") {
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
  SECTION("last file below has ended: the output file is closed at its size limit") {
    OutputSplitter last(limits, {}, {{"c", 1}});
    REQUIRE_FALSE(last.should_close("b", 1000));
    REQUIRE_FALSE(last.should_close("d", 600));
    REQUIRE(last.should_close("e", 1000));
  }
  SECTION("outputs are not aligned: they are closed at the size limit, wherever files below end") {
    OutputSplitter plain({.file_bytes = 1000}, {}, below);
    REQUIRE_FALSE(plain.should_close("e", 999));
    REQUIRE(plain.should_close("f", 1000));
  }
}

}  // namespace TEST_FILE
}  // namespace ebbtide

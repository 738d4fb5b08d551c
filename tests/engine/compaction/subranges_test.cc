// Tests of the cuts of a merge's inputs into parts.
#include <catch2/catch.hpp>

#include "compaction/subranges.h"
#include "engine/compaction/files.h"

namespace ebbtide {
namespace TEST_FILE {

InputFile input(const FileMetaPtr& file, std::size_t run = 0) { return {run, run + 1, file, range_of(file->stats)}; }

TEST_CASE("file starts past the ends of all earlier files: it begins a new group, otherwise not") {
  const auto groups =
      overlapping_groups({input(make_file(1, "a", "m")), input(make_file(2, "b", "c"), 1), input(make_file(3, "k", "p"), 1),
                          input(make_file(4, "q", "r")), input(make_file(5, "r", "s"), 1), input(make_file(6, "t", "t"))});
  REQUIRE(groups.size() == 3);
  REQUIRE(groups[0].files.size() == 3);
  REQUIRE(groups[0].range.start == "a");
  REQUIRE(groups[0].range.end == std::string("p\0", 2));
  REQUIRE(groups[0].bytes == 300);
  REQUIRE(groups[1].files.size() == 2);  // both files have r
  REQUIRE(groups[2].files.size() == 1);
}

TEST_CASE("merge has more files than requested samples: it is still cut into parts") {
  // If shares were rounded down to no sample per file, large merges would run on one thread.
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

TEST_CASE("group is cut evenly: the ranges have about the same bytes and leave no gap") {
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
  // Seven eighths of the bytes are in the first half of the keys.
  const auto halves = cut_evenly(groups[0], 2, even);
  REQUIRE(halves[1].start > "k230");
  REQUIRE(halves[1].start < "k340");
  REQUIRE(cut_evenly(groups[0], 4, [](const FileMeta&, const KeyRange&, std::size_t) {
            return std::vector<std::string>();
          }).size() == 1);
}

}  // namespace TEST_FILE
}  // namespace ebbtide

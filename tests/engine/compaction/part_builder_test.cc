// Tests of the cuts of range tombstones in a part beside a slice. executor_test.cc tests whole parts.
#include "compaction/part_builder.h"

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

// The range to which a part's range tombstones are clipped, and the known pending births of the keys at its ends.
struct Clip {
  KeyRange range;
  std::optional<Millis> at_start, at_end;
};
Clip clip_of(const KeyRange& range, const SliceBorder& border) {
  MergePart part;
  part.range = range;
  clip_at_slice(border, &part);
  REQUIRE(part.tombstone_range.has_value());
  return {*part.tombstone_range, part.pending_at_start, part.pending_at_end};
}

TEST_CASE("part borders on a slice: range tombstones of the part are cut where the slice's output begins or ends", "[slice]") {
  const SliceBorder border{{"g", "p"}, SliceEnds{"h", "m", 70, 80}};
  const Clip before = clip_of({"a", "g"}, border);
  CHECK(before.range == KeyRange{"a", "h"});
  CHECK(before.at_start == std::nullopt);
  CHECK(before.at_end == 70);
  const Clip after = clip_of({"p", "z"}, border);
  CHECK(after.range == KeyRange{"m", "z"});
  CHECK(after.at_start == 80);
  CHECK(after.at_end == std::nullopt);
  const Clip unbounded = clip_of({"p", ""}, border);
  CHECK(unbounded.range == KeyRange{"m", ""});
}

TEST_CASE("sub-merge does not border on the merge slice: its range tombstones are clipped to its own range", "[slice]") {
  const SliceBorder border{{"g", "p"}, SliceEnds{"h", "m", 70, 80}};
  for (const KeyRange& range : {KeyRange{"a", "c"}, KeyRange{"r", "z"}, KeyRange{"a", "z"}}) {
    const Clip clip = clip_of(range, border);
    CHECK(clip.range == range);
    CHECK(clip.at_start == std::nullopt);
    CHECK(clip.at_end == std::nullopt);
  }
}

TEST_CASE("slice has no output: range tombstones of the neighbouring parts reach across the slice", "[slice]") {
  const SliceBorder border{{"g", "p"}, std::nullopt};
  CHECK(clip_of({"a", "g"}, border).range == KeyRange{"a", "p"});
  CHECK(clip_of({"p", "z"}, border).range == KeyRange{"g", "z"});
}

TEST_CASE("slice is unbounded on one side: only parts on its bounded side border on the slice", "[slice]") {
  const SliceEnds ends{"b", "m", 70, 80};
  CHECK(clip_of({"p", "z"}, {{"", "p"}, ends}).range == KeyRange{"m", "z"});
  CHECK(clip_of({"", "g"}, {{"g", ""}, ends}).range == KeyRange{"", "b"});
  // An empty end is not a key that a part could touch.
  CHECK(clip_of({"", "g"}, {{"g", ""}, std::nullopt}).range == KeyRange{"", ""});
  CHECK(clip_of({"p", ""}, {{"", "p"}, std::nullopt}).range == KeyRange{"", ""});
}

}  // namespace TEST_FILE
}  // namespace ebbtide

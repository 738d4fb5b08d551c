// Finds elements of a large collection by rank, and ranks by name, without visiting all elements before them.
//
//   boundary   ""      "b04..."    "b31..."   "c77..."
//   elements     128         131        97       254
//
// The index divides the elements, in the order of their names, into segments, and stores each segment's number of elements. The
// rank of an element is the sum of the numbers of the segments before its own, plus its position in its segment. A walk finds
// that position. A new index has one segment; readers that walk over a segment split it. Groups of segments with a sum each keep
// a look-up short: ten million elements have about 1,200 groups.
//
// The index is only in memory. It is exact for one state of the collection, so a writer that adds or removes an element must call
// add() or remove().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// The rank index of one collection. Not thread-safe.
class RankIndex {
 public:
  /// A walk over a longer segment should propose a split after each kSegmentElements elements. Walking over that many takes about
  /// ten microseconds.
  static constexpr std::uint64_t kSegmentElements = 128;

  /// A point from which a walk can begin.
  struct Boundary {
    std::string name;            ///< the segment has the elements from this name on; no element need have it
    std::uint64_t before = 0;    ///< number of elements with smaller names
    std::uint64_t elements = 0;  ///< number of elements up to the next boundary
  };
  /// A boundary that a walk proposes for a split.
  struct Point {
    std::string name;
    std::uint64_t elements = 0;  ///< number of elements since the previous point, or since the walk began
  };

  /// `count`: the number of elements.
  explicit RankIndex(std::uint64_t count);

  /// Returns the last boundary whose name is not greater than `name`.
  [[nodiscard]] Boundary at_name(Bytes name) const;
  /// Returns the last boundary that has at most `rank` elements before it.
  [[nodiscard]] Boundary at_rank(std::uint64_t rank) const;
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Returns the approximate bytes of memory.
  [[nodiscard]] std::size_t memory_bytes() const { return memory_; }

  void add(Bytes name);
  /// Subtracts a removed element from its segment's number. Returns false if that number is 0: then the index does not describe
  /// the collection.
  [[nodiscard]] bool remove(Bytes name);

  /// A change of the collection that happened after the walk that found the points.
  struct Change {
    std::string name;
    bool added = false;
  };
  /// Splits the segment that begins at `from`, at ascending points behind `from`; ignores points behind the segment's end.
  /// `since`: changes that the index counts and the walk has not seen. Returns false, and leaves the index unchanged, if the
  /// points do not agree with it.
  [[nodiscard]] bool split(Bytes from, std::span<const Point> points, std::span<const Change> since);

 private:
  struct Segment {
    std::string first;
    std::uint64_t count = 0;
  };
  struct Group {
    std::vector<Segment> segments;  ///< at least one
    std::uint64_t count = 0;
  };
  struct Place {
    std::size_t group, segment;
  };
  static constexpr std::size_t kGroupSegments = 64, kMostGroupSegments = 128;

  [[nodiscard]] Place place_of(Bytes name) const;
  [[nodiscard]] Boundary boundary_at(const Place& place) const;
  /// Returns the name at which the segment ends; null for the last segment.
  [[nodiscard]] const std::string* end_of(const Place& place) const;
  void erase(const Place& place);
  /// Divides a group that has too many segments.
  void divide(std::size_t group);

  std::vector<Group> groups_;
  std::uint64_t count_ = 0;
  std::size_t memory_ = 0;
};

}  // namespace ebbtide

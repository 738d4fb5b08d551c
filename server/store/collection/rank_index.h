// Finds elements of a large collection by rank, and ranks by name, without visiting all elements before them.
//
//   boundary   ""      "b04..."    "b31..."   "c77..."
//   elements     128         131        97       254
//
// The index divides the elements, in the order of their names, into segments, and counts those of each. The rank of an element is
// the sum of the segments before its own, plus its place there, which a walk from the boundary finds. A new index has one
// segment; readers that walk over a segment split it. Segments are in groups, whose sums keep a look-up short: ten million elements
// have about 1,200 groups.
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
  /// A walk over a segment with more elements should split it every so many elements: a walk over them takes about ten microseconds.
  static constexpr std::uint64_t kSegmentElements = 128;

  /// A place from which a walk can begin.
  struct Boundary {
    std::string name;            ///< the elements from this name on follow it; it need not be an element's name
    std::uint64_t before = 0;    ///< number of elements with smaller names
    std::uint64_t elements = 0;  ///< number of elements up to the next boundary
  };
  /// A boundary that a walk proposes.
  struct Point {
    std::string name;
    std::uint64_t elements = 0;  ///< number of elements from the previous point, or the walk's beginning, to this one
  };

  /// `count`: the number of elements.
  explicit RankIndex(std::uint64_t count);

  /// Returns the last boundary that is not behind `name`.
  [[nodiscard]] Boundary at_name(Bytes name) const;
  /// Returns the last boundary that has at most `rank` elements before it.
  [[nodiscard]] Boundary at_rank(std::uint64_t rank) const;
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Returns the approximate bytes of memory.
  [[nodiscard]] std::size_t memory_bytes() const { return memory_; }

  void add(Bytes name);
  /// Returns false if the index has no element left where the name belongs: it does not describe the collection.
  [[nodiscard]] bool remove(Bytes name);

  /// A change of the collection after the walk that found the points.
  struct Change {
    std::string name;
    bool added = false;
  };
  /// Splits the segment that begins at `from`, at ascending points behind `from`; ignores those behind its end. `since`: the
  /// changes that the index has and the walk has not seen. Returns false if the points do not fit to the index, which then stays
  /// as it is.
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
  /// Returns the name at which the segment ends; null: it is the last one.
  [[nodiscard]] const std::string* end_of(const Place& place) const;
  void erase(const Place& place);
  /// Divides a group that has too many segments.
  void divide(std::size_t group);

  std::vector<Group> groups_;
  std::uint64_t count_ = 0;
  std::size_t memory_ = 0;
};

}  // namespace ebbtide

// Lists as values: Redis's ranges and searches over a decoded list.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "store/collection/compact.h"

namespace ebbtide {

/// A range of indexes [begin, end) of a list or sorted set.
struct Places {
  std::size_t begin = 0, end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
  [[nodiscard]] bool empty() const { return begin == end; }
};

/// Returns the indexes from `start` to `stop`, both included and limited to the list. Negative numbers count from the end.
Places places_between(std::int64_t start, std::int64_t stop, std::size_t size);
/// Returns the index, counted from the head, that a client means by `index`: negative numbers count from the end. nullopt: the
/// list has no such element.
std::optional<std::size_t> place_at(std::int64_t index, std::size_t size);

/// The options of LPOS.
struct ListSearch {
  std::int64_t rank = 1;       ///< number of the first match to return; negative: counted from the tail; never 0
  std::uint64_t count = 1;     ///< number of matches to return; 0 = all
  std::uint64_t max_size = 0;  ///< number of elements to compare; 0 = all
};
/// Returns the indexes at which the element was found, in the order of the search.
std::vector<std::size_t> find_elements(const List& list, Bytes element, const ListSearch& search);

/// Removes elements that equal `element`: the first `count`; if `count` is negative, the last -count; 0: all. Returns how many it
/// has removed.
std::size_t remove_elements(List* list, std::int64_t count, Bytes element);

}  // namespace ebbtide

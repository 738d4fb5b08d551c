#include "store/lists.h"

#include <algorithm>

namespace ebbtide {

Places places_between(std::int64_t start, std::int64_t stop, std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  if (start < 0) start = std::max<std::int64_t>(length + start, 0);
  if (stop < 0) stop += length;
  if (start > stop || start >= length) return {};
  return {static_cast<std::size_t>(start), static_cast<std::size_t>(std::min(stop, length - 1)) + 1};
}

std::optional<std::size_t> place_at(std::int64_t index, std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  return static_cast<std::size_t>(index);
}

std::vector<std::size_t> find_elements(const List& list, Bytes element, const ListSearch& search) {
  const bool backward = search.rank < 0;
  const auto first = static_cast<std::uint64_t>(backward ? -search.rank : search.rank);
  const std::size_t compared = search.max_size == 0 ? list.size() : std::min<std::uint64_t>(search.max_size, list.size());
  std::vector<std::size_t> places;
  std::uint64_t matches = 0;
  for (std::size_t i = 0; i < compared; ++i) {
    const std::size_t place = backward ? list.size() - 1 - i : i;
    if (list[place] != element || ++matches < first) continue;
    places.push_back(place);
    if (search.count != 0 && places.size() >= search.count) break;
  }
  return places;
}

std::size_t remove_elements(List* list, std::int64_t count, Bytes element) {
  const std::size_t before = list->size();
  const std::uint64_t limit = count == 0  ? ~std::uint64_t{0}
                              : count < 0 ? ~static_cast<std::uint64_t>(count) + 1
                                          : static_cast<std::uint64_t>(count);
  std::uint64_t removed = 0;
  const auto goes = [&](Bytes each) { return removed < limit && each == element && ++removed != 0; };
  if (count < 0) {
    // Removes from the tail on: the kept elements move towards the tail.
    const auto kept = std::remove_if(list->rbegin(), list->rend(), goes);
    list->erase(list->begin(), kept.base());
  } else {
    list->erase(std::remove_if(list->begin(), list->end(), goes), list->end());
  }
  return before - list->size();
}

}  // namespace ebbtide

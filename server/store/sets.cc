#include "store/sets.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ebbtide {

Result<bool> has_member(Bytes set, Bytes member) {
  TRY_ASSIGN(reader, CompactReader::open(set, CollectionType::kSet));
  for (Bytes each; reader.next(&each);) {
    if (each >= member) return each == member;
  }
  TRY(reader.status());
  return false;
}

bool has_member(const Set& set, Bytes member) { return std::binary_search(set.begin(), set.end(), member); }

Set make_set(std::vector<Bytes> members) {
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

Set united(const Set& a, const Set& b) {
  Set out;
  out.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

Set united(std::span<const Set> sets) {
  std::vector<Bytes> members;
  std::size_t count = 0;
  for (const Set& set : sets) count += set.size();
  members.reserve(count);
  for (const Set& set : sets) members.insert(members.end(), set.begin(), set.end());
  return make_set(std::move(members));
}

Set common(const Set& a, const Set& b) {
  Set out;
  out.reserve(std::min(a.size(), b.size()));
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

Set without(const Set& a, const Set& b) {
  Set out;
  out.reserve(a.size());
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

void split_set(const Set& set, std::span<const std::size_t> places, Set* chosen, Set* rest) {
  chosen->clear();
  rest->clear();
  for (std::size_t i = 0, next = 0; i < set.size(); ++i) {
    const bool here = next < places.size() && places[next] == i;
    (here ? chosen : rest)->push_back(set[i]);
    next += here ? 1 : 0;
  }
}

}  // namespace ebbtide

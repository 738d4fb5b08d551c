// Sets as values: lookups in a set's bytes, and operations on decoded sets, whose members ascend.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "store/collection/compact.h"

namespace ebbtide {

/// Looks for a member in the bytes of a set, without decoding them all. kCorruption if they are damaged before the point where
/// the member is or would be.
Result<bool> has_member(Bytes set, Bytes member);
/// Returns true if a decoded set has the member.
bool has_member(const Set& set, Bytes member);

/// Returns the members in order, each once.
Set make_set(std::vector<Bytes> members);

/// Returns the members that are in `a`, `b` or both.
Set united(const Set& a, const Set& b);
/// Returns the union of all sets. Sorts all members once, so that many sets take no longer than one set with as many members.
Set united(std::span<const Set> sets);
/// Returns the members that are in `a` and `b`.
Set common(const Set& a, const Set& b);
/// Returns the members of `a` that are not in `b`.
Set without(const Set& a, const Set& b);

/// Splits `set`: `chosen` gets the members with the indexes `places`, which must ascend, and `rest` the others.
void split_set(const Set& set, std::span<const std::size_t> places, Set* chosen, Set* rest);

}  // namespace ebbtide

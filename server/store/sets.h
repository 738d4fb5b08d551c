// Sets as values: lookups in a set's bytes, and operations on decoded sets, whose members ascend.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "store/collection/compact.h"

namespace ebbtide {

/// Looks for a member in the bytes of a set, without decoding them. kCorruption if they are damaged up to its place.
Result<bool> has_member(Bytes set, Bytes member);
/// Returns the same for a decoded set.
bool has_member(const Set& set, Bytes member);

/// Returns the members in order, each once.
Set make_set(std::vector<Bytes> members);

/// Returns the members of `a` or `b`.
Set united(const Set& a, const Set& b);
/// Returns the members of all sets. It sorts all members once: many sets take no longer than one set with as many members.
Set united(std::span<const Set> sets);
/// Returns the members of both.
Set common(const Set& a, const Set& b);
/// Returns the members of `a` that are not in `b`.
Set without(const Set& a, const Set& b);

/// Splits `set` at ascending places: `chosen` gets the members there, `rest` the others.
void split_set(const Set& set, std::span<const std::size_t> places, Set* chosen, Set* rest);

}  // namespace ebbtide

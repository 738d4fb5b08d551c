// The patterns of keys or channels that a selector allows, with an index.
//
// A user may have thousands of patterns, and a command thousands of keys. Patterns are sorted by their prefix, which is the text
// before the first special character. A key is compared only with the patterns whose prefix it begins with. Nearly all patterns
// are plain text, with or without a star at the end, and the prefix decides. For the others, such as *:tenant1:*, the key's
// length, its end, and the longest plain text in the pattern are compared first, and only then the whole pattern.
//
// All comparisons take steps of a budget (budget.h), since a long key and thousands of other patterns still take seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <engine/bytes.h>

#include "acl/budget.h"

namespace ebbtide {

/// A range of texts: each t with start <= t < end, or, without an end, each from `start` on.
struct AclRange {
  Bytes start;
  std::optional<Bytes> end = std::nullopt;
  bool is_prefix = false;  ///< true: the range is all texts that begin with `start`
};

/// A set of patterns, each with bits of access. A value type; const members are thread-safe.
class AclPatternSet {
 public:
  struct Pattern {
    std::string text;
    std::uint8_t access = 0;
    friend bool operator==(const Pattern&, const Pattern&) = default;
  };

  /// Adds a pattern. If the set has it already, adds `access` to its bits.
  void add(Bytes text, std::uint8_t access);
  void clear() { *this = {}; }  // frees the memory, too

  /// Returns true if a pattern with all bits of `access` matches the text; nullopt if the budget does not suffice.
  [[nodiscard]] std::optional<bool> matches(Bytes text, std::uint8_t access, AclBudget& budget) const;
  /// Returns true if one pattern with all bits of `access`, a text with only stars after it, matches each text of the range;
  /// nullopt if the budget does not suffice.
  [[nodiscard]] std::optional<bool> covers(const AclRange& range, std::uint8_t access, AclBudget& budget) const;
  [[nodiscard]] bool contains(Bytes pattern) const { return find(pattern) != sorted_.size(); }
  /// Returns the steps that contains() takes at most.
  [[nodiscard]] std::uint64_t steps_of_contains(Bytes pattern) const { return steps_of_search(pattern.size()); }
  /// Returns all patterns in the order in which they were added.
  [[nodiscard]] const std::vector<Pattern>& all() const { return all_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  /// Returns the memory of the set, without the texts.
  [[nodiscard]] std::uint64_t memory_bytes() const {
    return all_.capacity() * sizeof(Pattern) + shapes_.capacity() * sizeof(GlobShape) +
           (sorted_.capacity() + quoted_.capacity()) * sizeof(Place);
  }

  friend bool operator==(const AclPatternSet& a, const AclPatternSet& b) { return a.all_ == b.all_; }

 private:
  using Place = std::uint32_t;  // an index into all_ and shapes_
  /// Returns the text of a pattern before its first special character or quote.
  [[nodiscard]] Bytes prefix(Place place) const { return Bytes(all_[place].text).substr(0, shapes_[place].prefix); }
  [[nodiscard]] std::optional<bool> matches_other(Place place, Bytes text, AclBudget& budget) const;
  /// Calls `test` for each pattern whose prefix begins `text`, the longest prefix first, until a result is not false, and returns
  /// that result; false if there is none. nullopt: the budget does not suffice.
  template <typename Test>
  std::optional<bool> any_beginning(Bytes text, AclBudget& budget, const Test& test) const;
  /// Returns the index in sorted_ of the first pattern whose prefix is greater than `text`.
  [[nodiscard]] std::size_t end_of(Bytes text) const;
  /// Returns the index of the pattern in sorted_; the size of sorted_ if it is not there.
  [[nodiscard]] std::size_t find(Bytes pattern) const;
  [[nodiscard]] std::size_t lower_bound(Bytes pattern, Bytes prefix) const;
  [[nodiscard]] std::uint64_t steps_of_search(std::size_t bytes) const;

  std::vector<Pattern> all_;
  std::vector<GlobShape> shapes_;
  std::vector<Place> sorted_;  // by prefix, then by the whole text
  std::vector<Place> quoted_;  // patterns that are a text with quoted characters, and a star
  std::size_t longest_prefix_ = 0;
};

}  // namespace ebbtide

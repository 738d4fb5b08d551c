// The patterns of keys or channels that a selector allows, indexed for fast matching.
//
// A user may have thousands of patterns, and a command thousands of keys. Patterns are sorted by their prefix: the text before
// the first special character. A key is matched only with patterns whose prefix is a prefix of the key. This is enough for most
// patterns: plain texts with or without a star at the end. For others, such as *:tenant1:*, quick comparisons come before the
// whole pattern: the key's length, its end, and the longest plain text in the pattern.
//
// All comparisons take steps of a budget (budget.h), since a long key and thousands of patterns such as *:tenant1:* take seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <engine/bytes.h>

#include "acl/budget.h"

namespace ebbtide {

/// A range of texts: all t with start <= t < end, or, without an end, all t >= start.
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

  /// Adds a pattern with these bits of access. If the set already has the pattern, adds the bits to the pattern's.
  void add(Bytes text, std::uint8_t access);
  void clear() { *this = {}; }  // frees the memory, too

  /// Returns true if a pattern with all bits of `access` matches the text; nullopt if the budget is used up.
  [[nodiscard]] std::optional<bool> matches(Bytes text, std::uint8_t access, AclBudget& budget) const;
  /// Returns true if a single pattern with all bits of `access` matches each text of the range. Only a pattern that is a plain
  /// text followed by stars can do so here. nullopt if the budget is used up.
  [[nodiscard]] std::optional<bool> covers(const AclRange& range, std::uint8_t access, AclBudget& budget) const;
  [[nodiscard]] bool contains(Bytes pattern) const { return find(pattern) != sorted_.size(); }
  /// Returns the most steps that contains() takes for this pattern.
  [[nodiscard]] std::uint64_t steps_of_contains(Bytes pattern) const { return steps_of_search(pattern.size()); }
  /// Returns all patterns in the order in which they were added.
  [[nodiscard]] const std::vector<Pattern>& all() const { return all_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  /// Returns the memory of the set in bytes, without the texts of the patterns.
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
  /// Calls `test` for each pattern whose prefix is a prefix of `text`, the longest first. Returns the first result that is not
  /// false; false if there is none. nullopt: the budget is used up.
  template <typename Test>
  std::optional<bool> any_beginning(Bytes text, AclBudget& budget, const Test& test) const;
  /// Returns the index in sorted_ of the first pattern whose prefix is greater than `text`.
  [[nodiscard]] std::size_t end_of(Bytes text) const;
  /// Returns the index of the pattern in sorted_; the size of sorted_ if the set does not have it.
  [[nodiscard]] std::size_t find(Bytes pattern) const;
  [[nodiscard]] std::size_t lower_bound(Bytes pattern, Bytes prefix) const;
  [[nodiscard]] std::uint64_t steps_of_search(std::size_t bytes) const;

  std::vector<Pattern> all_;
  std::vector<GlobShape> shapes_;
  std::vector<Place> sorted_;  // sorted by prefix, then by the whole text
  std::vector<Place> quoted_;  // patterns that are a plain text with quoted characters, followed by a star
  std::size_t longest_prefix_ = 0;
};

}  // namespace ebbtide

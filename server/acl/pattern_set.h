// The patterns of keys or channels that a selector allows, with an index.
//
// A user may have thousands of patterns, and a command thousands of keys. Nearly all patterns are a plain text, or a plain text and a star.
// These are sorted by their text, so a key is compared with a few of them. All others are compared one by one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/bytes.h>

namespace ebbtide {

/// A set of patterns, each with bits of access. A value type; const members are thread-safe.
class AclPatternSet {
 public:
  struct Pattern {
    std::string text;
    std::uint8_t access = 0;
    friend bool operator==(const Pattern&, const Pattern&) = default;
  };

  /// Adds a pattern, or bits to the access of one that is there.
  void add(Bytes text, std::uint8_t access);
  void clear() { *this = {}; }  // frees the memory, too

  /// Returns true if a pattern with all bits of `access` matches the text.
  [[nodiscard]] bool matches(Bytes text, std::uint8_t access) const;
  [[nodiscard]] bool contains(Bytes pattern) const { return find(pattern) != kNowhere; }
  /// Returns all patterns in the order in which they were added.
  [[nodiscard]] const std::vector<Pattern>& all() const { return all_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  /// Returns the memory of the set, without the texts.
  [[nodiscard]] std::uint64_t memory_bytes() const {
    return all_.capacity() * sizeof(Pattern) + (sorted_.capacity() + others_.capacity()) * sizeof(Place);
  }

  friend bool operator==(const AclPatternSet& a, const AclPatternSet& b) { return a.all_ == b.all_; }

 private:
  using Place = std::uint32_t;  // in all_
  static constexpr Place kNowhere = ~Place{0};
  /// The text of a pattern in sorted_: without its star.
  [[nodiscard]] Bytes plain(Place place) const;
  [[nodiscard]] bool allows(Place place, Bytes text, std::uint8_t access) const;
  /// Returns the end of the patterns in sorted_ whose plain texts are at most `text`.
  [[nodiscard]] std::size_t end_of(Bytes text) const;
  [[nodiscard]] Place find(Bytes pattern) const;

  std::vector<Pattern> all_;
  std::vector<Place> sorted_;  // patterns that are a plain text, or one and a star, by plain()
  std::vector<Place> others_;
};

}  // namespace ebbtide

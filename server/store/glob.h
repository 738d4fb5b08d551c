// Redis's glob patterns: * ? [abc] [^a-z] and \ to quote.
//
// Redis's own matcher recurses at each star and takes exponential time on patterns like a*a*a*a*b. This matcher backtracks only
// to the latest star, without recursion, so the time is at most pattern x text. Backtracking to an earlier star cannot help,
// since the text between two stars was matched at its leftmost position.
//
// The C library searches for the literal text after a star, many bytes at a time. A long pattern and a long text still take
// seconds in the worst case, so a match can be made in slices (GlobMatch).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <engine/bytes.h>

namespace ebbtide {

/// Returns true if `pattern` matches the whole `text`, byte by byte. `ignore_case` applies to ASCII letters. As in Redis, an
/// unclosed bracket ends with the pattern. A backslash at the end of the pattern stands for itself.
bool glob_match(Bytes pattern, Bytes text, bool ignore_case = false);

/// A match in slices. Pattern and text must outlive the object.
class GlobMatch {
 public:
  GlobMatch(Bytes pattern, Bytes text, bool ignore_case = false) : pattern_(pattern), text_(text), ignore_case_(ignore_case) {}

  /// Continues for about `steps` steps, a few nanoseconds each. Returns the result; nullopt: call again.
  std::optional<bool> go_on(std::size_t steps) { return go_on(&steps); }
  /// Like go_on(*steps). Subtracts the steps that it has used from `*steps`.
  std::optional<bool> go_on(std::size_t* steps);

 private:
  /// Finds the literal text after the latest star in the pattern. Stops if that text is longer than the rest of `text_`.
  void find_literal();
  /// Continues after the latest star, with the text from index `text` on.
  void begin_at(std::size_t text);
  /// Searches a part of the text for the literal text after the latest star, and continues behind it. Returns false if the
  /// pattern cannot match.
  bool seek_literal();

  Bytes pattern_, text_;
  bool ignore_case_;
  bool seeks_ = false;         ///< searching the text, from star_text_ on, for the literal text after the latest star
  std::size_t p_ = 0, t_ = 0;  ///< indexes in pattern and text that are compared next
  /// Indexes after the latest star at which to continue: in the pattern, and in the text.
  std::size_t star_ = Bytes::npos, star_text_ = 0;
  std::size_t literal_end_ = 0;  ///< index in the pattern after the literal text that follows the latest star
};

/// Returns the longest literal text that every match starts with, without quotes: "user:1" for "user:1*", "a*b" for "a\\*b[cd]".
std::string glob_literal_prefix(Bytes pattern);
/// Returns true if the pattern matches exactly one text, its glob_literal_prefix().
bool glob_is_literal(Bytes pattern);

/// The parts of a pattern that can be compared quickly, before a full match is tried.
struct GlobShape {
  enum class Kind : std::uint8_t {
    kText,    ///< the pattern has no special character, so it matches only itself
    kPrefix,  ///< a literal text followed by stars: it matches all texts with this prefix
    kOther,
  };
  std::uint32_t prefix = 0;  ///< bytes before the first special character or quote; every match begins with them
  std::uint32_t suffix = 0;  ///< bytes after the last special or quoted character; every match ends with them
  /// Index and length of the longest literal text between prefix and suffix. Every match contains that text.
  std::uint32_t middle = 0, middle_bytes = 0;
  std::uint32_t least = 0;  ///< length of the shortest possible match
  bool has_star = false;    ///< a match may be longer than `least`
  Kind kind = Kind::kText;
};
/// Requires that the pattern has less than 4 GiB.
GlobShape glob_shape(Bytes pattern);

/// Returns true if the text contains `literal`. The time does not depend on the length of `literal`.
bool contains_literal(Bytes text, Bytes literal);

}  // namespace ebbtide

// Redis's glob patterns: * ? [abc] [^a-z] and \ to quote.
//
// Redis's own matcher recurses at each star and takes exponential time on patterns like a*a*a*a*b. This matcher backtracks only
// to the latest star, without recursion, so the time is at most pattern x text. Backtracking to an earlier star cannot help,
// since the text between two stars was matched at its leftmost place.
//
// The C library searches literal text behind a star, many bytes at a time. A match of a long pattern and a long text still takes
// seconds in the worst case, so a match can be made in parts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <engine/bytes.h>

namespace ebbtide {

/// Returns true if the whole `text` matches `pattern`, byte by byte. `ignore_case` folds ASCII letters. An unclosed bracket ends
/// with the pattern, as in Redis; a backslash at the end stands for itself.
bool glob_match(Bytes pattern, Bytes text, bool ignore_case = false);

/// A match in parts. Pattern and text outlive the object.
class GlobMatch {
 public:
  GlobMatch(Bytes pattern, Bytes text, bool ignore_case = false) : pattern_(pattern), text_(text), ignore_case_(ignore_case) {}

  /// Continues for about `steps` steps, a few nanoseconds each. Returns the result, or nullopt if it is to be called again.
  std::optional<bool> go_on(std::size_t steps);

 private:
  /// Finds the literal text behind the latest star. Stops once that is longer than the rest of the text.
  void find_literal();
  /// Compares the pattern behind the latest star with the text from place `text` on.
  void begin_at(std::size_t text);
  /// Searches a part of the text for the literal text behind the latest star, and moves there. Returns false if the
  /// pattern does not match.
  bool seek_literal();

  Bytes pattern_, text_;
  bool ignore_case_;
  bool seeks_ = false;         ///< the text from star_text_ on is searched for the literal text behind the latest star
  std::size_t p_ = 0, t_ = 0;  ///< the places that are compared next
  std::size_t star_ = Bytes::npos, star_text_ = 0;  ///< where to continue after the latest star, in pattern and text
  std::size_t literal_end_ = 0;                     ///< end, in the pattern, of the literal text behind the latest star
};

/// Returns the longest literal text that every match starts with, without quotes: "user:1" for "user:1*", "a*b" for "a\\*b[cd]".
std::string glob_literal_prefix(Bytes pattern);
/// Returns true if the pattern matches exactly one text, its glob_literal_prefix().
bool glob_is_literal(Bytes pattern);

}  // namespace ebbtide

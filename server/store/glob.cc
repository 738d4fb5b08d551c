#include "store/glob.h"

#include <utility>

namespace ebbtide {
namespace {

unsigned char fold(char c, bool ignore_case) {
  return static_cast<unsigned char>(ignore_case && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

/// The result of matching `c` with the element at pattern[p], which is not a star: whether it matches, and where the next element
/// begins.
struct Step {
  bool matches;
  std::size_t next;
};

/// A bracket expression; pattern[p] is '['. Redis's rules: '^' inverts, '\' quotes, a range may be the wrong way round, ']' ends
/// it wherever it stands (an empty set matches nothing), and a missing ']' ends with the pattern.
Step match_bracket(Bytes pattern, std::size_t p, unsigned char c, bool ignore_case) {
  ++p;
  const bool invert = p < pattern.size() && pattern[p] == '^';
  if (invert) ++p;
  bool found = false;
  while (p < pattern.size() && pattern[p] != ']') {
    if (pattern[p] == '\\' && p + 1 < pattern.size()) {
      found |= fold(pattern[p + 1], ignore_case) == c;
      p += 2;
    } else if (p + 2 < pattern.size() && pattern[p + 1] == '-') {
      unsigned char low = fold(pattern[p], ignore_case), high = fold(pattern[p + 2], ignore_case);
      if (low > high) std::swap(low, high);
      found |= c >= low && c <= high;
      p += 3;
    } else {
      found |= fold(pattern[p], ignore_case) == c;
      ++p;
    }
  }
  return {found != invert, p < pattern.size() ? p + 1 : p};
}

Step match_one(Bytes pattern, std::size_t p, char text, bool ignore_case) {
  const unsigned char c = fold(text, ignore_case);
  if (pattern[p] == '?') return {true, p + 1};
  if (pattern[p] == '[') return match_bracket(pattern, p, c, ignore_case);
  if (pattern[p] == '\\' && p + 1 < pattern.size()) ++p;
  return {fold(pattern[p], ignore_case) == c, p + 1};
}

/// The literal prefix, and where in the pattern it ends.
std::pair<std::string, std::size_t> literal_prefix(Bytes pattern) {
  std::string prefix;
  std::size_t p = 0;
  while (p < pattern.size() && pattern[p] != '*' && pattern[p] != '?' && pattern[p] != '[') {
    if (pattern[p] == '\\' && p + 1 < pattern.size()) ++p;
    prefix.push_back(pattern[p++]);
  }
  return {std::move(prefix), p};
}

}  // namespace

bool glob_match(Bytes pattern, Bytes text, bool ignore_case) {
  std::size_t p = 0, t = 0;
  std::size_t star = Bytes::npos, star_text = 0;  // where to continue after the latest star, in pattern and text
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_text = t;
      continue;
    }
    if (p < pattern.size()) {
      const Step step = match_one(pattern, p, text[t], ignore_case);
      if (step.matches) {
        p = step.next;
        ++t;
        continue;
      }
    }
    if (star == Bytes::npos) return false;
    p = star;
    t = ++star_text;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string glob_literal_prefix(Bytes pattern) { return literal_prefix(pattern).first; }

bool glob_is_literal(Bytes pattern) { return literal_prefix(pattern).second == pattern.size(); }

}  // namespace ebbtide

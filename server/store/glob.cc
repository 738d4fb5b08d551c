#include "store/glob.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ebbtide {
namespace {

/// A shorter text is compared byte by byte, since starting a search takes longer.
constexpr std::size_t kLeastSearched = 64;
/// A search scans this many bytes at once. Scanning kBytesPerStep bytes takes about as long as a step.
constexpr std::size_t kSearchedAtOnce = 32 << 10, kBytesPerStep = 16;

unsigned char fold(char c, bool ignore_case) {
  return static_cast<unsigned char>(ignore_case && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

/// The result of matching `c` with the element at pattern[p], which is not a star: if it matches, and where the next element
/// begins.
struct Step {
  bool matches;
  std::size_t next;
};

/// Matches a bracket expression; pattern[p] is '['. The rules are Redis's: '^' inverts, and '\' quotes. The ends of a range may
/// be swapped. Any ']' ends the expression (an empty set matches nothing). Without a ']', the expression ends with the pattern.
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

/// Returns the literal prefix, and the index in the pattern at which it ends.
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
  return GlobMatch(pattern, text, ignore_case).go_on(~std::size_t{0}).value();
}

std::optional<bool> GlobMatch::go_on(std::size_t* steps_left) {
  std::size_t& steps = *steps_left;
  while (t_ < text_.size()) {
    if (steps == 0) return std::nullopt;
    --steps;
    if (seeks_) {
      const std::size_t from = star_text_;
      if (!seek_literal()) return false;
      steps -= std::min(steps, (star_text_ - from) / kBytesPerStep);
      continue;
    }
    if (p_ < pattern_.size() && pattern_[p_] == '*') {
      star_ = ++p_;
      if (star_ == pattern_.size()) return true;
      find_literal();
      steps -= std::min(steps, literal_end_ - star_);
      begin_at(t_);
      continue;
    }
    if (p_ < pattern_.size()) {
      const Step step = match_one(pattern_, p_, text_[t_], ignore_case_);
      steps -= std::min(steps, step.next - p_ - 1);  // a bracket expression may be long, and counts by its length
      if (step.matches) {
        p_ = step.next;
        ++t_;
        continue;
      }
    }
    if (star_ == Bytes::npos) return false;
    begin_at(star_text_ + 1);
  }
  while (p_ < pattern_.size() && pattern_[p_] == '*') ++p_;
  return p_ == pattern_.size();
}

void GlobMatch::find_literal() {
  literal_end_ = star_;
  const std::size_t left = text_.size() - t_;
  if (ignore_case_ || left < kLeastSearched) return;
  const Bytes longest = pattern_.substr(star_, left + 1);
  literal_end_ += std::min(longest.find_first_of("*?[\\"), longest.size());
}

void GlobMatch::begin_at(std::size_t text) {
  p_ = star_;
  t_ = star_text_ = text;
  seeks_ = literal_end_ > star_ && text_.size() - text >= kLeastSearched;
}

bool GlobMatch::seek_literal() {
  const Bytes literal = pattern_.substr(star_, literal_end_ - star_), rest = text_.substr(star_text_);
  if (rest.size() < literal.size()) return false;
  if (literal_end_ == pattern_.size()) {  // the literal text must be at the end of the text
    star_text_ = text_.size() - literal.size();
    p_ = literal_end_;
    t_ = text_.size();
    return text_.ends_with(literal);
  }
  const Bytes part = rest.substr(0, kSearchedAtOnce + literal.size());
  const void* const found = ::memmem(part.data(), part.size(), literal.data(), literal.size());
  if (found == nullptr) {
    t_ = star_text_ += part.size() - literal.size() + 1;
    return part.size() < rest.size();
  }
  star_text_ += static_cast<std::size_t>(static_cast<const char*>(found) - part.data());
  t_ = star_text_ + literal.size();
  p_ = literal_end_;
  seeks_ = false;
  return true;
}

std::string glob_literal_prefix(Bytes pattern) { return literal_prefix(pattern).first; }

GlobShape glob_shape(Bytes pattern) {
  using Kind = GlobShape::Kind;
  GlobShape shape;
  shape.prefix = shape.least = static_cast<std::uint32_t>(std::min(pattern.find_first_of("*?[\\"), pattern.size()));
  std::size_t plain_from = 0;  // from this index on, all characters stand for themselves
  const auto end_plain = [&](std::size_t end, std::size_t next) {
    if (plain_from >= shape.prefix && end > plain_from + shape.middle_bytes) {
      shape.middle = static_cast<std::uint32_t>(plain_from);
      shape.middle_bytes = static_cast<std::uint32_t>(end - plain_from);
    }
    plain_from = next;
  };
  for (std::size_t p = shape.prefix; p < pattern.size();) {
    if (pattern[p] == '*') {
      shape.has_star = true;
      end_plain(p, p + 1);
      ++p;
      continue;
    }
    const std::size_t next = match_one(pattern, p, '\0', false).next;
    if (next > p + 1 || pattern[p] == '?' || pattern[p] == '[') end_plain(p, next);
    ++shape.least;
    p = next;
  }
  shape.suffix = static_cast<std::uint32_t>(pattern.size() - plain_from);
  const bool only_stars = pattern.find_first_not_of('*', shape.prefix) == Bytes::npos;
  shape.kind = shape.prefix == pattern.size() ? Kind::kText : only_stars ? Kind::kPrefix : Kind::kOther;
  return shape;
}

bool contains_literal(Bytes text, Bytes literal) {
  if (text.size() < kLeastSearched) return text.find(literal) != Bytes::npos;
  return ::memmem(text.data(), text.size(), literal.data(), literal.size()) != nullptr;
}

bool glob_is_literal(Bytes pattern) { return literal_prefix(pattern).second == pattern.size(); }

}  // namespace ebbtide

#include "acl/pattern_set.h"

#include <algorithm>
#include <bit>
#include <string>

namespace ebbtide {
namespace {

std::size_t common_bytes_of(Bytes a, Bytes b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

/// Returns the literal text P, without quotes, if the pattern is P and a final star: it then matches exactly the texts that begin
/// with P. The pattern may quote characters of P with backslashes. Returns nullopt for other patterns.
std::optional<std::string> quoted_prefix(Bytes pattern) {
  if (!pattern.ends_with('*') || glob_is_literal(pattern)) return std::nullopt;
  const Bytes rest = pattern.substr(0, pattern.size() - 1);
  std::string prefix = glob_literal_prefix(rest);
  // The comparison with the pattern's own literal prefix excludes a pattern such as "a\*", whose star is quoted.
  if (!glob_is_literal(rest) || prefix != glob_literal_prefix(pattern)) return std::nullopt;
  return prefix;
}

/// Returns true if `text` is the smallest text that is greater than all texts with `prefix`.
bool follows_prefix(Bytes text, Bytes prefix) {
  prefix = prefix.substr(0, prefix.find_last_not_of('\xff') + 1);
  if (prefix.empty() || text.size() != prefix.size()) return false;
  const std::size_t last = prefix.size() - 1;
  return text.substr(0, last) == prefix.substr(0, last) &&
         static_cast<unsigned char>(text[last]) == static_cast<unsigned char>(prefix[last]) + 1;
}

/// Returns true if each text of the range begins with `prefix`. Requires that `range.start` does.
bool ends_within(const AclRange& range, Bytes prefix) {
  if (range.is_prefix) return true;
  if (!range.end) return prefix.find_first_not_of('\xff') == Bytes::npos;
  return range.end->starts_with(prefix) || follows_prefix(*range.end, prefix);
}

}  // namespace

std::size_t AclPatternSet::end_of(Bytes text) const {
  const auto after = [this](Bytes t, Place place) { return t < prefix(place); };
  return static_cast<std::size_t>(std::upper_bound(sorted_.begin(), sorted_.end(), text, after) - sorted_.begin());
}

std::size_t AclPatternSet::lower_bound(Bytes pattern, Bytes its_prefix) const {
  const auto before = [&](Place place, Bytes) {
    const int order = prefix(place).compare(its_prefix);
    return order < 0 || (order == 0 && Bytes(all_[place].text) < pattern);
  };
  return static_cast<std::size_t>(std::lower_bound(sorted_.begin(), sorted_.end(), pattern, before) - sorted_.begin());
}

std::size_t AclPatternSet::find(Bytes pattern) const {
  const std::size_t at = lower_bound(pattern, pattern.substr(0, glob_shape(pattern).prefix));
  return at < sorted_.size() && all_[sorted_[at]].text == pattern ? at : sorted_.size();
}

std::uint64_t AclPatternSet::steps_of_search(std::size_t bytes) const {
  constexpr std::size_t kSearchedPerStep = 64;  // bytes that one step compares
  return std::bit_width(sorted_.size()) * (1 + std::min(bytes, longest_prefix_) / kSearchedPerStep);
}

void AclPatternSet::add(Bytes text, std::uint8_t access) {
  const GlobShape shape = glob_shape(text);
  const std::size_t at = lower_bound(text, text.substr(0, shape.prefix));
  if (at < sorted_.size() && all_[sorted_[at]].text == text) {
    all_[sorted_[at]].access |= access;
    return;
  }
  const auto place = static_cast<Place>(all_.size());
  all_.push_back({std::string(text), access});
  shapes_.push_back(shape);
  sorted_.insert(sorted_.begin() + static_cast<std::ptrdiff_t>(at), place);
  if (shape.kind == GlobShape::Kind::kOther && text[shape.prefix] == '\\' && quoted_prefix(text)) quoted_.push_back(place);
  longest_prefix_ = std::max<std::size_t>(longest_prefix_, shape.prefix);
}

template <typename Test>
std::optional<bool> AclPatternSet::any_beginning(Bytes text, AclBudget& budget, const Test& test) const {
  text = text.substr(0, longest_prefix_);
  if (!budget.take(steps_of_search(text.size()))) return std::nullopt;
  // Each prefix of `text` sorts at or before `text`. The loop visits the longest prefix first.
  for (std::size_t i = end_of(text); i > 0;) {
    const Bytes candidate = prefix(sorted_[i - 1]);
    if (!budget.take(1 + std::min(candidate.size(), text.size()) / AclBudget::kBytesPerStep)) return std::nullopt;
    if (text.starts_with(candidate)) {
      if (const std::optional<bool> result = test(sorted_[--i]); !result || *result) return result;
      continue;
    }
    const std::size_t common = common_bytes_of(candidate, text);
    if (!budget.take(steps_of_search(common))) return std::nullopt;
    i = end_of(text.substr(0, common));  // no pattern's prefix between the two is a prefix of `text`
  }
  return false;
}

std::optional<bool> AclPatternSet::matches(Bytes text, std::uint8_t access, AclBudget& budget) const {
  return any_beginning(text, budget, [&](Place place) -> std::optional<bool> {
    if ((all_[place].access & access) != access) return false;
    const GlobShape& shape = shapes_[place];
    if (shape.kind == GlobShape::Kind::kPrefix) return true;
    return shape.kind == GlobShape::Kind::kText ? text.size() == shape.prefix : matches_other(place, text, budget);
  });
}

std::optional<bool> AclPatternSet::matches_other(Place place, Bytes text, AclBudget& budget) const {
  const GlobShape& shape = shapes_[place];
  if (text.size() < shape.least || (!shape.has_star && text.size() > shape.least)) return false;
  const Bytes pattern = all_[place].text;
  if (!budget.take(shape.suffix / AclBudget::kBytesPerStep)) return std::nullopt;
  if (!text.ends_with(pattern.substr(pattern.size() - shape.suffix))) return false;
  if (shape.middle_bytes != 0) {
    constexpr std::size_t kSearchedPerStep = 16;
    if (!budget.take(1 + text.size() / kSearchedPerStep)) return std::nullopt;
    if (budget.is_cancelled()) return std::nullopt;  // comparing megabytes takes long
    if (!contains_literal(text, pattern.substr(shape.middle, shape.middle_bytes))) return false;
  }
  return budget.match(pattern, text);
}

std::optional<bool> AclPatternSet::covers(const AclRange& range, std::uint8_t access, AclBudget& budget) const {
  const std::optional<bool> covered = any_beginning(range.start, budget, [&](Place place) -> std::optional<bool> {
    if ((all_[place].access & access) != access || shapes_[place].kind != GlobShape::Kind::kPrefix) return false;
    if (!budget.take(shapes_[place].prefix / AclBudget::kBytesPerStep)) return std::nullopt;
    return ends_within(range, prefix(place));
  });
  if (!covered || *covered) return covered;
  for (const Place place : quoted_) {
    if ((all_[place].access & access) != access) continue;
    if (!budget.take(10 + all_[place].text.size())) return std::nullopt;
    const auto prefix = quoted_prefix(all_[place].text);
    if (prefix && range.start.starts_with(*prefix) && ends_within(range, *prefix)) return true;
  }
  return false;
}

}  // namespace ebbtide

#include "acl/pattern_set.h"

#include <algorithm>

#include "store/glob.h"

namespace ebbtide {
namespace {

bool ends_with_star(Bytes pattern) { return pattern.ends_with('*'); }
Bytes without_star(Bytes pattern) { return ends_with_star(pattern) ? pattern.substr(0, pattern.size() - 1) : pattern; }
bool is_plain(Bytes pattern) {
  const Bytes text = without_star(pattern);
  return glob_is_literal(text) && text.find('\\') == Bytes::npos;
}

std::size_t common_bytes_of(Bytes a, Bytes b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

Bytes AclPatternSet::plain(Place place) const { return without_star(all_[place].text); }

std::size_t AclPatternSet::end_of(Bytes text) const {
  const auto after = [this](Bytes t, Place place) { return t < plain(place); };
  return static_cast<std::size_t>(std::upper_bound(sorted_.begin(), sorted_.end(), text, after) - sorted_.begin());
}

AclPatternSet::Place AclPatternSet::find(Bytes pattern) const {
  if (!is_plain(pattern)) {
    const auto found = std::find_if(others_.begin(), others_.end(), [&](Place place) { return all_[place].text == pattern; });
    return found == others_.end() ? kNowhere : *found;
  }
  const Bytes text = without_star(pattern);
  for (std::size_t i = end_of(text); i > 0 && plain(sorted_[i - 1]) == text; --i) {
    if (all_[sorted_[i - 1]].text == pattern) return sorted_[i - 1];
  }
  return kNowhere;
}

void AclPatternSet::add(Bytes text, std::uint8_t access) {
  if (const Place place = find(text); place != kNowhere) {
    all_[place].access |= access;
    return;
  }
  const auto place = static_cast<Place>(all_.size());
  all_.push_back({std::string(text), access});
  if (is_plain(text)) {
    sorted_.insert(sorted_.begin() + static_cast<std::ptrdiff_t>(end_of(without_star(text))), place);
  } else {
    others_.push_back(place);
  }
}

bool AclPatternSet::allows(Place place, Bytes text, std::uint8_t access) const {
  const Pattern& pattern = all_[place];
  if ((pattern.access & access) != access) return false;
  return ends_with_star(pattern.text) ? text.starts_with(plain(place)) : text == pattern.text;
}

bool AclPatternSet::matches(Bytes text, std::uint8_t access) const {
  // Only patterns whose plain text begins `text` can match; they are among those up to `text`, the longest first.
  for (std::size_t i = end_of(text); i > 0;) {
    const Bytes candidate = plain(sorted_[i - 1]);
    const std::size_t common = common_bytes_of(candidate, text);
    if (common < candidate.size()) {
      i = end_of(text.substr(0, common));  // what lies between does not begin `text` either
    } else if (allows(sorted_[--i], text, access)) {
      return true;
    }
  }
  return std::any_of(others_.begin(), others_.end(),
                     [&](Place place) { return (all_[place].access & access) == access && glob_match(all_[place].text, text); });
}

}  // namespace ebbtide

#include "compaction/key_ranges.h"

namespace ebbtide {

std::vector<KeyRange> outside_of(const KeyRange& whole, const KeyRange& middle) {
  std::vector<KeyRange> out;
  if (whole.start < middle.start) out.push_back({whole.start, middle.start});
  if (end_before(middle.end, whole.end)) out.push_back({middle.end, whole.end});
  return out;
}

Finality::Finality(std::vector<KeyRange> below) {
  std::sort(below.begin(), below.end(), [](const KeyRange& a, const KeyRange& b) { return a.start < b.start; });
  for (KeyRange& range : below) {
    if (is_empty(range)) continue;
    if (!below_.empty() && (below_.back().end.empty() || range.start <= below_.back().end)) {
      if (end_before(below_.back().end, range.end)) below_.back().end = std::move(range.end);
    } else {
      below_.push_back(std::move(range));
    }
  }
}

/// Returns the index of the first range that does not end at or before `key`.
std::size_t Finality::first_reaching(Bytes key) const {
  const auto at =
      std::partition_point(below_.begin(), below_.end(), [&](const KeyRange& r) { return ends_at_or_before(r.end, key); });
  return static_cast<std::size_t>(at - below_.begin());
}

bool Finality::is_final(const KeyRange& range) const {
  const std::size_t i = first_reaching(range.start);
  return i == below_.size() || !ranges_overlap(below_[i], range);
}

std::vector<std::pair<KeyRange, bool>> Finality::pieces(const KeyRange& range) const {
  std::vector<std::pair<KeyRange, bool>> out;
  KeyRange rest = range;
  for (std::size_t i = first_reaching(range.start); !is_empty(rest) && i < below_.size() && ranges_overlap(below_[i], rest);
       ++i) {
    if (rest.start < below_[i].start) out.push_back({{rest.start, below_[i].start}, true});
    KeyRange covered = intersection(below_[i], rest);
    rest.start = covered.end;
    const bool all = covered.end == rest.end;
    out.push_back({std::move(covered), false});
    if (all) return out;
  }
  if (!is_empty(rest)) out.push_back({std::move(rest), true});
  return out;
}

}  // namespace ebbtide

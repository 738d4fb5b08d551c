#include "iter/coverage.h"

#include <algorithm>
#include <utility>

namespace ebbtide {

Coverage::Coverage(std::vector<TombstoneSource> sources, SeqNum view_seq) : view_seq_(view_seq) {
  for (TombstoneSource& source : sources) {
    std::erase_if(source.sets, [](const SharedTombstones& set) { return set == nullptr || set->empty(); });
    if (!source.sets.empty()) sources_.push_back(std::move(source));
  }
}

void Coverage::narrow_high(Bytes border) {
  if (high_open_ || border < high_) high_ = border;
  high_open_ = false;
}

void Coverage::look_up_in(const TombstoneSource& source, Bytes key) {
  // Finds the last set that begins at or before the key, then the last fragment in it that begins at or before the key.
  auto set = std::upper_bound(source.sets.begin(), source.sets.end(), key,
                              [](Bytes k, const SharedTombstones& s) { return k < Bytes(s->fragments().front().start); });
  if (set != source.sets.end()) narrow_high((*set)->fragments().front().start);
  if (set == source.sets.begin()) return;
  const auto& fragments = (*std::prev(set))->fragments();
  const std::size_t next = (*std::prev(set))->first_after(key);
  if (next != fragments.size()) narrow_high(fragments[next].start);
  const FragmentedRangeTombstones::Fragment& fragment = fragments[next - 1];
  if (!fragment.end.empty() && key >= Bytes(fragment.end)) {  // the key is in the gap after the fragment
    low_ = std::max(low_, Bytes(fragment.end));
    return;
  }
  low_ = std::max(low_, Bytes(fragment.start));
  if (!fragment.end.empty()) narrow_high(fragment.end);
  const FragmentedRangeTombstones::Cover* const cover = (*std::prev(set))->newest_cover(fragment, view_seq_);
  if (cover != nullptr && cover->seq > answer_.seq) {
    answer_ = {cover->seq, cover->birth, source.age, fragment.start, fragment.end};
  }
}

void Coverage::look_up(Bytes key) {
  known_ = true;
  low_ = {};
  high_open_ = true;
  answer_ = {};
  for (const TombstoneSource& source : sources_) look_up_in(source, key);
}

}  // namespace ebbtide

// The fragmenter: a sweep over the endpoints in key order, with the set of tombstones that are open at the sweep line.
//
// Cost: O(n log n) for the sweep plus the size of the output. The output lists every cover of every fragment, so n tombstones
// that all overlap pairwise yield O(n^2) pairs: a pair is 16 bytes, and which of them a view still needs is not known here.
#include "deletes/range_tombstone.h"

#include <algorithm>
#include <functional>
#include <map>

namespace ebbtide {
namespace {

bool is_empty_range(const RangeTombstone& t) { return !t.end.empty() && t.start >= t.end; }

/// Order of ends: "" is past every key.
bool end_before(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return !a.empty() && b.empty();
  return a < b;
}

/// A tombstone may be given twice, or in pieces that were cut at file bounds: one cover per seq, the older birth wins.
class OpenSet {
 public:
  void open(const RangeTombstone& t) {
    auto [it, fresh] = open_.try_emplace(t.seq, State{0, t.birth});
    it->second.count++;
    if (!fresh) it->second.birth = std::min(it->second.birth, t.birth);
  }
  void close(const RangeTombstone& t) {
    auto it = open_.find(t.seq);
    if (--it->second.count == 0) open_.erase(it);
  }
  [[nodiscard]] bool empty() const { return open_.empty(); }
  [[nodiscard]] std::vector<FragmentedRangeTombstones::Cover> covers() const {
    std::vector<FragmentedRangeTombstones::Cover> out;
    out.reserve(open_.size());
    for (const auto& [seq, state] : open_) out.push_back({seq, state.birth});
    return out;
  }

 private:
  struct State {
    std::size_t count;
    Millis birth;
  };
  std::map<SeqNum, State, std::greater<>> open_;
};

bool same_covers(const std::vector<FragmentedRangeTombstones::Cover>& a, const std::vector<FragmentedRangeTombstones::Cover>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.seq == y.seq && x.birth == y.birth; });
}

}  // namespace

FragmentedRangeTombstones::FragmentedRangeTombstones(std::span<const RangeTombstone> tombstones) {
  std::vector<const RangeTombstone*> starts;
  starts.reserve(tombstones.size());
  for (const auto& t : tombstones) {
    if (!is_empty_range(t)) starts.push_back(&t);
  }
  std::vector<const RangeTombstone*> ends = starts;
  std::sort(starts.begin(), starts.end(), [](const auto* a, const auto* b) { return a->start < b->start; });
  std::sort(ends.begin(), ends.end(), [](const auto* a, const auto* b) { return end_before(a->end, b->end); });

  OpenSet open;
  std::size_t s = 0, e = 0;
  const std::string* left = nullptr;  // where the piece under the sweep line begins
  while (e < ends.size()) {
    const bool at_start = s < starts.size() && (ends[e]->end.empty() || starts[s]->start < ends[e]->end);
    const std::string& at = at_start ? starts[s]->start : ends[e]->end;  // "" as an end: past every key
    if (!open.empty() && (!at_start || *left != at)) {
      std::vector<Cover> covers = open.covers();
      if (!fragments_.empty() && fragments_.back().end == *left && same_covers(fragments_.back().covers, covers)) {
        fragments_.back().end = at;
      } else {
        fragments_.push_back({*left, at, std::move(covers)});
      }
    }
    left = &at;
    if (at_start) {
      while (s < starts.size() && starts[s]->start == at) open.open(*starts[s++]);
      continue;
    }
    while (e < ends.size() && ends[e]->end == at) open.close(*ends[e++]);
    while (s < starts.size() && starts[s]->start == at) open.open(*starts[s++]);
  }
}

const FragmentedRangeTombstones::Fragment* FragmentedRangeTombstones::fragment_at(Bytes key) const {
  auto it =
      std::upper_bound(fragments_.begin(), fragments_.end(), key, [](Bytes k, const Fragment& f) { return k < Bytes(f.start); });
  if (it == fragments_.begin()) return nullptr;
  --it;
  return it->end.empty() || key < Bytes(it->end) ? &*it : nullptr;
}

const FragmentedRangeTombstones::Cover* FragmentedRangeTombstones::newest_cover(Bytes key, SeqNum view_seq) const {
  const Fragment* fragment = fragment_at(key);
  if (fragment == nullptr) return nullptr;
  auto it =
      std::partition_point(fragment->covers.begin(), fragment->covers.end(), [&](const Cover& c) { return c.seq > view_seq; });
  return it == fragment->covers.end() ? nullptr : &*it;
}

}  // namespace ebbtide

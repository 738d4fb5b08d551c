// The constructor sweeps over the endpoints in key order, and keeps the set of open tombstones: those that cover the present
// position. Then it builds the segment tree. O(n log n).
#include "deletes/range_tombstone.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/coding.h"
#include "base/invariant.h"
#include "base/planted_bug.h"

namespace ebbtide {
namespace {

bool is_empty_range(const RangeTombstone& t) { return !t.end.empty() && t.start >= t.end; }

/// Returns true if the range end `a` is before the range end `b`. "" means no upper bound, so it is after every other end.
bool end_before(const SharedKey& a, const SharedKey& b) {
  if (a.empty() || b.empty()) return !a.empty() && b.empty();
  return a < b;
}

/// Visits the endpoints in order: calls `open` and `close` as tombstones begin and end. Calls `piece` for each stretch between
/// two adjacent endpoints, before the calls for the right endpoint.
template <typename Open, typename Close, typename Piece>
void sweep_line(std::vector<const RangeTombstone*> starts, Open open, Close close, Piece piece) {
  std::vector<const RangeTombstone*> ends = starts;
  std::sort(starts.begin(), starts.end(), [](const auto* a, const auto* b) { return a->start < b->start; });
  std::sort(ends.begin(), ends.end(), [](const auto* a, const auto* b) { return end_before(a->end, b->end); });
  const SharedKey* left = nullptr;
  for (std::size_t s = 0, e = 0; e < ends.size();) {
    const bool at_start = s < starts.size() && (ends[e]->end.empty() || starts[s]->start < ends[e]->end);
    // As an end, "" means no upper bound, so it is the last endpoint.
    const SharedKey& at = at_start ? starts[s]->start : ends[e]->end;
    if (left != nullptr) piece(*left, at);
    left = &at;
    if (!at_start) {
      while (e < ends.size() && ends[e]->end == at) close(*ends[e++]);
      if (at.empty()) break;
    }
    while (s < starts.size() && starts[s]->start == at) open(*starts[s++]);
  }
}

/// Appends the union of tombstones of one seq, sorted by start, to `out`. They are duplicates of one tombstone, or parts of a
/// tombstone that was cut at file bounds. Where they overlap, the result has the older birth; adjacent parts with equal births
/// are joined.
void join_pieces(std::span<const RangeTombstone* const> same_seq, std::vector<RangeTombstone>* out) {
  const std::size_t begin = out->size();
  const auto add = [&](const SharedKey& start, const SharedKey& end, SeqNum seq, Millis birth) {
    if (out->size() > begin && out->back().birth == birth && out->back().end == start) {
      out->back().end = end;
    } else {
      out->push_back({start, end, seq, birth});
    }
  };
  std::multiset<Millis> open;
  sweep_line(
      {same_seq.begin(), same_seq.end()}, [&](const RangeTombstone& t) { open.insert(t.birth); },
      [&](const RangeTombstone& t) { open.erase(open.find(t.birth)); },
      [&](const SharedKey& left, const SharedKey& right) {
        if (!open.empty()) add(left, right, same_seq.front()->seq, *open.begin());
      });
}

/// Returns the tombstones newest first; parts with one seq are in key order and do not overlap.
std::vector<RangeTombstone> canonical(std::span<const RangeTombstone> tombstones) {
  std::vector<const RangeTombstone*> sorted;
  sorted.reserve(tombstones.size());
  for (const auto& t : tombstones) {
    if (!is_empty_range(t)) sorted.push_back(&t);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->seq != b->seq ? a->seq > b->seq : a->start < b->start; });
  std::vector<RangeTombstone> out;
  out.reserve(sorted.size());
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t j = i + 1;
    while (j < sorted.size() && sorted[j]->seq == sorted[i]->seq) ++j;
    if (j == i + 1) {
      out.push_back(*sorted[i]);
    } else {
      join_pieces(std::span(sorted).subspan(i, j - i), &out);
    }
    i = j;
  }
  return out;
}

}  // namespace

FragmentedRangeTombstones::FragmentedRangeTombstones(std::span<const RangeTombstone> tombstones) {
  if (tombstones.empty()) return;
  const std::vector<RangeTombstone> pieces = canonical(tombstones);
  sweep(pieces);
  build_words();
  spans_.reserve(pieces.size());
  const auto at = [&](const SharedKey& key) {
    const auto it = std::partition_point(fragments_.begin(), fragments_.end(), [&](const Fragment& f) { return f.start < key; });
    return static_cast<std::uint32_t>(it - fragments_.begin());
  };
  for (const RangeTombstone& t : pieces) {
    const auto last = t.end.empty() ? static_cast<std::uint32_t>(fragments_.size()) : at(t.end);
    spans_.push_back({{t.seq, t.birth}, at(t.start), last});
  }
  build_tree();
}

void FragmentedRangeTombstones::sweep(const std::vector<RangeTombstone>& pieces) {
  std::vector<const RangeTombstone*> all;
  all.reserve(pieces.size());
  for (const RangeTombstone& t : pieces) all.push_back(&t);
  std::map<SeqNum, Millis> open;  // at most one open tombstone per seq
  std::multiset<Millis> births;
  sweep_line(
      std::move(all),
      [&](const RangeTombstone& t) {
        open.emplace(t.seq, t.birth);
        births.insert(t.birth);
      },
      [&](const RangeTombstone& t) {
        open.erase(t.seq);
        births.erase(births.find(t.birth));
      },
      [&](const SharedKey& left, const SharedKey& right) {
        if (open.empty()) return;
        const auto& [newest_seq, newest_birth] = *open.rbegin();
        fragments_.push_back({left, right, {newest_seq, newest_birth}, open.begin()->first, *births.begin()});
      });
}

// Node 1 is the root; nodes 2k and 2k + 1 are the children of node k. With n fragments, node n + i is the leaf of fragment i.
// This works for any n: halving the number of a leaf again and again gives the numbers of all nodes above it.
void FragmentedRangeTombstones::build_tree() {
  const std::size_t leaves = fragments_.size();
  node_begin_.assign(2 * leaves + 1, 0);
  const auto each_node_of = [leaves](const Span& span, auto visit) {
    std::size_t l = span.first + leaves, r = span.last + leaves;
    for (; l < r; l /= 2, r /= 2) {
      if (l % 2 != 0) visit(l++);
      if (r % 2 != 0) visit(--r);
    }
  };
  for (const Span& span : spans_) {
    each_node_of(span, [this](std::size_t node) { ++node_begin_[node + 1]; });
  }
  for (std::size_t node = 1; node < node_begin_.size(); ++node) node_begin_[node] += node_begin_[node - 1];
  node_spans_.resize(node_begin_.back());
  std::vector<std::uint32_t> fill(node_begin_.begin(), node_begin_.end() - 1);
  for (std::uint32_t i = 0; i < spans_.size(); ++i) {
    each_node_of(spans_[i], [&](std::size_t node) { node_spans_[fill[node]++] = i; });
  }
}

template <typename Visit>
void FragmentedRangeTombstones::each_node_above(const Fragment& fragment, Visit visit) const {
  const auto i = static_cast<std::size_t>(&fragment - fragments_.data());
  DEBUG_ASSERT(i < fragments_.size());
  for (std::size_t node = fragments_.size() + i; node >= 1; node /= 2) {
    const std::uint32_t* const spans = node_spans_.data();
    visit(std::span(spans + node_begin_[node], spans + node_begin_[node + 1]));
  }
}

void FragmentedRangeTombstones::build_words() {
  if (fragments_.empty()) return;
  const Bytes first = fragments_.front().start;
  common_ = first.substr(0, common_bytes(first, fragments_.back().start));
  words_.reserve(fragments_.size());
  for (const Fragment& fragment : fragments_) words_.push_back(key_word(fragment.start, common_.size()));
}

std::size_t FragmentedRangeTombstones::first_after(Bytes key) const {
  if (fragments_.empty()) return 0;
  if (const int order = key.substr(0, common_.size()).compare(common_); order != 0) return order < 0 ? 0 : fragments_.size();
  const auto [from, to] = std::equal_range(words_.begin(), words_.end(), key_word(key, common_.size()));
  // Among fragments whose words are equal, the whole keys are compared.
  const auto at = std::upper_bound(fragments_.begin() + (from - words_.begin()), fragments_.begin() + (to - words_.begin()), key,
                                   [](Bytes k, const Fragment& f) { return k < Bytes(f.start); });
  return static_cast<std::size_t>(at - fragments_.begin());
}

const FragmentedRangeTombstones::Fragment* FragmentedRangeTombstones::fragment_at(Bytes key) const {
  const std::size_t next = first_after(key);
  if (next == 0) return nullptr;
  const Fragment* it = &fragments_[next - 1];
  if (planted(PlantedBug::kRangeLeavesItsStart) && key == Bytes(it->start)) return nullptr;
  return it->end.empty() || key < Bytes(it->end) ? it : nullptr;
}

const FragmentedRangeTombstones::Cover* FragmentedRangeTombstones::newest_cover(const Fragment& fragment, SeqNum view_seq) const {
  if (fragment.newest.seq <= view_seq) [[likely]]
    return &fragment.newest;
  if (fragment.oldest_seq > view_seq) return nullptr;
  // Spans are ordered newest first, so the smallest index is the newest.
  const auto seen = std::partition_point(spans_.begin(), spans_.end(), [&](const Span& s) { return s.cover.seq > view_seq; });
  const auto least = static_cast<std::uint32_t>(seen - spans_.begin());
  auto best = static_cast<std::uint32_t>(spans_.size());
  each_node_above(fragment, [&](std::span<const std::uint32_t> spans) {
    const auto it = std::lower_bound(spans.begin(), spans.end(), least);
    if (it != spans.end()) best = std::min(best, *it);
  });
  return best == spans_.size() ? nullptr : &spans_[best].cover;
}

const FragmentedRangeTombstones::Cover* FragmentedRangeTombstones::newest_cover(Bytes key, SeqNum view_seq) const {
  const Fragment* fragment = fragment_at(key);
  return fragment == nullptr ? nullptr : newest_cover(*fragment, view_seq);
}

void FragmentedRangeTombstones::covers(const Fragment& fragment, std::vector<Cover>* out) const {
  out->clear();
  if (fragment.newest.seq == fragment.oldest_seq) {
    out->push_back(fragment.newest);
    return;
  }
  std::vector<std::uint32_t> numbers;
  each_node_above(fragment,
                  [&](std::span<const std::uint32_t> spans) { numbers.insert(numbers.end(), spans.begin(), spans.end()); });
  std::sort(numbers.begin(), numbers.end());
  out->reserve(numbers.size());
  for (const std::uint32_t i : numbers) out->push_back(spans_[i].cover);
}

RangeTombstone FragmentedRangeTombstones::tombstone(std::size_t i) const {
  const Span& span = spans_[i];
  return {fragments_[span.first].start, fragments_[span.last - 1].end, span.cover.seq, span.cover.birth};
}

std::size_t FragmentedRangeTombstones::memory_bytes() const {
  return sizeof(*this) + spans_.capacity() * sizeof(Span) + fragments_.capacity() * sizeof(Fragment) +
         (node_begin_.capacity() + node_spans_.capacity()) * sizeof(std::uint32_t) + words_.capacity() * sizeof(std::uint64_t);
}

std::size_t FragmentedRangeTombstones::key_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < fragments_.size(); ++i) {
    const Fragment& f = fragments_[i];
    bytes += f.start.shared_bytes();
    const bool next_has_it = i + 1 < fragments_.size() && f.end.shares_with(fragments_[i + 1].start);
    if (!next_has_it) bytes += f.end.shared_bytes();
  }
  return bytes;
}

}  // namespace ebbtide

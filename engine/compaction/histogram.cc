#include "compaction/histogram.h"

#include <algorithm>
#include <queue>

namespace ebbtide {
namespace {

// Two bins are not joined if the result would weigh more than this many times the average bin. With a limit of four, there are
// always two adjacent bins that may be joined, since all adjacent pairs together weigh at most twice the total. A smaller limit
// could prevent joins where weights are uneven.
constexpr double kMostShares = 4;

/// Returns the point between `a` and `b` that divides their distance by their weights: it is nearer to the heavier one.
KeyPosition centre(KeyPosition a, double weight_a, KeyPosition b, double weight_b) {
  const auto width = static_cast<double>(b - a);
  const double step = width * (weight_b / (weight_a + weight_b));
  return step < width ? std::min(b, a + static_cast<KeyPosition>(step)) : b;
}

/// The distance between bin `left` and the next remaining bin. Out of date if changes[left] in shrink() differs from `change`.
struct Gap {
  KeyPosition width = 0;
  std::size_t left = 0;
  std::uint32_t change = 0;
  bool operator>(const Gap& other) const { return width != other.width ? width > other.width : left > other.left; }
};

}  // namespace

void StreamingHistogram::add(KeyPosition at, double weight) {
  if (!(weight > 0)) return;
  total_ += weight;
  smallest_ = std::min(smallest_, at);
  largest_ = std::max(largest_, at);
  below_.clear();
  if (!bins_.empty() && bins_.back().at == at) {
    bins_.back().weight += weight;
    return;
  }
  sorted_ = sorted_ && (bins_.empty() || bins_.back().at < at);
  bins_.push_back({at, weight});
  if (bins_.size() >= 2 * most_) shrink();
}

void StreamingHistogram::merge(const StreamingHistogram& other) {
  if (other.bins_.empty()) return;
  total_ += other.total_;
  smallest_ = std::min(smallest_, other.smallest_);
  largest_ = std::max(largest_, other.largest_);
  below_.clear();
  sorted_ = false;
  bins_.insert(bins_.end(), other.bins_.begin(), other.bins_.end());
  if (bins_.size() >= 2 * most_) shrink();
}

void StreamingHistogram::sort() {
  if (sorted_) return;
  std::sort(bins_.begin(), bins_.end(), [](const Bin& a, const Bin& b) { return a.at < b.at; });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < bins_.size(); ++i) {
    if (bins_[i].at == bins_[kept].at) {
      bins_[kept].weight += bins_[i].weight;
    } else {
      bins_[++kept] = bins_[i];
    }
  }
  if (!bins_.empty()) bins_.resize(kept + 1);
  sorted_ = true;
}

void StreamingHistogram::shrink() {
  sort();
  std::size_t left = bins_.size();
  if (left <= most_) return;
  const std::size_t none = bins_.size();
  std::vector<std::size_t> next(bins_.size()), previous(bins_.size());
  std::vector<std::uint32_t> changes(bins_.size(), 0);
  for (std::size_t i = 0; i < bins_.size(); ++i) {
    next[i] = i + 1;
    previous[i] = i == 0 ? none : i - 1;
  }
  std::priority_queue<Gap, std::vector<Gap>, std::greater<>> gaps;
  const auto note_gap = [&](std::size_t bin) {
    if (bin == none || next[bin] == none) return;
    gaps.push({bins_[next[bin]].at - bins_[bin].at, bin, ++changes[bin]});
  };
  for (std::size_t i = 0; i < bins_.size(); ++i) note_gap(i);
  const double most_weight = kMostShares * total_ / static_cast<double>(most_);
  while (left > most_ && !gaps.empty()) {
    const Gap gap = gaps.top();
    gaps.pop();
    Bin& a = bins_[gap.left];
    if (gap.change != changes[gap.left]) continue;
    const std::size_t gone = next[gap.left];
    const Bin& b = bins_[gone];
    if (a.weight + b.weight > most_weight) continue;
    a = {centre(a.at, a.weight, b.at, b.weight), a.weight + b.weight};
    ++changes[gone];
    bins_[gone].weight = 0;
    next[gap.left] = next[gone];
    if (next[gone] != none) previous[next[gone]] = gap.left;
    --left;
    ++changes[gap.left];
    note_gap(gap.left);
    note_gap(previous[gap.left]);
  }
  std::erase_if(bins_, [](const Bin& bin) { return bin.weight == 0; });
}

void StreamingHistogram::settle() {
  if (!below_.empty() || bins_.empty()) return;
  shrink();
  double sum = 0;
  for (const Bin& bin : bins_) {
    below_.push_back(sum);
    sum += bin.weight;
  }
}

// The paper's Algorithm 3. Half of a bin's weight is assumed on each side of the bin. Outside the outermost bins the weight
// decreases to 0 at the first and the last position.
double StreamingHistogram::sum(KeyPosition at) {
  if (at < smallest_ || bins_.empty()) return 0;
  if (at >= largest_) return total_;
  settle();
  const auto right = std::upper_bound(bins_.begin(), bins_.end(), at, [](KeyPosition p, const Bin& bin) { return p < bin.at; });
  const auto i = static_cast<std::size_t>(right - bins_.begin());
  const Bin from = i == 0 ? Bin{smallest_, 0} : bins_[i - 1];
  const Bin to = i == bins_.size() ? Bin{largest_, 0} : bins_[i];
  const double share = static_cast<double>(at - from.at) / static_cast<double>(to.at - from.at);
  const double between = (2 * from.weight + (to.weight - from.weight) * share) / 2 * share;
  return (i == 0 ? 0 : below_[i - 1] + from.weight / 2) + between;
}

}  // namespace ebbtide

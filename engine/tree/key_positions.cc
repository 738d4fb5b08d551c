#include "tree/key_positions.h"

#include <algorithm>

namespace ebbtide {
namespace {

struct Span {
  std::size_t run, file;
  KeyRange range;  // an empty end means no upper bound
  double weight;
};

std::vector<Span> spans_of(const TreeShape& shape) {
  std::vector<Span> spans;
  for (std::size_t r = 0; r < shape.runs.size(); ++r) {
    for (std::size_t f = 0; f < shape.runs[r].files.size(); ++f) {
      const FileShape& file = shape.runs[r].files[f];
      spans.push_back({r, f, file.range(), static_cast<double>(std::max<std::uint64_t>(file.bytes, 1))});
    }
  }
  return spans;
}

std::size_t index_of(const std::vector<Bytes>& bounds, Bytes key) {
  return static_cast<std::size_t>(std::lower_bound(bounds.begin(), bounds.end(), key) - bounds.begin());
}

}  // namespace

std::vector<std::vector<std::pair<double, double>>> key_positions(const TreeShape& shape) {
  const std::vector<Span> spans = spans_of(shape);
  std::vector<Bytes> bounds;
  for (const Span& span : spans) {
    bounds.push_back(span.range.start);
    if (!span.range.end.empty()) bounds.push_back(span.range.end);
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  // Interval i begins at bounds[i]; the last interval has no end. First, density[i] is the change of density at bounds[i]. Then
  // the changes are summed, and density[i] is the density of interval i.
  std::vector<double> density(bounds.size() + 1, 0);
  const auto ends = [&](const Span& span) {
    return std::pair(index_of(bounds, span.range.start),
                     span.range.end.empty() ? bounds.size() : index_of(bounds, span.range.end));
  };
  for (const Span& span : spans) {
    const auto [first, last] = ends(span);
    const double share = span.weight / static_cast<double>(std::max<std::size_t>(last - first, 1));
    density[first] += share;
    density[last] -= share;
  }
  std::vector<double> at(bounds.size() + 1, 0);
  double total = 0, height = 0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    at[i] = total;
    height += density[i];
    total += std::max(height, 0.0);  // rounding may give a height below 0 where no file lies
  }
  at[bounds.size()] = total;
  std::vector<std::vector<std::pair<double, double>>> out(shape.runs.size());
  for (const Span& span : spans) {
    const auto [first, last] = ends(span);
    out[span.run].emplace_back(at[first] / total, at[last] / total);
  }
  return out;
}

}  // namespace ebbtide

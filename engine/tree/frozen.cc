#include "tree/frozen.h"

#include <algorithm>

namespace ebbtide {
namespace {

bool ends_at_or_before(Bytes end, Bytes start) { return !end.empty() && end <= start; }

}  // namespace

std::vector<KeyRange> frozen_ranges(const TreeShape& shape) {
  std::vector<KeyRange> all;
  for (const RunShape& run : shape.runs) {
    for (std::size_t c = 0; c < run.files.chunks(); ++c) {
      const FileShapes::Chunk& chunk = run.files.at_chunk(c);
      if (FileShapes::sums_of(chunk).quarantined == 0) continue;
      for (const FileShape& file : chunk.items) {
        if (file.quarantined) all.push_back(file.range());
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const KeyRange& a, const KeyRange& b) { return a.start < b.start; });
  std::vector<KeyRange> merged;
  for (KeyRange& range : all) {
    const bool apart = merged.empty() || (!merged.back().end.empty() && merged.back().end < range.start);
    if (apart) {
      merged.push_back(std::move(range));
    } else {
      merged.back() = hull(merged.back(), range);
    }
  }
  return merged;
}

const KeyRange* frozen_at(std::span<const KeyRange> frozen, const KeyRange& range) {
  const auto at = std::partition_point(frozen.begin(), frozen.end(),
                                       [&](const KeyRange& f) { return ends_at_or_before(f.end, range.start); });
  return at == frozen.end() || ends_at_or_before(range.end, at->start) ? nullptr : &*at;
}

void leave_out_frozen(TreeShape* shape) {
  shape->frozen = frozen_ranges(*shape);
  if (shape->frozen.empty()) return;
  for (RunShape& run : shape->runs) {
    run.files.erase_if([&](const FileShape& file) { return frozen_at(shape->frozen, file.range()) != nullptr; });
    run.files.seal();
  }
}

}  // namespace ebbtide

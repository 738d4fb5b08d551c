#include "table/fences.h"

#include <algorithm>
#include <cstring>
#include <limits>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

#include "base/coding.h"
#include "base/invariant.h"

namespace ebbtide {
namespace {

// Returns the key's first 8 bytes after the table's common prefix, as a number with the same order. Its sign bit is flipped,
// since SSE compares signed numbers.
inline std::int64_t number_of(Bytes key, std::size_t prefix) {
  return static_cast<std::int64_t>(key_word(key, prefix) ^ (std::uint64_t{1} << 63));
}

// Returns how many of a node's 16 ascending numbers are <= `number`. Compares with all of them, which needs no branch.
inline std::uint32_t count_up_to(const std::int64_t* numbers, std::int64_t number) {
  std::uint32_t count = 0;
#if defined(__SSE4_2__)
  const __m128i wanted = _mm_set1_epi64x(number);
  __m128i greater = _mm_setzero_si128();  // in each lane: the negated number of greater numbers so far
  for (int i = 0; i < 16; i += 2) {
    greater = _mm_add_epi64(greater, _mm_cmpgt_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers + i)), wanted));
  }
  count = static_cast<std::uint32_t>(16 + _mm_extract_epi64(greater, 0) + _mm_extract_epi64(greater, 1));
#else
  for (int i = 0; i < 16; ++i) count += numbers[i] <= number ? 1 : 0;
#endif
  return count;
}

}  // namespace

std::string shortest_separator(Bytes below, Bytes at) {
  const std::size_t limit = std::min(below.size(), at.size());
  std::size_t shared = 0;
  while (shared < limit && below[shared] == at[shared]) ++shared;
  return std::string(at.substr(0, std::min(shared + 1, at.size())));
}

void Fences::build(std::string prefix, const std::vector<std::string>& separators) {
  prefix_ = std::move(prefix);
  bytes_.clear();
  ends_.clear();
  ends_.reserve(separators.size());
  std::vector<std::int64_t> numbers;
  numbers.reserve(separators.size() + kFanout);
  for (std::size_t t = 0; t < separators.size(); ++t) {
    const Bytes rest = t == 0 ? Bytes() : Bytes(separators[t]).substr(std::min(prefix_.size(), separators[t].size()));
    bytes_.append(rest);
    ASSERT(bytes_.size() <= std::numeric_limits<std::uint32_t>::max());
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    numbers.push_back(number_of(rest, 0));
  }
  bytes_.shrink_to_fit();
  build_levels(std::move(numbers));
}

void Fences::build_levels(std::vector<std::int64_t> numbers) {
  std::vector<std::vector<Node>> levels;  // all levels from the leaves up to the root
  for (;;) {
    const std::size_t count = numbers.size(), nodes = (count + kFanout - 1) / kFanout;
    numbers.resize(nodes * kFanout, std::numeric_limits<std::int64_t>::max());
    std::vector<Node>& level = levels.emplace_back(nodes);
    if (nodes > 0) std::memcpy(level.data(), numbers.data(), nodes * sizeof(Node));
    if (nodes <= 1) break;
    numbers.clear();
    for (const Node& node : level) numbers.push_back(node.numbers[0]);
  }
  nodes_.clear();
  levels_.clear();
  for (std::size_t i = levels.size(); i-- > 0;) {
    levels_.push_back({static_cast<std::uint32_t>(nodes_.size()), static_cast<std::uint32_t>(levels[i].size())});
    nodes_.insert(nodes_.end(), levels[i].begin(), levels[i].end());
  }
  nodes_.shrink_to_fit();
  leaves_ = nodes_.data() + levels_.back().first;
}

// Finds the last tile whose number is <= `number`, and returns its node in the last level. There always is such a tile, since
// tile 0 has the smallest number.
std::uint32_t Fences::leaf_of(std::int64_t number) const {
  std::uint32_t node = 0;
  for (std::size_t level = 0; level + 1 < levels_.size(); ++level) {
    node = node * kFanout + count_up_to(nodes_[levels_[level].first + node].numbers, number) - 1;
    // Padding equals the largest number, so the search must not step past the level's end.
    node = std::min(node, levels_[level + 1].nodes - 1);
  }
  return node;
}

std::uint32_t Fences::find_in(std::uint32_t leaf, std::int64_t number, Bytes key) const {
  const std::uint32_t last = leaf * kFanout + count_up_to(leaves_[leaf].numbers, number) - 1;
  const std::uint32_t tile = std::min(last, size() - 1);
  if (this->number(tile) != number) [[likely]]
    return tile;  // the tile's number is smaller than the key's, so its separator is, too
  const Bytes rest = key.substr(prefix_.size());
  if (stripped(tile) <= rest) return tile;
  // The tile has the key's number, but its separator is greater than the key. Searches the other tiles with this number, and the
  // tile before the first of them.
  std::uint32_t low = 0, high = tile;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (this->number(middle) < number || stripped(middle) <= rest) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? 0 : low - 1;
}

std::uint32_t Fences::find(Bytes key) const {
  const int order = key.substr(0, prefix_.size()).compare(prefix_);
  if (order < 0) return 0;
  if (order > 0) return size() - 1;
  const std::int64_t number = number_of(key, prefix_.size());
  return find_in(leaf_of(number), number, key);
}

std::uint32_t Fences::begin(Bytes key) const {
  const std::uint32_t leaf = leaf_of(number_of(key, prefix_.size()));
  __builtin_prefetch(leaves_ + leaf);
  __builtin_prefetch(leaves_[leaf].numbers + kFanout / 2);
  return leaf;
}

std::uint32_t Fences::finish(Bytes key, std::uint32_t begun) const { return find_in(begun, number_of(key, prefix_.size()), key); }

std::string Fences::separator(std::uint32_t tile) const {
  if (tile == 0) return {};
  std::string whole = prefix_;
  whole.append(stripped(tile));
  return whole;
}

std::uint64_t Fences::memory_bytes() const {
  std::uint64_t bytes = prefix_.capacity() + bytes_.capacity() + ends_.capacity() * sizeof(std::uint32_t);
  return bytes + nodes_.capacity() * sizeof(Node) + levels_.capacity() * sizeof(Level);
}

}  // namespace ebbtide

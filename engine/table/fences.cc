#include "table/fences.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

#include "base/invariant.h"

namespace ebbtide {
namespace {

// The first 8 bytes as a big-endian number, zeros behind a shorter string, with the sign turned so that signed compares (which
// SSE has) order as bytes do.
inline std::int64_t number_of(Bytes stripped) {
  std::uint64_t word = 0;
  if (!stripped.empty()) std::memcpy(&word, stripped.data(), std::min<std::size_t>(stripped.size(), 8));
  return static_cast<std::int64_t>(__builtin_bswap64(word) ^ (std::uint64_t{1} << 63));
}

// How many of a node's 16 numbers are <= number; they ascend. Counting all of them costs no branch.
inline std::uint32_t count_up_to(const std::int64_t* numbers, std::int64_t number) {
  std::uint32_t count = 0;
#if defined(__SSE4_2__)
  const __m128i wanted = _mm_set1_epi64x(number);
  __m128i greater = _mm_setzero_si128();  // each lane counts down
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
    numbers.push_back(number_of(rest));
  }
  bytes_.shrink_to_fit();
  levels_.clear();
  for (;;) {
    const std::size_t count = numbers.size();
    numbers.resize((count + kFanout - 1) / kFanout * kFanout, std::numeric_limits<std::int64_t>::max());
    levels_.push_back(std::move(numbers));
    if (count <= kFanout) break;
    numbers.clear();
    for (std::size_t i = 0; i < levels_.back().size(); i += kFanout) numbers.push_back(levels_.back()[i]);
  }
}

// The last tile whose number is <= `number`; tile 0's is the smallest there is, so there always is one.
std::uint32_t Fences::find_number(std::int64_t number) const {
  std::uint32_t group = 0;
  for (std::size_t level = levels_.size(); level-- > 0;) {
    const std::int64_t* const numbers = levels_[level].data() + std::size_t{group} * kFanout;
    group = group * kFanout + count_up_to(numbers, number) - 1;
    // Padding equals the largest number: do not step behind the level's end.
    const auto groups = static_cast<std::uint32_t>(level > 0 ? levels_[level - 1].size() / kFanout : ends_.size());
    if (group >= groups) group = groups - 1;
  }
  return group;
}

std::uint32_t Fences::find(Bytes key) const {
  const int order = key.substr(0, prefix_.size()).compare(prefix_);
  if (order < 0) return 0;
  if (order > 0) return size() - 1;
  const Bytes rest = key.substr(prefix_.size());
  const std::int64_t number = number_of(rest);
  const std::uint32_t tile = find_number(number);
  if (stripped(tile) <= rest) return tile;
  // Its number equals the key's, its separator is greater: look among the tiles with that number, and the one before them.
  const std::vector<std::int64_t>& numbers = levels_[0];
  std::uint32_t low =
      static_cast<std::uint32_t>(std::lower_bound(numbers.begin(), numbers.begin() + tile, number) - numbers.begin());
  std::uint32_t high = tile;  // first known to be greater than the key
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (stripped(middle) <= rest) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? 0 : low - 1;
}

void Fences::prefetch(Bytes key) const {
  if (levels_.size() < 2 || key.size() < prefix_.size()) return;
  // The upper levels are in the processor's cache; the last one and the separator's end are not.
  const std::int64_t number = number_of(key.substr(prefix_.size()));
  std::uint32_t group = 0;
  for (std::size_t level = levels_.size(); level-- > 1;) {
    const std::int64_t* const numbers = levels_[level].data() + std::size_t{group} * kFanout;
    group = group * kFanout + count_up_to(numbers, number) - 1;
    const auto groups = static_cast<std::uint32_t>(levels_[level - 1].size() / kFanout);
    if (group >= groups) group = groups - 1;
  }
  __builtin_prefetch(levels_[0].data() + std::size_t{group} * kFanout);
  __builtin_prefetch(levels_[0].data() + std::size_t{group} * kFanout + 8);
  __builtin_prefetch(ends_.data() + std::size_t{group} * kFanout);
}

std::string Fences::separator(std::uint32_t tile) const {
  if (tile == 0) return {};
  std::string whole = prefix_;
  whole.append(stripped(tile));
  return whole;
}

std::uint64_t Fences::memory_bytes() const {
  std::uint64_t bytes = prefix_.capacity() + bytes_.capacity() + ends_.capacity() * sizeof(std::uint32_t);
  for (const auto& level : levels_) bytes += level.capacity() * sizeof(std::int64_t);
  return bytes;
}

}  // namespace ebbtide

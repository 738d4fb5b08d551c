// A slice is a header, blocks, and 8 zeros (so that a row can be loaded as one word). Row r of a block is the block's bits [r
// columns, (r + 1) columns), lowest bit first.
// Header: columns u8; probes u8; slice number u8; zero u8; keys u32 (0 = unknown); blocks u64; zeros up to 64 bytes.
#include "filter/bloom.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/coding.h"
#include "base/invariant.h"

namespace ebbtide {
namespace {

constexpr std::size_t kHeaderBytes = 64;
constexpr std::size_t kTailBytes = 8;
constexpr std::uint32_t kMaxProbes = 30;
constexpr std::uint32_t kRowBits = 9;  // log2(kBloomRows)
constexpr std::uint32_t kRowsPerWord = 64 / kRowBits;

__extension__ typedef unsigned __int128 Uint128;

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93u;
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93u;
  return z ^ (z >> 32);
}
// Returns the number that a slice adds to each key's hash; 0 for slice 0.
std::uint64_t salt_of(std::uint32_t slice) { return slice * 0x9e3779b97f4a7c15u; }

std::uint64_t block_of(std::uint64_t hash, std::uint64_t blocks) {
  return static_cast<std::uint64_t>((static_cast<Uint128>(hash) * blocks) >> 64);
}

// Calls row(r) for each probe. The block is selected by the hash's high bits, the rows by a mix of all bits.
template <typename Row>
inline void each_row(std::uint64_t hash, std::uint32_t probes, Row row) {
  for (std::uint32_t done = 0; done < probes; done += kRowsPerWord) {
    std::uint64_t word = mix(hash + done * 0x9e3779b97f4a7c15u);
    for (std::uint32_t left = std::min(probes - done, kRowsPerWord); left > 0; --left) {
      row(static_cast<std::uint32_t>(word) & (kBloomRows - 1));
      word >>= kRowBits;
    }
  }
}

double rate_with(double bits_per_key, std::uint32_t probes) {
  const double mean = kBloomRows / bits_per_key;
  const double spread = 8 * std::sqrt(mean) + 8;
  const auto from = static_cast<std::uint64_t>(std::max(0.0, mean - spread));
  const auto to = static_cast<std::uint64_t>(mean + spread);
  double sum = 0;
  for (std::uint64_t keys = from; keys <= to; ++keys) {
    const double n = static_cast<double>(keys);
    const double weight = std::exp(n * std::log(mean) - mean - std::lgamma(n + 1));
    const double fill = -std::expm1(n * probes * std::log1p(-1.0 / kBloomRows));
    sum += weight * std::pow(fill, probes);
  }
  return std::min(1.0, sum);
}

// The false positive rate as ln p, and the number of probes k, for bits per key in steps of a quarter bit. Between steps ln p
// is interpolated linearly.
constexpr double kStepsPerBit = 4;
constexpr std::size_t kSteps = static_cast<std::size_t>(kMaxBitsPerKey * kStepsPerBit);
struct Calibration {
  std::array<double, kSteps + 1> log_rate{};
  std::array<std::uint32_t, kSteps + 1> probes{};

  Calibration() {
    probes[0] = 1;
    for (std::size_t i = 1; i <= kSteps; ++i) {
      const double bits = static_cast<double>(i) / kStepsPerBit;
      double best = 2;
      for (std::uint32_t k = probes[i - 1]; k <= std::min(kMaxProbes, probes[i - 1] + 2); ++k) {
        const double rate = rate_with(bits, k);
        if (rate < best) {
          best = rate;
          probes[i] = k;
        }
      }
      log_rate[i] = std::log(best);
    }
  }
};

const Calibration& calibration() {
  static const Calibration table;
  return table;
}

}  // namespace

double expected_false_positive_rate(double bits_per_key) {
  if (!(bits_per_key > 0)) return 1;
  const Calibration& table = calibration();
  const double at = std::min(bits_per_key, kMaxBitsPerKey) * kStepsPerBit;
  const auto below = std::min(static_cast<std::size_t>(at), kSteps - 1);
  const double part = at - static_cast<double>(below);
  return std::exp(table.log_rate[below] * (1 - part) + table.log_rate[below + 1] * part);
}

std::uint32_t bloom_probes(double bits_per_key) {
  const double at = std::clamp(bits_per_key, 0.0, kMaxBitsPerKey) * kStepsPerBit;
  return std::max<std::uint32_t>(1, calibration().probes[static_cast<std::size_t>(std::lround(at))]);
}

BloomBuilder::BloomBuilder(std::uint32_t columns) : columns_(columns), hashes_(columns) {
  ASSERT(columns >= 1 && columns <= kMaxBloomColumns);
}

void BloomBuilder::add(std::uint32_t column, std::uint64_t hash) {
  std::vector<std::uint64_t>& hashes = hashes_[column];
  if (!hashes.empty() && hashes.back() == hash) return;
  hashes.push_back(hash);
  ++keys_;
}

std::string BloomBuilder::build(double bits_per_key, std::uint32_t slice) const {
  ASSERT(bits_per_key > 0 && slice < 256);
  const double bits = std::min(bits_per_key, kMaxBitsPerKey);
  const double rows = static_cast<double>(keys_) / columns_ * bits;
  const auto blocks = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(rows / kBloomRows)));
  const std::uint32_t probes = bloom_probes(bits);
  const std::size_t block_bytes = std::size_t{kBloomRows / 8} * columns_;
  std::string out(kHeaderBytes + blocks * block_bytes + kTailBytes, '\0');
  out[0] = static_cast<char>(columns_);
  out[1] = static_cast<char>(probes);
  out[2] = static_cast<char>(slice);
  store_fixed(out.data() + 4, static_cast<std::uint32_t>(std::min<std::uint64_t>(keys_, ~std::uint32_t{0})));
  store_fixed(out.data() + 8, blocks);
  char* const begin = out.data() + kHeaderBytes;
  for (std::uint32_t column = 0; column < columns_; ++column) {
    for (const std::uint64_t plain : hashes_[column]) {
      const std::uint64_t hash = slice == 0 ? plain : mix(plain + salt_of(slice));
      char* const block = begin + block_of(hash, blocks) * block_bytes;
      each_row(hash, probes, [&](std::uint32_t row) {
        const std::uint32_t bit = row * columns_ + column;
        block[bit / 8] = static_cast<char>(static_cast<unsigned char>(block[bit / 8]) | (1u << (bit % 8)));
      });
    }
  }
  return out;
}

Result<BloomView> BloomView::parse(Bytes slice) {
  if (slice.size() < kHeaderBytes + kTailBytes) return Status::corruption("filter slice: too short");
  BloomView view;
  view.columns_ = static_cast<std::uint8_t>(slice[0]);
  view.probes_ = static_cast<std::uint8_t>(slice[1]);
  view.salt_ = salt_of(static_cast<unsigned char>(slice[2]));
  view.keys_ = load_fixed<std::uint32_t>(slice.data() + 4);
  view.blocks_ = load_fixed<std::uint64_t>(slice.data() + 8);
  view.blocks_begin_ = slice.data() + kHeaderBytes;
  if (view.columns_ < 1 || view.columns_ > kMaxBloomColumns || view.probes_ < 1 || view.probes_ > kMaxProbes) {
    return Status::corruption("filter slice: columns or probes out of range");
  }
  const std::uint64_t block_bytes = std::uint64_t{kBloomRows / 8} * view.columns_;
  const std::uint64_t room = slice.size() - kHeaderBytes - kTailBytes;
  if (view.blocks_ == 0 || view.blocks_ != room / block_bytes || room % block_bytes != 0) {
    return Status::corruption("filter slice: length does not match the number of blocks");
  }
  return view;
}

std::uint64_t BloomView::candidates(std::uint64_t hash) const {
  if (salt_ != 0) hash = mix(hash + salt_);
  const char* const block = blocks_begin_ + block_of(hash, blocks_) * (kBloomRows / 8) * columns_;
  // The loop has no early exit: the loads are independent and issued together, and no branch depends on their results.
  if (columns_ == 1) {
    std::uint64_t found = 1;
    each_row(hash, probes_, [&](std::uint32_t row) { found &= load_fixed<std::uint64_t>(block + row / 64 * 8) >> (row % 64); });
    return found;
  }
  std::uint64_t mask = columns_ == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << columns_) - 1;
  if (columns_ <= 57) {
    each_row(hash, probes_, [&](std::uint32_t row) {
      const std::uint32_t bit = row * columns_;
      mask &= load_fixed<std::uint64_t>(block + bit / 8) >> (bit % 8);
    });
    return mask;
  }
  // A row of more than 57 bits that begins inside a byte spans nine bytes.
  each_row(hash, probes_, [&](std::uint32_t row) {
    const std::uint32_t bit = row * columns_, shift = bit % 8;
    std::uint64_t word = load_fixed<std::uint64_t>(block + bit / 8) >> shift;
    if (shift + columns_ > 64) word |= std::uint64_t{static_cast<unsigned char>(block[bit / 8 + 8])} << (64 - shift);
    mask &= word;
  });
  return mask;
}

void BloomView::prefetch(std::uint64_t hash) const {
  if (salt_ != 0) hash = mix(hash + salt_);
  const char* const block = blocks_begin_ + block_of(hash, blocks_) * (kBloomRows / 8) * columns_;
  if (columns_ == 1) {
    __builtin_prefetch(block);
    return;
  }
  each_row(hash, probes_, [&](std::uint32_t row) { __builtin_prefetch(block + row * columns_ / 8); });
}

}  // namespace ebbtide

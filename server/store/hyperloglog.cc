#include "store/hyperloglog.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace ebbtide::hll {
namespace {

constexpr unsigned kIndexBits = 14, kRegisterBits = 6;
constexpr unsigned kMaxRank = 64 - kIndexBits + 1;  // the largest rank that an element can have
constexpr std::size_t kEncodingAt = 4, kCountAt = 8, kHeaderBytes = 16;
constexpr std::size_t kDenseBytes = kHeaderBytes + kRegisters * kRegisterBits / 8;
constexpr char kDense = 0, kSparse = 1;
constexpr unsigned char kOutOfDate = 0x80;  // flag in the last byte of the stored count

unsigned char byte_of(Bytes value, std::size_t i) { return static_cast<unsigned char>(value[i]); }

// --- elements

/// Hashes an element with the 64-bit MurmurHash2 by Austin Appleby, with Redis's seed.
std::uint64_t hash_element(Bytes element) {
  constexpr std::uint64_t kSeed = 0xadc83b19, kMultiplier = 0xc6a4a7935bd1e995;
  constexpr int kShift = 47;
  std::uint64_t hash = kSeed ^ element.size() * kMultiplier;
  for (; element.size() >= 8; element.remove_prefix(8)) {
    std::uint64_t word = 0;
    for (unsigned i = 8; i-- > 0;) word = word << 8 | byte_of(element, i);
    word *= kMultiplier;
    word ^= word >> kShift;
    word *= kMultiplier;
    hash = (hash ^ word) * kMultiplier;
  }
  if (!element.empty()) {
    std::uint64_t word = 0;
    for (std::size_t i = element.size(); i-- > 0;) word = word << 8 | byte_of(element, i);
    hash = (hash ^ word) * kMultiplier;
  }
  hash = (hash ^ hash >> kShift) * kMultiplier;
  return hash ^ hash >> kShift;
}

struct Observation {
  std::size_t index;  ///< index of the register
  std::uint8_t rank;  ///< the least value of the register after adding this element
};

Observation observe(Bytes element) {
  const std::uint64_t hash = hash_element(element);
  // A 1 above the highest bit of the hash keeps the rank within kMaxRank.
  const std::uint64_t rest = hash >> kIndexBits | std::uint64_t{1} << (64 - kIndexBits);
  return {hash % kRegisters, static_cast<std::uint8_t>(std::countr_zero(rest) + 1)};
}

// --- dense

std::uint8_t get_dense(Bytes value, std::size_t index) {
  const std::size_t bit = index * kRegisterBits, at = kHeaderBytes + bit / 8;
  unsigned two = byte_of(value, at);
  if (at + 1 < value.size()) two |= static_cast<unsigned>(byte_of(value, at + 1)) << 8;
  return static_cast<std::uint8_t>(two >> (bit % 8) & 63);
}

bool raise_dense(std::string* value, std::size_t index, std::uint8_t rank) {
  if (get_dense(*value, index) >= rank) return false;
  const std::size_t bit = index * kRegisterBits, at = kHeaderBytes + bit / 8;
  const unsigned shift = bit % 8, mask = 63u << shift, bits = static_cast<unsigned>(rank) << shift;
  (*value)[at] = static_cast<char>((byte_of(*value, at) & ~mask) | bits);
  if (mask > 0xff) (*value)[at + 1] = static_cast<char>((byte_of(*value, at + 1) & ~(mask >> 8)) | bits >> 8);
  return true;
}

// --- sparse

constexpr std::size_t kMaxShortZeros = 64;
constexpr unsigned kMaxRunLength = 4;
constexpr std::uint8_t kMaxSparseRank = 32;

/// One run of the sparse sequence.
struct Run {
  std::size_t at = 0;     ///< the offset of the run's first byte in the value
  std::size_t bytes = 0;  ///< 1 or 2
  std::size_t length = 0;
  std::uint8_t rank = 0;  ///< 0: zeros
};

/// Returns the run at offset `at`. Requires at < value.size(). The second byte of a truncated two-byte run is read as zero, as in
/// Redis, whose strings end with a zero.
Run run_at(Bytes value, std::size_t at) {
  const unsigned byte = byte_of(value, at);
  if ((byte & 0x80) != 0) return {at, 1, (byte & 3) + 1, static_cast<std::uint8_t>((byte >> 2 & 31) + 1)};
  if ((byte & 0x40) == 0) return {at, 1, byte + 1, 0};
  const unsigned low = at + 1 < value.size() ? byte_of(value, at + 1) : 0;
  return {at, 2, ((byte & 63) << 8 | low) + std::size_t{1}, 0};
}

void append_run(std::string* out, std::size_t length, std::uint8_t rank) {
  if (length == 0) return;
  const std::size_t n = length - 1;
  if (rank != 0) {
    out->push_back(static_cast<char>(0x80u | (rank - 1u) << 2 | n));
  } else if (length <= kMaxShortZeros) {
    out->push_back(static_cast<char>(n));
  } else {
    out->push_back(static_cast<char>(0x40 | n >> 8));
    out->push_back(static_cast<char>(n));
  }
}

/// Calls each(index, length, rank) for the runs of a sparse value. Returns false if the runs do not have exactly kRegisters
/// registers.
template <typename Each>
bool for_each_run(Bytes value, Each each) {
  std::size_t index = 0;
  for (std::size_t at = kHeaderBytes; at < value.size();) {
    const Run run = run_at(value, at);
    if (index + run.length > kRegisters) return false;
    each(index, run);
    index += run.length;
    at += run.bytes;
  }
  return index == kRegisters;
}

bool make_dense(std::string* value) {
  if (is_dense(*value)) return true;
  std::string dense(kDenseBytes, '\0');
  dense.replace(0, kHeaderBytes, *value, 0, kHeaderBytes);
  dense[kEncodingAt] = kDense;
  const bool sound = for_each_run(*value, [&](std::size_t index, const Run& run) {
    for (std::size_t i = 0; run.rank != 0 && i < run.length; ++i) raise_dense(&dense, index + i, run.rank);
  });
  if (sound) *value = std::move(dense);
  return sound;
}

std::optional<bool> raise_as_dense(std::string* value, std::size_t index, std::uint8_t rank) {
  if (!make_dense(value)) return std::nullopt;
  return raise_dense(value, index, rank);
}

/// Joins adjacent runs of equal rank, from `at` on, if they fit into one run. As in Redis, it stops after five runs or joins.
void join_runs(std::string* value, std::size_t at) {
  for (int looks = 5; looks > 0 && at < value->size(); --looks) {
    const Run run = run_at(*value, at);
    const std::size_t next_at = at + run.bytes;
    if (run.rank != 0 && next_at < value->size()) {
      const Run next = run_at(*value, next_at);
      if (next.rank == run.rank && run.length + next.length <= kMaxRunLength) {
        std::string joined;
        append_run(&joined, run.length + next.length, run.rank);
        value->replace(at, 2, joined);
        continue;
      }
    }
    at = next_at;
  }
}

std::optional<bool> raise_sparse(std::string* value, std::size_t index, std::uint8_t rank) {
  if (rank > kMaxSparseRank) return raise_as_dense(value, index, rank);
  std::size_t before = kHeaderBytes;  // the run before the run that has the register; the latter itself if it is the first run
  std::size_t first = 0;              // index of the first register of the run at `at`
  std::size_t at = kHeaderBytes;
  Run run;
  while (true) {
    if (at >= value->size()) return std::nullopt;
    run = run_at(*value, at);
    if (index < first + run.length) break;
    before = at;
    at += run.bytes;
    first += run.length;
  }
  if (run.rank >= rank) return false;

  std::string runs;
  append_run(&runs, index - first, run.rank);
  append_run(&runs, 1, rank);
  append_run(&runs, first + run.length - 1 - index, run.rank);
  const std::size_t taken = std::min(run.bytes, value->size() - at);
  if (runs.size() > run.bytes && value->size() + runs.size() - run.bytes > kMaxSparseBytes) {
    return raise_as_dense(value, index, rank);
  }
  value->replace(at, taken, runs);
  join_runs(value, before);
  return true;
}

std::optional<bool> raise_one(std::string* value, std::size_t index, std::uint8_t rank) {
  return is_dense(*value) ? raise_dense(value, index, rank) : raise_sparse(value, index, rank);
}

// --- the estimate

/// How many registers have each rank.
using Histogram = std::array<std::uint32_t, 64>;

/// Ertl's sigma and tau: series that are added up until the sum no longer changes.
double sigma(double x) {
  if (x == 1.0) return std::numeric_limits<double>::infinity();
  double sum = x, before = 0, weight = 1;
  do {
    x *= x;
    before = sum;
    sum += x * weight;
    weight += weight;
  } while (sum != before);
  return sum;
}

double tau(double x) {
  if (x == 0.0 || x == 1.0) return 0;
  double sum = 1 - x, before = 0, weight = 1;
  do {
    x = std::sqrt(x);
    before = sum;
    weight *= 0.5;
    sum -= std::pow(1 - x, 2) * weight;
  } while (sum != before);
  return sum / 3;
}

std::uint64_t estimate(const Histogram& histogram) {
  constexpr double kAlpha = 0.721347520444481703680;  // 1 / (2 ln 2)
  constexpr double kLimit = 9223372036854775808.0;
  const auto m = static_cast<double>(kRegisters);
  double z = m * tau((m - histogram[kMaxRank]) / m);
  for (unsigned rank = kMaxRank - 1; rank >= 1; --rank) z = 0.5 * (z + histogram[rank]);
  z += m * sigma(histogram[0] / m);
  const double exact = kAlpha * m * m / z;
  if (!(exact < kLimit)) return std::uint64_t{1} << 63;
  // Converted through a double, as in Redis, which so rounds large numbers a second time.
  return static_cast<std::uint64_t>(static_cast<double>(std::llround(exact)));
}

}  // namespace

std::string make_empty() {
  std::string value(kHeaderBytes, '\0');
  value.replace(0, 4, "HYLL");
  value[kEncodingAt] = kSparse;
  append_run(&value, kRegisters, 0);
  return value;
}

bool is_valid(Bytes value) {
  if (value.size() < kHeaderBytes || value.substr(0, 4) != "HYLL") return false;
  return value[kEncodingAt] == kSparse || (value[kEncodingAt] == kDense && value.size() == kDenseBytes);
}

bool is_dense(Bytes value) { return value[kEncodingAt] == kDense; }

std::optional<bool> add(std::string* value, Bytes element) {
  const Observation seen = observe(element);
  return raise_one(value, seen.index, seen.rank);
}

bool merge_into(Bytes value, Registers* into) {
  if (is_dense(value)) {
    for (std::size_t i = 0; i < kRegisters; ++i) (*into)[i] = std::max((*into)[i], get_dense(value, i));
    return true;
  }
  return for_each_run(value, [&](std::size_t index, const Run& run) {
    for (std::size_t i = 0; run.rank != 0 && i < run.length; ++i) (*into)[index + i] = std::max((*into)[index + i], run.rank);
  });
}

bool raise(std::string* value, const Registers& registers, bool dense) {
  if (dense && !make_dense(value)) return false;
  for (std::size_t i = 0; i < kRegisters; ++i) {
    if (registers[i] != 0 && !raise_one(value, i, registers[i])) return false;
  }
  return true;
}

std::optional<std::uint64_t> count(Bytes value) {
  Histogram histogram{};
  if (is_dense(value)) {
    for (std::size_t i = 0; i < kRegisters; ++i) ++histogram[get_dense(value, i)];
    return estimate(histogram);
  }
  const bool sound =
      for_each_run(value, [&](std::size_t, const Run& run) { histogram[run.rank] += static_cast<std::uint32_t>(run.length); });
  if (!sound) return std::nullopt;
  return estimate(histogram);
}

std::uint64_t count(const Registers& registers) {
  Histogram histogram{};
  for (const std::uint8_t rank : registers) ++histogram[rank];
  return estimate(histogram);
}

std::optional<std::uint64_t> cached_count(Bytes value) {
  if ((byte_of(value, kHeaderBytes - 1) & kOutOfDate) != 0) return std::nullopt;
  std::uint64_t count = 0;
  for (std::size_t i = kHeaderBytes; i-- > kCountAt;) count = count << 8 | byte_of(value, i);
  return count;
}

void set_cached_count(std::string* value, std::uint64_t count) {
  for (std::size_t i = kCountAt; i < kHeaderBytes; ++i, count >>= 8) (*value)[i] = static_cast<char>(count);
}

void forget_cached_count(std::string* value) {
  char& byte = (*value)[kHeaderBytes - 1];
  byte = static_cast<char>(static_cast<unsigned char>(byte) | kOutOfDate);
}

}  // namespace ebbtide::hll

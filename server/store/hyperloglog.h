// HyperLogLog as Redis stores it in a string: estimates how many different elements a set has, to within about 0.8 %, in at most
// 12 KiB.
//
//   "HYLL", encoding u8 (0 dense, 1 sparse), 3 zero bytes, cardinality u64 little endian (its highest bit set: out of date),
//   registers
//
// An element's hash (MurmurHash64A) chooses one of 16384 registers by its lowest 14 bits. The register keeps the greatest number
// of zeros, plus 1, that was seen at the low end of the other bits. Dense: six bits for each register, from the lowest bit of a
// byte up. Sparse: a sequence of runs, 00nnnnnn = n+1 zeros, 01nnnnnn nnnnnnnn = n+1 zeros, 1vvvvvnn = n+1 registers of v+1. A
// sparse value becomes dense when it would exceed kMaxSparseBytes or a register would exceed 32. The same sequence of commands
// gives the same bytes as in Redis, so runs are split and joined at the same registers. The estimate is that of O. Ertl, "New
// cardinality estimation algorithms for HyperLogLog sketches" (2017), Algorithm 6.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <engine/bytes.h>

namespace ebbtide::hll {

inline constexpr std::size_t kRegisters = 1 << 14;
/// The default of Redis's hll-sparse-max-bytes, including the header.
inline constexpr std::size_t kMaxSparseBytes = 3000;

/// The registers, one byte each.
using Registers = std::array<std::uint8_t, kRegisters>;

/// Returns an empty sketch, in sparse form.
std::string make_empty();
/// Returns true if the header is valid. A sparse value may still be corrupt.
[[nodiscard]] bool is_valid(Bytes value);

// All functions below require is_valid(value). If one returns nullopt or false, the value is corrupt, and may be half changed.

/// Adds an element. Returns true if a register has changed.
std::optional<bool> add(std::string* value, Bytes element);
/// Raises each register of `into` to the one of `value`, if that is higher.
[[nodiscard]] bool merge_into(Bytes value, Registers* into);
/// Raises the registers of `value` to `registers`. `dense`: also makes the value dense. Returns false if the value is corrupt.
[[nodiscard]] bool raise(std::string* value, const Registers& registers, bool dense);
[[nodiscard]] bool is_dense(Bytes value);

/// Returns the estimated number of different elements. 2^63 also stands for larger numbers, which only forged registers give.
std::optional<std::uint64_t> count(Bytes value);
std::uint64_t count(const Registers& registers);
/// Returns the estimate that is stored in the value; nullopt if the value was changed since.
std::optional<std::uint64_t> cached_count(Bytes value);
void set_cached_count(std::string* value, std::uint64_t count);
void forget_cached_count(std::string* value);

}  // namespace ebbtide::hll

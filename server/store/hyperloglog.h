// HyperLogLog as Redis keeps it in a string: how many different elements a set has, to within about 0.8 %, in at most 12 KiB.
//
//   "HYLL", encoding u8 (0 dense, 1 sparse), 3 zero bytes, cardinality u64 little endian (its highest bit set: out of date),
//   registers
//
// An element's hash (MurmurHash64A) chooses one of 16384 registers by its lowest 14 bits; the register keeps the greatest number
// of zeros, plus 1, that was seen at the low end of the rest. Dense: six bits each, from the lowest bit of a byte up. Sparse: a
// sequence of runs, 00nnnnnn = n+1 zeros, 01nnnnnn nnnnnnnn = n+1 zeros, 1vvvvvnn = n+1 registers of v+1. A sparse one becomes
// dense when it would pass kMaxSparseBytes or a register pass 32. The same sequence of commands gives the same bytes as in Redis,
// so runs are split and joined at the same places. The estimate is that of O. Ertl, "New cardinality estimation algorithms for
// HyperLogLog sketches" (2017), Algorithm 6.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <engine/bytes.h>

namespace ebbtide::hll {

inline constexpr std::size_t kRegisters = 1 << 14;
/// Redis's hll-sparse-max-bytes at its default; the header counts.
inline constexpr std::size_t kMaxSparseBytes = 3000;

/// One byte a register.
using Registers = std::array<std::uint8_t, kRegisters>;

/// An empty set, sparse.
std::string make_empty();
/// True if the header is valid. A sparse value may still be corrupt.
[[nodiscard]] bool is_valid(Bytes value);

// All below need is_valid(value). nullopt, or false, means corrupt; the value may then be half changed.

/// Counts an element; true if that changed a register.
std::optional<bool> add(std::string* value, Bytes element);
/// Raises the registers of `into` to those of `value`.
[[nodiscard]] bool merge_into(Bytes value, Registers* into);
/// Raises the registers of `value` to `registers`. `dense`: makes it dense. False if it is corrupt.
[[nodiscard]] bool raise(std::string* value, const Registers& registers, bool dense);
[[nodiscard]] bool is_dense(Bytes value);

/// The estimated number of different elements. 2^63 if it is that or more (only made-up registers give such a number).
std::optional<std::uint64_t> count(Bytes value);
std::uint64_t count(const Registers& registers);
/// The estimate that is stored in the value, unless it is out of date.
std::optional<std::uint64_t> cached_count(Bytes value);
void set_cached_count(std::string* value, std::uint64_t count);
void forget_cached_count(std::string* value);

}  // namespace ebbtide::hll

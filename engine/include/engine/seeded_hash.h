// The hash for tables in memory whose keys come from clients.
//
// A client that knows a hash function can choose keys that all fall into one bucket; then each insertion looks at all others. So the
// function has a secret seed, which a program sets once, before it serves anyone. Until then the seed is 0, and runs of a test repeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include <engine/types.h>

namespace ebbtide {

/// Sets the seed of SeededHash for the whole process. Tables that were filled before find nothing any more, so call it before the
/// first of them, and before other threads exist. `seed`: 64 random bits.
void seed_hash_tables(std::uint64_t seed);

/// Hashes bytes by xxh3 with the seed. Any number of threads may call it.
struct SeededHash {
  using is_transparent = void;
  std::size_t operator()(Bytes bytes) const;
};

/// Tables by views: the bytes must outlive the table.
template <typename Value>
using BytesMap = std::unordered_map<Bytes, Value, SeededHash>;
using BytesSet = std::unordered_set<Bytes, SeededHash>;

}  // namespace ebbtide

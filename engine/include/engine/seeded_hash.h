// The hash for tables in memory whose keys come from clients.
//
// A client that knows a hash function can choose keys that all fall into one bucket, so that each insertion compares its key
// with all others. Therefore this function has a secret seed. The server sets it once, before it accepts clients. In tests the
// seed stays 0, so that runs of a test are equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include <engine/types.h>

namespace ebbtide {

/// Sets the seed of SeededHash for the whole process. Lookups in tables that were filled before fail afterwards, so call it
/// before the first table is filled and before other threads exist. `seed`: 64 random bits.
void seed_hash_tables(std::uint64_t seed);

/// Hashes bytes by xxh3 with the seed. Any number of threads may call it.
struct SeededHash {
  using is_transparent = void;
  std::size_t operator()(Bytes bytes) const;
};

/// Hash tables that store views of their keys: the keys' bytes must outlive the table.
template <typename Value>
using BytesMap = std::unordered_map<Bytes, Value, SeededHash>;
using BytesSet = std::unordered_set<Bytes, SeededHash>;

}  // namespace ebbtide

// The engine's only hash function is xxh3-64. hash_key() (engine/read_view.h) has a fixed seed, since filters on disk depend on
// it.
#pragma once

#include <cstdint>

#include <engine/read_view.h>

namespace ebbtide {

/// Hashes any bytes, with the caller's seed.
std::uint64_t hash_bytes(Bytes data, std::uint64_t seed);
/// Returns the seed that seed_hash_tables() (engine/seeded_hash.h) has set; 0 if the function was not called.
std::uint64_t hash_table_seed();

}  // namespace ebbtide

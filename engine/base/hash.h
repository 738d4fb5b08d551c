// The one hash of the engine: xxh3-64 with a fixed seed, because filters on disk depend on it.
#pragma once

#include <cstdint>

#include <engine/read_view.h>

namespace ebbtide {

/// Hash of arbitrary bytes with a seed of the caller's.
std::uint64_t hash_bytes(Bytes data, std::uint64_t seed);

}  // namespace ebbtide

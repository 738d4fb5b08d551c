#include "base/hash.h"

#include <xxhash.h>

namespace ebbtide {

// Filters on disk depend on both functions. A change of either function would need a new kind of filter in the file format.
std::uint64_t hash_key(Bytes key) { return XXH3_64bits(key.data(), key.size()); }

std::uint64_t hash_bytes(Bytes data, std::uint64_t seed) { return XXH3_64bits_withSeed(data.data(), data.size(), seed); }

}  // namespace ebbtide

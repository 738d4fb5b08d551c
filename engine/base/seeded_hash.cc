#include <engine/seeded_hash.h>

#include "base/hash.h"

namespace ebbtide {
namespace {
std::uint64_t table_seed = 0;
}  // namespace

void seed_hash_tables(std::uint64_t seed) { table_seed = seed; }

std::uint64_t hash_table_seed() { return table_seed; }

std::size_t SeededHash::operator()(Bytes bytes) const { return static_cast<std::size_t>(hash_bytes(bytes, table_seed)); }

}  // namespace ebbtide

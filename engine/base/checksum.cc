#include "base/checksum.h"

#include <xxhash.h>

#include "base/invariant.h"

namespace ebbtide {
namespace {

// The multiplication makes it unlikely that two pairs of file and offset give the same seed.
std::uint64_t seed_of(FileNum file, std::uint64_t offset) { return file * 0x9e3779b97f4a7c15u ^ offset; }

}  // namespace

std::uint64_t block_checksum(Bytes data, FileNum file, std::uint64_t offset) {
  return XXH3_64bits_withSeed(data.data(), data.size(), seed_of(file, offset));
}

BlockChecksummer::BlockChecksummer(FileNum file, std::uint64_t offset) : state_(XXH3_createState()) {
  ASSERT(state_ != nullptr);
  XXH3_64bits_reset_withSeed(static_cast<XXH3_state_t*>(state_), seed_of(file, offset));
}

BlockChecksummer::~BlockChecksummer() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }

void BlockChecksummer::update(Bytes piece) { XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), piece.data(), piece.size()); }

std::uint64_t BlockChecksummer::digest() const { return XXH3_64bits_digest(static_cast<XXH3_state_t*>(state_)); }

}  // namespace ebbtide

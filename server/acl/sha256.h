// SHA-256 (FIPS 180-4), for stored passwords.
#pragma once

#include <array>
#include <cstdint>

#include <engine/bytes.h>

namespace ebbtide {

using Sha256 = std::array<std::uint8_t, 32>;

/// Returns the hash of `text`. The time depends only on the text's length.
Sha256 sha256(Bytes text);

}  // namespace ebbtide

// Write-ahead log segments: file `NNNNNN.wal` = segment header, then records. engine/docs/formats.md has the grammar.
//
// A record is a WriteBatch payload behind its length and a checksum bound to file number and offset. A reader stops at the first
// record that is not whole; whether that is the torn end of the last segment or damage in the middle is told apart by what follows:
// a valid record after it, or a later segment with records, means damage.
#pragma once

#include <cstdint>

#include <engine/types.h>

namespace ebbtide {

inline constexpr std::uint32_t kLogMagic = 0x4c425745;  // "EWBL"
inline constexpr std::uint32_t kLogVersion = 1;

}  // namespace ebbtide

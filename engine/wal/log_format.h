// Write-ahead log segments: file `NNNNNN.wal` = segment header, then records. engine/docs/formats.md has the grammar.
//
// A record is a group of batches (batch_group.h), or a part of a large one (log_pieces.h), preceded by its length and a checksum
// bound to file number and offset. A reader stops at the first incomplete or damaged record. That record is either the torn end
// of an unsynced write, which is expected after a power loss, or damage to durable data. Complete records after it do not decide
// which: a device may keep the second of two unsynced writes and lose the first. So the writer adds marks: the first append after
// a sync begins with a record that states how many bytes were durable by then. If a later mark covers the bad place, it is
// damage. It is damage, too, if a later segment has records, since a segment is synced before the next one is written.
#pragma once

#include <cstdint>

#include <engine/types.h>

namespace ebbtide {

inline constexpr std::uint32_t kLogMagic = 0x4c425745;  // "EWBL"
inline constexpr std::uint32_t kLogVersion = 2;         // version 1 has no pieces of batches

/// magic u32, version u32, file number u64, seq of the first operation it may have u64 (0: unknown), block_checksum u64 of the 24
/// bytes before it. The same in every version.
inline constexpr std::size_t kLogHeaderBytes = 32;
static_assert(kLogHeaderBytes == 4 + 4 + 8 + 8 + 8);

/// length u32, block_checksum u64 of length and payload; then the payload.
inline constexpr std::size_t kLogRecordHeaderBytes = 12;
static_assert(kLogRecordHeaderBytes == 4 + 8);

/// The length field of a mark. Its payload is the number of durable bytes, u64.
inline constexpr std::uint32_t kLogMarkFlag = 0x80000000u;
inline constexpr std::uint32_t kLogMarkLength = kLogMarkFlag | 8;
inline constexpr std::size_t kLogMarkBytes = kLogRecordHeaderBytes + 8;
inline constexpr std::uint64_t kMaxLogPayloadBytes = kLogMarkFlag - 1;

}  // namespace ebbtide

// Write-ahead log segments: file `NNNNNN.wal` = segment header, then records. engine/docs/formats.md has the grammar.
//
// A record is a group of batches (batch_group.h), or a piece or the commit record of a large batch (log_pieces.h). A record's
// length and a checksum, which is bound to the file's number and the record's offset, precede it. A reader stops at the first
// incomplete or damaged record: the *bad record*. The bad record is either the torn end of an unsynced write, which is expected
// after a power loss, or damage to durable data. Complete records after the bad record do not show which: a device may keep the
// second of two unsynced writes and lose the first. So the writer adds *marks*: the first append after a sync begins with a
// record that states how many bytes of the segment were durable by then. The bad record is damage if a later mark states that it
// was durable. It is also damage if a later segment has records, since a segment is synced before the next one is written.
//
// The last record of a finished segment is an *end mark*. It names the next segment, whose file was durable before. So a reader
// notices if a segment was removed, even the newest one.
#pragma once

#include <cstdint>

#include <engine/types.h>

namespace ebbtide {

inline constexpr std::uint32_t kLogMagic = 0x4c425745;  // "EWBL"
// Version 1 has no pieces of batches. Versions 1 and 2 have no end marks, no puts of compact entries and no delete debts.
// Versions 1 to 3 have no births of range tombstones and no elements.
inline constexpr std::uint32_t kLogVersion = 4;

/// The segment header: magic u32, version u32, file number u64, seq u64 of the first operation that the segment may have (0:
/// unknown), block_checksum u64 of these 24 bytes. The header is the same in every version.
inline constexpr std::size_t kLogHeaderBytes = 32;
static_assert(kLogHeaderBytes == 4 + 4 + 8 + 8 + 8);

/// A record is: length u32, block_checksum u64 of length and payload, payload.
inline constexpr std::size_t kLogRecordHeaderBytes = 12;
static_assert(kLogRecordHeaderBytes == 4 + 8);

/// The length field of a mark. Its payload is the number of durable bytes, u64.
inline constexpr std::uint32_t kLogMarkFlag = 0x80000000u;
inline constexpr std::uint32_t kLogMarkLength = kLogMarkFlag | 8;
inline constexpr std::size_t kLogMarkBytes = kLogRecordHeaderBytes + 8;
/// The length field of an end mark. Its payload is a kind, u8, always kLogEndKind, and the number of the next segment, u64.
inline constexpr std::uint32_t kLogEndLength = kLogMarkFlag | 9;
inline constexpr char kLogEndKind = 1;
inline constexpr std::uint64_t kMaxLogPayloadBytes = kLogMarkFlag - 1;

}  // namespace ebbtide

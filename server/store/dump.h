// Values in the form that Redis's DUMP writes and RESTORE reads. A payload has the type byte and value of an RDB file, then the
// RDB version in two bytes, then the CRC64 of all these bytes in eight bytes. Both are little endian. Strings are here,
// collections in dump_collections.h; rdb.h has the forms of lengths and strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <engine/bytes.h>

namespace ebbtide {

/// The RDB version of the payloads that DUMP writes: that of Redis 4.0, the oldest version with all forms that DUMP uses. A
/// server refuses payloads that are newer than itself, so more servers accept an old version.
inline constexpr unsigned kWrittenRdbVersion = 8;
/// The RDB version of a payload with fields that expire: that of Redis 7.4, the first to have them.
inline constexpr unsigned kFieldExpiryRdbVersion = 12;
/// The newest RDB version that RESTORE accepts: that of Redis 7.4 and 8.0.
inline constexpr unsigned kNewestRdbVersion = 12;

/// Returns the CRC-64 as Redis computes it (Jones's polynomial, reflected, from 0). "123456789" gives 0xe9c6d914c4b8d9ca. To
/// continue a CRC, pass it as `before`.
std::uint64_t crc64(Bytes data, std::uint64_t before = 0);

/// Returns the payload of a string: at most kDumpOverheadBytes longer than the string.
std::string dump_string(Bytes value);
/// Make the payload of a long string in parts: begin_dump() returns the bytes before the string; end_dump() appends the bytes
/// after it. Both require length > kMaxIntegerText, since shorter strings may have another form.
inline constexpr std::size_t kMaxIntegerText = 20;
std::string begin_dump(std::uint64_t length);
void end_dump(std::string* payload, unsigned version = kWrittenRdbVersion);
inline constexpr std::size_t kDumpOverheadBytes = 20;

/// Returns true if a payload ends with a supported version and the right checksum.
[[nodiscard]] bool dump_is_sound(Bytes payload);
/// Returns a sound payload without its version and checksum.
Bytes dump_body(Bytes payload);
/// Returns the length of the string that load_string() returns for a sound payload; 0 if load_string() fails or returns an
/// integer.
[[nodiscard]] std::uint64_t loaded_bytes(Bytes payload);
/// Returns the string in a sound payload. nullopt: the payload has another type or is not well-formed, or the string is longer
/// than kMaxValueBytes.
std::optional<std::string> load_string(Bytes payload);

}  // namespace ebbtide

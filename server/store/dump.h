// Values as Redis's DUMP writes them and RESTORE reads them: the type byte and value of an RDB file, then the RDB version (two
// bytes) and a CRC64 of all before it (eight bytes), both little endian.
//
// A string is: its length and its bytes; or a byte 11xxxxxx and a signed integer of 1, 2 or 4 bytes, little endian, whose decimal
// text is the string; or 11000011, the lengths of its LZF-compressed form and of the string, and the former. Lengths take 1, 2, 5
// or 9 bytes: 00xxxxxx, 01xxxxxx + 1 byte, 0x80 + 4 bytes, 0x81 + 8 bytes, big endian. All forms are read; no LZF is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <engine/bytes.h>

namespace ebbtide {

/// The version that is written, Redis 7.2's, and the newest that is read.
inline constexpr unsigned kRdbVersion = 11;

/// CRC-64 as Redis computes it (Jones's polynomial, reflected, from 0). "123456789" gives 0xe9c6d914c4b8d9ca.
std::uint64_t crc64(Bytes data);

/// The payload of a string; at most kDumpOverheadBytes longer than the string.
std::string dump_string(Bytes value);
/// The payload of a long string in parts: begin_dump() returns the bytes before the string; end_dump() appends the rest after it.
/// Needs length > kMaxIntegerText: shorter strings may have another form.
inline constexpr std::size_t kMaxIntegerText = 20;
std::string begin_dump(std::uint64_t length);
void end_dump(std::string* payload);
inline constexpr std::size_t kDumpOverheadBytes = 20;

/// True if a payload ends with a supported version and the right checksum.
[[nodiscard]] bool dump_is_sound(Bytes payload);
/// Length of the string that load_string() returns for a sound payload; 0 if it returns none, or an integer.
[[nodiscard]] std::uint64_t loaded_bytes(Bytes payload);
/// The string in a sound payload; nullopt if it holds another type, is not well formed, or the string is longer than
/// kMaxValueBytes.
std::optional<std::string> load_string(Bytes payload);

/// LZF, as Marc Lehmann's liblzf writes it: exactly `length` bytes, or nullopt. Never reads or writes out of bounds, for any
/// input.
std::optional<std::string> lzf_decompress(Bytes compressed, std::size_t length);

}  // namespace ebbtide

// Converts user keys to engine keys and back.
//
// Invariants:
//   1. The engine sorts user keys exactly as memcmp does, so that every range and prefix of keys is one range of the engine.
//   2. The elements of a large collection lie directly after its main entry and before every greater
//      key. So a range of keys includes their elements.
//
// escape(key) replaces 0x00 by 0x00 0xff. A main entry is escape(key), without a terminator; an element is escape(key) 0x00 0x01
// generation element. No escaped key contains 0x00 0x01, and 0x01 < 0xff, which gives both invariants.
// Nearly all keys have no 0x00: they are their own escaped form, and are not copied.
// Considered and rejected: a length prefix (breaks invariant 1), and a terminator on every main entry (copies every key).
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include <engine/result.h>
#include <engine/types.h>

namespace ebbtide {

/// Returns true if the escaped form differs from the key.
inline bool needs_escape(Bytes key) { return !key.empty() && std::memchr(key.data(), 0, key.size()) != nullptr; }
/// Returns the engine key of a user key. If nothing has to be escaped, the result points into `key`; else into *buffer, which is
/// overwritten.
Bytes escape_key(Bytes key, std::string* buffer);
/// Like escape_key(), but always returns a copy.
std::string escaped_key(Bytes key);

/// Returns the user key of a main entry. The result points into `engine_key` or *buffer. kCorruption if 0x00 is not followed by
/// 0xff.
Result<Bytes> unescape_key(Bytes engine_key, std::string* buffer);

/// Returns true for the engine key of a collection's element.
bool is_element_key(Bytes engine_key);

/// Returns the engine's range for the user keys start <= key < end. nullopt: no bound.
KeyRange engine_range(std::optional<Bytes> start, std::optional<Bytes> end);
/// Returns the engine's range for the user keys that start with `prefix`.
KeyRange engine_prefix_range(Bytes prefix);
/// Returns true if no key can be in the range.
inline bool is_empty(const KeyRange& range) { return !range.end.empty() && range.start >= range.end; }

}  // namespace ebbtide

// The keys of a large collection, as far as the engine and its users must agree on them.
//
// A small collection is one entry (EntryKind::kCompact). A large one is a header under the collection's key K, and elements. An
// element's key begins with K, two marker bytes and the generation in the header (engine/docs/formats.md, "Keys"). The elements
// of one generation form one key range. A key that is created again gets a new, higher generation, so elements of older
// generations are unreachable. Once the header was deleted or has expired, the engine may delete them at any time without a lock.
//
// The first kHeaderStartBytes bytes of a header's value are the collection's type, its flags and its generation; the rest
// belongs to the engine's user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <engine/types.h>

namespace ebbtide {

/// Identity of one incarnation of a collection; grows each time the key is created again. Never 0.
using Generation = std::uint64_t;

inline constexpr std::size_t kHeaderStartBytes = 10;  ///< type u8, flags u8, generation u64 (big endian)

/// Returns the beginning of a header's value.
std::string header_start(std::uint8_t type, std::uint8_t flags, Generation generation);
/// Returns the generation that a header names; nullopt if the value is too short, or the generation is 0.
std::optional<Generation> header_generation(Bytes header_value);
/// Returns the range that contains the keys of all elements of one generation, and no other key. `key` is the header's engine
/// key.
KeyRange element_range(Bytes key, Generation generation);
/// Returns the header's key if `key` is the key of an element, otherwise `key` itself. The result points into `key`.
Bytes main_key_of(Bytes key);
/// Returns the range that contains the keys of the elements of all generations, and no other key.
KeyRange element_range(Bytes key);

}  // namespace ebbtide

// The expiry of fields in large hashes: what a header stores about it, and how many fields have not expired.
//
// Readers never see an expired field, since the field's entry has expired (store/collection/large.h). Only the header's count may
// include expired fields. A command that needs the exact count visits the remaining fields with an expiry, by their elements 'x'.
// Writes count again, too, so that a header's count is not wrong for long. If the header has few fields with an expiry, each
// write counts again. If it has many, only a random part of the writes does, so that the average cost stays the same.
#pragma once

#include <cstdint>

#include "dispatch/context.h"
#include "store/collection/large.h"

namespace ebbtide {

/// Returns the FieldExpiries for a header. `hash` has all fields of the hash. nullopt: no field has an expiry.
std::optional<FieldExpiries> expiries_of(const Hash& hash);

/// Returns the exact number of elements of a located large collection. kNotResident as from ElementWalk.
Result<std::uint64_t> live_count(Ctx& ctx, const Found& found, const LargeHeader& header);

/// Updates the header of a large hash for a change of some fields from `before` to `after`. The fields of `before` must be in the
/// hash; fields that are only in `after` must not be. Sets `header->count` to 0 if no field remains. kNotResident as from
/// ElementWalk.
Status note_changed_fields(Ctx& ctx, const Found& old, const Hash& before, const Hash& after, LargeHeader* header);

}  // namespace ebbtide

// The fields of large hashes that expire: what headers store about them, and how many are left.
//
// Readers do not see an expired field, since its entry has expired (store/collection/large.h). Only the header's count is inexact
// once a field has expired. A command that needs the exact count visits the fields with an expiry that are left, by their
// elements 'x'. So that a header does not count many expired fields for long, writes count again at times. If the header has few
// fields with an expiry, each write does; otherwise a random part of the writes, so that the average cost stays the same.
#pragma once

#include <cstdint>

#include "dispatch/context.h"
#include "store/collection/large.h"

namespace ebbtide {

/// Returns what a header stores about expiries. `hash` has all fields of the hash. nullopt if none has an expiry.
std::optional<FieldExpiries> expiries_of(const Hash& hash);

/// Returns the exact number of elements of a located large collection. kNotResident as of ElementWalk.
Result<std::uint64_t> live_count(Ctx& ctx, const Found& found, const LargeHeader& header);

/// Updates the header of a large hash for a change of some fields from `before` to `after`. The fields that `before` has must
/// have been found; those that only `after` has must be absent. Sets `header->count` to 0 if no field is left. kNotResident as of
/// ElementWalk.
Status note_changed_fields(Ctx& ctx, const Found& old, const Hash& before, const Hash& after, LargeHeader* header);

}  // namespace ebbtide

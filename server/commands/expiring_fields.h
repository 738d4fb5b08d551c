// The fields of large hashes that expire: what headers count of them, and how many are left.
//
// Readers do not see an expired field, since its entry has expired (store/collection/large.h). Only the header's count is not exact
// once a field has expired. Commands that need the exact count visit the fields that are left, by their elements 'x'. Commands that
// write count again now and then, so that a header never counts many expired fields for long: always if the header counts few fields
// with an expiry; else with a chance that makes this cost no more for each write.
#pragma once

#include <cstdint>

#include "dispatch/context.h"
#include "store/collection/large.h"

namespace ebbtide {

/// Returns what a header says of these fields, which are all of a hash; nullopt if none has an expiry.
std::optional<FieldExpiries> expiries_of(const Hash& hash);

/// Returns the exact number of elements of a located large collection. kNotResident as of ElementWalk.
Result<std::uint64_t> live_count(Ctx& ctx, const Found& found, const LargeHeader& header);

/// Updates the header of a large hash for a change of some fields from `before` to `after`. The fields that `before` has must have
/// been found; those that only `after` has must be absent. Sets `header->count` to 0 if no field is left. kNotResident as of
/// ElementWalk.
Status note_changed_fields(Ctx& ctx, const Found& old, const Hash& before, const Hash& after, LargeHeader* header);

}  // namespace ebbtide

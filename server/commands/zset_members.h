// What all commands on sorted sets share: scores as arguments, members as replies, and removal of some members.
#pragma once

#include <optional>

#include "dispatch/context.h"
#include "store/zsets.h"

namespace ebbtide {

/// Some members of a sorted set: those at `places` among the members that were read.
struct MembersRead {
  SortedSet members;
  Places places;
};

/// Parses a score or a weight; `error` is the reply to another text.
Result<double> score_argument(Bytes text, const char* error = "ERR value is not a valid float");

/// Replies with the members at `places`, the last one first if `reverse` is set.
Status reply_members(Ctx& ctx, const SortedSet& members, const Places& places, bool reverse, bool with_scores);

/// Removes the members at `places`. Of a large sorted set, `members` are those that were read.
Status remove_places(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, SortedSet members, const Places& places);

}  // namespace ebbtide

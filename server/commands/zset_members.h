// Functions that several commands on sorted sets use: scores as arguments, members as replies, and removal of members.
#pragma once

#include <optional>

#include "dispatch/context.h"
#include "store/zsets.h"

namespace ebbtide {

/// Members of a sorted set that were read, and the indexes (`places`) of those that the command wants.
struct MembersRead {
  SortedSet members;
  Places places;
};

/// Parses a score or a weight. `error` is the reply to any other text.
Result<double> score_argument(Bytes text, const char* error = "ERR value is not a valid float");

/// Replies with the members at `places`; if `reverse` is set, in descending order.
Status reply_members(Ctx& ctx, const SortedSet& members, const Places& places, bool reverse, bool with_scores);

/// Removes the members at `places`. `members`: the members that were read, of a large sorted set only a part.
Status remove_places(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, SortedSet members, const Places& places);

}  // namespace ebbtide

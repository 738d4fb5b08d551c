// Reads ranges of members of a large sorted set (store/collection/large.h), by index, score or name. The cost grows with the
// members that are returned or skipped, not with the sorted set.
//
// The functions with `found` take a located header. Their errors are those of load_elements() (commands/large_access.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "dispatch/context.h"
#include "store/lists.h"
#include "store/zsets.h"

namespace ebbtide {

/// The part of a range of members that a command wants, such as LIMIT.
struct MemberLimit {
  bool from_end = false;  ///< skip and limit count from the end of the range
  std::uint64_t skip = 0, limit = ~std::uint64_t{0};
};

/// The load_members() functions load members into `found`, in the form of a small sorted set. This one loads the members with the
/// indexes `places`, which the sorted set must have.
Status load_members(Ctx& ctx, const Places& places, Found* found);
/// Loads the members in a range of scores.
Status load_members(Ctx& ctx, const ScoreRange& range, const MemberLimit& limit, Found* found);
/// Loads the members in any of several ranges of scores. The ranges must ascend and not overlap.
Status load_members(Ctx& ctx, std::span<const ScoreRange> ranges, Found* found);
/// Loads the members in a range of names. If the sorted set has different scores, loads all members and sets `*all`.
Status load_members(Ctx& ctx, const LexRange& range, const MemberLimit& limit, Found* found, bool* all);

/// Visits the members with these indexes in ascending order, without loading them: for long replies. Errors, also in the middle,
/// are those of load_members().
Status visit_members(Ctx& ctx, const Places& places, const Found& found, const std::function<Status(const ScoredMember&)>& visit);
/// Visits the members in a range of scores. `limit` must not count from the range's end.
Status visit_members(Ctx& ctx, const ScoreRange& range, const MemberLimit& limit, const Found& found,
                     const std::function<Status(const ScoredMember&)>& visit);

/// Return the number of members in a range.
Result<std::uint64_t> count_members(Ctx& ctx, const ScoreRange& range, const Found& found);
/// Returns nullopt if the sorted set has different scores.
Result<std::optional<std::uint64_t>> count_members(Ctx& ctx, const LexRange& range, const Found& found);

/// Returns the score and rank of a member; nullopt: no such member. Visits the members between it and the nearer end.
Result<std::optional<RankedScore>> rank_member(Ctx& ctx, Bytes member, Found* found);

}  // namespace ebbtide

#include "commands/zset_members.h"

#include <utility>

#include "commands/collection_access.h"
#include "store/numbers.h"

namespace ebbtide {

Result<double> score_argument(Bytes text, const char* error) {
  const auto score = parse_double(text);
  if (!score) return reply_error(error);
  return *score;
}

Status reply_members(Ctx& ctx, const SortedSet& members, const Places& places, bool reverse, bool with_scores) {
  reply_pairs_head(ctx.reply, places.size(), with_scores);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ScoredMember& each = members[reverse ? places.end - 1 - i : places.begin + i];
    reply_pair_head(ctx.reply, with_scores);
    ctx.reply.bulk(each.member);
    if (with_scores) ctx.reply.double_(each.score);
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status remove_places(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, SortedSet members, const Places& places) {
  if (places.empty()) return Status::ok();
  const auto begin = members.begin();
  members.erase(begin + static_cast<std::ptrdiff_t>(places.begin), begin + static_cast<std::ptrdiff_t>(places.end));
  return put_changed(ctx, key, old, members, Change::kRemoves);
}

}  // namespace ebbtide

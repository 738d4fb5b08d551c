#include "commands/large_upkeep.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "commands/large_part.h"
#include "dispatch/command_env.h"
#include "dispatch/intents.h"
#include "dispatch/planted_bug.h"

namespace ebbtide {
namespace {

/// Work (Ctx::work) for an element that is written.
constexpr std::uint64_t kWriteWork = 512;

bool field_before(const HashField& a, const HashField& b) { return a.field < b.field; }

/// Returns the members of `all` that are not in `other`. Both are sorted.
SortedSet difference(const SortedSet& all, const SortedSet& other) {
  SortedSet left;
  std::set_difference(all.begin(), all.end(), other.begin(), other.end(), std::back_inserter(left), is_before);
  return left;
}

/// The result of a walk from one end of a sorted set.
struct Edge {
  std::string bound;          ///< bound_of() of the first remaining member; "" if there is none
  std::uint64_t removed = 0;  ///< number of removed members before `bound`
  std::uint64_t dead = 0;     ///< number of dead elements before `bound`
};

Result<Edge> edge_without(Ctx& ctx, const Found& old, const LargeHeader& header, const SortedSet& removed, bool from_end) {
  ElementKeys keys(old.key, header.generation);
  const LargePart part(ctx, old, header);
  ElementWalk walk(ctx, keys, part.in_bounds({.which = ElementClass::kScore, .from_end = from_end, .limit = removed.size() + 1}));
  Edge edge;
  TRY(walk.begin());
  for (; walk.valid() && edge.removed < removed.size(); ++edge.removed) {
    const std::size_t passed = from_end ? removed.size() - 1 - edge.removed : edge.removed;
    if (walk.name() != Bytes(scored_name(removed[passed]))) break;
    TRY(walk.next());
  }
  if (walk.valid()) edge.bound = bound_of(walk.name());
  edge.dead = walk.passed();
  return edge;
}

/// Returns the bound of one end after a change. If `removed` and `added` do not determine it, walks from that end.
Result<Edge> moved_edge(Ctx& ctx, const Found& old, const LargeHeader& header, const SortedSet& removed, const SortedSet& added,
                        bool from_end) {
  const auto end_of = [from_end](const SortedSet& some) { return bound_of(scored_name(from_end ? some.back() : some.front())); };
  Edge edge{.bound = from_end ? header.highest : header.lowest};
  if (edge.bound.empty() || (!removed.empty() && end_of(removed) == edge.bound)) {
    TRY_ASSIGN(left, edge_without(ctx, old, header, removed, from_end));
    edge = std::move(left);
  }
  if (!added.empty()) {
    std::string other = end_of(added);
    if (edge.bound.empty() || (from_end ? other > edge.bound : other < edge.bound)) edge.bound = std::move(other);
  }
  if (edge.bound.empty()) return Status::corruption("the header of a collection counts too many members");
  return edge;
}

/// Moves one bound. If it moves inwards, the dead elements that it passes move from `within` to `outside`. If it moves outwards,
/// all of `outside` moves to `within`, since any of them may lie inside now.
void move_bound(Edge edge, bool outwards, std::string* bound, std::uint64_t* within, std::uint64_t* outside) {
  const std::uint64_t passed = std::min(*within, edge.removed + edge.dead);
  *within -= passed;
  *outside += passed;
  if (outwards) *within += std::exchange(*outside, 0);
  *bound = std::move(edge.bound);
}

}  // namespace

void set_bounds(const SortedSet& members, LargeHeader* header) {
  header->lowest = bound_of(scored_name(members.front()));
  header->highest = bound_of(scored_name(members.back()));
}

// A command either removes or adds fields or members, but not both.
void note_change(const Hash& before, const Hash& after, LargeHeader* header) {
  header->dead += before.size() - std::min(before.size(), after.size());
}

void note_change(const Set& before, const Set& after, LargeHeader* header) {
  header->dead += before.size() - std::min(before.size(), after.size());
}

Status note_change(Ctx& ctx, const Found& old, const SortedSet& before, const SortedSet& after, LargeHeader* header) {
  const SortedSet removed = difference(before, after), added = difference(after, before);
  TRY_ASSIGN(first, moved_edge(ctx, old, *header, removed, added, false));
  TRY_ASSIGN(last, moved_edge(ctx, old, *header, removed, added, true));
  header->dead += removed.size();
  const bool first_outwards = first.bound < header->lowest;
  const bool last_outwards = last.bound > header->highest;
  move_bound(std::move(first), first_outwards, &header->lowest, &header->dead, &header->dead_below);
  move_bound(std::move(last), last_outwards, &header->highest, &header->dead, &header->dead_above);
  return Status::ok();
}

namespace {

/// Returns the elements of `all`, without those of `before` and with those of `after`. All are sorted.
template <typename Elements, typename Before>
Elements changed(const Elements& all, const Elements& before, const Elements& after, Before is_before) {
  Elements kept, result;
  std::set_difference(all.begin(), all.end(), before.begin(), before.end(), std::back_inserter(kept), is_before);
  std::merge(kept.begin(), kept.end(), after.begin(), after.end(), std::back_inserter(result), is_before);
  return result;
}

/// Loads all elements as they are before the change. Returns false if they have too many bytes. `header`: as after the change;
/// its count of dead elements is set to 0 in both cases.
Result<bool> load_all(Ctx& ctx, const Found& old, LargeHeader* header, Found* all) {
  if (ctx.off_loop == nullptr && header->count > kMostRewrittenOnLoop) {
    ctx.firm_marks = true;  // it was removed from often, so other clients would break the marks of each attempt
    return leave_loop(ctx);
  }
  header->dead = header->dead_below = header->dead_above = 0;
  TRY_ASSIGN(before, LargeHeader::decode(old.header.empty() ? old.value : old.header));
  LargePart part(ctx, old, before);
  TRY_ASSIGN(rest, part.walk_some({.which = ordered_class(before.type), .limit = before.count}, kMostRewrittenBytes));
  if (rest) return false;
  if (part.count() != before.count) return Status::corruption("the element count in the header of a collection is wrong");
  *all = old;
  part.give(all);
  return true;
}

template <typename Elements, typename Encode>
Status write_again(Ctx& ctx, const LookupKey& key, const Found& old, const Elements& elements, Change change, LargeHeader header,
                   Encode encoded) {
  const std::size_t bytes = encoded_bytes(elements);
  TRY(ctx.work(bytes + kWriteWork * elements.size()));
  Collections collections = ctx.collections();
  if (fits_compact(elements.size(), bytes)) {
    TRY(ctx.reserve(bytes));
    collections.modify(key, old, encoded(), Change::kRemoves, &ctx.charge);
    return Status::ok();
  }
  TRY(ctx.reserve(bytes + elements.size() * (ElementKeys(key.key, 1).overhead() + sizeof(std::uint64_t))));
  if (!planted(PlantedServerBug::kReuseGeneration)) header.generation = collections.next_generation();
  collections.put_header(key, old, header, change);
  ElementWriter writer = collections.elements(key, header.generation, change);
  for (const auto& element : elements) writer.add(element);
  return Status::ok();
}

}  // namespace

bool may_rewrite(const Ctx& ctx, const LargeHeader& header) {
  return header.count <= kMostRewrittenOnLoop || ctx.off_loop != nullptr || !env_of(ctx).intents->any();
}

Result<bool> rewrite(Ctx& ctx, const LookupKey& key, const Found& old, const Hash& before, const Hash& after, Change change,
                     LargeHeader* header) {
  Found whole;
  TRY_ASSIGN(loaded, load_all(ctx, old, header, &whole));
  if (!loaded) return false;
  TRY_ASSIGN(all, decode_hash(whole.value));
  Hash removed = before, added = after;
  std::sort(removed.begin(), removed.end(), field_before);
  std::sort(added.begin(), added.end(), field_before);
  const Hash fields = changed(all, removed, added, field_before);
  TRY(write_again(ctx, key, old, fields, change, *header, [&] { return encode(fields); }));
  return true;
}

Result<bool> rewrite(Ctx& ctx, const LookupKey& key, const Found& old, const Set& before, const Set& after, Change change,
                     LargeHeader* header) {
  Found whole;
  TRY_ASSIGN(loaded, load_all(ctx, old, header, &whole));
  if (!loaded) return false;
  TRY_ASSIGN(all, decode_set(whole.value));
  const Set members = changed(all, before, after, std::less<Bytes>());
  TRY(write_again(ctx, key, old, members, change, *header, [&] { return encode(CollectionType::kSet, members); }));
  return true;
}

Result<bool> rewrite(Ctx& ctx, const LookupKey& key, const Found& old, const SortedSet& before, const SortedSet& after,
                     Change change, LargeHeader* header) {
  Found whole;
  TRY_ASSIGN(loaded, load_all(ctx, old, header, &whole));
  if (!loaded) return false;
  TRY_ASSIGN(all, decode_sorted_set(whole.value));
  const SortedSet members = changed(all, before, after, is_before);
  TRY(write_again(ctx, key, old, members, change, *header, [&] { return encode(members); }));
  return true;
}

}  // namespace ebbtide

// Keeps walks over a large collection short, however many elements were removed from it.
//
// A removed element is a tombstone until merges drop it, and a walk has to skip it, at a tenth of a microsecond each. So a queue
// with few members and many removed ones would soon be slow. These rules limit that:
// 1. The header of a sorted set names its first and its last member (LargeHeader::lowest, highest). Walks begin there, so members
//   that were popped or expired at one end cost nothing.
// 2. The header counts the dead elements between these bounds, below them, and above them. If a member is added outside of the
//   bounds, the dead elements on that side are added to those between the bounds. At some point these outnumber the live
//   elements by more than kFewDead. The next command that removes an element then rewrites the live elements: as a new
//   generation, or as one entry if they fit. One range tombstone deletes the old generation, and no walk sees it. So a removal
//   costs on average at most the write of one more element. A walk over all elements skips at most as many dead elements as there
//   are live ones, and kFewDead.
// 3. A collection of more than kMostRewrittenOnLoop elements is rewritten off the event loop, and other writers of the key wait
//   for that. So it is rewritten only when kDeadPerLive times as many elements are dead, and by one command at a time. Otherwise
//   each of many clients that remove elements would leave the loop for it.
// 4. Not rewritten are collections of more than kMostRewritten elements, or kMostRewrittenBytes, and hashes that have fields with
//   an expiry.
//
// Bounds are names of members, so old headers must leave the files by the delete deadline, too. Each header that is written when
// a member is removed has a delete debt for the older headers (Collections::put_header).
#pragma once

#include "dispatch/context.h"
#include "store/collections.h"

namespace ebbtide {

/// The most elements that are rewritten on an event loop: this takes about a millisecond, as much as a command may take there.
inline constexpr std::uint64_t kMostRewrittenOnLoop = 1024;
/// The most elements and bytes that are rewritten: about thirty milliseconds, off the loop.
inline constexpr std::uint64_t kMostRewritten = 16'384;
inline constexpr std::size_t kMostRewrittenBytes = std::size_t{1} << 20;
inline constexpr std::uint64_t kDeadPerLive = 4;
/// Skipping this many dead elements takes about ten microseconds.
inline constexpr std::uint64_t kFewDead = 64;

/// Sets the bounds of a sorted set with these members, which are in order; at least one.
void set_bounds(const SortedSet& members, LargeHeader* header);

/// Updates a header's count of dead elements and, for a sorted set, its bounds. `before` and `after`: the changed elements before
/// and after the change, which leaves at least one element. Errors as from ElementWalk.
void note_change(const Hash& before, const Hash& after, LargeHeader* header);
void note_change(const Set& before, const Set& after, LargeHeader* header);
Status note_change(Ctx& ctx, const Found& old, const SortedSet& before, const SortedSet& after, LargeHeader* header);

/// Returns true if so many elements are dead that the collection should be rewritten.
inline bool is_mostly_dead(const LargeHeader& header) {
  const std::uint64_t dead_per_live = header.count <= kMostRewrittenOnLoop ? 1 : kDeadPerLive;
  return header.count <= kMostRewritten && header.dead > dead_per_live * header.count + kFewDead;
}
/// Returns true if this command should rewrite such a collection. Returns false if the command would have to leave its loop for
/// the rewrite while a long write is under way: that may already be the rewrite.
bool may_rewrite(const Ctx& ctx, const LargeHeader& header);
/// Rewrites all elements, with the change, under the expiry and stamp of `old`. `header`: as after the change. Returns false, and
/// writes nothing, if the elements have too many bytes; then `header->dead` is 0, so that the next try is long after. Errors as
/// of load_elements().
Result<bool> rewrite(Ctx& ctx, const LookupKey& key, const Found& old, const Hash& before, const Hash& after, Change change,
                     LargeHeader* header);
Result<bool> rewrite(Ctx& ctx, const LookupKey& key, const Found& old, const Set& before, const Set& after, Change change,
                     LargeHeader* header);
Result<bool> rewrite(Ctx& ctx, const LookupKey& key, const Found& old, const SortedSet& before, const SortedSet& after,
                     Change change, LargeHeader* header);

}  // namespace ebbtide

// Keeps walks over a large collection short, however many elements were removed from it.
//
// A removed element is a tombstone until merges drop it, and a walk passes over it: at a tenth of a microsecond each, a queue of a few
// members would soon be slow. Two things bound that:
//   1. The header of a sorted set names its first and its last member (LargeHeader::lowest, highest). Walks begin there. So what was
//      popped, or expired from one end, costs nothing.
//   2. The header counts the dead elements within the bounds, below and above. If a member is added there, these count as
//      within again. When more elements within are dead than alive, and kFewDead more, the command that removes one writes
//      what is left again: as a new generation, or as one entry if it fits. One range tombstone then deletes the old
//      generation, and no walk sees it. So a removal costs at most the write of one element more, and a walk over all passes over at most
//      as many dead elements as live ones, and kFewDead.
//      More than kMostRewrittenOnLoop elements leave the event loop for that, and other writers of the key wait meanwhile. So these are
//      written again only when kDeadPerLive times as many are dead. More than kMostRewritten elements, or kMostRewrittenBytes, are not
//      written again, nor is a hash with fields that expire, as long as there are any.
//
// Bounds are names of members, so a header is among what must leave the files by the delete deadline: each header that is written
// when a member is removed has a delete debt for the older ones (Collections::put_header).
#pragma once

#include "dispatch/context.h"
#include "store/collections.h"

namespace ebbtide {

/// So many elements are written again in about a millisecond of their event loop, and in the work that a command may do there.
inline constexpr std::uint64_t kMostRewrittenOnLoop = 1024;
/// The most elements and bytes that are written again: about thirty milliseconds, off the loop.
inline constexpr std::uint64_t kMostRewritten = 16'384;
inline constexpr std::size_t kMostRewrittenBytes = std::size_t{1} << 20;
inline constexpr std::uint64_t kDeadPerLive = 4;
/// So many dead elements are passed over in about ten microseconds.
inline constexpr std::uint64_t kFewDead = 64;

/// Sets the bounds of a sorted set that has these members, in order; at least one.
void set_bounds(const SortedSet& members, LargeHeader* header);

/// Updates what a header says of dead elements and, of a sorted set, its bounds. `before` and `after`: some elements before and
/// after the change, which leaves at least one element. Errors as of ElementWalk.
void note_change(const Hash& before, const Hash& after, LargeHeader* header);
void note_change(const Set& before, const Set& after, LargeHeader* header);
Status note_change(Ctx& ctx, const Found& old, const SortedSet& before, const SortedSet& after, LargeHeader* header);

/// Returns true if a collection should be written again.
inline bool is_mostly_dead(const LargeHeader& header) {
  const std::uint64_t dead_per_live = header.count <= kMostRewrittenOnLoop ? 1 : kDeadPerLive;
  return header.count <= kMostRewritten && header.dead > dead_per_live * header.count + kFewDead;
}
/// Writes all elements again, with the change, under the expiry and stamp of `old`. `header`: as after the change. Returns false, and
/// writes nothing, if they are too many bytes; then `header->dead` is 0, so that the next try is long after. Errors as of load_elements().
Result<bool> rewrite(Ctx& ctx, const LookupKey& key, const Found& old, const Hash& before, const Hash& after, Change change,
                     LargeHeader* header);
Result<bool> rewrite(Ctx& ctx, const LookupKey& key, const Found& old, const Set& before, const Set& after, Change change,
                     LargeHeader* header);
Result<bool> rewrite(Ctx& ctx, const LookupKey& key, const Found& old, const SortedSet& before, const SortedSet& after,
                     Change change, LargeHeader* header);

}  // namespace ebbtide

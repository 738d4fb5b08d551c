// Reads and writes collections for commands: counts their bytes as work, charges their memory, and checks their size limit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "commands/large_access.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/collections.h"

namespace ebbtide {

/// For commands that only read: reads the collection at `key`; nullopt if the key is absent. WRONGTYPE for another type. Other
/// errors are those of Strings::get and Ctx::work. `wanted`: the elements that the command needs of a large collection.
Status find_collection(Ctx& ctx, const LookupKey& key, CollectionType type, std::optional<Found>* found,
                       const Wanted& wanted = {});
/// Like find_collection(), for commands that write. Also reserves memory for the elements among the command's arguments.
Status find_collection_for_update(Ctx& ctx, const LookupKey& key, CollectionType type, std::optional<Found>* found,
                                  const Wanted& wanted = {});
/// Like find_collection() and find_collection_for_update(), but reads no element of a large collection.
Status locate_collection(Ctx& ctx, const LookupKey& key, CollectionType type, std::optional<Found>* found);
Status locate_collection_for_update(Ctx& ctx, const LookupKey& key, CollectionType type, std::optional<Found>* found);
/// Locates the entries of several keys, of any type, so that the missing pages of all keys are read together.
Status locate_entries(Ctx& ctx, std::span<const LookupKey> keys, std::vector<std::optional<Found>>* found);
/// The entries of several keys. If a key is named several times, it has one entry here, so that its value is in memory only once.
struct SourceEntries {
  std::vector<std::optional<Found>> found;  ///< the entry of each different key, in the order in which the keys are first named
  std::vector<std::uint32_t> entry_of;      ///< for each key: the index of its entry
};
/// Locates the entries of several keys, of any type, and reserves memory for them. Counts a hit or a miss for each key.
Status locate_sources(Ctx& ctx, std::span<const LookupKey> keys, SourceEntries* sources);
/// Reads a located entry, which must be a collection of that type.
Status read_collection(Ctx& ctx, CollectionType type, Found* found, const Wanted& wanted = {});
/// Reads a located collection of any type as a whole.
Status read_whole(Ctx& ctx, Found* found);

/// Returns the encoding that Redis would use for a located entry. To find it, reads a small collection, and a large hash that
/// Redis might pack.
Result<Bytes> encoding_of(Ctx& ctx, Found* found);

/// Reads the entry from which a command pops, if it exists. WRONGTYPE for another type; if the command has waited for an element,
/// resets `*found` instead, as if the key were absent.
Status read_source(Ctx& ctx, CollectionType type, std::optional<Found>* found);
/// Like read_source(), but reads no element of a large collection.
Status locate_source(Ctx& ctx, CollectionType type, std::optional<Found>* found);
/// Finds the first of the command's keys with a collection of that type, and reads the collection. Sets `*first` to the key's
/// index, or to `found->size()` if there is none.
Status find_first(Ctx& ctx, CollectionType type, std::vector<std::optional<Found>>* found, std::size_t* first);
/// Like find_first(), but reads no element of a large collection.
Status locate_first(Ctx& ctx, CollectionType type, std::vector<std::optional<Found>>* found, std::size_t* first);
/// Parses the timeout of BLPOP and similar commands: argument `place`, in seconds. Returns ms, rounded up; 0: no time limit.
/// Returns nullopt for a command that does not block.
Result<std::optional<std::uint64_t>> wait_argument(const Ctx& ctx, std::size_t place);
/// Ends a command that has found no element. If the command blocks, it waits for one; otherwise it replies null. `timeout_ms`:
/// the result of wait_argument().
void wait_or_reply_null_array(Ctx& ctx, std::optional<std::uint64_t> timeout_ms);

/// Replaces the collection `old`, or creates one. If the new collection is empty, deletes the key.
Status put_changed(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, const Hash& hash, Change change);
Status put_changed(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, const SortedSet& members, Change change);
/// Like put_changed() for a hash, for a set or list.
Status put_changed(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, CollectionType type,
                   const std::vector<Bytes>& items, Change change);

/// For SUNIONSTORE and similar commands: sets the key to their result, which replaces a value of any type, and replies with the
/// number of elements. An empty result deletes the key.
Status store_result(Ctx& ctx, const LookupKey& key, const SortedSet& members);
/// Like store_result() for a sorted set, for a set or list.
Status store_result(Ctx& ctx, const LookupKey& key, CollectionType type, const std::vector<Bytes>& items);

/// Parses a number of at least 1, such as the number of keys. `error` is the reply to any other text.
Result<std::uint64_t> positive_argument(Bytes text, const char* error);

/// Parses the count of LPOP, SPOP, ZPOPMIN and similar commands: 0 or more. As in Redis, the error text for other values says
/// that the count must be positive.
Result<std::uint64_t> pop_count_argument(Bytes text);
/// Parses the number of keys of LMPOP, ZMPOP and their blocking forms. Returns a cursor at the argument after the keys. If that
/// argument is missing, fails.
Result<ArgCursor> after_popped_keys(const Ctx& ctx);
/// Parses the option COUNT at the cursor, the only option of these commands. Returns 1 without it.
Result<std::uint64_t> pop_count_option(ArgCursor& cursor);

/// Returns the number of elements of a located collection. A small collection must have been read. For a hash with expired fields
/// this visits all fields with an expiry (live_count).
Result<std::uint64_t> element_count(Ctx& ctx, const Found& found, CollectionType type);
/// Runs HLEN, SCARD, ZCARD or LLEN.
Status reply_count(Ctx& ctx, CollectionType type);

/// HSCAN, SSCAN, ZSCAN: replies with a whole small collection and cursor 0, or with a part of a large one. `reply_one(match,
/// element)` writes the `items` replies of one element and returns true. If `match` is set and does not match the element, it
/// writes nothing and returns false.
template <typename Element, typename ReplyOne>
Status scan_elements(Ctx& ctx, CollectionType type, std::size_t items, ReplyOne reply_one);

/// Returns `count` different numbers below `size`, ascending; each choice is equally likely. `count` is at most `size`.
std::vector<std::size_t> choose(std::size_t size, std::size_t count, std::uint64_t* random);

/// The options of HRANDFIELD, SRANDMEMBER and ZRANDMEMBER.
struct RandomCount {
  bool given = false;       ///< the command has a count, so the reply is an array; otherwise it is one element or null
  std::uint64_t count = 1;  ///< number of elements to return
  bool repeats = false;     ///< an element may be returned several times
  bool with_values = false;
};
/// Parses these options. `with_values`: the word of the option that asks for values or scores; "": any fourth argument is a
/// syntax error.
Result<RandomCount> parse_random_count(const Ctx& ctx, Bytes with_values);
/// The elements that HRANDFIELD, SRANDMEMBER or ZRANDMEMBER has read, and those chosen among them.
struct RandomChoice {
  std::size_t size = 0;             ///< number of elements that were read
  std::vector<std::size_t> places;  ///< indexes of the chosen elements, ascending; unused if RandomCount::repeats
};
/// Chooses elements of a located collection and reads them: of a small collection all elements, of a large one those that are
/// chosen.
Result<RandomChoice> choose_random(Ctx& ctx, const RandomCount& wanted, CollectionType type, Found* found);
/// Replies with the chosen elements. `reply_one(place)` writes the element with that index among the elements that were read.
template <typename ReplyOne>
Status reply_random(Ctx& ctx, const RandomCount& wanted, const RandomChoice& choice, ReplyOne reply_one);

// --- implementation

/// Work (Ctx::work) for one random element, without the work for its bytes.
inline constexpr std::uint64_t kRandomElementWork = 32;

/// Counts work like Ctx::work(), and fails like it: the decoding of `bytes` of a collection, and operations on `members`. Inside
/// EXEC on a loop, the work is weighted by its running time, since the whole EXEC delays other clients.
inline Status collection_work(Ctx& ctx, std::uint64_t bytes, std::uint64_t members = 0) {
  const bool keeps_loop = ctx.in_exec() && ctx.exec->keys_left != nullptr;
  return ctx.work(keeps_loop ? 4 * bytes + 256 * members : bytes + members);
}

/// Writes the head of an array of elements. If `pairs` is set, each element has a value: pairs are nested arrays in RESP3, flat
/// in RESP2.
inline void reply_pairs_head(Reply& reply, std::size_t count, bool pairs) {
  reply.array(pairs && reply.protocol() == 2 ? count * 2 : count);
}
inline void reply_pair_head(Reply& reply, bool pairs) {
  if (pairs && reply.protocol() == 3) reply.array(2);
}

/// Parses the cursor of HSCAN, SSCAN or ZSCAN, finds the collection, and parses the options, in this order, as Redis does. If the
/// collection is absent, writes the reply. Of a large collection, reads a part and sets `*next_cursor`.
Status begin_element_scan(Ctx& ctx, CollectionType type, std::optional<Found>* found, std::optional<Bytes>* match,
                          std::uint64_t* next_cursor);

template <typename Element, typename ReplyOne>
Status scan_elements(Ctx& ctx, CollectionType type, std::size_t items, ReplyOne reply_one) {
  std::optional<Found> found;
  std::optional<Bytes> match;
  std::uint64_t cursor = 0;
  TRY(begin_element_scan(ctx, type, &found, &match, &cursor));
  if (!found) return Status::ok();
  TRY_ASSIGN(reader, CompactReader::open(found->value, type));
  ctx.reply.array(2);
  ctx.reply.bulk(std::to_string(cursor));
  const std::uint64_t hole = ctx.reply.begin_array();
  std::size_t count = 0;
  for (Element each{}; reader.next(&each);) {
    if (!reply_one(match, each)) continue;
    count += items;
    TRY(ctx.reserve_reply());
  }
  ctx.reply.end_array(hole, count);
  return reader.status();
}

/// Returns a random number below `size`.
std::size_t random_below(std::size_t size, std::uint64_t* random);

template <typename ReplyOne>
Status reply_random(Ctx& ctx, const RandomCount& wanted, const RandomChoice& choice, ReplyOne reply_one) {
  if (!wanted.given) {
    reply_one(choice.places.front());
    return Status::ok();
  }
  if (wanted.repeats) {
    std::uint64_t random = ctx.random;
    reply_pairs_head(ctx.reply, wanted.count, wanted.with_values);
    for (std::uint64_t i = 0; i < wanted.count; ++i) {
      if (ctx.reply.out().overflown()) break;  // the client will be closed
      TRY(ctx.work(kRandomElementWork));
      reply_pair_head(ctx.reply, wanted.with_values);
      reply_one(random_below(choice.size, &random));
      TRY(ctx.reserve_reply());
    }
    return Status::ok();
  }
  reply_pairs_head(ctx.reply, choice.places.size(), wanted.with_values);
  for (const std::size_t place : choice.places) {
    reply_pair_head(ctx.reply, wanted.with_values);
    reply_one(place);
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

}  // namespace ebbtide

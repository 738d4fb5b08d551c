// Lists: LPUSH, LPOP and the other commands on elements. Errors and their order are Redis's.
//
// A small list is one entry, which each write replaces as a whole (store/collections.h). In a large list, a push, a pop or a read
// by index touches only its own elements (commands/large_access.h); LINSERT and LREM rewrite the list. Replacing the value at an
// index (LSET) is not a delete: it leaves no delete debt.
#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/lists_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/lists.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

using End = ListEnd;

/// Reads and decodes the list at a key, for a command that changes it.
Status open(Ctx& ctx, const LookupKey& key, std::optional<Found>* old, List* list) {
  TRY(find_collection_for_update(ctx, key, CollectionType::kList, old));
  if (!*old) return Status::ok();
  TRY_ASSIGN(decoded, decode_list((*old)->value));
  *list = std::move(decoded);
  return Status::ok();
}

/// Reads and decodes the list at the command's key, for a command that only reads. Elements of `list` point into `found`.
Status read_list(Ctx& ctx, std::optional<Found>* found, List* list) {
  TRY(find_collection(ctx, ctx.key(), CollectionType::kList, found));
  if (!*found) return Status::ok();
  TRY_ASSIGN(decoded, decode_list((*found)->value));
  *list = std::move(decoded);
  return Status::ok();
}

Status put(Ctx& ctx, const LookupKey& key, const std::optional<Found>& old, const List& list, Change change) {
  return put_changed(ctx, key, old, CollectionType::kList, list, change);
}

/// Returns the number of elements of a list that was read, or, if it is large, located.
Result<std::size_t> size_of(const Found& found) {
  if (found.kind == EntryKind::kHeader) {
    TRY_ASSIGN(header, header_of(found));
    return static_cast<std::size_t>(header.count);
  }
  TRY_ASSIGN(reader, CompactReader::open(found.value, CollectionType::kList));
  return reader.count();
}

/// Returns the elements with the indexes `places`, which must lie within the list. The list was read, or, if it is large,
/// located.
Result<List> elements_at(Ctx& ctx, const Places& places, Found* found) {
  const bool large = found->kind == EntryKind::kHeader;
  if (places.empty()) return List();
  if (large) TRY(load_list_range(ctx, places.begin, places.end, found));
  TRY_ASSIGN(list, decode_list(found->value));
  if (large) return list;
  const auto begin = list.begin();
  return List(begin + static_cast<std::ptrdiff_t>(places.begin), begin + static_cast<std::ptrdiff_t>(places.end));
}

/// Like open(), but a large list is only located.
Status open_unless_large(Ctx& ctx, const LookupKey& key, std::optional<Found>* old, List* list) {
  TRY(locate_collection_for_update(ctx, key, CollectionType::kList, old));
  if (!*old || is_large(*old)) return Status::ok();
  TRY_ASSIGN(decoded, decode_list((*old)->value));
  *list = std::move(decoded);
  return Status::ok();
}

Status push_generic(Ctx& ctx, End end, bool only_if_present) {
  std::optional<Found> old;
  List list;
  TRY(open_unless_large(ctx, ctx.key(), &old, &list));
  if (only_if_present && !old) {
    ctx.reply.integer(0);
    return Status::ok();
  }
  if (is_large(old)) {
    const std::vector<Bytes> pushed(ctx.args.begin() + 2, ctx.args.end());
    TRY_ASSIGN(size, push_large(ctx, ctx.key(), *old, pushed, end));
    ctx.reply.integer(static_cast<std::int64_t>(size));
    return Status::ok();
  }
  const auto first = ctx.args.begin() + 2, last = ctx.args.end();
  if (end == End::kTail) {
    list.insert(list.end(), first, last);
  } else {
    list.insert(list.begin(), std::make_reverse_iterator(last), std::make_reverse_iterator(first));
  }
  TRY(put(ctx, ctx.key(), old, list, Change::kKeeps));
  ctx.reply.integer(static_cast<std::int64_t>(list.size()));
  return Status::ok();
}

Status lpush(Ctx& ctx) { return push_generic(ctx, End::kHead, false); }
Status rpush(Ctx& ctx) { return push_generic(ctx, End::kTail, false); }
Status lpushx(Ctx& ctx) { return push_generic(ctx, End::kHead, true); }
Status rpushx(Ctx& ctx) { return push_generic(ctx, End::kTail, true); }

/// Takes up to `count` elements from one end, in the order in which they are popped.
List pop(List* list, End end, std::uint64_t count) {
  const auto taken = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(count, list->size()));
  List popped;
  if (end == End::kHead) {
    popped.assign(list->begin(), list->begin() + taken);
    list->erase(list->begin(), list->begin() + taken);
  } else {
    popped.assign(list->rbegin(), list->rbegin() + taken);
    list->erase(list->end() - taken, list->end());
  }
  return popped;
}

/// Takes up to `count` elements from one end of the list at a key, in the order in which they are popped. Takes at least one,
/// unless `count` is 0. `old`: the located or read list, into whose bytes `popped` points.
Status take(Ctx& ctx, const LookupKey& key, std::optional<Found>* old, End end, std::uint64_t count, List* popped) {
  if (is_large(*old)) TRY(load_list_end(ctx, end, count, &**old));
  TRY_ASSIGN(list, decode_list((*old)->value));
  *popped = pop(&list, end, count);
  if (popped->empty()) return Status::ok();
  if (!is_large(*old)) return put_changed(ctx, key, *old, CollectionType::kList, list, Change::kRemoves);
  const std::uint64_t taken = popped->size();
  return trim_large(ctx, key, **old, end == End::kHead ? taken : 0, end == End::kTail ? taken : 0);
}

Status reply_list(Ctx& ctx, const List& list, const Places& places) {
  ctx.reply.array(places.size());
  for (std::size_t i = places.begin; i < places.end; ++i) {
    ctx.reply.bulk(list[i]);
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status pop_generic(Ctx& ctx, End end) {
  if (ctx.argc() > 3) return wrong_arity(ctx.command);
  const bool many = ctx.argc() == 3;
  std::uint64_t count = 1;
  if (many) {
    TRY_ASSIGN(number, pop_count_argument(ctx.arg(2)));
    count = number;
  }
  std::optional<Found> old;
  List popped;
  TRY(locate_collection_for_update(ctx, ctx.key(), CollectionType::kList, &old));
  if (!old) {
    many ? ctx.reply.null_array() : ctx.reply.null();
    return Status::ok();
  }
  TRY(take(ctx, ctx.key(), &old, end, count, &popped));
  if (many) return reply_list(ctx, popped, {0, popped.size()});
  ctx.reply.bulk(popped.front());
  return Status::ok();
}

Status lpop(Ctx& ctx) { return pop_generic(ctx, End::kHead); }
Status rpop(Ctx& ctx) { return pop_generic(ctx, End::kTail); }

/// Parses LEFT or RIGHT.
Result<End> end_argument(Bytes word) {
  if (equal_ignoring_case(word, "RIGHT")) return End::kTail;
  if (equal_ignoring_case(word, "LEFT")) return End::kHead;
  return syntax_error();
}

/// Pops from the first list among the command's keys. Replies with the key and, if `many`, an array of its elements, else one
/// element. If no key has a list, a command with a timeout waits.
Status pop_from_first(Ctx& ctx, End end, std::uint64_t count, bool many, std::optional<std::uint64_t> timeout_ms) {
  std::vector<std::optional<Found>> found;
  std::size_t first = 0;
  TRY(locate_first(ctx, CollectionType::kList, &found, &first));
  if (first == found.size()) {
    wait_or_reply_null_array(ctx, timeout_ms);
    return Status::ok();
  }
  List popped;
  TRY(take(ctx, ctx.key(first), &found[first], end, count, &popped));
  ctx.reply.array(2);
  ctx.reply.bulk(ctx.arg(static_cast<std::size_t>(ctx.command.spec->keys.first) + first));
  if (many) return reply_list(ctx, popped, {0, popped.size()});
  ctx.reply.bulk(popped.front());
  return Status::ok();
}

/// LMPOP and BLMPOP.
Status lmpop(Ctx& ctx) {
  TRY_ASSIGN(cursor, after_popped_keys(ctx));
  TRY_ASSIGN(end, end_argument(cursor.take()));
  TRY_ASSIGN(count, pop_count_option(cursor));
  TRY_ASSIGN(timeout_ms, wait_argument(ctx, 1));
  return pop_from_first(ctx, end, count, true, timeout_ms);
}

Status bpop_generic(Ctx& ctx, End end) {
  TRY_ASSIGN(timeout_ms, wait_argument(ctx, ctx.argc() - 1));
  return pop_from_first(ctx, end, 1, false, timeout_ms);
}

Status blpop(Ctx& ctx) { return bpop_generic(ctx, End::kHead); }
Status brpop(Ctx& ctx) { return bpop_generic(ctx, End::kTail); }

/// Adds an element to the list at a key, which was located or is missing.
Status push_one(Ctx& ctx, const LookupKey& key, std::optional<Found>* old, Bytes element, End end) {
  const Bytes pushed[] = {element};
  if (is_large(*old)) return push_large(ctx, key, **old, pushed, end).status();
  List list;
  if (*old) {
    TRY(read_collection(ctx, CollectionType::kList, &**old));
    TRY_ASSIGN(decoded, decode_list((*old)->value));
    list = std::move(decoded);
  }
  list.insert(end == End::kHead ? list.begin() : list.end(), element);
  return put(ctx, key, *old, list, Change::kKeeps);
}

/// Moves an element between two located lists, at least one of which is large.
Status move_large(Ctx& ctx, std::optional<Found>* source, std::optional<Found>* target, End from, End to) {
  if (*target) TRY(check_collection(**target, CollectionType::kList));
  const bool large = is_large(*source), rotates = ctx.key(0).key == ctx.key(1).key;
  if (large) TRY(load_list_end(ctx, from, 1, &**source));
  TRY_ASSIGN(rest, decode_list((*source)->value));
  const Bytes element = pop(&rest, from, 1).front();
  if (rotates) {
    if (from != to) TRY(rotate_large(ctx, ctx.key(0), **source, element, from));
  } else {  // the target is written first, since its event comes first in Redis
    TRY(push_one(ctx, ctx.key(1), target, element, to));
    TRY(large ? trim_large(ctx, ctx.key(0), **source, from == End::kHead ? 1 : 0, from == End::kTail ? 1 : 0)
              : put(ctx, ctx.key(0), *source, rest, Change::kRemoves));
  }
  ctx.reply.bulk(element);
  return Status::ok();
}

/// Moves an element from the first key's list to the second key's. If the first key is missing, a command with a timeout waits.
Status move_generic(Ctx& ctx, End from, End to, std::optional<std::uint64_t> timeout_ms) {
  std::vector<std::optional<Found>> found;
  TRY(locate_entries(ctx, ctx.keys, &found));
  TRY(locate_source(ctx, CollectionType::kList, &found[0]));
  if (!found[0]) {
    // As in Redis: after a wait without an element the reply is a null array, otherwise a null string.
    if (ctx.has_waited()) {
      wait_or_reply_null_array(ctx, timeout_ms);
    } else if (!timeout_ms || !ctx.wait_for_element(*timeout_ms)) {
      ctx.reply.null();
    }
    return Status::ok();
  }
  if (is_large(found[0]) || is_large(found[1])) return move_large(ctx, &found[0], &found[1], from, to);
  if (found[1]) TRY(read_collection(ctx, CollectionType::kList, &*found[1]));
  TRY_ASSIGN(source, decode_list(found[0]->value));
  const Bytes element = pop(&source, from, 1).front();
  const bool rotates = ctx.key(0).key == ctx.key(1).key;
  List target;
  if (rotates) {
    target = std::move(source);
  } else if (found[1]) {
    TRY_ASSIGN(decoded, decode_list(found[1]->value));
    target = std::move(decoded);
  }
  target.insert(to == End::kHead ? target.begin() : target.end(), element);
  TRY(put(ctx, ctx.key(1), found[1], target, Change::kKeeps));
  if (!rotates) TRY(put(ctx, ctx.key(0), found[0], source, Change::kRemoves));
  ctx.reply.bulk(element);
  return Status::ok();
}

/// LMOVE and BLMOVE.
Status lmove(Ctx& ctx) {
  TRY_ASSIGN(from, end_argument(ctx.arg(3)));
  TRY_ASSIGN(to, end_argument(ctx.arg(4)));
  TRY_ASSIGN(timeout_ms, wait_argument(ctx, 5));
  return move_generic(ctx, from, to, timeout_ms);
}

/// RPOPLPUSH and BRPOPLPUSH.
Status rpoplpush(Ctx& ctx) {
  TRY_ASSIGN(timeout_ms, wait_argument(ctx, 3));
  return move_generic(ctx, End::kTail, End::kHead, timeout_ms);
}

Status llen(Ctx& ctx) { return reply_count(ctx, CollectionType::kList); }

Status lindex(Ctx& ctx) {
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), CollectionType::kList, &found));
  if (!found) {  // as in Redis, the index is not parsed
    ctx.reply.null();
    return Status::ok();
  }
  TRY_ASSIGN(index, integer_argument(ctx.arg(2)));
  TRY_ASSIGN(size, size_of(*found));
  const auto place = place_at(index, size);
  if (!place) {
    ctx.reply.null();
    return Status::ok();
  }
  TRY_ASSIGN(element, elements_at(ctx, {*place, *place + 1}, &*found));
  ctx.reply.bulk(element.front());
  return Status::ok();
}

Status lrange(Ctx& ctx) {
  TRY_ASSIGN(start, integer_argument(ctx.arg(2)));
  TRY_ASSIGN(stop, integer_argument(ctx.arg(3)));
  std::optional<Found> found;
  TRY(locate_collection(ctx, ctx.key(), CollectionType::kList, &found));
  List list;
  if (found) {
    TRY_ASSIGN(size, size_of(*found));
    const Places places = places_between(start, stop, size);
    if (is_large(found) && !places.empty()) {
      ctx.reply.array(places.size());
      return visit_list_range(ctx, places.begin, places.end, *found, [&ctx](Bytes /*position*/, Bytes element) {
        ctx.reply.bulk(element);
        return ctx.reserve_reply();
      });
    }
    TRY_ASSIGN(wanted, elements_at(ctx, places, &*found));
    list = std::move(wanted);
  }
  return reply_list(ctx, list, {0, list.size()});
}

Status lset(Ctx& ctx) {
  std::optional<Found> old;
  List list;
  TRY(open_unless_large(ctx, ctx.key(), &old, &list));
  if (!old) return reply_error("ERR no such key");
  TRY_ASSIGN(index, integer_argument(ctx.arg(2)));
  TRY_ASSIGN(size, size_of(*old));
  const auto place = place_at(index, size);
  if (!place) return reply_error("ERR index out of range");
  if (is_large(old)) {
    TRY(set_large(ctx, ctx.key(), *old, *place, ctx.arg(3)));
    ctx.reply.ok();
    return Status::ok();
  }
  list[*place] = ctx.arg(3);
  TRY(put(ctx, ctx.key(), old, list, Change::kKeeps));
  ctx.reply.ok();
  return Status::ok();
}

Status linsert(Ctx& ctx) {
  const bool behind = equal_ignoring_case(ctx.arg(2), "AFTER");
  if (!behind && !equal_ignoring_case(ctx.arg(2), "BEFORE")) return syntax_error();
  std::optional<Found> old;
  List list;
  TRY(open(ctx, ctx.key(), &old, &list));
  if (!old) {
    ctx.reply.integer(0);
    return Status::ok();
  }
  const auto pivot = std::find(list.begin(), list.end(), ctx.arg(3));
  if (pivot == list.end()) {
    ctx.reply.integer(-1);
    return Status::ok();
  }
  list.insert(behind ? pivot + 1 : pivot, ctx.arg(4));
  TRY(put(ctx, ctx.key(), old, list, Change::kKeeps));
  ctx.reply.integer(static_cast<std::int64_t>(list.size()));
  return Status::ok();
}

Status lrem(Ctx& ctx) {
  TRY_ASSIGN(count, integer_argument(ctx.arg(2)));
  std::optional<Found> old;
  List list;
  TRY(open(ctx, ctx.key(), &old, &list));
  const std::size_t removed = remove_elements(&list, count, ctx.arg(3));
  if (removed != 0) TRY(put(ctx, ctx.key(), old, list, Change::kRemoves));
  ctx.reply.integer(static_cast<std::int64_t>(removed));
  return Status::ok();
}

/// Writes the list even if it does not change. As in Redis, LTRIM always sends an event, and always changes the key for WATCH.
Status ltrim(Ctx& ctx) {
  TRY_ASSIGN(start, integer_argument(ctx.arg(2)));
  TRY_ASSIGN(stop, integer_argument(ctx.arg(3)));
  std::optional<Found> old;
  List list;
  TRY(open_unless_large(ctx, ctx.key(), &old, &list));
  if (is_large(old)) {
    TRY_ASSIGN(size, size_of(*old));
    const Places kept = places_between(start, stop, size);
    TRY(trim_large(ctx, ctx.key(), *old, kept.empty() ? size : kept.begin, kept.empty() ? 0 : size - kept.end));
  } else if (old) {
    const Places kept = places_between(start, stop, list.size());
    const auto begin = list.begin();
    const List rest(begin + static_cast<std::ptrdiff_t>(kept.begin), begin + static_cast<std::ptrdiff_t>(kept.end));
    TRY(put(ctx, ctx.key(), old, rest, rest.size() == list.size() ? Change::kKeeps : Change::kRemoves));
  }
  ctx.reply.ok();
  return Status::ok();
}

struct PositionOptions {
  ListSearch search;
  bool many = false;  ///< COUNT was given, so the reply is an array
};

Result<PositionOptions> parse_positions(const Ctx& ctx) {
  using Int = std::numeric_limits<std::int64_t>;
  PositionOptions options;
  for (ArgCursor cursor(ctx.args, 3); !cursor.done();) {
    Bytes value;
    if (cursor.take_option("RANK", &value)) {
      TRY_ASSIGN(rank, integer_argument_in(value, -Int::max(), Int::max()));
      if (rank == 0) {
        return reply_error(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from "
            "the "
            "end of the list");
      }
      options.search.rank = rank;
    } else if (cursor.take_option("COUNT", &value)) {
      const auto count = parse_integer(value);
      if (!count || *count < 0) return reply_error("ERR COUNT can't be negative");
      options.search.count = static_cast<std::uint64_t>(*count);
      options.many = true;
    } else if (cursor.take_option("MAXLEN", &value)) {
      const auto size = parse_integer(value);
      if (!size || *size < 0) return reply_error("ERR MAXLEN can't be negative");
      options.search.max_size = static_cast<std::uint64_t>(*size);
    } else {
      return syntax_error();
    }
  }
  return options;
}

Status lpos(Ctx& ctx) {
  TRY_ASSIGN(options, parse_positions(ctx));
  std::optional<Found> found;
  List list;
  TRY(read_list(ctx, &found, &list));
  const auto places = find_elements(list, ctx.arg(2), options.search);
  if (!options.many) {
    places.empty() ? ctx.reply.null() : ctx.reply.integer(static_cast<std::int64_t>(places.front()));
    return Status::ok();
  }
  ctx.reply.array(places.size());
  for (const std::size_t place : places) ctx.reply.integer(static_cast<std::int64_t>(place));
  return ctx.reserve_reply();
}

constexpr KeySpec kLmoveKeys[] = {{.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
                                  {.first = 2, .access = KeySpec::kRw | KeySpec::kInsert}};
constexpr KeySpec kRpoplpushKeys[] = {{.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
                                      {.first = 2, .access = KeySpec::kRw | KeySpec::kInsert}};

constexpr CommandSpec kLists[] = {
    {.name = "blmove",
     .arity = exactly(6),
     .keys = {.first = 1, .last = 2, .access = KeySpec::kRw | KeySpec::kAccess},
     .flags = kWrite | kDenyOom | kNoScript | kBlocking,
     .run = lmove,
     .since = "6.2.0",
     .complexity = "O(1). A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Pops an element from a list, pushes it to another list and returns it. Blocks until an element is available "
                "otherwise. Deletes the list if the last element was moved.",
     .group = Group::kList,
     .arguments = kBlmoveArguments,
     .key_specs = kLmoveKeys,
     .event = {.name = "lpop", .letter = 'l', .before_delete = true}},
    {.name = "blmpop",
     .arity = at_least(5),
     .keys = {.first = 3, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete, .count_at = 2},
     .flags = kWrite | kBlocking | kMovableKeys,
     .run = lmpop,
     .since = "7.0.0",
     .complexity = "O(K + N) where K is the number of keys, and N that of popped elements. A list of up to 128 elements is one "
                   "entry, which is read whole.",
     .summary = "Pops the first element from one of multiple lists. Blocks until an element is available otherwise. Deletes the "
                "list if the last element was popped.",
     .group = Group::kList,
     .arguments = kBlmpopArguments,
     .event = {.name = "lpop", .letter = 'l', .before_delete = true}},
    {.name = "blpop",
     .arity = at_least(3),
     .keys = {.first = 1, .last = -2, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
     .flags = kWrite | kNoScript | kBlocking,
     .run = blpop,
     .since = "2.0.0",
     .complexity = "O(K) where K is the number of keys. A list of up to 128 elements is one entry, which is read whole.",
     .summary =
         "Removes and returns the first element in a list. Blocks until an element is available otherwise. Deletes the list "
         "if the last element was popped.",
     .group = Group::kList,
     .arguments = kBlpopArguments,
     .event = {.name = "lpop", .letter = 'l', .before_delete = true}},
    {.name = "brpop",
     .arity = at_least(3),
     .keys = {.first = 1, .last = -2, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
     .flags = kWrite | kNoScript | kBlocking,
     .run = brpop,
     .since = "2.0.0",
     .complexity = "O(K) where K is the number of keys. A list of up to 128 elements is one entry, which is read whole.",
     .summary =
         "Removes and returns the last element in a list. Blocks until an element is available otherwise. Deletes the list "
         "if the last element was popped.",
     .group = Group::kList,
     .arguments = kBrpopArguments,
     .event = {.name = "rpop", .letter = 'l', .before_delete = true}},
    {.name = "brpoplpush",
     .arity = exactly(4),
     .keys = {.first = 1, .last = 2, .access = KeySpec::kRw | KeySpec::kAccess},
     .flags = kWrite | kDenyOom | kNoScript | kBlocking,
     .run = rpoplpush,
     .since = "2.2.0",
     .complexity = "O(1). A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Pops an element from a list, pushes it to another list and returns it. Block until an element is available "
                "otherwise. Deletes the list if the last element was popped.",
     .group = Group::kList,
     .arguments = kBrpoplpushArguments,
     .key_specs = kRpoplpushKeys,
     .event = {.name = "rpop", .letter = 'l', .before_delete = true}},
    {.name = "lindex",
     .arity = exactly(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = lindex,
     .since = "1.0.0",
     .complexity = "O(1). A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Returns an element from a list by its index.",
     .group = Group::kList,
     .arguments = kLindexArguments},
    {.name = "linsert",
     .arity = exactly(5),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kInsert},
     .flags = kWrite | kDenyOom,
     .run = linsert,
     .since = "2.2.0",
     .complexity = "O(N) where N is the size of the list.",
     .summary = "Inserts an element before or after another element in a list.",
     .group = Group::kList,
     .arguments = kLinsertArguments,
     .event = {.name = "linsert", .letter = 'l'}},
    {.name = "llen",
     .arity = exactly(2),
     .keys = {.first = 1, .access = KeySpec::kRo},
     .flags = kReadOnly | kFast,
     .run = llen,
     .since = "1.0.0",
     .complexity = "O(1). A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Returns the length of a list.",
     .group = Group::kList,
     .arguments = kLlenArguments},
    {.name = "lmove",
     .arity = exactly(5),
     .keys = {.first = 1, .last = 2, .access = KeySpec::kRw | KeySpec::kAccess},
     .flags = kWrite | kDenyOom,
     .run = lmove,
     .since = "6.2.0",
     .complexity = "O(1). A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Returns an element after popping it from one list and pushing it to another. Deletes the list if the last "
                "element was moved.",
     .group = Group::kList,
     .arguments = kLmoveArguments,
     .key_specs = kLmoveKeys,
     .event = {.name = "lpop", .letter = 'l', .before_delete = true}},
    {.name = "lmpop",
     .arity = at_least(4),
     .keys = {.first = 2, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete, .count_at = 1},
     .flags = kWrite | kMovableKeys,
     .run = lmpop,
     .since = "7.0.0",
     .complexity = "O(K + N) where K is the number of keys, and N that of popped elements. A list of up to 128 elements is one "
                   "entry, which is read whole.",
     .summary = "Returns multiple elements from a list after removing them. Deletes the list if the last element was popped.",
     .group = Group::kList,
     .arguments = kLmpopArguments,
     .event = {.name = "lpop", .letter = 'l', .before_delete = true}},
    {.name = "lpop",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
     .flags = kWrite | kFast,
     .run = lpop,
     .since = "1.0.0",
     .complexity =
         "O(N) where N is the number of popped elements. A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Returns the first elements in a list after removing it. Deletes the list if the last element was popped.",
     .group = Group::kList,
     .arguments = kLpopArguments,
     .event = {.name = "lpop", .letter = 'l', .before_delete = true}},
    {.name = "lpos",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = lpos,
     .since = "6.0.6",
     .complexity = "O(N) where N is the size of the list.",
     .summary = "Returns the index of matching elements in a list.",
     .group = Group::kList,
     .arguments = kLposArguments},
    {.name = "lpush",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kInsert},
     .flags = kWrite | kDenyOom | kFast,
     .run = lpush,
     .since = "1.0.0",
     .complexity =
         "O(M) where M is the number of pushed elements. A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Prepends one or more elements to a list. Creates the key if it doesn't exist.",
     .group = Group::kList,
     .arguments = kLpushArguments,
     .event = {.name = "lpush", .letter = 'l'}},
    {.name = "lpushx",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kInsert},
     .flags = kWrite | kDenyOom | kFast,
     .run = lpushx,
     .since = "2.2.0",
     .complexity =
         "O(M) where M is the number of pushed elements. A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Prepends one or more elements to a list only when the list exists.",
     .group = Group::kList,
     .arguments = kLpushxArguments,
     .event = {.name = "lpush", .letter = 'l'}},
    {.name = "lrange",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess},
     .flags = kReadOnly,
     .run = lrange,
     .since = "1.0.0",
     .complexity =
         "O(N) where N is the number of returned elements. A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Returns a range of elements from a list.",
     .group = Group::kList,
     .arguments = kLrangeArguments},
    {.name = "lrem",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kDelete},
     .flags = kWrite,
     .run = lrem,
     .since = "1.0.0",
     .complexity = "O(N) where N is the size of the list.",
     .summary = "Removes elements from a list. Deletes the list if the last element was removed.",
     .group = Group::kList,
     .arguments = kLremArguments,
     .event = {.name = "lrem", .letter = 'l', .before_delete = true}},
    {.name = "lset",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kUpdate},
     .flags = kWrite | kDenyOom,
     .run = lset,
     .since = "1.0.0",
     .complexity = "O(1). A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Sets the value of an element in a list by its index.",
     .group = Group::kList,
     .arguments = kLsetArguments,
     .event = {.name = "lset", .letter = 'l'}},
    {.name = "ltrim",
     .arity = exactly(4),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kDelete},
     .flags = kWrite,
     .run = ltrim,
     .since = "1.0.0",
     .complexity =
         "O(1), and O(N) for up to 16 removed elements. A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Removes elements from both ends a list. Deletes the list if all elements were trimmed.",
     .group = Group::kList,
     .arguments = kLtrimArguments,
     .event = {.name = "ltrim", .letter = 'l', .before_delete = true}},
    {.name = "rpop",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kAccess | KeySpec::kDelete},
     .flags = kWrite | kFast,
     .run = rpop,
     .since = "1.0.0",
     .complexity =
         "O(N) where N is the number of popped elements. A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Returns and removes the last elements of a list. Deletes the list if the last element was popped.",
     .group = Group::kList,
     .arguments = kRpopArguments,
     .event = {.name = "rpop", .letter = 'l', .before_delete = true}},
    {.name = "rpoplpush",
     .arity = exactly(3),
     .keys = {.first = 1, .last = 2, .access = KeySpec::kRw | KeySpec::kAccess},
     .flags = kWrite | kDenyOom,
     .run = rpoplpush,
     .since = "1.2.0",
     .complexity = "O(1). A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Returns the last element of a list after removing and pushing it to another list. Deletes the list if the last "
                "element was popped.",
     .group = Group::kList,
     .arguments = kRpoplpushArguments,
     .key_specs = kRpoplpushKeys,
     .event = {.name = "rpop", .letter = 'l', .before_delete = true}},
    {.name = "rpush",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kInsert},
     .flags = kWrite | kDenyOom | kFast,
     .run = rpush,
     .since = "1.0.0",
     .complexity =
         "O(M) where M is the number of pushed elements. A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Appends one or more elements to a list. Creates the key if it doesn't exist.",
     .group = Group::kList,
     .arguments = kRpushArguments,
     .event = {.name = "rpush", .letter = 'l'}},
    {.name = "rpushx",
     .arity = at_least(3),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kInsert},
     .flags = kWrite | kDenyOom | kFast,
     .run = rpushx,
     .since = "2.2.0",
     .complexity =
         "O(M) where M is the number of pushed elements. A list of up to 128 elements is one entry, which is read whole.",
     .summary = "Appends an element to a list only when the list exists.",
     .group = Group::kList,
     .arguments = kRpushxArguments,
     .event = {.name = "rpush", .letter = 'l'}},
};

}  // namespace

std::span<const CommandSpec> list_commands() { return kLists; }

}  // namespace ebbtide

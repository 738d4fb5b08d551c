// SORT and SORT_RO: sort the elements of a list, set or sorted set, by themselves or by values of other keys. Errors and their
// order are Redis's.
//
//   SORT people BY age:* LIMIT 0 10 GET name:* GET address:*->city STORE oldest
//
// The patterns of BY and GET make keys from elements, so these keys are unknown until the command runs:
//   1. All reads of a SORT use one view, so the result is of one moment.
//   2. With STORE, nothing that SORT has read may change before its commit. On a loop, it holds all locks. Off the loop, it marks
//      its whole database, and after a conflict only the keys that it has read (dispatch/intents.h, long_write.h).
//   3. All keys of an option are looked up before any of their values is used, so that their missing pages are read together.
//   4. A command with many look-ups or elements leaves its loop.
//   5. A user needs the right to read all keys (denied_pattern_option in permissions.h).
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/sort_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "dispatch/growing_charge.h"
#include "dispatch/permissions.h"
#include "resp/gathered_memory.h"
#include "store/hashes.h"
#include "store/key_codec.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// Work (Ctx::work), in bytes: for a look-up, without the value's bytes; for an element; for a comparison; for a value of the
/// result.
constexpr std::uint64_t kLookupWork = 256, kElementWork = 64, kCompareWork = 8, kValueWork = 16;
/// A command with more look-ups runs on a thread for long work.
constexpr std::uint64_t kShortLookups = 64 << 10;

/// A pattern of BY or GET. It makes a key of prefix, element and suffix. A pattern without a * names no key. `field`: the field
/// of a hash to read, if given.
struct Pattern {
  bool has_star = false, is_element = false;
  Bytes prefix, suffix;
  std::optional<Bytes> field;
};

/// As in Redis: * and -> are not recognized after a zero byte. "->" at the end belongs to the key. "#" is the element itself.
Pattern parse_pattern(Bytes text) {
  Pattern pattern;
  const Bytes searched = shown(text, Bytes::npos);
  const std::size_t star = searched.find('*');
  pattern.is_element = searched == "#";
  pattern.has_star = !pattern.is_element && star != Bytes::npos;
  if (!pattern.has_star) return pattern;
  pattern.prefix = text.substr(0, star);
  pattern.suffix = text.substr(star + 1);
  const std::size_t arrow = searched.find("->", star + 1);
  if (arrow == Bytes::npos || arrow + 2 >= searched.size()) return pattern;
  pattern.suffix = text.substr(star + 1, arrow - star - 1);
  pattern.field = text.substr(arrow + 2);
  return pattern;
}

struct SortRequest {
  std::optional<Pattern> by;  ///< the pattern of BY, if it has a *
  bool sorts = true;          ///< false: BY without a * says that the result needs no order
  bool alpha = false, descending = false;
  std::int64_t offset = 0, count = -1;
  std::vector<Pattern> gets;
  bool stores = false;

  [[nodiscard]] std::uint64_t values_of_element() const { return std::max<std::size_t>(gets.size(), 1); }
};

/// Fails if the session's user may not read all keys, since the option (BY or GET) may read any key. The check takes time for
/// each argument, so it is called once.
Status check_patterns_right(Ctx& ctx, Bytes option) {
  if ((ctx.session.modes & Session::kChecked) == 0) return Status::ok();
  const User& user = rights_of(ctx.session, ctx.server());
  AclBudget budget = check_budget(ctx);
  const std::optional<Bytes> denied = denied_pattern_option(user, ctx.command, ctx.args.list, budget);
  TRY(note_check(ctx, budget, denied.has_value()));
  if (denied->empty()) return Status::ok();
  return reply_error("ERR " + denied_pattern_text(option));
}

Status parse_sort(Ctx& ctx, SortRequest* request) {
  TRY(ctx.reserve(ctx.argc() / 2 * sizeof(Pattern)));
  std::uint64_t searched = 0;  // bytes of long patterns, whose search counts as work
  for (const SharedArg& arg : ctx.args.shared_list) searched += arg.value->size();
  TRY(ctx.work(searched));
  bool may_read_all = false;  // checked once, since all patterns need the same right
  const auto check_right = [&](Bytes option) -> Status {
    if (!may_read_all) TRY(check_patterns_right(ctx, option));
    may_read_all = true;
    return Status::ok();
  };
  for (ArgCursor cursor(ctx.args, 2); !cursor.done();) {
    Bytes value;
    if (cursor.take_word("ASC")) {
      request->descending = false;
    } else if (cursor.take_word("DESC")) {
      request->descending = true;
    } else if (cursor.take_word("ALPHA")) {
      request->alpha = true;
    } else if (cursor.left() >= 3 && cursor.take_option("LIMIT", &value)) {
      TRY_ASSIGN(offset, integer_argument(value));
      TRY_ASSIGN(count, integer_argument(cursor.take()));
      request->offset = offset;
      request->count = count;
    } else if (ctx.command.spec->keys.has_store && cursor.take_option("STORE", &value)) {
      request->stores = true;
    } else if (cursor.take_option("BY", &value)) {
      const Pattern pattern = parse_pattern(value);
      // After a BY without a *, no later BY sorts. As in Redis, the pattern of a later BY is still checked.
      if (shown(value, Bytes::npos).find('*') == Bytes::npos) {
        request->sorts = false;
      } else {
        TRY(check_right("BY"));
      }
      request->by = pattern;
    } else if (cursor.take_option("GET", &value)) {
      TRY(check_right("GET"));
      request->gets.push_back(parse_pattern(value));
    } else {
      return syntax_error();
    }
  }
  return Status::ok();
}

/// The value that a pattern has found. `found` owns its bytes, and is empty if the value is the element itself.
struct PatternValue {
  std::optional<Found> found;
  std::optional<Bytes> bytes;  ///< nullopt: the key is missing, has another type, or lacks the field
};

/// Looks up keys that patterns make from elements.
class PatternReader {
 public:
  PatternReader(Ctx& ctx, bool stores) : ctx_(ctx), stores_(stores), strings_(ctx.strings()) {}

  /// Finds the value of an element. If its page is not in memory, `value` is empty, and resident() returns false from then on.
  /// The caller then continues with other elements, so that all missing pages are read together.
  Status find(const Pattern& pattern, Bytes element, PatternValue* value) {
    value->bytes.reset();
    if (pattern.is_element) value->bytes = element;
    if (!pattern.has_star || !make_key(pattern, element)) return Status::ok();
    TRY(ctx_.work(key_.size()));
    const LookupKey key{key_, hash_key(key_)};
    ctx_.note_also_read(key);
    if (!note(stores_ ? strings_.locate_any_for_update(key, &value->found) : strings_.locate_any(key, &value->found)))
      return status_;
    if (stores_) ++(value->found ? ctx_.counts.hits : ctx_.counts.misses);
    if (!value->found) return Status::ok();
    Found& found = *value->found;
    if (pattern.field.has_value() != is_collection(found.kind)) return Status::ok();
    if (found.kind == EntryKind::kHeader) {
      if (collection_type_of(found.value) != CollectionType::kHash) return Status::ok();
      if (!note(load_element(ctx_, CollectionType::kHash, *pattern.field, &found))) return status_;
    }
    if (found.kind != EntryKind::kHeader && (pattern.field || found.large.table != nullptr)) TRY(ctx_.work(found.length));
    if (!note(strings_.read(&found))) return status_;
    if (!pattern.field) {
      value->bytes = found.value;
    } else if (collection_type_of(found.value) == CollectionType::kHash) {
      TRY_ASSIGN(field, find_field(found.value, *pattern.field));
      value->bytes = field;
    }
    return Status::ok();
  }
  [[nodiscard]] bool resident() const { return resident_; }

 private:
  /// Builds the engine key in key_. Returns false if the result is longer than any key.
  bool make_key(const Pattern& pattern, Bytes element) {
    if (pattern.prefix.size() + element.size() + pattern.suffix.size() > kMaxKeyBytes) return false;
    key_.assign(pattern.prefix).append(element).append(pattern.suffix);
    if (needs_escape(key_)) key_ = escaped_key(key_);
    return key_.size() <= kMaxKeyBytes;
  }
  /// Keeps the result of a read. Returns false if `read` is not OK. find() then returns status_: the error, or OK if only a page
  /// is not in memory; resident() is false then.
  bool note(Status read) {
    resident_ &= !read.is_not_resident();
    const bool succeeded = read.is_ok();
    status_ = read.is_not_resident() ? Status::ok() : std::move(read);
    return succeeded;
  }

  Ctx& ctx_;
  const bool stores_;
  Strings strings_;
  std::string key_;
  Status status_;
  bool resident_ = true;
};

/// Keeps found values in memory until the command ends.
class KeptValues {
 public:
  explicit KeptValues(Ctx& ctx) : charge_(ctx) {}
  Status keep(const PatternValue& value, Bytes* kept) {
    *kept = *value.bytes;
    if (!value.found) return Status::ok();  // the bytes belong to the source, which stays in memory
    if (value.found->kind == EntryKind::kValue && value.found->pin != nullptr && kept->size() > kLargeValueBytes) {
      TRY(charge_.add(sizeof(pins_[0])));  // charges the entry in pins_; the large value has its own charge
      pins_.push_back(value.found->pin);
      return Status::ok();
    }
    TRY(charge_.add(kept->size()));
    *kept = memory_.copy(*kept);
    return Status::ok();
  }

 private:
  GrowingCharge charge_;
  GatheredMemory memory_;
  std::vector<std::shared_ptr<const void>> pins_;
};

/// Parses scores as SORT does in Redis, with strtod, up to the end of the text or a zero byte. A score must be within the range
/// of a double, and not NaN.
class ScoreParser {
 public:
  explicit ScoreParser(Ctx& ctx) : charge_(ctx) {}
  /// Sets `*score` to the number, or to nullopt if SORT does not accept the text as a number.
  Status parse(Bytes text, std::optional<double>* score) {
    const auto integer = parse_integer(text);
    if (integer) {
      *score = static_cast<double>(*integer);
      return Status::ok();
    }
    text = shown(text, Bytes::npos);
    if (text.size() > buffer_.capacity()) TRY(charge_.add(text.size() - buffer_.capacity()));
    buffer_.assign(text);
    char* end = nullptr;
    errno = 0;
    const double value = std::strtod(buffer_.c_str(), &end);
    score->reset();
    if (*end == '\0' && errno != ERANGE && !std::isnan(value)) *score = value;
    return Status::ok();
  }

 private:
  GrowingCharge charge_;
  std::string buffer_;
};

struct SortItem {
  Bytes element;
  double score = 0;   ///< the sort key without ALPHA
  Bytes weight = {};  ///< the sort key with ALPHA: the element, or the value of BY
  bool has_weight = true;
};

/// Returns true if `a` comes before `b` in ascending order.
bool sorts_before(const SortItem& a, const SortItem& b, bool alpha) {
  if (!alpha) return a.score != b.score ? a.score < b.score : a.element < b.element;
  if (!a.has_weight || !b.has_weight) return !a.has_weight && b.has_weight;
  return a.weight < b.weight;
}

/// The sorted elements, and the owners of their bytes.
struct Sorting {
  explicit Sorting(Ctx& ctx) : kept(ctx) {}
  std::optional<Found> source;
  std::vector<SortItem> items;
  std::size_t begin = 0, end = 0;  ///< the range of items that the result has
  KeptValues kept;
};

template <typename Element>
Status read_items(CompactReader reader, std::vector<SortItem>* items) {
  items->reserve(reader.count());
  for (Element each{}; reader.next(&each);) {
    if constexpr (std::is_same_v<Element, ScoredMember>) {
      items->push_back({.element = each.member});
    } else {
      items->push_back({.element = each});
    }
  }
  return reader.status();
}

/// Reads the elements. As in Redis, the result of a set is sorted before it is stored, even if no order was requested: sets
/// `request` so.
Status read_source_items(Ctx& ctx, SortRequest* request, Sorting* sorting) {
  if (request->stores) {
    std::vector<std::optional<Found>> found;
    TRY(locate_entries(ctx, ctx.keys, &found));
    sorting->source = std::move(found[0]);
    ++(sorting->source ? ctx.counts.hits : ctx.counts.misses);
  } else {
    TRY(ctx.strings().locate_any(ctx.key(), &sorting->source));
  }
  if (!sorting->source) return Status::ok();
  Found& source = *sorting->source;
  if (!is_collection(source.kind)) return wrong_type();
  TRY(read_whole(ctx, &source));
  const auto type = collection_type_of(source.value);
  if (type == CollectionType::kHash) return wrong_type();
  TRY_ASSIGN(reader, CompactReader::open(source.value, type.value_or(CollectionType::kList)));
  TRY(ctx.reserve(2 * reader.count() * sizeof(SortItem)));  // doubled, since std::stable_sort takes as much again
  if (type == CollectionType::kSet && !request->sorts && request->stores) {
    request->sorts = request->alpha = true;
    request->by.reset();
  }
  return type == CollectionType::kSortedSet ? read_items<ScoredMember>(reader, &sorting->items)
                                            : read_items<Bytes>(reader, &sorting->items);
}

void choose_range(const SortRequest& request, Sorting* sorting) {
  const auto size = static_cast<std::int64_t>(sorting->items.size());
  const std::int64_t begin = std::clamp<std::int64_t>(request.offset, 0, size);
  const std::int64_t end = request.count < 0 ? size : std::min(size, begin + std::min(request.count, size));
  sorting->begin = static_cast<std::size_t>(begin);
  sorting->end = static_cast<std::size_t>(std::max(begin, end));
}

/// Computes the sort key of each item: its score, or its weight with ALPHA.
Status weigh(Ctx& ctx, const SortRequest& request, PatternReader* reader, Sorting* sorting) {
  ScoreParser scores(ctx);
  PatternValue value;
  bool all_numbers = true;
  for (SortItem& item : sorting->items) {
    value.bytes = item.element;
    if (request.by) {
      TRY(reader->find(*request.by, item.element, &value));
      if (!reader->resident()) continue;
      item.has_weight = value.bytes.has_value();
      if (!item.has_weight) continue;
      TRY(ctx.work(value.bytes->size()));
    }
    if (request.alpha) {
      if (!request.by) {
        item.weight = item.element;
      } else {
        TRY(sorting->kept.keep(value, &item.weight));
      }
      continue;
    }
    std::optional<double> score;
    TRY(scores.parse(*value.bytes, &score));
    all_numbers &= score.has_value();
    item.score = score.value_or(0);
  }
  if (!reader->resident()) return Status::not_resident();
  return all_numbers ? Status::ok() : reply_error("ERR One or more scores can't be converted into double");
}

Status sort_items(Ctx& ctx, const SortRequest& request, PatternReader* reader, Sorting* sorting) {
  std::vector<SortItem>& items = sorting->items;
  if (!request.sorts) {
    // The order of a list or sorted set can be reversed without sorting; a set has no order.
    const bool is_set = sorting->source && collection_type_of(sorting->source->value) == CollectionType::kSet;
    if (request.descending && !is_set) std::reverse(items.begin(), items.end());
    return Status::ok();
  }
  TRY(weigh(ctx, request, reader, sorting));
  // Items with equal sort keys keep their order, even in a descending result.
  std::stable_sort(items.begin(), items.end(), [&request](const SortItem& a, const SortItem& b) {
    return request.descending ? sorts_before(b, a, request.alpha) : sorts_before(a, b, request.alpha);
  });
  return Status::ok();
}

/// Calls `visit(value)` for each value of the result.
template <typename Visit>
Status visit_values(Ctx& ctx, const SortRequest& request, PatternReader* reader, const Sorting& sorting, Visit visit) {
  PatternValue value;
  for (std::size_t i = sorting.begin; i < sorting.end; ++i) {
    if (request.gets.empty()) {
      value.bytes = sorting.items[i].element;
      TRY(visit(value));
    }
    for (const Pattern& pattern : request.gets) {
      if (ctx.reply.out().overflown()) return Status::ok();  // the client will be closed
      TRY(ctx.work(0));
      TRY(reader->find(pattern, sorting.items[i].element, &value));
      if (reader->resident()) TRY(visit(value));
    }
  }
  return reader->resident() ? Status::ok() : Status::not_resident();
}

Status reply_values(Ctx& ctx, const SortRequest& request, PatternReader* reader, const Sorting& sorting) {
  ctx.reply.array((sorting.end - sorting.begin) * request.values_of_element());
  return visit_values(ctx, request, reader, sorting, [&ctx](const PatternValue& value) {
    if (!value.bytes) {
      ctx.reply.null();
    } else if (value.found && value.found->kind == EntryKind::kValue && value.bytes->size() > kLargeValueBytes) {
      ctx.reply.bulk_shared(value.found->pin, *value.bytes);
    } else {
      TRY(ctx.work(value.bytes->size()));
      ctx.reply.bulk(*value.bytes);
    }
    return ctx.reserve_reply();
  });
}

Status store_values(Ctx& ctx, const SortRequest& request, PatternReader* reader, Sorting* sorting) {
  std::vector<Bytes> values;
  std::uint64_t bytes = 0;
  TRY(visit_values(ctx, request, reader, *sorting, [&](const PatternValue& value) {
    bytes += value.bytes.value_or(Bytes()).size();
    TRY(check_built_size(values.size() + 1, bytes));
    values.emplace_back();
    return value.bytes ? sorting->kept.keep(value, &values.back()) : Status::ok();
  }));
  return store_result(ctx, ctx.key(1), CollectionType::kList, values);
}

/// Passes the estimated work of the sort to Ctx::work() before the sort begins. kNotResident: the command is too long for this
/// thread, and dispatch runs it again on another.
Status announce_work(Ctx& ctx, const SortRequest& request, const Sorting& sorting) {
  const std::size_t size = sorting.items.size(), chosen = sorting.end - sorting.begin;
  const auto of_keys = std::count_if(request.gets.begin(), request.gets.end(), [](const Pattern& p) { return p.has_star; });
  const std::uint64_t weighed = request.sorts && request.by ? size : 0;
  const std::uint64_t lookups = weighed + chosen * static_cast<std::uint64_t>(of_keys);
  const std::uint64_t comparisons = request.sorts ? size * static_cast<std::uint64_t>(std::bit_width(size)) : 0;
  TRY(collection_work(ctx, 0, size * kElementWork + comparisons * kCompareWork));
  TRY(ctx.work(lookups * kLookupWork + chosen * request.values_of_element() * kValueWork));
  return lookups > kShortLookups ? ctx.go_on_for_long() : Status::ok();
}

Status sort(Ctx& ctx) {
  SortRequest request;
  TRY(parse_sort(ctx, &request));
  Sorting sorting(ctx);
  TRY(read_source_items(ctx, &request, &sorting));
  choose_range(request, &sorting);
  if (request.stores) TRY(check_built_size((sorting.end - sorting.begin) * request.values_of_element(), 0));
  TRY(announce_work(ctx, request, sorting));
  PatternReader reader(ctx, request.stores);
  TRY(sort_items(ctx, request, &reader, &sorting));
  return request.stores ? store_values(ctx, request, &reader, &sorting) : reply_values(ctx, request, &reader, sorting);
}

constexpr Bytes kSortComplexity =
    "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the "
    "elements are not sorted, complexity is O(N).";
constexpr KeySpec kSortSource = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess};
constexpr KeySpec kSortPatterns = {.access = KeySpec::kRo | KeySpec::kAccess,
                                   .notes =
                                       "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive "
                                       "from the content of the key we sort"};
constexpr KeySpec kSortKeys[] = {
    kSortSource,
    kSortPatterns,
    {.access = KeySpec::kOw | KeySpec::kUpdate,
     .notes = "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear "
              "anywhere in the argument array"}};
constexpr KeySpec kSortRoKeys[] = {kSortSource, kSortPatterns};

constexpr CommandSpec kSort[] = {
    {.name = "sort",
     .arity = at_least(2),
     .keys = {.first = 1, .access = KeySpec::kRo | KeySpec::kAccess, .has_store = true},
     .flags = kWrite | kDenyOom | kMovableKeys | kDangerous,
     .run = sort,
     .since = "1.0.0",
     .complexity = kSortComplexity,
     .summary = "Sorts the elements in a list, a set, or a sorted set, optionally storing the result.",
     .group = Group::kGeneric,
     .arguments = kSortArguments,
     .extra_acl = "@set @sortedset @list",
     .key_specs = kSortKeys,
     .scope = KeyScope::kPatterns,
     .event = {.name = "sortstore", .letter = 'l'}},
    {.name = "sort_ro",
     .arity = at_least(2),
     .keys = kSortSource,
     .flags = kReadOnly | kMovableKeys | kDangerous,
     .run = sort,
     .since = "7.0.0",
     .complexity = kSortComplexity,
     .summary = "Returns the sorted elements of a list, a set, or a sorted set.",
     .group = Group::kGeneric,
     .arguments = std::span(kSortArguments).first(std::size(kSortArguments) - 1),
     .extra_acl = "@set @sortedset @list",
     .key_specs = kSortRoKeys,
     .scope = KeyScope::kPatterns},
};

}  // namespace

std::span<const CommandSpec> sort_commands() { return kSort; }

}  // namespace ebbtide

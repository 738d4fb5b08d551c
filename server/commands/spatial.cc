// SPATIAL.*: indexes over places. A place is the longitude and latitude in two fields of a hash. The engine searches the indexes
// (engine/spatial.h). Functions that INDEX.* also uses are in commands/index_access.h.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <engine/db.h>
#include <engine/spatial.h>

#include "commands/families.h"
#include "commands/index_access.h"
#include "commands/policy_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "index/index_catalog.h"
#include "index/record_values.h"
#include "store/geo.h"
#include "store/key_codec.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

using Type = ArgDoc::Type;

constexpr std::uint64_t kUsualCount = 1000;
/// A search checks if the command was cancelled after at most this many entries.
constexpr std::uint64_t kStepsAtOnce = 10'000;

// --- definitions

Result<IndexKind> kind_argument(Bytes comparator) {
  if (equal_ignoring_case(comparator, "hilbert")) return IndexKind::kHilbertPlace;
  if (equal_ignoring_case(comparator, "zorder")) return IndexKind::kZOrderPlace;
  if (equal_ignoring_case(comparator, "simple")) return IndexKind::kSimplePlace;
  return reply_error("ERR unknown comparator. It is hilbert, zorder or simple");
}

const char* comparator_of(IndexKind kind) {
  switch (*place_order(kind)) {
    case PlaceOrder::kHilbert:
      return "hilbert";
    case PlaceOrder::kZOrder:
      return "zorder";
    case PlaceOrder::kSimple:
      return "simple";
  }
  return "";
}

Result<IndexDefinition> find_places(const Ctx& ctx, Bytes name) {
  TRY_ASSIGN(index, find_index(ctx, name));
  if (!place_order(index.kind)) return reply_error("ERR '" + index.name + "' is no index of places: use INDEX.RANGE");
  return index;
}

Status create(Ctx& ctx) {
  IndexDefinition definition;
  TRY(check_index_name(ctx.arg(1)));
  definition.name = ctx.arg(1);
  definition.kind = IndexKind::kHilbertPlace;
  std::optional<Bytes> prefix, lon, lat, comparator, policy;
  ArgCursor cursor(ctx.args, 2);
  while (!cursor.done()) {
    Bytes value;
    std::optional<Bytes>* option = nullptr;
    if (cursor.take_option("PREFIX", &value)) {
      option = &prefix;
    } else if (cursor.take_option("LON", &value)) {
      option = &lon;
    } else if (cursor.take_option("LAT", &value)) {
      option = &lat;
    } else if (cursor.take_option("COMPARATOR", &value)) {
      option = &comparator;
      TRY_ASSIGN(kind, kind_argument(value));
      definition.kind = kind;
    } else if (cursor.take_option("POLICY", &value)) {
      option = &policy;
      TRY_ASSIGN(parsed, policy_argument(value, &cursor));
      definition.policy = std::move(parsed);
    }
    if (option == nullptr || *option) return syntax_error();
    *option = value;
  }
  if (!prefix || !lon || !lat) return syntax_error();
  for (const Bytes text : {*prefix, *lon, *lat}) TRY(check_index_text(text));
  definition.prefix = escaped_key(*prefix);
  definition.source = place_source(*lon, *lat);
  return create_index(ctx, std::move(definition));
}

Status drop(Ctx& ctx) {
  TRY(find_places(ctx, ctx.arg(1)).status());
  return drop_index(ctx);
}

Status list(Ctx& ctx) {
  const auto indexes = env_of(ctx).indexes->of(ctx.session.database);
  std::vector<Bytes> names;
  for (const auto& [name, index] : *indexes) {
    if (place_order(index.kind)) names.push_back(name);
  }
  ctx.reply.array(names.size());
  for (const Bytes name : names) ctx.reply.bulk(name);
  return Status::ok();
}

Status info(Ctx& ctx) {
  TRY_ASSIGN(index, find_places(ctx, ctx.arg(1)));
  return describe_index(ctx, index, 3, [&] {
    const PlaceFields fields = place_fields(index.source);
    ctx.reply.bulk("lon");
    ctx.reply.bulk(fields.lon);
    ctx.reply.bulk("lat");
    ctx.reply.bulk(fields.lat);
    ctx.reply.bulk("comparator");
    ctx.reply.bulk(comparator_of(index.kind));
  });
}

// --- searches

struct Search {
  std::optional<PlaceShape> shape;
  std::optional<std::uint64_t> nearest;  ///< NEAREST: the number of records to find, around the shape's center
  double unit = 1;                       ///< the unit of distances in the reply, in meters
  std::uint64_t count = kUsualCount;
  std::string from;  ///< PlaceSearchOptions::from
  bool with_place = false, with_distance = false;
};

Result<double> number_argument(Bytes text) {
  const auto number = parse_double(text);
  if (!number) return reply_error("ERR value is not a valid float");
  return *number;
}

Result<Place> place_argument(ArgCursor* cursor) {
  TRY_ASSIGN(lon, number_argument(cursor->take()));
  TRY_ASSIGN(lat, number_argument(cursor->take()));
  const auto place = make_place(lon, lat);
  if (!place) return reply_error("ERR a longitude is from -180 to 180, and a latitude from -90 to 90");
  return *place;
}

Status parse_box(ArgCursor* cursor, Search* search) {
  TRY_ASSIGN(west, number_argument(cursor->take()));
  TRY_ASSIGN(south, number_argument(cursor->take()));
  TRY_ASSIGN(east, number_argument(cursor->take()));
  TRY_ASSIGN(north, number_argument(cursor->take()));
  search->shape = PlaceShape::box(west, south, east, north);
  if (search->shape) return Status::ok();
  return reply_error("ERR a box is minlon minlat maxlon maxlat: longitudes from -180 to 180, latitudes from -90 to 90 in order");
}

Status parse_radius(ArgCursor* cursor, Search* search) {
  TRY_ASSIGN(center, place_argument(cursor));
  TRY_ASSIGN(radius, number_argument(cursor->take()));
  if (radius < 0) return reply_error("ERR radius cannot be negative");
  const auto unit = meters_of_unit(cursor->take());
  if (!unit) return reply_error("ERR unsupported unit provided. please use M, KM, FT, MI");
  search->unit = *unit;
  search->shape = PlaceShape::circle(center, radius * *unit);
  return search->shape ? Status::ok() : reply_error("ERR need numeric radius");
}

Status parse_nearest(ArgCursor* cursor, Search* search) {
  TRY_ASSIGN(center, place_argument(cursor));
  TRY_ASSIGN(count, integer_argument_in(cursor->take(), 0, static_cast<std::int64_t>(kMostIndexReplies)));
  search->shape = PlaceShape::around(center);
  search->nearest = static_cast<std::uint64_t>(count);
  return Status::ok();
}

/// Parses the shape, the arguments from 2 on.
Status parse_shape(ArgCursor* cursor, Search* search) {
  if (cursor->left() >= 5 && cursor->take_word("BOX")) return parse_box(cursor, search);
  if (cursor->left() >= 5 && cursor->take_word("RADIUS")) return parse_radius(cursor, search);
  if (cursor->left() >= 4 && cursor->take_word("NEAREST")) return parse_nearest(cursor, search);
  return syntax_error();
}

constexpr Bytes kHexDigits = "0123456789abcdef";

/// Returns the cursor for the key at which the next search continues: the key's bytes in hexadecimal digits. Cursor "0" begins a
/// search; in a reply it says that no entries are left.
std::string cursor_text(Bytes key) {
  std::string out;
  for (const char c : key) {
    out += kHexDigits[static_cast<unsigned char>(c) >> 4];
    out += kHexDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

Result<std::string> cursor_argument(Bytes text) {
  std::string key;
  if (text == "0") return key;
  bool valid = !text.empty() && text.size() % 2 == 0;
  for (std::size_t i = 0; valid && i < text.size(); i += 2) {
    const std::size_t high = kHexDigits.find(text[i]), low = kHexDigits.find(text[i + 1]);
    valid = high != Bytes::npos && low != Bytes::npos;
    key += static_cast<char>(high << 4 | low);
  }
  if (!valid) return reply_error("ERR invalid cursor");
  return key;
}

Result<Search> parse_search(const Ctx& ctx) {
  Search search;
  ArgCursor cursor(ctx.args, 2);
  TRY(parse_shape(&cursor, &search));
  while (!cursor.done()) {
    Bytes value;
    if (!search.nearest && cursor.take_option("COUNT", &value)) {
      TRY_ASSIGN(count, integer_argument_in(value, 1, static_cast<std::int64_t>(kMostIndexReplies)));
      search.count = static_cast<std::uint64_t>(count);
    } else if (!search.nearest && cursor.take_option("CURSOR", &value)) {
      TRY_ASSIGN(from, cursor_argument(value));
      search.from = std::move(from);
    } else if (cursor.take_word("WITHCOORD")) {
      search.with_place = true;
    } else if (cursor.take_word("WITHDIST")) {
      search.with_distance = true;
    } else {
      return syntax_error();
    }
  }
  if (search.with_distance && !search.shape->center()) return reply_error("ERR WITHDIST needs RADIUS or NEAREST");
  return search;
}

/// The entries of one reply.
struct Matches {
  std::vector<NearPlace> places;
  std::string resume;  ///< the key of the next entry; "": there is none
};

PlaceSearch::Open open_on(const Ctx& ctx, const ReadView& lease) {
  return [&db = *env_of(ctx).db, &lease](const IteratorOptions& options) { return db.iterate(lease, options); };
}

/// Calls `take` for each entry that the search finds, until `take` returns false or the command is cancelled.
template <typename Take>
Status visit(const Ctx& ctx, const IndexDefinition& index, const ReadView& lease, const Search& search, Take take) {
  PlaceSearchOptions options;
  options.order = *place_order(index.kind);
  options.from = search.from;
  options.max_steps = kStepsAtOnce;
  PlaceSearch walk(*search.shape, options, open_on(ctx, lease));
  for (walk.next(); (walk.valid() || walk.paused()) && !ctx.is_cancelled(); walk.next()) {
    if (walk.valid() && !take(walk)) break;
  }
  return walk.status();
}

Status find(Ctx& ctx, const IndexDefinition& index, const ReadView& lease, const Search& search, Matches* out) {
  FoundCharge charge(ctx);
  if (search.nearest) {
    TRY(charge.add(*search.nearest * sizeof(NearPlace)));
    PlaceSearchOptions options;
    options.order = *place_order(index.kind);
    TRY_ASSIGN(nearest, nearest_places(*search.shape->center(), *search.nearest, options, open_on(ctx, lease)));
    out->places = std::move(nearest);
    return Status::ok();
  }
  Status room;
  TRY(visit(ctx, index, lease, search, [&](const PlaceSearch& walk) {
    if (out->places.size() == search.count) {
      out->resume = walk.resume_key();
      return false;
    }
    room = charge.add(sizeof(NearPlace) + walk.record().size());
    if (!room.is_ok()) return false;
    const auto& center = search.shape->center();
    const double meters = center ? place_distance(*center, walk.place()) : 0;
    out->places.push_back({meters, walk.place(), std::string(walk.record())});
    return true;
  }));
  return room;
}

Status reply_matches(Ctx& ctx, const Search& search, const Matches& matches) {
  std::uint64_t bytes = 0;
  for (const NearPlace& match : matches.places) bytes += match.record.size() + sizeof(NearPlace);
  TRY(ctx.reserve(bytes));
  ctx.reply.array(2);
  ctx.reply.bulk(matches.resume.empty() ? "0" : cursor_text(matches.resume));
  ctx.reply.array(matches.places.size());
  char text[64];
  for (const NearPlace& match : matches.places) {
    TRY_ASSIGN(key, user_key_of(match.record));
    if (search.with_distance || search.with_place)
      ctx.reply.array(1 + std::size_t{search.with_distance} + std::size_t{search.with_place});
    ctx.reply.bulk(key);
    if (search.with_distance) ctx.reply.bulk(Bytes(text, format_distance(match.meters / search.unit, text)));
    if (!search.with_place) continue;
    ctx.reply.array(2);
    for (const double degrees : {match.place.lon, match.place.lat})
      ctx.reply.double_text(Bytes(text, format_double(degrees, text)));
  }
  return Status::ok();
}

Status search(Ctx& ctx) {
  TRY_ASSIGN(index, find_places(ctx, ctx.arg(1)));
  TRY_ASSIGN(search, parse_search(ctx));
  const ReadView lease = env_of(ctx).db->lease(index.tree(ctx.session.database));
  TRY(check_complete(ctx, index));
  Matches matches;
  if (lease.has_tree()) TRY(find(ctx, index, lease, search, &matches));
  return reply_matches(ctx, search, matches);
}

Status count(Ctx& ctx) {
  TRY_ASSIGN(index, find_places(ctx, ctx.arg(1)));
  Search search;
  ArgCursor cursor(ctx.args, 2);
  TRY(parse_shape(&cursor, &search));
  if (!cursor.done()) return syntax_error();
  const ReadView lease = env_of(ctx).db->lease(index.tree(ctx.session.database));
  TRY(check_complete(ctx, index));
  std::uint64_t entries = 0;
  const std::uint64_t most = search.nearest.value_or(~std::uint64_t{0});
  if (lease.has_tree()) {
    TRY(visit(ctx, index, lease, search, [&](const PlaceSearch&) { return entries < most && ++entries != 0; }));
  }
  ctx.reply.integer(static_cast<std::int64_t>(entries));
  return Status::ok();
}

// --- documents

constexpr ArgDoc kName[] = {{.name = "name"}};
constexpr ArgDoc kComparators[] = {
    {.name = "hilbert", .type = Type::kPureToken, .token = "hilbert"},
    {.name = "zorder", .type = Type::kPureToken, .token = "zorder"},
    {.name = "simple", .type = Type::kPureToken, .token = "simple"},
};
constexpr ArgDoc kCreateArguments[] = {
    {.name = "name"},
    {.name = "prefix", .token = "PREFIX"},
    {.name = "lon-field", .token = "LON"},
    {.name = "lat-field", .token = "LAT"},
    {.name = "comparator", .type = Type::kOneOf, .token = "COMPARATOR", .flags = ArgDoc::kOptional, .arguments = kComparators},
    kPolicyOption,
};
constexpr ArgDoc kBox[] = {
    {.name = "minlon", .type = Type::kDouble},
    {.name = "minlat", .type = Type::kDouble},
    {.name = "maxlon", .type = Type::kDouble},
    {.name = "maxlat", .type = Type::kDouble},
};
constexpr ArgDoc kUnits[] = {
    {.name = "m", .type = Type::kPureToken, .token = "m"},
    {.name = "km", .type = Type::kPureToken, .token = "km"},
    {.name = "ft", .type = Type::kPureToken, .token = "ft"},
    {.name = "mi", .type = Type::kPureToken, .token = "mi"},
};
constexpr ArgDoc kRadius[] = {
    {.name = "lon", .type = Type::kDouble},
    {.name = "lat", .type = Type::kDouble},
    {.name = "radius", .type = Type::kDouble},
    {.name = "unit", .type = Type::kOneOf, .arguments = kUnits},
};
constexpr ArgDoc kNearest[] = {
    {.name = "lon", .type = Type::kDouble},
    {.name = "lat", .type = Type::kDouble},
    {.name = "count", .type = Type::kInteger},
};
constexpr ArgDoc kShapes[] = {
    {.name = "box", .type = Type::kBlock, .token = "BOX", .arguments = kBox},
    {.name = "circle", .type = Type::kBlock, .token = "RADIUS", .arguments = kRadius},
    {.name = "nearest", .type = Type::kBlock, .token = "NEAREST", .arguments = kNearest},
};
constexpr ArgDoc kSearchArguments[] = {
    {.name = "name"},
    {.name = "shape", .type = Type::kOneOf, .arguments = kShapes},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .flags = ArgDoc::kOptional},
    {.name = "cursor", .token = "CURSOR", .flags = ArgDoc::kOptional},
    {.name = "withcoord", .type = Type::kPureToken, .token = "WITHCOORD", .flags = ArgDoc::kOptional},
    {.name = "withdist", .type = Type::kPureToken, .token = "WITHDIST", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kCountArguments[] = {
    {.name = "name"},
    {.name = "shape", .type = Type::kOneOf, .arguments = kShapes},
};

constexpr auto kChange = kWrite | kDangerous | kLockAll | kNoMulti | kNoScript | kOnLoop;
constexpr auto kOwn = Group::kExtension;

constexpr CommandSpec kPlaces[] = {
    {.name = "spatial.create",
     .arity = at_least(8),
     .flags = kChange | kDenyOom,
     .run = create,
     .since = "0.2.0",
     .complexity = "O(1); the records that exist are indexed in the background.",
     .summary =
         "Creates an index over the places of the hashes whose keys begin with a prefix. Existing records are indexed in the "
         "background.",
     .group = kOwn,
     .arguments = kCreateArguments,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kAll},
    {.name = "spatial.drop",
     .arity = exactly(2),
     .flags = kChange,
     .run = drop,
     .since = "0.2.0",
     .complexity = "O(1)",
     .summary = "Removes an index of places and its files.",
     .group = kOwn,
     .arguments = kName,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kAll},
    {.name = "spatial.list",
     .arity = exactly(1),
     .flags = kReadOnly | kFast,
     .run = list,
     .since = "0.2.0",
     .complexity = "O(N) where N is the number of indexes.",
     .summary = "Returns the names of the database's indexes of places.",
     .group = kOwn,
     .extra_acl = "@keyspace"},
    {.name = "spatial.info",
     .arity = exactly(2),
     .flags = kReadOnly | kOffload | kNoMulti,
     .run = info,
     .since = "0.2.0",
     .complexity = "O(T) where T is the number of tables.",
     .summary = "Describes an index of places, and how far it is built.",
     .group = kOwn,
     .arguments = kName,
     .extra_acl = "@keyspace"},
    {.name = "spatial.search",
     .arity = at_least(6),
     .flags = kReadOnly | kOffload | kLong | kNoMulti,
     .run = search,
     .since = "0.2.0",
     .complexity = "O(P + M) where P is the number of pages that the shape meets and M the number of returned keys.",
     .summary = "Returns the keys of the records whose places are in a box or a circle, in the order of the index, or those "
                "nearest to a "
                "place, nearest first.",
     .group = kOwn,
     .arguments = kSearchArguments,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kAll},
    {.name = "spatial.count",
     .arity = at_least(6),
     .flags = kReadOnly | kOffload | kLong | kNoMulti,
     .run = count,
     .since = "0.2.0",
     .complexity = "O(P + M) where P is the number of pages that the shape meets and M the number of records in it.",
     .summary = "Counts the records whose places are in a box or a circle.",
     .group = kOwn,
     .arguments = kCountArguments,
     .extra_acl = "@keyspace",
     .scope = KeyScope::kAll},
};

}  // namespace

std::span<const CommandSpec> spatial_commands() { return kPlaces; }

}  // namespace ebbtide

// Places on the earth: GEOADD, GEOSEARCH and similar commands. Errors and their order are Redis's.
//
// A place is a member of a sorted set, and its score is a cell of the map (store/geo.h). A search reads the sorted set once, and
// computes distances only for members in cells near the area.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/collection_access.h"
#include "commands/families.h"
#include "commands/geo_docs.h"
#include "commands/large_members.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"
#include "store/geo.h"
#include "store/numbers.h"
#include "store/zsets.h"

namespace ebbtide {
namespace {

/// Work (Ctx::work) for the distance of one candidate, for one comparison of distances, and for writing one coordinate.
constexpr std::uint64_t kDistanceWork = 128, kCompareWork = 8, kCoordinateWork = 1024;

// --- arguments

Result<double> number_argument(Bytes text, const char* error) {
  const auto number = parse_double(text);
  if (!number) return reply_error(error);
  return *number;
}

/// Parses a longitude and a latitude, the arguments from `i` on.
Result<GeoPoint> point_argument(const Ctx& ctx, std::size_t i) {
  TRY_ASSIGN(longitude, number_argument(ctx.arg(i), "ERR value is not a valid float"));
  TRY_ASSIGN(latitude, number_argument(ctx.arg(i + 1), "ERR value is not a valid float"));
  const GeoPoint point{longitude, latitude};
  if (is_on_map(point)) return point;
  char text[700];  // a double has up to 309 digits before the point
  std::snprintf(text, sizeof text, "ERR invalid longitude,latitude pair %f,%f", longitude, latitude);
  return reply_error(text);
}

Result<double> unit_argument(Bytes text) {
  const auto meters = meters_of_unit(shown(text, Bytes::npos));
  if (!meters) return reply_error("ERR unsupported unit provided. please use M, KM, FT, MI");
  return *meters;
}

/// Parses a radius and its unit, the arguments from `i` on.
Status parse_radius(const Ctx& ctx, std::size_t i, GeoArea* area) {
  TRY_ASSIGN(radius, number_argument(ctx.arg(i), "ERR need numeric radius"));
  if (radius < 0) return reply_error("ERR radius cannot be negative");
  TRY_ASSIGN(unit, unit_argument(ctx.arg(i + 1)));
  area->radius = radius;
  area->unit = unit;
  return Status::ok();
}

/// Parses width, height and their unit, the arguments from `i` on.
Status parse_box(const Ctx& ctx, std::size_t i, GeoArea* area) {
  TRY_ASSIGN(width, number_argument(ctx.arg(i), "ERR need numeric width"));
  TRY_ASSIGN(height, number_argument(ctx.arg(i + 1), "ERR need numeric height"));
  if (height < 0 || width < 0) return reply_error("ERR height or width cannot be negative");
  TRY_ASSIGN(unit, unit_argument(ctx.arg(i + 2)));
  area->is_box = true;
  area->width = width;
  area->height = height;
  area->unit = unit;
  return Status::ok();
}

// --- GEOADD

Status geoadd(Ctx& ctx) {
  bool nx = false, xx = false, changed = false;
  ArgCursor cursor(ctx.args, 2);
  while (true) {
    if (cursor.take_word("NX")) {
      nx = true;
    } else if (cursor.take_word("XX")) {
      xx = true;
    } else if (cursor.take_word("CH")) {
      changed = true;
    } else {
      break;
    }
  }
  const std::size_t places = cursor.left() / 3, first = ctx.argc() - cursor.left();
  if (cursor.left() % 3 != 0 || (nx && xx)) return syntax_error();
  std::vector<double> scores;
  for (std::size_t i = 0; i < places; ++i) {
    TRY_ASSIGN(point, point_argument(ctx, first + 3 * i));
    scores.push_back(static_cast<double>(geo_score(point)));
  }
  if (places == 0) return syntax_error();

  std::optional<Found> old;
  SortedSet members;
  TRY(find_collection_for_update(ctx, ctx.key(), CollectionType::kSortedSet, &old, Wanted::from(first + 2, 3)));
  if (old) {
    TRY_ASSIGN(decoded, decode_sorted_set(old->value));
    members = std::move(decoded);
  }
  SortedSetEditor editor(std::move(members), places);
  std::int64_t added = 0, moved = 0;
  for (std::size_t i = 0; i < places; ++i) {
    const Bytes member = ctx.arg(first + 3 * i + 2);
    const auto score = editor.score(member);
    if (score ? nx || *score == scores[i] : xx) continue;
    editor.put(member, scores[i]);
    ++(score ? moved : added);
  }
  if (added + moved != 0) TRY(put_changed(ctx, ctx.key(), old, editor.take(), Change::kKeeps));
  ctx.reply.integer(added + (changed ? moved : 0));
  return Status::ok();
}

// --- single members

/// Replies with a coordinate as Redis does: 17 digits after the point, without zeros at the end.
void reply_coordinate(Reply& reply, double degrees) { reply.double_text(to_text(static_cast<long double>(degrees))); }

void reply_point(Reply& reply, const GeoPoint& point) {
  reply.array(2);
  reply_coordinate(reply, point.longitude);
  reply_coordinate(reply, point.latitude);
}

/// Calls `reply_one` for each member among the arguments with its score; with nullopt if it is missing.
template <typename ReplyOne>
Status visit_scores(Ctx& ctx, const std::optional<Found>& found, ReplyOne reply_one) {
  constexpr std::size_t kFew = 4;  // for at most this many, searching the bytes is faster than decoding them
  const std::size_t wanted = ctx.argc() - 2;
  SortedSet members;
  if (found && wanted > kFew) {
    TRY_ASSIGN(decoded, decode_sorted_set(found->value));
    members = std::move(decoded);
  }
  const SortedSetEditor scores(std::move(members), wanted);
  for (std::size_t i = 2; i < ctx.argc(); ++i) {
    TRY(ctx.work(0));
    std::optional<double> score;
    if (found && wanted <= kFew) {
      TRY_ASSIGN(place, find_member(found->value, ctx.arg(i)));
      if (place) score = place->score;
    } else {
      score = scores.score(ctx.arg(i));
    }
    reply_one(score);
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

/// Replies with one element for each member among the arguments. `work`: the work (Ctx::work) of one element.
template <typename ReplyOne>
Status reply_of_members(Ctx& ctx, std::uint64_t work, ReplyOne reply_one) {
  std::optional<Found> found;
  TRY(find_collection(ctx, ctx.key(), CollectionType::kSortedSet, &found, Wanted::from(2)));
  TRY(collection_work(ctx, 0, (ctx.argc() - 2) * work));
  ctx.reply.array(ctx.argc() - 2);
  return visit_scores(ctx, found, reply_one);
}

Status geopos(Ctx& ctx) {
  return reply_of_members(ctx, 2 * kCoordinateWork, [&ctx](std::optional<double> score) {
    score ? reply_point(ctx.reply, geo_point(*score)) : ctx.reply.null_array();
  });
}

Status geohash(Ctx& ctx) {
  return reply_of_members(ctx, kDistanceWork, [&ctx](std::optional<double> score) {
    if (!score) return ctx.reply.null();
    const auto text = geo_hash_text(*score);
    ctx.reply.bulk(Bytes(text.data(), text.size()));
  });
}

void reply_distance(Reply& reply, double distance) {
  char text[32];
  reply.bulk(Bytes(text, format_distance(distance, text)));
}

Status geodist(Ctx& ctx) {
  double unit = 1;
  if (ctx.argc() > 5) return syntax_error();
  if (ctx.argc() == 5) {
    TRY_ASSIGN(meters, unit_argument(ctx.arg(4)));
    unit = meters;
  }
  std::optional<Found> found;
  TRY(find_collection(ctx, ctx.key(), CollectionType::kSortedSet, &found, {.all = false, .first = 2, .end = 4}));
  std::optional<RankedScore> from, to;
  if (found) {
    TRY_ASSIGN(first, find_member(found->value, ctx.arg(2)));
    TRY_ASSIGN(second, find_member(found->value, ctx.arg(3)));
    from = first;
    to = second;
  }
  if (!from || !to) {
    ctx.reply.null();
    return Status::ok();
  }
  reply_distance(ctx.reply, geo_distance(geo_point(from->score), geo_point(to->score)) / unit);
  return Status::ok();
}

// --- searches

enum class Order : std::uint8_t { kAny, kAscending, kDescending };

struct Search {
  GeoArea area;
  bool from_member = false, from_point = false, by_radius = false, by_box = false;
  bool with_distance = false, with_hash = false, with_point = false;
  Order order = Order::kAny;
  std::uint64_t count = 0;  ///< the most matches in the reply; 0 = all
  bool any = false;         ///< the search stops after the first `count` matches
  bool stores = false;
  bool stores_distances = false;

  [[nodiscard]] std::size_t parts() const {
    return std::size_t{with_distance} + std::size_t{with_hash} + std::size_t{with_point};
  }
};

/// The properties in which the search commands differ.
struct SearchKind {
  bool is_search = false;      ///< GEOSEARCH, GEOSEARCHSTORE: center and shape are options
  bool by_member = false;      ///< GEORADIUSBYMEMBER
  bool stores = false;         ///< GEOSEARCHSTORE, whose first argument is the destination
  bool may_store = false;      ///< has the options STORE and STOREDIST
  std::size_t options_at = 0;  ///< index of the first option
};

/// Sets the search's center to the location of a member.
Status find_center(Ctx& ctx, Found found, Bytes member, GeoArea* area) {
  if (found.kind == EntryKind::kHeader) TRY(load_element(ctx, CollectionType::kSortedSet, member, &found));
  TRY_ASSIGN(place, find_member(found.value, member));
  if (!place) return reply_error("ERR could not decode requested zset member");
  area->center = geo_point(place->score);
  return Status::ok();
}

/// Parses center and radius of GEORADIUS and GEORADIUSBYMEMBER. As in Redis, GEORADIUSBYMEMBER does not parse them if the key is
/// missing.
Status parse_circle(Ctx& ctx, const SearchKind& kind, const std::optional<Found>& found, Search* search) {
  if (!kind.by_member) {
    TRY_ASSIGN(center, point_argument(ctx, 2));
    search->area.center = center;
    return parse_radius(ctx, 4, &search->area);
  }
  if (!found) return Status::ok();
  TRY(find_center(ctx, *found, ctx.arg(2), &search->area));
  return parse_radius(ctx, 3, &search->area);
}

/// Parses an option of GEOSEARCH that sets the center or the shape. Returns false if the cursor is at another option.
Result<bool> parse_area_option(Ctx& ctx, const std::optional<Found>& found, ArgCursor* cursor, Search* search) {
  const std::size_t left = cursor->left(), at = ctx.argc() - left;
  std::size_t values = 0;
  if (left >= 2 && !search->from_point && cursor->take_word("FROMMEMBER")) {
    if (found) TRY(find_center(ctx, *found, ctx.arg(at + 1), &search->area));
    search->from_member = true;
    values = 1;
  } else if (left >= 3 && !search->from_member && cursor->take_word("FROMLONLAT")) {
    TRY_ASSIGN(center, point_argument(ctx, at + 1));
    search->area.center = center;
    search->from_point = true;
    values = 2;
  } else if (left >= 3 && !search->by_box && cursor->take_word("BYRADIUS")) {
    TRY(parse_radius(ctx, at + 1, &search->area));
    search->by_radius = true;
    values = 2;
  } else if (left >= 4 && !search->by_radius && cursor->take_word("BYBOX")) {
    TRY(parse_box(ctx, at + 1, &search->area));
    search->by_box = true;
    values = 3;
  }
  for (std::size_t i = 0; i < values; ++i) cursor->take();
  return values != 0;
}

/// Parses an option of one word. Returns false if the cursor is at another option.
bool take_flag(const SearchKind& kind, ArgCursor* cursor, Search* search) {
  if (cursor->take_word("WITHDIST")) {
    search->with_distance = true;
  } else if (cursor->take_word("WITHHASH")) {
    search->with_hash = true;
  } else if (cursor->take_word("WITHCOORD")) {
    search->with_point = true;
  } else if (cursor->take_word("ANY")) {
    search->any = true;
  } else if (cursor->take_word("ASC")) {
    search->order = Order::kAscending;
  } else if (cursor->take_word("DESC")) {
    search->order = Order::kDescending;
  } else if (kind.stores && cursor->take_word("STOREDIST")) {
    search->stores_distances = true;
  } else {
    return false;
  }
  return true;
}

Status parse_options(Ctx& ctx, const SearchKind& kind, const std::optional<Found>& found, Search* search) {
  for (ArgCursor cursor(ctx.args, kind.options_at); !cursor.done();) {
    Bytes value;
    if (take_flag(kind, &cursor, search)) continue;
    if (cursor.take_option("COUNT", &value)) {
      TRY_ASSIGN(count, integer_argument(value));
      if (count <= 0) return reply_error("ERR COUNT must be > 0");
      search->count = static_cast<std::uint64_t>(count);
    } else if (kind.may_store && cursor.take_option("STORE", &value)) {
      search->stores = true;
      search->stores_distances = false;
    } else if (kind.may_store && cursor.take_option("STOREDIST", &value)) {
      search->stores = true;
      search->stores_distances = true;
    } else {
      if (!kind.is_search) return syntax_error();
      TRY_ASSIGN(taken, parse_area_option(ctx, found, &cursor, search));
      if (!taken) return syntax_error();
    }
  }
  return Status::ok();
}

Status check_options(const Ctx& ctx, const SearchKind& kind, const Search& search) {
  const std::string name(shown(ctx.arg(0)));
  if (search.stores && search.parts() != 0) {
    return reply_error(std::string("ERR ") + (kind.stores ? "GEOSEARCHSTORE" : "STORE option in GEORADIUS") +
                       " is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
  }
  if (kind.is_search && !search.from_member && !search.from_point) {
    return reply_error("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for " + name);
  }
  if (kind.is_search && !search.by_radius && !search.by_box) {
    return reply_error("ERR exactly one of BYRADIUS and BYBOX can be specified for " + name);
  }
  if (search.any && search.count == 0) return reply_error("ERR the ANY argument requires COUNT argument");
  return Status::ok();
}

/// Loads the members in the cells that the search visits, if the sorted set is large.
Status load_cells(Ctx& ctx, const std::vector<CellScores>& cells, Found* found) {
  if (found->kind != EntryKind::kHeader) return Status::ok();
  std::vector<ScoreRange> ranges;
  for (const CellScores& each : joined(cells)) ranges.push_back({{each.first, false}, {each.end, true}});
  return load_members(ctx, ranges, found);
}

/// Finds the matches of the reply, in the reply's order. They point into `found`.
Status find_matches(Ctx& ctx, Search search, Found* found, std::vector<GeoMatch>* matches) {
  // COUNT without ANY means the nearest matches, so it needs an order.
  if (search.count != 0 && search.order == Order::kAny && !search.any) search.order = Order::kAscending;
  const auto cells = cells_of(search.area);
  TRY(load_cells(ctx, cells, found));
  TRY_ASSIGN(candidates, members_in_cells(found->value, cells));
  TRY(collection_work(ctx, 0, candidates.size() * kDistanceWork));
  TRY(ctx.reserve(candidates.size() * (sizeof(ScoredMember) + sizeof(GeoMatch))));
  *matches = matches_in(search.area, cells, candidates, search.any ? search.count : 0);
  const std::size_t all = matches->size();
  const auto wanted = search.count == 0 ? all : static_cast<std::size_t>(std::min<std::uint64_t>(search.count, all));
  if (search.order != Order::kAny) {
    TRY(collection_work(ctx, 0, all * static_cast<std::uint64_t>(std::bit_width(wanted)) * kCompareWork));
    sort_matches(matches, wanted, search.order == Order::kDescending);
  }
  matches->erase(matches->begin() + static_cast<std::ptrdiff_t>(wanted), matches->end());
  return Status::ok();
}

Status reply_matches(Ctx& ctx, const Search& search, const std::vector<GeoMatch>& matches) {
  if (search.with_point) TRY(collection_work(ctx, 0, matches.size() * 2 * kCoordinateWork));
  ctx.reply.array(matches.size());
  for (const GeoMatch& match : matches) {
    TRY(ctx.work(0));
    if (search.parts() != 0) ctx.reply.array(search.parts() + 1);
    ctx.reply.bulk(match.member.member);
    if (search.with_distance) reply_distance(ctx.reply, match.distance / search.area.unit);
    if (search.with_hash) ctx.reply.integer(geo_hash_number(match.member.score));
    if (search.with_point) reply_point(ctx.reply, match.point);
    TRY(ctx.reserve_reply());
  }
  return Status::ok();
}

Status store_matches(Ctx& ctx, const SearchKind& kind, const Search& search, const std::vector<GeoMatch>& matches) {
  SortedSet members;
  for (const GeoMatch& match : matches) {
    members.push_back({search.stores_distances ? match.distance / search.area.unit : match.member.score, match.member.member});
  }
  std::sort(members.begin(), members.end(), is_before);
  return store_result(ctx, ctx.key(kind.stores ? 0 : 1), members);
}

Status search_generic(Ctx& ctx, const SearchKind& kind) {
  Search search;
  search.stores = kind.stores;
  std::optional<Found> found;
  const LookupKey& source = ctx.key(kind.stores ? 1 : 0);
  if (ctx.keys.size() > 1) {
    TRY(locate_collection_for_update(ctx, source, CollectionType::kSortedSet, &found));
  } else {
    TRY(locate_collection(ctx, source, CollectionType::kSortedSet, &found));
  }
  if (!kind.is_search) TRY(parse_circle(ctx, kind, found, &search));
  TRY(parse_options(ctx, kind, found, &search));
  TRY(check_options(ctx, kind, search));
  std::vector<GeoMatch> matches;
  if (found) TRY(find_matches(ctx, search, &*found, &matches));
  return search.stores ? store_matches(ctx, kind, search, matches) : reply_matches(ctx, search, matches);
}

Status geosearch(Ctx& ctx) { return search_generic(ctx, {.is_search = true, .options_at = 2}); }
Status geosearchstore(Ctx& ctx) { return search_generic(ctx, {.is_search = true, .stores = true, .options_at = 3}); }
Status georadius(Ctx& ctx) { return search_generic(ctx, {.may_store = true, .options_at = 6}); }
Status georadius_ro(Ctx& ctx) { return search_generic(ctx, {.options_at = 6}); }
Status georadiusbymember(Ctx& ctx) { return search_generic(ctx, {.by_member = true, .may_store = true, .options_at = 5}); }
Status georadiusbymember_ro(Ctx& ctx) { return search_generic(ctx, {.by_member = true, .options_at = 5}); }

// --- specs

constexpr Bytes kOfMembers =
    "O(M) where M is the number of named members. A sorted set of up to 128 members is one entry, which is read whole.";
constexpr Bytes kOfSearch =
    "O(M*log(M)) where M is the number of members in the cells around the area. A sorted set of up to 128 members is one entry, "
    "which is read whole.";
constexpr std::uint16_t kReads = KeySpec::kRo | KeySpec::kAccess, kOverwrites = KeySpec::kOw | KeySpec::kUpdate;
constexpr KeySpec kSource = {.first = 1, .access = kReads};
constexpr KeySpec kGeosearchstoreKeys[] = {{.first = 1, .access = kOverwrites}, {.first = 2, .access = kReads}};
constexpr KeySpec kGeoradiusKeys[] = {kSource,
                                      {.first = 6, .access = kOverwrites, .keyword = "STORE"},
                                      {.first = 6, .access = kOverwrites, .keyword = "STOREDIST"}};
constexpr KeySpec kGeoradiusbymemberKeys[] = {kSource,
                                              {.first = 5, .access = kOverwrites, .keyword = "STORE"},
                                              {.first = 5, .access = kOverwrites, .keyword = "STOREDIST"}};

constexpr CommandSpec kGeo[] = {
    {.name = "geoadd",
     .arity = at_least(5),
     .keys = {.first = 1, .access = KeySpec::kRw | KeySpec::kUpdate},
     .flags = kWrite | kDenyOom,
     .run = geoadd,
     .since = "3.2.0",
     .complexity =
         "O(M) where M is the number of named members. A sorted set of up to 128 members is one entry, which is read whole.",
     .summary = "Adds one or more members to a geospatial index. The key is created if it doesn't exist.",
     .group = Group::kGeo,
     .arguments = kGeoaddArguments,
     .event = {.name = "zadd", .letter = 'z'}},
    {.name = "geodist",
     .arity = at_least(4),
     .keys = kSource,
     .flags = kReadOnly,
     .run = geodist,
     .since = "3.2.0",
     .complexity = kOfMembers,
     .summary = "Returns the distance between two members of a geospatial index.",
     .group = Group::kGeo,
     .arguments = kGeodistArguments},
    {.name = "geohash",
     .arity = at_least(2),
     .keys = kSource,
     .flags = kReadOnly,
     .run = geohash,
     .since = "3.2.0",
     .complexity = kOfMembers,
     .summary = "Returns members from a geospatial index as geohash strings.",
     .group = Group::kGeo,
     .arguments = kGeoMembersArguments},
    {.name = "geopos",
     .arity = at_least(2),
     .keys = kSource,
     .flags = kReadOnly,
     .run = geopos,
     .since = "3.2.0",
     .complexity = kOfMembers,
     .summary = "Returns the longitude and latitude of members from a geospatial index.",
     .group = Group::kGeo,
     .arguments = kGeoMembersArguments},
    {.name = "georadius",
     .arity = at_least(6),
     .keys = {.first = 1, .access = kReads, .has_store = true, .store_from = 6},
     .flags = kWrite | kDenyOom | kMovableKeys,
     .run = georadius,
     .since = "3.2.0",
     .complexity = kOfSearch,
     .summary = "Queries a geospatial index for members within a distance from a coordinate, optionally stores the result.",
     .group = Group::kGeo,
     .arguments = kGeoradiusArguments,
     .key_specs = kGeoradiusKeys,
     .event = {.name = "georadiusstore", .letter = 'z'}},
    {.name = "georadius_ro",
     .arity = at_least(6),
     .keys = kSource,
     .flags = kReadOnly,
     .run = georadius_ro,
     .since = "3.2.10",
     .complexity = kOfSearch,
     .summary = "Returns members from a geospatial index that are within a distance from a coordinate.",
     .group = Group::kGeo,
     .arguments = std::span(kGeoradiusArguments).first(std::size(kGeoradiusArguments) - 1)},
    {.name = "georadiusbymember",
     .arity = at_least(5),
     .keys = {.first = 1, .access = kReads, .has_store = true, .store_from = 5},
     .flags = kWrite | kDenyOom | kMovableKeys,
     .run = georadiusbymember,
     .since = "3.2.0",
     .complexity = kOfSearch,
     .summary = "Queries a geospatial index for members within a distance from a member, optionally stores the result.",
     .group = Group::kGeo,
     .arguments = kGeoradiusbymemberArguments,
     .key_specs = kGeoradiusbymemberKeys,
     .event = {.name = "georadiusstore", .letter = 'z'}},
    {.name = "georadiusbymember_ro",
     .arity = at_least(5),
     .keys = kSource,
     .flags = kReadOnly,
     .run = georadiusbymember_ro,
     .since = "3.2.10",
     .complexity = kOfSearch,
     .summary = "Returns members from a geospatial index that are within a distance from a member.",
     .group = Group::kGeo,
     .arguments = std::span(kGeoradiusbymemberArguments).first(std::size(kGeoradiusbymemberArguments) - 1)},
    {.name = "geosearch",
     .arity = at_least(7),
     .keys = kSource,
     .flags = kReadOnly,
     .run = geosearch,
     .since = "6.2.0",
     .complexity = kOfSearch,
     .summary = "Queries a geospatial index for members inside an area of a box or a circle.",
     .group = Group::kGeo,
     .arguments = kGeosearchArguments},
    {.name = "geosearchstore",
     .arity = at_least(8),
     .keys = {.first = 1, .last = 2, .access = KeySpec::kRw | KeySpec::kAccess},
     .flags = kWrite | kDenyOom,
     .run = geosearchstore,
     .since = "6.2.0",
     .complexity = kOfSearch,
     .summary = "Queries a geospatial index for members inside an area of a box or a circle, and stores the result.",
     .group = Group::kGeo,
     .arguments = kGeosearchstoreArguments,
     .key_specs = kGeosearchstoreKeys,
     .event = {.name = "geosearchstore", .letter = 'z'}},
};

}  // namespace

std::span<const CommandSpec> geo_commands() { return kGeo; }

}  // namespace ebbtide

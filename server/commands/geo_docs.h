// Arguments of the commands on places, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

using Type = ArgDoc::Type;

constexpr ArgDoc kGeoUnit[] = {
    {.name = "m", .type = Type::kPureToken, .token = "M"},
    {.name = "km", .type = Type::kPureToken, .token = "KM"},
    {.name = "ft", .type = Type::kPureToken, .token = "FT"},
    {.name = "mi", .type = Type::kPureToken, .token = "MI"},
};
constexpr ArgDoc kGeoaddCondition[] = {
    {.name = "nx", .type = Type::kPureToken, .token = "NX"},
    {.name = "xx", .type = Type::kPureToken, .token = "XX"},
};
constexpr ArgDoc kGeoaddData[] = {
    {.name = "longitude", .type = Type::kDouble},
    {.name = "latitude", .type = Type::kDouble},
    {.name = "member", .type = Type::kString},
};
constexpr ArgDoc kGeoaddArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "condition", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .since = "6.2.0", .arguments = kGeoaddCondition},
    {.name = "change", .type = Type::kPureToken, .token = "CH", .flags = ArgDoc::kOptional, .since = "6.2.0"},
    {.name = "data", .type = Type::kBlock, .flags = ArgDoc::kMultiple, .arguments = kGeoaddData},
};
constexpr ArgDoc kGeodistArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "member1", .type = Type::kString},
    {.name = "member2", .type = Type::kString},
    {.name = "unit", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kGeoUnit},
};
constexpr ArgDoc kGeoMembersArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "member", .type = Type::kString, .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
};
constexpr ArgDoc kGeoOrder[] = {
    {.name = "asc", .type = Type::kPureToken, .token = "ASC"},
    {.name = "desc", .type = Type::kPureToken, .token = "DESC"},
};
constexpr ArgDoc kGeoradiusCount[] = {
    {.name = "count", .type = Type::kInteger, .token = "COUNT"},
    {.name = "any", .type = Type::kPureToken, .token = "ANY", .flags = ArgDoc::kOptional, .since = "6.2.0"},
};
constexpr ArgDoc kGeoradiusStore[] = {
    {.name = "storekey", .type = Type::kKey, .token = "STORE", .key_spec = 1, .display = "key"},
    {.name = "storedistkey", .type = Type::kKey, .token = "STOREDIST", .key_spec = 2, .display = "key"},
};
// The variants with _RO have all arguments except for the last.
constexpr ArgDoc kGeoradiusArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "longitude", .type = Type::kDouble},
    {.name = "latitude", .type = Type::kDouble},
    {.name = "radius", .type = Type::kDouble},
    {.name = "unit", .type = Type::kOneOf, .arguments = kGeoUnit},
    {.name = "withcoord", .type = Type::kPureToken, .token = "WITHCOORD", .flags = ArgDoc::kOptional},
    {.name = "withdist", .type = Type::kPureToken, .token = "WITHDIST", .flags = ArgDoc::kOptional},
    {.name = "withhash", .type = Type::kPureToken, .token = "WITHHASH", .flags = ArgDoc::kOptional},
    {.name = "count-block", .type = Type::kBlock, .flags = ArgDoc::kOptional, .arguments = kGeoradiusCount},
    {.name = "order", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kGeoOrder},
    {.name = "store", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kGeoradiusStore},
};
constexpr ArgDoc kGeoradiusbymemberArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "member", .type = Type::kString},
    {.name = "radius", .type = Type::kDouble},
    {.name = "unit", .type = Type::kOneOf, .arguments = kGeoUnit},
    {.name = "withcoord", .type = Type::kPureToken, .token = "WITHCOORD", .flags = ArgDoc::kOptional},
    {.name = "withdist", .type = Type::kPureToken, .token = "WITHDIST", .flags = ArgDoc::kOptional},
    {.name = "withhash", .type = Type::kPureToken, .token = "WITHHASH", .flags = ArgDoc::kOptional},
    {.name = "count-block", .type = Type::kBlock, .flags = ArgDoc::kOptional, .arguments = kGeoradiusCount},
    {.name = "order", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kGeoOrder},
    {.name = "store", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kGeoradiusStore},
};
constexpr ArgDoc kGeosearchPoint[] = {
    {.name = "longitude", .type = Type::kDouble},
    {.name = "latitude", .type = Type::kDouble},
};
constexpr ArgDoc kGeosearchFrom[] = {
    {.name = "member", .type = Type::kString, .token = "FROMMEMBER"},
    {.name = "fromlonlat", .type = Type::kBlock, .token = "FROMLONLAT", .arguments = kGeosearchPoint},
};
constexpr ArgDoc kGeosearchCircle[] = {
    {.name = "radius", .type = Type::kDouble, .token = "BYRADIUS"},
    {.name = "unit", .type = Type::kOneOf, .arguments = kGeoUnit},
};
constexpr ArgDoc kGeosearchBox[] = {
    {.name = "width", .type = Type::kDouble, .token = "BYBOX"},
    {.name = "height", .type = Type::kDouble},
    {.name = "unit", .type = Type::kOneOf, .arguments = kGeoUnit},
};
constexpr ArgDoc kGeosearchBy[] = {
    {.name = "circle", .type = Type::kBlock, .arguments = kGeosearchCircle},
    {.name = "box", .type = Type::kBlock, .arguments = kGeosearchBox},
};
constexpr ArgDoc kGeosearchCount[] = {
    {.name = "count", .type = Type::kInteger, .token = "COUNT"},
    {.name = "any", .type = Type::kPureToken, .token = "ANY", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kGeosearchArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "from", .type = Type::kOneOf, .arguments = kGeosearchFrom},
    {.name = "by", .type = Type::kOneOf, .arguments = kGeosearchBy},
    {.name = "order", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kGeoOrder},
    {.name = "count-block", .type = Type::kBlock, .flags = ArgDoc::kOptional, .arguments = kGeosearchCount},
    {.name = "withcoord", .type = Type::kPureToken, .token = "WITHCOORD", .flags = ArgDoc::kOptional},
    {.name = "withdist", .type = Type::kPureToken, .token = "WITHDIST", .flags = ArgDoc::kOptional},
    {.name = "withhash", .type = Type::kPureToken, .token = "WITHHASH", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kGeosearchstoreArguments[] = {
    {.name = "destination", .type = Type::kKey},
    {.name = "source", .type = Type::kKey, .key_spec = 1},
    {.name = "from", .type = Type::kOneOf, .arguments = kGeosearchFrom},
    {.name = "by", .type = Type::kOneOf, .arguments = kGeosearchBy},
    {.name = "order", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kGeoOrder},
    {.name = "count-block", .type = Type::kBlock, .flags = ArgDoc::kOptional, .arguments = kGeosearchCount},
    {.name = "storedist", .type = Type::kPureToken, .token = "STOREDIST", .flags = ArgDoc::kOptional},
};

}  // namespace ebbtide

// Arguments of the commands on the expiry of fields, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

constexpr std::string_view kComplexity =
    "O(N) where N is the number of specified fields. A hash of up to 128 fields is one entry, which is read whole.";

constexpr ArgDoc kFieldList[] = {
    {.name = "numfields", .type = ArgDoc::Type::kInteger},
    {.name = "field", .type = ArgDoc::Type::kString, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kPair[] = {
    {.name = "field", .type = ArgDoc::Type::kString},
    {.name = "value", .type = ArgDoc::Type::kString},
};
constexpr ArgDoc kPairList[] = {
    {.name = "numfields", .type = ArgDoc::Type::kInteger},
    {.name = "data", .type = ArgDoc::Type::kBlock, .flags = ArgDoc::kMultiple, .arguments = kPair},
};
constexpr ArgDoc kConditions[] = {
    {.name = "nx", .type = ArgDoc::Type::kPureToken, .token = "NX"},
    {.name = "xx", .type = ArgDoc::Type::kPureToken, .token = "XX"},
    {.name = "gt", .type = ArgDoc::Type::kPureToken, .token = "GT"},
    {.name = "lt", .type = ArgDoc::Type::kPureToken, .token = "LT"},
};
constexpr ArgDoc kFieldsArguments[] = {
    {.name = "key", .type = ArgDoc::Type::kKey},
    {.name = "fields", .type = ArgDoc::Type::kBlock, .token = "FIELDS", .arguments = kFieldList},
};
constexpr ArgDoc kHexpireArguments[] = {
    {.name = "key", .type = ArgDoc::Type::kKey},
    {.name = "seconds", .type = ArgDoc::Type::kInteger},
    {.name = "condition", .type = ArgDoc::Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kConditions},
    {.name = "fields", .type = ArgDoc::Type::kBlock, .token = "FIELDS", .arguments = kFieldList},
};
constexpr ArgDoc kHpexpireArguments[] = {
    {.name = "key", .type = ArgDoc::Type::kKey},
    {.name = "milliseconds", .type = ArgDoc::Type::kInteger},
    {.name = "condition", .type = ArgDoc::Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kConditions},
    {.name = "fields", .type = ArgDoc::Type::kBlock, .token = "FIELDS", .arguments = kFieldList},
};
constexpr ArgDoc kHexpireatArguments[] = {
    {.name = "key", .type = ArgDoc::Type::kKey},
    {.name = "unix-time-seconds", .type = ArgDoc::Type::kUnixTime},
    {.name = "condition", .type = ArgDoc::Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kConditions},
    {.name = "fields", .type = ArgDoc::Type::kBlock, .token = "FIELDS", .arguments = kFieldList},
};
constexpr ArgDoc kHpexpireatArguments[] = {
    {.name = "key", .type = ArgDoc::Type::kKey},
    {.name = "unix-time-milliseconds", .type = ArgDoc::Type::kUnixTime},
    {.name = "condition", .type = ArgDoc::Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kConditions},
    {.name = "fields", .type = ArgDoc::Type::kBlock, .token = "FIELDS", .arguments = kFieldList},
};
constexpr ArgDoc kGetExpirations[] = {
    {.name = "seconds", .type = ArgDoc::Type::kInteger, .token = "EX"},
    {.name = "milliseconds", .type = ArgDoc::Type::kInteger, .token = "PX"},
    {.name = "unix-time-seconds", .type = ArgDoc::Type::kUnixTime, .token = "EXAT"},
    {.name = "unix-time-milliseconds", .type = ArgDoc::Type::kUnixTime, .token = "PXAT"},
    {.name = "persist", .type = ArgDoc::Type::kPureToken, .token = "PERSIST"},
};
constexpr ArgDoc kHgetexArguments[] = {
    {.name = "key", .type = ArgDoc::Type::kKey},
    {.name = "expiration", .type = ArgDoc::Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kGetExpirations},
    {.name = "fields", .type = ArgDoc::Type::kBlock, .token = "FIELDS", .arguments = kFieldList},
};
constexpr ArgDoc kSetExpirations[] = {
    {.name = "seconds", .type = ArgDoc::Type::kInteger, .token = "EX"},
    {.name = "milliseconds", .type = ArgDoc::Type::kInteger, .token = "PX"},
    {.name = "unix-time-seconds", .type = ArgDoc::Type::kUnixTime, .token = "EXAT"},
    {.name = "unix-time-milliseconds", .type = ArgDoc::Type::kUnixTime, .token = "PXAT"},
    {.name = "keepttl", .type = ArgDoc::Type::kPureToken, .token = "KEEPTTL"},
};
constexpr ArgDoc kSetConditions[] = {
    {.name = "fnx", .type = ArgDoc::Type::kPureToken, .token = "FNX"},
    {.name = "fxx", .type = ArgDoc::Type::kPureToken, .token = "FXX"},
};
constexpr ArgDoc kHsetexArguments[] = {
    {.name = "key", .type = ArgDoc::Type::kKey},
    {.name = "condition", .type = ArgDoc::Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kSetConditions},
    {.name = "expiration", .type = ArgDoc::Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kSetExpirations},
    {.name = "fields", .type = ArgDoc::Type::kBlock, .token = "FIELDS", .arguments = kPairList},
};

}  // namespace ebbtide

// Arguments of the key commands, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

using Type = ArgDoc::Type;

constexpr ArgDoc kDelArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kUnlinkArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kExistsArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kTouchArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kTypeArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kExpireArgumentsCondition[] = {
    {.name = "nx", .type = Type::kPureToken, .token = "NX"},
    {.name = "xx", .type = Type::kPureToken, .token = "XX"},
    {.name = "gt", .type = Type::kPureToken, .token = "GT"},
    {.name = "lt", .type = Type::kPureToken, .token = "LT"},
};
constexpr ArgDoc kExpireArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "seconds", .type = Type::kInteger},
    {.name = "condition",
     .type = Type::kOneOf,
     .flags = ArgDoc::kOptional,
     .since = "7.0.0",
     .arguments = kExpireArgumentsCondition},
};
constexpr ArgDoc kPexpireArgumentsCondition[] = {
    {.name = "nx", .type = Type::kPureToken, .token = "NX"},
    {.name = "xx", .type = Type::kPureToken, .token = "XX"},
    {.name = "gt", .type = Type::kPureToken, .token = "GT"},
    {.name = "lt", .type = Type::kPureToken, .token = "LT"},
};
constexpr ArgDoc kPexpireArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "milliseconds", .type = Type::kInteger},
    {.name = "condition",
     .type = Type::kOneOf,
     .flags = ArgDoc::kOptional,
     .since = "7.0.0",
     .arguments = kPexpireArgumentsCondition},
};
constexpr ArgDoc kExpireatArgumentsCondition[] = {
    {.name = "nx", .type = Type::kPureToken, .token = "NX"},
    {.name = "xx", .type = Type::kPureToken, .token = "XX"},
    {.name = "gt", .type = Type::kPureToken, .token = "GT"},
    {.name = "lt", .type = Type::kPureToken, .token = "LT"},
};
constexpr ArgDoc kExpireatArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "unix-time-seconds", .type = Type::kUnixTime},
    {.name = "condition",
     .type = Type::kOneOf,
     .flags = ArgDoc::kOptional,
     .since = "7.0.0",
     .arguments = kExpireatArgumentsCondition},
};
constexpr ArgDoc kPexpireatArgumentsCondition[] = {
    {.name = "nx", .type = Type::kPureToken, .token = "NX"},
    {.name = "xx", .type = Type::kPureToken, .token = "XX"},
    {.name = "gt", .type = Type::kPureToken, .token = "GT"},
    {.name = "lt", .type = Type::kPureToken, .token = "LT"},
};
constexpr ArgDoc kPexpireatArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "unix-time-milliseconds", .type = Type::kUnixTime},
    {.name = "condition",
     .type = Type::kOneOf,
     .flags = ArgDoc::kOptional,
     .since = "7.0.0",
     .arguments = kPexpireatArgumentsCondition},
};
constexpr ArgDoc kTtlArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kPttlArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kExpiretimeArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kPexpiretimeArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kPersistArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kScanArguments[] = {
    {.name = "cursor", .type = Type::kInteger},
    {.name = "pattern", .type = Type::kPattern, .token = "MATCH", .flags = ArgDoc::kOptional},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .flags = ArgDoc::kOptional},
    {.name = "type", .type = Type::kString, .token = "TYPE", .flags = ArgDoc::kOptional, .since = "6.0.0"},
};
constexpr ArgDoc kKeysArguments[] = {
    {.name = "pattern", .type = Type::kPattern},
};
constexpr ArgDoc kRenameArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "newkey", .type = Type::kKey, .key_spec = 1},
};
constexpr ArgDoc kCopyArguments[] = {
    {.name = "source", .type = Type::kKey},
    {.name = "destination", .type = Type::kKey, .key_spec = 1},
    {.name = "destination-db", .type = Type::kInteger, .token = "DB", .flags = ArgDoc::kOptional},
    {.name = "replace", .type = Type::kPureToken, .token = "REPLACE", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kMoveArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "db", .type = Type::kInteger},
};
constexpr ArgDoc kObjectArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kDumpArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kRestoreArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "ttl", .type = Type::kInteger},
    {.name = "serialized-value", .type = Type::kString},
    {.name = "replace", .type = Type::kPureToken, .token = "REPLACE", .flags = ArgDoc::kOptional, .since = "3.0.0"},
    {.name = "absttl", .type = Type::kPureToken, .token = "ABSTTL", .flags = ArgDoc::kOptional, .since = "5.0.0"},
    {.name = "seconds", .type = Type::kInteger, .token = "IDLETIME", .flags = ArgDoc::kOptional, .since = "5.0.0"},
    {.name = "frequency", .type = Type::kInteger, .token = "FREQ", .flags = ArgDoc::kOptional, .since = "5.0.0"},
};
constexpr ArgDoc kWaitArguments[] = {
    {.name = "numreplicas", .type = Type::kInteger},
    {.name = "timeout", .type = Type::kInteger},
};
constexpr ArgDoc kWaitaofArguments[] = {
    {.name = "numlocal", .type = Type::kInteger},
    {.name = "numreplicas", .type = Type::kInteger},
    {.name = "timeout", .type = Type::kInteger},
};

}  // namespace ebbtide

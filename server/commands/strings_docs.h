// Arguments of the string commands, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

using Type = ArgDoc::Type;

constexpr ArgDoc kGetArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kSetArgumentsCondition[] = {
    {.name = "nx", .type = Type::kPureToken, .token = "NX"},
    {.name = "xx", .type = Type::kPureToken, .token = "XX"},
};
constexpr ArgDoc kSetArgumentsExpiration[] = {
    {.name = "seconds", .type = Type::kInteger, .token = "EX", .since = "2.6.12"},
    {.name = "milliseconds", .type = Type::kInteger, .token = "PX", .since = "2.6.12"},
    {.name = "unix-time-seconds", .type = Type::kUnixTime, .token = "EXAT", .since = "6.2.0"},
    {.name = "unix-time-milliseconds", .type = Type::kUnixTime, .token = "PXAT", .since = "6.2.0"},
    {.name = "keepttl", .type = Type::kPureToken, .token = "KEEPTTL", .since = "6.0.0"},
};
constexpr ArgDoc kSetArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "value", .type = Type::kString},
    {.name = "condition",
     .type = Type::kOneOf,
     .flags = ArgDoc::kOptional,
     .since = "2.6.12",
     .arguments = kSetArgumentsCondition},
    {.name = "get", .type = Type::kPureToken, .token = "GET", .flags = ArgDoc::kOptional, .since = "6.2.0"},
    {.name = "expiration", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kSetArgumentsExpiration},
};
constexpr ArgDoc kStampSetArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "stamp", .type = Type::kInteger},
    {.name = "value", .type = Type::kString},
    {.name = "condition", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kSetArgumentsCondition},
    {.name = "get", .type = Type::kPureToken, .token = "GET", .flags = ArgDoc::kOptional},
    {.name = "expiration", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kSetArgumentsExpiration},
};
constexpr ArgDoc kSetnxArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "value", .type = Type::kString},
};
constexpr ArgDoc kSetexArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "seconds", .type = Type::kInteger},
    {.name = "value", .type = Type::kString},
};
constexpr ArgDoc kPsetexArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "milliseconds", .type = Type::kInteger},
    {.name = "value", .type = Type::kString},
};
constexpr ArgDoc kGetdelArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kGetexArgumentsExpiration[] = {
    {.name = "seconds", .type = Type::kInteger, .token = "EX"},
    {.name = "milliseconds", .type = Type::kInteger, .token = "PX"},
    {.name = "unix-time-seconds", .type = Type::kUnixTime, .token = "EXAT"},
    {.name = "unix-time-milliseconds", .type = Type::kUnixTime, .token = "PXAT"},
    {.name = "persist", .type = Type::kPureToken, .token = "PERSIST"},
};
constexpr ArgDoc kGetexArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "expiration", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kGetexArgumentsExpiration},
};
constexpr ArgDoc kGetsetArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "value", .type = Type::kString},
};
constexpr ArgDoc kMgetArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kMsetArgumentsKeyValue[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "value", .type = Type::kString},
};
constexpr ArgDoc kMsetArguments[] = {
    {.name = "key_value", .type = Type::kBlock, .flags = ArgDoc::kMultiple, .arguments = kMsetArgumentsKeyValue},
};
constexpr ArgDoc kMsetnxArgumentsKeyValue[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "value", .type = Type::kString},
};
constexpr ArgDoc kMsetnxArguments[] = {
    {.name = "key_value", .type = Type::kBlock, .flags = ArgDoc::kMultiple, .arguments = kMsetnxArgumentsKeyValue},
};
constexpr ArgDoc kAppendArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "value", .type = Type::kString},
};
constexpr ArgDoc kStrlenArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kGetrangeArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "start", .type = Type::kInteger},
    {.name = "end", .type = Type::kInteger},
};
constexpr ArgDoc kSubstrArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "start", .type = Type::kInteger},
    {.name = "end", .type = Type::kInteger},
};
constexpr ArgDoc kSetrangeArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "offset", .type = Type::kInteger},
    {.name = "value", .type = Type::kString},
};
constexpr ArgDoc kIncrArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kDecrArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kIncrbyArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "increment", .type = Type::kInteger},
};
constexpr ArgDoc kDecrbyArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "decrement", .type = Type::kInteger},
};
constexpr ArgDoc kIncrbyfloatArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "increment", .type = Type::kDouble},
};
constexpr ArgDoc kLcsArguments[] = {
    {.name = "key1", .type = Type::kKey},
    {.name = "key2", .type = Type::kKey},
    {.name = "len", .type = Type::kPureToken, .token = "LEN", .flags = ArgDoc::kOptional},
    {.name = "idx", .type = Type::kPureToken, .token = "IDX", .flags = ArgDoc::kOptional},
    {.name = "min-match-len", .type = Type::kInteger, .token = "MINMATCHLEN", .flags = ArgDoc::kOptional},
    {.name = "withmatchlen", .type = Type::kPureToken, .token = "WITHMATCHLEN", .flags = ArgDoc::kOptional},
};

}  // namespace ebbtide

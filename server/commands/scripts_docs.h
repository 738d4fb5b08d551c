// Arguments of the scripting commands, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

using Type = ArgDoc::Type;

constexpr ArgDoc kEvalArguments[] = {
    {.name = "script"},
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
    {.name = "arg", .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
};
constexpr ArgDoc kEvalshaArguments[] = {
    {.name = "sha1"},
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
    {.name = "arg", .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
};
constexpr ArgDoc kScriptDebugArgumentsMode[] = {
    {.name = "yes", .type = Type::kPureToken, .token = "YES"},
    {.name = "sync", .type = Type::kPureToken, .token = "SYNC"},
    {.name = "no", .type = Type::kPureToken, .token = "NO"},
};
constexpr ArgDoc kScriptDebugArguments[] = {
    {.name = "mode", .type = Type::kOneOf, .arguments = kScriptDebugArgumentsMode},
};
constexpr ArgDoc kScriptExistsArguments[] = {
    {.name = "sha1", .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kScriptFlushArgumentsFlushType[] = {
    {.name = "async", .type = Type::kPureToken, .token = "ASYNC"},
    {.name = "sync", .type = Type::kPureToken, .token = "SYNC"},
};
constexpr ArgDoc kScriptFlushArguments[] = {
    {.name = "flush-type",
     .type = Type::kOneOf,
     .flags = ArgDoc::kOptional,
     .since = "6.2.0",
     .arguments = kScriptFlushArgumentsFlushType},
};
constexpr ArgDoc kScriptLoadArguments[] = {
    {.name = "script"},
};

}  // namespace ebbtide

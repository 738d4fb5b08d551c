// Arguments of the hash commands, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

using Type = ArgDoc::Type;

constexpr ArgDoc kHdelArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "field", .type = Type::kString, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kHexistsArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "field", .type = Type::kString},
};
constexpr ArgDoc kHgetArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "field", .type = Type::kString},
};
constexpr ArgDoc kHgetallArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kHincrbyArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "field", .type = Type::kString},
    {.name = "increment", .type = Type::kInteger},
};
constexpr ArgDoc kHincrbyfloatArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "field", .type = Type::kString},
    {.name = "increment", .type = Type::kDouble},
};
constexpr ArgDoc kHkeysArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kHlenArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kHmgetArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "field", .type = Type::kString, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kHmsetArgumentsData[] = {
    {.name = "field", .type = Type::kString},
    {.name = "value", .type = Type::kString},
};
constexpr ArgDoc kHmsetArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "data", .type = Type::kBlock, .flags = ArgDoc::kMultiple, .arguments = kHmsetArgumentsData},
};
constexpr ArgDoc kHrandfieldArgumentsOptions[] = {
    {.name = "count", .type = Type::kInteger},
    {.name = "withvalues", .type = Type::kPureToken, .token = "WITHVALUES", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kHrandfieldArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "options", .type = Type::kBlock, .flags = ArgDoc::kOptional, .arguments = kHrandfieldArgumentsOptions},
};
constexpr ArgDoc kHscanArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "cursor", .type = Type::kInteger},
    {.name = "pattern", .type = Type::kPattern, .token = "MATCH", .flags = ArgDoc::kOptional},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kHsetArgumentsData[] = {
    {.name = "field", .type = Type::kString},
    {.name = "value", .type = Type::kString},
};
constexpr ArgDoc kHsetArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "data", .type = Type::kBlock, .flags = ArgDoc::kMultiple, .arguments = kHsetArgumentsData},
};
constexpr ArgDoc kHsetnxArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "field", .type = Type::kString},
    {.name = "value", .type = Type::kString},
};
constexpr ArgDoc kHstrlenArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "field", .type = Type::kString},
};
constexpr ArgDoc kHvalsArguments[] = {
    {.name = "key", .type = Type::kKey},
};

}  // namespace ebbtide

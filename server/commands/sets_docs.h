// Arguments of the set commands, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

using Type = ArgDoc::Type;

constexpr ArgDoc kSaddArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "member", .type = Type::kString, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kScardArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kSdiffArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kSdiffstoreArguments[] = {
    {.name = "destination", .type = Type::kKey},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple, .key_spec = 1},
};
constexpr ArgDoc kSinterArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kSintercardArguments[] = {
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "limit", .type = Type::kInteger, .token = "LIMIT", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kSinterstoreArguments[] = {
    {.name = "destination", .type = Type::kKey},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple, .key_spec = 1},
};
constexpr ArgDoc kSismemberArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "member", .type = Type::kString},
};
constexpr ArgDoc kSmembersArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kSmismemberArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "member", .type = Type::kString, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kSmoveArguments[] = {
    {.name = "source", .type = Type::kKey},
    {.name = "destination", .type = Type::kKey, .key_spec = 1},
    {.name = "member", .type = Type::kString},
};
constexpr ArgDoc kSpopArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "count", .type = Type::kInteger, .flags = ArgDoc::kOptional, .since = "3.2.0"},
};
constexpr ArgDoc kSrandmemberArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "count", .type = Type::kInteger, .flags = ArgDoc::kOptional, .since = "2.6.0"},
};
constexpr ArgDoc kSremArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "member", .type = Type::kString, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kSscanArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "cursor", .type = Type::kInteger},
    {.name = "pattern", .type = Type::kPattern, .token = "MATCH", .flags = ArgDoc::kOptional},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kSunionArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kSunionstoreArguments[] = {
    {.name = "destination", .type = Type::kKey},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple, .key_spec = 1},
};

}  // namespace ebbtide

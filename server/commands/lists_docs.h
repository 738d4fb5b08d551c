// Arguments of the list commands, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

using Type = ArgDoc::Type;

constexpr ArgDoc kBlmoveArgumentsWherefrom[] = {
    {.name = "left", .type = Type::kPureToken, .token = "LEFT"},
    {.name = "right", .type = Type::kPureToken, .token = "RIGHT"},
};
constexpr ArgDoc kBlmoveArgumentsWhereto[] = {
    {.name = "left", .type = Type::kPureToken, .token = "LEFT"},
    {.name = "right", .type = Type::kPureToken, .token = "RIGHT"},
};
constexpr ArgDoc kBlmoveArguments[] = {
    {.name = "source", .type = Type::kKey},
    {.name = "destination", .type = Type::kKey, .key_spec = 1},
    {.name = "wherefrom", .type = Type::kOneOf, .arguments = kBlmoveArgumentsWherefrom},
    {.name = "whereto", .type = Type::kOneOf, .arguments = kBlmoveArgumentsWhereto},
    {.name = "timeout", .type = Type::kDouble},
};
constexpr ArgDoc kBlmpopArgumentsWhere[] = {
    {.name = "left", .type = Type::kPureToken, .token = "LEFT"},
    {.name = "right", .type = Type::kPureToken, .token = "RIGHT"},
};
constexpr ArgDoc kBlmpopArguments[] = {
    {.name = "timeout", .type = Type::kDouble},
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "where", .type = Type::kOneOf, .arguments = kBlmpopArgumentsWhere},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kBlpopArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "timeout", .type = Type::kDouble},
};
constexpr ArgDoc kBrpopArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "timeout", .type = Type::kDouble},
};
constexpr ArgDoc kBrpoplpushArguments[] = {
    {.name = "source", .type = Type::kKey},
    {.name = "destination", .type = Type::kKey, .key_spec = 1},
    {.name = "timeout", .type = Type::kDouble},
};
constexpr ArgDoc kLindexArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "index", .type = Type::kInteger},
};
constexpr ArgDoc kLinsertArgumentsWhere[] = {
    {.name = "before", .type = Type::kPureToken, .token = "BEFORE"},
    {.name = "after", .type = Type::kPureToken, .token = "AFTER"},
};
constexpr ArgDoc kLinsertArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "where", .type = Type::kOneOf, .arguments = kLinsertArgumentsWhere},
    {.name = "pivot", .type = Type::kString},
    {.name = "element", .type = Type::kString},
};
constexpr ArgDoc kLlenArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kLmoveArgumentsWherefrom[] = {
    {.name = "left", .type = Type::kPureToken, .token = "LEFT"},
    {.name = "right", .type = Type::kPureToken, .token = "RIGHT"},
};
constexpr ArgDoc kLmoveArgumentsWhereto[] = {
    {.name = "left", .type = Type::kPureToken, .token = "LEFT"},
    {.name = "right", .type = Type::kPureToken, .token = "RIGHT"},
};
constexpr ArgDoc kLmoveArguments[] = {
    {.name = "source", .type = Type::kKey},
    {.name = "destination", .type = Type::kKey, .key_spec = 1},
    {.name = "wherefrom", .type = Type::kOneOf, .arguments = kLmoveArgumentsWherefrom},
    {.name = "whereto", .type = Type::kOneOf, .arguments = kLmoveArgumentsWhereto},
};
constexpr ArgDoc kLmpopArgumentsWhere[] = {
    {.name = "left", .type = Type::kPureToken, .token = "LEFT"},
    {.name = "right", .type = Type::kPureToken, .token = "RIGHT"},
};
constexpr ArgDoc kLmpopArguments[] = {
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "where", .type = Type::kOneOf, .arguments = kLmpopArgumentsWhere},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kLpopArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "count", .type = Type::kInteger, .flags = ArgDoc::kOptional, .since = "6.2.0"},
};
constexpr ArgDoc kLposArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "element", .type = Type::kString},
    {.name = "rank", .type = Type::kInteger, .token = "RANK", .flags = ArgDoc::kOptional},
    {.name = "num-matches", .type = Type::kInteger, .token = "COUNT", .flags = ArgDoc::kOptional},
    {.name = "len", .type = Type::kInteger, .token = "MAXLEN", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kLpushArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "element", .type = Type::kString, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kLpushxArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "element", .type = Type::kString, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kLrangeArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "start", .type = Type::kInteger},
    {.name = "stop", .type = Type::kInteger},
};
constexpr ArgDoc kLremArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "count", .type = Type::kInteger},
    {.name = "element", .type = Type::kString},
};
constexpr ArgDoc kLsetArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "index", .type = Type::kInteger},
    {.name = "element", .type = Type::kString},
};
constexpr ArgDoc kLtrimArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "start", .type = Type::kInteger},
    {.name = "stop", .type = Type::kInteger},
};
constexpr ArgDoc kRpopArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "count", .type = Type::kInteger, .flags = ArgDoc::kOptional, .since = "6.2.0"},
};
constexpr ArgDoc kRpoplpushArguments[] = {
    {.name = "source", .type = Type::kKey},
    {.name = "destination", .type = Type::kKey, .key_spec = 1},
};
constexpr ArgDoc kRpushArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "element", .type = Type::kString, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kRpushxArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "element", .type = Type::kString, .flags = ArgDoc::kMultiple},
};

}  // namespace ebbtide

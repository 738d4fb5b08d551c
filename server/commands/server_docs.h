// Arguments of the server commands, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

using Type = ArgDoc::Type;

constexpr ArgDoc kFlushdbArgumentsAsync[] = {
    {.name = "async", .type = Type::kPureToken, .token = "ASYNC", .since = "4.0.0"},
    {.name = "sync", .type = Type::kPureToken, .token = "SYNC", .since = "6.2.0"},
};
constexpr ArgDoc kFlushdbArguments[] = {
    {.name = "async", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kFlushdbArgumentsAsync},
};
constexpr ArgDoc kFlushallArgumentsAsync[] = {
    {.name = "async", .type = Type::kPureToken, .token = "ASYNC", .since = "4.0.0"},
    {.name = "sync", .type = Type::kPureToken, .token = "SYNC", .since = "6.2.0"},
};
constexpr ArgDoc kFlushallArguments[] = {
    {.name = "async", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kFlushallArgumentsAsync},
};
constexpr ArgDoc kSwapdbArguments[] = {
    {.name = "index1", .type = Type::kInteger},
    {.name = "index2", .type = Type::kInteger},
};
constexpr ArgDoc kInfoArguments[] = {
    {.name = "section", .type = Type::kString, .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
};
constexpr ArgDoc kConfigGetArgumentsParameter[] = {
    {.name = "parameter", .type = Type::kString},
};
constexpr ArgDoc kConfigGetArguments[] = {
    {.name = "parameter", .type = Type::kBlock, .flags = ArgDoc::kMultiple, .arguments = kConfigGetArgumentsParameter},
};
constexpr ArgDoc kConfigSetArgumentsParameterValue[] = {
    {.name = "parameter", .type = Type::kString},
    {.name = "value", .type = Type::kString},
};
constexpr ArgDoc kConfigSetArguments[] = {
    {.name = "parameter_value", .type = Type::kBlock, .flags = ArgDoc::kMultiple, .arguments = kConfigSetArgumentsParameterValue},
};
constexpr ArgDoc kCommandInfoArguments[] = {
    {.name = "command-name", .type = Type::kString, .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
};
constexpr ArgDoc kCommandDocsArguments[] = {
    {.name = "command-name", .type = Type::kString, .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
};
constexpr ArgDoc kCommandListArgumentsFilterby[] = {
    {.name = "module-name", .type = Type::kString, .token = "MODULE"},
    {.name = "category", .type = Type::kString, .token = "ACLCAT"},
    {.name = "pattern", .type = Type::kPattern, .token = "PATTERN"},
};
constexpr ArgDoc kCommandListArguments[] = {
    {.name = "filterby",
     .type = Type::kOneOf,
     .token = "FILTERBY",
     .flags = ArgDoc::kOptional,
     .arguments = kCommandListArgumentsFilterby},
};
constexpr ArgDoc kBgsaveArguments[] = {
    {.name = "schedule", .type = Type::kPureToken, .token = "SCHEDULE", .flags = ArgDoc::kOptional, .since = "3.2.2"},
};
constexpr ArgDoc kShutdownArgumentsNosaveSave[] = {
    {.name = "nosave", .type = Type::kPureToken, .token = "NOSAVE"},
    {.name = "save", .type = Type::kPureToken, .token = "SAVE"},
};
constexpr ArgDoc kShutdownArguments[] = {
    {.name = "nosave_save", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kShutdownArgumentsNosaveSave},
    {.name = "now", .type = Type::kPureToken, .token = "NOW", .flags = ArgDoc::kOptional, .since = "7.0.0"},
    {.name = "force", .type = Type::kPureToken, .token = "FORCE", .flags = ArgDoc::kOptional, .since = "7.0.0"},
    {.name = "abort", .type = Type::kPureToken, .token = "ABORT", .flags = ArgDoc::kOptional, .since = "7.0.0"},
};

}  // namespace ebbtide

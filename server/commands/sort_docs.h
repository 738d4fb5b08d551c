// Arguments of SORT and SORT_RO, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

using Type = ArgDoc::Type;

constexpr ArgDoc kSortLimit[] = {
    {.name = "offset", .type = Type::kInteger},
    {.name = "count", .type = Type::kInteger},
};
constexpr ArgDoc kSortOrder[] = {
    {.name = "asc", .type = Type::kPureToken, .token = "ASC"},
    {.name = "desc", .type = Type::kPureToken, .token = "DESC"},
};
constexpr ArgDoc kSortArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "by-pattern",
     .type = Type::kPattern,
     .token = "BY",
     .flags = ArgDoc::kOptional,
     .key_spec = 1,
     .display = "pattern"},
    {.name = "limit", .type = Type::kBlock, .token = "LIMIT", .flags = ArgDoc::kOptional, .arguments = kSortLimit},
    {.name = "get-pattern",
     .type = Type::kPattern,
     .token = "GET",
     .flags = ArgDoc::kOptional | ArgDoc::kMultiple | ArgDoc::kMultipleToken,
     .key_spec = 1,
     .display = "pattern"},
    {.name = "order", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kSortOrder},
    {.name = "sorting", .type = Type::kPureToken, .token = "ALPHA", .flags = ArgDoc::kOptional},
    {.name = "destination", .type = Type::kKey, .token = "STORE", .flags = ArgDoc::kOptional, .key_spec = 2},
};

}  // namespace ebbtide

// Arguments of the sorted set commands, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

using Type = ArgDoc::Type;

constexpr ArgDoc kBzmpopArgumentsWhere[] = {
    {.name = "min", .type = Type::kPureToken, .token = "MIN"},
    {.name = "max", .type = Type::kPureToken, .token = "MAX"},
};
constexpr ArgDoc kBzmpopArguments[] = {
    {.name = "timeout", .type = Type::kDouble},
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "where", .type = Type::kOneOf, .arguments = kBzmpopArgumentsWhere},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kBzpopmaxArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "timeout", .type = Type::kDouble},
};
constexpr ArgDoc kBzpopminArguments[] = {
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "timeout", .type = Type::kDouble},
};
constexpr ArgDoc kZaddArgumentsCondition[] = {
    {.name = "nx", .type = Type::kPureToken, .token = "NX"},
    {.name = "xx", .type = Type::kPureToken, .token = "XX"},
};
constexpr ArgDoc kZaddArgumentsComparison[] = {
    {.name = "gt", .type = Type::kPureToken, .token = "GT"},
    {.name = "lt", .type = Type::kPureToken, .token = "LT"},
};
constexpr ArgDoc kZaddArgumentsData[] = {
    {.name = "score", .type = Type::kDouble},
    {.name = "member", .type = Type::kString},
};
constexpr ArgDoc kZaddArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "condition",
     .type = Type::kOneOf,
     .flags = ArgDoc::kOptional,
     .since = "3.0.2",
     .arguments = kZaddArgumentsCondition},
    {.name = "comparison",
     .type = Type::kOneOf,
     .flags = ArgDoc::kOptional,
     .since = "6.2.0",
     .arguments = kZaddArgumentsComparison},
    {.name = "change", .type = Type::kPureToken, .token = "CH", .flags = ArgDoc::kOptional, .since = "3.0.2"},
    {.name = "increment", .type = Type::kPureToken, .token = "INCR", .flags = ArgDoc::kOptional, .since = "3.0.2"},
    {.name = "data", .type = Type::kBlock, .flags = ArgDoc::kMultiple, .arguments = kZaddArgumentsData},
};
constexpr ArgDoc kZcardArguments[] = {
    {.name = "key", .type = Type::kKey},
};
constexpr ArgDoc kZcountArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "min", .type = Type::kDouble},
    {.name = "max", .type = Type::kDouble},
};
constexpr ArgDoc kZdiffArguments[] = {
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "withscores", .type = Type::kPureToken, .token = "WITHSCORES", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZdiffstoreArguments[] = {
    {.name = "destination", .type = Type::kKey},
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple, .key_spec = 1},
};
constexpr ArgDoc kZincrbyArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "increment", .type = Type::kInteger},
    {.name = "member", .type = Type::kString},
};
constexpr ArgDoc kZinterArgumentsAggregate[] = {
    {.name = "sum", .type = Type::kPureToken, .token = "SUM"},
    {.name = "min", .type = Type::kPureToken, .token = "MIN"},
    {.name = "max", .type = Type::kPureToken, .token = "MAX"},
};
constexpr ArgDoc kZinterArguments[] = {
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "weight", .type = Type::kInteger, .token = "WEIGHTS", .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
    {.name = "aggregate",
     .type = Type::kOneOf,
     .token = "AGGREGATE",
     .flags = ArgDoc::kOptional,
     .arguments = kZinterArgumentsAggregate},
    {.name = "withscores", .type = Type::kPureToken, .token = "WITHSCORES", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZintercardArguments[] = {
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "limit", .type = Type::kInteger, .token = "LIMIT", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZinterstoreArgumentsAggregate[] = {
    {.name = "sum", .type = Type::kPureToken, .token = "SUM"},
    {.name = "min", .type = Type::kPureToken, .token = "MIN"},
    {.name = "max", .type = Type::kPureToken, .token = "MAX"},
};
constexpr ArgDoc kZinterstoreArguments[] = {
    {.name = "destination", .type = Type::kKey},
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple, .key_spec = 1},
    {.name = "weight", .type = Type::kInteger, .token = "WEIGHTS", .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
    {.name = "aggregate",
     .type = Type::kOneOf,
     .token = "AGGREGATE",
     .flags = ArgDoc::kOptional,
     .arguments = kZinterstoreArgumentsAggregate},
};
constexpr ArgDoc kZlexcountArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "min", .type = Type::kString},
    {.name = "max", .type = Type::kString},
};
constexpr ArgDoc kZmpopArgumentsWhere[] = {
    {.name = "min", .type = Type::kPureToken, .token = "MIN"},
    {.name = "max", .type = Type::kPureToken, .token = "MAX"},
};
constexpr ArgDoc kZmpopArguments[] = {
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "where", .type = Type::kOneOf, .arguments = kZmpopArgumentsWhere},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZmscoreArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "member", .type = Type::kString, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kZpopmaxArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "count", .type = Type::kInteger, .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZpopminArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "count", .type = Type::kInteger, .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZrandmemberArgumentsOptions[] = {
    {.name = "count", .type = Type::kInteger},
    {.name = "withscores", .type = Type::kPureToken, .token = "WITHSCORES", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZrandmemberArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "options", .type = Type::kBlock, .flags = ArgDoc::kOptional, .arguments = kZrandmemberArgumentsOptions},
};
constexpr ArgDoc kZrangeArgumentsSortby[] = {
    {.name = "byscore", .type = Type::kPureToken, .token = "BYSCORE"},
    {.name = "bylex", .type = Type::kPureToken, .token = "BYLEX"},
};
constexpr ArgDoc kZrangeArgumentsLimit[] = {
    {.name = "offset", .type = Type::kInteger},
    {.name = "count", .type = Type::kInteger},
};
constexpr ArgDoc kZrangeArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "start", .type = Type::kString},
    {.name = "stop", .type = Type::kString},
    {.name = "sortby", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .since = "6.2.0", .arguments = kZrangeArgumentsSortby},
    {.name = "rev", .type = Type::kPureToken, .token = "REV", .flags = ArgDoc::kOptional, .since = "6.2.0"},
    {.name = "limit",
     .type = Type::kBlock,
     .token = "LIMIT",
     .flags = ArgDoc::kOptional,
     .since = "6.2.0",
     .arguments = kZrangeArgumentsLimit},
    {.name = "withscores", .type = Type::kPureToken, .token = "WITHSCORES", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZrangebylexArgumentsLimit[] = {
    {.name = "offset", .type = Type::kInteger},
    {.name = "count", .type = Type::kInteger},
};
constexpr ArgDoc kZrangebylexArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "min", .type = Type::kString},
    {.name = "max", .type = Type::kString},
    {.name = "limit",
     .type = Type::kBlock,
     .token = "LIMIT",
     .flags = ArgDoc::kOptional,
     .arguments = kZrangebylexArgumentsLimit},
};
constexpr ArgDoc kZrangebyscoreArgumentsLimit[] = {
    {.name = "offset", .type = Type::kInteger},
    {.name = "count", .type = Type::kInteger},
};
constexpr ArgDoc kZrangebyscoreArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "min", .type = Type::kDouble},
    {.name = "max", .type = Type::kDouble},
    {.name = "withscores", .type = Type::kPureToken, .token = "WITHSCORES", .flags = ArgDoc::kOptional, .since = "2.0.0"},
    {.name = "limit",
     .type = Type::kBlock,
     .token = "LIMIT",
     .flags = ArgDoc::kOptional,
     .arguments = kZrangebyscoreArgumentsLimit},
};
constexpr ArgDoc kZrangestoreArgumentsSortby[] = {
    {.name = "byscore", .type = Type::kPureToken, .token = "BYSCORE"},
    {.name = "bylex", .type = Type::kPureToken, .token = "BYLEX"},
};
constexpr ArgDoc kZrangestoreArgumentsLimit[] = {
    {.name = "offset", .type = Type::kInteger},
    {.name = "count", .type = Type::kInteger},
};
constexpr ArgDoc kZrangestoreArguments[] = {
    {.name = "dst", .type = Type::kKey},
    {.name = "src", .type = Type::kKey, .key_spec = 1},
    {.name = "min", .type = Type::kString},
    {.name = "max", .type = Type::kString},
    {.name = "sortby", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kZrangestoreArgumentsSortby},
    {.name = "rev", .type = Type::kPureToken, .token = "REV", .flags = ArgDoc::kOptional},
    {.name = "limit",
     .type = Type::kBlock,
     .token = "LIMIT",
     .flags = ArgDoc::kOptional,
     .arguments = kZrangestoreArgumentsLimit},
};
constexpr ArgDoc kZrankArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "member", .type = Type::kString},
    {.name = "withscore", .type = Type::kPureToken, .token = "WITHSCORE", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZremArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "member", .type = Type::kString, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kZremrangebylexArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "min", .type = Type::kString},
    {.name = "max", .type = Type::kString},
};
constexpr ArgDoc kZremrangebyrankArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "start", .type = Type::kInteger},
    {.name = "stop", .type = Type::kInteger},
};
constexpr ArgDoc kZremrangebyscoreArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "min", .type = Type::kDouble},
    {.name = "max", .type = Type::kDouble},
};
constexpr ArgDoc kZrevrangeArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "start", .type = Type::kInteger},
    {.name = "stop", .type = Type::kInteger},
    {.name = "withscores", .type = Type::kPureToken, .token = "WITHSCORES", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZrevrangebylexArgumentsLimit[] = {
    {.name = "offset", .type = Type::kInteger},
    {.name = "count", .type = Type::kInteger},
};
constexpr ArgDoc kZrevrangebylexArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "max", .type = Type::kString},
    {.name = "min", .type = Type::kString},
    {.name = "limit",
     .type = Type::kBlock,
     .token = "LIMIT",
     .flags = ArgDoc::kOptional,
     .arguments = kZrevrangebylexArgumentsLimit},
};
constexpr ArgDoc kZrevrangebyscoreArgumentsLimit[] = {
    {.name = "offset", .type = Type::kInteger},
    {.name = "count", .type = Type::kInteger},
};
constexpr ArgDoc kZrevrangebyscoreArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "max", .type = Type::kDouble},
    {.name = "min", .type = Type::kDouble},
    {.name = "withscores", .type = Type::kPureToken, .token = "WITHSCORES", .flags = ArgDoc::kOptional},
    {.name = "limit",
     .type = Type::kBlock,
     .token = "LIMIT",
     .flags = ArgDoc::kOptional,
     .arguments = kZrevrangebyscoreArgumentsLimit},
};
constexpr ArgDoc kZrevrankArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "member", .type = Type::kString},
    {.name = "withscore", .type = Type::kPureToken, .token = "WITHSCORE", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZscanArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "cursor", .type = Type::kInteger},
    {.name = "pattern", .type = Type::kPattern, .token = "MATCH", .flags = ArgDoc::kOptional},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZscoreArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "member", .type = Type::kString},
};
constexpr ArgDoc kZunionArgumentsAggregate[] = {
    {.name = "sum", .type = Type::kPureToken, .token = "SUM"},
    {.name = "min", .type = Type::kPureToken, .token = "MIN"},
    {.name = "max", .type = Type::kPureToken, .token = "MAX"},
};
constexpr ArgDoc kZunionArguments[] = {
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple},
    {.name = "weight", .type = Type::kInteger, .token = "WEIGHTS", .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
    {.name = "aggregate",
     .type = Type::kOneOf,
     .token = "AGGREGATE",
     .flags = ArgDoc::kOptional,
     .arguments = kZunionArgumentsAggregate},
    {.name = "withscores", .type = Type::kPureToken, .token = "WITHSCORES", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kZunionstoreArgumentsAggregate[] = {
    {.name = "sum", .type = Type::kPureToken, .token = "SUM"},
    {.name = "min", .type = Type::kPureToken, .token = "MIN"},
    {.name = "max", .type = Type::kPureToken, .token = "MAX"},
};
constexpr ArgDoc kZunionstoreArguments[] = {
    {.name = "destination", .type = Type::kKey},
    {.name = "numkeys", .type = Type::kInteger},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple, .key_spec = 1},
    {.name = "weight", .type = Type::kInteger, .token = "WEIGHTS", .flags = ArgDoc::kOptional | ArgDoc::kMultiple},
    {.name = "aggregate",
     .type = Type::kOneOf,
     .token = "AGGREGATE",
     .flags = ArgDoc::kOptional,
     .arguments = kZunionstoreArgumentsAggregate},
};

}  // namespace ebbtide

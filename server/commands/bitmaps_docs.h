// Arguments of the bitmap commands, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

using Type = ArgDoc::Type;

constexpr ArgDoc kSetbitArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "offset", .type = Type::kInteger},
    {.name = "value", .type = Type::kInteger},
};
constexpr ArgDoc kGetbitArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "offset", .type = Type::kInteger},
};
constexpr ArgDoc kBitUnit[] = {
    {.name = "byte", .type = Type::kPureToken, .token = "BYTE"},
    {.name = "bit", .type = Type::kPureToken, .token = "BIT"},
};
constexpr ArgDoc kBitcountArgumentsRange[] = {
    {.name = "start", .type = Type::kInteger},
    {.name = "end", .type = Type::kInteger},
    {.name = "unit", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .since = "7.0.0", .arguments = kBitUnit},
};
constexpr ArgDoc kBitcountArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "range", .type = Type::kBlock, .flags = ArgDoc::kOptional, .arguments = kBitcountArgumentsRange},
};
constexpr ArgDoc kBitposArgumentsEnd[] = {
    {.name = "end", .type = Type::kInteger},
    {.name = "unit", .type = Type::kOneOf, .flags = ArgDoc::kOptional, .since = "7.0.0", .arguments = kBitUnit},
};
constexpr ArgDoc kBitposArgumentsRange[] = {
    {.name = "start", .type = Type::kInteger},
    {.name = "end-unit-block", .type = Type::kBlock, .flags = ArgDoc::kOptional, .arguments = kBitposArgumentsEnd},
};
constexpr ArgDoc kBitposArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "bit", .type = Type::kInteger},
    {.name = "range", .type = Type::kBlock, .flags = ArgDoc::kOptional, .arguments = kBitposArgumentsRange},
};
constexpr ArgDoc kBitopArgumentsOperation[] = {
    {.name = "and", .type = Type::kPureToken, .token = "AND"},
    {.name = "or", .type = Type::kPureToken, .token = "OR"},
    {.name = "xor", .type = Type::kPureToken, .token = "XOR"},
    {.name = "not", .type = Type::kPureToken, .token = "NOT"},
};
constexpr ArgDoc kBitopArguments[] = {
    {.name = "operation", .type = Type::kOneOf, .arguments = kBitopArgumentsOperation},
    {.name = "destkey", .type = Type::kKey},
    {.name = "key", .type = Type::kKey, .flags = ArgDoc::kMultiple, .key_spec = 1},
};
constexpr ArgDoc kFieldGet[] = {
    {.name = "encoding", .type = Type::kString},
    {.name = "offset", .type = Type::kInteger},
};
constexpr ArgDoc kFieldSet[] = {
    {.name = "encoding", .type = Type::kString},
    {.name = "offset", .type = Type::kInteger},
    {.name = "value", .type = Type::kInteger},
};
constexpr ArgDoc kFieldIncrby[] = {
    {.name = "encoding", .type = Type::kString},
    {.name = "offset", .type = Type::kInteger},
    {.name = "increment", .type = Type::kInteger},
};
constexpr ArgDoc kFieldOverflow[] = {
    {.name = "wrap", .type = Type::kPureToken, .token = "WRAP"},
    {.name = "sat", .type = Type::kPureToken, .token = "SAT"},
    {.name = "fail", .type = Type::kPureToken, .token = "FAIL"},
};
constexpr ArgDoc kFieldWriteOperation[] = {
    {.name = "set-block", .type = Type::kBlock, .token = "SET", .arguments = kFieldSet},
    {.name = "incrby-block", .type = Type::kBlock, .token = "INCRBY", .arguments = kFieldIncrby},
};
constexpr ArgDoc kFieldWrite[] = {
    {.name = "overflow-block",
     .type = Type::kOneOf,
     .token = "OVERFLOW",
     .flags = ArgDoc::kOptional,
     .arguments = kFieldOverflow},
    {.name = "write-operation", .type = Type::kOneOf, .arguments = kFieldWriteOperation},
};
constexpr ArgDoc kFieldOperation[] = {
    {.name = "get-block", .type = Type::kBlock, .token = "GET", .arguments = kFieldGet},
    {.name = "write", .type = Type::kBlock, .arguments = kFieldWrite},
};
constexpr ArgDoc kBitfieldArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "operation", .type = Type::kOneOf, .flags = ArgDoc::kOptional | ArgDoc::kMultiple, .arguments = kFieldOperation},
};
constexpr ArgDoc kBitfieldRoArguments[] = {
    {.name = "key", .type = Type::kKey},
    {.name = "get-block",
     .type = Type::kBlock,
     .token = "GET",
     .flags = ArgDoc::kOptional | ArgDoc::kMultiple | ArgDoc::kMultipleToken,
     .arguments = kFieldGet},
};

}  // namespace ebbtide

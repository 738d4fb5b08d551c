// The subcommands of CLIENT for tracking, PAUSE and UNBLOCK. Their specs are in client.cc.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

Status client_tracking(Ctx& ctx);
Status client_caching(Ctx& ctx);
Status client_getredir(Ctx& ctx);
Status client_trackinginfo(Ctx& ctx);
Status client_pause(Ctx& ctx);
Status client_unpause(Ctx& ctx);
Status client_unblock(Ctx& ctx);

constexpr ArgDoc kTrackingStatus[] = {
    {.name = "on", .type = ArgDoc::Type::kPureToken, .token = "ON"},
    {.name = "off", .type = ArgDoc::Type::kPureToken, .token = "OFF"},
};
constexpr ArgDoc kTrackingArguments[] = {
    {.name = "status", .type = ArgDoc::Type::kOneOf, .arguments = kTrackingStatus},
    {.name = "client-id", .type = ArgDoc::Type::kInteger, .token = "REDIRECT", .flags = ArgDoc::kOptional},
    {.name = "prefix", .token = "PREFIX", .flags = ArgDoc::kOptional | ArgDoc::kMultiple | ArgDoc::kMultipleToken},
    {.name = "bcast", .type = ArgDoc::Type::kPureToken, .token = "BCAST", .flags = ArgDoc::kOptional},
    {.name = "optin", .type = ArgDoc::Type::kPureToken, .token = "OPTIN", .flags = ArgDoc::kOptional},
    {.name = "optout", .type = ArgDoc::Type::kPureToken, .token = "OPTOUT", .flags = ArgDoc::kOptional},
    {.name = "noloop", .type = ArgDoc::Type::kPureToken, .token = "NOLOOP", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kCachingModes[] = {
    {.name = "yes", .type = ArgDoc::Type::kPureToken, .token = "YES"},
    {.name = "no", .type = ArgDoc::Type::kPureToken, .token = "NO"},
};
constexpr ArgDoc kCachingArguments[] = {{.name = "mode", .type = ArgDoc::Type::kOneOf, .arguments = kCachingModes}};
constexpr ArgDoc kPauseModes[] = {
    {.name = "write", .type = ArgDoc::Type::kPureToken, .token = "WRITE"},
    {.name = "all", .type = ArgDoc::Type::kPureToken, .token = "ALL"},
};
constexpr ArgDoc kPauseArguments[] = {
    {.name = "timeout", .type = ArgDoc::Type::kInteger},
    {.name = "mode", .type = ArgDoc::Type::kOneOf, .flags = ArgDoc::kOptional, .since = "6.2.0", .arguments = kPauseModes},
};
constexpr ArgDoc kUnblockTypes[] = {
    {.name = "timeout", .type = ArgDoc::Type::kPureToken, .token = "TIMEOUT"},
    {.name = "error", .type = ArgDoc::Type::kPureToken, .token = "ERROR"},
};
constexpr ArgDoc kUnblockArguments[] = {
    {.name = "client-id", .type = ArgDoc::Type::kInteger},
    {.name = "unblock-type", .type = ArgDoc::Type::kOneOf, .flags = ArgDoc::kOptional, .arguments = kUnblockTypes},
};

}  // namespace ebbtide

// Arguments of the connection commands, for COMMAND DOCS.
#pragma once

#include "dispatch/spec.h"

namespace ebbtide {

using Type = ArgDoc::Type;

constexpr ArgDoc kPingArguments[] = {
    {.name = "message", .type = Type::kString, .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kEchoArguments[] = {
    {.name = "message", .type = Type::kString},
};
constexpr ArgDoc kHelloArgumentsArgumentsUsernamePassword[] = {
    {.name = "username", .type = Type::kString},
    {.name = "password", .type = Type::kString},
};
constexpr ArgDoc kHelloArgumentsArguments[] = {
    {.name = "protover", .type = Type::kInteger},
    {.name = "username_password",
     .type = Type::kBlock,
     .token = "AUTH",
     .flags = ArgDoc::kOptional,
     .arguments = kHelloArgumentsArgumentsUsernamePassword},
    {.name = "clientname", .type = Type::kString, .token = "SETNAME", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kHelloArguments[] = {
    {.name = "arguments", .type = Type::kBlock, .flags = ArgDoc::kOptional, .arguments = kHelloArgumentsArguments},
};
constexpr ArgDoc kAuthArguments[] = {
    {.name = "username", .type = Type::kString, .flags = ArgDoc::kOptional, .since = "6.0.0"},
    {.name = "password", .type = Type::kString},
};
constexpr ArgDoc kSelectArguments[] = {
    {.name = "index", .type = Type::kInteger},
};
constexpr ArgDoc kClientSetnameArguments[] = {
    {.name = "connection-name", .type = Type::kString},
};
constexpr ArgDoc kClientListArgumentsNormalMasterReplicaPubsub[] = {
    {.name = "normal", .type = Type::kPureToken, .token = "NORMAL"},
    {.name = "master", .type = Type::kPureToken, .token = "MASTER"},
    {.name = "replica", .type = Type::kPureToken, .token = "REPLICA"},
    {.name = "pubsub", .type = Type::kPureToken, .token = "PUBSUB"},
};
constexpr ArgDoc kClientListArgumentsId[] = {
    {.name = "client-id", .type = Type::kInteger, .flags = ArgDoc::kMultiple},
};
constexpr ArgDoc kClientListArguments[] = {
    {.name = "normal_master_replica_pubsub",
     .type = Type::kOneOf,
     .token = "TYPE",
     .flags = ArgDoc::kOptional,
     .since = "5.0.0",
     .arguments = kClientListArgumentsNormalMasterReplicaPubsub},
    {.name = "id",
     .type = Type::kBlock,
     .token = "ID",
     .flags = ArgDoc::kOptional,
     .since = "6.2.0",
     .arguments = kClientListArgumentsId},
};
constexpr ArgDoc kClientNoEvictArgumentsEnabled[] = {
    {.name = "on", .type = Type::kPureToken, .token = "ON"},
    {.name = "off", .type = Type::kPureToken, .token = "OFF"},
};
constexpr ArgDoc kClientNoEvictArguments[] = {
    {.name = "enabled", .type = Type::kOneOf, .arguments = kClientNoEvictArgumentsEnabled},
};
constexpr ArgDoc kClientReplyArgumentsOnOffSkip[] = {
    {.name = "on", .type = Type::kPureToken, .token = "ON"},
    {.name = "off", .type = Type::kPureToken, .token = "OFF"},
    {.name = "skip", .type = Type::kPureToken, .token = "SKIP"},
};
constexpr ArgDoc kClientReplyArguments[] = {
    {.name = "on_off_skip", .type = Type::kOneOf, .arguments = kClientReplyArgumentsOnOffSkip},
};
constexpr ArgDoc kClientKillArgumentsFilterNewFormatNormalMasterSlavePubsub[] = {
    {.name = "normal", .type = Type::kPureToken, .token = "NORMAL"},
    {.name = "master", .type = Type::kPureToken, .token = "MASTER", .since = "3.2.0"},
    {.name = "slave", .type = Type::kPureToken, .token = "SLAVE"},
    {.name = "replica", .type = Type::kPureToken, .token = "REPLICA", .since = "5.0.0"},
    {.name = "pubsub", .type = Type::kPureToken, .token = "PUBSUB"},
};
constexpr ArgDoc kClientKillArgumentsFilterNewFormat[] = {
    {.name = "client-id", .type = Type::kInteger, .token = "ID", .flags = ArgDoc::kOptional, .since = "2.8.12"},
    {.name = "normal_master_slave_pubsub",
     .type = Type::kOneOf,
     .token = "TYPE",
     .flags = ArgDoc::kOptional,
     .since = "2.8.12",
     .arguments = kClientKillArgumentsFilterNewFormatNormalMasterSlavePubsub},
    {.name = "username", .type = Type::kString, .token = "USER", .flags = ArgDoc::kOptional},
    {.name = "ip:port", .type = Type::kString, .token = "ADDR", .flags = ArgDoc::kOptional},
    {.name = "ip:port", .type = Type::kString, .token = "LADDR", .flags = ArgDoc::kOptional, .since = "6.2.0"},
    {.name = "yes/no", .type = Type::kString, .token = "SKIPME", .flags = ArgDoc::kOptional},
};
constexpr ArgDoc kClientKillArgumentsFilter[] = {
    {.name = "ip:port", .type = Type::kString},
    {.name = "new-format", .type = Type::kOneOf, .flags = ArgDoc::kMultiple, .arguments = kClientKillArgumentsFilterNewFormat},
};
constexpr ArgDoc kClientKillArguments[] = {
    {.name = "filter", .type = Type::kOneOf, .arguments = kClientKillArgumentsFilter},
};

}  // namespace ebbtide

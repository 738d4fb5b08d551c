#include "import/connection.h"

#include <hiredis/hiredis.h>

#include <array>
#include <utility>

namespace ebbtide {
namespace {

ServerReply copy_of(const redisReply& reply) {
  ServerReply out;
  switch (reply.type) {
    case REDIS_REPLY_ERROR:
      out.kind = ServerReply::Kind::kError;
      out.text.assign(reply.str, reply.len);
      break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      out.kind = ServerReply::Kind::kText;
      out.text.assign(reply.str, reply.len);
      break;
    case REDIS_REPLY_INTEGER:
      out.kind = ServerReply::Kind::kInteger;
      out.integer = reply.integer;
      break;
    case REDIS_REPLY_ARRAY:
      out.kind = ServerReply::Kind::kArray;
      for (std::size_t i = 0; i < reply.elements; ++i) out.array.push_back(copy_of(*reply.element[i]));
      break;
    default:
      break;
  }
  return out;
}

}  // namespace

std::string Endpoint::name() const { return unixsocket.empty() ? host + ":" + std::to_string(port) : unixsocket; }

Result<std::unique_ptr<Connection>> Connection::open(const Endpoint& endpoint) {
  const std::string name = endpoint.name();
  constexpr timeval kConnect{10, 0}, kReply{300, 0};
  redisContext* const context = endpoint.unixsocket.empty()
                                    ? redisConnectWithTimeout(endpoint.host.c_str(), endpoint.port, kConnect)
                                    : redisConnectUnixWithTimeout(endpoint.unixsocket.c_str(), kConnect);
  if (context == nullptr) return Status::out_of_memory("no memory for a connection to " + name);
  std::unique_ptr<Connection> connection(new Connection(context, name));
  if (context->err != 0) return connection->lost();
  redisSetTimeout(context, kReply);
  if (!endpoint.password.empty() || !endpoint.user.empty()) {
    std::vector<Bytes> auth = {"AUTH"};
    if (!endpoint.user.empty()) auth.emplace_back(endpoint.user);
    auth.emplace_back(endpoint.password);
    TRY_ASSIGN(reply, connection->call(auth));
    if (reply.is_error()) return Status::invalid_argument(name + " refuses the password: " + reply.text);
  }
  const std::array<Bytes, 1> ping = {"PING"};
  TRY_ASSIGN(pong, connection->call(ping));
  if (pong.is_error()) {
    return Status::invalid_argument(
        name + " answers PING with: " + pong.text +
        (pong.text.starts_with("NOAUTH") ? " Give --user and --password-file, or set REDISCLI_AUTH." : ""));
  }
  return connection;
}

Connection::~Connection() { redisFree(context_); }

Status Connection::lost() const { return Status::io_error("connection to " + name_ + ": " + context_->errstr); }

void Connection::send(std::span<const Bytes> arguments) {
  std::vector<const char*> texts;
  std::vector<std::size_t> lengths;
  for (const Bytes argument : arguments) {
    texts.push_back(argument.data());
    lengths.push_back(argument.size());
  }
  redisAppendCommandArgv(context_, static_cast<int>(texts.size()), texts.data(), lengths.data());
}

Status Connection::flush() {
  for (int done = 0; done == 0;) {
    if (redisBufferWrite(context_, &done) != REDIS_OK) return lost();
  }
  return Status::ok();
}

Result<ServerReply> Connection::receive() {
  void* raw = nullptr;
  if (redisGetReply(context_, &raw) != REDIS_OK || raw == nullptr) return lost();
  const std::unique_ptr<redisReply, void (*)(redisReply*)> reply(static_cast<redisReply*>(raw),
                                                                 [](redisReply* r) { freeReplyObject(r); });
  return copy_of(*reply);
}

Result<ServerReply> Connection::call(std::span<const Bytes> arguments) {
  send(arguments);
  return receive();
}

Result<ServerReply> Connection::require(std::span<const Bytes> arguments) {
  TRY_ASSIGN(reply, call(arguments));
  if (reply.is_error()) return Status::io_error(name_ + " answers " + std::string(arguments.front()) + " with: " + reply.text);
  return reply;
}

}  // namespace ebbtide

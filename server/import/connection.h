// A connection of the import and export tools to a server. Commands are sent in pipelines, by hiredis.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <engine/result.h>

struct redisContext;

namespace ebbtide {

/// The address of a server, and the user that logs in.
struct Endpoint {
  std::string host = "127.0.0.1";
  int port = 6379;
  std::string unixsocket;  ///< if not empty, used instead of host and port
  std::string user;        ///< "" with a password: the user "default"
  std::string password;

  /// Returns "127.0.0.1:6379", or the path of the socket.
  [[nodiscard]] std::string name() const;
};

/// A reply, with the parts that the tools need.
struct ServerReply {
  enum class Kind : std::uint8_t { kText, kError, kInteger, kNull, kArray };
  Kind kind = Kind::kNull;
  std::string text;  ///< the text, if the reply is a text or an error
  std::int64_t integer = 0;
  std::vector<ServerReply> array;

  [[nodiscard]] bool is_error() const { return kind == Kind::kError; }
};

/// One connection. Not thread-safe. After an I/O error it is unusable.
class Connection {
 public:
  /// Connects, and logs in if the endpoint has a user or a password. The server may take five minutes for each reply. kIoError:
  /// no connection. kInvalidArgument: the password is wrong.
  static Result<std::unique_ptr<Connection>> open(const Endpoint& endpoint);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Adds a command to the pipeline.
  void send(std::span<const Bytes> arguments);
  /// Sends the commands in the pipeline.
  Status flush();
  /// Sends the commands in the pipeline, and returns the oldest reply that was not returned yet.
  Result<ServerReply> receive();
  /// Sends a command and returns its reply. Requires that all earlier replies were received.
  Result<ServerReply> call(std::span<const Bytes> arguments);
  /// Like call(), but returns an error if the server replies with one.
  Result<ServerReply> require(std::span<const Bytes> arguments);

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  Connection(redisContext* context, std::string name) : context_(context), name_(std::move(name)) {}
  [[nodiscard]] Status lost() const;

  redisContext* const context_;
  const std::string name_;
};

}  // namespace ebbtide

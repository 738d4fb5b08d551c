// The joint between the network and the commands: a pass.
//
// An event loop reads all ready connections, parses what they sent and hands everything to its CommandSink as one span, in the
// order of each connection. The sink runs the commands and appends replies to each client's `out`. Then the loop has the log
// written, once, and sends each client what may leave: replies wait until the log has reached `seen_seq`.
//
// A command that cannot finish (its pages are on disk, its list is empty) is left kWaiting: it has written nothing, and the
// client's later commands stay kNotRun. Nothing of the client's input moves meanwhile: its arguments stay where they are.
// Somebody calls loop->resume(client id), from any thread, and the loop hands in the same command again, `attempt` one higher,
// with the rest. Other clients go on.
//
// Threads: a Client and everything in it belongs to its loop's thread, but for what is marked otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "resp/args.h"
#include "resp/output_buffer.h"

namespace ebbtide {

class Client;

/// One event loop, as seen from commands.
class ClientLoop {
 public:
  virtual ~ClientLoop() = default;
  /// Runs `task` on the loop's thread, soon. From any thread. Not called any more once the loop has stopped.
  virtual void post(std::function<void()> task) = 0;
  /// The waiting command of this client is to be tried again. From any thread. Nothing happens if the client is gone or not
  /// waiting.
  virtual void resume(std::uint64_t client_id) = 0;
  /// The client with this id if it lives on this loop, else null. Loop thread only.
  virtual Client* find(std::uint64_t client_id) = 0;
  /// Something was appended to client->out outside a pass (a pushed message) or a close flag was set: the loop sees to it. Loop
  /// thread only.
  virtual void touch(Client* client) = 0;
  /// Number of this loop, from 0.
  [[nodiscard]] virtual int index() const = 0;
  /// Calls f for each client of this loop. Loop thread only.
  virtual void for_each(const std::function<void(Client&)>& f) = 0;
};

/// What the command layer keeps with a client: database, transaction, name, subscriptions.
class ClientState {
 public:
  virtual ~ClientState() = default;
  /// What it holds, in bytes, about.
  [[nodiscard]] virtual std::size_t memory() const { return 0; }
};

/// One connection, from the command layer's side.
class Client {
 public:
  virtual ~Client() = default;

  std::uint64_t id = 0;  ///< never reused while the server runs
  ClientLoop* loop = nullptr;
  std::string address;               ///< "ip:port" of the peer
  std::string network;               ///< the peer as limits count it: its IPv4 address, or the /64 of its IPv6 address
  std::string local_address;         ///< "ip:port" it connected to
  std::int64_t created_ms = 0;       ///< Unix time
  std::int64_t last_command_ms = 0;  ///< Unix time
  int fd = -1;                       ///< for CLIENT LIST only

  OutputBuffer out;                  ///< replies are appended here
  int protocol = 2;                  ///< 2 or 3; HELLO changes it
  bool authenticated = true;         ///< while false the parser applies the limits for strangers
  bool close_after_reply = false;    ///< close once everything in `out` has left; later commands are not run
  bool close_after_command = false;  ///< as close_after_reply, once the command that waits has replied
  bool close_now = false;            ///< close without sending what is in `out`
  bool subscriber = false;           ///< has subscribed to something: it is not idle, however quiet
  bool waiting = false;              ///< its first command that is not done waits for resume()
  /// The highest engine seq that a reply in `out` may depend on. The sink raises it; replies leave once the log has reached it.
  std::uint64_t seen_seq = 0;
  /// Bytes of `out` from which no further command of this client is run until some of it has been sent.
  std::size_t output_high_water = 1 << 20;
  /// Own memory of `out` above which a client that is sent pushes (messages, MONITOR) is to be closed; 0 = no limit.
  std::size_t push_limit = std::size_t{32} << 20;
  /// A push was appended: closes the client if it does not read what it is sent.
  void check_push_limit() {
    if (push_limit != 0 && out.memory() > push_limit) out.overflow();
  }

  std::unique_ptr<ClientState> state;  ///< made by the sink at the client's first command
  std::size_t state_bytes = 0;         ///< state->memory(), as the sink last looked: counts as the client's buffers do

  /// Whether the sink may run a command of this client now.
  [[nodiscard]] bool may_run() const {
    return !waiting && !close_after_reply && !close_now && out.size() < output_high_water && !out.overflown();
  }
  /// Bytes of input held for this client.
  [[nodiscard]] virtual std::size_t query_bytes() const { return 0; }
  /// Bytes of its query buffer that are not in use.
  [[nodiscard]] virtual std::size_t query_free_bytes() const { return 0; }
  /// Bytes of the arguments of its command that waits, or is being received.
  [[nodiscard]] virtual std::size_t argument_bytes() const { return 0; }
  /// Bytes of memory that the connection takes, buffers and large arguments included, without `state`.
  [[nodiscard]] virtual std::size_t total_bytes() const { return query_bytes() + out.memory(); }
  /// Hands over the memory that the arguments of its commands lie in, for a command that runs on when its client has gone. Only
  /// while the client closes.
  [[nodiscard]] virtual std::shared_ptr<const void> take_input() { return nullptr; }
};

/// What the sink keeps with a command between its attempts (the pages it waits for).
class Continuation {
 public:
  virtual ~Continuation() = default;
};

struct PendingCommand {
  enum class State : std::uint8_t {
    kNotRun,   ///< not begun: new, behind a command that waits, or the pass had no time for it
    kDone,     ///< replied (or nothing to reply)
    kWaiting,  ///< wrote nothing; waits for resume() or until retry_ms are over
  };
  Client* client = nullptr;
  Args args;
  State state = State::kNotRun;
  std::uint32_t attempt = 0;   ///< how often it has been handed in before
  std::uint32_t retry_ms = 0;  ///< set with kWaiting: after so long it is handed in again whatever happens; 0 = never
  std::unique_ptr<Continuation> continuation;
};

/// Runs commands. One per event loop, called on its thread only.
class CommandSink {
 public:
  virtual ~CommandSink() = default;
  /// Runs each command whose client may_run(), in order of the span (of one client: strictly). Sets each one's state; of a client
  /// that waits, closes or has too much output, the rest stays kNotRun and is handed in again later; so does the rest of a pass that
  /// takes long. Runs at least one.
  virtual void run_pass(std::span<PendingCommand> commands) = 0;
  /// The client is about to go: drop what refers to it. `waiting_command` is the first of its commands that is not done, if any;
  /// the sink keeps alive what a fetch or a thread still uses of it (Client::take_input).
  virtual void client_closed(Client& client, PendingCommand* waiting_command) = 0;
  /// What a pass had written was in the log, as durable as replies wait for, so long after its commands had run. Of passes that
  /// wait side by side one is told of.
  virtual void logged(std::uint64_t /*nanos*/) {}
  /// Sees to what the sink waits for by itself; it may call resume(). Once a round, before the pass. Never waits.
  virtual void poll() {}
  /// For epoll: readable when poll() is due; -1 = never.
  [[nodiscard]] virtual int descriptor() const { return -1; }
};

}  // namespace ebbtide

// The interface between the network and the commands: a pass.
//
// An event loop receives from all ready connections, parses the input and hands all commands to its CommandSink as one span, in
// the order of each connection. The sink runs the commands and appends replies to each client's `out`. Then the loop has the log
// written, once, and sends each client what may leave: replies wait until the log has reached `seen_seq`.
//
// A command that cannot finish, such as one whose pages are on disk, becomes kWaiting. It has written nothing, and the client's
// later commands stay kNotRun. The client's input stays in place meanwhile. Later a thread calls loop->resume(client id), and the
// loop hands in the same command again, with `attempt` one higher and the rest behind it. Other clients go on.
//
// Threads: a Client and everything in it belongs to its loop's thread, unless a comment says otherwise.
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
  /// Runs `task` on the loop's thread, soon. Any thread. Tasks are dropped once the loop has stopped.
  virtual void post(std::function<void()> task) = 0;
  /// Runs the waiting command of this client again. Any thread. Does nothing if the client has disconnected or is not waiting.
  virtual void resume(std::uint64_t client_id) = 0;
  /// The client with this id if it belongs to this loop, else null. Loop thread only.
  virtual Client* find(std::uint64_t client_id) = 0;
  /// Called after output was appended to client->out outside a pass (a pushed message), or a flag to close was set. Loop thread
  /// only.
  virtual void touch(Client* client) = 0;
  /// Number of this loop, from 0.
  [[nodiscard]] virtual int index() const = 0;
  /// Calls `f` for each client of this loop. Loop thread only.
  virtual void for_each(const std::function<void(Client&)>& f) = 0;
};

/// The state that the dispatch layer keeps with a client: database, transaction, name, subscriptions.
class ClientState {
 public:
  virtual ~ClientState() = default;
  /// Estimated memory of the state, in bytes.
  [[nodiscard]] virtual std::size_t memory() const { return 0; }
};

/// One connection, as the dispatch layer sees it.
class Client {
 public:
  virtual ~Client() = default;

  std::uint64_t id = 0;  ///< never reused while the server runs
  ClientLoop* loop = nullptr;
  std::string address;               ///< "ip:port" of the peer
  std::string network;               ///< the peer for limits: its IPv4 address, or the /64 network of its IPv6 address
  std::string local_address;         ///< "ip:port" that it connected to
  std::int64_t created_ms = 0;       ///< Unix time
  std::int64_t last_command_ms = 0;  ///< Unix time
  int fd = -1;                       ///< for CLIENT LIST only

  OutputBuffer out;                  ///< replies are appended here
  int protocol = 2;                  ///< 2 or 3; HELLO changes it
  bool authenticated = true;         ///< while false, the parser applies the limits for strangers
  bool close_after_reply = false;    ///< close once everything in `out` has left; later commands do not run
  bool close_after_command = false;  ///< like close_after_reply, once the waiting command has replied
  bool close_now = false;            ///< close without sending what is in `out`
  bool subscriber = false;           ///< it has a subscription, so it never counts as idle
  bool waiting = false;              ///< its first unfinished command waits for resume()
  /// The highest seq that a reply in `out` may depend on. The sink raises it; replies leave once the log has reached it.
  std::uint64_t seen_seq = 0;
  /// With so many bytes in `out`, no further command of this client runs until some have been sent.
  std::size_t output_high_water = 1 << 20;
  /// With more own memory of `out`, a client that gets pushes (messages, MONITOR) is closed; 0: no limit.
  std::size_t push_limit = std::size_t{32} << 20;
  /// Called after a push was appended: closes the client if it does not read its output.
  void check_push_limit() {
    if (push_limit != 0 && out.memory() > push_limit) out.overflow();
  }

  std::unique_ptr<ClientState> state;  ///< made by the sink at the client's first command
  std::size_t state_bytes = 0;         ///< state->memory() as of the sink's last update; counts like the client's buffers

  /// True if a command of this client may run now.
  [[nodiscard]] bool may_run() const {
    return !waiting && !close_after_reply && !close_now && out.size() < output_high_water && !out.overflown();
  }
  /// Bytes of input kept for this client.
  [[nodiscard]] virtual std::size_t query_bytes() const { return 0; }
  /// Unused bytes of its query buffer.
  [[nodiscard]] virtual std::size_t query_free_bytes() const { return 0; }
  /// Bytes of the arguments of the command that waits, or is being received.
  [[nodiscard]] virtual std::size_t argument_bytes() const { return 0; }
  /// Memory of the connection, including buffers and large arguments, without `state`.
  [[nodiscard]] virtual std::size_t total_bytes() const { return query_bytes() + out.memory(); }
  /// Hands over the memory of its commands' arguments, for a command that goes on running after its client has disconnected. Only
  /// while the client closes.
  [[nodiscard]] virtual std::shared_ptr<const void> take_input() { return nullptr; }
};

/// The sink's data for a command between its attempts, such as the pages that it waits for.
class Continuation {
 public:
  virtual ~Continuation() = default;
};

struct PendingCommand {
  enum class State : std::uint8_t {
    kNotRun,   ///< not begun: it is new, is behind a waiting command, or the pass had no time for it
    kDone,     ///< it has replied, or needs no reply
    kWaiting,  ///< it wrote nothing, and waits for resume() or until retry_ms are over
  };
  Client* client = nullptr;
  Args args;
  State state = State::kNotRun;
  std::uint32_t attempt = 0;   ///< how often it was handed in before
  std::uint32_t retry_ms = 0;  ///< set with kWaiting: after so many ms it is handed in again in any case; 0: never
  bool unfinished = false;     ///< set with kWaiting: it has done a slice of its work, and is resumed for the next one
  std::unique_ptr<Continuation> continuation;
};

/// Runs commands. One per event loop, used on its thread only.
class CommandSink {
 public:
  virtual ~CommandSink() = default;
  /// Runs each command whose client may_run(), in the order of the span, and sets its state. At least one command runs. Commands
  /// of a client that waits, closes or has too much output stay kNotRun, and are handed in again later. So does the rest of a
  /// pass that takes long.
  virtual void run_pass(std::span<PendingCommand> commands) = 0;
  /// The client is about to be freed, so references to it must go. `waiting_command` is its first unfinished command, if any. The
  /// sink keeps alive what a fetch or a thread still uses of it (Client::take_input).
  virtual void client_closed(Client& client, PendingCommand* waiting_command) = 0;
  /// True if the sink has charged replies of the last pass to the memory budget. If so, the caller charges the buffers that have
  /// them by now, and calls buffers_charged(): no reply is charged twice when it looks for clients to close.
  [[nodiscard]] virtual bool charges_replies() const { return false; }
  virtual void buffers_charged() {}
  /// Reports how long after its commands had run the log had a pass's writes, as durable as its replies require. If several
  /// passes wait at once, one of them is reported.
  virtual void logged(std::uint64_t /*nanos*/) {}
  /// Lets the sink check what it waits for by itself; it may call resume(). Called once per round, before the pass. Never waits.
  virtual void poll() {}
  /// For epoll: readable when poll() should be called; -1: never.
  [[nodiscard]] virtual int descriptor() const { return -1; }
};

}  // namespace ebbtide

// The interface between the network and the commands. A pass is one call of CommandSink::run_pass().
//
// An event loop receives from all ready connections and parses the input. It passes all commands to its CommandSink as one span,
// those of each connection in order. The sink runs the commands and appends replies to each client's `out`. Then the loop writes
// the log, once, and sends each client the replies that may leave: a reply waits until the log has reached the client's
// `seen_seq`.
//
// A command that cannot finish, for example because its pages are on disk, becomes kWaiting. It has written nothing, and the
// client's later commands stay kNotRun. The client's input stays in memory until then. Later a thread calls loop->resume(client
// id). Then the loop hands in the same command again, with `attempt` one higher, followed by the later commands. Other clients
// are not delayed.
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

/// One event loop, as commands see it.
class ClientLoop {
 public:
  virtual ~ClientLoop() = default;
  /// Runs `task` on the loop's thread, soon. Any thread. Tasks are dropped once the loop has stopped.
  virtual void post(std::function<void()> task) = 0;
  /// Runs the waiting command of this client again. Any thread. Does nothing if the client has disconnected or is not waiting.
  virtual void resume(std::uint64_t client_id) = 0;
  /// Returns the client with this id if it belongs to this loop, else null. Loop thread only.
  virtual Client* find(std::uint64_t client_id) = 0;
  /// Makes the loop send the client's output, or close the client, in its next round. Call it after output was appended to
  /// client->out outside a pass (a pushed message), or after a flag to close was set. Loop thread only.
  virtual void touch(Client* client) = 0;
  /// Returns the number of this loop, from 0.
  [[nodiscard]] virtual int index() const = 0;
  /// Calls `f` for each client of this loop. Loop thread only.
  virtual void for_each(const std::function<void(Client&)>& f) = 0;
};

/// The state that the dispatch layer keeps with a client: database, transaction, name, subscriptions.
class ClientState {
 public:
  virtual ~ClientState() = default;
  /// Returns the estimated memory of the state, in bytes.
  [[nodiscard]] virtual std::size_t memory() const { return 0; }
};

/// One connection, as the dispatch layer sees it.
class Client {
 public:
  virtual ~Client() = default;

  std::uint64_t id = 0;  ///< never reused while the server runs
  ClientLoop* loop = nullptr;
  std::string address;               ///< "ip:port" of the peer
  std::string network;               ///< identifies the peer for limits: its IPv4 address, or the /64 network of its IPv6 address
  std::string local_address;         ///< "ip:port" of the server's end of the connection
  std::int64_t created_ms = 0;       ///< Unix time
  std::int64_t last_command_ms = 0;  ///< Unix time
  int fd = -1;                       ///< shown by CLIENT LIST only

  OutputBuffer out;                  ///< replies are appended here
  int protocol = 2;                  ///< 2 or 3; HELLO changes it
  bool authenticated = true;         ///< the client may run commands; while false, the parser applies the limits for strangers
  bool close_after_reply = false;    ///< the connection closes once all of `out` is sent; later commands do not run
  bool close_after_command = false;  ///< like close_after_reply, once the waiting command has replied
  bool close_now = false;            ///< the connection closes without sending `out`
  bool subscriber = false;           ///< the client has a subscription, so it is never closed as idle
  bool waiting = false;              ///< the client's first unfinished command waits for resume()
  /// The highest seq on which a reply in `out` may depend. The sink raises it; replies leave once the log has reached it.
  std::uint64_t seen_seq = 0;
  /// If `out` has this many bytes, no further command of this client runs until some have been sent.
  std::size_t output_high_water = 1 << 20;
  /// The most memory of `out` (OutputBuffer::memory) for a client that gets pushes (messages, MONITOR); beyond it the client is
  /// closed. 0: no limit.
  std::size_t push_limit = std::size_t{32} << 20;
  /// Closes the client if too much output waits for it (push_limit). Call it after a push was appended.
  void check_push_limit() {
    if (push_limit != 0 && out.memory() > push_limit) out.overflow();
  }

  std::unique_ptr<ClientState> state;  ///< made by the sink at the client's first command
  std::size_t state_bytes = 0;         ///< state->memory() when the sink last updated it; charged like the client's buffers

  /// Returns true if a command of this client may run now.
  [[nodiscard]] bool may_run() const {
    return !waiting && !close_after_reply && !close_now && out.size() < output_high_water && !out.overflown();
  }
  /// Returns the bytes of input kept for this client.
  [[nodiscard]] virtual std::size_t query_bytes() const { return 0; }
  /// Returns the unused bytes of the client's query buffer.
  [[nodiscard]] virtual std::size_t query_free_bytes() const { return 0; }
  /// Returns the bytes of the arguments of the command that waits or is being received.
  [[nodiscard]] virtual std::size_t argument_bytes() const { return 0; }
  /// Returns the memory of the connection in bytes, including buffers and large arguments, without `state`.
  [[nodiscard]] virtual std::size_t total_bytes() const { return query_bytes() + out.memory(); }
  /// Returns the owner of the arguments' memory, for a command that still runs after its client has disconnected. The sink calls
  /// this only while the client closes.
  [[nodiscard]] virtual std::shared_ptr<const void> take_input() { return nullptr; }
};

/// The sink's data of a command, kept between the attempts to run it, such as the pages for which it waits.
class Continuation {
 public:
  virtual ~Continuation() = default;
};

struct PendingCommand {
  enum class State : std::uint8_t {
    kNotRun,   ///< the command has not begun: it is new, follows a waiting command, or the pass had no time for it
    kDone,     ///< the command has replied, or needs no reply
    kWaiting,  ///< the command wrote nothing, and waits for resume(), or until retry_ms have passed
  };
  Client* client = nullptr;
  Args args;
  State state = State::kNotRun;
  std::uint32_t attempt = 0;  ///< how often the command was handed in before
  /// Set with kWaiting: after this many ms the command is handed in again even without resume(); 0: never.
  std::uint32_t retry_ms = 0;
  bool unfinished = false;  ///< set with kWaiting: the command has done a slice of its work, and the next round continues it
  /// Set with kWaiting: the command waits for another client. If its own client sends no more, that client is closed at once.
  bool blocked = false;
  std::unique_ptr<Continuation> continuation;
  std::uint64_t random = 0;  ///< a random number for the command, the same in all its attempts; 0: the sink has not drawn it yet
};

/// Runs commands. Each event loop has a sink, which is used on the loop's thread only.
class CommandSink {
 public:
  virtual ~CommandSink() = default;
  /// Runs each command whose client may_run(), in the order of the span, and sets its state. At least one command runs. If a
  /// client waits, closes or has too much output, its commands stay kNotRun, and are handed in again later. If a pass takes long,
  /// its last commands stay kNotRun, too.
  virtual void run_pass(std::span<PendingCommand> commands) = 0;
  /// The loop calls this before it frees the client: the sink must drop its references to it. `waiting_command`: the client's
  /// first unfinished command; null if there is none. The sink keeps the memory alive that a fetch or a thread still uses
  /// (Client::take_input). A continuation that the sink leaves in the command is freed in a later round, with the client.
  virtual void client_closed(Client& client, PendingCommand* waiting_command) = 0;
  /// Returns true while the sink's own charge to the memory budget covers the replies of the last pass. The loop then charges the
  /// output buffers, which have these replies, and calls buffers_charged(), which releases the sink's charge. So no reply is
  /// charged twice when the loop looks for clients to close.
  [[nodiscard]] virtual bool charges_replies() const { return false; }
  virtual void buffers_charged() {}
  /// Reports how long a pass waited for the log: from the end of its commands until their writes were as durable as their replies
  /// require. If several passes wait at the same time, only one of them is measured.
  virtual void logged(std::uint64_t /*nanos*/) {}
  /// Lets the sink check operations for which it waits; it may call resume(). The loop calls this once per round, before the
  /// pass. Never blocks.
  virtual void poll() {}
  /// Returns a descriptor for epoll that is readable when poll() should be called; -1 if there is none.
  [[nodiscard]] virtual int descriptor() const { return -1; }
};

}  // namespace ebbtide

// One client socket: its commands that have not run, its output that is not sent, and the conditions for sending that output.
//
// A loop drives the connection, which schedules nothing by itself. Input moves through these stages:
//   socket -> parser -> pending (handed to the sink) -> done
// While commands are pending, nothing is read, since their arguments must not move. The full buffers of the kernel then slow the
// peer down. Replies leave in order. A reply that depends on seq s leaves once the log has reached s. A Gate stores s and the
// reply's position.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "net/settings.h"
#include "resp/client.h"
#include "resp/parser.h"
#include "tls/tls_stream.h"

namespace ebbtide {

/// A client's connection. Loop thread only.
class Connection final : public Client {
 public:
  /// Takes ownership of the socket, which must be non-blocking.
  explicit Connection(int socket, std::unique_ptr<TlsStream> stream = nullptr) : tls(std::move(stream)) { fd = socket; }
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  enum class Io : std::uint8_t { kOk, kBlocked, kEnd, kError };

  /// Receives once; a big bulk is received several times, through `scratch`. kBlocked: the socket has no more input now. kEnd:
  /// the peer sends no more.
  Io receive(const ParserLimits& limits, std::span<char> scratch, LoopCounters& counters);
  /// Sends the replies that may leave. kOk: all were sent, or as many as one round allows.
  Io send(std::uint64_t durable_seq, LoopCounters& counters);
  /// Parses input, and appends ready commands to `pass`; commands that earlier passes have not run come first.
  void hand_in(const ParserLimits& limits, std::vector<PendingCommand>* pass);
  /// Takes the connection's commands back after a pass, and keeps those that are not done.
  void take_back(std::span<PendingCommand> part);
  /// Closes a gate: replies that were appended since the last call wait until the log has reached seen_seq.
  void close_gate(std::uint64_t durable_seq, std::int64_t now_ms);
  /// Opens gates: replies that wait for writes up to `durable_seq` may leave. Works even while the socket takes no output.
  void open_gates(std::uint64_t durable_seq);
  /// Replaces the replies that wait for writes after `durable_seq` by one error; then the connection closes. The loop calls this
  /// when the log has failed: the outcome of these writes is unknown.
  void give_up_gated(std::uint64_t durable_seq);

  [[nodiscard]] std::size_t query_bytes() const override { return parser.buffered(); }
  [[nodiscard]] std::size_t query_free_bytes() const override { return parser.unused(); }
  [[nodiscard]] std::size_t argument_bytes() const override;
  [[nodiscard]] std::size_t total_bytes() const override { return sizeof(Connection) + parser.memory() + out.memory(); }
  /// Returns the memory of buffers and state in bytes. It includes shared texts in the output, which are charged to the budget
  /// separately.
  [[nodiscard]] std::size_t buffers_and_state() const {
    return parser.buffer_memory() + out.memory() + state_bytes + (tls == nullptr ? 0 : TlsStream::kMemoryBytes);
  }
  [[nodiscard]] std::shared_ptr<const void> take_input() override;
  [[nodiscard]] bool has_pending() const { return !pending.empty(); }
  /// Returns true if the client's command waits for another client, such as BLPOP.
  [[nodiscard]] bool is_blocked() const { return waiting && !pending.empty() && pending.front().blocked; }
  /// Returns true if more input may be read now.
  [[nodiscard]] bool may_read() const {
    return readable && pending.empty() && !closing() && !end_of_input && out.size() < output_high_water && !parser.has_input() &&
           parser.failure() == RequestParser::Failure::kNone;
  }
  [[nodiscard]] bool may_parse() const {
    return pending.empty() && !closing() && out.size() < output_high_water && parser.has_input();
  }
  /// Returns true if more than `bytes` of commands that have not run are buffered, or a big bulk is being received.
  [[nodiscard]] bool has_much_input(std::size_t bytes) const { return parser.buffered() > bytes || parser.big_missing() > 0; }
  /// Returns the number of commands that have not run; an estimate while they are not parsed.
  [[nodiscard]] std::size_t commands() const { return has_pending() ? pending.size() : parser.buffered() / kCommandBytes; }
  static constexpr std::size_t kCommandBytes = 32;  ///< assumed size of a short command
  /// Returns true if the connection has commands that can run without a further event from epoll.
  [[nodiscard]] bool wants_turn() const {
    if (!has_pending()) return may_parse();
    return (!waiting || resumed) && !closing() && out.size() < output_high_water;
  }
  /// Returns true until the TLS handshake is done.
  [[nodiscard]] bool in_handshake() const { return tls != nullptr && !tls->established(); }
  [[nodiscard]] bool closing() const { return close_after_reply || close_now || dead || lingering; }
  [[nodiscard]] bool gated() const { return !gates.empty(); }
  /// Returns the position in `out` up to which bytes may leave now.
  [[nodiscard]] std::uint64_t send_limit(std::uint64_t durable_seq) const;

  /// Continues the TLS handshake. kOk: the handshake is done.
  Io shake_hands();

  struct Gate {
    std::uint64_t from;  ///< position in `out` at which the gate begins
    std::uint64_t seq;   ///< bytes of `out` from `from` on wait until the log has reached this seq
    std::int64_t since_ms;
  };

  /// Sends an error at once, if no output waits to be sent. A client whose TLS handshake is not finished gets no error.
  void send_at_once(Bytes error);
  /// Closes the server's sending side of the connection, for TLS too.
  void end_output();

  RequestParser parser;
  const std::unique_ptr<TlsStream> tls;  ///< null: plain text
  ClientMemory* memory = nullptr;        ///< null: no memory is charged
  std::vector<PendingCommand> pending;   ///< commands that were handed in and are not done, in order
  std::unique_ptr<Continuation> ended;   ///< the sink's continuation of the command that waited when the connection closed
  std::deque<Gate> gates;
  std::uint64_t gated_until = 0;
  std::int64_t soft_limit_since_ms = 0;  ///< when the output began to exceed the soft limit; 0: it does not exceed the limit
  std::int64_t linger_until_ms = 0;
  std::int64_t end_of_input_ms = 0;
  std::size_t lingered_bytes = 0;
  std::size_t charged_values = 0;  ///< bytes of big arguments that are charged to ClientMemory
  std::size_t held_bytes = 0;      ///< buffers_and_state() when the loop last updated it
  std::size_t own_bytes = 0;       ///< the part of held_bytes that is not shared; the loop's held_bytes_ includes it
  std::int64_t retry_at_ms = 0;    ///< when the waiting command is handed in again; 0: only after resume()
  std::int64_t stranger_since_ms = 0;
  std::size_t slot = 0;  ///< index in the loop's list of connections

  std::size_t unfinished_write = 0;  ///< bytes that TLS has begun to send; the next write must offer them again
  bool readable = false;             ///< the socket may have input: the last receive was not kBlocked
  bool writable = true;              ///< the last send was not kBlocked
  bool peer_ended = false;           ///< epoll has reported that the peer sends no more; epoll reports this only once
  bool end_of_input = false;         ///< the peer sends no more, and all its input was read
  bool queued = false;               ///< the connection is in the loop's list of connections that have work to do
  bool in_gated_list = false;
  bool resumed = false;  ///< the waiting command is handed in with the next pass
  /// The last round had no time to send this connection's replies, so no command of it runs until they are sent.
  bool send_first = false;
  /// After a pass that had no time for all commands: how late the next pass takes this connection. 0: little input, and it has
  /// not waited. 1: much input, or the last pass had no time for its commands. 2: the last pass ran some of its commands, or a
  /// slice of one.
  std::uint8_t rank = 0;
  bool counted_stranger = false;
  bool limited_as_subscriber = false;  ///< the output limits of subscribers are in effect for this connection
  bool error_sent = false;             ///< the reply to a parse error was sent
  bool lingering = false;              ///< all output is sent and the sending side is closed; further input is read and dropped
  bool dead = false;                   ///< closed; freed at the end of the round

 private:
  Io receive_decrypted(const ParserLimits& limits, std::span<char> scratch, LoopCounters& counters);
  Io send_encrypted(std::uint64_t limit, LoopCounters& counters);
};

}  // namespace ebbtide

// One client socket: what it sent and has not been run, what waits to be sent to it, and when it may leave.
//
// A connection is driven by its loop and does no scheduling of its own. Input moves in one direction:
//   socket -> parser -> pending (handed to the sink) -> done. Nothing is read while commands are pending, so that their arguments
// stay where they are; the kernel's buffers then slow the peer down.
// Replies leave in order; a reply that depends on seq s leaves once the log has reached s (the gate).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "net/settings.h"
#include "resp/client.h"
#include "resp/parser.h"

namespace ebbtide {

/// Loop thread only.
class Connection final : public Client {
 public:
  /// Takes over the socket, which must be non-blocking.
  explicit Connection(int socket) { fd = socket; }
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  enum class Io : std::uint8_t { kOk, kBlocked, kEnd, kError };

  /// Receives once (a big bulk: several times, through `scratch`). kBlocked: the socket is empty now. kEnd: the peer has closed.
  Io receive(const ParserLimits& limits, std::span<char> scratch, LoopCounters& counters);
  /// Sends what may leave. kOk: all of it went, or the round's share.
  Io send(std::uint64_t durable_seq, LoopCounters& counters);
  /// Parses and appends what is ready to `pass`; commands left over from before come first.
  void hand_in(const ParserLimits& limits, std::vector<PendingCommand>* pass);
  /// Takes back the connection's part of the pass: what is not done is kept.
  void take_back(std::span<PendingCommand> part);
  /// Replies appended since the last call depend on seen_seq.
  void close_gate(std::uint64_t durable_seq, std::int64_t now_ms);
  /// Forgets the gates that the log has reached, whether or not the socket takes what lies behind them.
  void open_gates(std::uint64_t durable_seq);
  /// Replaces the replies whose outcome is unknown by one error and closes after it.
  void give_up_gated(std::uint64_t durable_seq);

  [[nodiscard]] std::size_t query_bytes() const override { return parser.buffered(); }
  [[nodiscard]] std::size_t query_free_bytes() const override { return parser.unused(); }
  [[nodiscard]] std::size_t argument_bytes() const override;
  [[nodiscard]] std::size_t total_bytes() const override { return sizeof(Connection) + parser.memory() + out.memory(); }
  [[nodiscard]] std::shared_ptr<const void> take_input() override;
  [[nodiscard]] bool has_pending() const { return !pending.empty(); }
  /// Whether more input may be read now.
  [[nodiscard]] bool may_read() const {
    return readable && pending.empty() && !closing() && !end_of_input && out.size() < output_high_water && !parser.has_input() &&
           parser.failure() == RequestParser::Failure::kNone;
  }
  [[nodiscard]] bool may_parse() const {
    return pending.empty() && !closing() && out.size() < output_high_water && parser.has_input();
  }
  /// Whether commands of it can be handed in without waiting for epoll.
  [[nodiscard]] bool wants_turn() const {
    if (!has_pending()) return may_parse();
    return (!waiting || resumed) && !closing() && out.size() < output_high_water;
  }
  [[nodiscard]] bool closing() const { return close_after_reply || close_now || dead || lingering; }
  [[nodiscard]] bool gated() const { return !gates.empty(); }
  /// Whether bytes may leave now.
  [[nodiscard]] std::uint64_t send_limit(std::uint64_t durable_seq) const;

  struct Gate {
    std::uint64_t from;  ///< position in `out` from which on
    std::uint64_t seq;   ///< replies wait for this seq
    std::int64_t since_ms;
  };

  RequestParser parser;
  ClientMemory* memory = nullptr;       ///< null: nothing is charged
  std::vector<PendingCommand> pending;  ///< handed in before and not done, in order
  std::deque<Gate> gates;
  std::uint64_t gated_until = 0;
  std::int64_t soft_limit_since_ms = 0;  ///< output over the soft limit since; 0 = it is not
  std::int64_t linger_until_ms = 0;
  std::int64_t end_of_input_ms = 0;
  std::size_t lingered_bytes = 0;
  std::size_t charged_values = 0;  ///< bytes of big arguments, to ClientMemory
  std::size_t held_bytes = 0;      ///< of buffers and state, as the loop's sum has it
  std::int64_t retry_at_ms = 0;    ///< its waiting command is handed in again by then; 0 = by nobody
  std::int64_t stranger_since_ms = 0;
  std::size_t slot = 0;  ///< place in the loop's list of connections

  bool readable = false;      ///< the socket may have something: the last receive was not kBlocked
  bool writable = true;       ///< the last send was not kBlocked
  bool peer_ended = false;    ///< epoll has told that the peer sends no more; it will not tell again
  bool end_of_input = false;  ///< and all that it sent has been read
  bool queued = false;        ///< is in the loop's list of connections with something to do
  bool in_gated_list = false;
  bool resumed = false;  ///< its waiting command is to be handed in again
  /// In the next pass it comes behind connections of a lower rank: 1 if the last pass had no time for its commands, 2 if it had time
  /// for some of them.
  std::uint8_t rank = 0;
  bool counted_stranger = false;
  bool limited_as_subscriber = false;  ///< of which class the output limits are that hold for it
  bool error_sent = false;             ///< the parser's failure has been dealt with
  bool lingering = false;              ///< all is sent and our side shut down; reading away what the peer still sends
  bool dead = false;                   ///< closed; freed at the end of the round
};

}  // namespace ebbtide

// One client socket: its input that has not run, its output that is not sent, and when output may leave.
//
// A loop drives the connection, which schedules nothing by itself. Input moves in one direction:
//   socket -> parser -> pending (handed to the sink) -> done
// While commands are pending nothing is read, so that their arguments stay in place. The kernel's buffers then slow the peer down.
// Replies leave in order. A reply that depends on seq s leaves once the log has reached s (the gate).
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
  /// Takes ownership of the socket, which must be non-blocking.
  explicit Connection(int socket) { fd = socket; }
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  enum class Io : std::uint8_t { kOk, kBlocked, kEnd, kError };

  /// Receives once; for a big bulk several times, through `scratch`. kBlocked: the socket is empty now. kEnd: the peer has
  /// closed.
  Io receive(const ParserLimits& limits, std::span<char> scratch, LoopCounters& counters);
  /// Sends what may leave. kOk: everything was sent, or the share of this round.
  Io send(std::uint64_t durable_seq, LoopCounters& counters);
  /// Parses, and appends ready commands to `pass`; commands left from earlier passes come first.
  void hand_in(const ParserLimits& limits, std::vector<PendingCommand>* pass);
  /// Takes back the connection's commands after the pass, and keeps those that are not done.
  void take_back(std::span<PendingCommand> part);
  /// Makes replies that were appended since the last call depend on seen_seq.
  void close_gate(std::uint64_t durable_seq, std::int64_t now_ms);
  /// Removes the gates that the log has reached, even if the socket does not take the replies behind them.
  void open_gates(std::uint64_t durable_seq);
  /// Replaces the replies whose outcome is unknown by one error, after which the connection closes.
  void give_up_gated(std::uint64_t durable_seq);

  [[nodiscard]] std::size_t query_bytes() const override { return parser.buffered(); }
  [[nodiscard]] std::size_t query_free_bytes() const override { return parser.unused(); }
  [[nodiscard]] std::size_t argument_bytes() const override;
  [[nodiscard]] std::size_t total_bytes() const override { return sizeof(Connection) + parser.memory() + out.memory(); }
  [[nodiscard]] std::shared_ptr<const void> take_input() override;
  [[nodiscard]] bool has_pending() const { return !pending.empty(); }
  /// True if more input may be read now.
  [[nodiscard]] bool may_read() const {
    return readable && pending.empty() && !closing() && !end_of_input && out.size() < output_high_water && !parser.has_input() &&
           parser.failure() == RequestParser::Failure::kNone;
  }
  [[nodiscard]] bool may_parse() const {
    return pending.empty() && !closing() && out.size() < output_high_water && parser.has_input();
  }
  /// True if more than so many bytes of commands that have not run are buffered, or a big bulk is being received.
  [[nodiscard]] bool has_much_input(std::size_t bytes) const { return parser.buffered() > bytes || parser.big_missing() > 0; }
  /// True if it has commands that can be handed in without waiting for epoll.
  [[nodiscard]] bool wants_turn() const {
    if (!has_pending()) return may_parse();
    return (!waiting || resumed) && !closing() && out.size() < output_high_water;
  }
  [[nodiscard]] bool closing() const { return close_after_reply || close_now || dead || lingering; }
  [[nodiscard]] bool gated() const { return !gates.empty(); }
  /// True if bytes may leave now.
  [[nodiscard]] std::uint64_t send_limit(std::uint64_t durable_seq) const;

  struct Gate {
    std::uint64_t from;  ///< position in `out` where it begins
    std::uint64_t seq;   ///< replies behind it wait for this seq
    std::int64_t since_ms;
  };

  RequestParser parser;
  ClientMemory* memory = nullptr;       ///< null: no memory is charged
  std::vector<PendingCommand> pending;  ///< handed in and not done, in order
  std::deque<Gate> gates;
  std::uint64_t gated_until = 0;
  std::int64_t soft_limit_since_ms = 0;  ///< since when the output exceeds the soft limit; 0: it does not
  std::int64_t linger_until_ms = 0;
  std::int64_t end_of_input_ms = 0;
  std::size_t lingered_bytes = 0;
  std::size_t charged_values = 0;  ///< bytes of big arguments, charged to ClientMemory
  std::size_t held_bytes = 0;      ///< of buffers and state, as included in the loop's sum
  std::int64_t retry_at_ms = 0;    ///< when its waiting command is handed in again; 0: it waits to be resumed
  std::int64_t stranger_since_ms = 0;
  std::size_t slot = 0;  ///< index in the loop's list of connections

  bool readable = false;      ///< the socket may have input: the last receive was not kBlocked
  bool writable = true;       ///< the last send was not kBlocked
  bool peer_ended = false;    ///< epoll has reported that the peer sends no more; it reports that once
  bool end_of_input = false;  ///< the peer sends no more, and all its input was read
  bool queued = false;        ///< it is in the loop's list of connections with something to do
  bool in_gated_list = false;
  bool resumed = false;     ///< its waiting command is handed in in the next pass
  bool send_first = false;  ///< the last round had no time to send its replies, so no command runs before that
  /// Connections are ordered by rank if a pass had no time for all. Rank 0: it has little input, and has not waited. Rank 1: it has much
  /// input, or the last pass had no time for its commands. Rank 2: the pass had time for some of them, or for a slice of one.
  std::uint8_t rank = 0;
  bool counted_stranger = false;
  bool limited_as_subscriber = false;  ///< the class of output limits that it has
  bool error_sent = false;             ///< the reply to a parse error was sent
  bool lingering = false;              ///< everything is sent and our side is shut down; input of the peer is read and dropped
  bool dead = false;                   ///< closed; freed at the end of the round
};

}  // namespace ebbtide

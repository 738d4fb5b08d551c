// The request parser: RESP2 arrays of bulk strings, and inline commands, incrementally and without copies.
//
// The parser owns the connection's read buffer. Arguments are views into it; nothing moves while commands that were handed out
// are not released. What was scanned once is not scanned again, however small the pieces that the peer sends:
//   * a command that is not complete keeps its finished arguments and goes on where it stopped;
//   * a line without its end remembers how far it was searched;
//   * a bulk of more than kBigBulk bytes is received into a string of its own, which the engine can share instead of copying.
//     The largest one of a command is free; its others count towards the limit of the query buffer. Who owns the memory may
//     refuse a command's big bulks: they are then read over, and the command is handed out marked, without them.
// Memory follows what was received, never what was announced: a string grows eightfold at a time, and from 8 MiB on to the announced
// length, of which only what was received takes memory of the system.
//
// Whether input comes whole or byte by byte makes no difference to the commands or to the error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "resp/args.h"

namespace ebbtide {

struct ParserLimits {
  std::int64_t max_args = 1'048'576;
  std::int64_t max_bulk = std::int64_t{512} << 20;
  std::size_t max_query_buffer = std::size_t{64} << 20;  ///< bytes buffered, not counting one big bulk
  bool stranger = false;  ///< not authenticated: at most kStrangerArgs arguments of kStrangerBulk bytes
};

class RequestParser {
 public:
  static constexpr std::size_t kMaxLine = 64 << 10;  ///< an inline command, or a line after * or $, without its end
  static constexpr std::size_t kBigBulk = 64 << 10;
  static constexpr std::int64_t kStrangerArgs = 10, kStrangerBulk = 16'384;

  enum class Failure : std::uint8_t {
    kNone,
    kProtocol,     ///< error() is the reply; then the connection is closed
    kSecurity,     ///< HTTP spoken to us: close, drop queued replies
    kNotResp,      ///< first byte 0x00 or a TLS hello: close at once
    kQueryBuffer,  ///< more buffered than the limit allows: close
  };

  RequestParser() = default;
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Room to receive into, at least 1 byte; then call received(). Not while commands are handed out, nor after a failure.
  std::span<char> room(const ParserLimits& limits);
  void received(std::size_t n);
  /// Bytes of the big bulk being received that are still to come; 0 if none is. Then feed() saves the detour over room().
  [[nodiscard]] std::size_t big_missing() const { return big_ ? big_length_ - big_received_ : 0; }
  /// Takes input from elsewhere (copies it).
  void feed(Bytes data, const ParserLimits& limits);

  /// Parses until the input, or `max_commands`, is used up or an error is met; returns how many commands are ready. Not while
  /// commands are handed out.
  std::size_t parse(const ParserLimits& limits, std::size_t max_commands);
  [[nodiscard]] std::size_t ready() const { return commands_.size(); }
  [[nodiscard]] Args command(std::size_t i) const;
  /// The commands are done; their arguments are gone.
  void release();
  /// Hands over the memory of the commands that are handed out: their arguments are valid as long as the result. The parser is
  /// not used any more.
  [[nodiscard]] std::shared_ptr<const void> take_input();
  /// Bytes that take_input() would hand over, but for big bulks that have another owner.
  [[nodiscard]] std::size_t input_memory() const { return buffer_memory() + big_held_; }
  /// Whether parse() may give more without another received(): it stopped at max_commands, not for want of input.
  [[nodiscard]] bool has_input() const { return position_ < end_ && !starved_; }

  /// There is no memory for the big bulks of the command in the making: those it has are dropped, the rest of them is read over.
  void refuse_big();

  /// True if commands that are ready have big bulks that hand_over() was not called for.
  [[nodiscard]] bool can_hand_over() const { return handed_ < first_shared_; }
  /// Calls `take` with each such big bulk and keeps what it returns in its place: the same bytes, with another owner. They do not
  /// count in big_memory() any more.
  void hand_over(const std::function<std::shared_ptr<const std::string>(std::shared_ptr<const std::string>)>& take);

  /// Met after the commands that are ready; final.
  [[nodiscard]] Failure failure() const { return failure_; }
  /// "Protocol error: ..." without "-ERR ".
  [[nodiscard]] const std::string& error() const { return error_; }

  /// Bytes held: buffer and big bulks.
  [[nodiscard]] std::size_t memory() const { return buffer_memory() + big_memory(); }
  /// Without the big bulks.
  [[nodiscard]] std::size_t buffer_memory() const { return capacity_ + args_.capacity() * sizeof(Bytes); }
  /// Big bulks of the commands that are handed out and of the one in the making, but for those that hand_over() gave another owner.
  [[nodiscard]] std::size_t big_memory() const { return big_held_ + (big_ ? big_->size() : 0); }
  /// Bytes of big bulks of the command in the making.
  [[nodiscard]] std::size_t big_bytes() const { return big_done_ + (big_ ? big_->size() : 0); }
  /// Bytes of the buffer that nothing was received into.
  [[nodiscard]] std::size_t unused() const { return capacity_ - (end_ - start_); }
  /// Bytes received and not yet done with.
  [[nodiscard]] std::size_t buffered() const { return end_ - start_; }

 private:
  struct Command {
    std::uint32_t first_arg, args, first_shared, shared;
    bool refused;
  };
  enum class Step : std::uint8_t { kCommand, kNothing, kNeedMore, kFailed };

  Step parse_one(const ParserLimits& limits);
  /// Takes a short command that is there entirely, at once; false if it is not such a command, and nothing was taken.
  bool parse_whole(const ParserLimits& limits);
  Step parse_count(const ParserLimits& limits);
  Step parse_bulk(const ParserLimits& limits);
  Step parse_inline();
  bool split_inline(char* p, char* end);
  Step begin_big(std::size_t available);
  void append_big(Bytes data);
  Step finish_command();
  Step fail(Failure failure, std::string error);
  /// Length of the line at position_ without its end, or kNoLine / kLongLine.
  std::size_t find_line(char terminator);
  void make_room(std::size_t n, const ParserLimits& limits);
  void give_back();

  // The buffer: [start_, position_) belongs to commands in the making or handed out, [position_, end_) is not parsed yet.
  char* buffer_ = nullptr;
  std::size_t capacity_ = 0, start_ = 0, position_ = 0, end_ = 0;
  std::size_t searched_ = 0;  ///< of the line at position_, bytes known to hold no end

  // The command in the making.
  bool in_array_ = false;
  std::int64_t args_missing_ = 0;
  std::int64_t bulk_length_ = -1;  ///< -1: its header is next
  std::uint32_t first_arg_ = 0, first_shared_ = 0;
  std::shared_ptr<std::string> big_;
  std::size_t big_length_ = 0, big_received_ = 0;  ///< announced, and received of it whether kept or not
  std::size_t big_held_ = 0;                       ///< of all complete ones in shared_ from handed_ on
  std::uint32_t handed_ = 0;                       ///< of shared_, how many have another owner
  bool refused_ = false;                           ///< the command's big bulks are not kept
  std::size_t big_done_ = 0, big_largest_ = 0;     ///< of its big bulks that are complete: their sum, the largest

  std::vector<Bytes> args_;
  std::vector<SharedArg> shared_;
  std::vector<Command> commands_;
  bool first_byte_seen_ = false;
  bool starved_ = false;  ///< nothing more can be parsed before more is received
  Failure failure_ = Failure::kNone;
  std::string error_;
};

}  // namespace ebbtide

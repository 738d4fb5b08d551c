// The request parser: RESP2 arrays of bulk strings, and inline commands, incrementally and without copies.
//
// The parser owns the connection's read buffer. Arguments are views into it, so no byte moves until the commands that were handed
// out are released. No byte is scanned twice, even if the peer sends byte by byte:
//   * An incomplete command keeps its finished arguments; parsing continues where it stopped.
//   * If a line is incomplete, the parser stores how far it has searched for the line's end.
//   * A bulk of more than kBigBulk bytes is received into a string of its own, which the engine can share instead of copying. The
//     largest such bulk of a command is free; the others count towards the limit of the query buffer. If there is no memory for a
//     command's big bulks, the loop refuses them. They are skipped, and the command is handed out without them, as `refused`.
// Memory follows the received bytes, not the announced length. A string grows eightfold at a time. From 8 MiB on it gets its
// announced length, of which only the received part takes memory of the system.
//
// Commands and errors are the same whether input comes at once or byte by byte.
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
  std::size_t max_query_buffer = std::size_t{64} << 20;  ///< limit of buffered bytes, without one big bulk per command
  bool stranger = false;  ///< the client has not authenticated: at most kStrangerArgs arguments, of kStrangerBulk bytes each
};

class RequestParser {
 public:
  /// The most bytes of an inline command, or of a line after * or $, without the line's end.
  static constexpr std::size_t kMaxLine = 64 << 10;
  static constexpr std::size_t kBigBulk = 64 << 10;
  static constexpr std::int64_t kStrangerArgs = 10, kStrangerBulk = 16'384;

  enum class Failure : std::uint8_t {
    kNone,
    kProtocol,     ///< error() is the reply; then the connection closes
    kSecurity,     ///< the peer speaks HTTP: close, and drop replies that wait to be sent
    kNotResp,      ///< the first byte is 0x00, or begins a TLS handshake: close at once
    kQueryBuffer,  ///< more bytes are buffered than the limit allows: close
  };

  RequestParser() = default;
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Returns room for received bytes, at least 1; then call received(). Not allowed while commands are handed out, or after a
  /// failure.
  std::span<char> room(const ParserLimits& limits);
  void received(std::size_t n);
  /// Returns how many bytes are missing of the big bulk that is being received; 0 if there is none. For these, feed() is faster
  /// than room().
  [[nodiscard]] std::size_t big_missing() const { return big_ ? big_length_ - big_received_ : 0; }
  /// Copies input from other memory into the parser.
  void feed(Bytes data, const ParserLimits& limits);

  /// Parses until the input ends, `max_commands` are parsed, or an error occurs. Returns the number of ready commands. Not
  /// allowed while commands are handed out.
  std::size_t parse(const ParserLimits& limits, std::size_t max_commands);
  [[nodiscard]] std::size_t ready() const { return commands_.size(); }
  [[nodiscard]] Args command(std::size_t i) const;
  /// Ends the use of the commands that were handed out. Their arguments become invalid.
  void release();
  /// Frees all input. The parser must not be used afterwards.
  void discard();
  /// Returns an owner of the memory of the commands that were handed out: their arguments are valid while it lives. The parser
  /// must not be used afterwards.
  [[nodiscard]] std::shared_ptr<const void> take_input();
  /// Returns the memory that take_input() would return, without big bulks that have another owner.
  [[nodiscard]] std::size_t input_memory() const { return buffer_memory() + big_held_; }
  /// Returns true if parse() may return more commands without another received(), because it stopped at max_commands.
  [[nodiscard]] bool has_input() const { return position_ < end_ && !starved_; }

  /// Drops the received big bulks of the incomplete command, and skips the others. The loop calls this if memory for them is
  /// short.
  void refuse_big();

  /// Returns true if ready commands have big bulks that hand_over() has not processed.
  [[nodiscard]] bool can_hand_over() const { return handed_ < first_shared_; }
  /// Calls `take` for each big bulk of ready commands, and replaces the bulk with the result: the same bytes with another owner.
  /// big_memory() then no longer counts these bytes.
  void hand_over(const std::function<std::shared_ptr<const std::string>(std::shared_ptr<const std::string>)>& take);

  /// Returns the error that follows the ready commands. After it the parser parses no more.
  [[nodiscard]] Failure failure() const { return failure_; }
  /// Returns the error's text, "Protocol error: ...", without "-ERR ".
  [[nodiscard]] const std::string& error() const { return error_; }

  /// Returns the bytes of the buffer and of big bulks.
  [[nodiscard]] std::size_t memory() const { return buffer_memory() + big_memory(); }
  /// Like memory(), without big bulks.
  [[nodiscard]] std::size_t buffer_memory() const { return capacity_ + args_.capacity() * sizeof(Bytes); }
  /// Returns the bytes of big bulks of the incomplete command and of the commands that were handed out. Bulks that hand_over()
  /// gave to another owner are not included.
  [[nodiscard]] std::size_t big_memory() const { return big_held_ + (big_ ? big_->size() : 0); }
  /// Returns the bytes of big bulks of the incomplete command.
  [[nodiscard]] std::size_t big_bytes() const { return big_done_ + (big_ ? big_->size() : 0); }
  /// Returns the unused bytes of the buffer.
  [[nodiscard]] std::size_t unused() const { return capacity_ - (end_ - start_); }
  /// Returns the bytes that were received and whose commands are not released.
  [[nodiscard]] std::size_t buffered() const { return end_ - start_; }

 private:
  struct Command {
    std::uint32_t first_arg, args, first_shared, shared;
    bool refused;
  };
  enum class Step : std::uint8_t { kCommand, kNothing, kNeedMore, kFailed };

  Step parse_one(const ParserLimits& limits);
  /// Takes a short, complete command at once. Returns false, and takes nothing, if there is none.
  bool parse_whole(const ParserLimits& limits);
  Step parse_count(const ParserLimits& limits);
  Step parse_bulk(const ParserLimits& limits);
  Step parse_inline();
  bool split_inline(char* p, char* end);
  Step begin_big(std::size_t available);
  void append_big(Bytes data);
  Step finish_command();
  Step fail(Failure failure, std::string error);
  /// Returns the length of the line at position_, without its end; kNoLine if it is incomplete, kLongLine if it is too long.
  std::size_t find_line(char terminator);
  void make_room(std::size_t n, const ParserLimits& limits);
  void give_back();

  // In the buffer, the commands in [start_, position_) are incomplete or handed out, and [position_, end_) is not parsed.
  char* buffer_ = nullptr;
  std::size_t capacity_ = 0, start_ = 0, position_ = 0, end_ = 0;
  std::size_t searched_ = 0;  ///< bytes of the line at position_ that were searched for its end

  // The state of the incomplete command.
  bool in_array_ = false;
  std::int64_t args_missing_ = 0;
  std::int64_t bulk_length_ = -1;  ///< -1: the bulk's header is next
  std::uint32_t first_arg_ = 0, first_shared_ = 0;
  std::shared_ptr<std::string> big_;
  /// Bytes of the current big bulk that were announced, and that were received (kept or dropped).
  std::size_t big_length_ = 0, big_received_ = 0;
  std::size_t big_held_ = 0;  ///< bytes of the complete big bulks that hand_over() has not given away
  std::uint32_t handed_ = 0;  ///< number of elements at the start of shared_ that have another owner
  bool refused_ = false;      ///< the command's big bulks are dropped
  /// Bytes of the incomplete command's complete big bulks: their sum, and the largest.
  std::size_t big_done_ = 0, big_largest_ = 0;

  std::vector<Bytes> args_;
  std::vector<SharedArg> shared_;
  std::vector<Command> commands_;
  bool first_byte_seen_ = false;
  bool starved_ = false;  ///< parsing needs more input before it can continue
  Failure failure_ = Failure::kNone;
  std::string error_;
};

}  // namespace ebbtide

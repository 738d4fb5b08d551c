// The request parser: RESP2 arrays of bulk strings, and inline commands, incrementally and without copies.
//
// The parser owns the connection's read buffer. Arguments are views into it, so nothing moves until the commands that were handed
// out are released. No byte is scanned twice, however small the pieces are that the peer sends:
//   * An incomplete command keeps its finished arguments; parsing continues where it stopped.
//   * For a line without its end, the parser remembers how far it was searched.
//   * A bulk of more than kBigBulk bytes is received into a string of its own, which the engine can share instead of copying. The
//     largest such bulk of a command is free; the others count towards the limit of the query buffer. The owner of the memory may
//     refuse a command's big bulks. They are then skipped, and the command is handed out without them, marked as refused.
// Memory follows what was received, not what was announced. A string grows eightfold at a time, and from 8 MiB on to the
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
  std::size_t max_query_buffer = std::size_t{64} << 20;  ///< buffered bytes, except for one big bulk
  bool stranger = false;  ///< the client has not authenticated: at most kStrangerArgs arguments of kStrangerBulk bytes each
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
    kSecurity,     ///< the peer speaks HTTP: close, and drop queued replies
    kNotResp,      ///< the first byte is 0x00 or a TLS hello: close at once
    kQueryBuffer,  ///< more bytes are buffered than the limit allows: close
  };

  RequestParser() = default;
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Returns room to receive into, at least 1 byte; received() must follow. Not while commands are handed out, nor after a
  /// failure.
  std::span<char> room(const ParserLimits& limits);
  void received(std::size_t n);
  /// Returns the missing bytes of the big bulk that is being received; 0 if there is none. For these, feed() is faster than
  /// room().
  [[nodiscard]] std::size_t big_missing() const { return big_ ? big_length_ - big_received_ : 0; }
  /// Copies input from other memory into the parser.
  void feed(Bytes data, const ParserLimits& limits);

  /// Parses until the input is used up, `max_commands` are parsed or an error occurs. Returns the number of ready commands. Must
  /// not be called while commands are handed out.
  std::size_t parse(const ParserLimits& limits, std::size_t max_commands);
  [[nodiscard]] std::size_t ready() const { return commands_.size(); }
  [[nodiscard]] Args command(std::size_t i) const;
  /// Ends the commands that were handed out. Their arguments become invalid.
  void release();
  /// Frees all input. The parser must not be used afterwards.
  void discard();
  /// Returns the memory of the commands that were handed out: their arguments are valid as long as the result lives. The parser
  /// must not be used afterwards.
  [[nodiscard]] std::shared_ptr<const void> take_input();
  /// Returns the bytes that take_input() would return, except for big bulks that have another owner.
  [[nodiscard]] std::size_t input_memory() const { return buffer_memory() + big_held_; }
  /// Returns true if parse() may return more commands without another received(): it stopped at max_commands, not because input
  /// ended.
  [[nodiscard]] bool has_input() const { return position_ < end_ && !starved_; }

  /// Called if there is no memory for the big bulks of the incomplete command: drops those received, and skips the others.
  void refuse_big();

  /// Returns true if ready commands have big bulks that hand_over() was not called for.
  [[nodiscard]] bool can_hand_over() const { return handed_ < first_shared_; }
  /// Calls `take` for each big bulk of ready commands, and replaces the bulk with the result: the same bytes, with another owner.
  /// big_memory() no longer includes these bytes.
  void hand_over(const std::function<std::shared_ptr<const std::string>(std::shared_ptr<const std::string>)>& take);

  /// Returns the error after the ready commands. It is final.
  [[nodiscard]] Failure failure() const { return failure_; }
  /// Returns the error's text, "Protocol error: ...", without "-ERR ".
  [[nodiscard]] const std::string& error() const { return error_; }

  /// Returns the bytes of the buffer and of big bulks.
  [[nodiscard]] std::size_t memory() const { return buffer_memory() + big_memory(); }
  /// Like memory(), without big bulks.
  [[nodiscard]] std::size_t buffer_memory() const { return capacity_ + args_.capacity() * sizeof(Bytes); }
  /// Returns the bytes of big bulks of the incomplete command and of the commands that were handed out, except for bulks to which
  /// hand_over() gave another owner.
  [[nodiscard]] std::size_t big_memory() const { return big_held_ + (big_ ? big_->size() : 0); }
  /// Returns the bytes of big bulks of the incomplete command.
  [[nodiscard]] std::size_t big_bytes() const { return big_done_ + (big_ ? big_->size() : 0); }
  /// Returns the unused bytes of the buffer.
  [[nodiscard]] std::size_t unused() const { return capacity_ - (end_ - start_); }
  /// Returns the bytes that were received and not released.
  [[nodiscard]] std::size_t buffered() const { return end_ - start_; }

 private:
  struct Command {
    std::uint32_t first_arg, args, first_shared, shared;
    bool refused;
  };
  enum class Step : std::uint8_t { kCommand, kNothing, kNeedMore, kFailed };

  Step parse_one(const ParserLimits& limits);
  /// Takes a short, complete command at once. Returns false, and takes nothing, if there is no such command.
  bool parse_whole(const ParserLimits& limits);
  Step parse_count(const ParserLimits& limits);
  Step parse_bulk(const ParserLimits& limits);
  Step parse_inline();
  bool split_inline(char* p, char* end);
  Step begin_big(std::size_t available);
  void append_big(Bytes data);
  Step finish_command();
  Step fail(Failure failure, std::string error);
  /// Returns the length of the line at position_ without its end; or kNoLine, or kLongLine.
  std::size_t find_line(char terminator);
  void make_room(std::size_t n, const ParserLimits& limits);
  void give_back();

  // In the buffer, [start_, position_) belongs to commands that are incomplete or handed out, and [position_, end_) is not
  // parsed.
  char* buffer_ = nullptr;
  std::size_t capacity_ = 0, start_ = 0, position_ = 0, end_ = 0;
  std::size_t searched_ = 0;  ///< bytes of the line at position_ that have no line end

  // The state of the incomplete command.
  bool in_array_ = false;
  std::int64_t args_missing_ = 0;
  std::int64_t bulk_length_ = -1;  ///< -1: its header is next
  std::uint32_t first_arg_ = 0, first_shared_ = 0;
  std::shared_ptr<std::string> big_;
  /// The current big bulk: its announced bytes, and how many of them were received, kept or not.
  std::size_t big_length_ = 0, big_received_ = 0;
  std::size_t big_held_ = 0;                    ///< bytes of all complete big bulks in shared_ from handed_ on
  std::uint32_t handed_ = 0;                    ///< how many elements of shared_ have another owner
  bool refused_ = false;                        ///< the command's big bulks are not kept
  std::size_t big_done_ = 0, big_largest_ = 0;  ///< bytes of the command's complete big bulks: their sum, and the largest

  std::vector<Bytes> args_;
  std::vector<SharedArg> shared_;
  std::vector<Command> commands_;
  bool first_byte_seen_ = false;
  bool starved_ = false;  ///< parsing needs more input
  Failure failure_ = Failure::kNone;
  std::string error_;
};

}  // namespace ebbtide

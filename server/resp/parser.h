// The request parser: RESP2 arrays of bulk strings, and inline commands, incrementally and without copies.
//
// The parser owns the connection's read buffer. Arguments are views into it, so nothing moves until the commands that were handed
// out are released. No byte is scanned twice, however small the pieces that the peer sends:
//   * An incomplete command keeps its finished arguments and goes on where it stopped.
//   * A line without its end remembers how far it was searched.
//   * A bulk of more than kBigBulk bytes is received into a string of its own, which the engine can share instead of copying. The
//     largest one of a command is free; the others count towards the limit of the query buffer. The owner of the memory may
//     refuse a command's big bulks. They are then skipped, and the command is handed out without them, marked.
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
  bool stranger = false;  ///< not authenticated: at most kStrangerArgs arguments of kStrangerBulk bytes each
};

class RequestParser {
 public:
  static constexpr std::size_t kMaxLine = 64 << 10;  ///< of an inline command, or of a line after * or $, without its end
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

  /// Room to receive into, at least 1 byte; received() must follow. Not while commands are handed out, nor after a failure.
  std::span<char> room(const ParserLimits& limits);
  void received(std::size_t n);
  /// Missing bytes of the big bulk that is being received; 0 if there is none. For these, feed() is faster than room().
  [[nodiscard]] std::size_t big_missing() const { return big_ ? big_length_ - big_received_ : 0; }
  /// Copies input from other memory.
  void feed(Bytes data, const ParserLimits& limits);

  /// Parses until the input is used up, `max_commands` are parsed or an error occurs. Returns the number of ready commands. Not
  /// while commands are handed out.
  std::size_t parse(const ParserLimits& limits, std::size_t max_commands);
  [[nodiscard]] std::size_t ready() const { return commands_.size(); }
  [[nodiscard]] Args command(std::size_t i) const;
  /// Ends the commands that were handed out, and their arguments.
  void release();
  /// Frees all input. The parser must not be used afterwards.
  void discard();
  /// Hands over the memory of the commands that were handed out: their arguments are valid as long as the result. The parser must
  /// not be used afterwards.
  [[nodiscard]] std::shared_ptr<const void> take_input();
  /// Bytes that take_input() would hand over, except for big bulks that have another owner.
  [[nodiscard]] std::size_t input_memory() const { return buffer_memory() + big_held_; }
  /// True if parse() may return more commands without another received(): it stopped at max_commands, not for lack of input.
  [[nodiscard]] bool has_input() const { return position_ < end_ && !starved_; }

  /// There is no memory for the big bulks of the incomplete command: those received are dropped, the others will be skipped.
  void refuse_big();

  /// True if ready commands have big bulks that hand_over() was not called for.
  [[nodiscard]] bool can_hand_over() const { return handed_ < first_shared_; }
  /// Calls `take` for each such big bulk, and replaces it with the result: the same bytes, with another owner. They no longer
  /// count in big_memory().
  void hand_over(const std::function<std::shared_ptr<const std::string>(std::shared_ptr<const std::string>)>& take);

  /// The error after the ready commands. It is final.
  [[nodiscard]] Failure failure() const { return failure_; }
  /// "Protocol error: ..." without "-ERR ".
  [[nodiscard]] const std::string& error() const { return error_; }

  /// Bytes of the buffer and of big bulks.
  [[nodiscard]] std::size_t memory() const { return buffer_memory() + big_memory(); }
  /// The same without big bulks.
  [[nodiscard]] std::size_t buffer_memory() const { return capacity_ + args_.capacity() * sizeof(Bytes); }
  /// Big bulks of the commands that were handed out and of the incomplete one, except for those that hand_over() gave another
  /// owner.
  [[nodiscard]] std::size_t big_memory() const { return big_held_ + (big_ ? big_->size() : 0); }
  /// Bytes of big bulks of the incomplete command.
  [[nodiscard]] std::size_t big_bytes() const { return big_done_ + (big_ ? big_->size() : 0); }
  /// Unused bytes of the buffer.
  [[nodiscard]] std::size_t unused() const { return capacity_ - (end_ - start_); }
  /// Bytes that were received and not released.
  [[nodiscard]] std::size_t buffered() const { return end_ - start_; }

 private:
  struct Command {
    std::uint32_t first_arg, args, first_shared, shared;
    bool refused;
  };
  enum class Step : std::uint8_t { kCommand, kNothing, kNeedMore, kFailed };

  Step parse_one(const ParserLimits& limits);
  /// Takes a short, complete command at once. Returns false if there is none such; then nothing was taken.
  bool parse_whole(const ParserLimits& limits);
  Step parse_count(const ParserLimits& limits);
  Step parse_bulk(const ParserLimits& limits);
  Step parse_inline();
  bool split_inline(char* p, char* end);
  Step begin_big(std::size_t available);
  void append_big(Bytes data);
  Step finish_command();
  Step fail(Failure failure, std::string error);
  /// Length of the line at position_ without its end; or kNoLine, or kLongLine.
  std::size_t find_line(char terminator);
  void make_room(std::size_t n, const ParserLimits& limits);
  void give_back();

  // The buffer: [start_, position_) belongs to commands that are incomplete or handed out, [position_, end_) is not parsed.
  char* buffer_ = nullptr;
  std::size_t capacity_ = 0, start_ = 0, position_ = 0, end_ = 0;
  std::size_t searched_ = 0;  ///< bytes of the line at position_ that have no line end

  // The incomplete command.
  bool in_array_ = false;
  std::int64_t args_missing_ = 0;
  std::int64_t bulk_length_ = -1;  ///< -1: its header is next
  std::uint32_t first_arg_ = 0, first_shared_ = 0;
  std::shared_ptr<std::string> big_;
  std::size_t big_length_ = 0, big_received_ = 0;  ///< announced, and received of that, kept or not
  std::size_t big_held_ = 0;                       ///< of all complete big bulks in shared_ from handed_ on
  std::uint32_t handed_ = 0;                       ///< how many of shared_ have another owner
  bool refused_ = false;                           ///< the command's big bulks are not kept
  std::size_t big_done_ = 0, big_largest_ = 0;     ///< of the command's complete big bulks: their sum, and the largest

  std::vector<Bytes> args_;
  std::vector<SharedArg> shared_;
  std::vector<Command> commands_;
  bool first_byte_seen_ = false;
  bool starved_ = false;  ///< parsing needs more input
  Failure failure_ = Failure::kNone;
  std::string error_;
};

}  // namespace ebbtide

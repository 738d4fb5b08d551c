// The reply writer: one call per value, directly into the client's output buffer, in RESP2 or RESP3.
//
// Types that RESP2 lacks are written as in Redis 7.2. A map becomes a flat array of twice the length; a set and a push become
// arrays. A double, a big number and a verbatim text become bulk strings. A boolean becomes 1 or 0; the two nulls become $-1 and
// *-1.
//
// These functions allocate no memory of their own. Values of at least kSharedBytes can be appended without a copy (bulk_shared).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "resp/output_buffer.h"

namespace ebbtide {

/// Writes `value` as Redis 7.2 does: the shortest text that reads back the same ("0.1", "1e+21", "inf", "-inf", "nan"),
/// and integers up to half of int64 with all digits ("1700000000000"). Returns the length, at most 32 bytes.
std::size_t format_double(double value, char* out);
/// Writes `value` in decimal. Returns the length, at most 20 bytes.
std::size_t format_integer(std::int64_t value, char* out);

/// Writes to an OutputBuffer, on the buffer's thread. Copies are cheap.
class Reply {
 public:
  /// bulk_shared() does not copy values of at least this size.
  static constexpr std::size_t kSharedBytes = 16 << 10;

  /// `protocol` is 2 or 3.
  explicit Reply(OutputBuffer* out, int protocol = 2) : out_(out), protocol_(protocol) {}

  [[nodiscard]] int protocol() const { return protocol_; }
  void set_protocol(int protocol) { protocol_ = protocol; }
  [[nodiscard]] OutputBuffer& out() { return *out_; }

  /// Writes "+text". The text must have no CR or LF.
  void simple(Bytes text);
  void ok() { out_->append("+OK\r\n"); }
  /// Writes "-text". The text starts with an error code ("ERR no such key"). CR and LF in the text become spaces. errors() counts
  /// the call.
  void error(Bytes text);
  void integer(std::int64_t value);
  void bulk(Bytes value);
  /// Like bulk(), but does not copy a value of at least kSharedBytes, which `owner` keeps alive. If `owner` is null, copies it.
  void bulk_shared(std::shared_ptr<const void> owner, Bytes value);
  /// Writes a bulk string that many clients share. `value_and_end` is the value followed by CRLF. The bytes count in the buffer's
  /// memory() as if they were copied.
  void bulk_message(std::shared_ptr<const void> owner, Bytes value_and_end);
  /// Writes "$-1" in RESP2, "_" in RESP3.
  void null();
  /// Writes "*-1" in RESP2, "_" in RESP3.
  void null_array();

  /// Write the header of a value with `n` elements; a map or attribute has `n` pairs.
  void array(std::size_t n);
  void map(std::size_t n);
  void set(std::size_t n);
  void push(std::size_t n);
  /// RESP3 only: the caller must check protocol() == 3.
  void attribute(std::size_t n);

  void double_(double value);
  /// Like double_(), for a number that is formatted already.
  void double_text(Bytes text);
  void boolean(bool value);
  /// Writes a verbatim string. `format` has three letters, such as "txt" or "mkd".
  void verbatim(Bytes format, Bytes text);
  /// Like verbatim(), for a text in parts. Frees each part once it is copied, so that the text is not in memory twice.
  void verbatim_in_parts(Bytes format, std::deque<std::string> parts);
  /// Writes a decimal number of any length.
  void big_number(Bytes digits);

  /// Write an array whose length is known only after its elements: `auto d = reply.begin_array(); ...; reply.end_array(d, n);`
  /// Arrays may be nested. Each must be ended or rolled back.
  [[nodiscard]] std::uint64_t begin_array() { return out_->open_hole(); }
  void end_array(std::uint64_t hole, std::size_t n);

  /// The position at which the next reply starts. If a handler must run again, rollback() to the mark removes its output.
  struct Mark {
    OutputBuffer::Mark out;
    std::uint64_t errors;
  };
  [[nodiscard]] Mark mark() const { return {out_->mark(), errors_}; }
  void rollback(const Mark& mark) {
    out_->truncate(mark.out);
    errors_ = mark.errors;
  }
  /// Returns the number of error() calls on this object.
  [[nodiscard]] std::uint64_t errors() const { return errors_; }

 private:
  void header(char type, std::int64_t n);

  OutputBuffer* out_;
  int protocol_;
  std::uint64_t errors_ = 0;
};

}  // namespace ebbtide

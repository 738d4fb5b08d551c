// The reply writer: one call a value, straight into the client's output buffer, in RESP2 or RESP3.
//
// What RESP2 lacks is written as Redis 7.2 writes it there: a map as a flat array of twice the length, a set and a push as an
// array, a double, a big number and a verbatim text as a bulk string, a boolean as 1 or 0, both nulls as $-1 or *-1.
// Nothing here allocates; values of kSharedBytes and more can be passed on without a copy (bulk_shared).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "resp/output_buffer.h"

namespace ebbtide {

/// Writes `value` as Redis 7.2 does (shortest text that reads back the same: "3", "0.1", "1e+21", "inf", "-inf", "nan").
/// Returns the length; at most 32 bytes.
std::size_t format_double(double value, char* out);
/// Decimal; returns the length, at most 20 bytes.
std::size_t format_integer(std::int64_t value, char* out);

/// A view on an OutputBuffer; copies are cheap. Same thread as its buffer.
class Reply {
 public:
  /// From this size on bulk_shared refers to the value instead of copying it.
  static constexpr std::size_t kSharedBytes = 16 << 10;

  /// `protocol` is 2 or 3.
  explicit Reply(OutputBuffer* out, int protocol = 2) : out_(out), protocol_(protocol) {}

  [[nodiscard]] int protocol() const { return protocol_; }
  void set_protocol(int protocol) { protocol_ = protocol; }
  [[nodiscard]] OutputBuffer& out() { return *out_; }

  /// "+text"; the text must have no CR or LF.
  void simple(Bytes text);
  void ok() { out_->append("+OK\r\n"); }
  /// "-text": the text starts with its code ("ERR no such key"). CR and LF in it become spaces. Counted in errors().
  void error(Bytes text);
  void integer(std::int64_t value);
  void bulk(Bytes value);
  /// The decimal text of a number as a bulk string.
  void bulk_integer(std::int64_t value);
  /// As bulk; from kSharedBytes on the value is not copied but kept by `owner`, which may be null (then it is copied).
  void bulk_shared(std::shared_ptr<const void> owner, Bytes value);
  /// RESP2 "$-1", RESP3 "_".
  void null();
  /// RESP2 "*-1", RESP3 "_".
  void null_array();
  void bulk_or_null(const std::optional<Bytes>& value) { value ? bulk(*value) : null(); }
  template <typename Optional>
  void bulk_or_null(const Optional& value) {
    value ? bulk(Bytes(*value)) : null();
  }

  /// Headers: that many elements (map, attribute: pairs) follow.
  void array(std::size_t n);
  void map(std::size_t n);
  void set(std::size_t n);
  void push(std::size_t n);
  /// RESP3 only: the caller checks protocol() == 3.
  void attribute(std::size_t n);

  void double_(double value);
  void boolean(bool value);
  /// `format` has three letters: "txt", "mkd".
  void verbatim(Bytes format, Bytes text);
  /// `digits` is a decimal number of any length.
  void big_number(Bytes digits);
  /// Bytes that are RESP already.
  void raw(Bytes resp) { out_->append(resp); }

  /// An aggregate whose length is known only after its elements: `auto d = reply.begin_array(); ...; reply.end_array(d, n);`
  /// They nest. Each must be ended or rolled back.
  [[nodiscard]] std::uint64_t begin_array() { return out_->open_hole(); }
  void end_array(std::uint64_t hole, std::size_t n) { fill('*', hole, n); }
  void end_set(std::uint64_t hole, std::size_t n) { fill(protocol_ == 3 ? '~' : '*', hole, n); }
  void end_map(std::uint64_t hole, std::size_t n) { protocol_ == 3 ? fill('%', hole, n) : fill('*', hole, 2 * n); }

  /// Where the next reply starts, and back to it: what a handler wrote before it had to be run again.
  struct Mark {
    OutputBuffer::Mark out;
    std::uint64_t errors;
  };
  [[nodiscard]] Mark mark() const { return {out_->mark(), errors_}; }
  void rollback(const Mark& mark) {
    out_->truncate(mark.out);
    errors_ = mark.errors;
  }
  /// How many error() calls were made through this object.
  [[nodiscard]] std::uint64_t errors() const { return errors_; }

 private:
  void header(char type, std::int64_t n);
  void fill(char type, std::uint64_t hole, std::size_t n);

  OutputBuffer* out_;
  int protocol_;
  std::uint64_t errors_ = 0;
};

}  // namespace ebbtide

#include "dispatch/arg_cursor.h"

#include <limits>

#include "store/numbers.h"

namespace ebbtide {

Status syntax_error() { return Status::invalid_argument("ERR syntax error"); }

Status not_an_integer() { return Status::invalid_argument("ERR value is not an integer or out of range"); }

Result<std::int64_t> integer_argument(Bytes text) {
  const auto value = parse_integer(text);
  if (!value) return not_an_integer();
  return *value;
}

Result<std::int64_t> integer_argument_in(Bytes text, std::int64_t min, std::int64_t max) {
  TRY_ASSIGN(value, integer_argument(text));
  if (value < min || value > max) {
    return reply_error("ERR value is out of range, value must between " + to_text(min) + " and " + to_text(max));
  }
  return value;
}

Result<std::uint64_t> timeout_argument(Bytes text, Millis now) {
  const auto timeout = parse_integer(text);
  if (!timeout) return reply_error("ERR timeout is not an integer or out of range");
  if (*timeout < 0) return reply_error("ERR timeout is negative");
  if (*timeout > std::numeric_limits<std::int64_t>::max() - static_cast<std::int64_t>(now)) {
    return reply_error("ERR timeout is out of range");
  }
  return static_cast<std::uint64_t>(*timeout);
}

Result<long double> float_argument(Bytes text) {
  const auto value = parse_long_double(text);
  if (!value) return reply_error("ERR value is not a valid float");
  return *value;
}

bool ArgCursor::take_word(Bytes word) {
  if (done() || !equal_ignoring_case(peek(), word)) return false;
  ++next_;
  return true;
}

bool ArgCursor::take_option(Bytes word, Bytes* value) {
  if (left() < 2 || !equal_ignoring_case(peek(), word)) return false;
  *value = args_[next_ + 1];
  next_ += 2;
  return true;
}

Status check_name_pattern(Bytes pattern) {
  constexpr std::size_t kMost = 4096;
  if (pattern.size() <= kMost) return Status::ok();
  return reply_error("ERR a pattern of " + std::to_string(pattern.size()) + " bytes is too long: " + std::to_string(kMost) +
                     " bytes are allowed");
}

}  // namespace ebbtide

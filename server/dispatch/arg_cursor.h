// Parses a command's arguments one after another, with Redis's errors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <engine/result.h>
#include <engine/types.h>

#include "resp/args.h"

namespace ebbtide {

/// Returns the error "ERR syntax error".
Status syntax_error();
/// Returns the error "ERR value is not an integer or out of range".
Status not_an_integer();
/// Returns an error reply. The text starts with the error's code.
inline Status reply_error(std::string text) { return Status::invalid_argument(std::move(text)); }

/// Returns a client's text as Redis quotes it in an error: up to the first zero byte, at most `max` bytes.
inline Bytes shown(Bytes text, std::size_t max = 128) { return text.substr(0, std::min(text.find('\0'), max)); }

/// Fails if a glob pattern is far longer than any name of a command or configuration key, since matching it would take long.
Status check_name_pattern(Bytes pattern);

/// Parses an int64. Fails with not_an_integer().
Result<std::int64_t> integer_argument(Bytes text);
/// Parses an int64 in [min, max]. The errors are those of Redis's getRangeLongFromObjectOrReply.
Result<std::int64_t> integer_argument_in(Bytes text, std::int64_t min, std::int64_t max);
/// Parses a timeout in ms and returns `now` plus the timeout. The errors are those of Redis's getTimeoutFromObjectOrReply.
Result<std::uint64_t> timeout_argument(Bytes text, Millis now);
/// Parses a long double. Fails with "ERR value is not a valid float".
Result<long double> float_argument(Bytes text);

/// Reads the arguments one by one, from index `first` on.
class ArgCursor {
 public:
  ArgCursor(const Args& args, std::size_t first) : args_(args), next_(first) {}

  [[nodiscard]] bool done() const { return next_ >= args_.size(); }
  [[nodiscard]] std::size_t left() const { return done() ? 0 : args_.size() - next_; }
  [[nodiscard]] Bytes peek() const { return args_[next_]; }
  /// Requires !done().
  Bytes take() { return args_[next_++]; }
  /// If the next argument equals `word`, in any case, takes it and returns true.
  bool take_word(Bytes word);
  /// If the next argument equals `word`, in any case, and another argument follows: takes both, sets `*value` to the second, and
  /// returns true.
  bool take_option(Bytes word, Bytes* value);

 private:
  const Args& args_;
  std::size_t next_;
};

}  // namespace ebbtide

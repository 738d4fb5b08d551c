// The part of RESP2 that the load generator needs: GET and SET requests, and their replies.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/random.h"

namespace ebbtide::bench {

struct ReplyView {
  enum class Kind : std::uint8_t { kSimple, kError, kInteger, kBulk, kNull };
  Kind kind = Kind::kSimple;
  std::string_view body;  ///< the content without its frame; points into the parsed stream
  std::size_t bytes = 0;  ///< size of the whole reply in the stream; 0: incomplete
};

/// Returns the reply at the beginning of `stream`; a reply of 0 bytes if it is incomplete. Returns nullopt if the stream is no
/// RESP reply to a GET or SET: an array, an unknown first byte, a length that is no number.
inline std::optional<ReplyView> parse_reply(std::string_view stream) {
  const std::size_t end = stream.find("\r\n");
  if (stream.empty() || (end == std::string_view::npos && stream.size() < 512)) return ReplyView{};
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = stream.substr(1, end - 1);
  switch (stream[0]) {
    case '+':
      return ReplyView{ReplyView::Kind::kSimple, line, end + 2};
    case '-':
      return ReplyView{ReplyView::Kind::kError, line, end + 2};
    case ':':
      return ReplyView{ReplyView::Kind::kInteger, line, end + 2};
    case '_':
      return ReplyView{ReplyView::Kind::kNull, line, end + 2};
    case '$':
      break;
    default:
      return std::nullopt;
  }
  std::int64_t length = 0;
  const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), length);
  if (error != std::errc() || stop != line.data() + line.size() || length < -1) return std::nullopt;
  if (length == -1) return ReplyView{ReplyView::Kind::kNull, {}, end + 2};
  const std::size_t whole = end + 2 + static_cast<std::size_t>(length) + 2;
  if (stream.size() < whole) return ReplyView{};
  return ReplyView{ReplyView::Kind::kBulk, stream.substr(end + 2, static_cast<std::size_t>(length)), whole};
}

/// Makes requests for numbered keys. Key 42 is "key:000000000042", like redis-benchmark's, so that both tools can use the same
/// data; an absent key has a letter in place of its last digit. A value begins with the key's number, by which replies are
/// checked. Its other bytes are random, except for the requested compressible part.
class Requests {
 public:
  static constexpr std::size_t kDigits = 12;

  Requests(std::size_t value_bytes, double compressible, std::uint64_t seed)
      : value_bytes_(value_bytes), pool_(kPool + value_bytes, 'x') {
    Random random(seed);
    // Blocks of 16 bytes are random or constant, so that each value has this part.
    const auto limit = static_cast<std::uint64_t>(compressible * 1000);
    for (std::size_t i = 0; i < pool_.size(); i += 16) {
      if (random.uniform(1000) < limit) continue;
      for (std::size_t j = i; j < std::min(i + 16, pool_.size()); ++j) pool_[j] = static_cast<char>(random.next());
    }
  }
  void append_get(std::uint64_t key, bool absent, std::string& out) const {
    out += "*2\r\n$3\r\nGET\r\n$16\r\n";
    append_key(key, absent, out);
    out += "\r\n";
  }
  void append_set(std::uint64_t key, std::string& out) const {
    out += "*3\r\n$3\r\nSET\r\n$16\r\n";
    append_key(key, false, out);
    out += "\r\n$";
    out += std::to_string(value_bytes_);
    out += "\r\n";
    append_value(key, out);
    out += "\r\n";
  }
  void append_value(std::uint64_t key, std::string& out) const {
    const std::array<char, kDigits> number = digits(key);
    const std::size_t head = std::min(kDigits, value_bytes_);
    out.append(number.data(), head);
    out.append(pool_, (key * 7919) & (kPool - 1), value_bytes_ - head);
  }
  /// Returns true if a value has the length and the beginning that append_value() writes for this key.
  [[nodiscard]] bool belongs(std::uint64_t key, std::string_view value) const {
    const std::array<char, kDigits> number = digits(key);
    const std::size_t head = std::min(kDigits, value_bytes_);
    return value.size() == value_bytes_ && value.substr(0, head) == std::string_view(number.data(), head);
  }

 private:
  static constexpr std::size_t kPool = std::size_t{1} << 20;

  static std::array<char, kDigits> digits(std::uint64_t number) {
    std::array<char, kDigits> text;
    for (std::size_t i = kDigits; i-- > 0; number /= 10) text[i] = static_cast<char>('0' + number % 10);
    return text;
  }
  static void append_key(std::uint64_t key, bool absent, std::string& out) {
    const std::array<char, kDigits> number = digits(key);
    // An absent key sorts directly after the stored key of its number, so it is in the range of every file.
    out += "key:";
    out.append(number.data(), absent ? kDigits - 1 : kDigits);
    if (absent) out += static_cast<char>(number[kDigits - 1] + 'A' - '0');
  }
  std::size_t value_bytes_;
  std::string pool_;
};

}  // namespace ebbtide::bench

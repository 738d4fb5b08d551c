#include "store/rdb.h"

#include <engine/types.h>

#include <limits>

#include "store/numbers.h"

namespace ebbtide {
namespace {

/// Encodings of a string. Their byte stands where a length would be.
constexpr unsigned char kInt8 = 0xc0, kInt16 = 0xc1, kInt32 = 0xc2, kLzf = 0xc3;
constexpr unsigned char kLength32 = 0x80, kLength64 = 0x81;

void append_big(std::string* out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) out->push_back(static_cast<char>(value >> (8 * i)));
}

/// Returns true if `compressed` may decompress to `length` bytes: three bytes give at most 264. Checked before memory is
/// allocated for `length`.
bool may_decompress(Bytes compressed, std::uint64_t length) {
  constexpr std::size_t kMaxRatio = 264 / 3;
  return length / kMaxRatio <= compressed.size();
}

}  // namespace

std::int64_t load_little_signed(Bytes bytes) {
  const unsigned unused = 64 - 8 * static_cast<unsigned>(bytes.size());
  return static_cast<std::int64_t>(load_little(bytes) << unused) >> unused;
}

void append_little(std::string* out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i, value >>= 8) out->push_back(static_cast<char>(value));
}

void append_rdb_length(std::string* out, std::uint64_t length) {
  if (length < 1u << 6) {
    append_big(out, length, 1);
  } else if (length < 1u << 14) {
    append_big(out, 0x4000 | length, 2);
  } else if (length <= std::numeric_limits<std::uint32_t>::max()) {
    append_big(out, kLength32, 1);
    append_big(out, length, 4);
  } else {
    append_big(out, kLength64, 1);
    append_big(out, length, 8);
  }
}

bool append_rdb_integer(std::string* out, Bytes value) {
  constexpr std::size_t kMaxDigits = 11;
  const auto number = value.size() <= kMaxDigits ? parse_integer(value) : std::nullopt;
  if (!number) return false;
  const auto fits = [&](int bits) {
    return *number >= -(std::int64_t{1} << (bits - 1)) && *number < std::int64_t{1} << (bits - 1);
  };
  if (!fits(32)) return false;
  const auto bytes = static_cast<std::uint64_t>(*number);
  append_little(out, fits(8) ? kInt8 : fits(16) ? kInt16 : kInt32, 1);
  append_little(out, bytes, fits(8) ? 1 : fits(16) ? 2 : 4);
  return true;
}

void append_rdb_string(std::string* out, Bytes value) {
  if (append_rdb_integer(out, value)) return;
  append_rdb_length(out, value.size());
  out->append(value);
}

std::optional<std::string> unpack(const RdbString& string) {
  switch (string.form) {
    case RdbString::Form::kPlain:
      return std::string(string.bytes);
    case RdbString::Form::kInteger:
      return to_text(string.number);
    case RdbString::Form::kLzf:
      return lzf_decompress(string.bytes, string.length);
  }
  return std::nullopt;
}

std::optional<Bytes> RdbSource::take(std::uint64_t n) {
  if (n > rest_.size()) return std::nullopt;
  const Bytes taken = rest_.substr(0, n);
  rest_.remove_prefix(n);
  return taken;
}

std::optional<unsigned char> RdbSource::take_byte() {
  const auto byte = take(1);
  if (!byte) return std::nullopt;
  return static_cast<unsigned char>(byte->front());
}

std::optional<std::uint64_t> RdbSource::take_big(std::size_t bytes) {
  const auto taken = take(bytes);
  if (!taken) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : *taken) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

std::optional<std::uint64_t> RdbSource::take_little(std::size_t bytes) {
  const auto taken = take(bytes);
  if (!taken) return std::nullopt;
  return load_little(*taken);
}

std::optional<std::uint64_t> RdbSource::take_length(unsigned char first) {
  if (first < 0x40) return first;
  if (first < 0x80) {
    const auto low = take_byte();
    if (!low) return std::nullopt;
    return (first & 0x3fu) << 8 | *low;
  }
  if (first == kLength32) return take_big(4);
  if (first == kLength64) return take_big(8);
  return std::nullopt;
}

std::optional<std::uint64_t> RdbSource::take_length() {
  const auto first = take_byte();
  return first ? take_length(*first) : std::nullopt;
}

std::optional<RdbString> RdbSource::take_integer(std::size_t bytes) {
  const auto taken = take(bytes);
  if (!taken) return std::nullopt;
  return RdbString{.form = RdbString::Form::kInteger, .bytes = {}, .number = load_little_signed(*taken), .length = 0};
}

std::optional<RdbString> RdbSource::take_lzf() {
  const auto compressed_bytes = take_length();
  if (!compressed_bytes) return std::nullopt;
  const auto length = take_length();
  if (!length || *length > kMaxValueBytes) return std::nullopt;
  const auto compressed = take(*compressed_bytes);
  if (!compressed || !may_decompress(*compressed, *length)) return std::nullopt;
  return RdbString{.form = RdbString::Form::kLzf, .bytes = *compressed, .number = 0, .length = *length};
}

std::optional<RdbString> RdbSource::take_string() {
  const auto first = take_byte();
  if (!first) return std::nullopt;
  if (*first == kInt8) return take_integer(1);
  if (*first == kInt16) return take_integer(2);
  if (*first == kInt32) return take_integer(4);
  if (*first == kLzf) return take_lzf();
  const auto length = take_length(*first);
  if (!length || *length > kMaxValueBytes) return std::nullopt;
  const auto bytes = take(*length);
  if (!bytes) return std::nullopt;
  return RdbString{.form = RdbString::Form::kPlain, .bytes = *bytes, .number = 0, .length = *length};
}

std::optional<std::string> lzf_decompress(Bytes compressed, std::size_t length) {
  if (!may_decompress(compressed, length)) return std::nullopt;
  std::string out;
  out.reserve(length);
  for (std::size_t i = 0; i < compressed.size();) {
    const unsigned control = static_cast<unsigned char>(compressed[i++]);
    if (control < 32) {  // control + 1 literal bytes follow
      const std::size_t n = control + 1;
      if (compressed.size() - i < n || length - out.size() < n) return std::nullopt;
      out.append(compressed.substr(i, n));
      i += n;
      continue;
    }
    // Copies n bytes from `distance` bytes back. Source and destination may overlap.
    std::size_t n = control >> 5;
    if (n == 7) {
      if (i == compressed.size()) return std::nullopt;
      n += static_cast<unsigned char>(compressed[i++]);
    }
    n += 2;
    if (i == compressed.size()) return std::nullopt;
    const std::size_t distance = ((control & 0x1f) << 8 | static_cast<unsigned char>(compressed[i++])) + std::size_t{1};
    if (distance > out.size() || length - out.size() < n) return std::nullopt;
    for (std::size_t from = out.size() - distance; n > 0; --n, ++from) out.push_back(out[from]);
  }
  if (out.size() != length) return std::nullopt;
  return out;
}

}  // namespace ebbtide

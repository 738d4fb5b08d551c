#include "store/dump.h"

#include <engine/types.h>

#include <array>
#include <cstring>
#include <limits>

#include "store/numbers.h"

namespace ebbtide {
namespace {

constexpr std::size_t kFooterBytes = 10, kCrcBytes = 8;
static_assert(1 + 9 + kFooterBytes <= kDumpOverheadBytes);
constexpr char kStringType = 0;

/// Encodings of a string other than plain. The byte stands in place of a length.
constexpr unsigned char kInt8 = 0xc0, kInt16 = 0xc1, kInt32 = 0xc2, kLzf = 0xc3;
constexpr unsigned char kLength32 = 0x80, kLength64 = 0x81;

/// Makes tables for eight bytes at a time: tables[k][b] is the CRC of byte b followed by k zero bytes.
constexpr std::array<std::array<std::uint64_t, 256>, 8> make_crc_tables() {
  constexpr std::uint64_t kPolynomial = 0x95ac9329ac4bc9b5u;  // 0xad93d23594c935a9 with its bits reversed
  std::array<std::array<std::uint64_t, 256>, 8> tables{};
  for (std::size_t b = 0; b < 256; ++b) {
    std::uint64_t crc = b;
    for (int i = 0; i < 8; ++i) crc = (crc & 1) != 0 ? crc >> 1 ^ kPolynomial : crc >> 1;
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) tables[k][b] = tables[0][tables[k - 1][b] & 0xff] ^ tables[k - 1][b] >> 8;
  }
  return tables;
}

constexpr auto kCrcTables = make_crc_tables();

std::uint64_t load_little(Bytes bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

void append_little(std::string* out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i, value >>= 8) out->push_back(static_cast<char>(value));
}

void append_big(std::string* out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) out->push_back(static_cast<char>(value >> (8 * i)));
}

void append_length(std::string* out, std::uint64_t length) {
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

/// Appends the string as an integer, if that is shorter and reads back as the same text. Returns false otherwise.
bool append_as_integer(std::string* out, Bytes value) {
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

/// Returns true if `compressed` may decompress to `length` bytes: three bytes give at most 264. A larger length is refused before
/// memory is allocated for it.
bool may_decompress(Bytes compressed, std::uint64_t length) {
  constexpr std::size_t kMaxRatio = 264 / 3;
  return length / kMaxRatio <= compressed.size();
}

/// Reads a payload from the front. Every read past the end fails.
class Source {
 public:
  explicit Source(Bytes bytes) : rest_(bytes) {}

  std::optional<Bytes> take(std::uint64_t n) {
    if (n > rest_.size()) return std::nullopt;
    const Bytes taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  std::optional<unsigned char> take_byte() {
    const auto byte = take(1);
    if (!byte) return std::nullopt;
    return static_cast<unsigned char>(byte->front());
  }
  std::optional<std::uint64_t> take_big(std::size_t bytes) {
    const auto taken = take(bytes);
    if (!taken) return std::nullopt;
    std::uint64_t value = 0;
    for (const char c : *taken) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  /// Returns a length whose first byte was read already.
  std::optional<std::uint64_t> take_length(unsigned char first) {
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
  std::optional<std::uint64_t> take_length() {
    const auto first = take_byte();
    return first ? take_length(*first) : std::nullopt;
  }

 private:
  Bytes rest_;
};

std::optional<std::string> load_integer(Source& source, std::size_t bytes) {
  const auto taken = source.take(bytes);
  if (!taken) return std::nullopt;
  const unsigned unused = 64 - 8 * static_cast<unsigned>(bytes);
  return to_text(static_cast<std::int64_t>(load_little(*taken) << unused) >> unused);
}

struct Lzf {
  Bytes compressed;
  std::uint64_t length = 0;
};

std::optional<Lzf> take_lzf(Source& source) {
  const auto compressed_bytes = source.take_length();
  if (!compressed_bytes) return std::nullopt;
  const auto length = source.take_length();
  if (!length || *length > kMaxValueBytes) return std::nullopt;
  const auto compressed = source.take(*compressed_bytes);
  if (!compressed || !may_decompress(*compressed, *length)) return std::nullopt;
  return Lzf{*compressed, *length};
}

}  // namespace

std::uint64_t crc64(Bytes data) {
  std::uint64_t crc = 0;
  std::size_t i = 0;
  for (; i + 8 <= data.size(); i += 8) {
    crc ^= load_little(data.substr(i, 8));
    std::uint64_t next = 0;
    for (unsigned k = 0; k < 8; ++k) next ^= kCrcTables[7 - k][crc >> (8 * k) & 0xff];
    crc = next;
  }
  for (; i < data.size(); ++i) crc = kCrcTables[0][(crc ^ static_cast<unsigned char>(data[i])) & 0xff] ^ crc >> 8;
  return crc;
}

std::string begin_dump(std::uint64_t length) {
  std::string out;
  out.reserve(length + kDumpOverheadBytes);
  out.push_back(kStringType);
  append_length(&out, length);
  return out;
}

void end_dump(std::string* payload) {
  append_little(payload, kRdbVersion, 2);
  append_little(payload, crc64(*payload), kCrcBytes);
}

std::string dump_string(Bytes value) {
  std::string out(1, kStringType);
  if (!append_as_integer(&out, value)) {
    out = begin_dump(value.size());
    out += value;
  }
  end_dump(&out);
  return out;
}

bool dump_is_sound(Bytes payload) {
  if (payload.size() < kFooterBytes) return false;
  const std::size_t body = payload.size() - kFooterBytes;
  if (load_little(payload.substr(body, 2)) > kRdbVersion) return false;
  return load_little(payload.substr(body + 2)) == crc64(payload.substr(0, body + 2));
}

std::uint64_t loaded_bytes(Bytes payload) {
  Source source(payload.substr(0, payload.size() - kFooterBytes));
  const auto type = source.take_byte();
  const auto first = source.take_byte();
  if (!type || !first || *type != kStringType || *first == kInt8 || *first == kInt16 || *first == kInt32) return 0;
  if (*first == kLzf) {
    const auto lzf = take_lzf(source);
    return lzf ? lzf->length : 0;
  }
  const auto length = source.take_length(*first);
  return length && *length <= kMaxValueBytes && source.take(*length) ? *length : 0;
}

std::optional<std::string> load_string(Bytes payload) {
  Source source(payload.substr(0, payload.size() - kFooterBytes));
  const auto type = source.take_byte();
  if (!type || *type != kStringType) return std::nullopt;
  const auto first = source.take_byte();
  if (!first) return std::nullopt;
  if (*first == kInt8) return load_integer(source, 1);
  if (*first == kInt16) return load_integer(source, 2);
  if (*first == kInt32) return load_integer(source, 4);
  if (*first == kLzf) {
    const auto lzf = take_lzf(source);
    return lzf ? lzf_decompress(lzf->compressed, lzf->length) : std::nullopt;
  }
  const auto length = source.take_length(*first);
  if (!length || *length > kMaxValueBytes) return std::nullopt;
  const auto bytes = source.take(*length);
  if (!bytes) return std::nullopt;
  return std::string(*bytes);
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
    // Copies n bytes from `distance` back. Source and destination may overlap.
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

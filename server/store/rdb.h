// The parts of an RDB file that DUMP's payloads consist of: lengths and strings.
//
// A length takes 1, 2, 5 or 9 bytes: 00xxxxxx, 01xxxxxx + 1 byte, 0x80 + 4 bytes, 0x81 + 8 bytes, big endian.
//
// A string has one of three forms. The first is its length and its bytes. The second is a byte 11xxxxxx and a signed integer of
// 1, 2 or 4 bytes, little endian, whose decimal text is the string. The third is 11000011, the length of the LZF-compressed form,
// the length of the string, and the compressed form. All forms are read; LZF is never written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <engine/bytes.h>

namespace ebbtide {

/// Returns the number in up to eight bytes, little endian.
inline std::uint64_t load_little(Bytes bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}
/// Like load_little(), for a signed number.
std::int64_t load_little_signed(Bytes bytes);
void append_little(std::string* out, std::uint64_t value, std::size_t bytes);

void append_rdb_length(std::string* out, std::uint64_t length);
/// If the string is a number whose integer form is shorter, and decodes to the same text: appends that form. Otherwise returns
/// false.
bool append_rdb_integer(std::string* out, Bytes value);
/// Appends the string in its shortest form without LZF compression.
void append_rdb_string(std::string* out, Bytes value);

/// A string as it stands in RDB data, maybe compressed.
struct RdbString {
  enum class Form : std::uint8_t { kPlain, kInteger, kLzf };
  Form form = Form::kPlain;
  Bytes bytes;               ///< the string, or its compressed form
  std::int64_t number = 0;   ///< the value of an integer
  std::uint64_t length = 0;  ///< bytes of the string, at most kMaxValueBytes; 0 for an integer
};
/// Returns the string; nullopt if its compressed form is damaged.
std::optional<std::string> unpack(const RdbString& string);

/// Reads RDB data from front to end. A read past the end fails. The bytes must outlive what the source returns.
class RdbSource {
 public:
  explicit RdbSource(Bytes bytes) : rest_(bytes) {}

  /// Returns the number of bytes that are left.
  [[nodiscard]] std::size_t left() const { return rest_.size(); }
  std::optional<Bytes> take(std::uint64_t n);
  std::optional<unsigned char> take_byte();
  /// Takes an unsigned number of up to eight bytes.
  std::optional<std::uint64_t> take_big(std::size_t bytes);
  std::optional<std::uint64_t> take_little(std::size_t bytes);
  std::optional<std::uint64_t> take_length();
  /// Takes a string. Fails if it is longer than kMaxValueBytes, or longer than its compressed form can expand to. So the data's
  /// size bounds the memory that unpack() takes.
  std::optional<RdbString> take_string();

 private:
  /// Returns a length whose first byte was already taken.
  std::optional<std::uint64_t> take_length(unsigned char first);
  std::optional<RdbString> take_integer(std::size_t bytes);
  std::optional<RdbString> take_lzf();

  Bytes rest_;
};

/// Decompresses LZF as Marc Lehmann's liblzf writes it. Returns exactly `length` bytes; nullopt if the input does not give that.
/// Never accesses memory out of bounds, whatever the input.
std::optional<std::string> lzf_decompress(Bytes compressed, std::size_t length);

}  // namespace ebbtide

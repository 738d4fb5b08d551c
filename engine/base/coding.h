// Encodes integers and strings as bytes: little endian, LEB128 varints, length-prefixed strings. Only this file encodes numbers.
//
// The put functions append to a std::string. The get functions remove bytes from the front of a Bytes. If the input is too
// short or malformed (a varint longer than its type), they return false and never read past its end.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include <engine/types.h>

namespace ebbtide {

static_assert(std::endian::native == std::endian::little, "formats are little endian; add byte swaps here for others");

template <typename T>
inline T load_fixed(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}
template <typename T>
inline void store_fixed(char* p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

/// Returns true if the n bytes at `a` and at `b` are equal. For short keys this is faster than a call of memcmp.
inline bool same_bytes(const char* a, const char* b, std::size_t n) {
  if (n > 16) return std::memcmp(a, b, n) == 0;
  if (n >= 8) {
    return ((load_fixed<std::uint64_t>(a) ^ load_fixed<std::uint64_t>(b)) |
            (load_fixed<std::uint64_t>(a + n - 8) ^ load_fixed<std::uint64_t>(b + n - 8))) == 0;
  }
  if (n >= 4) {
    return ((load_fixed<std::uint32_t>(a) ^ load_fixed<std::uint32_t>(b)) |
            (load_fixed<std::uint32_t>(a + n - 4) ^ load_fixed<std::uint32_t>(b + n - 4))) == 0;
  }
  return n == 0 || (a[0] == b[0] && a[n / 2] == b[n / 2] && a[n - 1] == b[n - 1]);
}

/// Returns the length of the common prefix of two strings.
inline std::size_t common_bytes(Bytes a, Bytes b) {
  const std::size_t limit = std::min(a.size(), b.size());
  std::size_t n = 0;
  for (; n + 8 <= limit; n += 8) {
    const std::uint64_t differ = load_fixed<std::uint64_t>(a.data() + n) ^ load_fixed<std::uint64_t>(b.data() + n);
    if (differ != 0) return n + static_cast<std::size_t>(std::countr_zero(differ)) / 8;
  }
  while (n < limit && a[n] == b[n]) ++n;
  return n;
}

/// Returns bytes skip to skip + 7 of `key`, padded with zeros, as a big-endian number. Numbers compare like the bytes from which
/// they were made. If two numbers are equal, the keys may still differ.
inline std::uint64_t key_word(Bytes key, std::size_t skip = 0) {
  const std::size_t left = key.size() > skip ? key.size() - skip : 0;
  if (left >= 8) return __builtin_bswap64(load_fixed<std::uint64_t>(key.data() + skip));
  if (left == 0) return 0;
  // Loads the key's last eight bytes at once; the result needs the last `left` of these.
  if (key.size() >= 8) return __builtin_bswap64(load_fixed<std::uint64_t>(key.data() + key.size() - 8)) << (64 - 8 * left);
  std::uint64_t word = 0;
  std::memcpy(&word, key.data() + skip, left);
  return __builtin_bswap64(word);
}

inline void put_u8(std::string* out, std::uint8_t v) { out->push_back(static_cast<char>(v)); }
inline void put_u16(std::string* out, std::uint16_t v) { out->append(reinterpret_cast<const char*>(&v), 2); }
inline void put_u32(std::string* out, std::uint32_t v) { out->append(reinterpret_cast<const char*>(&v), 4); }
inline void put_u64(std::string* out, std::uint64_t v) { out->append(reinterpret_cast<const char*>(&v), 8); }

inline constexpr std::size_t kMaxVarintBytes = 10;

/// Writes at most kMaxVarintBytes at `p`. Returns the end of the written bytes.
inline char* encode_varint(char* p, std::uint64_t v) {
  while (v >= 0x80) {
    *p++ = static_cast<char>(v | 0x80);
    v >>= 7;
  }
  *p++ = static_cast<char>(v);
  return p;
}
inline void put_varint(std::string* out, std::uint64_t v) {
  char buffer[kMaxVarintBytes];
  out->append(buffer, static_cast<std::size_t>(encode_varint(buffer, v) - buffer));
}
inline void put_bytes(std::string* out, Bytes v) {
  put_varint(out, v.size());
  out->append(v);
}

inline bool get_u8(Bytes* in, std::uint8_t* v) {
  if (in->empty()) return false;
  *v = static_cast<std::uint8_t>(in->front());
  in->remove_prefix(1);
  return true;
}
template <typename T>
inline bool get_fixed(Bytes* in, T* v) {
  if (in->size() < sizeof(T)) return false;
  *v = load_fixed<T>(in->data());
  in->remove_prefix(sizeof(T));
  return true;
}
inline bool get_u16(Bytes* in, std::uint16_t* v) { return get_fixed(in, v); }
inline bool get_u32(Bytes* in, std::uint32_t* v) { return get_fixed(in, v); }
inline bool get_u64(Bytes* in, std::uint64_t* v) { return get_fixed(in, v); }

/// Reads a varint; returns false if its value has more than 64 bits. The fast path is a varint of one byte.
inline bool get_varint(Bytes* in, std::uint64_t* v) {
  const auto* p = reinterpret_cast<const unsigned char*>(in->data());
  const auto* end = p + in->size();
  if (p != end && *p < 0x80) {
    *v = *p;
    in->remove_prefix(1);
    return true;
  }
  std::uint64_t result = 0;
  for (int shift = 0; shift < 64 && p != end; shift += 7) {
    const std::uint64_t byte = *p++;
    if (shift == 63 && byte > 1) return false;
    result |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      *v = result;
      in->remove_prefix(static_cast<std::size_t>(p - reinterpret_cast<const unsigned char*>(in->data())));
      return true;
    }
  }
  return false;
}
inline bool get_varint32(Bytes* in, std::uint32_t* v) {
  std::uint64_t wide = 0;
  if (!get_varint(in, &wide) || wide > 0xffffffffu) return false;
  *v = static_cast<std::uint32_t>(wide);
  return true;
}
inline bool get_bytes(Bytes* in, Bytes* v) {
  std::uint64_t n = 0;
  if (!get_varint(in, &n) || n > in->size()) return false;
  *v = in->substr(0, n);
  in->remove_prefix(n);
  return true;
}
inline bool get_string(Bytes* in, std::string* v) {
  Bytes view;
  if (!get_bytes(in, &view)) return false;
  v->assign(view);
  return true;
}

}  // namespace ebbtide

// Integers and strings as bytes: little endian, LEB128 varints, length-prefixed strings. The one place that encodes numbers.
//
// Writers append to a std::string. Readers take a Bytes& that they advance, and answer false, without reading past the end,
// when it is too short or malformed (a varint longer than its type).
#pragma once

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

inline void put_u8(std::string* out, std::uint8_t v) { out->push_back(static_cast<char>(v)); }
inline void put_u16(std::string* out, std::uint16_t v) { out->append(reinterpret_cast<const char*>(&v), 2); }
inline void put_u32(std::string* out, std::uint32_t v) { out->append(reinterpret_cast<const char*>(&v), 4); }
inline void put_u64(std::string* out, std::uint64_t v) { out->append(reinterpret_cast<const char*>(&v), 8); }

inline constexpr std::size_t kMaxVarintBytes = 10;

/// Writes at most kMaxVarintBytes at p; returns the end.
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
inline std::size_t varint_bytes(std::uint64_t v) { return v == 0 ? 1 : (static_cast<std::size_t>(std::bit_width(v)) + 6) / 7; }
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

/// Refuses encodings of more than 64 bits. The fast path is a single byte.
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

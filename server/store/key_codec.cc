#include "store/key_codec.h"

#include <cstring>

namespace ebbtide {
namespace {

constexpr char kEscaped = static_cast<char>(0xff);
constexpr char kElement = 0x01;

void append_escaped(Bytes key, std::string* out) {
  while (!key.empty()) {
    const void* zero = std::memchr(key.data(), 0, key.size());
    if (zero == nullptr) break;
    const std::size_t n = static_cast<std::size_t>(static_cast<const char*>(zero) - key.data()) + 1;
    out->append(key.data(), n);
    out->push_back(kEscaped);
    key.remove_prefix(n);
  }
  out->append(key);
}

}  // namespace

Bytes escape_key(Bytes key, std::string* buffer) {
  if (!needs_escape(key)) [[likely]]
    return key;
  buffer->clear();
  append_escaped(key, buffer);
  return *buffer;
}

std::string escaped_key(Bytes key) {
  std::string out;
  out.reserve(key.size());
  append_escaped(key, &out);
  return out;
}

Result<Bytes> unescape_key(Bytes engine_key, std::string* buffer) {
  const std::size_t first = engine_key.find('\0');
  if (first == Bytes::npos) [[likely]]
    return engine_key;
  buffer->clear();
  for (std::size_t i = 0; i < engine_key.size(); ++i) {
    buffer->push_back(engine_key[i]);
    if (engine_key[i] != '\0') continue;
    if (++i == engine_key.size() || engine_key[i] != kEscaped) {
      return Status::corruption("a key has a zero byte at offset " + std::to_string(i - 1) + " that is not followed by 0xff");
    }
  }
  return Bytes(*buffer);
}

bool is_element_key(Bytes engine_key) {
  for (std::size_t i = engine_key.find('\0'); i != Bytes::npos && i + 1 < engine_key.size(); i = engine_key.find('\0', i + 2)) {
    if (engine_key[i + 1] == kElement) return true;
  }
  return false;
}

KeyRange engine_range(std::optional<Bytes> start, std::optional<Bytes> end) {
  KeyRange range;
  if (start) range.start = escaped_key(*start);
  if (end) {
    range.end = escaped_key(*end);
    // No key is below "", so the range is empty. An empty `range.end` would mean no upper bound.
    if (range.end.empty()) range.start = range.end = std::string(1, '\0');
  }
  return range;
}

KeyRange engine_prefix_range(Bytes prefix) {
  KeyRange range;
  range.start = escaped_key(prefix);
  range.end = prefix_successor(range.start);
  return range;
}

}  // namespace ebbtide

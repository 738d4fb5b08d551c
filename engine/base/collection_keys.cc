#include <engine/collection_keys.h>

#include "base/coding.h"

namespace ebbtide {
namespace {

constexpr char kElementMarks[] = {0, 1};
constexpr char kAfterElements[] = {0, 2};

void put_generation(std::string* out, Generation generation) {
  for (int shift = 56; shift >= 0; shift -= 8) out->push_back(static_cast<char>(generation >> shift & 0xff));
}

std::string with_marks(Bytes key, Bytes marks) {
  std::string out;
  out.reserve(key.size() + marks.size() + sizeof(Generation));
  out.append(key).append(marks);
  return out;
}

}  // namespace

std::string header_start(std::uint8_t type, std::uint8_t flags, Generation generation) {
  std::string out = {static_cast<char>(type), static_cast<char>(flags)};
  put_generation(&out, generation);
  return out;
}

std::optional<Generation> header_generation(Bytes header_value) {
  if (header_value.size() < kHeaderStartBytes) return std::nullopt;
  Generation generation = 0;
  for (std::size_t i = 2; i < kHeaderStartBytes; ++i) {
    generation = generation << 8 | static_cast<unsigned char>(header_value[i]);
  }
  return generation == 0 ? std::nullopt : std::optional(generation);
}

KeyRange element_range(Bytes key, Generation generation) {
  const std::string marked = with_marks(key, Bytes(kElementMarks, sizeof kElementMarks));
  KeyRange range{marked, marked};
  put_generation(&range.start, generation);
  put_generation(&range.end, generation + 1);
  return range;
}

Bytes main_key_of(Bytes key) { return key.substr(0, key.find(Bytes(kElementMarks, sizeof kElementMarks))); }

KeyRange element_range(Bytes key) {
  return {with_marks(key, Bytes(kElementMarks, sizeof kElementMarks)),
          with_marks(key, Bytes(kAfterElements, sizeof kAfterElements))};
}

}  // namespace ebbtide

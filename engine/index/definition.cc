#include <engine/index.h>

#include "base/coding.h"

namespace ebbtide {
namespace {

constexpr std::uint8_t kVersion = 1;

}  // namespace

KeyRange IndexDefinition::records() const {
  std::string end = prefix;
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return {prefix, end};
}

// definition = version u8, index varint, order u8, building u8, builds varint, prefix, source, building_from: bytes each
std::string IndexDefinition::encode() const {
  std::string out;
  put_u8(&out, kVersion);
  put_varint(&out, index);
  put_u8(&out, static_cast<std::uint8_t>(order));
  put_u8(&out, building_from ? 1 : 0);
  put_varint(&out, builds);
  put_bytes(&out, prefix);
  put_bytes(&out, source);
  put_bytes(&out, building_from.value_or(""));
  return out;
}

Result<IndexDefinition> IndexDefinition::decode(Bytes name, Bytes value) {
  const auto damaged = [&] { return Status::corruption("the definition of the index '" + std::string(name) + "' is damaged"); };
  IndexDefinition out;
  out.name = name;
  std::uint8_t version = 0, order = 0, building = 0;
  std::string from;
  if (!get_u8(&value, &version)) return damaged();
  if (version > kVersion) {
    return Status::unsupported("the definition of the index '" + std::string(name) + "' has version " + std::to_string(version) +
                               "; this program reads versions up to " + std::to_string(kVersion));
  }
  if (!get_varint32(&value, &out.index) || !get_u8(&value, &order) || !get_u8(&value, &building) ||
      !get_varint(&value, &out.builds) || !get_string(&value, &out.prefix) || !get_string(&value, &out.source) ||
      !get_string(&value, &from)) {
    return damaged();
  }
  const bool valid = version == kVersion && out.index >= 1 && out.index <= kMostIndexes && building <= 1 && value.empty() &&
                     order <= static_cast<std::uint8_t>(IndexOrder::kNumber) && (building == 1 || from.empty());
  if (!valid) return damaged();
  out.order = static_cast<IndexOrder>(order);
  if (building == 1) out.building_from = std::move(from);
  return out;
}

}  // namespace ebbtide

#include <engine/index.h>

#include <bit>
#include <utility>

#include "base/coding.h"

namespace ebbtide {
namespace {

constexpr std::uint8_t kVersion = 1;

bool get_policy(Bytes* in, std::optional<PolicySettings>* policy) {
  PolicySettings read;
  std::uint64_t parameters = 0;
  if (!get_string(in, &read.name) || !get_varint(in, &parameters)) return false;
  for (; parameters > 0; --parameters) {
    std::string name;
    std::uint64_t bits = 0;
    if (!get_string(in, &name) || !get_u64(in, &bits)) return false;
    read.parameters.insert_or_assign(std::move(name), std::bit_cast<double>(bits));
  }
  if (!read.name.empty()) *policy = std::move(read);
  return true;
}

}  // namespace

KeyRange IndexDefinition::records() const {
  std::string end = prefix;
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return {prefix, end};
}

// definition = version u8, index varint, kind u8, building u8, builds varint, skipped varint of each SkipReason; prefix, source: bytes;
//              policy: name bytes ("": none), count varint, of each parameter: name bytes, IEEE 754 bits u64
std::string IndexDefinition::encode() const {
  std::string out;
  put_u8(&out, kVersion);
  put_varint(&out, index);
  put_u8(&out, static_cast<std::uint8_t>(kind));
  put_u8(&out, building_from ? 1 : 0);
  put_varint(&out, builds);
  for (const std::uint64_t records : skipped) put_varint(&out, records);
  put_bytes(&out, prefix);
  put_bytes(&out, source);
  put_bytes(&out, policy ? Bytes(policy->name) : Bytes());
  put_varint(&out, policy ? policy->parameters.size() : 0);
  if (!policy) return out;
  for (const auto& [parameter, number] : policy->parameters) {
    put_bytes(&out, parameter);
    put_u64(&out, std::bit_cast<std::uint64_t>(number));
  }
  return out;
}

Result<IndexDefinition> IndexDefinition::decode(Bytes name, Bytes value) {
  const auto damaged = [&] { return Status::corruption("the definition of the index '" + std::string(name) + "' is damaged"); };
  IndexDefinition out;
  out.name = name;
  std::uint8_t version = 0, kind = 0, building = 0;
  if (!get_u8(&value, &version)) return damaged();
  if (version > kVersion) {
    return Status::unsupported("the definition of the index '" + std::string(name) + "' has version " + std::to_string(version) +
                               "; this program reads versions up to " + std::to_string(kVersion));
  }
  bool whole =
      get_varint32(&value, &out.index) && get_u8(&value, &kind) && get_u8(&value, &building) && get_varint(&value, &out.builds);
  for (std::uint64_t& records : out.skipped) whole = whole && get_varint(&value, &records);
  whole = whole && get_string(&value, &out.prefix) && get_string(&value, &out.source) && get_policy(&value, &out.policy) &&
          value.empty();
  const bool valid = whole && version == kVersion && out.index >= 1 && out.index <= kMostIndexes && building <= 1 &&
                     kind <= static_cast<std::uint8_t>(kLastIndexKind);
  if (!valid) return damaged();
  out.kind = static_cast<IndexKind>(kind);
  if (building == 1) out.building_from = "";
  return out;
}

}  // namespace ebbtide

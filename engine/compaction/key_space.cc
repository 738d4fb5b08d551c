#include "compaction/key_space.h"

#include <algorithm>
#include <array>

namespace ebbtide {
namespace {

constexpr std::size_t kBytesThatCount = 15;
constexpr KeyPosition kBase = 257;

constexpr std::array<KeyPosition, kBytesThatCount> make_weights() {
  std::array<KeyPosition, kBytesThatCount> weights{};
  KeyPosition weight = kLastPosition;
  for (KeyPosition& w : weights) w = weight /= kBase;
  return weights;
}
/// The weight of one step in each byte. It is greater than the weight of 256 steps in every later byte together.
constexpr std::array<KeyPosition, kBytesThatCount> kWeights = make_weights();
static_assert(kWeights.back() > 0 && kWeights.back() < kBase);

std::optional<std::string> past_all_with(const std::string& prefix) {
  std::string key = prefix_successor(prefix);
  if (key.empty()) return std::nullopt;
  return key;
}

}  // namespace

KeyPosition KeySpace::position(Bytes key) const {
  const std::size_t common = std::min(key.size(), prefix_.size());
  const int order = key.substr(0, common).compare(Bytes(prefix_).substr(0, common));
  if (order > 0) return kLastPosition;
  if (order < 0 || key.size() < prefix_.size()) return 0;
  key.remove_prefix(common);
  KeyPosition at = 0;
  const std::size_t count = std::min(key.size(), kBytesThatCount);
  for (std::size_t i = 0; i < count; ++i) {
    at += kWeights[i] * (static_cast<unsigned>(static_cast<unsigned char>(key[i])) + 1);
  }
  return at;
}

std::optional<std::string> KeySpace::first_key_at(KeyPosition position) const {
  if (position == 0) return std::string();
  std::string key = prefix_;
  KeyPosition rest = position;  // distance from the position of `key`
  for (const KeyPosition weight : kWeights) {
    const KeyPosition digit = rest / weight;
    if (digit == 0) return key + '\0';  // every longer key is past the position
    if (digit >= kBase) break;          // every longer key is before the position; such gaps come from rounding
    key += static_cast<char>(static_cast<unsigned char>(digit - 1));
    rest -= digit * weight;
    if (rest == 0) return key;
  }
  return past_all_with(key);
}

}  // namespace ebbtide

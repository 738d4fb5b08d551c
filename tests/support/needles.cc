#include "support/needles.h"

#include <bitset>
#include <cstdint>
#include <cstring>
#include <unordered_map>

namespace ebbtide {

std::set<Bytes> found_of(const std::vector<std::string>& needles, const std::string& haystack) {
  constexpr std::size_t kHead = 8;
  std::unordered_multimap<std::uint64_t, const std::string*> by_head;
  std::bitset<1 << 16> heads;
  const auto head_at = [](const char* at) {
    std::uint64_t head = 0;
    std::memcpy(&head, at, kHead);
    return head;
  };
  const auto slot = [](std::uint64_t head) { return head * 0x9E3779B97F4A7C15u >> 48; };
  for (const std::string& needle : needles) {
    by_head.emplace(head_at(needle.data()), &needle);
    heads.set(slot(head_at(needle.data())));
  }
  std::set<Bytes> found;
  for (std::size_t i = 0; i + kHead <= haystack.size(); ++i) {
    const std::uint64_t head = head_at(haystack.data() + i);
    if (!heads.test(slot(head))) continue;
    const auto [first, last] = by_head.equal_range(head);
    for (auto at = first; at != last; ++at) {
      if (haystack.compare(i, at->second->size(), *at->second) == 0) found.insert(*at->second);
    }
  }
  return found;
}

}  // namespace ebbtide

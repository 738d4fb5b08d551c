// Makes ordered keys for tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace ebbtide {

/// Returns key number `number`. Keys are ordered like their numbers.
inline std::string key_of(std::uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "key%08llu", static_cast<unsigned long long>(number));
  return text;
}

}  // namespace ebbtide

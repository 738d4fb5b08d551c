// The type of all keys and values: a borrowed run of bytes.
#pragma once

#include <string>
#include <string_view>

namespace ebbtide {

/// A borrowed, immutable run of bytes. Compares as memcmp does, shorter first: the order of every key in the engine.
/// It owns nothing; each function that returns one says how long it stays valid.
using Bytes = std::string_view;

/// The smallest byte string greater than every string that starts with `prefix`, or "" when there is none (the prefix is
/// empty or all 0xff). As the end of a KeyRange, "" means "no upper bound", so the result can be used as it is.
inline std::string prefix_successor(Bytes prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.remove_suffix(1);
  std::string end(prefix);
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

}  // namespace ebbtide

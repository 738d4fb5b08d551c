// Bytes: the type of all keys and values, a borrowed sequence of bytes.
#pragma once

#include <string>
#include <string_view>

namespace ebbtide {

/// A borrowed, immutable sequence of bytes. Compares as memcmp does, and a prefix comes before the longer string. All keys in the
/// engine have this order. Bytes own nothing; each function that returns Bytes says how long they stay valid.
using Bytes = std::string_view;

/// Returns the smallest byte string greater than every string that starts with `prefix`. Returns "" if there is none: `prefix`
/// is empty or all 0xff. As the end of a KeyRange, "" means "no upper bound", so a caller needs no special case.
inline std::string prefix_successor(Bytes prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.remove_suffix(1);
  std::string end(prefix);
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

}  // namespace ebbtide

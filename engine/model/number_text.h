// Formats numbers in messages of this layer.
#pragma once

#include <cstdio>
#include <string>

namespace ebbtide {

/// Returns the number with up to six digits and without trailing zeros: "0.25", "1e+10".
inline std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

/// Returns the number with up to three digits: for figures that are expectations.
inline std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

}  // namespace ebbtide

// Formats numbers in messages of this layer.
#pragma once

#include <cstdio>
#include <string>

namespace ebbtide {

/// Returns the number with at most six significant digits and without trailing zeros: "0.25", "1e+10".
inline std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

/// Returns the number with at most three significant digits. For estimates.
inline std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

}  // namespace ebbtide

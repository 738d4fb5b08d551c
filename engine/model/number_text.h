// Formats numbers in error messages of this layer.
#pragma once

#include <cstdio>
#include <string>

namespace ebbtide {

/// "0.25", "1e+10": six digits, without zeros at the end.
inline std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

}  // namespace ebbtide

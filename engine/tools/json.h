// Writes JSON: members in the order in which they were added.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <engine/types.h>
#include "base/quote.h"

namespace ebbtide {

/// Returns a string in quotes. Each byte past ASCII becomes \u00XX, so that any bytes give valid JSON.
inline std::string json_string(Bytes bytes) { return quote(bytes, "\\u00"); }

/// Returns the shortest text that reads back as the same number. JSON has no infinity, so infinity is null.
inline std::string json_number(double number) {
  if (!std::isfinite(number)) return "null";
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), number).ptr};
}

class JsonArray {
 public:
  void add(const std::string& json) { body_ += (body_.empty() ? "" : ",") + json; }
  [[nodiscard]] std::string str() const { return "[" + body_ + "]"; }

 private:
  std::string body_;
};

/// Returns an array of strings.
inline JsonArray json_strings(const std::vector<std::string>& texts) {
  JsonArray out;
  for (const std::string& text : texts) out.add(json_string(text));
  return out;
}
/// Returns an array of numbers, as json_number() writes them.
inline JsonArray json_numbers(std::span<const double> numbers) {
  JsonArray out;
  for (const double number : numbers) out.add(json_number(number));
  return out;
}

class JsonObject {
 public:
  JsonObject& raw(Bytes key, const std::string& json) {
    body_ += (body_.empty() ? "" : ",") + json_string(key) + ":" + json;
    return *this;
  }
  JsonObject& add(Bytes key, Bytes text) { return raw(key, json_string(text)); }
  JsonObject& add(Bytes key, const std::string& text) { return raw(key, json_string(text)); }
  JsonObject& add(Bytes key, const char* text) { return raw(key, json_string(text)); }
  JsonObject& add(Bytes key, std::uint64_t number) { return raw(key, std::to_string(number)); }
  JsonObject& add(Bytes key, const JsonArray& array) { return raw(key, array.str()); }
  JsonObject& add(Bytes key, const JsonObject& object) { return raw(key, object.str()); }
  [[nodiscard]] std::string str() const { return "{" + body_ + "}"; }

 private:
  std::string body_;
};

}  // namespace ebbtide

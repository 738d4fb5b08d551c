// Writes JSON: members in the order in which they were added.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// Returns a string in quotes. Each byte past ASCII becomes \u00XX, so that any bytes give valid JSON.
std::string json_string(Bytes bytes);

class JsonArray {
 public:
  void add(const std::string& json) { body_ += (body_.empty() ? "" : ",") + json; }
  [[nodiscard]] std::string str() const { return "[" + body_ + "]"; }

 private:
  std::string body_;
};

/// Returns an array of strings.
JsonArray json_strings(const std::vector<std::string>& texts);

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

// Functions that make configuration keys, one function for each type. Their arguments are the name, the field of Config, the
// range and the meaning. Only config_keys.cc, which has the table, includes this.
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace ebbtide::key_makers {

inline std::string not_allowed_text(Bytes text, const std::string& allowed) {
  return "'" + std::string(text) + "' is not allowed; allowed: " + allowed;
}
inline Status not_allowed(Bytes text, const std::string& allowed) {
  return Status::invalid_argument(not_allowed_text(text, allowed));
}

inline std::string join(const std::vector<std::string>& items, const char* separator) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : separator) + item;
  return text;
}

inline std::string number_text(double value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

// A function that returns a reference to a field of type T in a Config.
template <typename T>
using Field = std::function<T&(Config&)>;

template <typename T>
const T& read(const Field<T>& field, const Config& config) {
  return field(const_cast<Config&>(config));
}

template <typename T>
ConfigKey integer_key(std::string name, Field<T> field, std::uint64_t low, std::uint64_t high, std::string doc,
                      bool zero_is_auto = false) {
  ConfigKey key;
  key.name = std::move(name);
  key.type = ConfigType::kInteger;
  key.allowed = std::to_string(low) + " to " + std::to_string(high) + (zero_is_auto ? ", or auto" : "");
  key.doc = std::move(doc);
  key.get = [=](const Config& c) { return zero_is_auto && read(field, c) == 0 ? "auto" : std::to_string(read(field, c)); };
  key.set = [=, allowed = key.allowed](Config& c, Bytes text) {
    if (zero_is_auto && text == "auto") return field(c) = 0, Status::ok();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
      return not_allowed(text, allowed);
    field(c) = static_cast<T>(value);
    return Status::ok();
  };
  return key;
}

template <typename T>
ConfigKey size_key(std::string name, Field<T> field, std::uint64_t low, std::uint64_t high, std::string doc,
                   Bytes zero_word = {}) {
  ConfigKey key;
  key.name = std::move(name);
  key.type = ConfigType::kSize;
  key.allowed = format_size(low) + " to " + format_size(high) + (zero_word.empty() ? "" : ", or " + std::string(zero_word));
  key.doc = std::move(doc);
  key.get = [=](const Config& c) {
    return !zero_word.empty() && read(field, c) == 0 ? std::string(zero_word) : format_size(read(field, c));
  };
  const auto assign = [=, allowed = key.allowed](Config& c, Bytes text, const Result<std::uint64_t>& value) {
    if (!zero_word.empty() && text == zero_word) return field(c) = 0, Status::ok();
    if (!value.is_ok()) return Status::invalid_argument(std::string(value.status().message()) + "; allowed: " + allowed);
    if (*value < low || *value > high) return not_allowed(text, allowed);
    field(c) = static_cast<T>(*value);
    return Status::ok();
  };
  key.set = [=](Config& c, Bytes text) { return assign(c, text, parse_size(text)); };
  key.redis_get = [=](const Config& c) { return std::to_string(read(field, c)); };
  key.redis_set = [=](Config& c, Bytes text) {
    return assign(c, text == "0" && !zero_word.empty() ? zero_word : text, parse_redis_memory(text));
  };
  return key;
}

inline ConfigKey duration_key(std::string name, Field<std::uint64_t> field, std::uint64_t high_ms, std::string doc) {
  ConfigKey key;
  key.name = std::move(name);
  key.type = ConfigType::kDuration;
  key.allowed = "0s (off) to " + format_duration_ms(high_ms);
  key.doc = std::move(doc);
  key.get = [=](const Config& c) { return format_duration_ms(read(field, c)); };
  key.set = [=, allowed = key.allowed](Config& c, Bytes text) {
    const auto value = parse_duration_ms(text);
    if (!value.is_ok()) return Status::invalid_argument(std::string(value.status().message()) + "; allowed: " + allowed);
    if (*value > high_ms) return not_allowed(text, allowed);
    field(c) = *value;
    return Status::ok();
  };
  key.redis_get = [=](const Config& c) { return std::to_string(read(field, c) / 1000); };  // in seconds, as in Redis
  key.redis_set = [=, set = key.set](Config& c, Bytes text) {
    const bool plain = !text.empty() && text.find_first_not_of("0123456789") == Bytes::npos;
    return set(c, plain ? std::string(text) + "s" : std::string(text));
  };
  return key;
}

inline ConfigKey bool_key(std::string name, Field<bool> field, std::string doc) {
  ConfigKey key;
  key.name = std::move(name);
  key.type = ConfigType::kBool;
  key.allowed = "true, false";
  key.doc = std::move(doc);
  key.get = [=](const Config& c) { return read(field, c) ? "true" : "false"; };
  key.set = [=, allowed = key.allowed](Config& c, Bytes text) {
    if (text != "true" && text != "false") return not_allowed(text, allowed);
    field(c) = text == "true";
    return Status::ok();
  };
  key.redis_get = [=](const Config& c) { return read(field, c) ? "yes" : "no"; };
  key.redis_set = [=](Config& c, Bytes text) {
    if (text != "yes" && text != "no") return Status::invalid_argument("argument must be 'yes' or 'no'");
    field(c) = text == "yes";
    return Status::ok();
  };
  return key;
}

inline ConfigKey text_key(std::string name, Field<std::string> field, std::string allowed, std::string doc) {
  ConfigKey key;
  key.name = std::move(name);
  key.type = ConfigType::kText;
  key.allowed = std::move(allowed);
  key.doc = std::move(doc);
  key.get = [=](const Config& c) { return read(field, c); };
  key.set = [=](Config& c, Bytes text) {
    field(c) = std::string(text);
    return Status::ok();
  };
  return key;
}

// Makes a key whose value is one of several names; each name stands for a value of type T.
template <typename T>
ConfigKey name_key(std::string name, Field<T> field, std::vector<std::pair<std::string, T>> names, std::string doc) {
  ConfigKey key;
  key.name = std::move(name);
  key.type = ConfigType::kName;
  std::vector<std::string> all;
  for (const auto& item : names) all.push_back(item.first);
  key.allowed = join(all, ", ");
  key.doc = std::move(doc);
  key.get = [=](const Config& c) {
    for (const auto& item : names) {
      if (item.second == read(field, c)) return item.first;
    }
    return std::string("?");
  };
  key.set = [=, allowed = key.allowed](Config& c, Bytes text) {
    for (const auto& item : names) {
      if (item.first == text) return field(c) = item.second, Status::ok();
    }
    return not_allowed(text, allowed);
  };
  return key;
}

inline ConfigKey number_key(std::string name, Field<double> field, double low, double high, std::string doc) {
  ConfigKey key;
  key.name = std::move(name);
  key.type = ConfigType::kNumber;
  key.allowed = number_text(low) + " to " + number_text(high);
  key.doc = std::move(doc);
  key.get = [=](const Config& c) { return number_text(read(field, c)); };
  key.set = [=, allowed = key.allowed](Config& c, Bytes text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= low && value <= high))
      return not_allowed(text, allowed);
    field(c) = value;
    return Status::ok();
  };
  return key;
}

// Makes a key whose value is a list: in texts separated by spaces or commas, in the YAML a sequence.
inline ConfigKey list_key(std::string name, Field<std::vector<std::string>> field, std::string allowed, std::string doc) {
  ConfigKey key;
  key.name = std::move(name);
  key.type = ConfigType::kList;
  key.allowed = std::move(allowed);
  key.doc = std::move(doc);
  key.get = [=](const Config& c) { return join(read(field, c), " "); };
  key.set = [=, allowed = key.allowed](Config& c, Bytes text) {
    std::vector<std::string> items;
    std::string item;
    for (const char ch : std::string(text) + " ") {
      if (ch != ' ' && ch != ',') {
        item += ch;
      } else if (!item.empty()) {
        items.push_back(std::move(item));
        item.clear();
      }
    }
    if (items.empty()) return not_allowed(text, allowed);
    field(c) = std::move(items);
    return Status::ok();
  };
  return key;
}

template <typename T>
Field<T> of(T Config::*member) {
  return [member](Config& c) -> T& { return c.*member; };
}
template <typename T>
Field<T> of(T Settings::*member) {
  return [member](Config& c) -> T& { return c.engine.*member; };
}

// Returns the settings of a tree: those under `tree.`, or those of one database.
using TreeOf = std::function<TreeSettings&(Config&)>;
template <typename T>
Field<T> of(const TreeOf& tree, T TreeSettings::*member) {
  return [tree, member](Config& c) -> T& { return tree(c).*member; };
}

// Makes a key for a delete deadline. 0s means no promise. The shortest deadline is a second, since merges need time.
inline ConfigKey deadline_key(std::string name, Field<std::uint64_t> field, std::string doc) {
  constexpr std::uint64_t kLow = 1000, kHigh = 3650 * std::uint64_t{86'400'000};
  ConfigKey key = duration_key(std::move(name), std::move(field), kHigh, std::move(doc));
  key.allowed = "0s (no promise), or " + format_duration_ms(kLow) + " to " + format_duration_ms(kHigh);
  key.set = [set = key.set, allowed = key.allowed](Config& c, Bytes text) {
    const auto value = parse_duration_ms(text);
    if (value.is_ok() && ((*value != 0 && *value < kLow) || *value > kHigh)) return not_allowed(text, allowed);
    return set(c, text);
  };
  return key;
}

}  // namespace ebbtide::key_makers

// The library `cjson` of scripts: JSON as lua-cjson 2.1 writes and reads it, with its error texts.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "script/packed_text.h"

namespace ebbtide {
namespace {

/// Returns the settings for the called function: those of its own library if cjson.new has made it, otherwise those of the
/// execution.
JsonSettings& settings_of(lua_State* lua) {
  void* const own = lua_touserdata(lua, lua_upvalueindex(1));
  return own == nullptr ? Interpreter::of(lua).current().json : *static_cast<JsonSettings*>(own);
}

// --- encoding

class Encoder {
 public:
  explicit Encoder(lua_State* lua) : lua_(lua), self_(Interpreter::of(lua)), settings_(settings_of(lua)), text_(lua) {}

  /// Appends the value on top of the stack.
  void value(int depth) {
    text_.check();
    switch (lua_type(lua_, -1)) {
      case LUA_TSTRING:
        return string(-1);
      case LUA_TNUMBER:
        return number(-1);
      case LUA_TBOOLEAN:
        out_ += lua_toboolean(lua_, -1) != 0 ? "true" : "false";
        return;
      case LUA_TNIL:
        out_ += "null";
        return;
      case LUA_TTABLE:
        return table(depth + 1);
      case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(lua_, -1) == nullptr) {
          out_ += "null";
          return;
        }
        [[fallthrough]];
      default:
        fail("type not supported");
    }
  }
  void push() { text_.push(); }

 private:
  void fail(const char* why) { luaL_error(lua_, "Cannot serialise %s: %s", lua_typename(lua_, lua_type(lua_, -1)), why); }

  void string(int index) {
    std::size_t n = 0;
    const char* const text = lua_tolstring(lua_, index, &n);
    text_.check(n);
    out_ += '"';
    for (std::size_t i = 0; i < n; ++i) {
      const char c = text[i];
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '/':
          out_ += "\\/";
          break;
        case '\b':
          out_ += "\\b";
          break;
        case '\f':
          out_ += "\\f";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        default:
          if (static_cast<unsigned char>(c) < 32 || c == 127) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
            out_ += escape;
          } else {
            out_ += c;
          }
      }
    }
    out_ += '"';
  }

  void number(int index) {
    const lua_Number number = lua_tonumber(lua_, index);
    if (!std::isfinite(number)) {
      if (settings_.encode_invalid == 0) fail("must not be NaN or Inf");
      if (settings_.encode_invalid == 2) {
        out_ += "null";
        return;
      }
      out_ += std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
      return;
    }
    char text[40];
    std::snprintf(text, sizeof text, "%.*g", settings_.precision, number);
    out_ += text;
  }

  /// Returns the length of the table on top of the stack as an array; -1 if it must be an object.
  int array_length() {
    int largest = 0, items = 0;
    lua_pushnil(lua_);
    while (lua_next(lua_, -2) != 0) {
      const lua_Number key = lua_type(lua_, -2) == LUA_TNUMBER ? lua_tonumber(lua_, -2) : 0;
      if (key >= 1 && std::floor(key) == key && key <= 2147483647.0) {
        largest = std::max(largest, static_cast<int>(key));
        ++items;
        lua_pop(lua_, 1);
        continue;
      }
      lua_pop(lua_, 2);
      return -1;
    }
    if (settings_.sparse_ratio > 0 && largest > static_cast<std::int64_t>(items) * settings_.sparse_ratio &&
        largest > settings_.sparse_safe) {
      if (!settings_.sparse_convert) fail("excessively sparse array");
      return -1;
    }
    return largest;
  }

  void table(int depth) {
    if (depth > settings_.encode_depth || lua_checkstack(lua_, 3) == 0) {
      luaL_error(lua_, "Cannot serialise, excessive nesting (%d)", depth);
    }
    self_.work(lua_, 64);
    const int n = array_length();
    if (n > 0) {
      out_ += '[';
      for (int i = 1; i <= n; ++i) {
        if (i > 1) out_ += ',';
        lua_rawgeti(lua_, -1, i);
        value(depth);
        lua_pop(lua_, 1);
      }
      out_ += ']';
      return;
    }
    out_ += '{';
    bool first = true;
    lua_pushnil(lua_);
    while (lua_next(lua_, -2) != 0) {
      if (!first) out_ += ',';
      first = false;
      if (lua_type(lua_, -2) == LUA_TNUMBER) {
        out_ += '"';
        number(-2);
        out_ += "\":";
      } else if (lua_type(lua_, -2) == LUA_TSTRING) {
        string(-2);
        out_ += ':';
      } else {
        lua_pop(lua_, 1);
        luaL_error(lua_, "Cannot serialise %s: table key must be a number or string", lua_typename(lua_, lua_type(lua_, -1)));
      }
      value(depth);
      lua_pop(lua_, 1);
    }
    out_ += '}';
  }

  lua_State* lua_;
  Interpreter& self_;
  const JsonSettings& settings_;
  PackedText text_;
  std::string& out_ = text_.bytes();
};

int encode(lua_State* lua) {
  luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
  Encoder encoder(lua);
  encoder.value(0);
  encoder.push();
  return 1;
}

// --- decoding

class Decoder {
 public:
  Decoder(lua_State* lua, Bytes text) : lua_(lua), self_(Interpreter::of(lua)), settings_(settings_of(lua)), text_(text) {}

  void document() {
    next();
    value(0);
    next();
    if (token_ != Token::kEnd) expected("the end");
  }

 private:
  enum class Token : std::uint8_t {
    kObjectBegin,
    kObjectEnd,
    kArrayBegin,
    kArrayEnd,
    kString,
    kNumber,
    kBoolean,
    kNull,
    kColon,
    kComma,
    kEnd,
    kError,
  };

  [[nodiscard]] const char* found() const {
    static constexpr const char* kNames[] = {"T_OBJ_BEGIN", "T_OBJ_END", "T_ARR_BEGIN", "T_ARR_END", "T_STRING", "T_NUMBER",
                                             "T_BOOLEAN",   "T_NULL",    "T_COLON",     "T_COMMA",   "T_END"};
    return token_ == Token::kError ? why_ : kNames[static_cast<std::size_t>(token_)];
  }
  void expected(const char* what) {
    luaL_error(lua_, "Expected %s but found %s at character %d", what, found(), static_cast<int>(start_) + 1);
  }

  [[nodiscard]] char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void error(const char* why) {
    token_ = Token::kError;
    why_ = why;
  }

  bool word(Bytes text) {
    if (text_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }

  void next() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr && text_[at_] != '\0') ++at_;
    start_ = at_;
    if (at_ == text_.size()) {
      token_ = Token::kEnd;
      return;
    }
    const char c = text_[at_];
    static constexpr char kSingle[] = "{}[]:,";
    static constexpr Token kTokens[] = {Token::kObjectBegin, Token::kObjectEnd, Token::kArrayBegin,
                                        Token::kArrayEnd,    Token::kColon,     Token::kComma};
    if (const char* const single = c == '\0' ? nullptr : std::strchr(kSingle, c); single != nullptr) {
      ++at_;
      token_ = kTokens[single - kSingle];
      return;
    }
    if (c == '"') return string();
    if (c == '-' || (c == '+' && settings_.decode_invalid) || (c >= '0' && c <= '9')) return number();
    if (word("true")) {
      boolean_ = true;
      token_ = Token::kBoolean;
    } else if (word("false")) {
      boolean_ = false;
      token_ = Token::kBoolean;
    } else if (word("null")) {
      token_ = Token::kNull;
    } else if (settings_.decode_invalid && std::strchr("iInN", c) != nullptr && c != '\0') {
      number();
    } else {
      error("invalid token");
    }
  }

  void number() {
    std::size_t i = at_;
    const std::size_t digits = text_[i] == '-' ? i + 1 : i;
    const char first = digits < text_.size() ? text_[digits] : '\0',
               second = digits + 1 < text_.size() ? text_[digits + 1] : '\0';
    const bool odd = first == '0' && (second == 'x' || second == 'X' || (second >= '0' && second <= '9'));
    const bool word = std::strchr("iInN", first) != nullptr && first != '\0';
    if ((odd || word) && !settings_.decode_invalid) return error("invalid number");
    while (i < text_.size() && i - at_ < 400 && std::strchr(" \t\r\n,]}:[{\"", text_[i]) == nullptr) ++i;
    const std::string copy(text_.substr(at_, i - at_));
    char* end = nullptr;
    number_ = std::strtod(copy.c_str(), &end);
    if (end == copy.c_str()) return error(word ? "invalid token" : "invalid number");
    at_ += static_cast<std::size_t>(end - copy.c_str());
    token_ = Token::kNumber;
  }

  /// Reads four hex digits; returns -1 if they are not hex digits.
  int hex() {
    int value = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const char c = peek(i);
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return -1;
      value = value * 16 + digit;
    }
    at_ += 4;
    return value;
  }

  void append_utf8(unsigned code) {
    if (code < 0x80) {
      string_ += static_cast<char>(code);
    } else if (code < 0x800) {
      string_ += static_cast<char>(0xc0 | (code >> 6));
      string_ += static_cast<char>(0x80 | (code & 63));
    } else if (code < 0x10000) {
      string_ += static_cast<char>(0xe0 | (code >> 12));
      string_ += static_cast<char>(0x80 | ((code >> 6) & 63));
      string_ += static_cast<char>(0x80 | (code & 63));
    } else {
      string_ += static_cast<char>(0xf0 | (code >> 18));
      string_ += static_cast<char>(0x80 | ((code >> 12) & 63));
      string_ += static_cast<char>(0x80 | ((code >> 6) & 63));
      string_ += static_cast<char>(0x80 | (code & 63));
    }
  }

  /// Reads the digits after \u and, after a high surrogate, a second escape. Returns false if they are invalid.
  bool unicode() {
    const std::size_t escape = at_ - 2;
    const int first = hex();
    bool valid = first >= 0 && (first & 0xfc00) != 0xdc00;
    if (valid && (first & 0xfc00) == 0xd800) {
      valid = peek() == '\\' && peek(1) == 'u';
      if (valid) at_ += 2;
      const int second = valid ? hex() : -1;
      valid = second >= 0 && (second & 0xfc00) == 0xdc00;
      if (valid) append_utf8(0x10000 + ((static_cast<unsigned>(first) & 0x3ff) << 10) + (static_cast<unsigned>(second) & 0x3ff));
    } else if (valid) {
      append_utf8(static_cast<unsigned>(first));
    }
    if (!valid) start_ = escape;
    return valid;
  }

  void string() {
    string_.clear();
    ++at_;
    while (true) {
      if (at_ >= text_.size()) {
        start_ = at_;
        return error("unexpected end of string");
      }
      const char c = text_[at_++];
      if (c == '"') break;
      if (c != '\\') {
        string_ += c;
        continue;
      }
      const char escape = peek();
      ++at_;
      switch (escape) {
        case '"':
        case '\\':
        case '/':
          string_ += escape;
          break;
        case 'b':
          string_ += '\b';
          break;
        case 'f':
          string_ += '\f';
          break;
        case 'n':
          string_ += '\n';
          break;
        case 'r':
          string_ += '\r';
          break;
        case 't':
          string_ += '\t';
          break;
        case 'u':
          if (!unicode()) return error("invalid unicode escape code");
          break;
        default:
          start_ = at_ - 2;
          return error("invalid escape code");
      }
    }
    token_ = Token::kString;
  }

  /// Pushes the value that begins with the current token.
  void value(int depth) {
    switch (token_) {
      case Token::kString:
        lua_pushlstring(lua_, string_.data(), string_.size());
        return;
      case Token::kNumber:
        lua_pushnumber(lua_, number_);
        return;
      case Token::kBoolean:
        lua_pushboolean(lua_, boolean_ ? 1 : 0);
        return;
      case Token::kNull:
        lua_pushlightuserdata(lua_, nullptr);
        return;
      case Token::kObjectBegin:
        return object(depth + 1);
      case Token::kArrayBegin:
        return array(depth + 1);
      default:
        expected("value");
    }
  }

  void descend(int depth) {
    self_.work(lua_, 64);
    if (depth > settings_.decode_depth || lua_checkstack(lua_, 3) == 0) {
      luaL_error(lua_, "Found too many nested data structures (%d) at character %d", depth, static_cast<int>(at_));
    }
    lua_newtable(lua_);
  }

  void object(int depth) {
    descend(depth);
    next();
    if (token_ == Token::kObjectEnd) return;
    while (true) {
      if (token_ != Token::kString) expected("object key string");
      lua_pushlstring(lua_, string_.data(), string_.size());
      next();
      if (token_ != Token::kColon) expected("colon");
      next();
      value(depth);
      lua_rawset(lua_, -3);
      next();
      if (token_ == Token::kObjectEnd) return;
      if (token_ != Token::kComma) expected("comma or object end");
      next();
    }
  }

  void array(int depth) {
    descend(depth);
    next();
    if (token_ == Token::kArrayEnd) return;
    for (int i = 1;; ++i) {
      value(depth);
      lua_rawseti(lua_, -2, i);
      next();
      if (token_ == Token::kArrayEnd) return;
      if (token_ != Token::kComma) expected("comma or array end");
      next();
    }
  }

  lua_State* lua_;
  Interpreter& self_;
  const JsonSettings& settings_;
  const Bytes text_;
  std::size_t at_ = 0, start_ = 0;
  Token token_ = Token::kEnd;
  const char* why_ = "";
  std::string string_;
  double number_ = 0;
  bool boolean_ = false;
};

int decode(lua_State* lua) {
  luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
  std::size_t n = 0;
  const char* const text = luaL_checklstring(lua, 1, &n);
  Interpreter::of(lua).work(lua, 4 * n);
  if (n > 1 && (text[0] == '\0' || text[1] == '\0')) return luaL_error(lua, "JSON parser does not support UTF-16 or UTF-32");
  Decoder(lua, {text, n}).document();
  return 1;
}

// --- settings

/// If there is an argument, sets an integer setting to it. Returns the setting.
int setting(lua_State* lua, int* value, int low, int high) {
  luaL_argcheck(lua, lua_gettop(lua) <= 1, 2, "found too many arguments");
  if (!lua_isnoneornil(lua, 1)) {
    const int given = luaL_checkint(lua, 1);
    if (given < low || given > high) {
      const char* const why = lua_pushfstring(lua, "expected integer between %d and %d", low, high);
      return luaL_argerror(lua, 1, why);
    }
    *value = given;
  }
  lua_pushinteger(lua, *value);
  return 1;
}

int encode_max_depth(lua_State* lua) { return setting(lua, &settings_of(lua).encode_depth, 1, 2147483647); }
int decode_max_depth(lua_State* lua) { return setting(lua, &settings_of(lua).decode_depth, 1, 2147483647); }
int encode_number_precision(lua_State* lua) { return setting(lua, &settings_of(lua).precision, 1, 14); }

int encode_sparse_array(lua_State* lua) {
  JsonSettings& settings = settings_of(lua);
  if (!lua_isnoneornil(lua, 1)) settings.sparse_convert = lua_toboolean(lua, 1) != 0;
  if (!lua_isnoneornil(lua, 2)) settings.sparse_ratio = luaL_checkint(lua, 2);
  if (!lua_isnoneornil(lua, 3)) settings.sparse_safe = luaL_checkint(lua, 3);
  lua_pushboolean(lua, settings.sparse_convert ? 1 : 0);
  lua_pushinteger(lua, settings.sparse_ratio);
  lua_pushinteger(lua, settings.sparse_safe);
  return 3;
}

int encode_invalid_numbers(lua_State* lua) {
  JsonSettings& settings = settings_of(lua);
  if (lua_isboolean(lua, 1)) {
    settings.encode_invalid = lua_toboolean(lua, 1);
  } else if (!lua_isnoneornil(lua, 1)) {
    static constexpr const char* kChoices[] = {"off", "on", "null", nullptr};
    settings.encode_invalid = luaL_checkoption(lua, 1, nullptr, kChoices);
  }
  if (settings.encode_invalid == 2) {
    lua_pushliteral(lua, "null");
  } else {
    lua_pushboolean(lua, settings.encode_invalid);
  }
  return 1;
}

int decode_invalid_numbers(lua_State* lua) {
  JsonSettings& settings = settings_of(lua);
  if (!lua_isnoneornil(lua, 1)) settings.decode_invalid = lua_toboolean(lua, 1) != 0;
  lua_pushboolean(lua, settings.decode_invalid ? 1 : 0);
  return 1;
}

int encode_keep_buffer(lua_State* lua) {
  lua_pushboolean(lua, lua_isnoneornil(lua, 1) ? 1 : lua_toboolean(lua, 1));
  return 1;
}

/// Pushes a table with the library. `own`: it has settings of its own, instead of those of the execution.
void push_library(lua_State* lua, bool own);

int new_library(lua_State* lua) {
  push_library(lua, true);
  return 1;
}

void push_library(lua_State* lua, bool own) {
  static constexpr luaL_Reg kFunctions[] = {
      {"encode", encode},
      {"decode", decode},
      {"encode_max_depth", encode_max_depth},
      {"decode_max_depth", decode_max_depth},
      {"encode_number_precision", encode_number_precision},
      {"encode_sparse_array", encode_sparse_array},
      {"encode_invalid_numbers", encode_invalid_numbers},
      {"decode_invalid_numbers", decode_invalid_numbers},
      {"encode_keep_buffer", encode_keep_buffer},
      {"new", new_library},
  };
  lua_newtable(lua);
  if (own) {
    new (lua_newuserdata(lua, sizeof(JsonSettings))) JsonSettings;
  } else {
    lua_pushnil(lua);
  }
  for (const luaL_Reg& function : kFunctions) {
    lua_pushvalue(lua, -1);
    lua_pushcclosure(lua, function.func, 1);
    lua_setfield(lua, -3, function.name);
  }
  lua_pop(lua, 1);
  lua_pushlightuserdata(lua, nullptr);
  lua_setfield(lua, -2, "null");
  lua_pushliteral(lua, "cjson");
  lua_setfield(lua, -2, "_NAME");
  lua_pushliteral(lua, "2.1.0");
  lua_setfield(lua, -2, "_VERSION");
}

}  // namespace

void open_cjson(lua_State* lua) {
  push_library(lua, false);
  add_library(lua, "cjson");
}

}  // namespace ebbtide

// The library `struct` of scripts: binary structures by a format, as Redis's version of struct 0.2 writes and reads them.
//
// A format is a text of items: > < big and little endian; !n alignment to n bytes; x a byte of padding; b B h H l L T, i In I In
// integers; f d numbers; s a text up to a zero byte; cn n bytes of a text, c0 all of it. Lower case is signed.
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "script/packed_text.h"

namespace ebbtide {
namespace {

constexpr int kLargestInteger = 32;  ///< the most bytes of an integer (the format iN)
constexpr int kLargestAlignment = 8;
constexpr std::size_t kWorkOfItem = 16;

/// Iterates over the items of a format.
class Format {
 public:
  Format(lua_State* lua, const char* text) : lua_(lua), self_(Interpreter::of(lua)), at_(text) {}

  /// Moves to the next item. Returns false if there is none.
  bool next() {
    if (*at_ == '\0') return false;
    self_.work(lua_, kWorkOfItem);
    option = *at_++;
    size = size_of();
    return true;
  }

  /// Returns the bytes of padding before the item, if the item is at position `at`.
  [[nodiscard]] std::size_t padding(std::size_t at) const {
    if (size == 0 || option == 'c') return 0;
    const std::size_t to = size > align_ ? align_ : size;
    return (to - (at & (to - 1))) & (to - 1);
  }

  /// Applies an item that has no value, such as < or !4.
  void control() {
    switch (option) {
      case ' ':
        return;
      case '>':
        little = false;
        return;
      case '<':
        little = true;
        return;
      case '!': {
        const int to = number(kLargestAlignment);
        if (to <= 0 || (to & (to - 1)) != 0) luaL_error(lua_, "alignment %d is not a power of 2", to);
        align_ = static_cast<std::size_t>(to);
        return;
      }
      default:
        luaL_argerror(lua_, 1, lua_pushfstring(lua_, "invalid format option '%c'", option));
    }
  }

  char option = 0;
  std::size_t size = 0;
  bool little = true;  ///< the byte order of the machine

 private:
  int number(int otherwise) {
    if (std::isdigit(static_cast<unsigned char>(*at_)) == 0) return otherwise;
    int value = 0;
    do {
      const int digit = *at_++ - '0';
      if (value > (2147483647 - digit) / 10) luaL_error(lua_, "integral size overflow");
      value = value * 10 + digit;
    } while (std::isdigit(static_cast<unsigned char>(*at_)) != 0);
    return value;
  }

  std::size_t size_of() {
    switch (option) {
      case 'B':
      case 'b':
      case 'x':
        return 1;
      case 'H':
      case 'h':
        return 2;
      case 'f':
        return 4;
      case 'L':
      case 'l':
      case 'T':
      case 'd':
        return 8;
      case 'c':
        return static_cast<std::size_t>(number(1));
      case 'i':
      case 'I': {
        const int bytes = number(4);
        if (bytes > kLargestInteger) luaL_error(lua_, "integral size %d is larger than limit of %d", bytes, kLargestInteger);
        return static_cast<std::size_t>(bytes);
      }
      default:
        return 0;
    }
  }

  lua_State* lua_;
  Interpreter& self_;
  const char* at_;
  std::size_t align_ = 1;
};

bool is_integer_option(char option) { return std::strchr("bBhHlLTiI", option) != nullptr; }

/// Converts a number as Redis does on x86-64, even where the result is undefined in C++.
std::uint64_t integer_of(double number) {
  constexpr double kTwo63 = 9223372036854775808.0;
  constexpr std::uint64_t kTop = std::uint64_t{1} << 63;
  if (std::isnan(number) || number < -kTwo63) return kTop;
  if (number < 0) return static_cast<std::uint64_t>(static_cast<std::int64_t>(number));
  return number >= 2 * kTwo63 ? 0 : static_cast<std::uint64_t>(number);
}

/// Appends the lowest `bytes` bytes of the value. Bytes beyond the eighth are zero.
void put_integer(std::string& out, std::uint64_t value, std::size_t bytes, bool little) {
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::size_t place = little ? i : bytes - 1 - i;
    out += place < 8 ? static_cast<char>((value >> (8 * place)) & 255) : '\0';
  }
}

/// Returns the value of these bytes. Of more than eight bytes, only the lowest eight count.
std::uint64_t get_integer(Bytes bytes, bool little) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value = (value << 8) | static_cast<unsigned char>(bytes[little ? bytes.size() - 1 - i : i]);
  }
  return value;
}

double signed_number(std::uint64_t value, std::size_t bytes) {
  if (bytes > 0 && bytes < 8 && ((value >> (8 * bytes - 1)) & 1) != 0) value |= ~std::uint64_t{0} << (8 * bytes - 1);
  return static_cast<double>(static_cast<std::int64_t>(value));
}

int struct_pack(lua_State* lua) {
  Format format(lua, luaL_checkstring(lua, 1));
  lua_pushnil(lua);  // a missing argument is nil, as in Redis
  PackedText packed(lua);
  std::string& out = packed.bytes();
  int argument = 2;
  while (format.next()) {
    packed.check();
    out.append(format.padding(out.size()), '\0');
    if (is_integer_option(format.option)) {
      put_integer(out, integer_of(luaL_checknumber(lua, argument++)), format.size, format.little);
    } else if (format.option == 'x') {
      out += '\0';
    } else if (format.option == 'f') {
      const auto number = static_cast<float>(luaL_checknumber(lua, argument++));
      std::uint32_t bits = 0;
      std::memcpy(&bits, &number, sizeof bits);
      put_integer(out, bits, 4, format.little);
    } else if (format.option == 'd') {
      const double number = luaL_checknumber(lua, argument++);
      std::uint64_t bits = 0;
      std::memcpy(&bits, &number, sizeof bits);
      put_integer(out, bits, 8, format.little);
    } else if (format.option == 'c' || format.option == 's') {
      std::size_t size = 0;
      const char* const text = luaL_checklstring(lua, argument++, &size);
      luaL_argcheck(lua, size >= format.size, argument, "string too short");
      packed.check(size);
      out.append(text, format.size == 0 ? size : format.size);
      if (format.option == 's') out += '\0';
    } else {
      format.control();
    }
  }
  packed.push();
  return 1;
}

/// Pushes the value of the item at the beginning of `data`. Returns the bytes of the item. `values`: number of values on the
/// stack.
std::size_t push_item(lua_State* lua, const Format& format, Bytes data, int* values) {
  std::size_t size = format.size;
  ++*values;
  if (is_integer_option(format.option)) {
    const std::uint64_t value = get_integer(data.substr(0, size), format.little);
    const bool is_signed = std::islower(static_cast<unsigned char>(format.option)) != 0;
    lua_pushnumber(lua, is_signed ? signed_number(value, size) : static_cast<double>(value));
  } else if (format.option == 'f') {
    const auto bits = static_cast<std::uint32_t>(get_integer(data.substr(0, 4), format.little));
    float number = 0;
    std::memcpy(&number, &bits, sizeof number);
    lua_pushnumber(lua, number);
  } else if (format.option == 'd') {
    const std::uint64_t bits = get_integer(data.substr(0, 8), format.little);
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    lua_pushnumber(lua, number);
  } else if (format.option == 'c') {
    if (size == 0) {
      if (--*values == 0 || lua_isnumber(lua, -1) == 0) luaL_error(lua, "format 'c0' needs a previous size");
      size = static_cast<std::size_t>(integer_of(lua_tonumber(lua, -1)));
      lua_pop(lua, 1);
      luaL_argcheck(lua, size <= data.size(), 2, "data string too short");
    }
    lua_pushlstring(lua, data.data(), size);
  } else {  // s
    size = data.find('\0');
    if (size == Bytes::npos) luaL_error(lua, "unfinished string in data");
    lua_pushlstring(lua, data.data(), size++);
  }
  return size;
}

int struct_unpack(lua_State* lua) {
  Format format(lua, luaL_checkstring(lua, 1));
  std::size_t n = 0;
  const char* const text = luaL_checklstring(lua, 2, &n);
  const Bytes data(text, n);
  // A negative offset becomes one that is beyond any data.
  auto at = static_cast<std::size_t>(luaL_optinteger(lua, 3, 1));
  luaL_argcheck(lua, at > 0, 3, "offset must be 1 or greater");
  --at;
  int values = 0;
  while (format.next()) {
    at += format.padding(at);
    luaL_argcheck(lua, format.size <= n && at <= n - format.size, 2, "data string too short");
    luaL_checkstack(lua, 2, "too many results");
    if (format.option == 'x') {
      ++at;
    } else if (is_integer_option(format.option) || std::strchr("fdcs", format.option) != nullptr) {
      at += push_item(lua, format, data.substr(at), &values);
    } else {
      format.control();
    }
  }
  lua_pushinteger(lua, static_cast<lua_Integer>(at + 1));
  return values + 1;
}

int struct_size(lua_State* lua) {
  Format format(lua, luaL_checkstring(lua, 1));
  std::size_t at = 0;
  while (format.next()) {
    at += format.padding(at);
    luaL_argcheck(lua, format.option != 's', 1, "option 's' has no fixed size");
    luaL_argcheck(lua, format.option != 'c' || format.size > 0, 1, "option 'c0' has no fixed size");
    if (std::isalnum(static_cast<unsigned char>(format.option)) == 0) format.control();
    at += format.size;
  }
  lua_pushinteger(lua, static_cast<lua_Integer>(at));
  return 1;
}

}  // namespace

void open_struct(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {{"pack", struct_pack}, {"unpack", struct_unpack}, {"size", struct_size}};
  lua_newtable(lua);
  for (const luaL_Reg& function : kFunctions) {
    lua_pushcfunction(lua, function.func);
    lua_setfield(lua, -2, function.name);
  }
  add_library(lua, "struct");
}

}  // namespace ebbtide

// The library `cmsgpack` of scripts: MessagePack as lua-cmsgpack 0.4.0 writes and reads it, with its error texts.
//
// A table whose keys are 1 to n is written as an array, any other table as a map. A number that is a 64-bit integer is written as
// an integer; others as a float if that keeps the value, otherwise as a double. Tables nested deeper than kDeepest, functions and
// other types are written as nil. As in Redis, values of type bin and ext cannot be read.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "script/packed_text.h"

namespace ebbtide {
namespace {

/// The most levels of nested tables that pack writes, so that it ends even if tables form a cycle.
constexpr int kDeepest = 16;

/// The first bytes of values, by their type.
enum Tag : unsigned char {
  kNil = 0xc0,
  kFalse = 0xc2,
  kTrue = 0xc3,
  kFloat = 0xca,
  kDouble = 0xcb,
  kUint8 = 0xcc,  ///< an integer of 1 byte; + 1, + 2, + 3: of 2, 4 and 8 bytes; likewise for kInt8
  kInt8 = 0xd0,
  kStr8 = 0xd9,  ///< the length has 1 byte; + 1, + 2: 2 and 4 bytes. kArray16 and kMap16: 2 bytes; + 1: 4 bytes
  kArray16 = 0xdc,
  kMap16 = 0xde,
};
/// First bytes that also contain, in their low bits, a small number or length.
enum ShortTag : unsigned char { kShortMap = 0x80, kShortArray = 0x90, kShortStr = 0xa0, kNegative = 0xe0 };

// --- encoding

class Packer {
 public:
  explicit Packer(lua_State* lua) : lua_(lua), self_(Interpreter::of(lua)), out_(lua) {}

  /// Appends the value on top of the stack, and pops it.
  void value(int depth) {
    out_.check();
    switch (lua_type(lua_, -1)) {
      case LUA_TSTRING:
        string();
        break;
      case LUA_TBOOLEAN:
        byte(lua_toboolean(lua_, -1) != 0 ? kTrue : kFalse);
        break;
      case LUA_TNUMBER:
        number(lua_tonumber(lua_, -1));
        break;
      case LUA_TTABLE:
        if (depth < kDeepest) {
          table(depth + 1);
          break;
        }
        [[fallthrough]];
      default:
        byte(kNil);
    }
    lua_pop(lua_, 1);
  }
  void push() { out_.push(); }

 private:
  void byte(unsigned value) { out_.bytes() += static_cast<char>(value); }
  void big_endian(std::uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) byte(static_cast<unsigned>(value >> (8 * i)) & 255);
  }
  void tagged(unsigned tag, std::uint64_t value, int bytes) {
    byte(tag);
    big_endian(value, bytes);
  }

  void string() {
    std::size_t n = 0;
    const char* const text = lua_tolstring(lua_, -1, &n);
    out_.check(n);
    if (n < 32) {
      byte(kShortStr | static_cast<unsigned>(n));
    } else if (n <= 0xff) {
      tagged(kStr8, n, 1);
    } else if (n <= 0xffff) {
      tagged(kStr8 + 1, n, 2);
    } else {
      tagged(kStr8 + 2, n, 4);
    }
    out_.bytes().append(text, n);
  }

  void number(double value) {
    constexpr double kLimit = 9223372036854775808.0;
    if (value >= -kLimit && value < kLimit && std::floor(value) == value) return integer(static_cast<std::int64_t>(value));
    // Beyond a float's range the conversion would be undefined.
    const bool narrow = std::isinf(value) || std::fabs(value) <= std::numeric_limits<float>::max();
    if (narrow && static_cast<double>(static_cast<float>(value)) == value) {
      const auto number = static_cast<float>(value);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &number, sizeof bits);
      return tagged(kFloat, bits, 4);
    }
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    tagged(kDouble, bits, 8);
  }

  void integer(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    if (value >= -32 && value <= 127) return byte(static_cast<unsigned>(bits & 255));
    if (value >= 0) {
      const int width = bits <= 0xff ? 0 : bits <= 0xffff ? 1 : bits <= 0xffffffff ? 2 : 3;
      return tagged(kUint8 + static_cast<unsigned>(width), bits, 1 << width);
    }
    const int width = value >= -128 ? 0 : value >= -32768 ? 1 : value >= -2147483648LL ? 2 : 3;
    tagged(kInt8 + static_cast<unsigned>(width), bits, 1 << width);
  }

  void header(unsigned short_tag, unsigned tag, std::size_t n) {
    if (n <= 15) return byte(short_tag | static_cast<unsigned>(n));
    const bool wide = n > 0xffff;
    tagged(tag + (wide ? 1 : 0), n, wide ? 4 : 2);
  }

  /// Counts the pairs of the table on top of the stack. Sets `*is_array` to true if its keys are 1 to n.
  std::size_t count(bool* is_array) {
    std::size_t pairs = 0;
    double largest = 0;
    *is_array = true;
    lua_pushnil(lua_);
    while (lua_next(lua_, -2) != 0) {
      lua_pop(lua_, 1);
      ++pairs;
      const double key = lua_type(lua_, -1) == LUA_TNUMBER ? lua_tonumber(lua_, -1) : 0;
      if (!(key >= 1) || std::floor(key) != key) *is_array = false;
      largest = std::max(largest, key);
    }
    if (largest != static_cast<double>(pairs)) *is_array = false;
    return pairs;
  }

  void table(int depth) {
    luaL_checkstack(lua_, 4, "in function mp_encode_lua_table");
    self_.work(lua_, 64);
    bool is_array = false;
    const std::size_t n = count(&is_array);
    self_.work(lua_, 16 * n);
    if (is_array) {
      header(kShortArray, kArray16, n);
      for (std::size_t i = 1; i <= n; ++i) {
        lua_rawgeti(lua_, -1, static_cast<int>(i));
        value(depth);
      }
      return;
    }
    header(kShortMap, kMap16, n);
    lua_pushnil(lua_);
    while (lua_next(lua_, -2) != 0) {
      lua_pushvalue(lua_, -2);
      value(depth);
      value(depth);
    }
  }

  lua_State* lua_;
  Interpreter& self_;
  PackedText out_;
};

int msgpack_pack(lua_State* lua) {
  const int arguments = lua_gettop(lua);
  if (arguments == 0) return luaL_argerror(lua, 0, "MessagePack pack needs input.");
  if (lua_checkstack(lua, arguments) == 0) return luaL_argerror(lua, 0, "Too many arguments for MessagePack pack.");
  Packer packer(lua);
  for (int i = 1; i <= arguments; ++i) {
    lua_pushvalue(lua, i);
    packer.value(0);
  }
  packer.push();
  return 1;
}

// --- decoding

class Unpacker {
 public:
  Unpacker(lua_State* lua, Bytes text) : lua_(lua), self_(Interpreter::of(lua)), rest_(text) {}

  [[nodiscard]] std::size_t left() const { return rest_.size(); }

  /// Pushes the next value.
  void value() {
    luaL_checkstack(lua_, 1, "too many return values at once; use unpack_one or unpack_limit instead.");
    const auto tag = static_cast<unsigned>(big_endian(1));
    if (tag < kShortMap) return lua_pushnumber(lua_, tag);
    if (tag < kShortArray) return map(tag & 15);
    if (tag < kShortStr) return array(tag & 15);
    if (tag < kNil) return string(tag & 31);
    if (tag >= kNegative) return lua_pushnumber(lua_, static_cast<signed char>(tag));
    switch (tag) {
      case kNil:
        return lua_pushnil(lua_);
      case kFalse:
      case kTrue:
        return lua_pushboolean(lua_, tag == kTrue ? 1 : 0);
      case kFloat:
        return lua_pushnumber(lua_, number<float>(static_cast<std::uint32_t>(big_endian(4))));
      case kDouble:
        return lua_pushnumber(lua_, number<double>(big_endian(8)));
      case kUint8:
      case kUint8 + 1:
      case kUint8 + 2:
      case kUint8 + 3:  // as in Redis, numbers from 2^63 on become negative
        return lua_pushnumber(lua_, static_cast<double>(static_cast<std::int64_t>(big_endian(1 << (tag - kUint8)))));
      case kInt8:
      case kInt8 + 1:
      case kInt8 + 2:
      case kInt8 + 3:
        return lua_pushnumber(lua_, static_cast<double>(integer(1 << (tag - kInt8))));
      case kStr8:
      case kStr8 + 1:
      case kStr8 + 2:
        return string(big_endian(1 << (tag - kStr8)));
      case kArray16:
      case kArray16 + 1:
        return array(big_endian(2 << (tag - kArray16)));
      case kMap16:
      case kMap16 + 1:
        return map(big_endian(2 << (tag - kMap16)));
      default:
        luaL_error(lua_, "Bad data format in input.");
    }
  }

 private:
  Bytes take(std::uint64_t n) {
    if (n > rest_.size()) luaL_error(lua_, "Missing bytes in input.");
    const Bytes taken = rest_.substr(0, static_cast<std::size_t>(n));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::uint64_t big_endian(int bytes) {
    std::uint64_t value = 0;
    for (const char c : take(static_cast<std::uint64_t>(bytes))) value = (value << 8) | static_cast<unsigned char>(c);
    return value;
  }
  std::int64_t integer(int bytes) {
    const int unused = 64 - 8 * bytes;
    return static_cast<std::int64_t>(big_endian(bytes) << unused) >> unused;
  }

  template <class Number, class Bits>
  static double number(Bits bits) {
    static_assert(sizeof(Number) == sizeof(Bits));
    Number value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  void string(std::uint64_t n) {
    const Bytes text = take(n);
    lua_pushlstring(lua_, text.data(), text.size());
  }

  // Each level leaves at least one value on Lua's stack, whose limit ends the recursion.
  void array(std::uint64_t n) {
    self_.work(lua_, 64);
    lua_newtable(lua_);
    luaL_checkstack(lua_, 1, "in function mp_decode_to_lua_array");
    for (std::uint64_t i = 1; i <= n; ++i) {
      lua_pushnumber(lua_, static_cast<double>(i));
      value();
      lua_rawset(lua_, -3);
    }
  }

  void map(std::uint64_t n) {
    self_.work(lua_, 64);
    lua_newtable(lua_);
    for (std::uint64_t i = 0; i < n; ++i) {
      value();
      value();
      lua_rawset(lua_, -3);
    }
  }

  lua_State* lua_;
  Interpreter& self_;
  Bytes rest_;
};

/// Unpacks at most `limit` values from `offset` on. First pushes the offset after them, or -1 at the end of the input. If `limit`
/// and `offset` are 0, unpacks all values, and pushes no offset.
int msgpack_unpack_from(lua_State* lua, lua_Integer limit, lua_Integer offset) {
  std::size_t size = 0;
  const char* const text = luaL_checklstring(lua, 1, &size);
  if (offset < 0 || limit < 0) {  // as in Redis, this text gives the size as the limit
    return luaL_error(lua, "Invalid request to unpack with offset of %d and limit of %d.", static_cast<int>(offset),
                      static_cast<int>(size));
  }
  const auto start = static_cast<std::size_t>(offset);
  if (start > size) {
    return luaL_error(lua, "Start offset %d greater than input length %d.", static_cast<int>(offset), static_cast<int>(size));
  }
  const bool all = limit == 0 && offset == 0;
  Interpreter::of(lua).work(lua, limit == 1 ? 64 : 4 * (size - start));
  lua_settop(lua, 1);
  Unpacker unpacker(lua, {text + start, size - start});
  int values = 0;
  for (; unpacker.left() > 0 && (all || values < limit); ++values) unpacker.value();
  if (all) return values;
  luaL_checkstack(lua, 1, "in function mp_unpack_full");
  lua_pushinteger(lua, unpacker.left() == 0 ? -1 : static_cast<lua_Integer>(size - unpacker.left()));
  lua_insert(lua, 2);
  return values + 1;
}

int msgpack_unpack(lua_State* lua) { return msgpack_unpack_from(lua, 0, 0); }
int msgpack_unpack_one(lua_State* lua) { return msgpack_unpack_from(lua, 1, luaL_optinteger(lua, 2, 0)); }
int msgpack_unpack_limit(lua_State* lua) {
  return msgpack_unpack_from(lua, luaL_checkinteger(lua, 2), luaL_optinteger(lua, 3, 0));
}

}  // namespace

void open_cmsgpack(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {
      {"pack", msgpack_pack},
      {"unpack", msgpack_unpack},
      {"unpack_one", msgpack_unpack_one},
      {"unpack_limit", msgpack_unpack_limit},
  };
  static constexpr std::pair<const char*, const char*> kTexts[] = {
      {"_NAME", "cmsgpack"},
      {"_VERSION", "lua-cmsgpack 0.4.0"},
      {"_COPYRIGHT", "Copyright (C) 2012, Redis Ltd."},
      {"_DESCRIPTION", "MessagePack C implementation for Lua"},
  };
  lua_newtable(lua);
  for (const luaL_Reg& function : kFunctions) {
    lua_pushcfunction(lua, function.func);
    lua_setfield(lua, -2, function.name);
  }
  for (const auto& [name, text] : kTexts) {
    lua_pushstring(lua, text);
    lua_setfield(lua, -2, name);
  }
  add_library(lua, "cmsgpack");
}

}  // namespace ebbtide

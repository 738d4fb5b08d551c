// The library `bit` of scripts: operations on 32-bit integers, as in Lua BitOp.
#include <array>
#include <cstdint>
#include <cstring>

#include "script/interpreter.h"

namespace ebbtide {
namespace {

/// Returns the argument modulo 2^32, rounded to the nearest integer.
std::uint32_t bits_of(lua_State* lua, int index) {
  // 2^52 + 2^51: the low bits of the sum are the integer.
  const lua_Number number = luaL_checknumber(lua, index) + 6755399441055744.0;
  std::uint64_t word = 0;
  std::memcpy(&word, &number, sizeof word);
  return static_cast<std::uint32_t>(word);
}

int push(lua_State* lua, std::uint32_t bits) {
  lua_pushnumber(lua, static_cast<lua_Number>(static_cast<std::int32_t>(bits)));
  return 1;
}

int tobit(lua_State* lua) { return push(lua, bits_of(lua, 1)); }
int bnot(lua_State* lua) { return push(lua, ~bits_of(lua, 1)); }
int bswap(lua_State* lua) { return push(lua, __builtin_bswap32(bits_of(lua, 1))); }

template <typename Operation>
int fold(lua_State* lua, Operation operation) {
  std::uint32_t bits = bits_of(lua, 1);
  for (int i = lua_gettop(lua); i > 1; --i) bits = operation(bits, bits_of(lua, i));
  return push(lua, bits);
}
int band(lua_State* lua) {
  return fold(lua, [](std::uint32_t a, std::uint32_t b) { return a & b; });
}
int bor(lua_State* lua) {
  return fold(lua, [](std::uint32_t a, std::uint32_t b) { return a | b; });
}
int bxor(lua_State* lua) {
  return fold(lua, [](std::uint32_t a, std::uint32_t b) { return a ^ b; });
}

int lshift(lua_State* lua) { return push(lua, bits_of(lua, 1) << (bits_of(lua, 2) & 31)); }
int rshift(lua_State* lua) { return push(lua, bits_of(lua, 1) >> (bits_of(lua, 2) & 31)); }
int arshift(lua_State* lua) {
  return push(lua, static_cast<std::uint32_t>(static_cast<std::int32_t>(bits_of(lua, 1)) >> (bits_of(lua, 2) & 31)));
}
std::uint32_t rotate(std::uint32_t bits, std::uint32_t n) { return (bits << (n & 31)) | (bits >> ((32 - (n & 31)) & 31)); }
int rol(lua_State* lua) { return push(lua, rotate(bits_of(lua, 1), bits_of(lua, 2))); }
int ror(lua_State* lua) { return push(lua, rotate(bits_of(lua, 1), 32 - (bits_of(lua, 2) & 31))); }

int tohex(lua_State* lua) {
  std::uint32_t bits = bits_of(lua, 1);
  const std::int64_t given = lua_isnone(lua, 2) ? 8 : static_cast<std::int32_t>(bits_of(lua, 2));
  const char* const digits = given < 0 ? "0123456789ABCDEF" : "0123456789abcdef";
  const auto n = static_cast<std::size_t>(std::min<std::int64_t>(given < 0 ? -given : given, 8));
  std::array<char, 8> text{};
  for (std::size_t i = n; i-- > 0; bits >>= 4) text[i] = digits[bits & 15];
  lua_pushlstring(lua, text.data(), n);
  return 1;
}

}  // namespace

void open_bit(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {
      {"tobit", tobit},   {"bnot", bnot},       {"band", band}, {"bor", bor}, {"bxor", bxor},   {"lshift", lshift},
      {"rshift", rshift}, {"arshift", arshift}, {"rol", rol},   {"ror", ror}, {"bswap", bswap}, {"tohex", tohex},
  };
  lua_newtable(lua);
  for (const luaL_Reg& function : kFunctions) {
    lua_pushcfunction(lua, function.func);
    lua_setfield(lua, -2, function.name);
  }
  add_library(lua, "bit");
}

}  // namespace ebbtide

// Tests of how the sandbox parses chunks. tests/contract/test_scripts.py has the tests of its functions.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <string>

#include "script/interpreter.h"

namespace TEST_FILE {

using namespace ebbtide;

/// A Lua state that overwrites freed memory, and whose garbage collector runs as often as it can.
struct StrictState {
  StrictState() : lua(lua_newstate(allocate, nullptr)) {
    REQUIRE(lua != nullptr);
    lua_gc(lua, LUA_GCSETPAUSE, 0);
    lua_gc(lua, LUA_GCSETSTEPMUL, 1'000'000);
  }
  ~StrictState() { lua_close(lua); }
  StrictState(const StrictState&) = delete;
  StrictState& operator=(const StrictState&) = delete;

  static void* allocate(void*, void* block, std::size_t old_bytes, std::size_t new_bytes) {
    void* const moved = new_bytes == 0 ? nullptr : std::malloc(new_bytes);
    if (new_bytes != 0 && moved == nullptr) return nullptr;
    if (block != nullptr) {
      if (moved != nullptr) std::memcpy(moved, block, std::min(old_bytes, new_bytes));
      std::memset(block, 0xdd, old_bytes);
      std::free(block);
    }
    return moved;
  }
  /// Returns the name of the chunk from which the function on top of the stack comes, and pops the function.
  std::string source() {
    lua_Debug about;
    REQUIRE(lua_getinfo(lua, ">S", &about) != 0);
    return about.source;
  }

  lua_State* const lua;
};

// CVE-2025-49844. Debian's Lua 5.1 does not collect while the name is unanchored, so with it this test passes without the anchor, too
// (sandbox.cc). It guards against another library.
TEST_CASE("garbage collector runs while a chunk is parsed: all functions of the chunk keep its name") {
  StrictState state;
  lua_State* const lua = state.lua;
  const int functions = 300;
  std::string text = "return {";
  for (int i = 0; i < functions; ++i) text += "function() return 'constant " + std::to_string(i) + "' end,\n";
  REQUIRE(load_text(lua, text + "}", "=name") == 0);
  lua_gc(lua, LUA_GCCOLLECT, 0);
  lua_pushvalue(lua, -1);
  CHECK(state.source() == "=name");
  lua_call(lua, 0, 1);
  for (int i = 1; i <= functions; ++i) {
    lua_rawgeti(lua, -1, i);
    REQUIRE(state.source() == "=name");
  }
  REQUIRE(load_text(lua, text + " = }", "=other") == LUA_ERRSYNTAX);
  CHECK(std::string(lua_tostring(lua, -1)).starts_with("other:301: "));
}

// CVE-2025-46819
TEST_CASE("long bracket has millions of levels: the chunk is parsed; chunk is over-limit: it is refused") {
  StrictState state;
  lua_State* const lua = state.lua;
  const std::string level(std::size_t{4} << 20, '=');
  REQUIRE(load_text(lua, "return [" + level + "[x]" + level + "]", "=name") == 0);
  lua_call(lua, 0, 1);
  CHECK(std::string(lua_tostring(lua, -1)) == "x");
  CHECK(load_text(lua, "return [" + level, "=name") == LUA_ERRSYNTAX);
  CHECK(load_text(lua, "return [" + level + "[x]=", "=name") == LUA_ERRSYNTAX);
  // Lua counts the levels in an int. A chunk with more of them than an int can hold must not reach it.
  CHECK(load_text(lua, std::string((std::size_t{64} << 20) + 1, '='), "=name") == LUA_ERRSYNTAX);
  CHECK(std::string(lua_tostring(lua, -1)) == "chunk too long");
}

}  // namespace TEST_FILE

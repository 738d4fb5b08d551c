// The libraries of scripts, and how the sandbox keeps scripts from changing them.
//
// Lua 5.1 has no read-only tables. So a script never sees a table that outlives it: it sees an empty proxy, whose metatable reads
// from the real table and refuses assignments. Functions that access tables without metatables (rawset, rawget, next,
// table.insert ...) are replaced by ones that know the proxies. getfenv, setfenv, newproxy, dofile, loadfile, print, require,
// debug, io and package do not exist. load and loadstring refuse bytecode, and anchor the chunk's name, which the parser of Lua
// 5.1 forgets to do (CVE-2025-49844). unpack checks its range without overflow (CVE-2025-46817).
#include "dispatch/random.h"
#include "script/interpreter.h"

namespace ebbtide {
namespace {

constexpr char kProxies[] = "ebbtide.proxies";  ///< registry: proxy -> real table
constexpr char kGlobals[] = "ebbtide.globals";  ///< registry: the real table of globals
constexpr char kReadOnly[] = "Attempt to modify a readonly table";
constexpr std::size_t kLongestChunk = std::size_t{64} << 20;

int refuse_write(lua_State* lua) { return luaL_error(lua, kReadOnly); }

int refuse_raw(lua_State* lua) {
  lua_pushstring(lua, kReadOnly);
  return lua_error(lua);
}

/// Pushes the real table of the proxy at `index`. If the value is not a proxy, pushes nothing and returns false.
bool push_real(lua_State* lua, int index) {
  if (!lua_istable(lua, index)) return false;
  lua_pushvalue(lua, index);
  lua_getfield(lua, LUA_REGISTRYINDEX, kProxies);
  lua_insert(lua, -2);
  lua_rawget(lua, -2);
  lua_remove(lua, -2);
  if (lua_istable(lua, -1)) return true;
  lua_pop(lua, 1);
  return false;
}

/// Replaces the table on top of the stack by a proxy. `names_missing`: reading a missing field raises an error that names it.
void make_proxy(lua_State* lua, bool names_missing) {
  const int real = lua_gettop(lua);
  if (names_missing) {
    lua_createtable(lua, 0, 1);
    lua_pushcfunction(lua, [](lua_State* l) {
      lua_pushvalue(l, 2);
      const char* const name = lua_tostring(l, -1);
      return luaL_error(l, "Script attempted to access nonexistent global variable '%s'", name == nullptr ? "?" : name);
    });
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, real);
  }
  lua_newtable(lua);
  lua_createtable(lua, 0, 3);
  lua_pushvalue(lua, real);
  lua_setfield(lua, -2, "__index");
  lua_pushcfunction(lua, refuse_write);
  lua_setfield(lua, -2, "__newindex");
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");
  lua_setmetatable(lua, -2);
  lua_getfield(lua, LUA_REGISTRYINDEX, kProxies);
  lua_pushvalue(lua, -2);
  lua_pushvalue(lua, real);
  lua_rawset(lua, -3);
  lua_pop(lua, 1);
  lua_replace(lua, real);
}

int sandbox_next(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  lua_settop(lua, 2);
  if (push_real(lua, 1)) lua_replace(lua, 1);
  if (lua_next(lua, 1) != 0) return 2;
  lua_pushnil(lua);
  return 1;
}

int sandbox_pairs(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_pushvalue(lua, 1);
  lua_pushnil(lua);
  return 3;
}

int sandbox_rawget(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_checkany(lua, 2);
  lua_settop(lua, 2);
  if (push_real(lua, 1)) lua_replace(lua, 1);
  lua_rawget(lua, 1);
  return 1;
}

int sandbox_rawset(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_checkany(lua, 2);
  luaL_checkany(lua, 3);
  lua_settop(lua, 3);
  if (push_real(lua, 1)) return refuse_raw(lua);
  lua_rawset(lua, 1);
  return 1;
}

int sandbox_setmetatable(lua_State* lua) {
  const int type = lua_type(lua, 2);
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_argcheck(lua, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table expected");
  if (push_real(lua, 1)) return refuse_raw(lua);
  if (luaL_getmetafield(lua, 1, "__metatable") != 0) return luaL_error(lua, "cannot change a protected metatable");
  lua_settop(lua, 2);
  lua_setmetatable(lua, 1);
  return 1;
}

/// Steps (Interpreter::took_steps) for each element of a table that a function moves or visits.
constexpr std::uint64_t kElementSteps = 8;

// The three functions below are those of Lua, but count their steps. The length of a table with a few elements can be 2^30, and a
// position can be far below 1. So Lua's own functions took minutes, in which no hook was called.

int sandbox_insert(lua_State* lua) {
  if (push_real(lua, 1)) return refuse_raw(lua);
  luaL_checktype(lua, 1, LUA_TTABLE);
  const int end = static_cast<int>(lua_objlen(lua, 1)) + 1, arguments = lua_gettop(lua);
  if (arguments != 2 && arguments != 3) return luaL_error(lua, "wrong number of arguments to 'insert'");
  const int position = arguments == 2 ? end : luaL_checkint(lua, 2);
  for (int i = end; i > position; --i) {
    Interpreter::of(lua).took_steps(lua, kElementSteps);
    lua_rawgeti(lua, 1, i - 1);
    lua_rawseti(lua, 1, i);
  }
  lua_rawseti(lua, 1, position);
  return 0;
}

int sandbox_remove(lua_State* lua) {
  if (push_real(lua, 1)) return refuse_raw(lua);
  luaL_checktype(lua, 1, LUA_TTABLE);
  const int last = static_cast<int>(lua_objlen(lua, 1)), position = luaL_optint(lua, 2, last);
  if (position < 1 || position > last) return 0;
  lua_rawgeti(lua, 1, position);
  for (int i = position; i < last; ++i) {
    Interpreter::of(lua).took_steps(lua, kElementSteps);
    lua_rawgeti(lua, 1, i + 1);
    lua_rawseti(lua, 1, i);
  }
  lua_pushnil(lua);
  lua_rawseti(lua, 1, last);
  return 1;
}

int sandbox_foreachi(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_checktype(lua, 2, LUA_TFUNCTION);
  const int last = static_cast<int>(lua_objlen(lua, 1));
  for (int i = 1; i <= last; ++i) {
    Interpreter::of(lua).took_steps(lua, kElementSteps);
    lua_pushvalue(lua, 2);
    lua_pushinteger(lua, i);
    lua_rawgeti(lua, 1, i);
    lua_call(lua, 2, 1);
    if (!lua_isnil(lua, -1)) return 1;
    lua_pop(lua, 1);
  }
  return 0;
}

/// Calls Lua's string.rep, the upvalue. For an empty string, it would loop for seconds.
int sandbox_rep(lua_State* lua) {
  std::size_t n = 0;
  luaL_checklstring(lua, 1, &n);
  luaL_checkint(lua, 2);
  lua_settop(lua, n == 0 ? 1 : 2);
  if (n == 0) return 1;
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, 2, 1);
  return 1;
}

/// Returns true if the first argument is less than the second, by the function in the upvalue if there is one. Counts steps.
int counted_less(lua_State* lua) {
  Interpreter::of(lua).took_steps(lua, 16);
  if (lua_isnil(lua, lua_upvalueindex(1))) {
    lua_pushboolean(lua, lua_lessthan(lua, 1, 2));
    return 1;
  }
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, 2, 1);
  return 1;
}

/// Sorting this many elements takes less than 50 ms, whatever their order.
constexpr std::size_t kUncountedSort = 2'000;

/// Calls Lua's table.sort, the upvalue. For bad orders of the elements it takes quadratic time. Comparisons by Lua code call the
/// hook. All others are counted here, except for small tables, where counting would double the time.
int sandbox_sort(lua_State* lua) {
  if (push_real(lua, 1)) return refuse_raw(lua);
  luaL_checktype(lua, 1, LUA_TTABLE);
  if (!lua_isnoneornil(lua, 2)) luaL_checktype(lua, 2, LUA_TFUNCTION);
  lua_settop(lua, 2);
  if (lua_isnil(lua, 2) && lua_objlen(lua, 1) <= kUncountedSort) {
    Interpreter::of(lua).took_steps(lua, kUncountedSort);
  } else if (lua_isnil(lua, 2) || lua_iscfunction(lua, 2) != 0) {
    lua_pushcclosure(lua, counted_less, 1);
  }
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, 2, 0);
  return 0;
}

int sandbox_unpack(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  const std::int64_t first = luaL_optinteger(lua, 2, 1);
  const std::int64_t last = lua_isnoneornil(lua, 3) ? static_cast<std::int64_t>(lua_objlen(lua, 1)) : luaL_checkinteger(lua, 3);
  if (first > last) return 0;
  const std::uint64_t n = static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first) + 1;
  if (n == 0 || n >= 1'000'000 || first < -2147483647 || last > 2147483646 || lua_checkstack(lua, static_cast<int>(n)) == 0) {
    return luaL_error(lua, "too many results to unpack");
  }
  for (std::int64_t i = first; i <= last; ++i) lua_rawgeti(lua, 1, static_cast<int>(i));
  return static_cast<int>(n);
}

/// pcall as in Redis: replaces an error table with a field err by that field.
int sandbox_pcall(lua_State* lua) {
  luaL_checkany(lua, 1);
  const int arguments = lua_gettop(lua) - 1;
  if (lua_pcall(lua, arguments, LUA_MULTRET, 0) == 0) {
    lua_pushboolean(lua, 1);
    lua_insert(lua, 1);
    return lua_gettop(lua);
  }
  if (lua_istable(lua, -1)) {
    lua_pushliteral(lua, "err");
    lua_rawget(lua, -2);
    if (lua_isstring(lua, -1) != 0) {
      lua_replace(lua, -2);
    } else {
      lua_pop(lua, 1);
    }
  }
  lua_pushboolean(lua, 0);
  lua_insert(lua, -2);
  return 2;
}

/// Calls the handler after the stack is unwound. Lua's own xpcall calls it inside the hook that ends an abandoned script. No hook
/// is called there, so an endless handler would never end.
int sandbox_xpcall(lua_State* lua) {
  luaL_checkany(lua, 2);
  lua_settop(lua, 2);
  lua_pushvalue(lua, 1);
  if (lua_pcall(lua, 0, LUA_MULTRET, 0) == 0) {
    lua_pushboolean(lua, 1);
    lua_replace(lua, 2);
    return lua_gettop(lua) - 1;
  }
  lua_pushvalue(lua, 2);
  lua_insert(lua, -2);
  (void)lua_pcall(lua, 1, 1, 0);  // if the handler fails, its error is the result
  lua_pushboolean(lua, 0);
  lua_insert(lua, -2);
  return 2;
}

int finish_load(lua_State* lua, Bytes text, const char* name) {
  if (load_text(lua, text, name) == 0) return 1;
  lua_pushnil(lua);
  lua_insert(lua, -2);
  return 2;
}

int sandbox_loadstring(lua_State* lua) {
  std::size_t n = 0;
  const char* const text = luaL_checklstring(lua, 1, &n);
  return finish_load(lua, {text, n}, luaL_optstring(lua, 2, text));
}

int sandbox_load(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TFUNCTION);
  const char* const name = luaL_optstring(lua, 2, "=(load)");
  lua_settop(lua, 2);
  std::string text;
  while (true) {
    lua_pushvalue(lua, 1);
    lua_call(lua, 0, 1);
    if (lua_isnil(lua, -1)) break;
    if (lua_isstring(lua, -1) == 0) return luaL_error(lua, "reader function must return a string");
    std::size_t n = 0;
    const char* const piece = lua_tolstring(lua, -1, &n);
    if (n == 0) break;
    Interpreter& self = Interpreter::of(lua);
    self.work(lua, n);
    if (text.size() + n > (std::size_t{1} << 20)) return luaL_error(lua, "chunk too long");
    text.append(piece, n);
    lua_pop(lua, 1);
  }
  return finish_load(lua, text, name);
}

/// Scripts may collect garbage, but not change the collector's settings, which the next script would inherit.
int sandbox_collectgarbage(lua_State* lua) {
  static constexpr const char* kOptions[] = {"stop", "restart", "collect", "count", "step", "setpause", "setstepmul", nullptr};
  const Bytes option = kOptions[luaL_checkoption(lua, 1, "collect", kOptions)];
  if (option == "count") {
    lua_pushnumber(lua, lua_gc(lua, LUA_GCCOUNT, 0) + lua_gc(lua, LUA_GCCOUNTB, 0) / 1024.0);
    return 1;
  }
  Interpreter::of(lua).work(lua, option == "collect" ? 64 << 10 : 0);
  if (option == "collect") lua_gc(lua, LUA_GCCOLLECT, 0);
  lua_pushinteger(lua, 0);
  return 1;
}

double random_unit(lua_State* lua) {
  return static_cast<double>(next_random(&Interpreter::of(lua).current().random) >> 11) / 9007199254740992.0;
}

/// Like Lua's random, with a generator that begins each execution in the same state.
int sandbox_random(lua_State* lua) {
  const double r = random_unit(lua);
  switch (lua_gettop(lua)) {
    case 0:
      lua_pushnumber(lua, r);
      return 1;
    case 1: {
      const double high = static_cast<double>(luaL_checkint(lua, 1));
      luaL_argcheck(lua, 1 <= high, 1, "interval is empty");
      lua_pushnumber(lua, static_cast<double>(static_cast<std::int64_t>(r * high)) + 1);
      return 1;
    }
    case 2: {
      const double low = luaL_checkint(lua, 1), high = luaL_checkint(lua, 2);
      luaL_argcheck(lua, low <= high, 2, "interval is empty");
      lua_pushnumber(lua, static_cast<double>(static_cast<std::int64_t>(r * (high - low + 1))) + low);
      return 1;
    }
    default:
      return luaL_error(lua, "wrong number of arguments");
  }
}

int sandbox_randomseed(lua_State* lua) {
  Interpreter::of(lua).current().random = static_cast<std::uint64_t>(luaL_checkint(lua, 1));
  return 0;
}

/// Opens a standard library into the current globals.
void open_library(lua_State* lua, lua_CFunction open, const char* name) {
  lua_pushcfunction(lua, open);
  lua_pushstring(lua, name);
  lua_call(lua, 1, 0);
}

/// Replaces the function `name` of the table on top of the stack by `guard`, whose upvalue is then the replaced function.
void wrap(lua_State* lua, const char* name, lua_CFunction guard) {
  lua_getfield(lua, -1, name);
  lua_pushcclosure(lua, guard, 1);
  lua_setfield(lua, -2, name);
}

void set(lua_State* lua, const char* name, lua_CFunction function) {
  lua_pushcfunction(lua, function);
  lua_setfield(lua, -2, name);
}

}  // namespace

int load_text(lua_State* lua, Bytes text, const char* name) {
  if (text.size() > kLongestChunk) {
    lua_pushliteral(lua, "chunk too long");
    return LUA_ERRSYNTAX;
  }
  // Behind a space, bytecode is a text with a syntax error.
  std::string spaced;
  if (!text.empty() && text.front() == LUA_SIGNATURE[0]) text = spaced.append(" ").append(text);
  struct Chunk {
    Bytes text;
    const char* name;
    int status;
    static int load(lua_State* l) {
      auto& self = *static_cast<Chunk*>(lua_touserdata(l, 1));
      lua_pushstring(l, self.name);  // protects the name from the garbage collector while the chunk is parsed
      self.status = luaL_loadbuffer(l, self.text.data(), self.text.size(), self.name);
      return 1;
    }
  };
  Chunk chunk{text, name, 0};
  lua_pushcfunction(lua, Chunk::load);
  lua_pushlightuserdata(lua, &chunk);
  const int failed = lua_pcall(lua, 1, 1, 0);
  return failed != 0 ? failed : chunk.status;
}

void add_library(lua_State* lua, const char* name) {
  make_proxy(lua, false);
  lua_getfield(lua, LUA_REGISTRYINDEX, kGlobals);
  lua_insert(lua, -2);
  lua_setfield(lua, -2, name);
  lua_pop(lua, 1);
}

void set_script_global(lua_State* lua, const char* name) {
  lua_getfield(lua, LUA_REGISTRYINDEX, kGlobals);
  lua_insert(lua, -2);
  lua_pushstring(lua, name);
  lua_insert(lua, -2);
  lua_rawset(lua, -3);
  lua_pop(lua, 1);
}

void clear_script_global(lua_State* lua, const char* name) {
  lua_pushnil(lua);
  set_script_global(lua, name);
}

namespace {

/// Makes the globals of scripts: only the names in these lists.
void make_globals(lua_State* lua) {
  static constexpr const char* kBase[] = {"_VERSION", "assert", "error",    "gcinfo",   "getmetatable", "ipairs",
                                          "rawequal", "select", "tonumber", "tostring", "type"};
  lua_newtable(lua);
  for (const char* name : kBase) {
    lua_getglobal(lua, name);
    lua_setfield(lua, -2, name);
  }
  set(lua, "rawget", sandbox_rawget);
  set(lua, "rawset", sandbox_rawset);
  set(lua, "setmetatable", sandbox_setmetatable);
  set(lua, "unpack", sandbox_unpack);
  set(lua, "pcall", sandbox_pcall);
  set(lua, "xpcall", sandbox_xpcall);
  set(lua, "load", sandbox_load);
  set(lua, "loadstring", sandbox_loadstring);
  set(lua, "collectgarbage", sandbox_collectgarbage);
  set(lua, "next", sandbox_next);
  lua_getfield(lua, -1, "next");
  lua_pushcclosure(lua, sandbox_pairs, 1);
  lua_setfield(lua, -2, "pairs");
  set(lua, "__redis__err__handler", script_error_handler);
  lua_setfield(lua, LUA_REGISTRYINDEX, kGlobals);
}

/// Adds those parts of Lua's libraries that scripts may use.
void add_standard_libraries(lua_State* lua) {
  lua_getglobal(lua, LUA_TABLIBNAME);
  set(lua, "insert", sandbox_insert);
  set(lua, "remove", sandbox_remove);
  set(lua, "foreachi", sandbox_foreachi);
  wrap(lua, "sort", sandbox_sort);
  add_library(lua, LUA_TABLIBNAME);
  lua_getglobal(lua, LUA_STRLIBNAME);
  set_patterns(lua);
  wrap(lua, "rep", sandbox_rep);
  add_library(lua, LUA_STRLIBNAME);
  lua_getglobal(lua, LUA_MATHLIBNAME);
  set(lua, "random", sandbox_random);
  set(lua, "randomseed", sandbox_randomseed);
  add_library(lua, LUA_MATHLIBNAME);
  lua_newtable(lua);
  lua_getglobal(lua, LUA_OSLIBNAME);
  lua_getfield(lua, -1, "clock");
  lua_setfield(lua, -3, "clock");
  lua_pop(lua, 1);
  add_library(lua, LUA_OSLIBNAME);
  lua_getglobal(lua, LUA_COLIBNAME);
  add_library(lua, LUA_COLIBNAME);
}

/// Makes methods of strings resolve through the proxy. The strings' metatable reveals nothing else.
void set_string_methods(lua_State* lua) {
  lua_pushliteral(lua, "");
  lua_getmetatable(lua, -1);
  lua_getfield(lua, LUA_REGISTRYINDEX, kGlobals);
  lua_getfield(lua, -1, LUA_STRLIBNAME);
  lua_setfield(lua, -3, "__index");
  lua_pop(lua, 1);
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");
  lua_pop(lua, 2);
}

/// Replaces the interpreter's globals by a read-only proxy of the scripts' globals.
void protect_globals(lua_State* lua) {
  lua_getfield(lua, LUA_REGISTRYINDEX, kGlobals);
  lua_pushvalue(lua, -1);
  make_proxy(lua, true);
  lua_pushvalue(lua, -1);
  lua_setfield(lua, -3, "_G");
  lua_replace(lua, LUA_GLOBALSINDEX);
  lua_pop(lua, 1);
}

}  // namespace

void open_sandbox(lua_State* lua) {
  lua_newtable(lua);
  lua_setfield(lua, LUA_REGISTRYINDEX, kProxies);
  open_library(lua, luaopen_base, "");
  open_library(lua, luaopen_table, LUA_TABLIBNAME);
  open_library(lua, luaopen_string, LUA_STRLIBNAME);
  open_library(lua, luaopen_math, LUA_MATHLIBNAME);
  open_library(lua, luaopen_os, LUA_OSLIBNAME);
  make_globals(lua);
  add_standard_libraries(lua);
  open_redis(lua);
  open_bit(lua);
  open_cjson(lua);
  open_cmsgpack(lua);
  open_struct(lua);
  set_string_methods(lua);
  protect_globals(lua);
}

}  // namespace ebbtide

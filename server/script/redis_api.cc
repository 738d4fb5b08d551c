// The library `redis` of scripts.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "dispatch/command_env.h"
#include "script/interpreter.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// The most bytes of a message of redis.log.
constexpr std::size_t kLongestLogLine = 1024;

/// Pushes a table with the field err.
void push_error(lua_State* lua, Bytes text) {
  lua_createtable(lua, 0, 1);
  lua_pushlstring(lua, text.data(), text.size());
  lua_setfield(lua, -2, "err");
}

/// Pushes an error table. If `raises`, raises it as an error, otherwise returns it.
int fail(lua_State* lua, Bytes text, bool raises) {
  push_error(lua, text);
  return raises ? lua_error(lua) : 1;
}

/// Takes the arguments of redis.call as texts. Returns false if an argument is neither a string nor a number.
bool take_arguments(lua_State* lua, std::vector<std::string>* numbers, std::vector<Bytes>* out) {
  const int n = lua_gettop(lua);
  numbers->reserve(static_cast<std::size_t>(n));  // reserved, since `out` has views of these texts
  out->reserve(static_cast<std::size_t>(n));
  for (int i = 1; i <= n; ++i) {
    if (lua_type(lua, i) == LUA_TNUMBER) {
      const lua_Number number = lua_tonumber(lua, i);
      char text[64];
      if (std::abs(number) < 4503599627370496.0 && number == std::floor(number)) {
        std::snprintf(text, sizeof text, "%lld", static_cast<long long>(number));
      } else {
        std::snprintf(text, sizeof text, "%.17g", number);
      }
      out->push_back(numbers->emplace_back(text));
    } else if (lua_type(lua, i) == LUA_TSTRING) {
      std::size_t length = 0;
      const char* const text = lua_tolstring(lua, i, &length);
      out->push_back({text, length});
    } else {
      return false;
    }
  }
  return true;
}

int call(lua_State* lua, bool raises) {
  Interpreter& self = Interpreter::of(lua);
  ScriptRun& run = self.current();
  if (run.calls == nullptr) return fail(lua, "ERR redis.call can only be called inside a script invocation", raises);
  if (!run.failure.is_ok()) return self.abandon(lua, run.failure);
  if (lua_gettop(lua) == 0) return fail(lua, "ERR Please specify at least one argument for this redis lib call", raises);
  bool is_error = false;
  Status status;
  {
    std::vector<std::string> numbers;
    std::vector<Bytes> arguments;
    if (!take_arguments(lua, &numbers, &arguments)) {
      return fail(lua, "ERR Lua redis lib command arguments must be strings or integers", raises);
    }
    OutputBuffer out;
    status = run.calls->call(arguments, {.read_only = run.read_only, .protocol = run.protocol}, &out);
    if (status.is_ok()) {
      const std::string text = out.to_string();
      out.clear();
      if (text.size() > (std::size_t{1} << 20)) self.work(lua, text.size());
      is_error = text.front() == '-';
      push_reply(lua, text);
    }
  }
  if (!status.is_ok()) return self.abandon(lua, status);
  return is_error && raises ? lua_error(lua) : 1;
}

int redis_call(lua_State* lua) { return call(lua, true); }
int redis_pcall(lua_State* lua) { return call(lua, false); }

int single_field(lua_State* lua, const char* name) {
  if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
    return fail(lua, "ERR wrong number or type of arguments", false);
  }
  lua_createtable(lua, 0, 1);
  lua_pushvalue(lua, 1);
  lua_setfield(lua, -2, name);
  return 1;
}

int redis_error_reply(lua_State* lua) {
  if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
    return fail(lua, "ERR wrong number or type of arguments", false);
  }
  std::size_t n = 0;
  const char* const given = lua_tolstring(lua, 1, &n);
  std::string text(given, n);
  while (!text.empty() && (text.back() == '\r' || text.back() == '\n')) text.pop_back();
  if (text.substr(0, 1) == "-") {
    text.erase(0, 1);
  }
  if (text.find(' ') == std::string::npos) {
    text.insert(0, "ERR ");
  }
  push_error(lua, text);
  return 1;
}

int redis_status_reply(lua_State* lua) { return single_field(lua, "ok"); }

int redis_sha1hex(lua_State* lua) {
  if (lua_gettop(lua) != 1) return fail(lua, "ERR wrong number of arguments", true);
  std::size_t n = 0;
  const char* const text = luaL_optlstring(lua, 1, "", &n);
  Interpreter::of(lua).work(lua, n);
  const std::string hex = sha1_hex({text, n});
  lua_pushlstring(lua, hex.data(), hex.size());
  return 1;
}

int redis_log(lua_State* lua) {
  const int n = lua_gettop(lua);
  if (n < 2) return fail(lua, "ERR redis.log() requires two arguments or more.", true);
  if (lua_type(lua, 1) != LUA_TNUMBER) return fail(lua, "ERR First argument must be a number (log level).", true);
  const lua_Number level = lua_tonumber(lua, 1);
  if (level < 0 || level > 3) return fail(lua, "ERR Invalid debug level.", true);
  std::string line = "script:";
  for (int i = 2; i <= n && line.size() < kLongestLogLine; ++i) {
    std::size_t length = 0;
    const char* const text = lua_tolstring(lua, i, &length);
    if (text != nullptr) line += " " + std::string(text, std::min(length, kLongestLogLine));
  }
  // Like Redis with its default level, logs only notices and warnings.
  if (level >= 2) env_of(*Interpreter::of(lua).current().ctx).control->log_message(line);
  return 0;
}

int redis_setresp(lua_State* lua) {
  if (lua_gettop(lua) != 1) return fail(lua, "ERR redis.setresp() requires one argument.", true);
  const lua_Number version = lua_tonumber(lua, 1);
  if (version != 2 && version != 3) return fail(lua, "ERR RESP version must be 2 or 3.", true);
  Interpreter::of(lua).current().protocol = static_cast<int>(version);
  return 0;
}

int redis_set_repl(lua_State* lua) {
  if (lua_gettop(lua) != 1) return fail(lua, "ERR redis.set_repl() requires two arguments.", true);
  const lua_Number flags = lua_tonumber(lua, 1);
  if (flags < 0 || flags > 3) {
    return fail(lua, "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.", true);
  }
  return 0;
}

int redis_acl_check_cmd(lua_State* lua) {
  Interpreter& self = Interpreter::of(lua);
  ScriptRun& run = self.current();
  if (lua_gettop(lua) == 0 || run.calls == nullptr) {
    return fail(lua, "ERR Please specify at least one argument for this redis lib call", true);
  }
  bool allowed = false;
  Status status;
  {
    std::vector<std::string> numbers;
    std::vector<Bytes> arguments;
    if (!take_arguments(lua, &numbers, &arguments)) {
      return fail(lua, "ERR Lua redis lib command arguments must be strings or integers", true);
    }
    status = run.calls->may_run(arguments, &allowed);
  }
  if (status.code() == Code::kInvalidArgument) return fail(lua, status.message(), true);
  if (!status.is_ok()) return self.abandon(lua, status);
  lua_pushboolean(lua, allowed ? 1 : 0);
  return 1;
}

int answer_true(lua_State* lua) {
  lua_pushboolean(lua, 1);
  return 1;
}
int answer_false(lua_State* lua) {
  lua_pushboolean(lua, 0);
  return 1;
}
int answer_nothing(lua_State*) { return 0; }

}  // namespace

int script_error_handler(lua_State* lua) {
  lua_settop(lua, 1);
  lua_Debug at;
  std::memset(&at, 0, sizeof at);
  bool known = lua_getstack(lua, 1, &at) != 0 && lua_getinfo(lua, "nSl", &at) != 0;
  if (known && std::strcmp(at.what, "C") == 0) {
    known = lua_getstack(lua, 2, &at) != 0 && lua_getinfo(lua, "nSl", &at) != 0;
  }
  if (!lua_istable(lua, 1)) {
    std::size_t n = 0;
    const char* const text = lua_tolstring(lua, 1, &n);
    std::string shown = text != nullptr ? std::string(text, n) : std::string(lua_typename(lua, lua_type(lua, 1)));
    if (lua_isboolean(lua, 1)) shown = lua_toboolean(lua, 1) != 0 ? "true" : "false";
    push_error(lua, "ERR " + shown);
    lua_replace(lua, 1);
  }
  if (known) {
    lua_pushliteral(lua, "source");
    lua_pushstring(lua, at.source);
    lua_rawset(lua, 1);
    lua_pushliteral(lua, "line");
    lua_pushinteger(lua, at.currentline);
    lua_rawset(lua, 1);
  }
  return 1;
}

void open_redis(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {
      {"call", redis_call},
      {"pcall", redis_pcall},
      {"error_reply", redis_error_reply},
      {"status_reply", redis_status_reply},
      {"sha1hex", redis_sha1hex},
      {"log", redis_log},
      {"setresp", redis_setresp},
      {"set_repl", redis_set_repl},
      {"replicate_commands", answer_true},
      {"breakpoint", answer_false},
      {"debug", answer_nothing},
      {"acl_check_cmd", redis_acl_check_cmd},
  };
  lua_newtable(lua);
  for (const luaL_Reg& function : kFunctions) {
    lua_pushcfunction(lua, function.func);
    lua_setfield(lua, -2, function.name);
  }
  static constexpr std::pair<const char*, int> kNumbers[] = {
      {"LOG_DEBUG", 0}, {"LOG_VERBOSE", 1}, {"LOG_NOTICE", 2},   {"LOG_WARNING", 3}, {"REPL_NONE", 0},
      {"REPL_AOF", 1},  {"REPL_SLAVE", 2},  {"REPL_REPLICA", 2}, {"REPL_ALL", 3},    {"REDIS_VERSION_NUM", 0x00070200},
  };
  for (const auto& [name, value] : kNumbers) {
    lua_pushinteger(lua, value);
    lua_setfield(lua, -2, name);
  }
  lua_pushliteral(lua, "7.2.0");
  lua_setfield(lua, -2, "REDIS_VERSION");
  add_library(lua, "redis");
}

}  // namespace ebbtide

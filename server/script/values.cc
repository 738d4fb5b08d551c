// Converts replies to Lua values, and Lua values to replies, as Redis 7 does.
#include <cstdlib>
#include <cstring>

#include "script/interpreter.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// The most levels of nested replies. Commands have less than ten.
constexpr int kDeepestReply = 64;

/// Takes a line, and returns it without its end.
Bytes take_line(Bytes* text) {
  const Bytes line = text->substr(0, text->find('\r'));
  text->remove_prefix(line.size() + 2);
  return line;
}

std::int64_t number_of(Bytes line) { return parse_integer(line).value_or(0); }

void push(lua_State* lua, Bytes text) { lua_pushlstring(lua, text.data(), text.size()); }

/// Pushes a table with one field, whose value is on top of the stack.
void wrap_in_table(lua_State* lua, const char* name) {
  lua_createtable(lua, 0, 1);
  lua_insert(lua, -2);
  lua_setfield(lua, -2, name);
}

/// Takes the bytes of a bulk string. `line` has their number.
Bytes take_bulk(Bytes* text, Bytes line) {
  const auto n = static_cast<std::size_t>(number_of(line));
  const Bytes value = text->substr(0, n);
  text->remove_prefix(n + 2);
  return value;
}

// The following functions push one value of a reply, and return the rest of the text.

Bytes push_value(lua_State* lua, Bytes text, int depth);

/// Pushes a value that is one line. Returns false if values of this type have more lines.
bool push_line(lua_State* lua, char type, Bytes line) {
  switch (type) {
    case '+':
      push(lua, line);
      wrap_in_table(lua, "ok");
      return true;
    case '-':
      push(lua, line);
      wrap_in_table(lua, "err");
      return true;
    case ':':
      lua_pushnumber(lua, static_cast<lua_Number>(number_of(line)));
      return true;
    case '_':
      lua_pushnil(lua);
      return true;
    case '#':
      lua_pushboolean(lua, line == "t" ? 1 : 0);
      return true;
    case ',':
      lua_pushnumber(lua, std::strtod(std::string(line).c_str(), nullptr));
      wrap_in_table(lua, "double");
      return true;
    case '(':
      push(lua, line);
      wrap_in_table(lua, "big_number");
      return true;
    default:
      return false;
  }
}

void push_verbatim(lua_State* lua, Bytes value) {
  lua_createtable(lua, 0, 2);
  push(lua, value.substr(0, 3));
  lua_setfield(lua, -2, "format");
  push(lua, value.substr(std::min<std::size_t>(4, value.size())));
  lua_setfield(lua, -2, "string");
  wrap_in_table(lua, "verbatim_string");
}

Bytes push_array(lua_State* lua, Bytes text, std::int64_t n, int depth) {
  lua_createtable(lua, static_cast<int>(n), 0);
  for (int i = 1; i <= n; ++i) {
    text = push_value(lua, text, depth + 1);
    lua_rawseti(lua, -2, i);
  }
  return text;
}

Bytes push_map(lua_State* lua, Bytes text, std::int64_t n, int depth) {
  lua_createtable(lua, 0, static_cast<int>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    text = push_value(lua, text, depth + 1);
    text = push_value(lua, text, depth + 1);
    if (lua_isnil(lua, -2)) {
      lua_pop(lua, 2);
    } else {
      lua_rawset(lua, -3);
    }
  }
  wrap_in_table(lua, "map");
  return text;
}

Bytes push_set(lua_State* lua, Bytes text, std::int64_t n, int depth) {
  lua_createtable(lua, 0, static_cast<int>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    text = push_value(lua, text, depth + 1);
    if (lua_isnil(lua, -1)) {
      lua_pop(lua, 1);
      continue;
    }
    lua_pushboolean(lua, 1);
    lua_rawset(lua, -3);
  }
  wrap_in_table(lua, "set");
  return text;
}

Bytes skip_attribute(lua_State* lua, Bytes text, std::int64_t n, int depth) {
  for (std::int64_t i = 0; i < 2 * n; ++i) {
    text = push_value(lua, text, depth + 1);
    lua_pop(lua, 1);
  }
  return text;
}

Bytes push_value(lua_State* lua, Bytes text, int depth) {
  luaL_checkstack(lua, 6, "reply nested too deep");
  if (depth > kDeepestReply) luaL_error(lua, "reply nested too deep");
  const char type = text.front();
  text.remove_prefix(1);
  const Bytes line = take_line(&text);
  if (push_line(lua, type, line)) return text;
  const std::int64_t n = number_of(line);
  const bool is_null = n < 0 && (type == '$' || type == '*' || type == '>');
  if (is_null) return lua_pushboolean(lua, 0), text;
  switch (type) {
    case '$':
      push(lua, take_bulk(&text, line));
      return text;
    case '=':
      push_verbatim(lua, take_bulk(&text, line));
      return text;
    case '*':
    case '>':
      return push_array(lua, text, n, depth);
    case '%':
      return push_map(lua, text, n, depth);
    case '~':
      return push_set(lua, text, n, depth);
    case '|':
      return push_value(lua, skip_attribute(lua, text, n, depth), depth);
    default:
      luaL_error(lua, "unknown reply");
      return text;
  }
}

/// Pushes a field of the table on top of the stack, without calling metamethods.
int raw_field(lua_State* lua, const char* name) {
  lua_pushstring(lua, name);
  lua_rawget(lua, -2);
  return lua_type(lua, -1);
}

Bytes text_of(lua_State* lua, int index) {
  std::size_t n = 0;
  const char* const text = lua_tolstring(lua, index, &n);
  return {text, n};
}

std::string one_line(Bytes text) {
  std::string copy(text);
  for (char& c : copy) {
    if (c == '\r' || c == '\n') c = ' ';
  }
  return copy;
}

Status write_table(lua_State* lua, ScriptRun& run, std::string* error);

Status write_any(lua_State* lua, ScriptRun& run, std::string* error) {
  Reply& reply = run.ctx->reply;
  if (lua_checkstack(lua, 6) == 0) {
    *error = "ERR reached lua stack limit";
    reply.error(*error);
    lua_pop(lua, 1);
    return Status::ok();
  }
  switch (lua_type(lua, -1)) {
    case LUA_TSTRING: {
      const Bytes text = text_of(lua, -1);
      TRY(run.ctx->work(text.size()));
      reply.bulk(text);
      break;
    }
    case LUA_TNUMBER: {
      const lua_Number number = lua_tonumber(lua, -1);
      const bool fits = number >= -9223372036854775808.0 && number < 9223372036854775808.0;
      reply.integer(fits ? static_cast<std::int64_t>(number) : std::int64_t{-9223372036854775807} - 1);
      break;
    }
    case LUA_TBOOLEAN:
      if (run.protocol >= 3) {
        reply.boolean(lua_toboolean(lua, -1) != 0);
      } else if (lua_toboolean(lua, -1) != 0) {
        reply.integer(1);
      } else {
        reply.null();
      }
      break;
    case LUA_TTABLE:
      TRY(write_table(lua, run, error));
      break;
    default:
      reply.null();
  }
  lua_pop(lua, 1);
  return run.ctx->reserve_reply();
}

/// Writes the pairs of the table on top of the stack; `keys_only`: a set.
Status write_pairs(lua_State* lua, ScriptRun& run, bool keys_only, std::string* error) {
  std::size_t n = 0;
  for (lua_pushnil(lua); lua_next(lua, -2) != 0; lua_pop(lua, 1)) ++n;
  TRY(run.ctx->work(64 * n));
  keys_only ? run.ctx->reply.set(n) : run.ctx->reply.map(n);
  for (lua_pushnil(lua); lua_next(lua, -2) != 0;) {
    lua_pushvalue(lua, -2);  // key, value, key
    TRY(write_any(lua, run, error));
    if (keys_only) {
      lua_pop(lua, 1);
    } else {
      TRY(write_any(lua, run, error));
    }
  }
  return Status::ok();
}

/// Writes a verbatim string, whose table is on top of the stack. Returns false if the table does not describe one.
bool write_verbatim(lua_State* lua, Reply& reply) {
  bool wrote = false;
  if (raw_field(lua, "format") == LUA_TSTRING) {
    const Bytes format = text_of(lua, -1);
    lua_pushliteral(lua, "string");
    lua_rawget(lua, -3);
    if (lua_type(lua, -1) == LUA_TSTRING) {
      std::string three = one_line(format.substr(0, 3));
      three.resize(3, ' ');
      reply.verbatim(three, text_of(lua, -1));
      wrote = true;
    }
    lua_pop(lua, 1);
  }
  lua_pop(lua, 1);
  return wrote;
}

/// Writes the elements of the table on top of the stack up to the first nil.
Status write_array(lua_State* lua, ScriptRun& run, std::string* error) {
  int n = 0;
  while (true) {
    lua_rawgeti(lua, -1, n + 1);
    const bool ends = lua_isnil(lua, -1);
    lua_pop(lua, 1);
    if (ends) break;
    ++n;
  }
  TRY(run.ctx->work(32 * static_cast<std::uint64_t>(n)));
  run.ctx->reply.array(static_cast<std::size_t>(n));
  for (int i = 1; i <= n; ++i) {
    lua_rawgeti(lua, -1, i);
    TRY(write_any(lua, run, error));
  }
  return Status::ok();
}

/// Writes the table on top of the stack. The first field with one of these names and types says what the table means; without one
/// it is an array.
Status write_table(lua_State* lua, ScriptRun& run, std::string* error) {
  Reply& reply = run.ctx->reply;
  if (raw_field(lua, "err") == LUA_TSTRING) {
    *error = one_line(text_of(lua, -1));
    reply.error(*error);
    lua_pop(lua, 1);
    return Status::ok();
  }
  lua_pop(lua, 1);
  if (raw_field(lua, "ok") == LUA_TSTRING) {
    reply.simple(one_line(text_of(lua, -1)));
    lua_pop(lua, 1);
    return Status::ok();
  }
  lua_pop(lua, 1);
  if (raw_field(lua, "double") == LUA_TNUMBER) {
    reply.double_(lua_tonumber(lua, -1));
    lua_pop(lua, 1);
    return Status::ok();
  }
  lua_pop(lua, 1);
  if (raw_field(lua, "map") == LUA_TTABLE) {
    TRY(write_pairs(lua, run, false, error));
    lua_pop(lua, 1);
    return Status::ok();
  }
  lua_pop(lua, 1);
  if (raw_field(lua, "set") == LUA_TTABLE) {
    TRY(write_pairs(lua, run, true, error));
    lua_pop(lua, 1);
    return Status::ok();
  }
  lua_pop(lua, 1);
  if (raw_field(lua, "big_number") == LUA_TSTRING) {
    reply.big_number(one_line(text_of(lua, -1)));
    lua_pop(lua, 1);
    return Status::ok();
  }
  lua_pop(lua, 1);
  if (raw_field(lua, "verbatim_string") == LUA_TTABLE && write_verbatim(lua, reply)) {
    lua_pop(lua, 1);
    return Status::ok();
  }
  lua_pop(lua, 1);
  return write_array(lua, run, error);
}

}  // namespace

Bytes push_reply(lua_State* lua, Bytes text) { return push_value(lua, text, 0); }

Status write_value(lua_State* lua, ScriptRun& run, std::string* error) {
  bool is_error = false;  // set if the whole reply is an error; an error inside an array is not
  if (lua_istable(lua, -1)) {
    is_error = raw_field(lua, "err") == LUA_TSTRING;
    lua_pop(lua, 1);
  }
  std::string nested;
  return write_any(lua, run, is_error ? error : &nested);
}

}  // namespace ebbtide

// Patterns of scripts: string.find, match, gmatch and gsub, with the results and errors of Lua 5.1.
//
// A match can take any time: '.-.-.-b' tries every combination of ends. Lua's own functions cannot be interrupted, so such a
// script would occupy its thread for days: SCRIPT KILL could not end it, and the server could not stop. These functions report
// their steps to the interpreter, which may abandon the execution. As in Lua 5.1, a pattern ends at its first zero byte.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "script/interpreter.h"

namespace ebbtide {
namespace {

/// The most quantifiers in a pattern, since each takes a frame of the C stack.
constexpr std::size_t kMostQuantifiers = 1000;
/// The most steps of a match on a loop, by a rough estimate.
constexpr double kLoopPatternSteps = 1e6;

constexpr char kEscape = '%';
constexpr std::ptrdiff_t kUnfinished = -1, kPosition = -2;  ///< special values of a capture's length

int byte_of(char c) { return static_cast<unsigned char>(c); }

/// Matches one text.
class Matcher {
 public:
  Matcher(lua_State* lua, const char* text, std::size_t length) : lua_(lua), begin_(text), end_(text + length) {}

  [[nodiscard]] const char* end() const { return end_; }
  /// Returns the end of the match that begins at `at`; null if the pattern does not match there.
  const char* find(const char* at, const char* pattern) {
    level_ = 0;
    return match(at, pattern);
  }
  /// Pushes capture `i` of the match from `from` to `to`. If the pattern has no captures and `i` is 0, pushes the whole match.
  void push_capture(int i, const char* from, const char* to);
  /// Pushes all captures; without any, the whole match, unless `from` is null. Returns how many it has pushed.
  int push_captures(const char* from, const char* to);
  void took(std::uint64_t steps) { interpreter_.took_steps(lua_, steps); }

 private:
  struct Capture {
    const char* begin;
    std::ptrdiff_t length;
  };

  const char* match(const char* s, const char* p);
  const char* match_class_or_text(const char*& s, const char*& p, bool* goes_on);
  const char* most(const char* s, const char* p, const char* after);
  const char* least(const char* s, const char* p, const char* after);
  const char* open_capture(const char* s, const char* p, std::ptrdiff_t length);
  const char* close_capture(const char* s, const char* p);
  const char* repeat_capture(const char* s, int digit);
  const char* balanced(const char* s, const char* p);
  bool is_frontier(const char* s, const char* p, const char* after);
  const char* end_of_class(const char* p);
  bool is_single(int c, const char* p, const char* after);
  bool is_in_set(int c, const char* p, const char* last);

  lua_State* lua_;
  Interpreter& interpreter_ = Interpreter::of(lua_);
  const char* begin_;
  const char* end_;
  int level_ = 0;  ///< number of captures, finished or open
  std::array<Capture, LUA_MAXCAPTURES> captures_;
};

bool is_in_class(int c, int name) {
  bool is = false;
  switch (std::tolower(name)) {
    case 'a':
      is = std::isalpha(c) != 0;
      break;
    case 'c':
      is = std::iscntrl(c) != 0;
      break;
    case 'd':
      is = std::isdigit(c) != 0;
      break;
    case 'l':
      is = std::islower(c) != 0;
      break;
    case 'p':
      is = std::ispunct(c) != 0;
      break;
    case 's':
      is = std::isspace(c) != 0;
      break;
    case 'u':
      is = std::isupper(c) != 0;
      break;
    case 'w':
      is = std::isalnum(c) != 0;
      break;
    case 'x':
      is = std::isxdigit(c) != 0;
      break;
    case 'z':
      is = c == 0;
      break;
    default:
      return name == c;
  }
  return std::islower(name) != 0 ? is : !is;
}

const char* Matcher::end_of_class(const char* p) {
  const char* const begin = p;
  const char first = *p++;
  if (first == kEscape) {
    if (*p == '\0') luaL_error(lua_, "malformed pattern (ends with '%%')");
    return p + 1;
  }
  if (first != '[') return p;
  if (*p == '^') ++p;
  do {
    if (*p == '\0') luaL_error(lua_, "malformed pattern (missing ']')");
    if (*p++ == kEscape && *p != '\0') ++p;
  } while (*p != ']');
  took(static_cast<std::uint64_t>(p - begin));
  return p + 1;
}

bool Matcher::is_in_set(int c, const char* p, const char* last) {
  const char* const begin = p;
  bool found = true;
  if (p[1] == '^') {
    found = false;
    ++p;
  }
  bool is = !found;
  while (++p < last) {
    bool here = false;
    if (*p == kEscape) {
      ++p;
      here = is_in_class(c, byte_of(*p));
    } else if (p[1] == '-' && p + 2 < last) {
      p += 2;
      here = byte_of(p[-2]) <= c && c <= byte_of(*p);
    } else {
      here = byte_of(*p) == c;
    }
    if (here) {
      is = found;
      break;
    }
  }
  took(static_cast<std::uint64_t>(p - begin));
  return is;
}

bool Matcher::is_single(int c, const char* p, const char* after) {
  switch (*p) {
    case '.':
      return true;
    case kEscape:
      return is_in_class(c, byte_of(p[1]));
    case '[':
      return is_in_set(c, p, after - 1);
    default:
      return byte_of(*p) == c;
  }
}

const char* Matcher::balanced(const char* s, const char* p) {
  if (p[0] == '\0' || p[1] == '\0') luaL_error(lua_, "unbalanced pattern");
  if (*s != *p) return nullptr;
  std::size_t open = 1;
  while (++s < end_) {
    took(1);
    if (*s == p[1]) {
      if (--open == 0) return s + 1;
    } else if (*s == p[0]) {
      ++open;
    }
  }
  return nullptr;
}

bool Matcher::is_frontier(const char* s, const char* p, const char* after) {
  const char before = s == begin_ ? '\0' : s[-1];
  return !is_in_set(byte_of(before), p, after - 1) && is_in_set(byte_of(*s), p, after - 1);
}

const char* Matcher::most(const char* s, const char* p, const char* after) {
  std::ptrdiff_t n = 0;
  while (s + n < end_ && is_single(byte_of(s[n]), p, after)) {
    ++n;
    took(1);
  }
  for (; n >= 0; --n) {
    if (const char* const found = match(s + n, after + 1)) return found;
  }
  return nullptr;
}

const char* Matcher::least(const char* s, const char* p, const char* after) {
  while (true) {
    if (const char* const found = match(s, after + 1)) return found;
    if (s >= end_ || !is_single(byte_of(*s), p, after)) return nullptr;
    ++s;
  }
}

const char* Matcher::open_capture(const char* s, const char* p, std::ptrdiff_t length) {
  if (level_ >= LUA_MAXCAPTURES) luaL_error(lua_, "too many captures");
  captures_[static_cast<std::size_t>(level_)] = {s, length};
  ++level_;
  const char* const found = match(s, p);
  if (found == nullptr) --level_;
  return found;
}

const char* Matcher::close_capture(const char* s, const char* p) {
  int i = level_ - 1;
  while (i >= 0 && captures_[static_cast<std::size_t>(i)].length != kUnfinished) --i;
  if (i < 0) luaL_error(lua_, "invalid pattern capture");
  Capture& capture = captures_[static_cast<std::size_t>(i)];
  capture.length = s - capture.begin;
  const char* const found = match(s, p);
  if (found == nullptr) capture.length = kUnfinished;
  return found;
}

const char* Matcher::repeat_capture(const char* s, int digit) {
  const int i = digit - '1';
  if (i < 0 || i >= level_ || captures_[static_cast<std::size_t>(i)].length == kUnfinished) {
    luaL_error(lua_, "invalid capture index");
  }
  const Capture& capture = captures_[static_cast<std::size_t>(i)];
  if (capture.length < 0 || end_ - s < capture.length) return nullptr;
  const auto n = static_cast<std::size_t>(capture.length);
  took(n / 16);
  return std::memcmp(capture.begin, s, n) == 0 ? s + n : nullptr;
}

// Matches one item without a quantifier, and moves `s` and `p` past it; or matches the whole rest of the pattern.
const char* Matcher::match_class_or_text(const char*& s, const char*& p, bool* goes_on) {
  const char* const after = end_of_class(p);
  const bool is = s < end_ && is_single(byte_of(*s), p, after);
  switch (*after) {
    case '?':
      if (const char* const found = is ? match(s + 1, after + 1) : nullptr) return found;
      p = after + 1;
      *goes_on = true;
      return nullptr;
    case '*':
      return most(s, p, after);
    case '+':
      return is ? most(s + 1, p, after) : nullptr;
    case '-':
      return least(s, p, after);
    default:
      if (!is) return nullptr;
      ++s;
      p = after;
      *goes_on = true;
      return nullptr;
  }
}

const char* Matcher::match(const char* s, const char* p) {
  while (true) {
    took(1);
    const char next = *p == '\0' ? '\0' : p[1];
    if (*p == '\0') return s;
    if (*p == '(') return next == ')' ? open_capture(s, p + 2, kPosition) : open_capture(s, p + 1, kUnfinished);
    if (*p == ')') return close_capture(s, p + 1);
    if (*p == '$' && next == '\0') return s == end_ ? s : nullptr;
    if (*p == kEscape && next == 'b') {
      s = balanced(s, p + 2);
      if (s == nullptr) return nullptr;
      p += 4;
    } else if (*p == kEscape && next == 'f') {
      p += 2;
      if (*p != '[') luaL_error(lua_, "missing '[' after '%%f' in pattern");
      const char* const after = end_of_class(p);
      if (!is_frontier(s, p, after)) return nullptr;
      p = after;
    } else if (*p == kEscape && std::isdigit(byte_of(next)) != 0) {
      s = repeat_capture(s, byte_of(next));
      if (s == nullptr) return nullptr;
      p += 2;
    } else {
      bool goes_on = false;
      const char* const found = match_class_or_text(s, p, &goes_on);
      if (!goes_on) return found;
    }
  }
}

void Matcher::push_capture(int i, const char* from, const char* to) {
  if (i >= level_) {
    if (i != 0) luaL_error(lua_, "invalid capture index");
    lua_pushlstring(lua_, from, static_cast<std::size_t>(to - from));
    return;
  }
  const Capture& capture = captures_[static_cast<std::size_t>(i)];
  if (capture.length == kUnfinished) luaL_error(lua_, "unfinished capture");
  if (capture.length == kPosition) return lua_pushinteger(lua_, capture.begin - begin_ + 1);
  lua_pushlstring(lua_, capture.begin, static_cast<std::size_t>(capture.length));
}

int Matcher::push_captures(const char* from, const char* to) {
  const int n = level_ == 0 && from != nullptr ? 1 : level_;
  luaL_checkstack(lua_, n, "too many captures");
  for (int i = 0; i < n; ++i) push_capture(i, from, to);
  return n;
}

/// Refuses patterns with too many quantifiers. On a loop, also refuses matches that may take long.
void check(lua_State* lua) {
  std::size_t length = 0, pattern_length = 0;
  luaL_checklstring(lua, 1, &length);
  const char* const pattern = luaL_checklstring(lua, 2, &pattern_length);
  std::size_t quantifiers = 0;
  for (std::size_t i = 0; i < pattern_length; ++i) quantifiers += std::strchr("*+-?", pattern[i]) != nullptr ? 1 : 0;
  if (quantifiers > kMostQuantifiers) luaL_error(lua, "pattern too complex");
  double steps = static_cast<double>(length) + 1;
  for (std::size_t i = 0; i < quantifiers && steps < 1e18; ++i) steps *= static_cast<double>(length) + 1;
  Interpreter& self = Interpreter::of(lua);
  if (self.on_loop()) self.work(lua, steps > kLoopPatternSteps ? ~std::uint64_t{0} : length);
}

/// Returns the offset that the third argument means, a position that may count from the end.
std::size_t offset_of(lua_State* lua, std::size_t length) {
  std::ptrdiff_t at = luaL_optinteger(lua, 3, 1);
  if (at < 0) at += static_cast<std::ptrdiff_t>(length) + 1;
  return at < 1 ? 0 : std::min(static_cast<std::size_t>(at) - 1, length);
}

int find_or_match(lua_State* lua, bool finds) {
  check(lua);
  std::size_t length = 0, pattern_length = 0;
  const char* const text = luaL_checklstring(lua, 1, &length);
  const char* pattern = luaL_checklstring(lua, 2, &pattern_length);
  const char* at = text + offset_of(lua, length);
  if (finds && (lua_toboolean(lua, 4) != 0 || std::strpbrk(pattern, "^$*+?.([%-") == nullptr)) {
    const void* const found = memmem(at, static_cast<std::size_t>(text + length - at), pattern, pattern_length);
    if (found == nullptr) return lua_pushnil(lua), 1;
    const std::ptrdiff_t offset = static_cast<const char*>(found) - text;
    lua_pushinteger(lua, offset + 1);
    lua_pushinteger(lua, offset + static_cast<std::ptrdiff_t>(pattern_length));
    return 2;
  }
  const bool anchored = *pattern == '^';
  if (anchored) ++pattern;
  Matcher matcher(lua, text, length);
  do {
    const char* const to = matcher.find(at, pattern);
    if (to == nullptr) continue;
    if (!finds) return matcher.push_captures(at, to);
    lua_pushinteger(lua, at - text + 1);
    lua_pushinteger(lua, to - text);
    return matcher.push_captures(nullptr, nullptr) + 2;
  } while (at++ < matcher.end() && !anchored);
  lua_pushnil(lua);
  return 1;
}

int string_find(lua_State* lua) { return find_or_match(lua, true); }
int string_match(lua_State* lua) { return find_or_match(lua, false); }

/// Upvalues: the text, the pattern, and the offset at which the search continues.
int next_match(lua_State* lua) {
  std::size_t length = 0;
  const char* const text = lua_tolstring(lua, lua_upvalueindex(1), &length);
  const char* const pattern = lua_tostring(lua, lua_upvalueindex(2));
  Matcher matcher(lua, text, length);
  for (const char* at = text + lua_tointeger(lua, lua_upvalueindex(3)); at <= matcher.end(); ++at) {
    const char* const to = matcher.find(at, pattern);
    if (to == nullptr) continue;
    lua_pushinteger(lua, to - text + (to == at ? 1 : 0));
    lua_replace(lua, lua_upvalueindex(3));
    return matcher.push_captures(at, to);
  }
  return 0;
}

int string_gmatch(lua_State* lua) {
  check(lua);
  lua_settop(lua, 2);
  lua_pushinteger(lua, 0);
  lua_pushcclosure(lua, next_match, 3);
  return 1;
}

/// Appends a replacement text, in which %1 to %9 mean captures and %0 the whole match.
void add_text(lua_State* lua, Matcher& matcher, luaL_Buffer* out, const char* from, const char* to) {
  std::size_t n = 0;
  const char* const text = lua_tolstring(lua, 3, &n);
  matcher.took(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (text[i] != kEscape) {
      luaL_addchar(out, text[i]);
      continue;
    }
    ++i;  // if % is the last character, this is the text's terminating zero
    if (std::isdigit(byte_of(text[i])) == 0) {
      luaL_addchar(out, text[i]);
    } else if (text[i] == '0') {
      luaL_addlstring(out, from, static_cast<std::size_t>(to - from));
    } else {
      matcher.push_capture(text[i] - '1', from, to);
      luaL_addvalue(out);
    }
  }
}

/// Appends the replacement of a match, according to the third argument: a text, a function or a table.
void add_replacement(lua_State* lua, Matcher& matcher, luaL_Buffer* out, const char* from, const char* to) {
  const int type = lua_type(lua, 3);
  if (type == LUA_TFUNCTION) {
    lua_pushvalue(lua, 3);
    const int n = matcher.push_captures(from, to);
    lua_call(lua, n, 1);
  } else if (type == LUA_TTABLE) {
    matcher.push_capture(0, from, to);
    lua_gettable(lua, 3);
  } else {
    return add_text(lua, matcher, out, from, to);
  }
  if (lua_toboolean(lua, -1) == 0) {
    lua_pop(lua, 1);
    lua_pushlstring(lua, from, static_cast<std::size_t>(to - from));
  } else if (lua_isstring(lua, -1) == 0) {
    luaL_error(lua, "invalid replacement value (a %s)", luaL_typename(lua, -1));
  }
  luaL_addvalue(out);
}

int string_gsub(lua_State* lua) {
  check(lua);
  std::size_t length = 0;
  const char* at = luaL_checklstring(lua, 1, &length);
  const char* pattern = luaL_checkstring(lua, 2);
  const int type = lua_type(lua, 3), most = luaL_optint(lua, 4, static_cast<int>(length) + 1);
  luaL_argcheck(lua, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
                "string/function/table expected");
  const bool anchored = *pattern == '^';
  if (anchored) ++pattern;
  Matcher matcher(lua, at, length);
  luaL_Buffer out;
  luaL_buffinit(lua, &out);
  int n = 0;
  while (n < most) {
    const char* const to = matcher.find(at, pattern);
    if (to != nullptr) {
      ++n;
      add_replacement(lua, matcher, &out, at, to);
    }
    if (to != nullptr && to > at) {
      at = to;
    } else if (at < matcher.end()) {
      luaL_addchar(&out, *at++);
    } else {
      break;
    }
    if (anchored) break;
  }
  luaL_addlstring(&out, at, static_cast<std::size_t>(matcher.end() - at));
  luaL_pushresult(&out);
  lua_pushinteger(lua, n);
  return 2;
}

}  // namespace

void set_patterns(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {
      {"find", string_find}, {"match", string_match}, {"gmatch", string_gmatch}, {"gfind", string_gmatch}, {"gsub", string_gsub}};
  for (const luaL_Reg& function : kFunctions) {
    lua_pushcfunction(lua, function.func);
    lua_setfield(lua, -2, function.name);
  }
}

}  // namespace ebbtide

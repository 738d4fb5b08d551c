// The text that a library of scripts builds, such as JSON: its bytes count as work of the run, and their memory as the script's.
#pragma once

#include <cstddef>
#include <string>

#include "script/interpreter.h"

namespace ebbtide {

class PackedText {
 public:
  explicit PackedText(lua_State* lua) : lua_(lua), self_(Interpreter::of(lua)) {}

  /// Returns the bytes so far, for appending. Call check() before each value, and before each text of any length.
  std::string& bytes() { return bytes_; }

  /// Takes the work of the new bytes and of `more` that follow, once there are many. Raises an error of Lua if the script may not
  /// have their memory.
  void check(std::size_t more = 0) {
    const std::size_t bytes = bytes_.size() + more;
    if (bytes <= checked_ + (64 << 10)) return;
    self_.work(lua_, bytes - checked_);
    // Lua's copy of the text is charged; so this asks for as much.
    if (bytes > (std::size_t{1} << 20)) {
      lua_newuserdata(lua_, bytes);
      lua_pop(lua_, 1);
    }
    checked_ = bytes;
  }

  /// Pushes the text as a string of Lua.
  void push() { lua_pushlstring(lua_, bytes_.data(), bytes_.size()); }

 private:
  lua_State* lua_;
  Interpreter& self_;
  std::string bytes_;
  std::size_t checked_ = 0;
};

}  // namespace ebbtide

// The text that a library of scripts builds, such as JSON: its bytes count as work of the run, and their memory as the script's.
#pragma once

#include <cstddef>
#include <string>

#include "script/interpreter.h"

namespace ebbtide {

class PackedText {
 public:
  explicit PackedText(lua_State* lua) : lua_(lua), self_(Interpreter::of(lua)) {}

  /// The bytes so far, to append to. Call check() before each value.
  std::string& bytes() { return bytes_; }

  /// Takes the work of the new bytes, once there are many. Raises an error of Lua if the script may not have their memory.
  void check() {
    if (bytes_.size() <= checked_ + (64 << 10)) return;
    self_.work(lua_, bytes_.size() - checked_);
    // Lua's copy of the text is charged; so this asks for as much.
    if (bytes_.size() > (std::size_t{1} << 20)) {
      lua_newuserdata(lua_, bytes_.size());
      lua_pop(lua_, 1);
    }
    checked_ = bytes_.size();
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

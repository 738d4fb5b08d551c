// A text that a script library builds, such as JSON. Its bytes count as work of the execution, and its memory as the script's
// memory.
#pragma once

#include <cstddef>
#include <string>

#include "script/interpreter.h"

namespace ebbtide {

class PackedText {
 public:
  explicit PackedText(lua_State* lua) : lua_(lua), self_(Interpreter::of(lua)) {}

  /// Returns the text so far, to which the caller may append. Call check() before each value, and before each text of any length.
  std::string& bytes() { return bytes_; }

  /// Counts the new bytes, and `more` that follow, as work, once they are 64 KiB. Raises a Lua error if the script may not have
  /// this memory.
  void check(std::size_t more = 0) {
    const std::size_t bytes = bytes_.size() + more;
    if (bytes <= checked_ + (64 << 10)) return;
    self_.work(lua_, bytes - checked_);
    // Lua's copy of the text is charged, so allocating as much tests if the memory is available.
    if (bytes > (std::size_t{1} << 20)) {
      lua_newuserdata(lua_, bytes);
      lua_pop(lua_, 1);
    }
    checked_ = bytes;
  }

  /// Pushes the text as a Lua string.
  void push() { lua_pushlstring(lua_, bytes_.data(), bytes_.size()); }

 private:
  lua_State* lua_;
  Interpreter& self_;
  std::string bytes_;
  std::size_t checked_ = 0;
};

}  // namespace ebbtide

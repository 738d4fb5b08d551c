// A parsed command: its arguments, as views into memory that the connection keeps until the command has run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ebbtide {

using Bytes = std::string_view;

/// An argument that was received into a buffer of its own, so that the engine can share it instead of copying it.
struct SharedArg {
  std::size_t index;                         ///< the argument's index
  std::shared_ptr<const std::string> value;  ///< owns the bytes
};

/// The arguments of one command, at least one, the name first. Cheap to copy. Views are valid until the command is done.
struct Args {
  std::span<const Bytes> list;
  std::span<const SharedArg> shared_list;  ///< the shared arguments, by index, ascending
  /// True if there was no memory for the command's big arguments. They are empty here, the command must not run, and its reply is
  /// -OOM.
  bool refused = false;

  [[nodiscard]] std::size_t size() const { return list.size(); }
  [[nodiscard]] Bytes operator[](std::size_t i) const { return list[i]; }
  [[nodiscard]] auto begin() const { return list.begin(); }
  [[nodiscard]] auto end() const { return list.end(); }
  /// Returns the argument as a value that can be kept, if it was received as one (over 64 KiB); else null.
  [[nodiscard]] std::shared_ptr<const std::string> shared(std::size_t i) const {
    const auto at = std::lower_bound(shared_list.begin(), shared_list.end(), i,
                                     [](const SharedArg& arg, std::size_t index) { return arg.index < index; });
    return at != shared_list.end() && at->index == i ? at->value : nullptr;
  }
};

}  // namespace ebbtide

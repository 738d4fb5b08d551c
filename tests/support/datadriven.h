// Tests as text files: each case has a command, its input, a line of four dashes, and the expected answer.
//
//   # a comment
//   command key=value flag
//   input, any number of lines
//   ----
//   the expected answer, up to an empty line
//
// An answer with empty lines has two lines `----` before it and two after it. With EBBTIDE_REWRITE=1 in the environment, the
// actual answers are written to the files; review the diff before you commit it.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace ebbtide::test {

struct DataCase {
  std::string where;  ///< "file:line", for messages
  std::string command;
  std::map<std::string, std::string> args;  ///< "key=value"; a bare word maps to ""
  std::string input;                        ///< with its newlines

  /// Returns the value of `key`, or `fallback` if it is not given.
  [[nodiscard]] std::string arg(const std::string& key, const std::string& fallback = "") const;
};

/// Runs every case of the file at `path` in order, and compares the answers (with Catch2 checks; each failure names file and
/// line).
void run_datadriven(const std::string& path, const std::function<std::string(const DataCase&)>& run);

/// Does the same for each *.txt of a folder, ordered by name. Calls `start` before each file.
void run_datadriven_dir(const std::string& dir, const std::function<void(const std::string& file)>& start,
                        const std::function<std::string(const DataCase&)>& run);

}  // namespace ebbtide::test

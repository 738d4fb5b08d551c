// Tests as text files: a command, its input, a line of four dashes, and what it must answer.
//
//   # a comment
//   command key=value flag
//   input, any number of lines
//   ----
//   the expected answer, up to an empty line
//
// An answer with empty lines in it stands between `----` twice and `----` twice. With EBBTIDE_REWRITE=1 in the environment the
// files are written anew with what the commands answered; review the diff before you commit it.
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

  /// The value of `key`, or `fallback` if it is not given.
  [[nodiscard]] std::string arg(const std::string& key, const std::string& fallback = "") const;
};

/// Runs every case of the file at `path` in order and compares the answers (Catch2 checks; each failure names file and line).
void run_datadriven(const std::string& path, const std::function<std::string(const DataCase&)>& run);

/// As above for each *.txt in a folder, in the order of their names; `start` is called before each file.
void run_datadriven_dir(const std::string& dir, const std::function<void(const std::string& file)>& start,
                        const std::function<std::string(const DataCase&)>& run);

}  // namespace ebbtide::test

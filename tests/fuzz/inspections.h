// Runs ebbtide-inspect on the files of an input: it must end and print complete output for any contents.
#pragma once

#include <string>

#include "fuzz.h"
#include "tools/inspect.h"

namespace ebbtide::fuzz {

/// Checks that a text is one JSON value in the form that the tools write: without fractions and exponents.
class JsonCheck {
 public:
  static bool whole(Bytes text) {
    JsonCheck check(text);
    return check.value() && check.rest_.empty();
  }

 private:
  explicit JsonCheck(Bytes text) : rest_(text) {}
  bool take(Bytes expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  bool value() {
    if (take("{")) return take("}") || members("}", [this] { return string() && take(":") && value(); });
    if (take("[")) return take("]") || members("]", [this] { return value(); });
    return take("true") || take("false") || take("null") || string() || number();
  }
  template <typename Member>
  bool members(Bytes end, Member member) {
    do {
      if (!member()) return false;
    } while (take(","));
    return take(end);
  }
  bool number() {
    const std::size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    rest_.remove_prefix(digits);
    return digits != 0;
  }
  bool string() {
    if (!take("\"")) return false;
    while (!rest_.empty() && rest_.front() != '"') {
      const auto c = static_cast<unsigned char>(rest_.front());
      if (c < 0x20 || c >= 0x7f) return false;
      rest_.remove_prefix(1);
      if (c != '\\') continue;
      if (!take("u")) {
        if (!take("\"") && !take("\\")) return false;
        continue;
      }
      if (rest_.size() < 4 || rest_.substr(0, 4).find_first_not_of("0123456789abcdef") != Bytes::npos) return false;
      rest_.remove_prefix(4);
    }
    return take("\"");
  }

  Bytes rest_;
};

inline void check_inspection(Inspection found) {
  found.json.add("errors", json_strings(found.errors));
  FUZZ_CHECK(JsonCheck::whole(found.json.str()));
}

/// Runs every read-only command on a whole data directory.
inline void inspect_directory(FileSystem& fs, const std::string& dir) {
  check_inspection(inspect_tree(fs, dir));
  check_inspection(inspect_verify(fs, dir));
  check_inspection(inspect_deletes(fs, dir, {1'800'000'000'000, 0, 20}));
  check_inspection(inspect_repair(fs, dir, false));
}

/// Prints a table, given one of its files, with its entries.
inline void inspect_table_file(FileSystem& fs, const std::string& path) {
  check_inspection(inspect_table(fs, path));
  for (const bool json : {false, true}) {
    std::string out;
    (void)inspect_entries(fs, path, {}, json, [&out](Bytes piece) { out += piece; });
    if (json) FUZZ_CHECK(JsonCheck::whole(out.ends_with('\n') ? Bytes(out).substr(0, out.size() - 1) : Bytes(out)));
  }
}

}  // namespace ebbtide::fuzz

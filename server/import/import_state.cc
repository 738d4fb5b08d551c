#include "import/import_state.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <system_error>

#include <unistd.h>

namespace ebbtide {
namespace {

constexpr Bytes kFirstLine = "ebbtide-import state 1";

bool number_of(Bytes text, std::uint64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

/// Reads a line after the first one. Returns false if it has an unknown name or a bad number.
bool read_line(Bytes line, ImportState* state) {
  const std::size_t space = line.find(' ');
  const Bytes name = line.substr(0, space), value = space == Bytes::npos ? Bytes() : line.substr(space + 1);
  if (name == "import") return state->import = value, true;
  if (name == "entries") return number_of(value, &state->entries);
  if (name == "list") return number_of(value, &state->list_bytes);
  if (name == "report") return state->report += std::string(value) + "\n", true;
  return false;
}

}  // namespace

Result<std::optional<ImportState>> read_import_state(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in.is_open()) {
    if (errno == ENOENT) return std::optional<ImportState>();
    return Status::io_error(path + ": " + std::strerror(errno));
  }
  ImportState state;
  std::string line;
  if (!std::getline(in, line) || line != kFirstLine)
    return Status::corruption(path + " is not a file of --resume; its first line must be `" + std::string(kFirstLine) + "`");
  for (int number = 2; std::getline(in, line); ++number) {
    if (line == "end") return std::optional(std::move(state));
    if (!read_line(line, &state)) return Status::corruption(path + ": line " + std::to_string(number) + " is not understood");
  }
  return Status::corruption(path + " is incomplete");
}

Status write_import_state(const std::string& path, const ImportState& state) {
  std::string text = std::string(kFirstLine) + "\nimport " + state.import + "\nentries " + std::to_string(state.entries) +
                     "\nlist " + std::to_string(state.list_bytes) + "\n";
  for (Bytes rest = state.report; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    text += "report " + std::string(rest.substr(0, end)) + "\n";
    rest = end == Bytes::npos ? Bytes() : rest.substr(end + 1);
  }
  text += "end\n";
  const std::string next = path + ".tmp";
  std::FILE* const file = std::fopen(next.c_str(), "wb");
  bool good = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0 &&
              ::fsync(::fileno(file)) == 0;
  if (file != nullptr) good = std::fclose(file) == 0 && good;
  if (good && ::rename(next.c_str(), path.c_str()) == 0) return Status::ok();
  return Status::io_error(path + ": " + std::strerror(errno));
}

}  // namespace ebbtide

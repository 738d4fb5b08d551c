#include "import/import_state.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include <unistd.h>

namespace ebbtide {
namespace {

constexpr Bytes kFirstLine = "ebbtide-import state 1";

bool number_of(Bytes text, std::uint64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

/// Parses a line that only the state of an append-only file or a copy has. Returns false for an unknown name or an invalid
/// number.
bool read_later_line(Bytes name, Bytes value, ImportState* state) {
  if (name == "commands") return number_of(value, &state->commands.emplace());
  if (name == "complete") return state->complete = true;
  if (name == "pass") return number_of(value, &state->pass);
  if (name == "known") {
    const std::size_t space = std::min(value.find(' '), value.size());
    return number_of(value.substr(0, space), &state->known_from) &&
           number_of(value.substr(std::min(space + 1, value.size())), &state->known_to);
  }
  if (name == "removed") return number_of(value, &state->removed);
  if (name == "missing") return state->missing = true;
  std::uint64_t database = 0;
  if (name != "database" || !number_of(value, &database)) return false;
  state->databases.insert(database);
  return true;
}

/// Parses a line after the first one. Returns false for an unknown name or an invalid number.
bool read_line(Bytes line, ImportState* state) {
  const std::size_t space = line.find(' ');
  const Bytes name = line.substr(0, space), value = space == Bytes::npos ? Bytes() : line.substr(space + 1);
  if (name == "import") return state->import = value, true;
  if (name == "entries") return number_of(value, &state->entries);
  if (name == "list") return number_of(value, &state->list_bytes);
  if (name == "report") return state->report += std::string(value) + "\n", true;
  return read_later_line(name, value, state);
}

std::string text_of(const ImportState& state) {
  std::ostringstream out;
  out << kFirstLine << "\nimport " << state.import << "\nentries " << state.entries << "\nlist " << state.list_bytes << "\n";
  if (state.commands) out << "commands " << *state.commands << "\n";
  if (state.complete) out << "complete\n";
  if (!state.databases.empty()) {
    out << "pass " << state.pass << "\nknown " << state.known_from << " " << state.known_to << "\nremoved " << state.removed
        << "\n";
    if (state.missing) out << "missing\n";
    for (const std::uint64_t database : state.databases) out << "database " << database << "\n";
  }
  std::istringstream report(state.report);
  for (std::string line; std::getline(report, line);) out << "report " << line << "\n";
  out << "end\n";
  return out.str();
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

Status write_import_state(const std::string& path, const ImportState& state, bool sync) {
  const std::string text = text_of(state);
  const std::string next = path + ".tmp";
  std::FILE* const file = std::fopen(next.c_str(), "wb");
  bool good = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0 &&
              (!sync || ::fsync(::fileno(file)) == 0);
  if (file != nullptr) good = std::fclose(file) == 0 && good;
  if (good && ::rename(next.c_str(), path.c_str()) == 0) return Status::ok();
  return Status::io_error(path + ": " + std::strerror(errno));
}

}  // namespace ebbtide

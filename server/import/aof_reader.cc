#include "import/aof_reader.h"

#include <algorithm>
#include <charconv>

namespace ebbtide {
namespace {

constexpr std::size_t kMaxLineBytes = 4096;

/// Takes a line. Sets `line` to it, without the line end.
Status take_line(InputFile& input, std::string* line) {
  line->clear();
  do {
    TRY(input.take(1, line));
    if (line->size() > kMaxLineBytes) {
      return Status::corruption(input.name() + ": the line before byte " + std::to_string(input.offset()) + " is longer than " +
                                std::to_string(kMaxLineBytes) + " bytes");
    }
  } while (line->back() != '\n');
  line->pop_back();
  if (!line->empty() && line->back() == '\r') line->pop_back();
  return Status::ok();
}

/// Takes a line that consists of `mark` and a count, such as "*3".
Result<std::uint64_t> take_count(InputFile& input, char mark) {
  const std::uint64_t offset = input.offset();
  std::string line;
  TRY(take_line(input, &line));
  std::uint64_t count = 0;
  const char* const end = line.data() + line.size();
  const bool begins = !line.empty() && line.front() == mark;
  if (!begins || std::from_chars(line.data() + 1, end, count).ptr != end || line.size() < 2) {
    return Status::corruption(input.name() + ", byte " + std::to_string(offset) + ": a line of '" + mark +
                              "' and a count is expected");
  }
  return count;
}

}  // namespace

Result<bool> read_aof_command(InputFile& input, AofCommand* command) {
  for (;;) {
    TRY_ASSIGN(first, input.peek());
    if (!first) return false;
    if (*first != '#') break;
    std::string comment;
    TRY(take_line(input, &comment));
  }
  command->offset = input.offset();
  command->arguments.clear();
  TRY_ASSIGN(count, take_count(input, '*'));
  if (count == 0)
    return Status::corruption(input.name() + ", byte " + std::to_string(command->offset) + ": a command without a name");
  for (std::uint64_t i = 0; i < count; ++i) {
    TRY_ASSIGN(length, take_count(input, '$'));
    std::string argument, end;
    TRY(input.take(length, &argument));
    TRY(input.take(2, &end));
    if (end != "\r\n") {
      return Status::corruption(input.name() + ", byte " + std::to_string(input.offset() - 2) +
                                ": the end of an argument, CR LF, is expected");
    }
    command->arguments.push_back(std::move(argument));
  }
  return true;
}

Result<std::vector<std::string>> read_aof_manifest(InputFile& input) {
  std::vector<std::string> files;
  const std::string directory = input.name().substr(0, input.name().rfind('/') + 1);
  std::uint64_t number = 0;
  for (std::string line;;) {
    TRY_ASSIGN(first, input.peek());
    if (!first) return files;
    TRY(take_line(input, &line));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    // A line: file NAME seq N type b|i|h
    std::vector<std::string> words;
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find(' ', at), line.size());
      if (end > at) words.push_back(line.substr(at, end - at));
      at = end + 1;
    }
    const bool right =
        words.size() == 6 && words[0] == "file" && words[2] == "seq" && words[4] == "type" && words[1].front() != '"';
    if (!right) {
      return Status::corruption(input.name() + ", line " + std::to_string(number) +
                                ": \"file NAME seq N type T\" is expected, without quotes");
    }
    if (words[5] != "h") files.push_back(directory + words[1]);  // h: a file of the history, which is not loaded
  }
}

}  // namespace ebbtide

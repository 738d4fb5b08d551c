#include "support/datadriven.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace ebbtide::test {
namespace {

constexpr const char* kDashes = "----";

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream in(path);
  REQUIRE(in.is_open());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

DataCase parse_command(const std::string& line, const std::string& where) {
  DataCase out;
  out.where = where;
  std::istringstream words(line);
  words >> out.command;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    out.args[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
  }
  return out;
}

/// Reads the expected answer from lines[*at], directly after the dashes, and moves *at past it.
std::string take_expected(const std::vector<std::string>& lines, std::size_t* at) {
  std::string expected;
  const bool fenced = *at < lines.size() && lines[*at] == kDashes;
  if (fenced) ++*at;
  for (; *at < lines.size(); ++*at) {
    if (fenced ? lines[*at] == kDashes && *at + 1 < lines.size() && lines[*at + 1] == kDashes : lines[*at].empty()) break;
    expected += lines[*at] + "\n";
  }
  if (fenced) *at += 2;
  return expected;
}

std::string fence(const std::string& answer) {
  const bool has_empty_line = answer.find("\n\n") != std::string::npos || answer.starts_with("\n");
  if (!has_empty_line) return answer;
  return std::string(kDashes) + "\n" + answer + kDashes + "\n" + kDashes + "\n";
}

}  // namespace

std::string DataCase::arg(const std::string& key, const std::string& fallback) const {
  const auto at = args.find(key);
  return at == args.end() ? fallback : at->second;
}

void run_datadriven(const std::string& path, const std::function<std::string(const DataCase&)>& run) {
  const bool rewrite = std::getenv("EBBTIDE_REWRITE") != nullptr;
  const std::vector<std::string> lines = read_lines(path);
  std::string rewritten;
  std::size_t cases = 0;
  for (std::size_t at = 0; at < lines.size();) {
    if (lines[at].empty() || lines[at][0] == '#') {
      rewritten += lines[at++] + "\n";
      continue;
    }
    DataCase data = parse_command(lines[at], std::filesystem::path(path).filename().string() + ":" + std::to_string(at + 1));
    rewritten += lines[at++] + "\n";
    while (at < lines.size() && lines[at] != kDashes) data.input += lines[at++] + "\n";
    INFO(data.where << ": no ---- after the input");
    REQUIRE(at < lines.size());
    const std::string expected = take_expected(lines, &++at);
    std::string answer = run(data);
    if (!answer.empty() && answer.back() != '\n') answer += '\n';
    rewritten += data.input + kDashes + "\n" + fence(answer);
    ++cases;
    if (!rewrite) {
      INFO(data.where << "\n" << data.input);
      CHECK(answer == expected);
    }
  }
  CHECK(cases > 0);
  if (rewrite) std::ofstream(path, std::ios::trunc) << rewritten;
}

void run_datadriven_dir(const std::string& dir, const std::function<void(const std::string& file)>& start,
                        const std::function<std::string(const DataCase&)>& run) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  CHECK(!paths.empty());
  for (const std::string& path : paths) {
    start(path);
    run_datadriven(path, run);
  }
}

}  // namespace ebbtide::test

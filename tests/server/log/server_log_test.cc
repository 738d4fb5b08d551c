// Tests of the text log: a client cannot choose bytes that forge a line.
#include "log/server_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("log: message has control bytes: they are escaped, and the message is one line") {
  const std::string path = std::filesystem::temp_directory_path() / ("ebbtide-server-log-test-" + std::to_string(::getpid()));
  std::filesystem::remove(path);
  {
    ServerLog log("info", path);
    log.write(ServerLog::Level::kInfo, "backup: /a\n2026-01-01T00:00:00.000+00:00 E forged\r\x1b[31m\t\x7f");
  }
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  std::filesystem::remove(path);
  const std::string line = text.str();
  CHECK(line.find('\n') == line.size() - 1);
  CHECK(line.find("backup: /a\\n2026-01-01T00:00:00.000+00:00 E forged\\r\\x1b[31m\\t\\x7f\n") != std::string::npos);
}

TEST_CASE("log: format is JSON: each line is one JSON object, whatever bytes the message has") {
  const std::string path = std::filesystem::temp_directory_path() / ("ebbtide-server-log-json-" + std::to_string(::getpid()));
  std::filesystem::remove(path);
  {
    ServerLog log("info", path, "json");
    log.write(ServerLog::Level::kWarning, "a \"quote\", a \\ and a \n line");
    CHECK(log.reopen().empty());
    log.write(ServerLog::Level::kError, "\xff");
  }
  std::ifstream in(path);
  std::string first, second;
  std::getline(in, first);
  std::getline(in, second);
  std::filesystem::remove(path);
  CHECK(first.starts_with("{\"time\":\"20"));
  CHECK(first.ends_with(R"(,"level":"warning","message":"a \"quote\", a \\ and a \\n line"})"));
  CHECK(second.ends_with(R"(,"level":"error","message":"\\xff"})"));
}

TEST_CASE("text for the log is UTF-8: it is unchanged, but broken UTF-8 and C1 controls are escaped") {
  CHECK(escape_controls("Zoë 日本 \xf0\x9f\x8c\x8a \\n") == "Zoë 日本 \xf0\x9f\x8c\x8a \\n");
  CHECK(escape_controls("\xc2\x9b") == "\\xc2\\x9b");
  CHECK(escape_controls("\xff\xc3") == "\\xff\\xc3");
  CHECK(escape_controls("\xc0\xaf\xe0\x80\xaf\xed\xa0\x80\xf4\x90\x80\x80") ==
        "\\xc0\\xaf\\xe0\\x80\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
  CHECK(escape_controls(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(escape_controls("a\xe2\x80\xae"
                        "fdp.exe") ==
        "a\\xe2\\x80\\xae"
        "fdp.exe");
}

TEST_CASE("text for the log has invisible or direction-changing characters: they are escaped") {
  for (const char* c :
       {"\xd8\x9c", "\xe2\x80\x8b", "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaa",
        "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa9", "\xef\xbb\xbf", "\xef\xbf\xb9", "\xf3\xa0\x81\xa1", "\xc2\x85"}) {
    const std::string escaped = escape_controls(c);
    INFO(escaped);
    CHECK(escaped.size() == 4 * std::string(c).size());
    CHECK(escaped.starts_with("\\x"));
  }
  for (const char* c :
       {"\xe2\x80\x8a", "\xe2\x80\x90", "\xe2\x80\xa7", "\xe2\x80\xaf", "\xe2\x81\xb0", "\xef\xbf\xbd", "\xf0\x9f\x98\x80"}) {
    CHECK(escape_controls(c) == c);
  }
}

TEST_CASE("log limiter: messages come within the interval: they are dropped, and the next line says how many") {
  LogLimiter limiter(1'000);
  CHECK(limiter.pass("a", 5'000) == "a");
  CHECK_FALSE(limiter.pass("b", 5'999));
  CHECK_FALSE(limiter.pass("c", 5'999));
  CHECK(limiter.pass("d", 6'000) == "d (2 similar messages since the last such line)");
  CHECK(limiter.pass("e", 100) == "e");  // a clock that was set back does not suppress it
}

TEST_CASE("log file is a named pipe: it is refused at once, also when the log is reopened, and the old file stays in use") {
  const std::string path = std::filesystem::temp_directory_path() / ("ebbtide-server-log-pipe-" + std::to_string(::getpid()));
  const std::string why =
      "log.file: " + path +
      ": is a named pipe, a socket or a block device; use a regular file, or leave log.file empty for standard output";
  std::filesystem::remove(path);
  ServerLog log("info", path);
  std::ifstream in(path);
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(log.reopen() == why);
  CHECK_THROWS_WITH(ServerLog("info", path), why);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);  // a pipe with a reader can be opened
  REQUIRE(reader >= 0);
  CHECK(log.reopen() == why);
  ::close(reader);
  std::filesystem::remove(path);
  log.write(ServerLog::Level::kInfo, "after the pipe");
  std::string line;
  std::getline(in, line);
  CHECK(line.ends_with("after the pipe"));
}

TEST_CASE("log.file is /dev/null or /dev/stdout: it is opened") {
  for (const char* const path : {"/dev/null", "/dev/stdout"}) {
    ServerLog log("error", path);
    CHECK(log.reopen().empty());
  }
}

TEST_CASE("log file is in a missing directory: the directory is made, but a log file that is a directory is an error") {
  const auto room = std::filesystem::temp_directory_path() / ("ebbtide-server-log-room-" + std::to_string(::getpid()));
  ServerLog log("info", room / "logs" / "server.log");
  CHECK(std::filesystem::is_regular_file(room / "logs" / "server.log"));
  CHECK_THROWS_WITH(ServerLog("info", room / "logs"),
                    "log.file: " + (room / "logs").string() + ": cannot be opened for writing: Is a directory");
  std::filesystem::remove_all(room);
}

}  // namespace TEST_FILE

// Tests of the last line of the log: it has the form of every other line, and is made without an allocation.
#include "log/failure_log.h"

#include <array>
#include <catch2/catch.hpp>
#include <string>

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::int64_t kSecond = 1'000'000;

std::string line(std::int64_t unix_micros, std::int64_t offset, std::size_t room = 1024) {
  std::string out(room, '?');
  const std::string_view text[] = {"out of ", "memory"};
  out.resize(format_failure(out, unix_micros, offset, text));
  return out;
}

TEST_CASE("failure log: line is written: it begins with time and level, as every line of the log does") {
  CHECK(line(0, 0) == "1970-01-01T00:00:00.000+00:00 E out of memory\n");
  CHECK(line(1'796'169'599 * kSecond + 987'654, 5 * 3600 + 1800) == "2026-12-02T05:29:59.987+05:30 E out of memory\n");
  CHECK(line(1'709'164'800 * kSecond, -9 * 3600 - 1800) == "2024-02-28T14:30:00.000-09:30 E out of memory\n");
  CHECK(line(1'709'164'800 * kSecond, 0) == "2024-02-29T00:00:00.000+00:00 E out of memory\n");
  CHECK(line(951'868'800 * kSecond, 0) == "2000-03-01T00:00:00.000+00:00 E out of memory\n");
}

TEST_CASE("failure log: format is JSON: the line is one JSON object for any text, even if the text is cut") {
  const std::string_view text[] = {"a \"quote\", ", "a \\ and a \n line"};
  std::string out(1024, '?');
  out.resize(format_failure(out, 0, 0, text, true));
  CHECK(out == "{\"time\":\"1970-01-01T00:00:00.000+00:00\",\"level\":\"error\",\"message\":\"a 'quote', a ? and a ? line\"}\n");
  std::string cut(128, '?');
  const std::string_view longer[] = {
      std::string_view("0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789")};
  cut.resize(format_failure(cut, 0, 0, longer, true));
  CHECK(cut.size() == 128);
  CHECK(cut.ends_with("4567\"}\n"));
}

TEST_CASE("failure log: text is longer than the buffer: the line is cut and ends with a line feed") {
  CHECK(line(0, 0, 36) == "1970-01-01T00:00:00.000+00:00 E out\n");
  CHECK(line(0, 0, 1) == "\n");
}

}  // namespace TEST_FILE

// Tests of the reader of append-only files and their manifests.
#include "import/aof_reader.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

using Commands = std::vector<std::vector<std::string>>;

Status read_all(const std::string& bytes, Commands* commands) {
  const auto input = InputFile::of(bytes);
  for (AofCommand command;;) {
    TRY_ASSIGN(more, read_aof_command(*input, &command));
    if (!more) return Status::ok();
    commands->push_back(command.arguments);
  }
}

TEST_CASE("append-only file has time stamps: its commands are read, and the stamps are skipped") {
  Commands commands;
  REQUIRE(
      read_all(
          "#TS:1700000000\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n#TS:1700000001\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n",
          &commands)
          .is_ok());
  CHECK(commands == Commands{{"SELECT", "3"}, {"SET", "k", "a\r\nb"}});
}

TEST_CASE("append-only file ends within a command, or has another format: reading reports damage") {
  const std::string whole = "*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n";
  for (std::size_t length = 1; length < whole.size(); ++length) {
    Commands commands;
    INFO(length);
    CHECK(read_all(whole.substr(0, length), &commands).code() == Code::kCorruption);
    CHECK(commands.empty());
  }
  for (const char* wrong :
       {"*0\r\n", "*x\r\n", "*\r\n", "+OK\r\n", "*1\r\n+OK\r\n", "*1\r\n$2\r\nabc\r\n", "*1\r\n$18446744073709551615\r\nab"}) {
    Commands commands;
    INFO(wrong);
    CHECK(read_all(wrong, &commands).code() == Code::kCorruption);
  }
}

TEST_CASE("append-only manifest is read: it lists its files in order, without those of type history") {
  const auto input =
      InputFile::of("file a.1.base.rdb seq 1 type b\nfile a.0.incr.aof seq 0 type h\nfile a.1.incr.aof seq 1 type i\n");
  const auto files = read_aof_manifest(*input);
  REQUIRE(files.is_ok());
  CHECK(*files == std::vector<std::string>{"a.1.base.rdb", "a.1.incr.aof"});
}

TEST_CASE("append-only manifest has an invalid line: the error names the line") {
  const auto input = InputFile::of("file a.1.base.rdb seq 1 type b\nfile \"a b\" seq 2 type i\n");
  const auto files = read_aof_manifest(*input);
  REQUIRE(files.status().code() == Code::kCorruption);
  CHECK(files.status().message().find("line 2") != Bytes::npos);
}

}  // namespace TEST_FILE

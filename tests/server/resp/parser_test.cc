// Tests of the request parser: the outcomes of all kinds of input, however the input is split.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "resp/parser.h"

namespace TEST_FILE {

using namespace ebbtide;

struct Outcome {
  std::vector<std::vector<std::string>> commands;
  RequestParser::Failure failure = RequestParser::Failure::kNone;
  std::string error;
  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  for (const auto& command : outcome.commands) {
    out << "[";
    for (const auto& arg : command) out << " " << (arg.size() > 40 ? "(" + std::to_string(arg.size()) + " bytes)" : arg);
    out << " ] ";
  }
  return out << "failure " << static_cast<int>(outcome.failure) << " " << outcome.error;
}

void take(RequestParser& parser, const ParserLimits& limits, Outcome* outcome, std::size_t max_commands = 1000) {
  while (parser.parse(limits, max_commands) > 0) {
    for (std::size_t i = 0; i < parser.ready(); ++i) {
      std::vector<std::string> command;
      const Args args = parser.command(i);
      for (std::size_t k = 0; k < args.size(); ++k) {
        command.emplace_back(args[k]);
        if (args[k].size() > RequestParser::kBigBulk) {
          REQUIRE(args.shared(k) != nullptr);
          REQUIRE(args.shared(k)->data() == args[k].data());
        } else {
          REQUIRE(args.shared(k) == nullptr);
        }
      }
      outcome->commands.push_back(std::move(command));
    }
    parser.release();
    if (parser.failure() != RequestParser::Failure::kNone) break;
  }
  outcome->failure = parser.failure();
  outcome->error = parser.error();
}

// Feeds `input` in parts whose sizes `next` gives: through room() like a socket, or through feed().
template <typename Next>
Outcome run(const std::string& input, Next next, const ParserLimits& limits = {}, bool use_feed = false) {
  RequestParser parser;
  Outcome outcome;
  std::size_t at = 0;
  while (at < input.size() && parser.failure() == RequestParser::Failure::kNone) {
    std::size_t n = std::min<std::size_t>(std::max<std::size_t>(next(), 1), input.size() - at);
    if (use_feed) {
      parser.feed(Bytes(input).substr(at, n), limits);
    } else {
      auto room = parser.room(limits);
      REQUIRE(!room.empty());
      n = std::min(n, room.size());
      std::copy_n(input.data() + at, n, room.data());
      parser.received(n);
    }
    at += n;
    take(parser, limits, &outcome);
  }
  return outcome;
}

Outcome whole(const std::string& input, const ParserLimits& limits = {}) {
  return run(
      input, [] { return std::size_t{1} << 30; }, limits, true);
}

std::string resp(const std::vector<std::string>& args) {
  std::string text = "*" + std::to_string(args.size()) + "\r\n";
  for (const auto& arg : args) text += "$" + std::to_string(arg.size()) + "\r\n" + arg + "\r\n";
  return text;
}

void same_however_split(const std::string& input, const ParserLimits& limits, unsigned seed) {
  const Outcome expected = whole(input, limits);
  if (input.size() < 300'000) {
    CHECK(run(
              input, [] { return std::size_t{1}; }, limits) == expected);
    CHECK(run(
              input, [] { return std::size_t{1}; }, limits, true) == expected);
  }
  for (unsigned i = 0; i < 6; ++i) {
    std::mt19937 random(seed + i);
    const std::size_t most = i < 2 ? 7 : i < 4 ? 100 : 70'000;
    INFO("seed " << seed + i);
    CHECK(run(
              input, [&] { return 1 + random() % most; }, limits, i % 2 == 1) == expected);
  }
}

TEST_CASE("pipelined and inline commands are received: the parser returns each command") {
  const Outcome got = whole("*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\nset a \"b\\x41\\n\" 'c d'\n*1\r\n$0\r\n\r\n");
  REQUIRE(got.commands == std::vector<std::vector<std::string>>{{"GET", "k"}, {"PING"}, {"set", "a", "bA\n", "c d"}, {""}});
  REQUIRE(got.failure == RequestParser::Failure::kNone);
}

TEST_CASE("request is valid or invalid in any way: the parser returns commands, a protocol error or another failure") {
  const auto error = [](const std::string& input, const ParserLimits& limits = {}) {
    same_however_split(input, limits, 1);
    const Outcome got = whole(input, limits);
    return got.failure == RequestParser::Failure::kProtocol ? got.error : "no protocol error";
  };
  SECTION("empty request leaves connection usable") {
    for (const char* input : {"\r\n", "*0\r\n", "*-1\r\n", "*-10\r\n", "\n", "   \r\n"}) {
      const Outcome got = whole(std::string(input) + "PING\r\n");
      CHECK(got.commands == std::vector<std::vector<std::string>>{{"PING"}});
      CHECK(got.failure == RequestParser::Failure::kNone);
    }
  }
  SECTION("count of arguments is not a number or out of range: parsing fails with a protocol error") {
    for (const char* n : {"2147483648", "abc", "+3", "01", "1048577", "", "-", "-0", "1 ", "99999999999999999999999", "1\rX"}) {
      INFO(n);
      CHECK(error("*" + std::string(n) + "\r\n") == "Protocol error: invalid multibulk length");
    }
    CHECK(whole("*1048576\r\n").failure == RequestParser::Failure::kNone);
  }
  SECTION("length of an argument is not a number or out of range: parsing fails with a protocol error") {
    for (const char* n : {"-1", "blabla", "536870913", "", "+1", "00", "18446744073709551616"}) {
      INFO(n);
      CHECK(error("*1\r\n$" + std::string(n) + "\r\n") == "Protocol error: invalid bulk length");
    }
    CHECK(whole("*1\r\n$536870912\r\n").failure == RequestParser::Failure::kNone);
  }
  SECTION("byte of the format is missing: parsing fails with a protocol error") {
    CHECK(error("*1\r\nfoo") == "Protocol error: expected '$', got 'f'");
    CHECK(error("*1\r\n$3\r\nabcd\r\n") == "Protocol error: expected CRLF after bulk");
    CHECK(error("*1\r\n$3\r\nabc\rx") == "Protocol error: expected CRLF after bulk");
    CHECK(error("*1\r\n$70000\r\n" + std::string(70'000, 'x') + "y") == "Protocol error: expected CRLF after bulk");
  }
  SECTION("line is too long: parsing fails with a protocol error") {
    const std::string many(RequestParser::kMaxLine, '1');
    CHECK(error(many + "1") == "Protocol error: too big inline request");
    CHECK(error("*" + many) == "Protocol error: too big mbulk count string");
    CHECK(error("*1\r\n$" + many) == "Protocol error: too big bulk count string");
    CHECK(error(many + "1\r\n") == "Protocol error: too big inline request");
    CHECK(whole(many + "\n").commands.size() == 1);
    CHECK(whole(many).failure == RequestParser::Failure::kNone);
  }
  SECTION("quotes are unbalanced: parsing fails with a protocol error") {
    for (const char* line : {"set \"\"\"k\"\"\" v\r\n", "set \"a\r\n", "set 'a\r\n", "set 'a'b\r\n", "\"\r\n", "set \"a\\\r\n"}) {
      INFO(line);
      CHECK(error(line) == "Protocol error: unbalanced quotes in request");
    }
    CHECK(whole("set foo\"bar baz\" 'it\\'s' \"\"\r\n").commands[0] == std::vector<std::string>{"set", "foobar baz", "it's", ""});
  }
  SECTION("unauthenticated client exceeds its limits: parsing fails with a protocol error") {
    ParserLimits limits;
    limits.stranger = true;
    CHECK(error("*11\r\n", limits) == "Protocol error: unauthenticated multibulk length");
    CHECK(error("*1\r\n$16385\r\n", limits) == "Protocol error: unauthenticated bulk length");
    CHECK(whole(resp(std::vector<std::string>(10, "a")), limits).commands.size() == 1);
    CHECK(whole(resp({std::string(16'384, 'x')}), limits).commands.size() == 1);
  }
  SECTION("client speaks TLS or HTTP: the failure is not a protocol error") {
    CHECK(whole(std::string("\x16\x03\x01", 3)).failure == RequestParser::Failure::kNotResp);
    CHECK(whole(std::string("\0", 1)).failure == RequestParser::Failure::kNotResp);
    CHECK(whole("POST / HTTP/1.1\r\nHost: x\r\n").failure == RequestParser::Failure::kSecurity);
    CHECK(whole("PING\r\nhost: x\r\nPING\r\n").failure == RequestParser::Failure::kSecurity);
    CHECK(whole("PING\r\nhost: x\r\nPING\r\n").commands.size() == 1);
    CHECK(whole(resp({"Post"})).failure == RequestParser::Failure::kSecurity);
  }
}

TEST_CASE("protocol error follows commands: the parser still hands out the commands") {
  const Outcome got = whole("*1\r\n$4\r\nPING\r\n*1\r\n$-1\r\n");
  CHECK(got.commands.size() == 1);
  CHECK(got.failure == RequestParser::Failure::kProtocol);
}

TEST_CASE("random streams are split at random: commands and errors do not change") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    std::mt19937 random(seed);
    std::string input;
    for (int i = 0; i < 30; ++i) {
      switch (random() % 12) {
        case 0:
          input += "PING \"x\\x00y\" 'z'\r\n";
          break;
        case 1:
          input += "\r\n";
          break;
        case 2:
          input += "*0\r\n";
          break;
        case 3:
          input += resp({"SET", "big", std::string(60'000 + random() % 20'000, 'v'), "EX", "10"});
          break;
        case 4:
          input += resp(std::vector<std::string>(random() % 300 + 1, "arg"));
          break;
        default: {
          std::vector<std::string> args(random() % 5 + 1);
          for (auto& arg : args) {
            arg.resize(random() % 40);
            for (char& c : arg) c = static_cast<char>(random());
          }
          args[0] = "CMD";
          input += resp(args);
        }
      }
    }
    if (seed % 3 == 0) {  // this damages the stream
      for (int i = 0; i < 3; ++i) input[random() % input.size()] = static_cast<char>("*$\r\n0 9-\"a"[random() % 10]);
    }
    INFO("seed " << seed);
    same_however_split(input, {}, seed * 100);
  }
}

TEST_CASE("client announces a big bulk: the parser's memory grows with received bytes, not with announced bytes") {
  RequestParser parser;
  parser.feed("*2\r\n$3\r\nSET\r\n$536870912\r\nabc", {});
  REQUIRE(parser.parse({}, 10) == 0);
  CHECK(parser.big_missing() == 536'870'909);
  CHECK(parser.memory() < (2 << 20));
}

TEST_CASE("client announces a million arguments: they take no memory before they are received") {
  RequestParser parser;
  parser.feed("*1048576\r\n$1\r\na\r\n", {});
  REQUIRE(parser.parse({}, 10) == 0);
  CHECK(parser.memory() < 20'000);
}

TEST_CASE("input exceeds the limit without a complete command: parsing fails, and the connection will be closed") {
  ParserLimits limits;
  limits.max_query_buffer = 1 << 20;
  RequestParser parser;
  parser.feed("*1048576\r\n", limits);
  const std::string arg = "$1000\r\n" + std::string(1000, 'x') + "\r\n";
  int fed = 0;
  while (parser.failure() == RequestParser::Failure::kNone && fed < 5000) {
    parser.feed(arg, limits);
    parser.parse(limits, 10);
    ++fed;
  }
  CHECK(parser.failure() == RequestParser::Failure::kQueryBuffer);
  CHECK(fed < 1100);
  CHECK(parser.memory() < (4 << 20));
}

TEST_CASE("command has several big bulks: the first does not count towards the input limit, and the others do") {
  ParserLimits limits;
  limits.max_query_buffer = 1 << 20;
  const std::string big = "$100000\r\n" + std::string(100'000, 'x') + "\r\n";
  RequestParser many;
  many.feed("*1048576\r\n", limits);
  int fed = 0;
  for (; many.failure() == RequestParser::Failure::kNone && fed < 100; ++fed) {
    many.feed(big, limits);
    many.parse(limits, 10);
  }
  CHECK(many.failure() == RequestParser::Failure::kQueryBuffer);
  CHECK(fed == 12);
  CHECK(many.big_bytes() == 1'200'000);
  RequestParser one;
  one.feed("*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000000\r\n" + std::string(5'000'000, 'x') + "\r\n", limits);
  CHECK(one.parse(limits, 10) == 0);
  CHECK(one.failure() == RequestParser::Failure::kNone);
  one.feed("$2\r\nNX\r\n", limits);
  CHECK(one.parse(limits, 10) == 1);
  CHECK(one.big_bytes() == 0);
}

TEST_CASE("parser has found as many commands as it may return: it stops and keeps the remaining input") {
  RequestParser parser;
  parser.feed("PING\r\nPING\r\nPING\r\n", {});
  CHECK(parser.parse({}, 1) == 1);
  CHECK(parser.has_input());
  parser.release();
  CHECK(parser.parse({}, 5) == 2);
  CHECK_FALSE(parser.has_input());
  parser.release();
  CHECK(parser.memory() <= 64 * sizeof(Bytes));
}

TEST_CASE("big arguments of a command are refused: the parser skips them, and parses the next command") {
  const std::string value(200'000, 'v');
  const std::string mset = resp({"MSET", "a", value, "b", value, "c", "small"});
  for (const std::size_t piece : {std::size_t{1} << 30, std::size_t{1'000}, std::size_t{70'001}}) {
    RequestParser parser;
    bool refused = false;
    Outcome outcome;
    std::vector<bool> marks;
    const std::string input = mset + resp({"SET", "k", value});
    for (std::size_t at = 0; at < input.size(); at += piece) {
      parser.feed(Bytes(input).substr(at, piece), {});
      if (!refused && at > 250'000) {  // in the middle of the second value
        parser.refuse_big();
        refused = true;
        CHECK(parser.big_memory() == 0);
      }
      while (parser.parse({}, 1) > 0) {
        marks.push_back(parser.command(0).refused);
        outcome.commands.emplace_back(parser.command(0).begin(), parser.command(0).end());
        parser.release();
      }
      if (refused && outcome.commands.empty()) CHECK(parser.big_memory() == 0);
    }
    REQUIRE(outcome.commands.size() == 2);
    if (refused) {
      CHECK(marks == std::vector<bool>{true, false});
      CHECK(outcome.commands[0] == std::vector<std::string>{"MSET", "a", "", "b", "", "c", "small"});
    }
    CHECK(outcome.commands[1] == std::vector<std::string>{"SET", "k", value});
    CHECK(parser.big_memory() == 0);
  }
}

TEST_CASE("command has big arguments: they count as memory of the parser until the command is done") {
  RequestParser parser;
  parser.feed(resp({"SET", "k", std::string(100'000, 'x')}) + "PING\r\n", {});
  REQUIRE(parser.parse({}, 10) == 2);
  CHECK(parser.big_bytes() == 0);
  CHECK(parser.big_memory() == 100'000);
  parser.release();
  CHECK(parser.big_memory() == 0);
}

TEST_CASE("big arguments are handed over to a new owner: their bytes stay valid, and the parser stops counting them") {
  RequestParser parser;
  parser.feed(resp({"SET", "a", std::string(100'000, 'x')}) + resp({"SET", "b", std::string(200'000, 'y')}) +
                  "*2\r\n$150000\r\n" + std::string(10, 'z'),
              {});
  REQUIRE(parser.parse({}, 10) == 2);
  CHECK(parser.big_memory() == 300'010);
  REQUIRE(parser.can_hand_over());
  std::size_t taken = 0;
  parser.hand_over([&](std::shared_ptr<const std::string> value) {
    taken += value->size();
    return value;
  });
  CHECK(taken == 300'000);
  CHECK_FALSE(parser.can_hand_over());
  CHECK(parser.big_memory() == 10);
  CHECK(parser.command(0)[2] == std::string(100'000, 'x'));
  CHECK(parser.command(1)[2] == *parser.command(1).shared(2));
  parser.release();
  CHECK(parser.big_memory() == 10);
  parser.refuse_big();
  CHECK(parser.big_memory() == 0);
}

TEST_CASE("parser's buffer grows by megabytes: arguments of the incomplete command stay valid until it is dropped") {
  constexpr int kCount = 100'000;
  std::string input = "*" + std::to_string(kCount + 1) + "\r\n$3\r\nDEL\r\n";
  const auto argument = [](int i) { return std::to_string(i) + std::string(40, 'a'); };
  for (int i = 0; i < kCount; ++i) input += "$" + std::to_string(argument(i).size()) + "\r\n" + argument(i) + "\r\n";
  RequestParser parser;
  const ParserLimits limits;
  std::size_t ready = 0;
  for (std::size_t at = 0; at < input.size();) {
    const std::span<char> room = parser.room(limits);
    const std::size_t n = std::min({room.size(), input.size() - at, std::size_t{100'000}});
    std::memcpy(room.data(), input.data() + at, n);
    parser.received(n);
    at += n;
    ready = parser.parse(limits, 10);
  }
  REQUIRE(ready == 1);
  const Args args = parser.command(0);
  REQUIRE(args.size() == kCount + 1);
  for (int i = 0; i < kCount; ++i) REQUIRE(args[static_cast<std::size_t>(i) + 1] == argument(i));
  CHECK(parser.memory() > input.size());
  parser.discard();
  CHECK(parser.memory() == 0);
}

}  // namespace TEST_FILE

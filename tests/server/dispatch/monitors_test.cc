// Tests of MONITOR: the line that monitors get for a command.
#include "dispatch/monitors.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "one_loop.h"

namespace ebbtide::test {
namespace TEST_FILE {

TEST_CASE("MONITOR is on: its client gets each command as a line, with unprintable bytes escaped") {
  Switches switches;
  Monitors monitors(switches);
  OneLoop loop;
  loop.client.address = "1.2.3.4:5";
  const std::vector<Bytes> words{"set", "k\"\\", Bytes("\n\0\xff", 3)};
  Args args;
  args.list = words;
  monitors.add(loop.client);
  CHECK(switches.has(Switches::kMonitors));
  monitors.show(args, 2, loop.client, 12'000'034);
  CHECK(loop.client.out.to_string() == "+12.000034 [2 1.2.3.4:5] \"set\" \"k\\\"\\\\\" \"\\n\\x00\\xff\"\r\n");
}

TEST_CASE("command has 20 MB of arguments: a monitor gets only their beginning, so that its loop is not kept busy") {
  Switches switches;
  Monitors monitors(switches);
  OneLoop loop;
  const std::string large(20 << 20, 'x');
  const std::vector<Bytes> words{"set", large, "EX", "10"};
  Args args;
  args.list = words;
  monitors.add(loop.client);
  monitors.show(args, 0, loop.client, 1);
  const std::string line = loop.client.out.to_string();
  CHECK(line.size() < 300'000);
  CHECK(line.find("\"set\" \"xxx") != std::string::npos);
  CHECK(line.ends_with("x\"... (20709382 more bytes)... (2 more arguments)\r\n"));
  CHECK(loop.client.out.memory() >= line.size());  // includes shared lines, so that a slow monitor is closed
}

TEST_CASE("MONITOR client was removed: it gets no more commands") {
  Switches switches;
  Monitors monitors(switches);
  OneLoop loop;
  monitors.add(loop.client);
  monitors.remove(loop.client.id);
  CHECK_FALSE(switches.has(Switches::kMonitors));
  monitors.show({}, 0, loop.client, 1);
  CHECK(loop.client.out.empty());
}

}  // namespace TEST_FILE
}  // namespace ebbtide::test

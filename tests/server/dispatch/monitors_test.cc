// MONITOR: the line that monitors are sent for a command.
#include "dispatch/monitors.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "one_loop.h"

namespace ebbtide::test {
namespace {

TEST_CASE("a monitor is sent each command as a line, with what is not printable escaped") {
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

TEST_CASE("a monitor that was removed is sent nothing") {
  Switches switches;
  Monitors monitors(switches);
  OneLoop loop;
  monitors.add(loop.client);
  monitors.remove(loop.client.id);
  CHECK_FALSE(switches.has(Switches::kMonitors));
  monitors.show({}, 0, loop.client, 1);
  CHECK(loop.client.out.empty());
}

}  // namespace
}  // namespace ebbtide::test

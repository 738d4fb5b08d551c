// Tests of what scripts write.
#include <catch2/catch.hpp>
#include <string>

#include "commands/families.h"
#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

TEST_CASE("script writes keys: the committed batch has each operation once") {
  CommandHarness server(command_families());
  server("SET made 1");
  const auto operations = [&](const std::string& script) {
    const SeqNum before = server.db->visible_seq();
    INFO(server("EVAL \"" + script + "\" 1 k"));
    return server.db->visible_seq() - before;
  };
  CHECK(operations("return redis.call('SET', KEYS[1], 'v')") == 1);
  CHECK(operations("redis.call('SET', KEYS[1], 'v') return redis.call('GET', KEYS[1])") == 1);
  CHECK(operations("redis.call('SET', KEYS[1], 'v') return redis.call('INCR', 'n')") == 2);
  CHECK(operations("redis.call('SET', KEYS[1], 'v') return redis.pcall('INCR', KEYS[1])") == 1);
  CHECK(operations("return redis.call('GET', KEYS[1])") == 0);
  CHECK(server("GET n") == "\"1\"");
}

}  // namespace TEST_FILE

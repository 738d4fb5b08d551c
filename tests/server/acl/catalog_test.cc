#include "acl/catalog.h"

#include <catch2/catch.hpp>

#include "commands.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

TEST_CASE("ACL command or category is given in upper or lower case: it is found", "[acl]") {
  CHECK(some_commands().find("GET") == kGet);
  CHECK(some_commands().find("Config|Set") == kConfigSet);
  CHECK_FALSE(some_commands().find("config|").has_value());
  CHECK_FALSE(some_commands().find("").has_value());
  CHECK(acl_category("keyspace") == 0);
  CHECK(acl_category("SCRIPTING") == kAclCategories.size() - 1);
  CHECK_FALSE(acl_category("@read").has_value());
}

}  // namespace TEST_FILE

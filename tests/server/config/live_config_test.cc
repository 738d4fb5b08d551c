// Tests of the configuration of a running server.
#include "config/live_config.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("configuration is being changed: event loops read the values before the change, without a wait") {
  LiveConfig* live = nullptr;
  std::uint64_t seen = 0;
  const auto apply = [&](const Config&, const Config& after) {
    seen = live->get().acl_log_max_len;  // as CONFIG GET on an event loop would during the change
    return after.acl_log_max_len == 7 ? Status::invalid_argument("refused") : Status::ok();
  };
  LiveConfig config(Config{}, apply, [](Config c) { return c; });
  live = &config;
  const std::vector<std::pair<Bytes, Bytes>> change{{"acllog-max-len", "5"}}, refused{{"acllog-max-len", "7"}};
  const std::uint64_t before = config.get().acl_log_max_len;
  REQUIRE(config.set(change).is_ok());
  CHECK(seen == before);
  CHECK(config.get().acl_log_max_len == 5);
  CHECK_FALSE(config.set(refused).is_ok());
  CHECK(config.get().acl_log_max_len == 5);
  CHECK(config
            .with([&](const Config& held) {
              CHECK(held.acl_log_max_len == live->get().acl_log_max_len);
              return Status::ok();
            })
            .is_ok());
}

}  // namespace TEST_FILE

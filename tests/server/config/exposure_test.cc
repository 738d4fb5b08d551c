// Tests of the log line that says which clients are served without a password.
#include "config/exposure.h"

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

Config bound_to(std::vector<std::string> addresses) {
  Config config;
  config.bind = std::move(addresses);
  return config;
}

bool says(const Exposure& exposure, const std::string& text) { return exposure.line.find(text) != std::string::npos; }

TEST_CASE("password is set and metrics are on loopback: no line about open ports is logged") {
  CHECK(exposure_of(bound_to({"*"}), true, 6379).line.empty());
  CHECK(exposure_of(bound_to({"127.0.0.1", "::1"}), true, 6379).line.empty());
}

TEST_CASE("no password is set, and the port is on loopback: the start logs the port as information, not a warning") {
  const Exposure exposure = exposure_of(bound_to({"127.0.0.1", "::1"}), false, 7000);
  CHECK_FALSE(exposure.warning);
  CHECK(exposure.line ==
        "no password is set: port 7000 is open to every user of this machine, and to no other machine (server.bind)");
}

TEST_CASE("protected mode is on without a password: a warning says that other machines are refused, and the remedy") {
  for (const char* address : {"*", "0.0.0.0", "::", "10.1.2.3"}) {
    const Exposure exposure = exposure_of(bound_to({"127.0.0.1", address}), false, 6379);
    CHECK(exposure.warning);
    CHECK(says(exposure, "clients of other machines are refused (server.protected_mode)"));
    CHECK(says(exposure, "set server.password_file, server.password or server.users_file"));
  }
}

TEST_CASE("neither password nor protected mode is set: a warning says that every client is served, and the remedy") {
  Config config = bound_to({"*"});
  config.protected_mode = false;
  const Exposure exposure = exposure_of(config, false, 6379);
  CHECK(exposure.warning);
  CHECK(says(exposure, "port 6379 is open to everyone who can reach it"));
  CHECK(says(exposure, "set server.password_file"));
  CHECK_FALSE(says(exposure, "refused"));
}

TEST_CASE("metrics port is reachable beyond loopback: the logged line names the port and what it shows") {
  Config config = bound_to({"*"});
  config.metrics_bind = "0.0.0.0";
  CHECK(exposure_of(config, true, 6379).line ==
        "port 9736 shows metrics and the console to everyone who can reach it (metrics.bind)");
  CHECK_FALSE(exposure_of(config, true, 6379).warning);
  config.console = false;
  CHECK(exposure_of(config, true, 6379).line == "port 9736 shows metrics to everyone who can reach it (metrics.bind)");
  CHECK(says(exposure_of(config, false, 6379), "; port 9736 shows metrics"));
  config.metrics_port = 0;
  CHECK(exposure_of(config, true, 6379).line.empty());
}

}  // namespace TEST_FILE
}  // namespace ebbtide

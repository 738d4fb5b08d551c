// Tests of putting an advice into effect.
#include "tuning/apply_advice.h"

#include <map>

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

TEST_CASE("tuning advice is applied: CONFIG SET gets all keys at once, and keys whose values differ are returned") {
  std::map<std::string, std::string> keys = {{"databases.2.policy.name", "leveling"},
                                             {"databases.2.policy.size_ratio", "10"},
                                             {"databases.2.memtable_size", "64MiB"},
                                             {"databases.2.filters.memory", "auto"}};
  int sets = 0;
  const ConfigAccess config{[&](const std::string& key) { return keys[key]; },
                            [&](std::span<const std::pair<std::string, std::string>> items) {
                              ++sets;
                              for (const auto& [key, value] : items) keys[key] = value == "65536KiB" ? "64MiB" : value;
                              return Status::ok();
                            }};
  TunerAdvice advice;
  advice.policy = {"tiering", {{"size_ratio", 4}}};
  advice.memtable_bytes = 64 << 20;
  advice.filter_bits_per_key = 5;
  const auto changes = apply_advice(config, 2, advice);
  REQUIRE(changes.is_ok());
  CHECK(sets == 1);
  CHECK(*changes == std::vector<SettingChange>{{"databases.2.policy.name", "leveling", "tiering"},
                                               {"databases.2.policy.size_ratio", "10", "4"},
                                               {"databases.2.filters.bits_per_key", "", "5"}});
  CHECK(changes_text(*changes) == "policy.name leveling -> tiering, policy.size_ratio 10 -> 4, filters.bits_per_key none -> 5");
}

TEST_CASE("configuration refuses a key of tuning advice: the error has the reason, and says that nothing has changed") {
  const ConfigAccess config{[](const std::string&) { return std::string("1"); },
                            [](std::span<const std::pair<std::string, std::string>>) {
                              return Status::invalid_argument("ERR CONFIG SET failed (possibly related to argument 'k') - why");
                            }};
  TunerAdvice advice;
  advice.policy = {"tiering", {}};
  const auto refused = apply_advice(config, 0, advice);
  CHECK(refused.status().code() == Code::kInvalidArgument);
  CHECK(refused.status().message() ==
        "ERR the advice was not applied, and nothing has changed: CONFIG SET failed (possibly related to argument 'k') - why");
}

}  // namespace TEST_FILE
}  // namespace ebbtide

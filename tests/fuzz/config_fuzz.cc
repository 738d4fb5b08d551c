// Fuzzes the configuration file: any input is accepted or refused with a reason. An accepted file can be written back and read
// again.
#include "config/config.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebbtide;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = load_config_text(text, "fuzz.yaml", {});
  if (!config.is_ok()) {
    FUZZ_CHECK(!config.status().message().empty());
    return 0;
  }
  const auto rewritten = rewrite_config(text, "fuzz.yaml", *config);
  if (!rewritten.is_ok()) return 0;
  const auto again = load_config_text(*rewritten, "fuzz.yaml", {});
  FUZZ_CHECK(again.is_ok());
  for (const ConfigKey& key : config_keys()) FUZZ_CHECK(key.get(*config) == key.get(*again));
  return 0;
}

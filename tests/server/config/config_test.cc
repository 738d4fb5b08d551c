// Tests of the configuration: errors with file and line, precedence, the shipped YAML file, and edits of a file.
#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "config/config.h"

namespace TEST_FILE {

using namespace ebbtide;

std::string error_of(const std::string& text, const ConfigSources& sources = {}) {
  const auto config = load_config_text(text, "f.yaml", sources);
  return config.is_ok() ? "no error" : std::string(config.status().message());
}

Config loaded(const std::string& text, const ConfigSources& sources = {}) {
  auto config = load_config_text(text, "f.yaml", sources);
  INFO(config.status().to_string());
  REQUIRE(config.is_ok());
  return *config;
}

std::string shipped() {
  std::ifstream in(std::string(EBBTIDE_TEST_DIR) + "/../../../config/ebbtide.yaml");
  std::ostringstream text;
  text << in.rdbuf();
  REQUIRE(!text.str().empty());
  return text.str();
}

std::string rewritten(const std::string& text, const std::function<void(Config&)>& change) {
  Config config = loaded(text);
  change(config);
  const auto result = rewrite_config(text, "f.yaml", config);
  INFO(result.status().to_string());
  REQUIRE(result.is_ok());
  return *result;
}

void set(Config& config, const std::string& name, const std::string& value) {
  const ConfigKeyPtr key = find_config_key(name);
  REQUIRE(key != nullptr);
  const Status status = key->set(config, value);
  INFO(status.to_string());
  REQUIRE(status.is_ok());
}

TEST_CASE("size or duration is parsed or printed: it has a unit, and texts without a unit are refused") {
  CHECK(*parse_size("64MiB") == 64u << 20);
  CHECK(*parse_size("0") == 0);
  CHECK(*parse_size("7B") == 7);
  for (const char* bad :
       {"", "64", "64 MiB", "-1B", "64MB", "1.5GiB", "99999999999999999999B", "18446744073709551615KiB", "MiB"}) {
    INFO(bad);
    CHECK_FALSE(parse_size(bad).is_ok());
  }
  CHECK(format_size(64 << 20) == "64MiB");
  CHECK(format_size(1025) == "1025B");
  CHECK(format_size(0) == "0B");
  CHECK(*parse_duration_ms("250ms") == 250);
  CHECK(*parse_duration_ms("7d") == 7 * 86'400'000);
  CHECK(*parse_duration_ms("5m") == 300'000);
  for (const char* bad : {"", "5", "s", "5 s", "5sec", "-5s", "1.5s"}) {
    INFO(bad);
    CHECK_FALSE(parse_duration_ms(bad).is_ok());
  }
  CHECK(format_duration_ms(90'000) == "90s");
  CHECK(format_duration_ms(0) == "0s");
  CHECK(*parse_redis_memory("100mb") == 100u << 20);
  CHECK(*parse_redis_memory("1k") == 1000);
  CHECK(*parse_redis_memory("123") == 123);
}

TEST_CASE("configuration value is wrong: the error names file, line and key, and says what is allowed") {
  CHECK(error_of("storage:\n  fsync: sometimes\n") ==
        "f.yaml:2: storage.fsync: 'sometimes' is not allowed; allowed: always, everysec, no");
  CHECK(error_of("server:\n\n  prot: 1\n") == "f.yaml:3: server.prot: no such key; did you mean server.port?");
  CHECK(error_of("storage: { memtable_size: 64 }") ==
        "f.yaml:1: storage.memtable_size: '64' is not a size: a whole number with B, KiB, MiB, GiB or TiB; allowed: 16KiB to "
        "16GiB");
  CHECK(error_of("storage: { memtable_size: 1B }") ==
        "f.yaml:1: storage.memtable_size: '1B' is not allowed; allowed: 16KiB to 16GiB");
  CHECK(error_of("server: { port: 65536 }") == "f.yaml:1: server.port: '65536' is not allowed; allowed: 0 to 65535");
  CHECK(error_of("server: { port: 1, port: 2 }") == "f.yaml:1: server.port: is given twice");
  CHECK(error_of("server: { port: [1] }") == "f.yaml:1: server.port: a single value is expected; allowed: 0 to 65535");
  CHECK(error_of("server: { port: { a: 1 } }") == "f.yaml:1: server.port: a single value is expected; allowed: 0 to 65535");
  CHECK(error_of("server: { port: }") == "f.yaml:1: server.port: has no value; allowed: 0 to 65535");
  CHECK(error_of("server: 5") == "f.yaml:1: server: is a section; its keys must be below it");
  CHECK(error_of("[1, 2]") == "f.yaml:1: the file must consist of sections, such as server: and storage:");
  CHECK(error_of("a: {\n").find("f.yaml:") == 0);
  CHECK(error_of("server: { port: 1 }\n---\nserver: { port: 2 }\n") == "f.yaml:2: a second document begins here; one is allowed");
  CHECK(error_of("limits: { timeout: 30 }").find("'30' is not a duration") != std::string::npos);
  CHECK(error_of("server: { protected_mode: yes }") ==
        "f.yaml:1: server.protected_mode: 'yes' is not allowed; allowed: true, false");
  CHECK(error_of("server: { bind: [[a]] }").find("not a plain value") != std::string::npos);
  CHECK(error_of("nonsense: 1") == "f.yaml:1: nonsense: no such key");
}

TEST_CASE("number of a database is not allowed, or a key is empty: loading is refused, and the error says what is allowed") {
  const std::string databases = "' is not allowed; allowed: a database's number, 0 to 1023";
  CHECK(error_of("", {"", {}, {{"databases.99999.pages_per_tile", "8"}}}) ==
        "command line: databases.99999.pages_per_tile: '99999" + databases);
  CHECK(error_of("databases: { 1024: { page_size: 8KiB } }") == "f.yaml:1: databases.1024.page_size: '1024" + databases);
  CHECK(error_of("databases: { x: { page_size: 8KiB } }") == "f.yaml:1: databases.x.page_size: 'x" + databases);
  CHECK(error_of("", {"", {}, {{"", "5"}}}) == "command line: the name of a key is missing; a key is, for example, server.port");
}

TEST_CASE("bind address is not an IP address: loading is refused; an IPv6 address may have a zone") {
  const std::string addresses = "' is not allowed; allowed: a list of IP addresses, * for all of IPv4";
  CHECK(error_of("server:\n  bind: [127.0.0.1, localhost]\n") == "f.yaml:2: server.bind: 'localhost" + addresses);
  CHECK(error_of("server: { bind: 1.2.3 }") == "f.yaml:1: server.bind: '1.2.3" + addresses);
  CHECK(error_of("metrics:\n  bind: 300.0.0.1\n") ==
        "f.yaml:2: metrics.bind: '300.0.0.1' is not allowed; allowed: an IP address");
  for (const char* no_address : {"\"\"", "\"*\"", "localhost", "127.0.0.1:80"}) {
    INFO(no_address);
    CHECK(error_of(std::string("metrics: { bind: ") + no_address + " }").find("f.yaml:1: metrics.bind: '") == 0);
  }
  CHECK(error_of("server: { bind: [\"*\", \"::\", \"fe80::1%eth0\"] }\nmetrics: { bind: \"::1\" }") == "no error");
}

TEST_CASE("percentile or letter of notify_keyspace_events is wrong: the error shows what is allowed") {
  CHECK(error_of("log: { latency_percentiles: [50, 101] }") ==
        "f.yaml:1: log.latency_percentiles: '101' is not allowed; allowed: a list of numbers from 0 to 100");
  CHECK(error_of("log: { latency_percentiles: [50, x] }").find("'x' is not allowed") != std::string::npos);
  CHECK(error_of("server: { notify_keyspace_events: KEQ }") ==
        "f.yaml:1: server.notify_keyspace_events: Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
}

TEST_CASE("YAML file has an unknown tag: the error names file and line; YAML's own tags are accepted") {
  CHECK(error_of("server:\n  port: !!foo 1\n") == "f.yaml:2: the tag !!foo is not known; leave it out");
  CHECK(error_of("server: !mine\n  port: 1\n") == "f.yaml:1: the tag !mine is not known; leave it out");
  CHECK(error_of("server:\n  bind: !!python/tuple [127.0.0.1]\n").find("f.yaml:2: the tag !!python/tuple is not") == 0);
  CHECK(error_of("server:\n  password: !!binary\n").find("f.yaml:2: the tag !!binary") == 0);
  CHECK(error_of("server: !!map\n  port: !!int 1\n  password: !!str secret\n") == "no error");
  CHECK(error_of("server: { port: 1 }\n---\n") != "no error");
}

TEST_CASE("storage.backup_dir is empty or has a zero byte: loading is refused") {
  CHECK(error_of("storage: { backup_dir: \"\" }").find("f.yaml:1: storage.backup_dir: '' is not allowed") == 0);
  CHECK(error_of("storage: { backup_dir: \"a\\0b\" }").find("f.yaml:1: storage.backup_dir: ") == 0);
  CHECK(error_of("storage: { backup_dir: a }") == "no error");
}

TEST_CASE("list is given on the command line or in the environment: YAML, commas or spaces separate its items") {
  const auto bind_of = [](const std::string& text, bool environment) {
    ConfigSources sources;
    if (environment) sources.environment = {{"EBBTIDE_SERVER__BIND", text}};
    if (!environment) sources.command_line = {{"server.bind", text}};
    return load_config_text("", "", sources)->bind;
  };
  using List = std::vector<std::string>;
  for (const bool environment : {false, true}) {
    CHECK(bind_of("[127.0.0.1]", environment) == List{"127.0.0.1"});
    CHECK(bind_of("[127.0.0.1, \"::1\"]", environment) == List{"127.0.0.1", "::1"});
    CHECK(bind_of(" [127.0.0.1]", environment) == List{"127.0.0.1"});
    CHECK(bind_of("[::1]", environment) == List{"::1"});
    CHECK(bind_of("127.0.0.1 ::1", environment) == List{"127.0.0.1", "::1"});
    CHECK(bind_of("127.0.0.1,::1", environment) == List{"127.0.0.1", "::1"});
  }
  for (const char* text : {"[]", "[", "[[a]]", "[{a: b}]", "[!!foo a]", "[a] b", "[a]\n---\n[b]"}) {
    INFO(text);
    ConfigSources wrong;
    wrong.command_line = {{"server.bind", text}};
    const auto config = load_config_text("", "", wrong);
    REQUIRE_FALSE(config.is_ok());
    CHECK(config.status().message().find("command line: server.bind: '") == 0);
  }
}

TEST_CASE("text is no YAML mapping, for example commas: loading is refused, but empty text gives the defaults") {
  for (const char* text : {",", ",,", ",,\xfc\xfc^\xfc\xbd", "]", "---\n---\n"}) {
    INFO(text);
    CHECK_FALSE(load_config_text(text, "test.yaml", {}).is_ok());
  }
  for (const char* text : {"", "\n", "# nothing\n", "---\n", "~\n"}) {
    INFO(text);
    CHECK(load_config_text(text, "test.yaml", {}).is_ok());
  }
}

TEST_CASE("value of a tree's setting is not allowed: the error says which values are allowed") {
  CHECK(error_of("tree: { deletes: { deadline: 500ms } }") ==
        "f.yaml:1: tree.deletes.deadline: '500ms' is not allowed; allowed: 0s (no promise), or 1s to 3650d");
  CHECK(error_of("tree: { deletes: { deadline: 0s } }") == "no error");
  CHECK(error_of("databases: { 3: { deletes: { deadline: 30s } } }") == "no error");
  CHECK(error_of("tree: { deletes: { stamp: sometimes } }") ==
        "f.yaml:1: tree.deletes.stamp: 'sometimes' is not allowed; allowed: write_time, expire_time, explicit");
  CHECK(error_of("tree: { partitioning: halves }") ==
        "f.yaml:1: tree.partitioning: 'halves' is not allowed; allowed: size, local_range, global_range");
  CHECK(loaded("tree: { partitioning: global_range }\n").engine.tree.partitioning == Partitioning::kGlobalRange);
  for (const char* right : {"auto", "16KiB", "64GiB"}) {
    CHECK(error_of(std::string("tree: { deletes: { io_budget: ") + right + " } }") == "no error");
  }
  for (const char* wrong : {"16383", "65GiB", "0"}) {
    CHECK(error_of(std::string("databases: { 3: { deletes: { io_budget: ") + wrong + " } } }") != "no error");
  }
  CHECK(error_of("tree: { deletes: { io_budget: 15KiB } }") ==
        "f.yaml:1: tree.deletes.io_budget: '15KiB' is not allowed; allowed: 16KiB to 64GiB, or auto");
  CHECK(error_of("metrics: { console: false }") == "no error");
  CHECK(error_of("metrics: { console: maybe }").find("metrics.console: 'maybe' is not allowed; allowed: true, false") !=
        std::string::npos);
}

TEST_CASE("settings of a tree contradict each other: loading is refused, and the error names the setting") {
  CHECK(error_of("tree: { policy: { name: lsm } }").find("f.yaml:1: tree.policy.name: no policy \"lsm\"") == 0);
  CHECK(error_of("tree: { policy: { size_ratio: 1 } }")
            .find("f.yaml:1: tree.policy.size_ratio: policy one_leveling: size_ratio is 1") == 0);
  CHECK(error_of("tree: { policy: { name: klsm, size_ratio: 1024, runs: 1023, last_runs: 1, runs_0: 512 } }") == "no error");
  CHECK(error_of("tree: { policy: { name: klsm, size_ratio: 1025 } }")
            .find("f.yaml:1: tree.policy.size_ratio: policy klsm: size_ratio is 1025; allowed: a whole number from 2 to 1024") ==
        0);
  CHECK(error_of("tree: { policy: { name: klsm, last_runs: -1 } }")
            .find("f.yaml:1: tree.policy.last_runs: policy klsm: last_runs is -1; allowed: a whole number from 0 to 1023") == 0);
  CHECK(error_of("tree: { policy: { name: leveling, level0_runs: 4 } }").find("no parameter \"level0_runs\"") !=
        std::string::npos);
  CHECK(error_of("databases: { 20: { pages_per_tile: 8 } }").find("databases.20: there are only 16 databases") !=
        std::string::npos);
  CHECK(error_of("databases: { 3: { pages_per_til: 8 } }") ==
        "f.yaml:1: databases.3.pages_per_til: no such key; did you mean databases.3.pages_per_tile?");
  CHECK(error_of("databases: { x: { pages_per_tile: 8 } }").find("databases.x") != std::string::npos);

  const Config config =
      loaded("databases: { 3: { pages_per_tile: 8 } }\ntree: { page_size: 8KiB, policy: { level0_runs: 8 } }\n");
  CHECK(config.engine.overrides.at(3).pages_per_tile == 8);
  CHECK(config.engine.overrides.at(3).page_size == 8192);  // inherited, whatever the order of the keys
  CHECK(config.engine.overrides.at(3).policy.parameters.at("level0_runs") == 8);
  CHECK(config.engine.tree.pages_per_tile == 1);
  const Config other = loaded("tree: { policy: { name: leveling } }");
  CHECK(other.engine.tree.policy.parameters.empty());
}

TEST_CASE("memory sizes contradict each other: loading is refused") {
  CHECK(error_of("storage: { memory_budget: 8MiB, memtable_size: 16MiB }") ==
        "f.yaml: tree.memtable_size is 16MiB, more than storage.memory_budget, which is 8MiB");
  CHECK(error_of("server: { port: 9736 }") == "f.yaml: metrics.port and server.port are both 9736");
}

TEST_CASE("background_threads is not set: it is auto; 1 to 256 are accepted") {
  CHECK(loaded("").engine.background_threads == 0);
  CHECK(loaded("storage: { background_threads: auto }").engine.background_threads == 0);
  CHECK(loaded("storage: { background_threads: 1 }").engine.background_threads == 1);
  CHECK(loaded("storage: { background_threads: 256 }").engine.background_threads == 256);
  for (const std::string wrong : {"0", "257"}) {
    CHECK(error_of("storage: { background_threads: " + wrong + " }") ==
          "f.yaml:1: storage.background_threads: '" + wrong + "' is not allowed; allowed: 1 to 256, or auto");
  }
}

TEST_CASE("tuning setting is beyond its range: the error has the range, whose ends are still accepted") {
  const Config config = loaded("tuning: { auto: \"apply\", rho: 5, window: 1s, expected_workload: [0.2, 0.5, 0.1, 0.2] }");
  CHECK(config.tuning_auto == TuningMode::kApply);
  CHECK(config.tuning_rho == 5);
  CHECK(config.tuning_window_ms == 1000);
  CHECK(config.expected_workload()->range == 0.1);
  CHECK(loaded("tuning: { auto: off, rho: 0, window: 1d, expected_workload: [] }").tuning_window_ms == 86'400'000);
  CHECK_FALSE(loaded("").expected_workload());
  CHECK(error_of("tuning: { auto: on }").find("'on' is not allowed; allowed: off, advise, apply") != std::string::npos);
  CHECK(error_of("tuning: { rho: 5.1 }").find("allowed: 0 to 5") != std::string::npos);
  for (const char* window : {"999ms", "0s", "25h"}) {
    CAPTURE(window);
    CHECK(error_of("tuning: { window: " + std::string(window) + " }").find("allowed: 1s to 1d") != std::string::npos);
  }
  for (const char* mix :
       {"[0.5, 0.5]", "[0.5, 0.5, 0.5, 0.5]", "[1.5, -0.5, 0, 0]", "[a, b, c, d]", "[0.2, 0.2, 0.2, 0.2, 0.2]"}) {
    CAPTURE(mix);
    CHECK(error_of("tuning: { expected_workload: " + std::string(mix) + " }").find("four shares from 0 to 1 that sum to 1") !=
          std::string::npos);
  }
}

TEST_CASE("command line, environment and file have the same key: the command line wins, then the environment") {
  ConfigSources sources;
  sources.environment = {
      {"EBBTIDE_SERVER__PORT", "2"}, {"EBBTIDE_STORAGE__MEMTABLE_SIZE", "2MiB"}, {"EBBTIDE_OTHER", "x"}, {"PATH", "y"}};
  sources.command_line = {{"server.port", "3"}, {"server.bind", "1.2.3.4 ::1"}};
  const Config config = loaded("server: { port: 1, threads: 2, max_clients: 5 }\n", sources);
  CHECK(config.port == 3);
  CHECK(config.engine.tree.memtable_size == 2 << 20);
  CHECK(config.max_clients == 5);
  CHECK(config.bind == std::vector<std::string>{"1.2.3.4", "::1"});
  CHECK(error_of("", {"", {{"EBBTIDE_SERVER__PROT", "1"}}, {}}) ==
        "environment EBBTIDE_SERVER__PROT: server.prot: no such key; did you mean server.port?");
  CHECK(error_of("", {"", {}, {{"server", "1"}}}) == "command line: server: is a section; set one of its keys");
  CHECK(error_of("", {"", {}, {{"server.port", "x"}}}) == "command line: server.port: 'x' is not allowed; allowed: 0 to 65535");
  // A policy from a later source does not inherit the parameters of the earlier policy.
  const Config policy = loaded("tree: { policy: { level0_runs: 8 } }", {"", {}, {{"tree.policy.name", "leveling"}}});
  CHECK(policy.engine.tree.policy.parameters.empty());
}

TEST_CASE("key is given by its older name: its value applies, unless the same source also has the present name") {
  CHECK(loaded("storage: { memtable_size: 1MiB }").engine.tree.memtable_size == 1 << 20);
  CHECK(loaded("storage: { memtable_size: 1MiB }\ntree: { memtable_size: 2MiB }").engine.tree.memtable_size == 2 << 20);
  CHECK(loaded("tree: { memtable_size: 2MiB }\nstorage: { memtable_size: 1MiB }").engine.tree.memtable_size == 2 << 20);
  ConfigSources sources;
  sources.command_line = {{"storage.memtable_size", "4MiB"}};
  const Config config =
      loaded("tree: { memtable_size: 2MiB }\ndatabases: { 3: { page_size: 8KiB }, 4: { memtable_size: 1MiB } }", sources);
  CHECK(config.engine.tree.memtable_size == 4 << 20);
  CHECK(config.engine.tree_for(3).memtable_size == 4 << 20);
  CHECK(config.engine.tree_for(4).memtable_size == 1 << 20);
  CHECK(error_of("storage: { memtable_size: 1KiB }") ==
        "f.yaml:1: storage.memtable_size: '1KiB' is not allowed; allowed: 16KiB to 16GiB");
  // CONFIG REWRITE
  const std::string text = "storage:\n  memtable_size: 1MiB\n";
  Config changed = loaded(text);
  changed.engine.tree.memtable_size = 8 << 20;
  const auto rewritten = rewrite_config(text, "f.yaml", changed);
  REQUIRE(rewritten.is_ok());
  CHECK(loaded(*rewritten).engine.tree.memtable_size == 8 << 20);
}

TEST_CASE("configuration file is shipped: it has every key with its default and a comment") {
  const std::string text = shipped();
  const Config config = loaded(text);
  const Config defaults;
  for (const ConfigKey& key : config_keys()) {
    INFO(key.name);
    CHECK(key.get(config) == key.get(defaults));
    // The file has each value, so that a changed default does not change its meaning.
    const std::string last = key.name.substr(key.name.rfind('.') + 1) + ":";
    CHECK(text.find(last) != std::string::npos);
  }
}

TEST_CASE("value that a configuration key prints is set again: it is accepted, but a value beyond the bounds is refused") {
  Config config;
  std::set<std::string> names, redis_names;
  for (const ConfigKey& key : config_keys()) {
    INFO(key.name);
    CHECK(names.insert(key.name).second);
    if (!key.redis_name.empty()) CHECK(redis_names.insert(key.redis_name).second);
    CHECK(!key.doc.empty());
    CHECK(!key.allowed.empty());
    const std::string before = key.get(config);
    CHECK(key.set(config, before).is_ok());
    CHECK(key.get(config) == before);
    if (key.redis_get) {
      const std::string redis = key.redis_get(config);
      CHECK(key.redis_set(config, redis).is_ok());
      CHECK(key.redis_get(config) == redis);
    }
    if (key.type != ConfigType::kText && key.type != ConfigType::kList) {
      CHECK_FALSE(key.set(config, "no such value").is_ok());
      CHECK_FALSE(key.set(config, "").is_ok());
      CHECK_FALSE(key.set(config, "-1").is_ok());
    }
  }
  for (const char* name : {"server.max_clients", "tree.memtable_size", "tree.pages_per_tile", "tree.filters.bits_per_key"}) {
    INFO(name);
    const ConfigKeyPtr key = find_config_key(name);
    const std::string& allowed = key->allowed;  // "<low> to <high>", perhaps ", or auto"
    const std::string low = allowed.substr(0, allowed.find(" to "));
    const std::string high = allowed.substr(low.size() + 4, allowed.find(',') - low.size() - 4);
    CHECK(key->set(config, low).is_ok());
    CHECK(key->set(config, high).is_ok());
  }
}

TEST_CASE("configuration key has a name in Redis: under this name, values are read and printed in Redis's form") {
  Config config;
  const auto get = [&](const char* name) {
    const ConfigKeyPtr key = find_redis_key(name);
    REQUIRE(key != nullptr);
    return key->redis_get ? key->redis_get(config) : key->get(config);
  };
  CHECK(get("maxclients") == "10000");
  CHECK(get("appendfsync") == "everysec");
  CHECK(get("tcp-keepalive") == "300");
  CHECK(get("protected-mode") == "yes");
  CHECK(get("proto-max-bulk-len") == "536870912");
  CHECK(get("client-output-buffer-limit") ==
        "normal 268435456 67108864 60 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
  CHECK(find_redis_key("maxmemory")->redis_set(config, "100mb").is_ok());
  CHECK(config.engine.memory_budget == 100u << 20);
  CHECK(find_redis_key("maxmemory")->redis_set(config, "0").is_ok());
  CHECK(config.engine.memory_budget == 0);
  CHECK(find_redis_key("timeout")->redis_set(config, "30").is_ok());
  CHECK(config.timeout_ms == 30'000);
  CHECK(find_redis_key("client-output-buffer-limit")->redis_set(config, "normal 1mb 2kb 5").is_ok());
  CHECK(config.output_buffer.soft == 2048);
  CHECK(get("client-output-buffer-limit") == "normal 1048576 2048 5 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
  CHECK(find_redis_key("client-output-buffer-limit")->redis_set(config, "pubsub 3mb 4kb 6 replica 0 0 0").is_ok());
  CHECK(get("client-output-buffer-limit") == "normal 1048576 2048 5 slave 0 0 0 pubsub 3145728 4096 6");
  CHECK(config.pubsub_output_buffer.soft_ms == 6000);
  CHECK_FALSE(find_redis_key("client-output-buffer-limit")->redis_set(config, "monitor 1mb 2kb 5").is_ok());
  CHECK_FALSE(find_redis_key("client-output-buffer-limit")->redis_set(config, "normal 1mb 2kb").is_ok());
}

TEST_CASE("settings of a database without overrides are read: no override is created") {
  Config config;
  CHECK(find_config_key("databases.4.page_size")->get(config) == "4KiB");
  CHECK(config.engine.overrides.empty());
}

TEST_CASE("CONFIG GET names an unknown key: the server stores nothing for it") {
  // Otherwise a client could make memory grow without limit.
  std::weak_ptr<const ConfigKey> asked;
  {
    const ConfigKeyPtr key = find_config_key("tree.policy.nonsense");
    REQUIRE(key != nullptr);
    Config config;
    CHECK(key->get(config).empty());
    CHECK_FALSE(key->set(config, "1").is_ok());
    asked = key;
  }
  CHECK(asked.expired());
  CHECK(find_config_key("tree.page_size") == find_config_key("tree.page_size"));
}

TEST_CASE("no configuration value has changed: CONFIG REWRITE leaves the file as it is") {
  const std::string text = shipped();
  CHECK(rewritten(text, [](Config&) {}) == text);
}

TEST_CASE("configuration values have changed: CONFIG REWRITE changes them in place, and comments and order stay") {
  const std::string text =
      "# top\nserver:   # the server\n  port: 7000 # port\n  bind: [1.2.3.4, '::']   # list\n  password: \"x # y\"  # secret\n"
      "storage: { fsync: always, dir: ./d }  # flow\n# end\n";
  const std::string got = rewritten(text, [](Config& c) {
    set(c, "server.port", "7001");
    set(c, "server.bind", "127.0.0.1 ::1");
    set(c, "server.password", "say \"hi\"");
    set(c, "storage.fsync", "no");
    set(c, "storage.max_open_files", "640");
    set(c, "limits.timeout", "30s");
    set(c, "server.max_clients", "77");
  });
  CHECK(got ==
        "# top\nserver:   # the server\n  max_clients: 77\n  port: 7001 # port\n  bind: [127.0.0.1, \"::1\"]   # list\n"
        "  password: \"say \\\"hi\\\"\"  # secret\n"
        "storage: { max_open_files: 640, fsync: no, dir: ./d }  # flow\n# end\nlimits:\n  timeout: 30s\n");
}

TEST_CASE("keys of the shipped configuration file change: CONFIG REWRITE writes their values, and all comments stay") {
  const std::string text = shipped();
  const std::string got = rewritten(text, [](Config& c) {
    set(c, "server.port", "1234");
    set(c, "limits.client_output_buffer_limit.soft", "1MiB");
    set(c, "tree.policy.size_ratio", "8");
    set(c, "log.file", "/tmp/x.log");
    set(c, "databases.3.pages_per_tile", "8");  // this override copies the defaults of this moment
  });
  CHECK(got.find("  port: 1234\n") != std::string::npos);
  CHECK(got.find("    soft: 1MiB\n") != std::string::npos);
  CHECK(got.find("databases:\n  3:\n    pages_per_tile: 8\n") != std::string::npos);
  CHECK(got.find("    size_ratio: 8\n") != std::string::npos);
  CHECK(std::count(got.begin(), got.end(), '#') == std::count(text.begin(), text.end(), '#'));
}

TEST_CASE("merge policy has changed: CONFIG REWRITE removes the parameters of the old policy") {
  const auto to_leveling = [](Config& c) { set(c, "tree.policy.name", "leveling"); };
  CHECK(rewritten("tree:\n  policy:\n    name: one_leveling\n    size_ratio: 8  # T\n    level0_runs: 4\n  page_size: 8KiB\n",
                  to_leveling) == "tree:\n  policy:\n    name: leveling\n  page_size: 8KiB\n");
  CHECK(rewritten("tree: { policy: { name: one_leveling, size_ratio: 8, level0_runs: 4 }, page_size: 8KiB }\n", to_leveling) ==
        "tree: { policy: { name: leveling }, page_size: 8KiB }\n");
}

TEST_CASE("file has the older name of a key: CONFIG REWRITE leaves one name, with the configured value") {
  const auto to_16 = [](Config& c) { set(c, "tree.memtable_size", "16MiB"); };
  const auto nothing = [](Config&) {};
  const std::string older = "storage:\n  dir: ./d\n  memtable_size: 8MiB\n";
  CHECK(rewritten(older, nothing) == older);
  CHECK(rewritten(older, to_16) == "storage:\n  dir: ./d\ntree:\n  memtable_size: 16MiB\n");
  const std::string both = "storage: { memtable_size: 8MiB, dir: ./d }\ntree:\n  memtable_size: 4MiB  # here\n";
  CHECK(rewritten(both, nothing) == "storage: { dir: ./d }\ntree:\n  memtable_size: 4MiB  # here\n");
  CHECK(rewritten(both, to_16) == "storage: { dir: ./d }\ntree:\n  memtable_size: 16MiB  # here\n");
  CHECK(rewritten("storage: { memtable_size: 8MiB }\n", to_16) == "storage: {  }\ntree:\n  memtable_size: 16MiB\n");
}

TEST_CASE("password is set and the file has password_file: CONFIG REWRITE is refused, since the next start would fail") {
  const std::string text = "server: { password_file: /run/secret }\n";
  Config config = loaded(text);
  set(config, "server.password", "new");
  const auto result = rewrite_config(text, "f.yaml", config);
  REQUIRE_FALSE(result.is_ok());
  CHECK(std::string(result.status().message()).find("server.password and server.password_file are both set") !=
        std::string::npos);
}

TEST_CASE("value in the file is a YAML block list: CONFIG REWRITE is refused, and the error names the key") {
  const std::string text = "server:\n  bind:\n    - 1.2.3.4\n";
  Config config = loaded(text);
  set(config, "server.bind", "127.0.0.1");
  const auto result = rewrite_config(text, "f.yaml", config);
  REQUIRE_FALSE(result.is_ok());
  CHECK(std::string(result.status().message()).find("server.bind") != std::string::npos);
}

TEST_CASE("configuration file is a named pipe or a device: it is refused at once, with its name and the remedy") {
  const std::string pipe = (std::filesystem::temp_directory_path() / ("config_test_pipe" + std::to_string(::getpid()))).string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& file : {pipe, std::string("/dev/null")}) {
    const std::string why =
        file + ": is a pipe or a device, not a regular file; write its content to a file, and give that file's path";
    const auto whole = load_config({.file = file});
    CHECK(std::string(whole.status().message()) == why);
    CHECK(read_text_file(file).status().message() == why);
    Config config = loaded("");
    config.users_file = file;
    CHECK(read_users(config, 1 << 20).status().message() == why);
  }
  std::filesystem::remove(pipe);
}

}  // namespace TEST_FILE

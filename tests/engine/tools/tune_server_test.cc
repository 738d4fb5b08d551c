// Tests that ebbtide-tune understands the reply to TUNE.WORKLOAD, and prints the advice.
#include "tools/tune_server.h"

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

ServedValue text(const std::string& value) { return {false, value, {}}; }
ServedValue array(std::vector<ServedValue> items) { return {true, "", std::move(items)}; }
ServedValue map_of(const std::vector<std::pair<std::string, ServedValue>>& fields) {
  ServedValue out = array({});
  for (const auto& [name, value] : fields) {
    out.items.push_back(text(name));
    out.items.push_back(value);
  }
  return out;
}

ServedValue window(const std::string& start, const std::string& reads, const std::string& writes) {
  return map_of({{"start-ms", text(start)},
                 {"length-ms", text("60000")},
                 {"empty-reads", text("1")},
                 {"reads", text(reads)},
                 {"ranges", text("2")},
                 {"writes", text(writes)},
                 {"range-entries", text("30")},
                 {"deletes", text("4")},
                 {"stamp-deletes", text("5")}});
}

/// The reply of a server to TUNE.WORKLOAD, without fields that the tool does not need. A field of `other` replaces one.
ServedValue reply(const std::pair<std::string, ServedValue>& other = {}) {
  std::vector<std::pair<std::string, ServedValue>> fields = {
      {"database", text("3")},
      {"operations", text("8000000")},
      {"table-entries", text("50000000")},
      {"table-bytes", text("10000000000")},
      {"cache-miss-ratio", text("0.75")},
      {"policy", map_of({{"name", text("leveling")}, {"size_ratio", text("10")}})},
      {"page-size", text("4096")},
      {"memtable-size", text("67108864")},
      {"filter-bits-per-key", text("9.5")},
      {"filter-memory", text("0")},
      {"windows", array({window("6000000", "400000", "4600000"), window("6060000", "400000", "4600000")})}};
  for (auto& [name, value] : fields) {
    if (name == other.first) value = other.second;
  }
  return map_of(fields);
}

std::string error_with(const std::string& field, const ServedValue& value) {
  return workload_of(reply({field, value})).status().to_string();
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("server address has a host, a port, both, or an IPv6 address: it is parsed") {
  TuneServer server;
  REQUIRE(parse_server("db.example:7000", &server).is_ok());
  CHECK((server.host == "db.example" && server.port == 7000 && server.name() == "db.example:7000"));
  server = {};
  REQUIRE(parse_server("[::1]:7001", &server).is_ok());
  CHECK((server.host == "::1" && server.port == 7001 && server.name() == "[::1]:7001"));
  server = {};
  REQUIRE(parse_server("localhost", &server).is_ok());
  CHECK((server.host == "localhost" && server.port == 6379));
  for (const char* wrong : {"", ":6379", "host:", "host:0", "host:65536", "host:1x", "::1", "[::1]6379", "[::1]:"}) {
    CAPTURE(wrong);
    CHECK(says(parse_server(wrong, &server).to_string(), "allowed: HOST:PORT"));
  }
}

TEST_CASE("server's reply is complete: the parsed workload has its values") {
  const auto workload = workload_of(reply());
  REQUIRE(workload.is_ok());
  CHECK((workload->database == 3 && workload->table_entries == 50'000'000 && workload->table_bytes == 10'000'000'000));
  CHECK((workload->cache_miss_ratio == 0.75 && workload->settings.memtable_size == 64 << 20));
  CHECK((workload->settings.page_size == 4096 && workload->settings.filter_bits_per_key == 9.5));
  CHECK(workload->settings.policy.parameters.at("size_ratio") == 10);
  REQUIRE(workload->windows.size() == 2);
  CHECK(workload->windows[1] == WorkloadWindow{6'060'000, 60'000, {1, 400'000, 2, 4'600'000, 30, 4, 5}});
}

TEST_CASE("reply of server 0.1.0 lacks tiles, deadline and device costs: they have defaults") {
  const auto old = workload_of(reply());
  REQUIRE(old.is_ok());
  CHECK((old->pages_per_tile == 1 && old->entries_per_file == 0 && old->device == DeviceCosts()));
  ServedValue newer = reply();
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"pages-per-tile", "0"},
                                                                                    {"pages-per-tile-now", "8"},
                                                                                    {"pages-per-tile-measured", "9"},
                                                                                    {"delete-deadline-ms", "60000"},
                                                                                    {"entries-per-file", "1234.5"},
                                                                                    {"write-asymmetry", "2"},
                                                                                    {"sequential-cost", "0.5"}}) {
    newer.items.push_back(text(name));
    newer.items.push_back(text(value));
  }
  const auto workload = workload_of(newer);
  REQUIRE(workload.is_ok());
  CHECK((workload->settings.pages_per_tile == 0 && workload->pages_per_tile == 8 && workload->measured_pages_per_tile == 9));
  CHECK((workload->settings.delete_deadline == 60'000 && workload->entries_per_file == 1234.5));
  CHECK(workload->device == DeviceCosts{.write_asymmetry = 2, .sequential_cost = 0.5});
  newer.items.back() = text("cheap");
  CHECK(says(workload_of(newer).status().to_string(), "sequential-cost is \"cheap\""));
}

TEST_CASE("reply lacks a field or has a wrong value: the error names the field") {
  CHECK(says(workload_of(text("OK")).status().to_string(), "the field database is missing"));
  CHECK(says(error_with("table-bytes", text("many")), "table-bytes is \"many\""));
  CHECK(says(error_with("table-bytes", text("-1")), "table-bytes is \"-1\""));
  CHECK(says(error_with("cache-miss-ratio", array({})), "cache-miss-ratio is \"\""));
  CHECK(says(error_with("windows", text("none")), "windows is not an array"));
  CHECK(says(error_with("windows", array({map_of({})})), "windows: the field start-ms is missing"));
  CHECK(says(error_with("policy", map_of({{"name", text("fastest")}})), "fastest"));
  CHECK(
      says(error_with("policy", map_of({{"name", text("leveling")}, {"size_ratio", text("x")}})), "policy: size_ratio is \"x\""));
}

TEST_CASE("advice is worth a change: text and JSON have the verdict, the costs and the settings") {
  const Workload workload = *workload_of(reply());
  const auto advice = recommend(workload, {});
  REQUIRE(advice.is_ok());
  REQUIRE(advice->nominal->worthwhile);
  const std::string table = recommendation_text(workload, *advice);
  CHECK(says(table, "Database 3: 1e+07 operations in 2 windows"));
  CHECK(says(table, "Nominal: worth a change: an operation costs"));
  CHECK(says(table, "\ntoday"));
  CHECK(says(table, "\n  CONFIG SET databases.3.policy.name "));
  const std::string json = recommendation_json(workload, *advice);
  CHECK(says(json, "\"nominal\":{\"verdict\":\"worth a change"));
  CHECK(says(json, "\"config\":{\"databases.3.policy.name\":"));
}

TEST_CASE("advice is not worth a change, or there is none: no settings are printed") {
  Workload workload = *workload_of(reply({"policy", map_of({{"name", text("tiering")}, {"size_ratio", text("10")}})}));
  for (WorkloadWindow& w : workload.windows) w.counts = {.reads = 600, .writes = 10};
  const auto dear = recommend(workload, {});
  REQUIRE(dear.is_ok());
  CHECK(says(recommendation_text(workload, *dear), "Nominal: keep the settings"));
  CHECK_FALSE(says(recommendation_text(workload, *dear), "CONFIG SET"));
  CHECK_FALSE(says(recommendation_json(workload, *dear), "\"config\""));
  workload.windows.clear();
  const auto none = recommend(workload, {});
  REQUIRE(none.is_ok());
  CHECK(says(recommendation_text(workload, *none), "no advice: the history has 0 operations, and needs 1000.\n"));
  CHECK(says(recommendation_json(workload, *none), "\"nominal\":null"));
}

}  // namespace TEST_FILE
}  // namespace ebbtide

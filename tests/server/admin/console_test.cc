// Tests of the console's data, and of the clients that may read it.
#include <catch2/catch.hpp>

#include "admin/console.h"

namespace TEST_FILE {

using namespace ebbtide;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("database is not open: the console's JSON has data of the server and none of the engine") {
  ConsoleSnapshot s;
  s.version = "9.9";
  s.not_ready = "the database is being opened";
  s.databases = 16;
  const std::string json = console_json(s);
  CHECK(has(json, "{\"version\":\"9.9\",\"not_ready\":\"the database is being opened\","));
  CHECK(has(json, "\"databases\":[],\"open_tickets\":0,\"tickets\":[]}"));
  CHECK(!has(json, "now_ms"));
  CHECK(!has(json, "tree"));
}

TEST_CASE("tree has pending deletes, jobs and memtables: the console's JSON has them, and omits empty values") {
  ConsoleSnapshot s;
  Stats stats;
  stats.engine_time = 1'000'000;
  stats.deadlines_missed_down = 5;
  stats.deadlines_missed_disk = 4;
  stats.deadlines_missed_load = 1;
  stats.stall_micros_deadline = 70;
  s.engine = stats;
  TreeInfo info;
  info.database = 3;
  RunInfo run;
  run.files = 2;
  run.bytes = 300;
  run.tombstones = 4;
  run.oldest_tombstone_birth = 999'000;
  info.runs = {run};
  info.delete_deadline = 30'000;
  info.oldest_obligation = 998'000;  // the oldest pending delete is in a memtable
  info.oldest_obligation_deadline = 1'028'000;
  s.trees = {info};
  TreeMap map;
  map.database = 3;
  map.policy = "leveling";
  map.delete_deadline = 30'000;
  map.memtables = {{100, 2, 1, 999'500, false}};
  TreeMapRun cells;
  cells.id = 7;
  cells.level = 1;
  cells.files = 2;
  cells.bytes = 300;
  cells.cells = {{11, 1, 0, 0.25, 100, 10, 4, 1, 999'000, true}, {12, 1, 0.25, 1, 200, 20, 0, 0, 0, false}};
  map.runs = {cells};
  map.jobs = {{"merge", "deadline", 2, 300, 0, 1, true}};
  s.map = map;
  s.tickets = {{"purge-5-1", false, 1'020'000, 2, 300}};
  const std::string json = console_json(s);
  CHECK(has(json,
            "{\"db\":3,\"files\":2,\"bytes\":300,\"runs\":1,\"keys\":0,\"tombstones\":4,\"oldest_birth\":998000,"
            "\"oldest_deadline\":1028000,\"deadline_ms\":30000,"));
  CHECK(has(json, "\"missed\":{\"down\":5,\"clock\":0,\"disk\":4,\"damage\":0,\"load\":1}"));
  CHECK(has(json, "\"deadline_us\":70}"));
  CHECK(has(json, "{\"f\":11,\"n\":1,\"x0\":0,\"x1\":0.25,\"b\":100,\"e\":10,\"t\":4,\"r\":1,\"o\":999000,\"busy\":true}"));
  CHECK(has(json, "{\"f\":12,\"n\":1,\"x0\":0.25,\"x1\":1,\"b\":200,\"e\":20}"));
  CHECK(has(json, "{\"kind\":\"merge\",\"reason\":\"deadline\",\"files\":2,\"bytes\":300,\"from\":0,\"to\":1,\"urgent\":true}"));
  CHECK(has(json, "{\"bytes\":100,\"entries\":2,\"tombstones\":1,\"o\":999500,\"frozen\":false}"));
  CHECK(
      has(json, "\"tickets\":[{\"id\":\"purge-5-1\",\"done\":false,\"deadline\":1020000,\"files_left\":2,\"bytes_left\":300}]"));
}

TEST_CASE("database has a workload history: the console's JSON has the mix of operations and its divergence") {
  ConsoleSnapshot s;
  s.workload = WorkloadSummary{
      .total = {.reads = 3, .writes = 1}, .enough = true, .mean = {0, 0.75, 0, 0.25}, .rho = 0.5, .divergence = 0.1};
  CHECK(has(console_json(s),
            "\"workload\":{\"operations\":4,\"empty_read\":0,\"read\":0.75,\"range\":0,\"write\":0.25,\"known\":true,"
            "\"divergence\":0.1,\"rho\":0.5}"));
}

TEST_CASE("text in the console's JSON has quotes or tags: they are escaped") {
  ConsoleSnapshot s;
  s.not_ready = "a\"b\\c</script>\n\xff";
  const std::string json = console_json(s);
  CHECK(has(json, "\"not_ready\":\"a\\u0022b\\u005cc\\u003c/script>\\u000a\\u00ff\""));
}

TEST_CASE("console page is served: it loads no other file, and its Content-Security-Policy allows only its own script") {
  const std::string page(console_page()), policy(console_policy());
  CHECK(page.rfind("<!doctype html>", 0) == 0);
  CHECK(has(page, "</html>"));
  CHECK(!has(page, "@STYLE@"));
  CHECK(!has(page, "@SCRIPT@"));
  CHECK(!has(page, "src=\"http"));
  CHECK(!has(page, "innerHTML"));
  CHECK(has(policy, "default-src 'none'"));
  CHECK(has(policy, "script-src 'sha256-"));
  CHECK(has(policy, "frame-ancestors 'none'"));
  CHECK(!has(policy, "unsafe"));
}

TEST_CASE("console listens on loopback: only loopback names are accepted as Host; on 0.0.0.0 every name is accepted") {
  for (const char* host : {"localhost:9736", "localhost", "127.0.0.1:9736", "127.0.0.1", "[::1]:9736", "[::1]"}) {
    INFO(host);
    CHECK(console_host_allowed(host, "127.0.0.1"));
    CHECK(console_host_allowed(host, "::1"));
  }
  for (const char* host : {"evil.example", "evil.example:9736", "127.0.0.1.evil.example:9736", "127.evil.example",
                           "10.0.0.1:9736", "", "[::2]", "[", "localhost.evil.example"}) {
    INFO(host);
    CHECK(!console_host_allowed(host, "127.0.0.1"));
    CHECK(console_host_allowed(host, "0.0.0.0"));
  }
}

TEST_CASE("database has an index: the console gets its tree with the names of both") {
  ConsoleSnapshot s;
  TreeInfo info;
  info.database = index_tree(2, 3);
  info.estimated_keys = 9;
  s.index_trees = {{.name = "towns", .building = true, .info = info}};
  INFO(console_json(s));
  CHECK(has(console_json(s), R"({"db":3074,"owner":2,"index":"towns","building":true,"files":0)"));
}

}  // namespace TEST_FILE

// Tests of the inputs that ebbtide-tune accepts, and of its errors for others.
#include "tools/tune_inputs.h"

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

TuneValues smallest_values() {
  return {{"entries", "100M"}, {"entry_size", "200"}, {"memory", "512MiB"}, {"workload", "0.2,0.4,0.1,0.3"}};
}

std::string error_with(const std::string& key, const std::string& value) {
  TuneValues values = smallest_values();
  values[key] = value;
  return parse_tune_inputs(values).status().to_string();
}

TEST_CASE("bytes and counts are parsed: bytes have units like MiB, and counts have units like G") {
  CHECK(*parse_bytes("memory", "512MiB") == 512 * 0x1p20);
  CHECK(*parse_bytes("memory", "1.5 GiB") == 1.5 * 0x1p30);
  CHECK(*parse_bytes("memory", "4096") == 4096);
  CHECK(*parse_count("entries", "10G") == 1e10);
  CHECK(*parse_count("entries", "1e10") == 1e10);
  CHECK(parse_bytes("memory", "3GB").status().to_string().find("memory is \"3GB\"; allowed: bytes, or a number with KiB") !=
        std::string::npos);
  CHECK_FALSE(parse_count("entries", "10GiB").is_ok());
  CHECK_FALSE(parse_count("entries", "").is_ok());
  CHECK_FALSE(parse_count("entries", "inf").is_ok());
}

TEST_CASE("workload is given as shares or percentages: it is scaled to a sum of 1") {
  const auto thirds = parse_workload("workload", "33,33,33,1");
  REQUIRE(thirds.is_ok());
  CHECK(check_mix(*thirds).is_ok());
  CHECK((*thirds)[kWrite] == Approx(0.01));
  CHECK(parse_workload("workload", "0.25, 0.25, 0.25, 0.25").is_ok());
  CHECK_FALSE(parse_workload("workload", "0.5,0.5").is_ok());
  CHECK_FALSE(parse_workload("workload", "0.5,0.5,0.5,0.5").is_ok());
  CHECK_FALSE(parse_workload("workload", "-1,1,1,0").is_ok());
  CHECK((*parse_workload("workload", "w7"))[kWrite] == 0.49);
  CHECK_FALSE(parse_workload("workload", "w15").is_ok());
}

TEST_CASE("value without a default is missing: the error names its key") {
  for (const char* key : {"entries", "entry_size", "memory"}) {
    TuneValues values = smallest_values();
    values.erase(key);
    CHECK(parse_tune_inputs(values).status().to_string().find(std::string(key) + " is missing") != std::string::npos);
  }
}

TEST_CASE("some inputs are given: they are used, and all others have their defaults") {
  TuneValues values = smallest_values();
  values["layout"] = "klsm";
  values["runs"] = "4,4,1";
  values["buffer"] = "128MiB";
  values["layouts"] = "tiering,klsm";
  values["size_ratios"] = "4,9";
  values["rho"] = "0.5";
  values["max_merge"] = "1GiB";
  const auto in = parse_tune_inputs(values);
  REQUIRE(in.is_ok());
  CHECK(in->request.system.entries == 1e8);
  CHECK(in->request.system.memory_bits == 512 * 0x1p23);
  CHECK(in->request.system.page_bytes == 4096);
  CHECK(in->request.system.filter_curve == FilterCurve::kIdeal);
  CHECK(in->request.equations == Equations::kEngine);
  CHECK(in->tuning.runs == std::vector<double>{4, 4, 1});
  CHECK(in->tuning.buffer_bits == 128 * 0x1p23);
  CHECK(in->tuning.filter_bits == 384 * 0x1p23);
  CHECK(in->request.layouts == std::vector<Layout>{Layout::kTiering, Layout::kKlsm});
  CHECK(in->request.size_ratio_min == 4);
  CHECK(in->request.size_ratio_max == 9);
  CHECK(in->request.limits.longest_merge_bytes == 0x1p30);
  CHECK(std::isinf(in->request.limits.write));
}

TEST_CASE("input has a wrong value: the error names its key") {
  CHECK(error_with("layout", "levelling").find("layout is \"levelling\"; allowed: leveling, tiering") != std::string::npos);
  CHECK(error_with("equations", "endure").find("equations is \"endure\"; allowed: engine, paper, paper_relaxed") !=
        std::string::npos);
  CHECK(error_with("buffer", "1GiB").find("buffer is \"1GiB\"; allowed: at most the memory") != std::string::npos);
  CHECK(error_with("miss_ratios", "0.5,2").find("miss_ratios is 2; allowed: 0 to 1") != std::string::npos);
  CHECK(error_with("size_ratios", "9,2").find("size_ratios is \"9,2\"") != std::string::npos);
  CHECK(error_with("workload_low", "0,0,0,0").find("give both") != std::string::npos);
  CHECK(error_with("write_asymmetry", "twice").find("allowed: a number") != std::string::npos);
}

TEST_CASE("rho is given, and also bounds or a workload for computing it: parsing fails") {
  TuneValues values = smallest_values();
  values["unlikely_workload"] = "0,0,0,1";
  const auto between = parse_tune_inputs(values);
  REQUIRE(between.is_ok());
  CHECK(between->request.rho > 0.5);
  values["rho"] = "1";
  CHECK(parse_tune_inputs(values).status().to_string().find("give only one of rho") != std::string::npos);
  values = smallest_values();
  values["workload_low"] = "0,0.2,0,0.1";
  values["workload_high"] = "0.5,0.8,0.2,0.5";
  CHECK_FALSE(parse_tune_inputs(values).is_ok());  // the values have a mix, too
  values.erase("workload");
  const auto ranges = parse_tune_inputs(values);
  REQUIRE(ranges.is_ok());
  CHECK(ranges->request.rho > 0.1);
  CHECK(check_mix(ranges->request.mix).is_ok());
}

TEST_CASE("input file has values, lists and a map of shares: all are read") {
  const auto values = parse_tune_file(
      "entries: 100M\nentry_size: 200\nmemory: 512MiB\nruns: [4, 2]\n"
      "workload: {empty_read: 0.2, read: 0.4, range: 0.1, write: 0.3}\n");
  REQUIRE(values.is_ok());
  CHECK(values->at("runs") == "4,2");
  CHECK(values->at("workload") == "0.2,0.4,0.1,0.3");
  CHECK(parse_tune_inputs(*values).is_ok());
  CHECK(parse_tune_file("entires: 5").status().to_string().find("unknown key entires") != std::string::npos);
  CHECK_FALSE(parse_tune_file("- 1\n- 2").is_ok());
  CHECK_FALSE(parse_tune_file("workload: {empty_read: 1, reads: 0, range: 0, write: 0}").is_ok());
  CHECK_FALSE(parse_tune_file("entries: {a: 1}").is_ok());
  CHECK_FALSE(parse_tune_file("a: b: c").is_ok());
}

TEST_CASE("memory is given in bits per entry: it is multiplied by the number of entries") {
  TuneValues values = smallest_values();
  values.erase("memory");
  values["memory_bits_per_entry"] = "10";
  const auto in = parse_tune_inputs(values);
  REQUIRE(in.is_ok());
  CHECK(in->request.system.memory_bits == 1e9);
  values["entries"] = "1000";  // 1,250 bytes of memory: half of them are the smallest buffer
  CHECK(tune(parse_tune_inputs(values)->request).is_ok());
  values["memory"] = "1GiB";
  CHECK(parse_tune_inputs(values).status().to_string().find("cannot be given together") != std::string::npos);
}

TEST_CASE("what-if question has the form key=value: its change is parsed") {
  CHECK(parse_change("memory=2GiB")->memory_bits == 0x1p34);
  CHECK(parse_change("entries=1G")->entries == 1e9);
  CHECK((*parse_change("workload=0,0,0,1")->mix)[kWrite] == 1);
  CHECK(parse_change("buffer=1").status().to_string().find("\"buffer\" cannot change; allowed: workload, memory") !=
        std::string::npos);
  CHECK_FALSE(parse_change("memory").is_ok());
  CHECK_FALSE(parse_change("memory=").is_ok());
}

TEST_CASE("history of operations has a wrong line: the error has the number of the line") {
  const auto windows = parse_history("empty,read,range,write\n# comment\n1000,2000,30,4\r\n\n5,6,7,8\n");
  REQUIRE(windows.is_ok());
  REQUIRE(windows->size() == 2);
  CHECK(windows->front() == PerOperation{1000, 2000, 30, 4});
  CHECK(parse_history("1,2,3,4\n1,2,3\n").status().to_string().find("line 2") != std::string::npos);
  CHECK_FALSE(parse_history("1,2,3,x\n").is_ok());
}

TEST_CASE("tuner's keys are listed: each has a group and a help text, and occurs once") {
  std::map<std::string, int> seen;
  for (const TuneKey& key : tune_keys()) {
    CHECK(++seen[key.name] == 1);
    CHECK(std::string(key.help).size() > 5);
    CHECK(std::string(key.group).size() > 3);
  }
}

}  // namespace TEST_FILE
}  // namespace ebbtide

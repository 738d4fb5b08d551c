// Tests of the measurement of a device, on a device whose times are known.
#include "tools/tune_device.h"

#include <catch2/catch.hpp>

#include "io/interposed_fs.h"
#include "io/memory_fs.h"
#include "tools/tune_inputs.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr std::uint64_t kFile = std::uint64_t{8} << 20;

/// A device with known times: a random read takes 2 ms up to 16 KiB and 3 ms above; a sequential read of a chunk (kDevicePiece)
/// takes 64 ms, and a write of a chunk 128 ms.
class TimedFileSystem final : public InterposedFileSystem {
 public:
  TimedFileSystem(FileSystem& base, SimulatedClock& clock) : InterposedFileSystem(base), clock_(clock) {}
  FileOp failing = FileOp::kRename;  ///< calls of this kind fail; the measurement renames nothing

 private:
  Status around(const FileCall& call, const Run& run) override {
    if (call.op == failing) return Status::io_error("planted");
    if (call.op == FileOp::kRead) clock_.advance(call.length == kDevicePiece ? 64 : call.length <= 16384 ? 2 : 3);
    if (call.op == FileOp::kWrite) clock_.advance(128);
    return run(call.length);
  }
  SimulatedClock& clock_;
};

struct Fixture {
  MemoryFileSystem memory;
  SimulatedClock clock;
  TimedFileSystem fs{memory, clock};
  DeviceTest test;
  Fixture() {
    REQUIRE(memory.create_dir("d").is_ok());
    test.dir = "d";
    test.file_bytes = kFile;
    test.random_reads = 50;
  }
  [[nodiscard]] bool file_exists() { return memory.exists(std::string("d/") + kDeviceFileName); }
};

TEST_CASE("device has simulated latencies: measure_device() computes its cost figures from them and removes its test file") {
  Fixture f;
  const auto figures = measure_device(f.fs, f.clock, f.test);
  REQUIRE(figures.is_ok());
  const double expected_us[] = {2000, 2000, 2000, 3000, 3000};
  for (std::size_t i = 0; i < 5; ++i) CHECK(figures->random_read_us[i] == Approx(expected_us[i]));
  CHECK(figures->page_bytes == 16384);
  CHECK(figures->sequential_cost == Approx(64.0 / 64 / 2));  // a chunk of 64 pages takes 64 ms, a page at a random offset 2 ms
  CHECK(figures->write_asymmetry == Approx(2));
  CHECK_FALSE(figures->direct);
  CHECK_FALSE(f.file_exists());
}

TEST_CASE("measured costs of a device are printed as YAML: ebbtide-tune reads them") {
  Fixture f;
  const auto figures = measure_device(f.fs, f.clock, f.test);
  REQUIRE(figures.is_ok());
  auto values = parse_tune_file(device_yaml(*figures));
  REQUIRE(values.is_ok());
  CHECK(*values == TuneValues{{"page_size", "16KiB"}, {"sequential_cost", "0.5"}, {"write_asymmetry", "2"}});
  CHECK(device_json(*figures).find("\"sequential_cost\":0.5") != std::string::npos);
}

TEST_CASE("file operation of measure_device() fails: it returns the error and removes its test file") {
  for (const FileOp op : {FileOp::kWrite, FileOp::kSync, FileOp::kOpen, FileOp::kRead}) {
    Fixture f;
    f.fs.failing = op;
    CAPTURE(file_op_name(op));
    CHECK(measure_device(f.fs, f.clock, f.test).status().to_string().find("planted") != std::string::npos);
    CHECK_FALSE(f.file_exists());
  }
}

TEST_CASE("stop of measure_device() is requested: it ends at once and removes its test file") {
  Fixture f;
  int calls = 0;
  f.test.stopped = [&] { return ++calls == 5; };
  CHECK(measure_device(f.fs, f.clock, f.test).status().code() == Code::kAborted);
  CHECK(calls == 5);
  CHECK_FALSE(f.file_exists());
}

TEST_CASE("disk lacks space for the test file: measure_device() writes nothing") {
  Fixture f;
  f.memory.set_capacity(kFile);
  CHECK(measure_device(f.fs, f.clock, f.test).status().code() == Code::kNoSpace);
  CHECK(f.memory.used_bytes() == 0);
  f.memory.set_capacity(kFile * 2);
  CHECK(measure_device(f.fs, f.clock, f.test).is_ok());
}

TEST_CASE("file with the test file's name exists: measure_device() neither overwrites nor removes it") {
  Fixture f;
  REQUIRE(f.memory.create(std::string("d/") + kDeviceFileName).is_ok());
  CHECK(measure_device(f.fs, f.clock, f.test).status().code() == Code::kExists);
  CHECK(f.file_exists());
}

TEST_CASE("measure_device() takes longer than two seconds: it reports its progress") {
  Fixture f;
  std::vector<std::string> lines;
  f.test.progress = [&](const std::string& line) { lines.push_back(line); };
  f.test.file_bytes = std::uint64_t{32} << 20;  // 4.1 s of writes, 2 s of reads
  REQUIRE(measure_device(f.fs, f.clock, f.test).is_ok());
  REQUIRE(lines.size() >= 2);
  CHECK(lines[0] == "writing, 50 %");
}

TEST_CASE("file size or number of reads is out of range: measure_device() returns an error") {
  Fixture f;
  f.test.file_bytes = 1000;
  CHECK(measure_device(f.fs, f.clock, f.test).status().to_string().find("allowed: 1MiB or more") != std::string::npos);
  f.test.file_bytes = kFile;
  f.test.random_reads = 0;
  CHECK_FALSE(measure_device(f.fs, f.clock, f.test).is_ok());
}

}  // namespace TEST_FILE
}  // namespace ebbtide

// Tests of the progress that a tool shows if it takes long.
#include "tools/inspect_progress.h"

#include <vector>

#include <catch2/catch.hpp>

#include "io/memory_fs.h"

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("tool runs long: it reports its progress every two seconds, first after two") {
  MemoryFileSystem files;
  SimulatedClock clock;
  std::vector<std::string> told;
  InspectProgress progress(files, clock, [&](const std::string& line) { told.push_back(line); });
  REQUIRE(progress.create_dir("data").is_ok());
  auto file = progress.create("data/a.data");
  REQUIRE(file.is_ok());
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 16; ++i) {
    clock.advance(150);
    REQUIRE((*file)->append(block).is_ok());
  }
  CHECK(told == std::vector<std::string>{"0.00 GiB read, 0.01 GiB written, in a.data"});
  CHECK(read_file(progress, "data/a.data")->size() == 16 * block.size());
  CHECK(told.size() == 1);
  clock.advance(2000);
  CHECK_FALSE(progress.open("data/none").is_ok());
  CHECK(told.back() == "0.02 GiB read, 0.02 GiB written, in none");
}

}  // namespace TEST_FILE

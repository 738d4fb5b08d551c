#include "resp/gathered_memory.h"

#include <catch2/catch.hpp>

#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ebbtide {
namespace TEST_FILE {

TEST_CASE("gathered memory has allocations of every size: each keeps its bytes until all are released") {
  GatheredMemory memory;
  std::vector<std::pair<Bytes, std::string>> pieces;
  for (std::size_t i = 0; i < 3000; ++i) {
    const std::size_t bytes = i % 500 == 499 ? (i * 1000) : i % 700;
    std::string expected(bytes, static_cast<char>('a' + i % 26));
    const Bytes copy = memory.copy(expected);
    CHECK(reinterpret_cast<std::uintptr_t>(copy.data()) % 8 == 0);
    pieces.emplace_back(copy, std::move(expected));
  }
  GatheredMemory moved(std::move(memory));
  for (const auto& [copy, expected] : pieces) REQUIRE(copy == expected);
  CHECK(memory.memory_bytes() == 0);  // NOLINT: empty after the move
  std::thread([&moved] { moved.release(); }).join();
  CHECK(moved.memory_bytes() == 0);
  CHECK(moved.copy("again") == "again");
}

TEST_CASE("gathered memory grows: few allocations take little memory, and many get theirs from the system") {
  GatheredMemory memory;
  memory.allocate(100);
  CHECK(memory.memory_bytes() == GatheredMemory::kFirstBlockBytes);
  CHECK(memory.system_bytes() == 0);
  for (int i = 0; i < 100'000; ++i) memory.allocate(1000);
  CHECK(memory.memory_bytes() < 104'000'000);
  CHECK(memory.memory_bytes() - memory.system_bytes() < 2 * GatheredMemory::kSystemBytes);
  memory.allocate(3'000'000);  // this takes a block of its own
  CHECK(memory.memory_bytes() - memory.system_bytes() < 2 * GatheredMemory::kSystemBytes);
}

}  // namespace TEST_FILE
}  // namespace ebbtide

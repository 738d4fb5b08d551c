// Tests of the arena: its memory lives as long as the arena.
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "base/arena.h"
#include "base/random.h"

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("memory of any size is allocated from an arena: it is aligned, and neither overlaps other memory nor moves") {
  Arena arena(64 << 10);
  std::vector<std::thread> threads;
  std::vector<std::vector<std::pair<char*, std::size_t>>> pieces(3);
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Random random(t);
      for (int i = 0; i < 3000; ++i) {
        const std::size_t size = 1 + random.uniform(i % 100 == 0 ? 100'000 : 300);
        char* piece = arena.allocate(size);
        std::fill(piece, piece + size, static_cast<char>('a' + t));
        pieces[t].emplace_back(piece, size);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::size_t total = 0;
  bool intact = true;
  for (std::size_t t = 0; t < 3; ++t) {
    for (auto [piece, size] : pieces[t]) {
      intact &= reinterpret_cast<std::uintptr_t>(piece) % 8 == 0;
      for (std::size_t i = 0; i < size; ++i) intact &= piece[i] == static_cast<char>('a' + t);
      total += size;
    }
  }
  CHECK(intact);
  CHECK(arena.memory_bytes() >= total);
}

TEST_CASE("allocations fill an arena: memory_bytes() exceeds the allocated bytes by at most one block") {
  Arena arena(2 << 20);
  CHECK(arena.memory_bytes() == 0);
  std::size_t used = 0;
  for (int i = 0; i < 100'000; ++i, used += 100) {
    REQUIRE(arena.memory_bytes() <= std::max<std::size_t>(4096, 2 * used + used / 8));
    arena.allocate(96);
  }
  CHECK(arena.memory_bytes() <= used + (2 << 20));
}

TEST_CASE("thread frees an arena that another thread filled: the arena's large blocks are unmapped at once") {
  auto arena = std::make_unique<Arena>();
  char* own = nullptr;    // a large allocation has a block of its own
  char* small = nullptr;  // a small allocation in a block of 2 MiB
  std::thread([&] {
    own = arena->allocate(1'000'000);
    for (int i = 0; i < 10'000; ++i) std::memset(small = arena->allocate(1'000), 1, 1'000);
  }).join();
  const auto mapped = [](const char* piece) {
    const auto page = reinterpret_cast<std::uintptr_t>(piece) & ~std::uintptr_t{4095};
    unsigned char resident = 0;
    return ::mincore(reinterpret_cast<void*>(page), 1, &resident) == 0;
  };
  CHECK(mapped(own));
  CHECK(mapped(small));
  arena.reset();
  CHECK_FALSE(mapped(own));
  CHECK_FALSE(mapped(small));
}

}  // namespace TEST_FILE

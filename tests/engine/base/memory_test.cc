// Arena, epoch and pools: the parts that several threads share.
#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include <catch2/catch.hpp>

#include "base/arena.h"
#include "base/background_pool.h"
#include "base/epoch.h"
#include "base/random.h"

using namespace ebbtide;

TEST_CASE("arena: pieces are aligned, apart, and stay where they are") {
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

TEST_CASE("arena: with little in it, it takes little; with much, at most one block more than is in it") {
  Arena arena(2 << 20);
  CHECK(arena.memory_bytes() == 0);
  std::size_t used = 0;
  for (int i = 0; i < 100'000; ++i, used += 100) {
    REQUIRE(arena.memory_bytes() <= std::max<std::size_t>(4096, 2 * used + used / 8));
    arena.allocate(96);
  }
  CHECK(arena.memory_bytes() <= used + (2 << 20));
}

TEST_CASE("epoch: what a guard can see is freed only after it is left") {
  Epoch epoch;
  bool freed = false;
  {
    EpochGuard outer(epoch);
    epoch.retire([&] { freed = true; });
    epoch.collect();
    CHECK_FALSE(freed);
    {
      EpochGuard inner(epoch);
      epoch.collect();
    }
    epoch.collect();
    CHECK_FALSE(freed);
  }
  epoch.collect();
  CHECK(freed);
}

TEST_CASE("epoch: a guard entered later holds nothing back that was retired before") {
  Epoch epoch;
  bool freed = false;
  epoch.retire([&] { freed = true; });
  EpochGuard guard(epoch);
  epoch.collect();
  CHECK(freed);
}

TEST_CASE("epoch: readers never see what was freed, with threads coming and going", "[threads]") {
  struct Node {
    std::atomic<std::uint64_t> alive{0x11feull};
  };
  Epoch epoch;
  std::atomic<Node*> current{new Node};
  std::atomic<bool> stop{false}, bad{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!stop) {
        std::thread([&] {
          for (int i = 0; i < 200; ++i) {
            EpochGuard guard(epoch);
            if (current.load()->alive.load() != 0x11feull) bad = true;
          }
        }).join();
      }
    });
  }
  for (int i = 0; i < 5000; ++i) {
    Node* old = current.exchange(new Node);
    epoch.retire([old] {
      old->alive = 0;
      delete old;
    });
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  epoch.collect();
  CHECK_FALSE(bad);
  CHECK(epoch.pending() == 0);
  delete current.load();
}

TEST_CASE("epoch: the end frees the rest, what freeing retires included") {
  int freed = 0;
  {
    Epoch epoch;
    epoch.retire([&] {
      ++freed;
      epoch.retire([&] { ++freed; });
    });
  }
  CHECK(freed == 2);
}

TEST_CASE("pools: high priority first, and every task once", "[threads]") {
  ManualPool manual;
  std::string order;
  manual.submit(Priority::kLow, [&] { order += 'l'; });
  manual.submit(Priority::kHigh, [&] { order += 'h'; });
  manual.submit(Priority::kLow, [&] { order += 'm'; });
  CHECK(manual.queued() == 3);
  manual.run_all();
  CHECK(order == "hlm");
  CHECK_FALSE(manual.run_one());

  std::atomic<int> ran{0};
  {
    ThreadPool pool(3, "test", 0);
    CHECK(pool.width() == 3);
    for (int i = 0; i < 1000; ++i) pool.submit(i % 2 == 0 ? Priority::kHigh : Priority::kLow, [&] { ++ran; });
    while (ran < 1000) pool.run_one();
  }
  CHECK(ran == 1000);
}

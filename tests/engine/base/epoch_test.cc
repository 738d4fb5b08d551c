// Epochs: what readers may see is not freed.
#include <atomic>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "base/epoch.h"

using namespace ebbtide;

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

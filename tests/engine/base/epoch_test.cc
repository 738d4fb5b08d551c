// Tests of epochs: objects that a reader may see are not freed.
#include <atomic>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "base/epoch.h"

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("objects are retired while a guard is alive: they are freed only after it ends") {
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

TEST_CASE("guard begins after objects were retired: it does not delay their freeing") {
  Epoch epoch;
  bool freed = false;
  epoch.retire([&] { freed = true; });
  EpochGuard guard(epoch);
  epoch.collect();
  CHECK(freed);
}

TEST_CASE("threads with guards start and end: no reader sees a freed object", "[threads]") {
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

TEST_CASE("epoch is destroyed: it frees all retired objects, also those retired meanwhile") {
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

}  // namespace TEST_FILE

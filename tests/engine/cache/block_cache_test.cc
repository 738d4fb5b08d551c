#include "cache/block_cache.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "cache/striped_counter.h"

namespace ebbtide {
namespace TEST_FILE {

/// Returns bytes that only the block of this key has.
std::string page_of(BlockKey key, std::size_t size = 4096) {
  std::string page(size, '\0');
  Random random(key.file * 1'000'003 + key.offset);
  for (char& c : page) c = static_cast<char>(random.next());
  return page;
}

TEST_CASE("blocks are inserted: they are found, and other blocks are not") {
  Epoch epoch;
  BlockCache cache(8 << 20, epoch);
  const auto pin = cache.insert({1, 4096}, page_of({1, 4096}));
  EpochGuard guard(epoch);
  const CachedBlock* block = cache.lookup({1, 4096});
  REQUIRE(block != nullptr);
  CHECK(block == pin.get());
  CHECK(block->bytes() == page_of({1, 4096}));
  CHECK(cache.lookup({1, 8192}) == nullptr);
  CHECK(cache.lookup({2, 4096}) == nullptr);
  CHECK(cache.pin({1, 4096}).get() == block);
  CHECK(cache.pin({3, 0}) == nullptr);
  cache.insert({4, 0}, "");
  REQUIRE(cache.lookup({4, 0}) != nullptr);
  CHECK(cache.lookup({4, 0})->size == 0);
}

TEST_CASE("block is read and used several times: a miss is counted, and a hit for each use but the first") {
  Epoch epoch;
  BlockCache cache(8 << 20, epoch);
  EpochGuard guard(epoch);
  CHECK(cache.lookup({1, 0}) == nullptr);
  CHECK(cache.pin({1, 0}) == nullptr);
  CHECK((cache.hits() == 0 && cache.misses() == 0));
  cache.insert({1, 0}, "page");
  CHECK((cache.hits() == 0 && cache.misses() == 1));
  const CachedBlock* block = cache.lookup({1, 0});
  REQUIRE(block != nullptr);
  CHECK((cache.hits() == 0 && cache.misses() == 1));
  CHECK(cache.lookup({1, 0}) == block);
  cache.use(block);
  CHECK(cache.pin({1, 0}).get() == block);
  CHECK((cache.hits() == 2 && cache.misses() == 1));
}

TEST_CASE("block is inserted twice: the second insert() returns the first block") {
  Epoch epoch;
  BlockCache cache(1 << 20, epoch);
  const auto first = cache.insert({1, 0}, "one");
  const auto second = cache.insert({1, 0}, "another");
  CHECK(first == second);
  CHECK(second->bytes() == "one");
}

TEST_CASE("blocks are inserted at random: usage stays within capacity, and found blocks are correct") {
  for (std::uint64_t seed = 1; seed <= 8; seed++) {
    CAPTURE(seed);
    Random random(seed);
    Epoch epoch;
    const std::uint64_t capacity = (256 << 10) + random.uniform(4 << 20);
    BlockCache cache(capacity, epoch);
    std::map<std::pair<FileNum, std::uint64_t>, std::size_t> put;
    for (int i = 0; i < 5000; i++) {
      const BlockKey key{1 + random.uniform(5), random.uniform(2000) * 512};
      if (random.one_in(2)) {
        const std::size_t size = put.try_emplace({key.file, key.offset}, random.uniform(6000)).first->second;
        REQUIRE(cache.insert(key, page_of(key, size))->bytes() == page_of(key, size));
      } else {
        EpochGuard guard(epoch);
        const CachedBlock* block = cache.lookup(key);
        const CachedBlock* guess = cache.guess(key, cache.start(key));
        const BlockKey other{1 + random.uniform(5), random.uniform(2000) * 512};
        if (random.one_in(4)) guess = cache.guess(other, cache.start(other));  // a guess may be wrong
        REQUIRE(cache.confirm(key, guess) == block);
        if (block != nullptr) cache.use(block);
        auto it = put.find({key.file, key.offset});
        if (it == put.end()) {
          REQUIRE(block == nullptr);
        } else if (block != nullptr) {
          REQUIRE(block->bytes() == page_of(key, it->second));
        }
      }
      REQUIRE(cache.usage() <= capacity);
    }
    CHECK(cache.usage() > capacity / 2);
  }
}

TEST_CASE("cache is full: blocks that are looked up repeatedly stay, and others are evicted") {
  Epoch epoch;
  BlockCache cache(1 << 20, epoch);
  constexpr std::uint64_t kHot = 50;
  for (std::uint64_t i = 0; i < kHot; i++) cache.insert({1, i}, page_of({1, i}));
  for (std::uint64_t i = 0; i < 5000; i++) {
    cache.insert({2, i}, page_of({2, i}));
    if (i % 50 == 0) {
      EpochGuard guard(epoch);
      for (std::uint64_t h = 0; h < kHot; h++) REQUIRE(cache.lookup({1, h}) != nullptr);
    }
  }
  EpochGuard guard(epoch);
  CHECK(cache.lookup({2, 0}) == nullptr);
  CHECK(cache.lookup({2, 4999}) != nullptr);  // the latest block would be evicted last
}

TEST_CASE("blocks are found by confirm() or pin(), and used: they stay in the cache like blocks that are looked up") {
  Epoch epoch;
  BlockCache cache(1 << 20, epoch);
  constexpr std::uint64_t kHot = 25;
  for (const FileNum file : {FileNum{1}, FileNum{2}}) {
    for (std::uint64_t i = 0; i < kHot; i++) cache.insert({file, i}, page_of({file, i}));
  }
  for (std::uint64_t i = 0; i < 5000; i++) {
    cache.insert({3, i}, page_of({3, i}));
    if (i % 50 != 0) continue;
    EpochGuard guard(epoch);
    for (std::uint64_t h = 0; h < kHot; h++) {
      const CachedBlock* const used = cache.confirm({1, h}, cache.guess({1, h}, cache.start({1, h})));
      REQUIRE(used != nullptr);
      cache.use(used);
      const auto pin = cache.pin({2, h});
      REQUIRE(pin != nullptr);
      cache.use(pin.get());
    }
  }
}

TEST_CASE("evicted block is pinned or under a guard: it stays readable") {
  Epoch epoch;
  std::shared_ptr<const CachedBlock> outlives_cache;
  {
    BlockCache cache(1 << 20, epoch);
    auto pin = cache.insert({1, 0}, page_of({1, 0}));
    {
      EpochGuard guard(epoch);
      cache.insert({1, 1}, page_of({1, 1}));
      const CachedBlock* guarded = cache.lookup({1, 1});
      cache.erase_file(1);
      CHECK(cache.lookup({1, 1}) == nullptr);
      CHECK(cache.lookup({1, 0}) == nullptr);
      CHECK(guarded->bytes() == page_of({1, 1}));
      CHECK(pin->bytes() == page_of({1, 0}));
      CHECK(cache.usage() > 2 * 4096);  // neither block is freed yet, and usage includes both
    }
    epoch.collect();
    CHECK(cache.usage() > 4096);
    CHECK(cache.usage() < 2 * 4096);
    CHECK(pin->bytes() == page_of({1, 0}));
    pin.reset();
    CHECK(cache.usage() < 4096);
    outlives_cache = cache.insert({1, 2}, page_of({1, 2}));
  }
  CHECK(outlives_cache->bytes() == page_of({1, 2}));
}

TEST_CASE("some blocks of a file were evicted: erase_file() removes the file's remaining blocks") {
  Epoch epoch;
  BlockCache cache(2 << 20, epoch);
  Random random(5);
  for (int round = 0; round < 20; ++round) {
    for (std::uint64_t i = 0; i < 600; ++i) {
      const BlockKey key{1 + random.uniform(7), random.uniform(300) * 4096};
      cache.insert(key, page_of(key));
    }
    const FileNum gone = 1 + random.uniform(7);
    std::size_t others = 0, others_after = 0;
    const auto count = [&](std::size_t* others_here) {
      std::size_t mine = 0;
      for (FileNum file = 1; file <= 7; ++file) {
        for (std::uint64_t i = 0; i < 300; ++i) {
          if (cache.pin({file, i * 4096}) != nullptr) ++(file == gone ? mine : *others_here);
        }
      }
      return mine;
    };
    CHECK(count(&others) > 0);
    cache.erase_file(gone);
    CHECK(count(&others_after) == 0);
    CHECK(others == others_after);
  }
}

TEST_CASE("erase_file() is called: the file's blocks are removed, and blocks of other files stay") {
  Epoch epoch;
  BlockCache cache(8 << 20, epoch);
  for (std::uint64_t i = 0; i < 300; i++) cache.insert({1 + i % 3, i}, page_of({1 + i % 3, i}, 100));
  cache.erase_file(2);
  EpochGuard guard(epoch);
  for (std::uint64_t i = 0; i < 300; i++) CHECK((cache.lookup({1 + i % 3, i}) != nullptr) == (i % 3 != 1));
}

TEST_CASE("capacity of the cache changes: lowering it evicts blocks at once, and raising it lets blocks in again") {
  Epoch epoch;
  BlockCache cache(16 << 20, epoch);
  for (std::uint64_t i = 0; i < 3000; i++) cache.insert({1, i}, page_of({1, i}));
  CHECK(cache.usage() > 12 << 20);
  cache.set_capacity(2 << 20);
  CHECK(cache.capacity() == 2 << 20);
  CHECK(cache.usage() <= 2 << 20);
  cache.set_capacity(0);
  CHECK(cache.usage() < 128 << 10);  // only the hash tables remain, about 20 bytes for each former block
  const auto pin = cache.insert({1, 1}, "kept by the pin alone");
  CHECK(pin->bytes() == "kept by the pin alone");
  CHECK(cache.pin({1, 1}) == nullptr);
  cache.set_capacity(16 << 20);
  cache.insert({1, 1}, "kept");
  CHECK(cache.pin({1, 1})->bytes() == "kept");
}

TEST_CASE("capacity of a cache of many small blocks is lowered: usage, hash tables included, is within the new capacity") {
  Epoch epoch;
  BlockCache cache(16 << 20, epoch);
  for (std::uint64_t i = 0; i < 50'000; i++) cache.insert({1, i}, "small");
  REQUIRE(cache.usage() > 8 << 20);
  cache.set_capacity(4 << 20);
  CHECK(cache.usage() <= 4 << 20);
  CHECK(cache.usage() > 2 << 20);
}

TEST_CASE("block is inserted: usage grows by its bytes, its header, and a sixteenth for the allocator's overhead") {
  Epoch epoch;
  BlockCache cache(1 << 20, epoch);
  const std::uint64_t before = cache.usage(), bytes = 64 << 10;
  const auto block = cache.insert({1, 0}, std::string(bytes, 'x'));
  const std::uint64_t used = cache.usage() - before;
  CHECK(used >= bytes + bytes / 16);
  CHECK(used <= bytes + bytes / 16 + 1024);
}

TEST_CASE("block is larger than an eighth of a shard: insert() returns it, and the cache does not keep it") {
  Epoch epoch;
  BlockCache cache(1 << 20, epoch);
  const auto pin = cache.insert({1, 0}, std::string(200 << 10, 'x'));
  CHECK(pin->size == 200 << 10);
  CHECK(cache.pin({1, 0}) == nullptr);
}

TEST_CASE("many small blocks are inserted: the hash tables grow") {
  Epoch epoch;
  BlockCache cache(64 << 20, epoch);
  for (std::uint64_t i = 0; i < 100'000; i++) cache.insert({1, i}, Bytes(reinterpret_cast<const char*>(&i), sizeof(i)));
  EpochGuard guard(epoch);
  for (std::uint64_t i = 0; i < 100'000; i++) {
    const CachedBlock* block = cache.lookup({1, i});
    REQUIRE(block != nullptr);
    REQUIRE(block->bytes() == Bytes(reinterpret_cast<const char*>(&i), sizeof(i)));
  }
}

TEST_CASE("bucket overflows: its overflow buckets count as usage, also after the hash table has grown") {
  Epoch epoch;
  BlockCache cache(1 << 20, epoch);
  const std::uint64_t empty = cache.usage();
  const auto usage_without_blocks = [&] {
    cache.erase_file(1);
    epoch.collect();
    return cache.usage();
  };
  // Sixteen blocks of one bucket need two overflow buckets of a cache line each.
  const void* const bucket = cache.start({1, 0});
  std::vector<std::uint64_t> in_bucket;
  for (std::uint64_t offset = 0; in_bucket.size() < 16; ++offset) {
    if (cache.start({1, offset}) == bucket) in_bucket.push_back(offset);
  }
  for (std::size_t i = 0; i < 7; ++i) cache.insert({1, in_bucket[i]}, "x");
  CHECK(usage_without_blocks() == empty);
  for (const std::uint64_t offset : in_bucket) cache.insert({1, offset}, "x");
  CHECK(usage_without_blocks() == empty + 2 * 64);
  // The table grows to 256 buckets. The 1,000 blocks are spread at random, so that some buckets overflow.
  for (std::uint64_t offset = 0; offset < 1000; ++offset) cache.insert({1, offset}, "x");
  const std::uint64_t grown = usage_without_blocks(), buckets = 256 * 64;
  CHECK(grown > buckets);
  CHECK(grown < buckets + buckets / 4);
}

TEST_CASE("threads look up, insert, erase and resize at the same time: every found block is right", "[threads]") {
  Epoch epoch;
  BlockCache cache(4 << 20, epoch);
  constexpr std::uint64_t kBlocks = 3000;
  std::atomic<bool> failed{false};
  std::atomic<int> working{3};
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < 2; w++) {
    threads.emplace_back([&, w] {
      Random random(w);
      std::vector<std::pair<BlockKey, std::shared_ptr<const CachedBlock>>> pins;
      for (int i = 0; i < 8000; i++) {
        const BlockKey key{1 + random.uniform(3), random.uniform(kBlocks)};
        auto pin = cache.insert(key, page_of(key, 64 + key.offset));
        if (random.one_in(16)) pins.emplace_back(key, std::move(pin));
        if (pins.size() > 32) {
          for (const auto& [k, p] : pins) failed = failed || p->bytes() != page_of(k, 64 + k.offset);
          pins.clear();
        }
      }
      working--;
    });
  }
  threads.emplace_back([&] {
    Random random(77);
    for (int i = 0; i < 60; i++) {
      cache.erase_file(1 + random.uniform(3));
      cache.set_capacity((1 + random.uniform(4)) << 20);
    }
    working--;
  });
  for (unsigned r = 0; r < 2; r++) {
    threads.emplace_back([&, r] {
      Random random(100 + r);
      while (working.load() != 0) {
        EpochGuard guard(epoch);
        for (int i = 0; i < 20; i++) {
          const BlockKey key{1 + random.uniform(3), random.uniform(kBlocks)};
          const CachedBlock* block = cache.lookup(key);
          if (block != nullptr && (block->size != 64 + key.offset || block->bytes() != page_of(key, 64 + key.offset)))
            failed = true;
        }
        const BlockKey key{1 + random.uniform(3), random.uniform(kBlocks)};
        const auto pin = cache.pin(key);
        if (pin != nullptr && pin->bytes() != page_of(key, 64 + key.offset)) failed = true;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK_FALSE(failed);
  cache.set_capacity(4 << 20);
  epoch.collect();
  CHECK(cache.usage() <= 4 << 20);
}

TEST_CASE("more threads than stripes add to a striped counter at once: the counter's total is exact", "[threads]") {
  StripedCounter counter;
  std::atomic<unsigned> arrived{0};
  constexpr unsigned kThreads = 80;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; t++) {
    threads.emplace_back([&] {
      counter.add();
      arrived++;
      while (arrived.load() < kThreads) std::this_thread::yield();  // all threads are alive at once
      for (int i = 0; i < 100; i++) counter.add();
    });
  }
  for (auto& t : threads) t.join();
  for (int t = 0; t < 200; t++) std::thread([&] { counter.add(); }).join();
  CHECK(counter.total() == kThreads * 101 + 200);
}

}  // namespace TEST_FILE
}  // namespace ebbtide

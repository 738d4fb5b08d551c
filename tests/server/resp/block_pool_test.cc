#include "resp/block_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "resp/output_buffer.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr std::size_t kShared = std::size_t{1} << 20;

/// Takes `count` blocks on a thread. The thread stays idle until `then` has run on another thread.
template <typename F>
void with_blocks_of_idle_thread(std::size_t count, F then) {
  std::vector<char*> blocks;
  std::thread taker([&] {
    for (std::size_t i = 0; i < count; ++i) {
      blocks.push_back(take_block());
      std::memset(blocks.back(), 1, kBlockBytes);
    }
    std::thread([&] { then(blocks); }).join();
  });
  taker.join();
}

bool in_memory(const char* block) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto* const first = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(block) + page - 1) / page * page);
  unsigned char state = 0;
  return ::mincore(first, page, &state) == 0 && (state & 1) != 0;
}

std::size_t bytes_in_memory(const std::vector<char*>& blocks) {
  return static_cast<std::size_t>(std::count_if(blocks.begin(), blocks.end(), in_memory)) * kBlockBytes;
}

TEST_CASE("another thread frees reply memory: it returns to the system although the allocating thread is idle") {
  set_shared_block_bytes(kShared);
  with_blocks_of_idle_thread(4096, [](std::vector<char*>& blocks) {  // 64 MiB
    CHECK(bytes_in_memory(blocks) == 4096 * kBlockBytes);
    for (char* const block : blocks) give_block(block);
    CHECK(bytes_in_memory(blocks) <= kShared + kThreadBlocks * kBlockBytes);
    share_blocks();
    CHECK(bytes_in_memory(blocks) <= kShared + kIdleBlocks * kBlockBytes);
  });
}

TEST_CASE("thread has freed a block of reply memory and ended: another thread gets this block") {
  char* given = nullptr;
  std::thread([&] {
    given = take_block();
    give_block(given);
  }).join();
  std::vector<char*> taken;
  while (taken.size() < 100'000 && (taken.empty() || taken.back() != given)) taken.push_back(take_block());
  CHECK(taken.back() == given);
  for (char* const block : taken) give_block(block);
}

TEST_CASE("blocks of reply memory are allocated: they are distinct and keep their bytes") {
  set_shared_block_bytes(kShared);
  std::vector<char*> blocks;
  for (std::size_t round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 1000; ++i) {
      blocks.push_back(take_block());
      std::memset(blocks.back(), static_cast<int>(i % 251), kBlockBytes);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::string_view bytes(blocks[i], kBlockBytes);
      REQUIRE(bytes.find_first_not_of(static_cast<char>(i % 251)) == std::string_view::npos);
      give_block(blocks[i]);
    }
    blocks.clear();
  }
}

TEST_CASE("reply was sent: its memory is freed although the thread that built the reply is idle") {
  set_shared_block_bytes(kShared);
  const std::string value(60'000, 'x');
  std::vector<char*> blocks;
  OutputBuffer sent;
  std::thread builder([&] {
    OutputBuffer built;
    for (int i = 0; i < 1000; ++i) built.append(value);
    sent.take(built);
    std::thread([&] {
      iovec pieces[5000];
      const int count = sent.pieces(pieces, 5000, sent.end());
      for (int i = 0; i < count; ++i) blocks.push_back(static_cast<char*>(pieces[i].iov_base));
      CHECK(bytes_in_memory(blocks) >= 59'000'000);
      sent.consume(sent.size());
      CHECK(bytes_in_memory(blocks) <= kShared + kThreadBlocks * kBlockBytes);
    }).join();
  });
  builder.join();
}

}  // namespace TEST_FILE
}  // namespace ebbtide

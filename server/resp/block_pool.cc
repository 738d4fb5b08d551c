#include "resp/block_pool.h"

#include <new>
#include <vector>

namespace ebbtide {
namespace {

struct Pool {
  static constexpr std::size_t kMax = 256;  // 4 MiB a thread
  std::vector<char*> free;
  ~Pool() {
    for (char* block : free) ::operator delete(block);
  }
};

Pool& pool() {
  thread_local Pool pool;
  return pool;
}

}  // namespace

char* take_block() {
  Pool& p = pool();
  if (p.free.empty()) return static_cast<char*>(::operator new(kBlockBytes));
  char* block = p.free.back();
  p.free.pop_back();
  return block;
}

void give_block(char* block) {
  Pool& p = pool();
  if (p.free.size() >= Pool::kMax) {
    ::operator delete(block);
  } else {
    p.free.push_back(block);
  }
}

}  // namespace ebbtide

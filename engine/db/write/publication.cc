#include "db/write/publication.h"

namespace ebbtide {

// Only one commit at a time may change version_. As soon as visible_seq_ has moved, the next commit can call this function,
// although this commit has not yet made version_ even again. So each call first waits until version_ is even.
void Publication::publish_mapping(SeqNum last, Remapped remapped) {
  moved_.wait_until([this] { return version_.load(std::memory_order_seq_cst) % 2 == 0; });
  const std::uint64_t version = mapping_version();
  version_.store(version + 1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const auto& [database, tree] : remapped) trees_[database].store(tree, std::memory_order_release);
  visible_seq_.store(last, std::memory_order_seq_cst);
  version_.store(version + 2, std::memory_order_seq_cst);
  moved_.notify();
}

void Publication::await(SeqNum seq) {
  moved_.wait_until([this, seq] { return visible_seq_.load(std::memory_order_seq_cst) >= seq; });
}

void Publication::await_settled(SeqNum seq) {
  moved_.wait_until([this, seq] {
    return visible_seq_.load(std::memory_order_seq_cst) >= seq && version_.load(std::memory_order_seq_cst) % 2 == 0;
  });
}

}  // namespace ebbtide

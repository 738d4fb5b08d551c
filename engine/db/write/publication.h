// The state that readers see: the highest visible seq, and the tree of each database.
//
// Commits are published in seq order. A commit that changes the mapping of databases changes mapping and visible seq together. So
// readers never see a part of a batch, or a FLUSHDB that is above the visible seq. Readers check this by the mapping's version, a
// sequence lock:
//
//   version = mapping_version()
//   tree(database), visible_seq(), in this order
//   unchanged(version)? otherwise repeat
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include <engine/types.h>
#include "base/wait_point.h"

namespace ebbtide {

struct Tree;

/// The visible seq, and the trees that readers see. Thread-safe, except start(), map() and unmap_all(), which must be called while there are no readers.
class Publication {
 public:
  static constexpr std::size_t kMostTrees = std::size_t{kMaxDatabases} * (1 + kMaxIndexTrees);
  using Remapped = std::span<const std::pair<DatabaseId, Tree*>>;

  // --- called by readers
  [[nodiscard]] SeqNum visible_seq() const { return visible_seq_.load(std::memory_order_acquire); }
  /// Returns the tree with the number of a database or of an index tree; null if there is none. Valid as long as the caller's
  /// epoch guard.
  [[nodiscard]] const Tree* tree(DatabaseId database) const { return trees_[database].load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t mapping_version() const { return version_.load(std::memory_order_acquire); }
  /// True if the mapping has not changed since mapping_version() returned `version`, and was not changing at that time.
  [[nodiscard]] bool unchanged(std::uint64_t version) const { return version % 2 == 0 && mapping_version() == version; }

  // --- called by commits
  /// Waits until operations up to `previous` are visible, then makes those up to `last` visible.
  void publish(SeqNum previous, SeqNum last, Remapped remapped) {
    // Commits with lower seqs have left their critical section, but some are not published yet. They mostly need less than a
    // microsecond.
    if (visible_seq() != previous) await(previous);
    if (!remapped.empty()) [[unlikely]]
      return publish_mapping(last, remapped);
    visible_seq_.store(last, std::memory_order_seq_cst);
    moved_.notify();
  }
  /// Waits until operations up to `seq`, an assigned seq, are visible.
  void await(SeqNum seq);
  /// Like await(), but also waits until no change of the mapping is running.
  void await_settled(SeqNum seq);

  // --- called while there are no readers
  void start(SeqNum visible) { visible_seq_.store(visible, std::memory_order_seq_cst); }
  void map(DatabaseId database, Tree* tree) { trees_[database].store(tree, std::memory_order_release); }
  void unmap_all() {
    for (auto& tree : trees_) tree.store(nullptr);
  }

 private:
  void publish_mapping(SeqNum last, Remapped remapped);

  std::atomic<SeqNum> visible_seq_{0};
  WaitPoint moved_;                                     // notified when visible_seq_ or version_ has moved
  std::array<std::atomic<Tree*>, kMostTrees> trees_{};  // by number, of databases and of index trees
  std::atomic<std::uint64_t> version_{0};               // odd while trees_ and visible_seq_ change
};

}  // namespace ebbtide

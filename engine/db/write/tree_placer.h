// Finds the tree and the memtable of each operation of a batch, and changes the mapping of databases to trees.
//
// A batch names databases. In the critical section of its commit (commit_pipeline.h) each operation gets the tree that its
// database has at that moment. The first write to a database without a tree makes one. Making a tree is an operation of its own,
// with a seq before the batch's seqs. FLUSHDB gives the database a new tree and drops the old tree; SWAPDB exchanges two trees.
#pragma once

#include <functional>
#include <utility>

#include <engine/write_batch.h>
#include "base/mutex.h"
#include "db/trees/tree_registry.h"
#include "db/write/inserts.h"
#include "wal/log_segment.h"

namespace ebbtide {

/// Places the operations of batches. The caller must hold the commit mutex of the registry.
class TreePlacer {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    std::function<TreeId()> new_tree;  ///< returns an unused number
    /// Assigns a seq and a time to `creation`, the batch that makes the tree, and queues the batch for the log.
    std::function<void(WriteBatch& creation, TreeId tree, Millis time)> sequence;
    std::function<void()> mapping_changed;  ///< called when a database got its first tree, and the manifest must be updated
  };

  explicit TreePlacer(Env env) : env_(std::move(env)), trees_(*env_.trees) {}

  /// Returns the tree of the operation at offset `at`, and writes the tree's id into the batch. Adds the tree's memtable to
  /// `inserts` if it is missing there.
  TreeId place(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts)
      REQUIRES(trees_.commit_mutex);
  /// Carries out a FLUSHDB or SWAPDB, and adds the changes of the mapping to `inserts`, which publishes them to readers.
  void change_mapping(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts, LogNotes* notes)
      REQUIRES(trees_.commit_mutex);
  /// Returns the database's tree; makes it if there is none.
  Tree* tree_for_write(DatabaseId database, Millis time, Inserts* inserts) REQUIRES(trees_.commit_mutex) {
    if (Tree* tree = trees_.mapped(database).get(); tree != nullptr) [[likely]]
      return tree;
    return make_first_tree(database, time, inserts);
  }

 private:
  Tree* make_first_tree(DatabaseId database, Millis time, Inserts* inserts) REQUIRES(trees_.commit_mutex);
  void flush_database(WriteBatch& batch, std::size_t at, DatabaseId database, Millis time, Inserts* inserts, LogNotes* notes)
      REQUIRES(trees_.commit_mutex);
  [[nodiscard]] bool keeps_tree(const Tree* tree, DatabaseId database, const Inserts& inserts) REQUIRES(trees_.commit_mutex);

  const Env env_;
  TreeRegistry& trees_;
};

}  // namespace ebbtide

// Finds the tree and the memtable of each operation of a batch, and changes which database has which tree.
//
// A batch names databases. In the critical section of its commit (commit_pipeline.h) each operation gets the tree that its database has
// by then. A database without a tree gets one from its first write: that is an operation of its own, with a seq before the batch's. FLUSHDB
// gives the database a new tree and drops the old one; SWAPDB exchanges two.
#pragma once

#include <functional>
#include <utility>

#include <engine/write_batch.h>
#include "base/mutex.h"
#include "db/trees/tree_registry.h"
#include "db/write/inserts.h"
#include "wal/log_segment.h"

namespace ebbtide {

/// The caller holds the commit mutex of the registry.
class TreePlacer {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    std::function<TreeId()> new_tree;  ///< an unused number
    /// Gives the operation that makes the tree its seq and its time, and queues it for the log.
    std::function<void(WriteBatch& creation, TreeId tree, Millis time)> sequence;
    std::function<void()> mapping_changed;  ///< a database got its first tree: the manifest is to be updated
  };

  explicit TreePlacer(Env env) : env_(std::move(env)), trees_(*env_.trees) {}

  /// Returns the tree of the operation at `at`, and names it in the batch. The tree's memtable is among the inserts afterwards.
  TreeId place(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts)
      REQUIRES(trees_.commit_mutex);
  /// Carries out a FLUSHDB or SWAPDB, and notes in the inserts what readers are to see of it.
  void change_mapping(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts, LogNotes* notes)
      REQUIRES(trees_.commit_mutex);
  /// The database's tree. Makes it if there is none.
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

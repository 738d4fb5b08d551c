// What the critical section of a commit leaves to what comes after it: insertion and publishing.
#pragma once

#include <utility>
#include <vector>

#include "db/db_impl.h"

namespace ebbtide {

// Where the operations of one batch go. A tree is looked up once per batch: a memtable is not switched in the middle of one.
struct DbImpl::Inserts {
  struct Target {
    TreeId tree;
    MemTable* memtable;
    StampMode stamp;
  };
  std::vector<Target> more;
  Target first{kNoTree, nullptr, StampMode::kWriteTime};
  std::vector<std::pair<DatabaseId, Tree*>> remapped;    // for readers, when the batch shows
  std::vector<std::pair<DatabaseId, DatabaseId>> swaps;  // of the batch so far
  SeqNum previous = 0;                                   // what visible_seq must be before this batch shows
  WriteBatch::Op last;                                   // the batch's last operation, decoded; `tree` as the batch has it now

  void add(const Target& t) {
    if (first.memtable == nullptr) {
      first = t;
    } else {
      more.push_back(t);
    }
  }
  // Which number the tree of `database` had before the batch.
  [[nodiscard]] DatabaseId before_swaps(DatabaseId database) const {
    for (auto it = swaps.rbegin(); it != swaps.rend(); ++it) {
      database = database == it->first ? it->second : database == it->second ? it->first : database;
    }
    return database;
  }
  [[nodiscard]] const Target* find(TreeId tree) const {
    if (tree == kNoTree) return nullptr;  // a swap goes into no tree
    if (first.tree == tree) return &first;
    for (const Target& t : more) {
      if (t.tree == tree) return &t;
    }
    return nullptr;
  }
};

}  // namespace ebbtide

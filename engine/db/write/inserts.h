// The data of a commit after its critical section: the memtables of its operations, and the mapping that it publishes.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include <engine/write_batch.h>
#include "memtable/memtable.h"
#include "wal/log_segment.h"

namespace ebbtide {

struct Tree;

/// The inserts of one batch. A tree is looked up once per batch, since its memtable is not replaced in the middle of a batch.
struct Inserts {
  struct Target {
    TreeId tree;
    MemTable* memtable;
    StampMode stamp;
  };
  Target first{kNoTree, nullptr, StampMode::kWriteTime};
  std::vector<Target> more;                              // targets after the first; rarely used
  std::vector<std::pair<DatabaseId, Tree*>> remapped;    // databases that this batch maps to other trees
  std::vector<std::pair<DatabaseId, DatabaseId>> swaps;  // SWAPDB operations in the batch so far
  SeqNum previous = 0;                                   // the batch is published once all operations up to this seq are visible
  WriteBatch::Op last;  // the batch's last operation; its `tree` is the tree, not the database that the caller named

  void add(const Target& t) {
    if (first.memtable == nullptr) {
      first = t;
    } else {
      more.push_back(t);
    }
  }
  /// Returns the target of a tree; null if the operation goes into no memtable.
  [[nodiscard]] const Target* find(TreeId tree) const {
    if (tree == kNoTree) return nullptr;
    if (first.tree == tree) return &first;
    for (const Target& t : more) {
      if (t.tree == tree) return &t;
    }
    return nullptr;
  }
  template <typename Visit>
  void each_target(Visit visit) const {
    if (first.memtable != nullptr) visit(first);
    for (const Target& t : more) visit(t);
  }
  /// Returns the number that the database had before the batch's swaps.
  [[nodiscard]] DatabaseId before_swaps(DatabaseId database) const {
    for (auto it = swaps.rbegin(); it != swaps.rend(); ++it) {
      database = database == it->first ? it->second : database == it->second ? it->first : database;
    }
    return database;
  }
};

/// Inserts an operation into the memtable of its tree. No effect for an operation on the mapping of databases.
void insert_operation(MemTable& memtable, const WriteBatch::Op& op, SeqNum seq, Millis time, StampMode stamp);

/// Returns the birth of the delete `op` in a batch with the commit time `time`.
inline Millis birth_of(const WriteBatch::Op& op, Millis time) { return op.birth == 0 ? time : std::min(op.birth, time); }

/// Returns the log's note of an operation written at `time`: the tree, and the birth of the delete or the expiry of the value.
inline LogNote log_note(const WriteBatch::Op& op, TreeId tree, Millis time) {
  LogNote note{tree, 0, 0};
  switch (op.kind) {
    case OpKind::kTombstone:
    case OpKind::kRangeTombstone:
    case OpKind::kSecondaryDelete:
      note.oldest_delete = birth_of(op, time);
      break;
    case OpKind::kPut:
    case OpKind::kHeader:
      if (op.expiry != 0 && op.expiry <= time) {
        note.oldest_delete = time;
      } else {
        note.min_expiry = op.expiry;
      }
      if (op.debt) note.oldest_delete = time;
      break;
    default:
      break;
  }
  return note;
}

}  // namespace ebbtide

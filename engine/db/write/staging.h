// Sorts and hashes the entries of a large batch before its commit, into a memtable for each database that the batch writes to.
//
// These memtables do not depend on seq, time or tree, which the commit assigns. Entries have their index in the batch as seq, and
// an EntryPlace completes them later (memtable/entry_place.h). Range tombstones and records belong in structures that are
// ordered by seq. A batch has few of these, and the commit inserts them after it has assigned the seqs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <engine/memory_account.h>
#include <engine/result.h>
#include <engine/staged_batch.h>
#include "memtable/memtable.h"
#include "wal/group_commit.h"

namespace ebbtide {

struct Tree;

struct StagedEntries {
  /// The batch's operations on one database.
  struct Part {
    DatabaseId database = 0;
    std::shared_ptr<MemTable> memtable;  ///< null for a part with a few large values, which the commit inserts
    std::uint32_t records = 0;           ///< number of secondary range deletes
    bool deletes = false;                ///< true if the part has tombstones, range tombstones, records or puts with a debt
    std::uint32_t named = 0;             ///< the number in the `tree` field of the operations: first the database, then the tree
    Millis min_expiry = 0;               ///< smallest expiry of the part's values; 0 = none
    Millis oldest_birth = 0;             ///< oldest explicit birth of the part's range tombstones; 0 = none
    Tree* tree = nullptr;                ///< set by the commit
    MemTable* inserted_into = nullptr;   ///< set by the commit: the memtable that gets the part's operations in `later`
  };
  /// A range tombstone or a record, or any operation of a part without a memtable, which the commit inserts.
  struct Later {
    std::size_t cursor = 0;   ///< cursor with which WriteBatch::next_op() returns the operation
    std::uint32_t index = 0;  ///< index of the operation in the batch
    std::uint32_t part = 0;
  };
  std::vector<Part> parts;
  std::vector<Later> later;
  GroupCommit::Prepared log;  ///< the payload for the log, copied or already written as pieces; empty: not prepared

  [[nodiscard]] std::size_t memory_bytes() const;
};

/// Sets the entry of a put, header or tombstone before its batch has seq and time; EntryPlace::settle completes the entry.
/// Returns false for other operations.
inline bool operation_entry(const WriteBatch::Op& op, SeqNum seq, Entry* entry) {
  entry->key = op.key;
  entry->seq = seq;
  entry->element = op.element;
  switch (op.kind) {
    case OpKind::kTombstone:
      entry->kind = EntryKind::kTombstone;
      entry->delete_key = 0;  // the commit sets the birth
      return true;
    case OpKind::kPut:
    case OpKind::kHeader:
      entry->kind = op.value_kind;
      entry->debt = op.debt ? kUnbornDebt : 0;
      entry->delete_key = op.stamp;
      entry->expiry = op.expiry;
      entry->value = op.value;
      entry->shared = op.shared;
      return true;
    default:
      return false;
  }
}

/// Returns the approximate bytes that stage_entries() will allocate, without shared values, which are not copied.
std::size_t staged_bytes_expected(const WriteBatch& batch);

/// Sorts the entries of a batch; the time grows with the batch's size. kUnsupported: the batch empties or swaps databases.
/// kAborted: `stop`, which may be null, has become true.
Result<StagedEntries> stage_entries(const WriteBatch& batch, const std::atomic<bool>* stop);

/// A staged batch and its charge to the memory budget.
struct StagedParts {
  StagedParts() = default;
  ~StagedParts() { release(); }
  StagedParts(const StagedParts&) = delete;
  StagedParts& operator=(const StagedParts&) = delete;
  WriteBatch batch;
  StagedEntries entries;
  std::shared_ptr<MemoryAccount> account;
  std::size_t charged = 0;
  bool committed = false;
  /// Releases the charge. Called when the tree has taken the memory, or just before the memory is freed.
  void release();
};
struct StagedBatch::Impl : StagedParts {};

}  // namespace ebbtide

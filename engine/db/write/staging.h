// The entries of a large batch, sorted and hashed before its commit: a memtable for each database that it writes to.
//
// Nothing here depends on seq, time or tree, which the commit assigns. Entries have their index in the batch as seq, and an EntryPlace
// makes them complete later (memtable/entry_place.h). Range tombstones and records lie in structures that are ordered by seq. They are few,
// and the commit inserts them after it has assigned the seqs.
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
    std::shared_ptr<MemTable> memtable;  ///< null: a few large values, which the commit inserts
    std::uint32_t records = 0;           ///< number of secondary range deletes
    bool deletes = false;                ///< has tombstones, range tombstones or records
    std::uint32_t named = 0;             ///< the tree number in its operations now; the database's number at first
    Millis min_expiry = 0;               ///< smallest expiry of its values; 0 = none
    Tree* tree = nullptr;                ///< set by the commit
    MemTable* inserted_into = nullptr;   ///< set by the commit: the memtable of later operations
  };
  /// A range tombstone or a record, or any operation of a part without a memtable.
  struct Later {
    std::size_t cursor = 0;   ///< for WriteBatch::next_op()
    std::uint32_t index = 0;  ///< of the operation in the batch
    std::uint32_t part = 0;
  };
  std::vector<Part> parts;
  std::vector<Later> later;
  GroupCommit::Prepared log;  ///< the payload, copied or written, with the trees that operations name now; empty: not prepared

  [[nodiscard]] std::size_t memory_bytes() const;
};

/// Sets the entry of a put, header or tombstone before its batch has a place (EntryPlace::settle completes it). False for other
/// operations.
inline bool operation_entry(const WriteBatch::Op& op, SeqNum seq, Entry* entry) {
  entry->key = op.key;
  entry->seq = seq;
  switch (op.kind) {
    case OpKind::kTombstone:
      entry->kind = EntryKind::kTombstone;
      entry->delete_key = 0;  // not born yet
      return true;
    case OpKind::kPut:
    case OpKind::kHeader:
      entry->kind = op.kind == OpKind::kPut ? EntryKind::kValue : EntryKind::kHeader;
      entry->delete_key = op.stamp;
      entry->expiry = op.expiry;
      entry->value = op.value;
      entry->shared = op.shared;
      return true;
    default:
      return false;
  }
}

/// Approximate bytes that stage_entries() will allocate, without shared values, which are not copied.
std::size_t staged_bytes_expected(const WriteBatch& batch);

/// Sorts the entries; the time grows with the batch's size. kUnsupported: the batch empties or swaps databases. kAborted: `stop`,
/// which may be null, became true.
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
  /// Releases the charge: the tree has the memory now, or it is about to be freed.
  void release();
};
struct StagedBatch::Impl : StagedParts {};

}  // namespace ebbtide

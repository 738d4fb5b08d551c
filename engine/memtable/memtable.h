// The newest part of a tree, in memory: an ordered index for walks and flushes, a hash index for point reads.
//
// Both lead to the same node of a key, whose versions hang in a chain, newest first: overwriting a key costs one hash probe and
// no ordered insertion. Nodes and versions lie in an arena and never move; values above kLargeValueBytes are shared, not copied.
//
// Threads: any number of writers and readers at once. Point reads take no lock and wait for nobody; a walk may wait for a writer
// that is inside the one index node it wants (memtable/btree.h). Writers of the same key may race: the chain is kept in seq
// order. Readers see an insertion entirely or not at all, and once insert() has returned both gets and walks see it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <engine/write_batch.h>
#include "base/entry.h"
#include "deletes/range_tombstone.h"
#include "deletes/record.h"
#include "iter/internal_iterator.h"
#include "memtable/entry_place.h"

namespace ebbtide {

class MemTable {
 public:
  /// Takes a few KiB and grows with what comes in. `expected_bytes` says how far the hash index may grow.
  explicit MemTable(std::size_t expected_bytes);
  ~MemTable();
  MemTable(const MemTable&) = delete;
  MemTable& operator=(const MemTable&) = delete;

  /// Adds a version. entry.seq must not be present for the key. entry.shared, if set, is kept alive by the memtable.
  void insert(const LookupKey& key, const Entry& entry);
  /// Adds a range tombstone.
  void insert_range(RangeTombstone tombstone);

  /// Adds a secondary range delete.
  void insert_record(const Record& record);

  /// Ends the filling of a memtable for one staged batch, in which each entry has its operation's index as its seq and the stamp that
  /// the operation brought as its delete key: from here on entries read as EntryPlace::settle() makes them. No reader has the
  /// memtable yet, and insert() is not called any more; range tombstones and records come later, in their final form.
  void set_place(const EntryPlace& place);

  /// The newest version of `key` with seq <= view_seq, or null. Range tombstones are not applied. The entry is filled in `out`.
  bool get(const LookupKey& key, SeqNum view_seq, Entry* out) const;
  /// Stage 0 starts the load of the hash bucket, stage 1 of the node it leads to. True from stage 1: there is one, and all but
  /// surely it is the key's.
  bool prefetch(const LookupKey& key, int stage) const;

  /// Newest cover of `key` with seq <= view_seq: seq and birth, or false. A memtable without range tombstones answers from one
  /// load.
  bool newest_cover(Bytes key, SeqNum view_seq, FragmentedRangeTombstones::Cover* out) const;
  /// All range tombstones as of now, as a few sets that may overlap; none if there are none. For walks: cheap after an insertion.
  [[nodiscard]] std::vector<SharedTombstones> range_tombstone_runs() const;
  /// All range tombstones as one set, fragmented anew; never null. O(n log n): for a flush.
  [[nodiscard]] SharedTombstones range_tombstones() const;

  /// Its secondary range deletes. They cover entries of older sources, too.
  [[nodiscard]] const RecordLog& records() const;

  /// Shows insertions that happen while it is open, or not. The memtable must outlive it.
  [[nodiscard]] std::unique_ptr<InternalIterator> new_iterator() const;

  /// Bytes of everything: arena, index, shared values.
  [[nodiscard]] std::size_t memory_bytes() const;
  /// Of these, bytes of values that carry their charge to the memory budget (engine/charged_value.h).
  [[nodiscard]] std::size_t charged_bytes() const;
  [[nodiscard]] std::uint64_t entries() const;
  [[nodiscard]] std::uint64_t tombstones() const;
  /// Oldest birth of a tombstone (point or range) or record; 0 = none.
  [[nodiscard]] Millis oldest_birth() const;
  [[nodiscard]] Millis min_expiry() const;
  [[nodiscard]] bool empty() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide

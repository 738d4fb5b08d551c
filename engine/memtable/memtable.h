// The newest part of a tree, in memory: an ordered index for walks and flushes, a hash index for point reads.
//
// Both lead to the same node of a key. Its versions are in a chain, newest first, so an overwrite costs one hash probe and no
// ordered insertion. Nodes and versions are in an arena and never move; values above kLargeValueBytes are shared, not copied.
//
// Threads: any number of writers and readers at once. Point reads take no lock and never wait. An iterator may wait for a writer
// inside the one index node that it needs (memtable/btree.h). Writers of the same key may race: the chain is kept in seq order.
// Readers see an insertion entirely or not at all; after insert() has returned, gets and iterators see it.
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
  /// Takes a few KiB and grows with its contents. `expected_bytes` limits the growth of the hash index.
  explicit MemTable(std::size_t expected_bytes);
  ~MemTable();
  MemTable(const MemTable&) = delete;
  MemTable& operator=(const MemTable&) = delete;

  /// Adds a version; the key must not have one with this seq. The memtable keeps entry.shared alive if it is set.
  void insert(const LookupKey& key, const Entry& entry);
  /// Adds a range tombstone.
  void insert_range(RangeTombstone tombstone);

  /// Adds a secondary range delete.
  void insert_record(const Record& record);

  /// Ends the filling of a memtable for one staged batch. Its entries have their operation's index as seq and the operation's
  /// stamp as delete key; from here on readers see them as EntryPlace::settle() makes them. No reader has the memtable yet, and
  /// insert() is not called any more. Range tombstones and records are added later, in their final form.
  void set_place(const EntryPlace& place);

  /// The newest version of `key` with seq <= view_seq, or null. Range tombstones are not applied. The entry is filled in `out`.
  bool get(const LookupKey& key, SeqNum view_seq, Entry* out) const;
  /// Stage 0 starts the load of the hash bucket, stage 1 of the node it leads to. Stage 1 returns true if there is a node, which
  /// is the key's with high probability.
  bool prefetch(const LookupKey& key, int stage) const;

  /// Finds the newest cover of `key` with seq <= view_seq: seq and birth, or false. One load if there are no range tombstones.
  bool newest_cover(Bytes key, SeqNum view_seq, FragmentedRangeTombstones::Cover* out) const;
  /// All range tombstones as of now, as a few sets that may overlap. For iterators: cheap after an insertion.
  [[nodiscard]] std::vector<SharedTombstones> range_tombstone_runs() const;
  /// All range tombstones as one newly fragmented set; never null. O(n log n): for a flush.
  [[nodiscard]] SharedTombstones range_tombstones() const;

  /// Its secondary range tombstones. They also cover entries of older sources.
  [[nodiscard]] const RecordLog& records() const;

  /// It may or may not show insertions that happen while it is open. The memtable must outlive it.
  [[nodiscard]] std::unique_ptr<InternalIterator> new_iterator() const;

  /// Bytes of everything: arena, index, shared values.
  [[nodiscard]] std::size_t memory_bytes() const;
  /// The part of memory_bytes() in values that carry their own charge to the memory budget (engine/charged_value.h).
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

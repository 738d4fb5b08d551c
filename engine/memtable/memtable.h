// The newest part of a tree, in memory: an ordered index for iterators and flushes, a hash index for point reads.
//
// Both indexes lead to the same node of a key. The node has the key's versions in a chain, newest first, so an overwrite costs
// one hash probe and no ordered insertion. Nodes and versions are in an arena and never move. Values above kLargeValueBytes are
// shared, not copied.
//
// Threads: there may be any number of writers and readers at once. Point reads take no lock and never wait. An iterator may
// wait while a writer changes the index node that the iterator needs (memtable/btree.h). Writers of the same key may insert in
// any order: the chain is kept in seq order. Readers see an insertion entirely or not at all. After insert() has returned,
// lookups and iterators see it.
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
  /// An empty memtable takes a few KiB and grows with its contents. `expected_bytes`: the size at which it will be frozen,
  /// which limits the size of the hash index.
  explicit MemTable(std::size_t expected_bytes);
  ~MemTable();
  MemTable(const MemTable&) = delete;
  MemTable& operator=(const MemTable&) = delete;

  /// Adds a version. The key must not have a version with this seq. If entry.shared is not null, the memtable keeps that value
  /// alive.
  void insert(const LookupKey& key, const Entry& entry);
  /// Adds a range tombstone.
  void insert_range(RangeTombstone tombstone);

  /// Adds a secondary range tombstone.
  void insert_record(const Record& record);

  /// For the memtable of a staged batch: sets the batch's position in the order of writes. The entries were inserted with their
  /// operation's index as seq and its stamp as delete key. Readers see them as EntryPlace::settle() changes them. Call
  /// set_place() before any reader has the memtable; do not call insert() afterwards. Range tombstones and records are added
  /// later, with their final seq and birth.
  void set_place(const EntryPlace& place);

  /// Sets `out` to the newest version of `key` with seq <= view_seq; returns false if there is no such version. Ignores range
  /// tombstones.
  bool get(const LookupKey& key, SeqNum view_seq, Entry* out) const;
  /// Starts the memory load of the hash bucket (stage 0), or of the node that the bucket leads to (stage 1). Stage 1 returns
  /// true if there is a node, which is most probably the key's.
  bool prefetch(const LookupKey& key, int stage) const;

  /// Finds the newest range tombstone with seq <= view_seq that covers `key`. Sets `out` to its seq and birth, or returns false
  /// if no range tombstone covers `key`. Costs one load if there are no range tombstones.
  bool newest_cover(Bytes key, SeqNum view_seq, FragmentedRangeTombstones::Cover* out) const;
  /// Returns all present range tombstones, as a few sets that may overlap. Cheap even after an insertion. For iterators.
  [[nodiscard]] std::vector<SharedTombstones> range_tombstone_runs() const;
  /// Returns all range tombstones as one newly fragmented set; never null. O(n log n). For flushes.
  [[nodiscard]] SharedTombstones range_tombstones() const;

  /// The secondary range tombstones. They also cover entries of older memtables and tables.
  [[nodiscard]] const RecordLog& records() const;

  /// Returns an iterator over all versions. The iterator may or may not show insertions that happen while it is open. The
  /// memtable must outlive the iterator.
  [[nodiscard]] std::unique_ptr<InternalIterator> new_iterator() const;

  /// Bytes of memory that the memtable takes: arena, index, shared values.
  [[nodiscard]] std::size_t memory_bytes() const;
  /// Returns how many of memory_bytes() are values that own a charge to the memory account (engine/charged_value.h).
  [[nodiscard]] std::size_t charged_bytes() const;
  [[nodiscard]] std::uint64_t entries() const;
  [[nodiscard]] std::uint64_t tombstones() const;
  /// The oldest birth of a tombstone (point or range), a record or a delete debt; 0 = there is none.
  [[nodiscard]] Millis oldest_birth() const;
  /// The smallest expiry of an entry; 0 = no entry has an expiry.
  [[nodiscard]] Millis min_expiry() const;
  /// True if an entry is a collection (is_collection()).
  [[nodiscard]] bool has_collections() const;
  /// True if an entry is the header of a large collection.
  [[nodiscard]] bool has_headers() const;
  [[nodiscard]] bool empty() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide

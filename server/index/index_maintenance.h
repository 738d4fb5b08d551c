// Keeps indexes right: completes the batch of a command or transaction, before its commit, by operations on index trees.
//
// The batch is the only thing that maintenance looks at, so no command can forget an index. For each key that the batch writes, the
// indexed value before and after the batch are compared: before, in the view of the run; after, in the same view with the batch's
// operations over it (store/pending_writes.h). Deletes of many records need no look at each:
//
//   delete by stamp         the same operation goes to each index tree, since entries have their records' stamps
//   database emptied        its index trees are emptied, too
//   range of keys deleted   an index whose whole prefix is in the range is emptied. Of one with a part of its prefix there, the records in
//                           the range are read, if they are few. Otherwise it is emptied and built again: until then it cannot be
//                           searched
//   databases swapped       definitions stay with their numbers, so that the indexes of both are emptied and built again
//
// Each new entry has the stamp of its record. Where the stamp is the time of the write, the entry gets it by being in the same batch: so
// each write of a record writes its entries again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <engine/db.h>
#include <engine/index.h>

#include "index/index_catalog.h"
#include "store/pending_writes.h"

namespace ebbtide {

/// Range deletes of at most so many records in all read them. The entries of more are not deleted one by one: the index is built again.
inline constexpr std::size_t kMostRecordsOfRange = 1000;

/// What maintenance needs of a run.
struct IndexRun {
  Db* db = nullptr;
  Millis now = 0;
  ReadMode mode = ReadMode::kResident;
  MissSet* misses = nullptr;
  /// True if no other thread commits between the run's view and its commit, if the batch deletes a range of keys.
  bool holds_all_locks = false;
  /// Charges the run's memory account with so many bytes in all, or fails. May be empty: the run is bounded otherwise.
  std::function<Status(std::uint64_t bytes)> charge{};
  /// Returns the run's view of a database.
  std::function<ReadView(DatabaseId)> view;
};

/// Completes the batch, and sets `changes`. kNotResident: pages were added to the misses; run the command again.
Status maintain_indexes(const IndexCatalog& catalog, const IndexRun& run, WriteBatch* batch, IndexChanges* changes);

}  // namespace ebbtide

// Keeps indexes up to date: before a commit, adds operations on index trees to the batch of the command or transaction.
//
// Maintenance depends only on the batch, so no command can forget an index. For each key that the batch writes, maintenance
// compares the indexed values before and after the batch. The value before is in the command's view. The value after is in the
// same view with the batch's operations applied (store/pending_writes.h). Deletes of many records are not handled record by
// record:
//
//   delete by stamp         the same operation goes to each index tree, since entries have their records' stamps
//   database emptied        its index trees are emptied, too
//   range of keys deleted   an index whose records all lie in the range is emptied. If only some of its records lie there, and
//                           few, these are read, and their entries deleted. If they are many, the index is emptied and built
//                           again: it cannot be searched until then
//   databases swapped       definitions stay with their database numbers, so the indexes of both databases are emptied and built
//                           again
//
// Each new entry has the stamp of its record. If stamps are times of writes, all operations of a batch get the same time. So each
// write of a record also writes the record's entries again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <engine/db.h>
#include <engine/index.h>

#include "index/index_catalog.h"
#include "store/pending_writes.h"

namespace ebbtide {

/// The range deletes of a batch read at most this many records in all, to delete their entries one by one. If there are more, the
/// index is emptied and built again.
inline constexpr std::size_t kMostRecordsOfRange = 1000;

/// The inputs of maintenance, from one attempt of a command.
struct IndexRun {
  Db* db = nullptr;
  Millis now = 0;
  ReadMode mode = ReadMode::kResident;
  MissSet* misses = nullptr;
  /// True: no other thread commits between the attempt's view and its commit. Needed only if the batch deletes a range of keys.
  bool holds_all_locks = false;
  /// Charges `bytes` in all to the attempt's memory account, or fails. Null: nothing is charged, since other limits bound the
  /// attempt.
  std::function<Status(std::uint64_t bytes)> charge{};
  /// Returns the attempt's view of a database.
  std::function<ReadView(DatabaseId)> view;
};

/// Adds the operations on index trees to the batch, and sets `changes`. kNotResident: missing pages were added to `run.misses`;
/// run the command again.
Status maintain_indexes(const IndexCatalog& catalog, const IndexRun& run, WriteBatch* batch, IndexChanges* changes);

}  // namespace ebbtide

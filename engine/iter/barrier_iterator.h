// Stands in for an unreadable table in a merging iterator.
//
// When it moves forward, it shows a *barrier* at the table's first key: a tombstone whose value is the error. A VisibleIterator
// that reaches a barrier ends with that error. A range tombstone of a newer source may cover the barrier's key. Then the
// VisibleIterator skips to the end of that tombstone, and reaches the barrier again if the table extends further. Entries of
// older sources after a barrier are not shown, since the table may have deleted them. Backward, the first step that would enter
// the table is an error.
#pragma once

#include <string>

#include "base/table_stats.h"
#include "iter/internal_iterator.h"

namespace ebbtide {

class BarrierIterator final : public InternalIterator {
 public:
  /// `stats` must outlive this object. `start`: the reader needs no keys before it, so the barrier is never before it.
  BarrierIterator(const TableStats& stats, Bytes start, Status why);

  void seek_to_first() override { stand_at({}); }
  void seek_to_last() override { fail(); }
  void seek(Bytes key) override { stand_at(key); }
  void seek_before(Bytes key) override;
  void next() override;
  void prev() override { fail(); }

 private:
  void stand_at(Bytes key);
  void fail();

  const TableStats& stats_;
  const std::string start_;  // the first key that is read
  const Status why_;
  const std::string text_;  // the text of why_
  std::string key_;         // key of the barrier
};

/// Returns the error of a barrier; ok for every other entry.
Status barrier_status(const Entry& entry);

}  // namespace ebbtide

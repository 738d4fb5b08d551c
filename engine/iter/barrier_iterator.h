// Stands in for a table that cannot be read, as a child of a merging iterator.
//
// Forward, it shows a *barrier* at the table's first key: a tombstone whose value is the error. A VisibleIterator that reaches
// a barrier ends with that error, so it shows no later entries of older sources, which the table may have deleted. But if a
// range tombstone of a newer source covers the barrier's key, the VisibleIterator skips to the end of that tombstone. If the
// table extends beyond that end, the VisibleIterator meets the barrier again there. Backward, the first step that would enter the
// table is an error.
#pragma once

#include <string>

#include "base/table_stats.h"
#include "iter/internal_iterator.h"

namespace ebbtide {

class BarrierIterator final : public InternalIterator {
 public:
  /// `stats`, the statistics of the table, must outlive this object. `start`: the first key that the reader needs; the barrier is
  /// never before this key. `why`: the error.
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
  const std::string start_;  // the first key that the reader needs
  const Status why_;
  const std::string text_;  // the message of why_
  std::string key_;         // key of the barrier
};

/// Returns the message of a barrier as kCorruption, whatever the code of the original error; ok if `entry` is not a barrier.
Status barrier_status(const Entry& entry);

}  // namespace ebbtide

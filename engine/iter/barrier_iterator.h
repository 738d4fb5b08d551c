// Stands in a merged walk for a table that cannot be read.
//
// Forward, the walk goes on up to the table's first key. There it meets a *barrier*: a tombstone whose value is the reason. A
// VisibleIterator that meets one ends with that error, unless a range tombstone of a newer source covers the key: then it jumps to
// where that ends, and the barrier is there if the table goes on. Entries of older sources behind a barrier are not shown, since the
// table may have deleted them. Backward, the first step that would enter the table is an error.
#pragma once

#include <string>

#include "base/table_stats.h"
#include "iter/internal_iterator.h"

namespace ebbtide {

class BarrierIterator final : public InternalIterator {
 public:
  /// `stats` must outlive it. Keys before `start` do not matter.
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
  const std::string start_;  // the first key that matters
  const Status why_;
  const std::string text_;  // of why_
  std::string key_;         // where it stands
};

/// The error that a barrier stands for; ok for every other entry.
Status barrier_status(const Entry& entry);

}  // namespace ebbtide

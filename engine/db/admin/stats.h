// Parts of Stats (engine/stats.h), each from the values of one source. Each function sets the members of its source alone.
#pragma once

#include <cstdint>
#include <vector>

#include <engine/memory_account.h>
#include <engine/stats.h>
#include "db/background/compaction_job.h"
#include "db/purge/missed_deadlines.h"
#include "db/purge/purge_ledger.h"
#include "db/trees/counters.h"
#include "db/trees/tree.h"
#include "db/write/write_controller.h"

namespace ebbtide {

/// Gets, writes, iterators, pages and filters, summed over all threads.
void add_counters(const Counters& counters, Stats* s);
void add_compactions(const CompactionTotals& totals, Stats* s);
/// What each kind has charged; memtable_bytes begins with the charged values of memtables.
void add_charges(const MemoryAccount& account, Stats* s);
void add_stalls(const WriteController& writes, Stats* s);
void add_missed(const MissedDeadlines& missed, Stats* s);
/// Memory, tables and garbage of trees; called after add_charges(). Estimates the bytes that no reader can see: each tombstone counts as
/// an entry of average size.
void add_trees(const std::vector<TreeLoad>& loads, Stats* s);
/// Garbage in files on their way out.
void add_leaving(const std::vector<PurgeLedger::Leaving>& files, Stats* s);

}  // namespace ebbtide

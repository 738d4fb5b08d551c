// Functions that fill in parts of Stats (engine/stats.h). Each function sets only the members of its own source.
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
#include "io/open_files.h"
#include "wal/group_commit.h"

namespace ebbtide {

/// Sets gets, writes, iterators, pages and filters, summed over all threads.
void add_counters(const Counters& counters, Stats* s);
/// Sets the log's bytes, writes and syncs, and the seqs up to which the log is written and synced.
void add_log(const GroupCommit& log, Stats* s);
void add_compactions(const CompactionTotals& totals, Stats* s);
/// Sets the bytes charged by kind. Sets memtable_bytes to the charged values of memtables, to which add_trees() adds.
void add_charges(const MemoryAccount& account, Stats* s);
void add_stalls(const WriteController& writes, Stats* s);
void add_files(const OpenFiles::Counts& files, Stats* s);
void add_missed(const MissedDeadlines& missed, Stats* s);
/// Sets memory, tables and garbage of trees. Must be called after add_charges(). Estimates the bytes that no reader can see: each
/// tombstone counts as an entry of average size.
void add_trees(const std::vector<TreeLoad>& loads, Stats* s);
/// Adds the bytes of `files`, which are removed but not yet unlinked, to the garbage.
void add_leaving(const std::vector<PurgeLedger::Leaving>& files, Stats* s);

}  // namespace ebbtide

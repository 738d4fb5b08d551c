// Deliberate bugs that a test can switch on, to prove that the tests would find such a bug.
//
// Each planted bug is of a kind that storage engines have had, and is in the code where it would occur. The switch exists only in
// builds with sanitizers (EBBTIDE_PLANTED_BUGS, CMakeLists.txt). In all other builds planted() is false at compile time, and the
// program has no trace of the bugs. tests/README.md says which test finds which bug; tests/tidy checks that each bug has a test.
#pragma once

#include <atomic>
#include <cstdint>

namespace ebbtide {

enum class PlantedBug : std::uint8_t {
  kNone,
  kSkipTableSync,                ///< a table's pages are not synced before the manifest names it
  kSkipDirectorySync,            ///< the directory is not synced before the manifest names the tables of a flush
  kAcknowledgeBeforeSync,        ///< the log reports a write as durable before its sync has ended
  kSyncBySeq,                    ///< a log segment counts as synced once its last seq is synced, even if unsynced pieces follow
  kForgetPieces,                 ///< a log segment is removed while it holds pieces of a batch that is in no table
  kIgnoreChecksum,               ///< a table block with a wrong checksum is accepted
  kAcceptGarbageTail,            ///< a log record with a wrong checksum is accepted
  kDropTombstoneEarly,           ///< a merge drops a tombstone though older versions may lie below
  kDropDebt,                     ///< a flush or a merge drops the delete debt of a put though older versions lie below
  kForgetBirths,                 ///< a restart forgets the births of the deletes in tables
  kReplaceInPlace,               ///< CURRENT is written in place: for a moment it names neither the old nor the new manifest
  kUnlinkBeforeRenameIsDurable,  ///< the old manifest is unlinked while a power loss can still undo CURRENT's rename
  kRangeLeavesItsStart,          ///< a range delete does not delete the key at its start
  kReadStalePage,                ///< the cache ignores the file: it returns another file's page with the same offset
  kDropWhatHides,                ///< a page is dropped though its entries hide older versions in older runs
  kFinalOverQuarantined,         ///< a merge treats a quarantined table as empty
  kSkipReaper,                   ///< elements of an expired collection are not deleted, but a merge may drop its header
  kReapBeforeSync,               ///< a merge may drop a collection's header before the delete of its elements is durable
  kStackTooDeep,                 ///< a stack policy requests no merge although it has more runs than its bound
};

#ifdef EBBTIDE_PLANTED_BUGS
/// For tests. At most one bug at a time; set only while no database is open.
inline std::atomic<PlantedBug> planted_bug_in_effect{PlantedBug::kNone};
inline bool planted(PlantedBug bug) { return planted_bug_in_effect.load(std::memory_order_relaxed) == bug; }
#else
constexpr bool planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace ebbtide

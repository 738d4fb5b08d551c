// Mistakes that are put in on purpose, to see whether the tests find them.
//
// Each is a kind of mistake that storage engines have had, at the place where it would be made. The switch is there in builds
// under sanitizers only (EBBTIDE_PLANTED_BUGS, CMakeLists.txt); in all others planted() is false at compile time, and nothing of
// what hangs on it is in the program. tests/README.md says which test finds which; tests/tidy sees to it that one does.
#pragma once

#include <atomic>
#include <cstdint>

namespace ebbtide {

enum class PlantedBug : std::uint8_t {
  kNone,
  kSkipTableSync,                ///< a table's pages are not synced before the manifest names it
  kSkipDirectorySync,            ///< nor are the names of the tables of a flush
  kAcknowledgeBeforeSync,        ///< the log calls a write durable before the sync has answered
  kSyncBySeq,                    ///< a log segment that ends with pieces of a batch counts as synced once its last seq is
  kForgetPieces,                 ///< a log segment goes though a batch that no table has lies in it, in pieces
  kIgnoreChecksum,               ///< a block of a table is believed whatever its checksum
  kAcceptGarbageTail,            ///< so is a record of the log
  kDropTombstoneEarly,           ///< a merge drops a tombstone though older versions may lie below
  kForgetBirths,                 ///< after a restart nobody knows by when what is in the tables has to go
  kReplaceInPlace,               ///< CURRENT is written where it lies: in between it names neither the old manifest nor the new
  kUnlinkBeforeRenameIsDurable,  ///< the old manifest is unlinked while a power loss can still take CURRENT's rename back
  kRangeLeavesItsStart,          ///< a range delete does not delete the key at its start
  kReadStalePage,                ///< the cache answers with a page of another file, which lay at the same place
  kDropWhatHides,                ///< a page is dropped though older versions of its keys lie below
  kFinalOverQuarantined,         ///< a merge takes a damaged table for one that holds nothing
  kStackTooDeep,                 ///< a stack policy with more runs than its bound asks for no merge
};

#ifdef EBBTIDE_PLANTED_BUGS
/// For tests. At most one at a time, set while no database is open.
inline std::atomic<PlantedBug> planted_bug_in_effect{PlantedBug::kNone};
inline bool planted(PlantedBug bug) { return planted_bug_in_effect.load(std::memory_order_relaxed) == bug; }
#else
constexpr bool planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace ebbtide

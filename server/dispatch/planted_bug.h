// Bugs that tests can plant into the layers dispatch and commands, to check that the tests find them.
//
// This file is like engine/base/planted_bug.h, which these layers cannot include. Only builds with sanitizers have these bugs.
#pragma once

#include <atomic>
#include <cstdint>

namespace ebbtide {

enum class PlantedServerBug : std::uint8_t {
  kNone,
  kCommitDespiteConflict,  ///< a long write commits although a key that it has read has changed
  kMarksEndEarly,          ///< the marks of a long write are removed when its thread is done, instead of after its commit
  kReuseGeneration,        ///< a large collection that is rewritten keeps its generation, so its old elements stay
  kCountDrifts,            ///< a write that adds or removes one element leaves the count in the collection's header as it was
  kDropBaton,              ///< a client that was served by a wait leaves elements, but does not wake the next waiting client
};

#ifdef EBBTIDE_PLANTED_BUGS
/// The bug that is in effect; there is at most one. Tests set it while no command runs.
inline std::atomic<PlantedServerBug> planted_server_bug_in_effect{PlantedServerBug::kNone};
inline bool planted(PlantedServerBug bug) { return planted_server_bug_in_effect.load(std::memory_order_relaxed) == bug; }
#else
constexpr bool planted(PlantedServerBug /*bug*/) { return false; }
#endif

}  // namespace ebbtide

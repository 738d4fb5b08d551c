// Tests of the tests: a proof must find a bug that is planted in the engine.
#pragma once

#include "base/planted_bug.h"
#include "support/planting.h"

namespace ebbtide {

/// Checks that the proof finds the bug in builds with planted bugs, and that it finds nothing in all other builds.
template <typename Proof>
void must_catch([[maybe_unused]] PlantedBug bug, Proof proof) {
#ifdef EBBTIDE_PLANTED_BUGS
  check_finds(&planted_bug_in_effect, bug, proof);
#else
  CHECK(finding_of(proof).empty());
#endif
}

}  // namespace ebbtide

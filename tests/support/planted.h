// Tests of the tests: a proof has to find a bug planted in the engine.
#pragma once

#include <catch2/catch.hpp>

#include "base/planted_bug.h"
#include "support/finding.h"

namespace ebbtide {

/// Checks that the proof finds the bug, in builds with planted bugs, and that it finds nothing without a bug, in all others.
template <typename Proof>
void must_catch(PlantedBug bug, Proof proof) {
#ifdef EBBTIDE_PLANTED_BUGS
  struct Planted {
    explicit Planted(PlantedBug which) { planted_bug_in_effect = which; }
    ~Planted() { planted_bug_in_effect = PlantedBug::kNone; }
  } const while_it_lasts(bug);
  CHECK_FALSE(finding_of(proof).empty());
#else
  CHECK(finding_of(proof).empty());
#endif
}

}  // namespace ebbtide

// Tests of the tests: with a bug in the engine a proof has to find something.
#pragma once

#include <catch2/catch.hpp>

#include "base/planted_bug.h"
#include "support/finding.h"

namespace ebbtide {

/// The proof finds the bug, and nothing where there is none: a build in which bugs can be planted shows the one, any other build
/// the other.
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

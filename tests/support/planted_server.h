// Tests of the tests: a proof has to find a bug planted in the server's dispatch layer.
#pragma once

#include <catch2/catch.hpp>

#include "dispatch/planted_bug.h"
#include "support/finding.h"

namespace ebbtide {

/// Like must_catch for a bug of the engine (support/planted.h).
template <typename Proof>
void must_catch(PlantedServerBug bug, Proof proof) {
#ifdef EBBTIDE_PLANTED_BUGS
  struct Planted {
    explicit Planted(PlantedServerBug which) { planted_server_bug_in_effect = which; }
    ~Planted() { planted_server_bug_in_effect = PlantedServerBug::kNone; }
  } const while_it_lasts(bug);
  CHECK_FALSE(finding_of(proof).empty());
#else
  (void)bug;
  CHECK(finding_of(proof).empty());
#endif
}

}  // namespace ebbtide

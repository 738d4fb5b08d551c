// Tests of the tests: a proof must find a bug that is planted in the server's dispatch layer.
#pragma once

#include "dispatch/planted_bug.h"
#include "support/planting.h"

namespace ebbtide {

/// Like must_catch() for a bug of the engine (support/planted.h).
template <typename Proof>
void must_catch([[maybe_unused]] PlantedServerBug bug, Proof proof) {
#ifdef EBBTIDE_PLANTED_BUGS
  check_finds(&planted_server_bug_in_effect, bug, proof);
#else
  CHECK(finding_of(proof).empty());
#endif
}

}  // namespace ebbtide

// Tests of the tests: a proof must find a bug that is planted in the code that it proves.
#pragma once

#include <atomic>

#include <catch2/catch.hpp>

#include "support/finding.h"

namespace ebbtide {

#ifdef EBBTIDE_PLANTED_BUGS
/// Sets `*in_effect` to `bug` while `proof` runs, and checks that the proof has a finding.
template <typename Bug, typename Proof>
void check_finds(std::atomic<Bug>* in_effect, Bug bug, Proof proof) {
  struct Planted {
    Planted(std::atomic<Bug>* where, Bug which) : in_effect(where) { *in_effect = which; }
    ~Planted() { *in_effect = Bug::kNone; }
    std::atomic<Bug>* in_effect;
  } const while_it_lasts(in_effect, bug);
  CHECK_FALSE(finding_of(proof).empty());
}
#endif

}  // namespace ebbtide

// A proof is the body of a test, as a function that throws a Finding if it fails. So another test can plant a bug, run the
// proof, and check that the proof finds the bug.
#pragma once

#include <stdexcept>
#include <string>

#include <engine/status.h>
#include <catch2/catch.hpp>

namespace ebbtide {

/// The finding of a proof. The proof's own test does not catch it, so the test fails and shows all current INFO messages.
class Finding : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Used in a proof: throws `finding` if `holds` is false.
inline void demand(bool holds, const char* finding) {
  if (!holds) throw Finding(finding);
  CHECK(holds);  // so that it counts as an assertion
}
/// Used in a proof: the call must succeed, or the two results must be equal.
inline void demand_ok(const Status& status, const char* call) {
  if (!status.is_ok()) throw Finding(std::string(call) + ": " + status.to_string());
  CHECK(status.is_ok());
}
inline void demand_same(const std::string& got, const std::string& expected, const std::string& what) {
  if (got != expected) throw Finding(what + " is '" + got + "', not '" + expected + "'");
  CHECK(got == expected);
}

/// Runs `proof`. Returns its finding, or "".
template <typename Proof>
std::string finding_of(Proof proof) {
  try {
    proof();
  } catch (const Finding& finding) {
    return finding.what();
  }
  return "";
}

}  // namespace ebbtide

// Proofs that can be asked what they find, so that a test can see that they find what they are there for.
#pragma once

#include <stdexcept>
#include <string>

#include <engine/status.h>
#include <catch2/catch.hpp>

namespace ebbtide {

/// What a proof found. Nobody catches it in the proof's own test: it fails, with the INFO of all that was under way.
class Finding : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Part of a proof: what has to hold; `finding` is what it means if it does not.
inline void demand(bool holds, const char* finding) {
  if (!holds) throw Finding(finding);
  CHECK(holds);  // counts
}
/// The same of a call that has to succeed, and of two answers that have to be one.
inline void demand_ok(const Status& status, const char* call) {
  if (!status.is_ok()) throw Finding(std::string(call) + ": " + status.to_string());
  CHECK(status.is_ok());
}
inline void demand_same(const std::string& got, const std::string& expected, const std::string& what) {
  if (got != expected) throw Finding(what + " is '" + got + "', not '" + expected + "'");
  CHECK(got == expected);
}

/// What `proof` finds; "" if nothing.
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

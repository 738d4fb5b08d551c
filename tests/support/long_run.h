// What ./dev torture sets for each of its rounds, and ./dev test for each commit and for the sanitizers: where seeds begin, and how
// much is done.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace ebbtide {

inline std::uint64_t number_from_env(const char* name, std::uint64_t otherwise) {
  const char* env = std::getenv(name);
  return env != nullptr ? std::strtoull(env, nullptr, 10) : otherwise;
}

/// What seeds are counted from.
inline std::uint64_t first_seed(std::uint64_t otherwise = 0) { return number_from_env("EBBTIDE_SEED", otherwise); }
/// Counts the rounds of a long run, whose seeds are a thousand apart: for what each round does otherwise.
inline std::uint64_t round_of_seeds() { return first_seed() / 1000; }

}  // namespace ebbtide

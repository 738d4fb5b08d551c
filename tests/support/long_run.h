// Settings of random tests: the first seed and the amount of work. ./dev torture sets them for each round, ./dev test for each
// commit and for sanitizers.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace ebbtide {

inline std::uint64_t number_from_env(const char* name, std::uint64_t otherwise) {
  const char* env = std::getenv(name);
  return env != nullptr ? std::strtoull(env, nullptr, 10) : otherwise;
}

/// Returns the first seed of a random test.
inline std::uint64_t first_seed(std::uint64_t otherwise = 0) { return number_from_env("EBBTIDE_SEED", otherwise); }
/// Returns the number of the round in a long run, for tests that vary by round. The seeds of rounds are a thousand apart.
inline std::uint64_t round_of_seeds() { return first_seed() / 1000; }

}  // namespace ebbtide

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

/// Returns n if a test makes only every n-th of its crashes, policies or variants, as under a sanitizer; 1 if it makes all.
inline std::uint64_t every_nth() { return number_from_env("EBBTIDE_EVERY_NTH", 1); }
/// Returns the first of those crashes, counted from 0. It differs from commit to commit, so that each has its turn.
inline std::uint64_t first_of_every_nth() { return round_of_seeds() % every_nth(); }

}  // namespace ebbtide

// The model test: compares random operations with an ordered map under many option sets, with flushes, compactions, clock steps,
// clean restarts and kills. A failure prints the option set and the seed that repeat it.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>

#include "engine/db/model_life.h"
#include "support/long_run.h"
#include "support/planted.h"

namespace TEST_FILE {

using namespace ebbtide;

/// Runs a number of operations, which the seed chooses.
void run(const OptionSet& set, std::uint64_t seed, int operations, Reached* reached, DatabaseId second = 1) {
  live<Random, std::uint64_t>(
      set, seed, seed, [&operations] { return operations-- > 0; }, reached, second);
}

TEST_CASE("model: random operations under every option set return the results of a map", "[long]") {
  constexpr std::uint64_t kShortForm = 7;  // lives of each set; fewer lives would reach too few states
  const std::uint64_t rounds = number_from_env("EBBTIDE_MODEL_ROUNDS", kShortForm), first = first_seed(1000);
  Reached any;
  for (const OptionSet& set : kOptionSets) {
    Reached reached;
    for (std::uint64_t seed = first; seed < first + rounds; ++seed) {
      INFO("option set \"" << set.name << "\", seed " << seed);
      run(set, seed, 5000, &reached);
    }
    std::printf("%s\n", states_report(set.name, reached).c_str());
    INFO("option set \"" << set.name << "\", " << rounds << " seeds from " << first << ": its required states were not reached");
    if (rounds >= kShortForm) CHECK(states_text(set.reaches & ~reached.any()) == "");
    any.add(reached);
  }
  // A rare state needs more than one or two seeds. If rounds are fewer than in the short form, further rounds run until no state
  // is missing.
  const auto missing = [&any] { return kAllStates & ~any.any(); };
  for (std::uint64_t seed = first + rounds; missing() && seed < first + kShortForm; ++seed) {
    for (const OptionSet& set : kOptionSets) {
      if (!missing()) break;
      INFO("option set \"" << set.name << "\", seed " << seed);
      run(set, seed, 5000, &any);
    }
  }
  CHECK(states_text(missing()) == "");
  std::printf("%llu model operations\n", static_cast<unsigned long long>(any.operations));
}

TEST_CASE("model: random operations on a database and its index tree return the results of two maps") {
  Reached any;
  for (std::size_t s = first_of_every_nth(); s < std::size(kOptionSets); s += every_nth()) {
    const OptionSet& set = kOptionSets[s];
    const std::uint64_t seed = first_seed(7000) + s;
    const auto index = static_cast<std::uint32_t>(s) % kMaxIndexTrees + 1;
    INFO("option set \"" << set.name << "\", seed " << seed << ", index tree " << index);
    run(set, seed, 2000, &any, index_tree(0, index));
  }
}

// --- planted bugs (support/planted.h)

/// Runs a short life under the option set of that name.
void run_some(const char* name) {
  const auto* const set = std::find_if(std::begin(kOptionSets), std::end(kOptionSets),
                                       [name](const OptionSet& s) { return std::string(s.name) == name; });
  REQUIRE(set != std::end(kOptionSets));
  Reached reached;
  run(*set, 1000, 2000, &reached);
}

TEST_CASE("planted bug drops a tombstone too early in a merge: the comparison with the model finds the bug", "[planted]") {
  must_catch(PlantedBug::kDropTombstoneEarly, [] { run_some("leveling, T = 2"); });
}

TEST_CASE("planted bug leaves the start key of a range delete: the comparison with the model finds the bug", "[planted]") {
  must_catch(PlantedBug::kRangeLeavesItsStart, [] { run_some("leveling, T = 2"); });
}

TEST_CASE("planted bug returns a cached page of another file: the comparison with the model finds the bug", "[planted]") {
  must_catch(PlantedBug::kReadStalePage, [] { run_some("leveling, T = 2"); });
}

}  // namespace TEST_FILE

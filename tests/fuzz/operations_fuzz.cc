// Makes operations on a database, which the input chooses, and compares the results with ordered maps. This is the model test
// (tests/engine/db/model_life.h) with input bytes instead of random numbers, so that the fuzzer's mutations change single
// operations.
//
// The first byte chooses the option set, and the second byte seeds the choices made once (stamp mode, deadline).
#include <cstdio>
#include <iterator>

#include "engine/db/model_life.h"
#include "fuzz.h"

namespace {

using namespace ebbtide;

/// The most operations of an input, which has to end within a second.
constexpr int kMaxOperations = 3000;

/// Has the interface of Random (base/random.h), but takes numbers from the input, and zeros at its end.
class Choices {
 public:
  explicit Choices(fuzz::Input* input) : input_(*input) {}
  /// Returns a counter that makes values unique, so that stale values are found. Takes nothing from the input.
  std::uint64_t next() { return ++count_; }
  std::uint64_t uniform(std::uint64_t n) {
    std::uint64_t value = 0;
    for (std::uint64_t range = 1; range < n; range <<= 8) value = value << 8 | input_.byte();
    return value % n;
  }
  bool one_in(std::uint64_t n) { return uniform(n) == 0; }

 private:
  fuzz::Input& input_;
  std::uint64_t count_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const OptionSet& set = kOptionSets[input.byte() % std::size(kOptionSets)];
  const std::uint64_t seed = input.byte();
  int left = kMaxOperations;
  Reached reached;
  try {
    live<Choices, fuzz::Input*>(
        set, seed, &input, [&] { return left-- > 0 && !input.empty(); }, &reached);
  } catch (const Finding& finding) {
    std::fprintf(stderr, "option set \"%s\": %s\n", set.name, finding.what());
    FUZZ_CHECK(!"a finding");
  }
  return 0;
}

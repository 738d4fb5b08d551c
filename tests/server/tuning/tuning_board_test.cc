// Tests of the board of advice and changes.
#include "tuning/tuning_board.h"

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

KeptAdvice advice_for(const TunerSettings& settings, Millis at) {
  KeptAdvice out;
  out.recommendation.settings = settings;
  out.given_at = at;
  return out;
}

TEST_CASE("tuning advice is too old, or for other settings or databases: it is not returned") {
  TuningBoard board;
  const TunerSettings now{{"leveling", {{"size_ratio", 4}}}, 1 << 20, 10};
  TunerSettings other = now;
  other.policy.parameters["size_ratio"] = 5;
  CHECK_FALSE(board.advice(0, 0, now));
  board.keep(0, advice_for(now, 1000));
  CHECK(board.advice(0, 1000 + TuningBoard::kAdviceAge - 1, now));
  CHECK_FALSE(board.advice(0, 1000 + TuningBoard::kAdviceAge, now));
  CHECK_FALSE(board.advice(0, 1000, other));
  CHECK_FALSE(board.advice(1, 1000, now));
}

TEST_CASE("tuned settings change: earlier advice is dropped, and changes by command and by tuning.auto are counted apart") {
  TuningBoard board;
  board.keep(2, advice_for({}, 0));
  board.changed(2, false);
  CHECK_FALSE(board.advice(2, 0, {}));
  board.changed(2, true);
  board.changed(2, true);
  CHECK(board.changes(2).by_command == 1);
  CHECK(board.changes(2).by_itself == 2);
  CHECK(board.changes(3).by_itself == 0);
}

TEST_CASE("tuning.auto is switched off: only the number of changes is still shown") {
  TuningBoard board;
  board.decided(1, {.mode = TuningMode::kApply, .decision = {}, .own_pages = 1, .base_pages = 2, .known = true});
  board.changed(1, true);
  CHECK(board.state(1)->base_pages == 2);
  board.clear_states();
  CHECK_FALSE(board.state(1));
  CHECK(board.changes(1).by_itself == 1);
}

}  // namespace TEST_FILE
}  // namespace ebbtide

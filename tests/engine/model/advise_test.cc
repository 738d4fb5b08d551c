// Tests of the public interface to the tuner.
#include <engine/tuner.h>

#include <catch2/catch.hpp>
#include <cmath>

namespace ebbtide {
namespace TEST_FILE {

TunerQuestion question_of(OperationFigures workload, double rho = 0) {
  TunerQuestion question;
  question.entries = 1e7;
  question.entry_bytes = 200;
  question.memory_bytes = 64 << 20;
  question.workload = workload;
  question.rho = rho;
  return question;
}

std::string error_of(const TunerQuestion& question) { return advise(question).status().to_string(); }

TEST_CASE("advise() is called: it returns settings that the engine accepts, the cheapest first") {
  for (const double rho : {0.0, 0.5}) {
    const auto advices = advise(question_of({0.2, 0.4, 0.1, 0.3}, rho));
    REQUIRE(advices.is_ok());
    CHECK(advices->size() == 7);
    double before = 0;
    for (const TunerAdvice& advice : *advices) {
      CAPTURE(advice.layout, rho);
      CHECK(validate(advice.policy).is_ok());
      CHECK(advice.memtable_bytes + advice.filter_bits_per_key * 1e7 / 8 <= (64 << 20) + 1);
      CHECK(advice.worst_cost >= before);
      const OperationFigures& costs = advice.costs;
      CHECK(advice.mean_cost == Approx(0.2 * costs.empty_read + 0.4 * costs.read + 0.1 * costs.range + 0.3 * costs.write));
      CHECK((rho == 0 ? advice.worst_cost == advice.mean_cost : advice.worst_cost > advice.mean_cost));
      before = advice.worst_cost;
    }
  }
}

TEST_CASE("question names layouts and limits: the advice keeps within them") {
  TunerQuestion question = question_of({0.3, 0.3, 0.3, 0.1});
  question.layouts = {"klsm"};
  const auto free = advise(question);
  REQUIRE(free.is_ok());
  CHECK(free->size() == 1);
  CHECK(free->front().layout == "klsm");
  question.max_transient_space = 1.3;
  const auto bound = advise(question);
  REQUIRE(bound.is_ok());
  CHECK(free->front().transient_space > 1.3);
  CHECK(bound->front().transient_space <= 1.3 * (1 + 1e-9));
}

TEST_CASE("field of a question is wrong: the error names the field") {
  CHECK(error_of(question_of({0.5, 0.5, 0.5, 0.5})).find("the shares sum to 2") != std::string::npos);
  CHECK(error_of(question_of({1, 0, 0, 0}, -1)).find("rho is -1") != std::string::npos);
  CHECK(error_of(question_of({1, 0, 0, 0}, std::nan(""))).find("rho is") != std::string::npos);
  TunerQuestion question = question_of({1, 0, 0, 0});
  question.layouts = {"levelled"};
  CHECK(error_of(question).find("layout is \"levelled\"; allowed: leveling, tiering") != std::string::npos);
  question = question_of({1, 0, 0, 0});
  question.entries = 0;
  CHECK(error_of(question).find("entries is 0; allowed: 1 or more") != std::string::npos);
  question = question_of({1, 0, 0, 0});
  question.memory_bytes = 0;
  CHECK(error_of(question).find("memory is 0") != std::string::npos);
}

TEST_CASE("history of a workload is given: the question gets its workload and rho") {
  TunerQuestion question = question_of({1, 0, 0, 0});
  const OperationFigures windows[] = {{4000, 4000, 1000, 1000}, {1000, 1000, 4000, 4000}};
  REQUIRE(set_uncertainty(windows, &question).is_ok());
  CHECK(question.workload.write == Approx(0.25));
  CHECK(question.rho == Approx(0.193).margin(0.001));
  const OperationFigures few[] = {{1, 2, 3, 4}};
  CHECK_FALSE(set_uncertainty(few, &question).is_ok());
  CHECK(question.rho == Approx(0.193).margin(0.001));
}

}  // namespace TEST_FILE
}  // namespace ebbtide

// Tests of the tables of ebbtide-tune, and of the settings that it prints.
#include "tools/tune_report.h"

#include <catch2/catch.hpp>

#include "policy/policy.h"
#include "tools/simulate_arguments.h"
#include "tools/tune_inputs.h"

namespace ebbtide {
namespace TEST_FILE {

TuneInputs inputs(const TuneValues& more = {}) {
  TuneValues values = {{"entries", "100M"}, {"entry_size", "200"}, {"memory", "512MiB"}, {"workload", "0.2,0.4,0.1,0.3"}};
  for (const auto& [key, value] : more) values[key] = value;
  auto in = parse_tune_inputs(values);
  if (!in.is_ok()) FAIL(in.status().to_string());
  return std::move(in).value();
}

TEST_CASE("table of a report is printed: its columns are aligned, the first to the left") {
  CHECK(aligned_table({{"a", "bb", "c"}, {"long", "1", "22222"}}) == "a     bb      c\nlong   1  22222\n");
}

TEST_CASE("costs of a tuning are printed: for each operation, for the mean and for each level") {
  const TuneInputs in = inputs({{"layout", "klsm"}, {"runs", "3,1"}, {"size_ratio", "5"}});
  const std::string text = model_text(in.request, assess(in.request, in.tuning));
  for (const char* part :
       {"klsm, T = 5, runs 3,1, buffer 64 MiB", "empty read", "range", "mean", "write amplification", "longest merge", "level"})
    CHECK(text.find(part) != std::string::npos);
  CHECK(text.find("worst within rho") == std::string::npos);
  const TuneInputs robust = inputs({{"rho", "0.5"}});
  CHECK(model_text(robust.request, assess(robust.request, robust.tuning)).find("worst within rho") != std::string::npos);
}

// Simulator and engine read policies in the same way.
TEST_CASE("advised settings are printed as YAML: the engine accepts them") {
  for (const Layout layout : kLayouts) {
    TuneInputs in = inputs();
    in.request.layouts = {layout};
    in.request.rho = 0.3;
    in.request.size_ratio_max = 32;
    const auto advices = tune(in.request);
    REQUIRE(advices.is_ok());
    const std::string text = advices_text(in.request, *advices);
    CAPTURE(text);
    const std::string yaml = settings_text(in.request, advices->front().tuning);
    const auto choices = parse_tree_choices(yaml.substr(yaml.find('\n') + 1));
    REQUIRE(choices.is_ok());
    CHECK(make_policy(choices->policy).is_ok());
    CHECK(text.find("Worst mix of the first") != std::string::npos);
  }
}

TEST_CASE("settings of K-LSM are printed as YAML: each level has its number of runs") {
  const TuneInputs in = inputs({{"layout", "klsm"}, {"runs", "4,3,1"}, {"size_ratio", "6"}});
  const std::string text = settings_text(in.request, in.tuning);
  CHECK(text.find("runs: 1\n    runs_0: 4\n    runs_1: 3\n    size_ratio: 6\n") != std::string::npos);
  CHECK(text.find("memtable_size: 65536KiB") != std::string::npos);
  Tuning large = in.tuning;
  large.size_ratio = 5000;
  CHECK(settings_text(in.request, large).find("The engine refuses these settings") != std::string::npos);
  Tuning small = in.tuning;
  small.buffer_bits = 8 * 1024;
  CHECK(check_engine_settings(in.request, small).to_string().find("allowed: 16KiB to 16GiB") != std::string::npos);
}

TEST_CASE("Monkey's designs are printed: each in the paper's terms, or the reason why it does not exist") {
  const TuneInputs in = inputs();
  const auto design = monkey_design(in.request.system, in.request.mix);
  REQUIRE(design.is_ok());
  const std::string text = monkey_text(in.request, *design, monkey_navigation(in.request.system, in.request.mix, {}));
  CAPTURE(text);
  for (const char* part :
       {"Expected: 20.0 % empty reads", "point read", design->tiering ? "\ntiering" : "\nleveling", "divided by Algorithm 5:\n"})
    CHECK(text.find(part) != std::string::npos);
  CHECK(monkey_text(in.request, *design, Status::invalid_argument("no design keeps the bounds"))
            .ends_with("Algorithm 5:\nno design keeps the bounds\n"));
}

TEST_CASE("what-if is printed: one row for the present costs, and two rows for each question") {
  const TuneInputs in = inputs();
  std::vector<Answer> answers;
  for (const char* question : {"memory=1GiB", "entries=1G"}) {
    const auto change = parse_change(question);
    REQUIRE(change.is_ok());
    auto effect = what_if(in.request, in.tuning, *change);
    REQUIRE(effect.is_ok());
    answers.push_back({question, changed(in.request, *change), std::move(effect).value()});
  }
  const std::string text = what_if_text(in.request, answers);
  CAPTURE(text);
  for (const char* part : {"now ", "memory=1GiB", "entries=1G", "tuned for this change", " %"})
    CHECK(text.find(part) != std::string::npos);
}

}  // namespace TEST_FILE
}  // namespace ebbtide

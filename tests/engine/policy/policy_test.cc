// Tests of the policies' decisions, as text files of shapes and plans (testdata), and of the settings that make_policy refuses.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "policy/fade.h"
#include "policy/leveled.h"
#include "policy/registry.h"
#include "support/datadriven.h"
#include "tree/apply.h"
#include "tree/frozen.h"
#include "tree/text.h"

namespace ebbtide {
namespace TEST_FILE {

PolicySettings settings_of(const test::DataCase& data) {
  PolicySettings settings;
  settings.name = data.arg("name", "one_leveling");
  for (const auto& [key, value] : data.args) {
    if (key != "name") settings.parameters[key] = std::stod(value);
  }
  return settings;
}

FileChoice choice_of(const std::string& name) {
  if (name == "round_robin") return FileChoice::kRoundRobin;
  if (name == "least_overlap") return FileChoice::kLeastOverlap;
  if (name == "most_tombstones") return FileChoice::kMostTombstones;
  REQUIRE(name == "oldest");
  return FileChoice::kOldest;
}

std::string runs_text(const TreeShape& shape) {
  std::string out;
  int level = 0;
  for (const RunShape& run : shape.runs) {
    if (run.files.empty()) continue;
    for (; level < run.level; ++level) out += " |";
    out += " " + std::to_string(run.bytes());
  }
  return out;
}

/// A tree that grows by flushes of one byte each, and the resulting plans. With the flag `files`, the output of a merge is cut
/// into files of one byte each. The keys of a file are spread evenly between its bounds.
class Drive {
 public:
  Drive(const Policy& policy, const test::DataCase& data)
      : policy_(policy), at_(data.arg("flushes")), in_files_(data.args.count("files") != 0) {
    context_.file_choice = choice_of(data.arg("choice", "least_overlap"));
    shape_.memtable_bytes = shape_.file_bytes = 1;
  }
  std::string run() {
    std::istringstream list(at_);
    std::string out, item;
    while (std::getline(list, item, ',')) {
      const std::uint64_t until = std::stoull(item);
      while (shape_.flushes < until) flush();
      out += item + ":" + runs_text(shape_) + "\n";
      for (const Plan& plan : plans_) {
        if (in_files_) out += "    " + to_text(plan) + "\n";
      }
    }
    return out;
  }

 private:
  static constexpr std::uint64_t kEnd = 10'000'000;  // the end of the keys, which are numbers of seven digits
  /// A part of the key space, and the bytes of its entries.
  struct Part {
    double begin, end, bytes;
  };

  void flush() {
    shape_.runs.insert(shape_.runs.begin(), RunShape{next_run_id(shape_), 0, {file(0, kEnd, 1)}});
    ++shape_.flushes;
    plans_.clear();
    for (bool more = true; more; more = policy_.cadence() == Cadence::kAlways) {
      shape_.levels = policy_.levels(shape_);
      const Plan plan = policy_.next(shape_, context_);
      if (plan.empty()) break;
      plans_.push_back(plan);
      shape_ = *apply(shape_, plan, outputs(plan));
    }
    CHECK(check_bounds(policy_, shape_, {}) == "");
  }
  std::vector<PlanOutput> outputs(const Plan& plan) {
    if (std::holds_alternative<Move>(plan.action)) return {};
    std::vector<Part> parts;
    double bytes = 0;
    for (const PlanInput& input : inputs_of(plan)) {
      for (const FileShape& f : shape_.run(input.run)->files) {
        if (std::find(input.files.begin(), input.files.end(), f.num) == input.files.end()) continue;
        parts.push_back({std::stod(f.smallest), std::stod(f.largest) + 1, static_cast<double>(f.bytes)});
        bytes += parts.back().bytes;
      }
    }
    std::vector<PlanOutput> out;
    const auto count = in_files_ ? static_cast<std::uint64_t>(bytes) : 1;
    std::uint64_t begin = key_below(parts, 0);
    for (std::uint64_t i = 1; i <= count; ++i) {
      const std::uint64_t end = key_below(parts, bytes * static_cast<double>(i) / static_cast<double>(count));
      out.push_back({0, file(begin, end, static_cast<std::uint64_t>(bytes) / count)});
      begin = end;
    }
    return out;
  }
  /// Returns the first key with `bytes` bytes below it; for 0 bytes, the beginning of the first part.
  static std::uint64_t key_below(const std::vector<Part>& parts, double bytes) {
    std::set<double> borders;
    for (const Part& part : parts) borders.insert({part.begin, part.end});
    double below = 0, from = *borders.begin();
    for (const double to : borders) {
      double here = 0;
      for (const Part& part : parts) {
        if (part.begin <= from && to <= part.end) here += part.bytes * (to - from) / (part.end - part.begin);
      }
      if (below + here >= bytes && here > 0)
        return static_cast<std::uint64_t>(std::llround(from + (to - from) * (bytes - below) / here));
      below += here;
      from = to;
    }
    return static_cast<std::uint64_t>(from);
  }
  FileShape file(std::uint64_t begin, std::uint64_t end, std::uint64_t bytes) {
    char text[2][24];
    std::snprintf(text[0], sizeof text[0], "%07llu", static_cast<unsigned long long>(begin));
    std::snprintf(text[1], sizeof text[1], "%07llu", static_cast<unsigned long long>(end - 1));
    FileShape f;
    f.num = ++last_file_;
    f.smallest = text[0], f.largest = text[1];
    f.bytes = bytes;
    return f;
  }

  const Policy& policy_;
  const std::string at_;
  const bool in_files_;
  PolicyContext context_{};
  TreeShape shape_;
  std::vector<Plan> plans_;  // the plans of the last flush
  FileNum last_file_ = 0;
};

/// The commands:
///   * policy name=... [parameter=...]. Makes the policy of the following cases. The output is the error if it is refused.
///   * next [choice=] [now=]. The plan for the shape that is the input.
///   * all [choice=] [now=]. Plans until there is none, each marked busy before the next.
///   * debt, check, levels, flushes, capacity. The results of these methods; capacity is that of levels 0 to 4.
///   * bounds. Like `check`, even if the policy has a plan.
///   * urgent now= [margin=] [late] [over_budget] [arriving=] [room=] [purge=] [skip=] [all]. The plan for the deadlines, without
///     the files in frozen ranges. `all`: plan after plan, each marked busy before the next.
///   * ttl [deadline=] [margin=]. TTLs of the memtable and each level above the final one, and the age up to which a file stays.
///   * shares arriving=. The share of its time after which a delete must have left the memtable, and each level above the final
///     one.
///   * work now=. The merges that the deadlines still need.
///   * drive flushes=... [files] [choice=]. Flushes into an empty tree. After each of the flushes listed (as in 16,20) the output
///     has the sizes of the runs in memtables, newest first, with "|" between levels. Each flush spans all keys evenly. `files`:
///     outputs are cut into files of a memtable each, and the output also has the plans of the listed flushes.
class Runner {
 public:
  std::string run(const test::DataCase& data) {
    if (data.command == "policy") return make(make_policy(settings_of(data)));
    REQUIRE(policy_ != nullptr);
    if (data.command == "drive") return Drive(*policy_, data).run();
    Result<TreeShape> parsed = parse_shape(data.input);
    if (!parsed.is_ok()) return parsed.status().to_string();
    TreeShape shape = *parsed;
    if (std::string wrong = check(shape); !wrong.empty()) return "malformed: " + wrong;
    const PolicyContext context{std::stoull(data.arg("now", "0")), choice_of(data.arg("choice", "least_overlap"))};
    if (data.command == "next") return to_text(policy_->next(shape, context));
    if (data.command == "all") return all(shape, context);
    if (data.command == "debt") return bytes_to_text(policy_->debt_bytes(shape));
    if (data.command == "check") return check_bounds(*policy_, shape, context) + ".";
    if (data.command == "bounds") return policy_->check(shape) + ".";
    if (data.command == "levels") return std::to_string(policy_->levels(shape));
    if (data.command == "flushes") return std::to_string(policy_->flushes(shape));
    shape.deadline_bytes = std::stoull(data.arg("arriving", "0"));
    if (data.command == "urgent") return urgent_plans(shape, data);
    if (data.command == "ttl") return ttls(shape, data);
    if (data.command == "shares") return shares(shape);
    if (data.command == "work") {
      const FadeWork work = fade_work(shape, std::stoull(data.arg("now")));
      char text[160];
      std::snprintf(text, sizeof text, "%s, %.1f bytes/ms, oldest %llu, deadline %llu", bytes_to_text(work.bytes).c_str(),
                    work.bytes_per_ms, static_cast<unsigned long long>(work.oldest_birth),
                    static_cast<unsigned long long>(work.deadline));
      return text;
    }
    REQUIRE(data.command == "capacity");
    std::string out;
    for (int level = 0; level < 5; ++level) {
      out += "L" + std::to_string(level) + " " +
             bytes_to_text(static_cast<std::uint64_t>(policy_->capacity_bytes(shape, level))) + "\n";
    }
    return out;
  }

 private:
  std::string make(const Result<std::shared_ptr<const Policy>>& made) {
    if (!made.is_ok()) return made.status().to_string();
    policy_ = *made;
    return policy_->name() + ": slowdown at " + std::to_string(policy_->slowdown_runs()) + " runs, stop at " +
           std::to_string(policy_->stop_runs());
  }
  std::string all(TreeShape shape, const PolicyContext& context) const {
    std::string out;
    for (;;) {
      const Plan plan = policy_->next(shape, context);
      out += to_text(plan) + "\n";
      if (plan.empty()) return out;
      mark_busy(&shape, plan, true);
    }
  }
  [[nodiscard]] std::string urgent_plans(TreeShape shape, const test::DataCase& data) const {
    std::vector<FileNum> skip;
    if (data.args.count("skip") != 0) skip.push_back(std::stoull(data.arg("skip")));
    FadeContext context{std::stoull(data.arg("now")), std::stoull(data.arg("margin", "0")), data.args.count("late") != 0, skip};
    if (data.args.count("room") != 0) context.room = std::stoull(data.arg("room"));
    context.over_budget = data.args.count("over_budget") != 0;
    shape.purge_before = std::stoull(data.arg("purge", "0"));
    leave_out_frozen(&shape);
    std::string out;
    for (;;) {
      const Plan plan = urgent(shape, *policy_, context);
      out += to_text(plan) + "\n";
      if (plan.empty() || data.args.count("all") == 0) return out;
      mark_busy(&shape, plan, true);
    }
  }
  [[nodiscard]] std::string shares(const TreeShape& shape) const {
    const TtlShares shares(shape, *policy_);
    std::string out;
    for (int level = -1; level < std::max(1, shape.last_level()); ++level) {
      char line[80];
      std::snprintf(line, sizeof line, "%s %.3f\n", level < 0 ? "memtable" : ("L" + std::to_string(level)).c_str(),
                    level < 0 ? shares.memtable() : shares.level(level));
      out += line;
    }
    return out + (shares.in_one_go() ? "in one go" : "step by step");
  }
  [[nodiscard]] std::string ttls(const TreeShape& shape, const test::DataCase& data) const {
    const double deadline = std::stod(data.arg("deadline")), margin = std::stod(data.arg("margin", "0"));
    std::vector<double> capacities{static_cast<double>(shape.memtable_bytes)};
    for (int level = 0; level < shape.last_level(); ++level) capacities.push_back(policy_->capacity_bytes(shape, level));
    const TtlShares shares(shape, *policy_);
    std::string out;
    char text[80];
    int level = -1;
    for (const double ttl : level_ttls(deadline, margin, capacities)) {
      std::snprintf(text, sizeof text, "%s d %.0f, until %.0f\n", level < 0 ? "memtable" : ("L" + std::to_string(level)).c_str(),
                    ttl, (deadline - margin) * (level < 0 ? shares.memtable() : shares.level(level)));
      out += text;
      ++level;
    }
    return out;
  }
  std::shared_ptr<const Policy> policy_;
};

TEST_CASE("shapes of trees are given to the policies: their decisions equal the recorded ones", "[policy]") {
  Runner runner;
  test::run_datadriven_dir(
      std::string(EBBTIDE_TEST_DIR) + "/testdata", [&](const std::string&) { runner = Runner(); },
      [&](const test::DataCase& data) { return runner.run(data); });
}

TEST_CASE("disk space is short: the plan takes the smallest of the 64 most urgent files", "[policy]") {
  TreeShape shape;
  shape.file_bytes = 100;
  shape.runs.push_back({1, 1, {}});
  for (FileNum n = 1; n <= 65; ++n) {
    FileShape file;
    file.num = n;
    file.smallest = file.largest = "k" + std::to_string(100 + n);
    file.bytes = 200 - n;
    file.oldest_birth = n;
    file.deadline = 100 + n;
    shape.runs[0].files.push_back(file);
  }
  const auto policy = *make_policy({"leveling", {}});
  FadeContext context;
  context.now = 1000;
  CHECK(to_text(urgent(shape, *policy, context)) == "rewrite r1{1} (deadline, urgent)");
  context.room = 1000;
  CHECK(to_text(urgent(shape, *policy, context)) == "rewrite r1{64} (deadline, urgent)");
}

TEST_CASE("policy makes a plan: the plan reads back from its text", "[policy]") {
  auto policy = *make_policy({"one_leveling", {{"level0_runs", 2}}});
  const TreeShape shape = *parse_shape("tree memtable=1M\nL0 r3: 5[a..k 1M]\nL0 r2: 4[c..z 1M]\nL1 r1: 1[a..b 1M] 2[f..g 1M]\n");
  const Plan plan = policy->next(shape, {});
  REQUIRE(!plan.empty());
  CHECK(*parse_plan(to_text(plan)) == plan);
}

TEST_CASE("parameters are listed in policies.md: the table equals the registry", "[policy]") {
  std::ifstream in(std::string(EBBTIDE_TEST_DIR) + "/../../../engine/docs/policies.md");
  REQUIRE(in.is_open());
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  for (const PolicyInfo& policy : all_policies()) {
    for (const PolicyParameter& p : policy.parameters) {
      char row[160];
      std::snprintf(row, sizeof(row), "| `%s` | `%s` | %g to %g%s | %g |", policy.name, p.name, p.min, p.max,
                    p.whole ? ", whole" : "", p.fallback);
      INFO(row);
      CHECK(text.find(row) != std::string::npos);
    }
  }
}

TEST_CASE("parameter of a policy is at an end of its range: it is accepted, and beyond the end refused", "[policy]") {
  for (const PolicyInfo& policy : all_policies()) {
    for (const PolicyParameter& p : policy.parameters) {
      for (const double good : {p.min, p.max}) CHECK(make_policy({policy.name, {{p.name, good}}}).is_ok());
      for (const double bad :
           {p.min - 1, p.max + 1, std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
        const auto made = make_policy({policy.name, {{p.name, bad}}});
        REQUIRE(!made.is_ok());
        CHECK(made.status().code() == Code::kInvalidArgument);
        CHECK(made.status().to_string().find(p.name) != std::string::npos);
      }
      CHECK(make_policy({policy.name, {{p.name, p.min + 0.5}}}).is_ok() == !p.whole);
    }
  }
}

}  // namespace TEST_FILE
}  // namespace ebbtide

// Tests of shapes, of plans and their effect on shapes, and of the notation of both.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/random.h"
#include "support/datadriven.h"
#include "tree/apply.h"
#include "tree/text.h"

namespace ebbtide {
namespace TEST_FILE {

std::string random_key(Random& random) {
  std::string key;
  for (std::uint64_t n = random.uniform(4); n > 0; --n) {
    key += static_cast<char>(random.one_in(4) ? random.uniform(256) : 'a' + random.uniform(3));
  }
  return key;
}

FileShape random_file(Random& random) {
  FileShape file;
  const auto maybe = [&](std::uint64_t n) { return random.one_in(2) ? 0 : random.uniform(n); };
  file.num = 1 + random.uniform(1000);
  file.smallest = random_key(random);
  file.unbounded = random.one_in(5);
  if (!file.unbounded) {
    file.largest = random_key(random);
    if (file.largest < file.smallest) std::swap(file.largest, file.smallest);
    file.largest_exclusive = file.smallest != file.largest && random.one_in(3);
  }
  file.bytes = maybe(2) << random.uniform(40);
  file.entries = maybe(100);
  file.tombstones = maybe(100);
  file.range_tombstones = maybe(100);
  file.invalidated = maybe(100);
  file.dead = maybe(100);
  file.oldest_birth = maybe(100);
  file.deadline = maybe(100);
  file.min_seq = maybe(100);
  file.max_seq = file.min_seq + maybe(100);
  if (random.one_in(2)) {
    file.min_delete_key = random.uniform(100);
    file.max_delete_key = kMaxDeleteKey;
  }
  file.max_expiry = maybe(100);
  file.busy = random.one_in(4);
  file.quarantined = random.one_in(8);
  return file;
}

TreeShape random_shape(Random& random) {
  TreeShape shape;
  shape.memtable_bytes = random.one_in(3) ? 0 : random.next() >> random.uniform(64);
  shape.file_bytes = random.uniform(3) << 20;
  shape.flushes = random.uniform(3);
  shape.levels = static_cast<int>(random.uniform(3));
  for (std::uint64_t n = random.uniform(3); n > 0; --n) shape.cursors.push_back(random_key(random));
  while (!shape.cursors.empty() && shape.cursors.back().empty()) shape.cursors.pop_back();
  for (std::uint64_t n = random.uniform(5); n > 0; --n) {
    RunShape& run = shape.runs.emplace_back(RunShape{random.uniform(100), static_cast<int>(random.uniform(5)), {}});
    for (std::uint64_t f = random.uniform(4); f > 0; --f) run.files.push_back(random_file(random));
  }
  return shape;
}

Plan random_plan(Random& random) {
  Plan plan;
  const auto number = [&] { return 1 + random.uniform(50); };
  std::vector<PlanInput> inputs;
  for (std::uint64_t n = 1 + random.uniform(3); n > 0; --n) {
    PlanInput& input = inputs.emplace_back(PlanInput{number(), {}});
    for (std::uint64_t f = random.uniform(4); f > 0; --f) input.files.push_back(number());
  }
  const PlanTarget target{random.uniform(3), static_cast<int>(random.uniform(4))};
  switch (random.uniform(6)) {
    case 0:
      plan.action = Merge{inputs, target};
      break;
    case 1:
      plan.action = Slice{inputs, {random_key(random), random_key(random)}, target};
      break;
    case 2:
      plan.action = Move{inputs[0].run, inputs[0].files, target};
      break;
    case 3:
      plan.action = Rewrite{number(), number(), random.one_in(2) ? 0 : number()};
      break;
    case 4:
      plan.action = Drop{inputs};
      break;
    default:
      return plan;
  }
  plan.reason = static_cast<Reason>(random.uniform(8));
  plan.urgent = random.one_in(2);
  return plan;
}

TEST_CASE("random shapes and plans are printed: parsing the text gives the same shape or plan", "[tree]") {
  Random random(42);
  for (int i = 0; i < 3000; ++i) {
    INFO("round " << i << " of seed 42");
    const TreeShape shape = random_shape(random);
    const auto parsed = parse_shape(to_text(shape));
    INFO(to_text(shape));
    REQUIRE(parsed.is_ok());
    CHECK(*parsed == shape);
    const Plan plan = random_plan(random);
    const auto plan_back = parse_plan(to_text(plan));
    INFO(to_text(plan));
    REQUIRE(plan_back.is_ok());
    if (!(*plan_back == plan)) FAIL_CHECK("differs: " << to_text(*plan_back));
  }
}

TEST_CASE("text of a shape is damaged: it is refused, or parses to a shape that prints and parses again", "[tree]") {
  Random random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text = to_text(random_shape(random));
    if (text.empty()) continue;
    for (int n = 0; n < 3; ++n) text[random.uniform(text.size())] = static_cast<char>(random.uniform(128));
    if (const auto parsed = parse_shape(text); parsed.is_ok()) {
      const auto again = parse_shape(to_text(*parsed));
      REQUIRE(again.is_ok());
      CHECK(*again == *parsed);
    }
    (void)parse_plan(text);
  }
}

/// Returns true if the file's bounds contain the key, by comparing them one by one.
bool covers(const FileShape& file, const std::string& key) {
  return key >= file.smallest && (file.unbounded || (file.largest_exclusive ? key < file.largest : key <= file.largest));
}

TEST_CASE("overlap, common range and hull of files are computed: the results equal those of a check of single keys", "[tree]") {
  std::vector<std::string> universe;  // every key of up to two letters, and the points just after them
  for (const char* a : {"", "a", "b", "c"}) {
    for (const char* b : {"", "a", "b", "c"}) {
      universe.push_back(std::string(a) + b);
      universe.push_back(std::string(a) + b + '\0');
    }
  }
  const auto small_file = [&](Random& random) {
    FileShape file;
    file.num = 1;
    file.smallest = universe[random.uniform(universe.size() / 2) * 2];
    file.largest = universe[random.uniform(universe.size() / 2) * 2];
    if (file.largest < file.smallest) std::swap(file.largest, file.smallest);
    file.largest_exclusive = file.smallest != file.largest && random.one_in(2);
    if (random.one_in(5)) {
      file.unbounded = true;
      file.largest_exclusive = false;
      file.largest.clear();
    }
    return file;
  };
  Random random(3);
  for (int i = 0; i < 3000; ++i) {
    const FileShape a = small_file(random), b = small_file(random);
    INFO(to_text(a) << " and " << to_text(b));
    const KeyRange range = a.range(), both = hull(a.range(), b.range());
    bool meet = false, meet_range = false;
    for (const std::string& key : universe) {
      CHECK(covers(a, key) == range.contains(key));
      if (covers(a, key) || covers(b, key)) CHECK(both.contains(key));
      meet |= covers(a, key) && covers(b, key);
      meet_range |= covers(a, key) && b.range().contains(key);
    }
    CHECK(a.overlaps(b) == meet);
    CHECK(b.overlaps(a) == meet);
    CHECK(a.overlaps(b.range().start, b.range().end) == meet_range);
  }
}

TEST_CASE("files of a run that overlap a range are searched: the result equals a check of each file", "[tree]") {
  const TreeShape shape = *parse_shape("L1 r1: 1[a..b 1] 2[c..<d 1] 3[d..d 1] 4[e..<g 1] 5[h..* 1]\nL2 r2: 6[c..e 1]\n");
  const RunShape& run = shape.runs[0];
  const std::vector<std::string> keys = {"", "a", "b", "bb", "c", "cc", "d", "dd", "e", "f", "g", "gg", "h", "z"};
  for (const std::string& start : keys) {
    for (std::string end : keys) {
      if (!end.empty() && end <= start) continue;
      const auto [first, last] = run.overlapping(start, end);
      for (std::size_t i = 0; i < run.files.size(); ++i) {
        INFO(start << ".." << end << " file " << run.files[i].num);
        CHECK((i >= first && i < last) == run.files[i].overlaps(start, end));
      }
      CHECK(shape.is_final(1, start, end) == !shape.runs[1].files[0].overlaps(start, end));
      CHECK(shape.is_final(2, start, end));
    }
  }
}

/// The commands of the test data:
/// text     parses a shape and prints it again
/// check    prints the fault that check() finds in the shape
/// plan     parses a plan and prints it again
/// apply    applies a plan. The input has the plan in its first line, then outputs as lines "out [rN] file", then the shape
/// facts    prints bytes, last level and next run id of the shape
class Runner {
 public:
  std::string run(const test::DataCase& data) {
    if (data.command == "plan") {
      const auto plan = parse_plan(Bytes(data.input).substr(0, data.input.find('\n')));
      return plan.is_ok() ? to_text(*plan) : plan.status().to_string();
    }
    if (data.command == "apply") return apply_case(data.input);
    const auto shape = parse_shape(data.input);
    if (!shape.is_ok()) return shape.status().to_string();
    if (data.command == "text") return to_text(*shape);
    if (data.command == "check") return check(*shape);
    REQUIRE(data.command == "facts");
    return "bytes " + bytes_to_text(shape->bytes()) + ", last level " + std::to_string(shape->last_level()) + ", next run " +
           std::to_string(next_run_id(*shape));
  }

 private:
  static std::string take_line(std::string* text) {
    const std::size_t end = text->find('\n');
    std::string line = text->substr(0, end);
    text->erase(0, end + 1);
    return line;
  }
  static std::string apply_case(std::string input) {
    const Plan plan = *parse_plan(take_line(&input));
    std::vector<PlanOutput> outputs;
    while (input.starts_with("out")) {
      std::string line = take_line(&input).substr(4);
      if (line[0] != 'r') line.insert(0, "r0 ");
      const std::size_t space = line.find(' ');
      const TreeShape one = *parse_shape("L0 r1:" + line.substr(space));
      outputs.push_back({std::stoull(line.substr(1, space)), one.runs[0].files[0]});
    }
    const TreeShape before = *parse_shape(input);
    std::string out;
    for (const RunId run : removed_runs(before, plan)) out += "removes r" + std::to_string(run) + "\n";
    const auto after = apply(before, plan, outputs);
    return out + (after.is_ok() ? to_text(*after) : after.status().to_string());
  }
};

TEST_CASE("plans of the test data are parsed and applied: resulting texts and shapes equal the recorded ones", "[tree]") {
  Runner runner;
  test::run_datadriven_dir(
      std::string(EBBTIDE_TEST_DIR) + "/testdata", [](const std::string&) {},
      [&](const test::DataCase& data) { return runner.run(data); });
}

TEST_CASE("plan names a file twice, or a file that is not in the run: it is refused", "[tree]") {
  const auto shape = parse_shape("L0 r2: 5[a..c 1K] 6[d..f 1K]\nL1 r1: 4[a..z 1K]\n");
  REQUIRE(shape.is_ok());
  for (const char* text :
       {"drop r2{5 5} (dropped)", "drop r2{4} (dropped)", "move r2{6 7} -> r1 L1 (size)", "drop r3{5} (dropped)"}) {
    const auto plan = parse_plan(text);
    REQUIRE(plan.is_ok());
    CHECK(apply(*shape, *plan, {}).status().code() == Code::kInvalidArgument);
  }
}

TEST_CASE("plan's inputs are marked as busy, then as free: no other file changes", "[tree]") {
  const TreeShape before = *parse_shape("L0 r3: 5[a..b 1] 6[c..d 1]\nL1 r1: 1[a..b 1] 2[c..d 1]\n");
  const Plan plan = *parse_plan("merge r3{5} r1{1} -> r1 L1 (size)");
  TreeShape shape = before;
  mark_busy(&shape, plan, true);
  CHECK(to_text(shape) == "L0 r3: 5[a..b 1 busy] 6[c..d 1]\nL1 r1: 1[a..b 1 busy] 2[c..d 1]\n");
  mark_busy(&shape, plan, false);
  CHECK(shape == before);
}

}  // namespace TEST_FILE
}  // namespace ebbtide

// Tests with simulated trees: keys are written and deleted, memtables flushed, several jobs run concurrently and end in any
// order. A read from the newest run to the oldest must find the last written version. When no policy has a plan, every level must
// be within its bounds.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "base/random.h"
#include "policy/leveled.h"
#include "tree/apply.h"
#include "tree/text.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr std::uint64_t kEntryBytes = 100;

struct SimEntry {
  SeqNum seq = 0;
  bool tombstone = false;
};
using SimTable = std::map<std::string, SimEntry>;

std::string key_of(std::uint64_t n) {
  std::string digits = std::to_string(n);
  return "k" + std::string(6 - digits.size(), '0') + digits;
}

struct SimOptions {
  PolicySettings policy;
  FileChoice choice = FileChoice::kLeastOverlap;
  std::uint64_t keys = 3000, memtable_entries = 50, file_entries = 30;
  std::size_t jobs = 1;
  bool sequential = false;
};

class Simulation {
 public:
  Simulation(SimOptions options, std::uint64_t seed) : options_(std::move(options)), random_(seed) {
    policy_ = *make_policy(options_.policy);
    shape_.memtable_bytes = options_.memtable_entries * kEntryBytes;
    shape_.file_bytes = options_.file_entries * kEntryBytes;
  }

  void write_one() {
    const std::uint64_t n = options_.sequential ? written_ % 900'000 : random_.uniform(options_.keys);
    const SimEntry entry{++seq_, random_.one_in(10)};
    memtable_[key_of(n)] = entry;
    newest_[key_of(n)] = entry;
    ++written_;
    if (memtable_.size() < options_.memtable_entries) return;
    flush();
    if (shape_.runs.size() > 0 && level0_runs() > policy_->stop_runs()) drain();
    step();
  }
  /// Runs until no job is left and there is no plan.
  void drain() {
    while (start_job() || !running_.empty()) {
      if (!running_.empty()) finish_job(random_.uniform(running_.size()));
    }
  }
  void check_reads() const {
    for (const auto& [key, entry] : newest_) {
      const auto found = read(key);
      const bool same = entry.tombstone ? !found || found->tombstone : found && found->seq == entry.seq;
      if (!same) FAIL("wrong version of " << key << " in\n" << to_text(shape_));
    }
  }
  void check_quiet() const {
    CHECK(check(shape_) == "");
    CHECK(policy_->next(shape_, context()).empty());
    CHECK(policy_->debt_bytes(shape_) == 0);
    CHECK(policy_->check(shape_) == "");
  }
  [[nodiscard]] double write_amplification() const {
    return static_cast<double>(entries_written_) / static_cast<double>(entries_flushed_);
  }
  [[nodiscard]] const TreeShape& shape() const { return shape_; }
  [[nodiscard]] std::size_t most_jobs() const { return most_jobs_; }
  [[nodiscard]] std::uint64_t moves() const { return moves_; }

 private:
  struct Job {
    Plan plan;
    std::vector<PlanOutput> outputs;
  };

  PolicyContext context() const { return {0, options_.choice}; }
  int level0_runs() const {
    int n = 0;
    for (const RunShape& run : shape_.runs) n += run.level == 0 && !run.files.empty();
    return n;
  }
  std::optional<SimEntry> read(const std::string& key) const {
    if (const auto at = memtable_.find(key); at != memtable_.end()) return at->second;
    for (const RunShape& run : shape_.runs) {
      const auto [first, last] = run.overlapping(key, key + '\0');
      for (std::size_t i = first; i < last; ++i) {
        const SimTable& table = tables_.at(run.files[i].num);
        if (const auto at = table.find(key); at != table.end()) return at->second;
      }
    }
    return std::nullopt;
  }

  FileShape add_table(SimTable table) {
    FileShape file;
    file.num = ++last_file_;
    file.smallest = table.begin()->first;
    file.largest = table.rbegin()->first;
    file.bytes = table.size() * kEntryBytes;
    file.entries = table.size();
    for (const auto& [key, entry] : table) file.tombstones += entry.tombstone;
    file.invalidated = file.tombstones;
    file.oldest_birth = file.tombstones == 0 ? 0 : 1;
    tables_[file.num] = std::move(table);
    return file;
  }
  std::vector<FileShape> cut(const SimTable& merged) {
    std::vector<FileShape> files;
    SimTable table;
    for (const auto& [key, entry] : merged) {
      table[key] = entry;
      if (table.size() == options_.file_entries) files.push_back(add_table(std::exchange(table, {})));
    }
    if (!table.empty()) files.push_back(add_table(std::move(table)));
    return files;
  }

  void flush() {
    entries_flushed_ += memtable_.size();
    entries_written_ += memtable_.size();
    shape_.runs.insert(shape_.runs.begin(), RunShape{next_run_id(shape_), 0, cut(memtable_)});
    memtable_.clear();
    ++shape_.flushes;
    shape_.levels = policy_->levels(shape_);
  }
  void step() {
    while (running_.size() < options_.jobs && start_job()) {
    }
    while (!running_.empty() && random_.one_in(2)) finish_job(random_.uniform(running_.size()));
  }

  bool start_job() {
    const Plan plan = policy_->next(shape_, context());
    if (plan.empty() || running_.size() == options_.jobs) return false;
    SimTable merged;
    for (const PlanInput& input : inputs_of(plan)) {
      for (const FileNum num : input.files) {
        const FileShape* file = find(input.run, num);
        if (file == nullptr || file->busy) FAIL("busy or missing: a file of " << to_text(plan) << " of\n" << to_text(shape_));
        merged.insert(tables_.at(num).begin(), tables_.at(num).end());  // the newest run comes first, so an existing key stays
      }
    }
    Job job{plan, {}};
    if (std::holds_alternative<Merge>(plan.action)) {
      std::erase_if(merged, [&](const auto& item) { return item.second.tombstone && final_at(plan, item.first); });
      for (FileShape& file : cut(merged)) job.outputs.push_back({0, std::move(file)});
      entries_written_ += merged.size();
    } else {
      ++moves_;
      for (const auto& [key, entry] : merged) {
        if (entry.tombstone && final_at(plan, key))
          FAIL("a tombstone could be dropped: " << to_text(plan) << " of\n" << to_text(shape_));
      }
    }
    mark_busy(&shape_, plan, true);
    running_.push_back(std::move(job));
    most_jobs_ = std::max(most_jobs_, running_.size());
    return true;
  }
  void finish_job(std::size_t index) {
    const Job job = running_[index];
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
    const auto next = apply(shape_, job.plan, job.outputs);
    if (!next.is_ok()) FAIL(next.status().to_string() << ": " << to_text(job.plan) << " done in\n" << to_text(shape_));
    shape_ = *next;
    shape_.levels = policy_->levels(shape_);
    shape_.flushes = policy_->flushes(shape_);
    const std::string wrong = check_bounds(*policy_, shape_, context());
    if (!wrong.empty()) FAIL(wrong << ": after " << to_text(job.plan) << " in\n" << to_text(shape_));
  }
  const FileShape* find(RunId run, FileNum num) const {
    for (const FileShape& file : shape_.run(run)->files) {
      if (file.num == num) return &file;
    }
    return nullptr;
  }
  /// Returns true if no older file that stays below the plan's output has `key` in its range.
  bool final_at(const Plan& plan, const std::string& key) const {
    const PlanTarget& target = *target_of(plan);
    const std::vector<PlanInput> inputs = inputs_of(plan);
    const auto is_input = [&](FileNum num) {
      return std::any_of(inputs.begin(), inputs.end(), [num](const PlanInput& input) {
        return std::find(input.files.begin(), input.files.end(), num) != input.files.end();
      });
    };
    const RunId place = target.run != 0 ? target.run : place_new_run(shape_, inputs, target.level);
    bool older = false;
    for (const RunShape& run : shape_.runs) {
      older |= run.id == place;
      if (!older) continue;
      const auto [first, last] = run.overlapping(key, key + '\0');
      for (std::size_t i = first; i < last; ++i) {
        if (!is_input(run.files[i].num)) return false;
      }
    }
    return true;
  }

  SimOptions options_;
  Random random_;
  std::shared_ptr<const Policy> policy_;
  TreeShape shape_;
  SimTable memtable_;
  std::map<std::string, SimEntry> newest_;
  std::map<FileNum, SimTable> tables_;
  std::vector<Job> running_;
  SeqNum seq_ = 0;
  FileNum last_file_ = 0;
  std::uint64_t written_ = 0, entries_flushed_ = 0, entries_written_ = 0, moves_ = 0;
  std::size_t most_jobs_ = 0;
};

const std::vector<PolicySettings> kPolicies = {
    {"leveling", {}},
    {"leveling", {{"size_ratio", 2}}},
    {"one_leveling", {}},
    {"one_leveling", {{"size_ratio", 2}, {"level0_runs", 1}}},
    {"one_leveling", {{"size_ratio", 3}, {"level0_runs", 8}}},
    {"tiering", {}},
    {"tiering", {{"size_ratio", 2}}},
    {"lazy_leveling", {{"size_ratio", 3}}},
    {"klsm", {}},
    {"klsm", {{"size_ratio", 5}, {"runs", 1}}},
    {"klsm", {{"size_ratio", 4}, {"runs", 1}, {"runs_0", 3}, {"runs_2", 2}}},
    {"garnering", {}},
    {"garnering", {{"size_ratio", 3}, {"scaling_ratio", 0.5}, {"level0_runs", 2}}},
    {"bigtable", {}},
    {"constant", {}},
    {"exploring", {}},
    {"concurrent", {}},
    {"concurrent", {{"k", 4}}},
    {"min_latency", {}},
    {"binomial", {{"k", 3}}},
};
constexpr FileChoice kChoices[] = {FileChoice::kRoundRobin, FileChoice::kLeastOverlap, FileChoice::kMostTombstones,
                                   FileChoice::kOldest};

TEST_CASE("random jobs run concurrently: reads stay correct, and at rest each level is within its bounds", "[policy]") {
  std::size_t most_jobs = 0;
  int deepest = 0;
  std::uint64_t seed = 1;
  for (const PolicySettings& policy : kPolicies) {
    const bool chooses = policy.name == "leveling" || policy.name == "one_leveling" || policy.name == "garnering";
    for (const FileChoice choice : kChoices) {
      if (!chooses && choice != kChoices[0]) continue;  // this policy takes whole runs
      for (const std::size_t jobs : {1, 4}) {
        INFO(policy.name << " choice " << static_cast<int>(choice) << " jobs " << jobs << " seed " << seed);
        Simulation sim({policy, choice, 3000, 50, 30, jobs}, seed++);
        for (int i = 0; i < 8000; ++i) {
          sim.write_one();
          if (i % 1000 == 999) sim.check_reads();
        }
        sim.drain();
        sim.check_reads();
        sim.check_quiet();
        most_jobs = std::max(most_jobs, sim.most_jobs());
        deepest = std::max(deepest, sim.shape().last_level());
      }
    }
  }
  CHECK(most_jobs >= 3);
  CHECK(deepest >= 4);
}

TEST_CASE("writes have ascending keys: files are moved down, and few are rewritten", "[policy]") {
  for (const char* name : {"leveling", "one_leveling"}) {
    Simulation sim({{name, {}}, FileChoice::kRoundRobin, 0, 50, 50, 1, true}, 7);
    for (int i = 0; i < 10000; ++i) sim.write_one();
    sim.drain();
    sim.check_reads();
    INFO(name << " " << sim.write_amplification());
    CHECK(sim.moves() > 0);
    // A tenth of the entries are tombstones, so the files of the last level are rewritten once or twice instead of moved.
    CHECK(sim.write_amplification() < 4);
  }
}

TEST_CASE("writes are random: write amplification is in the range that theory predicts", "[policy]") {
  // With uniform random writes of new keys, an entry is written on each level once at its arrival, and again by later arrivals
  // until it leaves. That is about (T + 1) / 2 times in all with whole-level merges, and up to T times with partial merges
  // (O'Neil; Monkey, appendix of update cost).
  for (const double ratio : {4.0, 10.0}) {
    Simulation sim({{"leveling", {{"size_ratio", ratio}}}, FileChoice::kRoundRobin, 900'000, 100, 50, 1}, 3);
    for (int i = 0; i < 40'000; ++i) sim.write_one();
    sim.drain();
    const double levels = sim.shape().last_level();
    INFO("T " << ratio << ", levels " << levels << ", write amplification " << sim.write_amplification());
    CHECK(sim.write_amplification() > 1 + levels * ratio / 4);
    CHECK(sim.write_amplification() < 1 + levels * (ratio + 1));
  }
}

}  // namespace TEST_FILE
}  // namespace ebbtide

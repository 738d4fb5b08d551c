// Simulates merge policies without a database: the policy objects of the engine, the rules of tree/apply.h for their plans, and
// files with sizes but no keys (simulate_workload.h). Results:
//
//   write amplification     bytes written by flushes and merges / bytes flushed
//   runs                    sorted runs with files after each flush and its merges: average over flushes, and maximum. A lookup of
//                           a missing key reads so many runs without filters
//   space amplification     bytes of all files / bytes of the live keys
//   transient               most bytes on disk at any time so far, the outputs of a merge beside its inputs / bytes of
//                           the live keys (the thesis, 3.4.3: 2 at most without updates)
//
// Merges take no time: all merges after a flush end before the next flush. Policies are called as in the papers (Cadence): those
// that flush and merge in one step write the flush only as part of the merge. With `as_engine` they are called as in the engine:
// every flush is written by itself, and every policy is called until it returns no plan.
//
// The key space is cut into equal cells; every flush has all of them. A file has some adjacent cells. Each of its cells has all
// data written between two moments. Whole-level and stack policies need one cell only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <engine/options.h>
#include "compaction/output_splitter.h"
#include "policy/policy.h"
#include "tools/simulate_workload.h"

namespace ebbtide {

struct SimulationSettings {
  PolicySettings policy;
  WorkloadSettings workload{};
  std::uint32_t cells = 0;  ///< a power of two up to 4096; 0 = 1, or kCellsByFile for policies that go file by file
  double file_size = 1;     ///< size of a table, in memtables; above 0. Used if `cells` is more than 1
  bool as_engine = false;   ///< see above
  FileChoice file_choice = FileChoice::kLeastOverlap;
};
inline constexpr std::uint32_t kCellsByFile = 64;

/// The figures after a number of flushes.
struct SimulationSample {
  std::uint64_t flushes = 0;
  double write_amp = 0, avg_runs = 0;
  std::uint64_t max_runs = 0;
  double space_amp = 0, transient_space_amp = 0;
};

/// One policy and its tree. Not thread-safe.
class Simulation {
 public:
  /// kInvalidArgument: as make_policy; cells or file_size are not allowed.
  static Result<std::unique_ptr<Simulation>> make(const SimulationSettings& settings);

  /// Simulates one flush and its merges. kInvalidArgument: the policy's plan does not fit the tree, or leaves it out of the
  /// policy's bounds. That is a bug of the policy and ends the simulation, shape() included.
  Status flush();
  [[nodiscard]] SimulationSample sample() const;
  [[nodiscard]] const TreeShape& shape() const { return shape_; }
  /// The plans of the last flush, in order.
  [[nodiscard]] const std::vector<Plan>& plans() const { return plans_; }
  [[nodiscard]] const Policy& policy() const { return *policy_; }

 private:
  /// The contents of a cell of a file: everything written between two moments.
  struct Span {
    std::uint64_t from = 0, to = 0;
  };
  /// Adjacent cells from `first` on. A cell with from == to is empty.
  struct Content {
    std::uint32_t first = 0;
    std::vector<Span> cells;
  };

  Simulation(std::shared_ptr<const Policy> policy, const SimulationSettings& settings, std::uint32_t cells);
  [[nodiscard]] double cell_bytes(const Span& span) const;
  FileShape add_file(Content content);
  std::vector<FileShape> cut(const Content& merged, std::vector<BelowFile> below);
  [[nodiscard]] Content merge(const std::vector<PlanInput>& inputs) const;
  Status carry_out(const Plan& plan, bool with_flush);
  void count_peak(std::uint64_t bytes);

  const std::shared_ptr<const Policy> policy_;
  const std::uint32_t cells_;
  std::vector<std::string> cell_keys_;  // start of each cell, and the end of the last
  const Cadence cadence_;
  const PolicyContext context_;
  Workload workload_;
  TreeShape shape_;
  std::unordered_map<FileNum, Content> contents_;
  std::vector<Plan> plans_;
  FileNum last_file_ = 0;
  RunId flushed_run_ = 0;
  double written_ = 0, flushed_ = 0;
  std::uint64_t flushes_ = 0, runs_sum_ = 0, runs_max_ = 0, peak_bytes_ = 0;
};

/// Runs `settings` and samples after each of the flushes in `at`, which ascend. Calls `progress` (may be null) now and then with
/// the number of flushes done.
Result<std::vector<SimulationSample>> simulate(const SimulationSettings& settings, std::span<const std::uint64_t> at,
                                               const std::function<void(std::uint64_t flushes)>& progress);

}  // namespace ebbtide

// A plan is a value that describes a compaction. A policy or a planner makes the plan; the executor carries it out.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <tree/shape.h>

namespace ebbtide {

/// The reason for a plan. Metrics have reason_name() as a label.
enum class Reason : std::uint8_t { kFlush, kSize, kRunCount, kDeadline, kManual, kSpace, kScrub, kDropped };
inline constexpr std::size_t kReasons = 8;
const char* reason_name(Reason reason);

/// Files of one run that a plan reads, moves or drops.
struct PlanInput {
  RunId run = 0;
  std::vector<FileNum> files;
  bool operator==(const PlanInput&) const = default;
};
/// Returns all files of a run.
PlanInput whole_run(const RunShape& run);

/// The run that gets a plan's outputs: an existing run, which keeps its files that are not inputs, or a new run.
struct PlanTarget {
  RunId run = 0;  ///< 0: a new run, placed where the oldest input run is, or as near as `level` allows
  int level = 0;  ///< level of the run; place_new_run() (tree/apply.h) has the exact rule
  bool operator==(const PlanTarget&) const = default;
};

/// Merges the inputs (newest run first) into the target. A file that overlaps no other input is moved instead, if that is
/// possible.
struct Merge {
  std::vector<PlanInput> inputs;
  PlanTarget target;
  bool operator==(const Merge&) const = default;
};
/// Merges only the keys in `range`, from all inputs into the target run. The parts of inputs outside the range are written
/// again into their own runs.
struct Slice {
  std::vector<PlanInput> inputs;
  KeyRange range;
  PlanTarget target;
  bool operator==(const Slice& o) const {
    return inputs == o.inputs && range.start == o.range.start && range.end == o.range.end && target == o.target;
  }
};
/// Moves files to another run without reading them.
struct Move {
  RunId from = 0;
  std::vector<FileNum> files;
  PlanTarget target;
  bool operator==(const Move&) const = default;
};
/// Rewrites one file within its run.
struct Rewrite {
  RunId run = 0;
  FileNum file = kNoFile;
  std::uint64_t file_bytes = 0;  ///< the file is split into files of this size; 0: files have their usual size
  bool operator==(const Rewrite&) const = default;
};
/// Pages of one file, by number, ascending. Both lists are empty if only names are renewed.
struct PageSet {
  RunId run = 0;
  FileNum file = kNoFile;
  std::vector<std::uint32_t> whole{};  ///< dropped without being read
  std::vector<std::uint32_t> parts{};  ///< read, and replaced by the entries that survive
  bool renew_names = false;  ///< true: keys that exist replace keys of purged entries in the file's metadata (table/page_drop.h)
  bool operator==(const PageSet&) const = default;
};
/// Drops files (`inputs`) and pages without merging. A dropped file has no entries, or a newer range tombstone covers all of
/// it. A file in `pages` stays in its run, without the pages that `pages` names.
struct Drop {
  std::vector<PlanInput> inputs{};
  std::vector<PageSet> pages{};
  bool operator==(const Drop&) const = default;
};

struct Plan {
  std::variant<std::monostate, Merge, Slice, Move, Rewrite, Drop> action;
  Reason reason = Reason::kSize;
  bool urgent = false;  ///< true if running jobs that use the plan's files may be aborted for the plan

  [[nodiscard]] bool empty() const { return action.index() == 0; }
  bool operator==(const Plan&) const = default;
};

/// Returns all files that the plan reads, changes or moves, newest run first; they are busy while the plan runs.
std::vector<PlanInput> inputs_of(const Plan& plan);
/// Returns the target of the plan's outputs; null for plans without a target (Rewrite, Drop, none).
const PlanTarget* target_of(const Plan& plan);

}  // namespace ebbtide

// A plan: a value by which a policy asks for a compaction. The executor carries it out.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <tree/shape.h>

namespace ebbtide {

/// The reason for a plan; metrics have it as a label. reason_name() returns its text.
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

/// The target of outputs: an existing run (its files outside the merge stay), or a new run.
struct PlanTarget {
  RunId run = 0;  ///< 0: a new run, placed where the oldest input run is, or at the nearest place that `level` allows
  int level = 0;  ///< level of the run; place_new_run() (tree/apply.h) has the exact rule
  bool operator==(const PlanTarget&) const = default;
};

/// Merges the inputs (newest run first) into the target. A group of a single file is moved instead if that is possible.
struct Merge {
  std::vector<PlanInput> inputs;
  PlanTarget target;
  bool operator==(const Merge&) const = default;
};
/// Merges only the keys in `range`, from all inputs into the target run's files. The parts of younger files outside the range
/// stay in their runs.
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
/// Pages of one file, ascending. If there are no pages, keys of purged entries in the file's metadata are replaced by keys that
/// exist (table/page_drop.h: renew_names).
struct PageSet {
  RunId run = 0;
  FileNum file = kNoFile;
  std::vector<std::uint32_t> whole;  ///< dropped without being read
  std::vector<std::uint32_t> parts;  ///< read, and replaced by the entries that survive
  bool operator==(const PageSet&) const = default;
};
/// Drops files and pages without merging. A dropped file is empty, or a newer range tombstone covers all of it. A file in `pages`
/// stays in its run without these pages.
struct Drop {
  std::vector<PlanInput> inputs{};
  std::vector<PageSet> pages{};
  bool operator==(const Drop&) const = default;
};

struct Plan {
  std::variant<std::monostate, Merge, Slice, Move, Rewrite, Drop> action;
  Reason reason = Reason::kSize;
  bool urgent = false;  ///< true if it may abort running jobs that use its files

  [[nodiscard]] bool empty() const { return action.index() == 0; }
  bool operator==(const Plan&) const = default;
};

/// Returns all files that the plan reads, changes or moves, newest run first; they are busy while the plan runs.
std::vector<PlanInput> inputs_of(const Plan& plan);
/// Returns the target of the plan's outputs; null for plans without a target (Rewrite, Drop, none).
const PlanTarget* target_of(const Plan& plan);

}  // namespace ebbtide

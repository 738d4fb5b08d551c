// What a policy asks for: one value, carried out by one executor.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <tree/shape.h>

namespace ebbtide {

/// Why a plan was made; a label of metrics. Text by reason_name().
enum class Reason : std::uint8_t { kFlush, kSize, kRunCount, kDeadline, kManual, kSpace, kScrub, kDropped };
inline constexpr std::size_t kReasons = 8;
const char* reason_name(Reason reason);

/// Files of one run that take part.
struct PlanInput {
  RunId run = 0;
  std::vector<FileNum> files;
  bool operator==(const PlanInput&) const = default;
};
/// All files of a run.
PlanInput whole_run(const RunShape& run);

/// Where output goes: into an existing run (its files outside the merge stay), or into a new one.
struct PlanTarget {
  RunId run = 0;  ///< 0: a new run, placed where the oldest input run is, or the nearest place that `level` allows
  int level = 0;  ///< of the run; tree/apply.h: place_new_run() says exactly where
  bool operator==(const PlanTarget&) const = default;
};

/// Merges the inputs (newest run first). Where the executor finds a group of a single file that may move, it moves it.
struct Merge {
  std::vector<PlanInput> inputs;
  PlanTarget target;
  bool operator==(const Merge&) const = default;
};
/// Merges only the keys in `range` out of all inputs into the target run's file(s); younger files that straddle it are clipped.
struct Slice {
  std::vector<PlanInput> inputs;
  KeyRange range;
  PlanTarget target;
  bool operator==(const Slice& o) const {
    return inputs == o.inputs && range.start == o.range.start && range.end == o.range.end && target == o.target;
  }
};
/// Files change their run without being read.
struct Move {
  RunId from = 0;
  std::vector<FileNum> files;
  PlanTarget target;
  bool operator==(const Move&) const = default;
};
/// One file is written anew in its run.
struct Rewrite {
  RunId run = 0;
  FileNum file = kNoFile;
  bool operator==(const Rewrite&) const = default;
};
/// Pages of one file: the numbers that its reader gives them, ascending. Without any, the file's names of keys that went are
/// replaced by those of keys that are there (table/page_drop.h: renew_names).
struct PageSet {
  RunId run = 0;
  FileNum file = kNoFile;
  std::vector<std::uint32_t> whole;  ///< go without being read
  std::vector<std::uint32_t> parts;  ///< are read, and replaced by what is left of them
  bool operator==(const PageSet&) const = default;
};
/// Files and pages go without being read, the files as a whole: wholly covered by a newer range tombstone, or empty. Of the files
/// in `pages` the rest stays, in its run.
struct Drop {
  std::vector<PlanInput> inputs{};
  std::vector<PageSet> pages{};
  bool operator==(const Drop&) const = default;
};

struct Plan {
  std::variant<std::monostate, Merge, Slice, Move, Rewrite, Drop> action;
  Reason reason = Reason::kSize;
  bool urgent = false;  ///< may abort running jobs that hold its files

  [[nodiscard]] bool empty() const { return action.index() == 0; }
  bool operator==(const Plan&) const = default;
};

/// The files that a plan takes part of or moves, newest run first as the plan has them: what is busy while it runs.
std::vector<PlanInput> inputs_of(const Plan& plan);
/// Where the plan's output goes; null for plans without a target (Rewrite, Drop, none).
const PlanTarget* target_of(const Plan& plan);

}  // namespace ebbtide

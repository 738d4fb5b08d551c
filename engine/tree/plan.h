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
const char* reason_name(Reason reason);

/// Files of one run that take part.
struct PlanInput {
  RunId run = 0;
  std::vector<FileNum> files;
};

/// Where output goes: into an existing run (its files outside the merge stay), or into a new one.
struct PlanTarget {
  RunId run = 0;      ///< 0: a new run, placed right where the oldest input run was (before it, if that run keeps files)
  int level = 0;
};

/// Merges the inputs (newest run first). Where the executor finds a group of a single file that may move, it moves it.
struct Merge {
  std::vector<PlanInput> inputs;
  PlanTarget target;
};
/// Merges only the keys in `range` out of all inputs into the target run's file(s); younger files that straddle it are clipped.
struct Slice {
  std::vector<PlanInput> inputs;
  KeyRange range;
  PlanTarget target;
};
/// Files change their run without being read.
struct Move {
  RunId from = 0;
  std::vector<FileNum> files;
  PlanTarget target;
};
/// One file is written anew in its run.
struct Rewrite {
  RunId run = 0;
  FileNum file = kNoFile;
};
/// Files go without being read: wholly covered by a newer range tombstone, or empty.
struct Drop {
  std::vector<PlanInput> inputs;
};

struct Plan {
  std::variant<std::monostate, Merge, Slice, Move, Rewrite, Drop> action;
  Reason reason = Reason::kSize;
  bool urgent = false;  ///< may abort running jobs that hold its files

  [[nodiscard]] bool empty() const { return action.index() == 0; }
};

}  // namespace ebbtide

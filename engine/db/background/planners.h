// Planners propose the next job of a tree.
//
// A planner is a pure function from one value (a tree at one moment) to a plan. planners() lists all planners, the most important
// first:
//
//   quarantine        cuts files at the ends of quarantined ranges, and merges files that pile up inside a range
//   file drop         drops files that a newer range tombstone covers, without reading them
//   page drop         drops pages whose entries are all dead, without reading them
//   names             renews metadata files whose fences or bounds contain purged keys
//   urgent            merges for delete deadlines (policy/fade.h)
//   late rewrite      rewrites files whose dead bytes are late and not punched
//   policy            merges that the merge policy plans
//   rewrite           rewrites files whose dead bytes cannot be punched
//
// The first plan that can start becomes the job. A plan cannot start while a running job has one of its files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <engine/options.h>
#include "compaction/job_registry.h"
#include "db/trees/tree_view.h"
#include "deletes/deadline.h"
#include "policy/policy.h"
#include "tree/plan.h"
#include "tree/shape.h"

namespace ebbtide {

/// The tables whose indexes planners may read from the device: none if `parts` is 0, for a caller that must not wait for the
/// device. Otherwise one part of the tables: those whose metadata file number modulo `parts` is `part`.
struct PlannerReads {
  std::uint64_t part = 0, parts = 0;
  [[nodiscard]] bool has(FileNum metadata_file) const { return parts != 0 && metadata_file % parts == part; }
};

/// The input of planners: a tree at one moment. `tables`, `policy` and `jobs` are not null.
struct PlannerInput {
  std::shared_ptr<const TablesView> tables{};
  std::shared_ptr<const Policy> policy{};
  const JobRegistry* jobs = nullptr;  ///< outlives the input; jobs may start and end while planners run
  TreeShape shape{};                  ///< the tree with its deadlines, but without files in frozen ranges
  /// Like `shape`, with files in frozen ranges, and with files of running jobs marked busy. Empty unless files are quarantined.
  TreeShape whole{};
  Millis now = 0;  ///< engine time
  SeqNum visible_seq = 0;
  std::uint64_t file_size = 0, memtable_size = 0;  ///< the tree's settings, in bytes
  FileChoice file_choice = FileChoice::kLeastOverlap;

  // --- which planners are called, and which tables they may read
  PlannerReads reads{};
  bool paused = false;  ///< true if compactions are paused or rest after a failure: skip planners that are not for deadlines
  bool deadlines_rest = false;  ///< true after a failed merge for a deadline: skip planners for deadlines

  // --- delete deadlines
  DeadlineRule deadlines{};
  Millis delete_deadline = 0;  ///< the tree's setting, in ms; 0 = none
  Millis margin = 0;           ///< ms before a deadline at which its work must be done
  Millis purge_before = 0;     ///< deletes born by this time are overdue
  bool over_budget = false;
  std::vector<FileNum> fruitless{};  ///< files that still have pending deletes after a rewrite, ascending
  std::uint64_t room = 0;            ///< bytes of the disk that merges for deadlines may take
  bool room_claimed = false;         ///< true if a running merge for a deadline has claimed disk space

  // --- page drops and punching
  bool look_for_pages = false;             ///< false if the last search found no pages to drop and nothing has changed
  std::map<FileNum, SeqNum> parts_done{};  ///< by metadata file: the seq up to which partial drops for records were tried
  bool can_punch = true;                   ///< true if the file system can punch holes
  std::set<FileNum> not_punched{};         ///< data files that must be rewritten, since they cannot be punched
  /// The plan of `urgent` or `late rewrite` that a running job prevented from starting. The policy's plan must not take the files
  /// of this plan.
  Plan reserved{};
};

/// Further results of planners, besides a plan.
struct PlannerNotes {
  /// If this search found no pages to drop: engine time of the next search, or 0 if the next search waits for a change of the
  /// tree. No value: pages were found, or no search was made.
  std::optional<Millis> next_page_look;
  bool wants_to_read = false;  ///< true if a planner needs a table whose index is not in memory
  /// The policy's bound that the tree exceeds although no merge is due; "" = none. No value: by_policy() was not called.
  std::optional<std::string> broken_bounds;
};

/// After a failed merge, merges or only merges for deadlines rest (PlannerMemory). A planner is skipped while its kind rests.
enum class RestsWith : std::uint8_t { kMerges, kDeadlines };

/// The action of start_first() if a running job has a file of the plan. When that job ends, all planners are called again.
enum class InTheWay : std::uint8_t {
  kAskNext,  ///< the next planner is called
  kReserve,  ///< like kAskNext, but the plan is reserved; only one plan is reserved at a time
  kStop,     ///< no other planner is called
};

struct Planner {
  const char* name;
  RestsWith rests_with;
  InTheWay in_the_way;
  Plan (*plan)(const PlannerInput& input, PlannerNotes* notes);
};

/// Returns all planners in order of precedence.
std::span<const Planner> planners();

enum class Attempt : std::uint8_t {
  kStarted,
  kInTheWay,  ///< a running job has a file of the plan
  kOutdated,  ///< the tree has other tables than the input
};

/// Calls `planners` in order, and `start` with each plan, until `start` has started a plan or returned kOutdated. Returns the
/// last result of `start`, or kInTheWay if `start` was not called. Sets `input->reserved`.
Attempt start_first(std::span<const Planner> planners, PlannerInput* input, PlannerNotes* notes,
                    const std::function<Attempt(const Plan&)>& start);

/// One function for each planner in the list above. `notes` must not be null.
namespace planner {

/// Returns the table with its index in memory. Reads a missing index if `input.reads` permits it: for a table of the current
/// part, or for any table if `due` is true. If it does not, sets wants_to_read and returns null. Returns null also if the index
/// cannot be read.
std::shared_ptr<const TableReader> table_of(const OpenTable& table, const PlannerInput& input, PlannerNotes* notes,
                                            bool due = false);

Plan quarantine(const PlannerInput& input, PlannerNotes* notes);
Plan file_drop(const PlannerInput& input, PlannerNotes* notes);
Plan page_drop(const PlannerInput& input, PlannerNotes* notes);
/// Renews the metadata of files whose fences or bounds contain purged keys (names), when that is due. Skips files with an older
/// pending delete, since the merge for that delete renews the names, too. A file whose names cannot be renewed is rewritten.
Plan names(const PlannerInput& input, PlannerNotes* notes);
Plan urgent(const PlannerInput& input, PlannerNotes* notes);
Plan late_rewrite(const PlannerInput& input, PlannerNotes* notes);
Plan by_policy(const PlannerInput& input, PlannerNotes* notes);
Plan rewrite(const PlannerInput& input, PlannerNotes* notes);

}  // namespace planner
}  // namespace ebbtide

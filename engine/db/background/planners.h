// Planners and their order: they choose the next job of a tree.
//
// A planner is a pure function from one value (a tree at one moment) to a plan. planners() lists all of them, the most important
// first:
//
//   quarantine        cuts files at the ends of quarantined ranges, and merges files that pile up inside
//   file drop         files that a newer range tombstone covers; not read
//   page drop         pages whose entries are all dead; not read
//   names             metadata files that name purged keys
//   urgent            merges for delete deadlines (policy/fade.h)
//   late rewrite      files whose dead bytes are late and not punched
//   policy            merges of the merge policy
//   rewrite           files whose dead bytes cannot be punched
//
// Pure. The first plan that can start becomes the job. A plan cannot start while a running job has one of its files.
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

/// The input of planners: a tree at one moment. `tables`, `policy` and `jobs` are not null.
struct PlannerInput {
  std::shared_ptr<const TablesView> tables{};
  std::shared_ptr<const Policy> policy{};
  const JobRegistry* jobs = nullptr;  ///< outlives the input; its jobs may start and end meanwhile
  TreeShape shape{};                  ///< with deadlines; without files in frozen ranges
  TreeShape whole{};  ///< with files in frozen ranges; running jobs marked busy. Empty unless files are quarantined
  Millis now = 0;     ///< engine time
  SeqNum visible_seq = 0;
  std::uint64_t file_size = 0;  ///< configured
  FileChoice file_choice = FileChoice::kLeastOverlap;

  // rest and pause
  bool paused = false;          ///< by the server, or after a failed merge: ask only planners for deadlines
  bool deadlines_rest = false;  ///< after a failed merge for a deadline: do not ask planners for deadlines

  // deletes
  DeadlineRule deadlines{};
  Millis delete_deadline = 0;  ///< configured; 0 = none
  Millis margin = 0;           ///< work for a deadline must be done this long before it
  Millis purge_before = 0;     ///< deletes born by then are overdue
  bool over_budget = false;
  std::vector<FileNum> fruitless{};  ///< ascending: files that a rewrite did not clean
  std::uint64_t room = 0;            ///< bytes of the disk for merges for deadlines
  bool room_claimed = false;         ///< by a running merge for a deadline

  // dropped pages
  bool look_for_pages = false;             ///< false: no pages to drop since the last search
  std::map<FileNum, SeqNum> parts_done{};  ///< by metadata file: seq up to which partial drops for records were tried
  bool can_punch = true;                   ///< the file system can punch holes
  std::set<FileNum> not_punched{};         ///< data files that are rewritten, not punched
  /// The plan of urgent or late rewrite that a running job kept from starting: the policy leaves its files alone.
  Plan reserved{};
};

/// Results of planners beside a plan.
struct PlannerNotes {
  std::optional<Millis> next_page_look;      ///< if page drop found no pages: time of the next search; 0 = after the next change
  std::optional<std::string> broken_bounds;  ///< set if the policy was asked: the bound that the tree at rest breaks, or ""
};

/// The kind of rest (PlannerMemory) during which a planner is not asked.
enum class RestsWith : std::uint8_t { kMerges, kDeadlines };

/// What to do if a running job has a file of the plan. At the end of that job all planners are asked again.
enum class InTheWay : std::uint8_t {
  kAskNext,  ///< the next planner is asked
  kReserve,  ///< as kAskNext, and the plan is reserved; no second plan is
  kStop,     ///< no other planner is asked
};

struct Planner {
  const char* name;
  RestsWith rests_with;
  InTheWay in_the_way;
  Plan (*plan)(const PlannerInput& input, PlannerNotes* notes);
};

/// All planners in order of precedence.
std::span<const Planner> planners();

enum class Attempt : std::uint8_t {
  kStarted,
  kInTheWay,  ///< a running job has a file of the plan
  kOutdated,  ///< the tree has other tables than the input
};

/// Asks `planners` in order until `start` has started a plan or answers kOutdated. Returns the last answer of `start`, kInTheWay
/// if there was none. Sets `input->reserved`.
Attempt start_first(std::span<const Planner> planners, PlannerInput* input, PlannerNotes* notes,
                    const std::function<Attempt(const Plan&)>& start);

/// The planners themselves. `notes` is not null.
namespace planner {

Plan quarantine(const PlannerInput& input, PlannerNotes* notes);
Plan file_drop(const PlannerInput& input, PlannerNotes* notes);
Plan page_drop(const PlannerInput& input, PlannerNotes* notes);
/// Renews names of purged keys in fences and bounds that are due, if the file has no older pending delete: a merge for that
/// cleans names, too. A file whose names cannot be renewed is rewritten.
Plan names(const PlannerInput& input, PlannerNotes* notes);
Plan urgent(const PlannerInput& input, PlannerNotes* notes);
Plan late_rewrite(const PlannerInput& input, PlannerNotes* notes);
Plan by_policy(const PlannerInput& input, PlannerNotes* notes);
Plan rewrite(const PlannerInput& input, PlannerNotes* notes);

}  // namespace planner
}  // namespace ebbtide

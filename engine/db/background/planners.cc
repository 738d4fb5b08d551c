#include "db/background/planners.h"

#include <array>
#include <utility>

#include "compaction/delete_only.h"
#include "policy/around.h"
#include "policy/fade.h"

namespace ebbtide {
namespace {

constexpr std::array kPlanners = {
    Planner{"quarantine", RestsWith::kMerges, InTheWay::kAskNext, planner::quarantine},
    Planner{"file drop", RestsWith::kMerges, InTheWay::kStop, planner::file_drop},
    Planner{"page drop", RestsWith::kMerges, InTheWay::kStop, planner::page_drop},
    Planner{"names", RestsWith::kDeadlines, InTheWay::kStop, planner::names},
    Planner{"urgent", RestsWith::kDeadlines, InTheWay::kReserve, planner::urgent},
    Planner{"late rewrite", RestsWith::kDeadlines, InTheWay::kReserve, planner::late_rewrite},
    Planner{"policy", RestsWith::kMerges, InTheWay::kStop, planner::by_policy},
    Planner{"rewrite", RestsWith::kMerges, InTheWay::kStop, planner::rewrite},
};

}  // namespace

std::span<const Planner> planners() { return kPlanners; }

Attempt start_first(std::span<const Planner> planners, PlannerInput* input, PlannerNotes* notes,
                    const std::function<Attempt(const Plan&)>& start) {
  for (const Planner& planner : planners) {
    const bool rests = planner.rests_with == RestsWith::kMerges ? input->paused : input->deadlines_rest;
    const bool reserves = planner.in_the_way == InTheWay::kReserve;
    if (rests || (reserves && !input->reserved.empty())) continue;
    Plan plan = planner.plan(*input, notes);
    if (plan.empty()) continue;
    const Attempt attempt = start(plan);
    if (attempt != Attempt::kInTheWay || planner.in_the_way == InTheWay::kStop) return attempt;
    if (reserves) input->reserved = std::move(plan);
  }
  return Attempt::kInTheWay;
}

Plan planner::quarantine(const PlannerInput& input, PlannerNotes* /*notes*/) { return plan_around(input.whole); }

std::shared_ptr<const TableReader> planner::table_of(const OpenTable& table, const PlannerInput& input, PlannerNotes* notes,
                                                     bool due) {
  if (auto loaded = table.reader->pinned_if_loaded(); loaded != nullptr) return loaded;
  if (!table.reader->unreadable().is_ok()) return nullptr;
  if (input.reads.parts == 0 || (!due && !input.reads.has(table.meta->metadata_file))) {
    notes->wants_to_read = true;
    return nullptr;
  }
  auto read = table.reader->pinned();
  return read.is_ok() ? std::move(read).value() : nullptr;  // the reader has reported the error
}

Plan planner::file_drop(const PlannerInput& input, PlannerNotes* notes) {
  std::map<FileNum, const OpenTable*> ranged;  // by data file number: tables with range tombstones
  for (const RunView& run : input.tables->runs) {
    for (std::size_t c = 0; c < run.tables().chunks(); ++c) {
      const TableList::Chunk& chunk = run.tables().at_chunk(c);
      if (TableList::sums_of(chunk).special == 0) continue;
      for (const OpenTablePtr& table : chunk.items) {
        if (table->meta->stats.range_tombstones != 0) ranged[table->meta->data_file] = table.get();
      }
    }
  }
  if (ranged.empty()) return {};
  DeleteOnlyInput files;
  files.version = input.tables->version.get();
  files.visible_seq = input.visible_seq;
  files.tombstones = [&](const FileMeta& file) -> SharedTombstones {
    static const auto none = std::make_shared<const FragmentedRangeTombstones>();
    const auto table = table_of(*ranged.at(file.data_file), input, notes);
    return table == nullptr ? none : table->range_tombstones();
  };
  files.busy = [&](FileNum file) { return input.jobs->is_busy(file); };
  return plan_delete_only(files);
}

Plan planner::urgent(const PlannerInput& input, PlannerNotes* /*notes*/) {
  // If the disk has little space, two merges together may have too little space even if each merge alone has enough.
  if (is_short(input.room, input.shape.file_bytes) && input.room_claimed) return {};
  FadeContext context{input.now, input.margin, false, input.fruitless};
  context.over_budget = input.over_budget;
  context.room = input.room;
  return input.jobs->next_urgent(*input.policy, context, input.shape);
}

Plan planner::by_policy(const PlannerInput& input, PlannerNotes* notes) {
  return input.jobs->next(*input.policy, {input.now, input.file_choice}, input.shape, input.reserved,
                          &notes->broken_bounds.emplace());
}

}  // namespace ebbtide

// Planners that remove traces of deletes from files: dead pages, purged keys in fences and bounds, and dead bytes that are not
// punched.
#include <algorithm>
#include <utility>

#include "base/oldest.h"
#include "compaction/page_drops.h"
#include "db/background/planners.h"
#include "policy/fade.h"

namespace ebbtide {
namespace {

constexpr Millis kLeastWait = 1000;  // ms between two searches of the same tables

bool is_late(Millis birth, const PlannerInput& input, Millis margin) {
  const Millis due = input.deadlines.due(birth);
  return due != DeadlineRule::kNever && input.now >= expires_at(birth, due, margin, 1);
}

// Removes drops of single pages from the plan: without hole punching, only drops of whole files free space. Merges remove the
// pages.
void keep_whole_tables(const PlannerInput& input, PlannerNotes* notes, Plan* plan) {
  auto& drop = std::get<Drop>(plan->action);
  std::erase_if(drop.pages, [&](const PageSet& set) {
    if (!set.parts.empty()) return true;
    for (const RunView& run : input.tables->runs) {
      for (const OpenTablePtr& table : run.tables()) {
        if (table->meta->data_file != set.file) continue;
        const auto reader = planner::table_of(*table, input, notes);
        if (reader == nullptr) return true;
        std::size_t living = 0;
        for (std::uint32_t p = 0; p < reader->page_count(); ++p) living += reader->page_fence(p).entries != 0 ? 1 : 0;
        return living != set.whole.size() || table->meta->stats.range_tombstones != 0;
      }
    }
    return true;
  });
  if (drop.pages.empty()) *plan = {};
}

Plan rewrite_if(const PlannerInput& input, const std::function<bool(const FileMeta&)>& is_due) {
  for (const Run& run : input.tables->version->runs) {
    bool any = false;
    run.files.for_each_sums([&](const FileSums& sums) { any |= sums.files_with_dead != 0; });
    if (!any) continue;
    for (const FileMetaPtr& file : run.files) {
      if (file->dead_bytes == 0 || file->quarantined() || input.jobs->is_busy(file->data_file) || !is_due(*file)) continue;
      return {.action = Rewrite{run.id, file->data_file}, .reason = Reason::kDropped};
    }
  }
  return {};
}

}  // namespace

Plan planner::page_drop(const PlannerInput& input, PlannerNotes* notes) {
  if (!input.look_for_pages) return {};
  std::shared_ptr<const TableReader> pinned;  // only one index is pinned at a time, since all together may exceed the memory
  const SharedRecords records = input.tables->version->records;
  PageDropInput pages;
  pages.version = input.tables->version.get();
  pages.records = records.get();
  pages.visible_seq = input.visible_seq;
  pages.now = input.now;
  pages.delete_deadline = input.delete_deadline;
  pages.purge_before = input.purge_before;
  pages.table = [&](const FileMeta& file) -> const TableInspector* {
    for (const RunView& run : input.tables->runs) {
      const OpenTable* const table = run.table_of(file);
      if (table == nullptr) continue;
      pinned = table_of(*table, input, notes);
      return pinned.get();
    }
    return nullptr;
  };
  pages.busy = [&](FileNum file) { return input.jobs->is_busy(file); };
  pages.parts_done = [&](FileNum file) {
    const auto at = input.parts_done.find(file);
    return at == input.parts_done.end() ? SeqNum{0} : at->second;
  };
  PageDrops found = plan_page_drops(pages);
  if (!found.plan.empty() && !input.can_punch) keep_whole_tables(input, notes, &found.plan);
  if (found.plan.empty()) {
    // Tables that could not be read yet are searched again. kLeastWait limits this, since the log thread plans ten times a
    // second, and each search visits all tables.
    if (notes->wants_to_read) found.next_look = older(found.next_look, input.now);
    notes->next_page_look = found.next_look == 0 ? 0 : std::max(found.next_look, input.now + kLeastWait);
  }
  return std::move(found.plan);
}

Plan planner::names(const PlannerInput& input, PlannerNotes* notes) {
  const auto is_due = [&](const FileMeta& file) {
    if (file.lingering_birth == 0) return false;
    if (input.jobs->is_busy(file.data_file) || input.tables->is_quarantined(file.data_file)) return false;
    const Millis oldest = file.shape(0, input.now, *input.tables->version->records).oldest_birth;
    if (oldest != 0 && oldest <= file.lingering_birth) return false;
    return file.lingering_birth <= input.purge_before || is_late(file.lingering_birth, input, input.margin);
  };
  Drop drop;
  if (input.tables->version->sums().lingering_birth == 0) return {};
  for (const RunView& run : input.tables->runs) {
    for (const OpenTablePtr& table : run.tables()) {
      const FileMeta& file = *table->meta;
      if (!is_due(file)) continue;
      const auto reader = table_of(*table, input, notes, true);
      if (reader == nullptr) continue;
      if (reader->names_can_be_renewed()) {
        drop.pages.push_back({.run = run.id(), .file = file.data_file, .renew_names = true});
      } else if (drop.pages.empty()) {
        return {.action = Rewrite{run.id(), file.data_file}, .reason = Reason::kDropped};
      }
    }
  }
  if (drop.pages.empty()) return {};
  return {.action = std::move(drop), .reason = Reason::kDropped};
}

Plan planner::late_rewrite(const PlannerInput& input, PlannerNotes* /*notes*/) {
  // The rewrite is due when half of the margin is used up and the puncher has still not punched the file.
  return rewrite_if(
      input, [&](const FileMeta& file) { return file.dead_birth != 0 && is_late(file.dead_birth, input, input.margin / 2); });
}

Plan planner::rewrite(const PlannerInput& input, PlannerNotes* /*notes*/) {
  return rewrite_if(input, [&](const FileMeta& file) {
    if (file.dead_birth != 0 && is_late(file.dead_birth, input, input.margin / 2)) return true;
    return file.dead_bytes > file.punched_bytes && (!input.can_punch || input.not_punched.count(file.data_file) != 0);
  });
}

}  // namespace ebbtide

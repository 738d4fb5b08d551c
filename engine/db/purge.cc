// Draws surveys for db/purge/purge_tracker.h: gathers everything that may hold bytes of deletes.
//
// Order matters. Entries move from memtables to tables; tables and log segments move to the ledger of files on their way out. Each
// is noted at the new place before it leaves the old one. A survey looks in that direction, so it meets everything at least once.
//
// A survey's `now` is drawn where births are, so every later birth is `now` or later, and what it looks at has every earlier one
// (fence). Over restarts too a ticket that is done stays done, since open() leaves nothing but what the manifest and the log name,
// with the births that they had.
#include <algorithm>
#include <optional>

#include "base/oldest.h"
#include "db/db_impl.h"
#include "io/file_names.h"

namespace ebbtide {
namespace {

// The oldest birth, up to `now`, of a delete that is pending in the file; `now` if there is none.
Millis floor_of(const TableStats& stats, const RecordSet& records, Millis now) {
  Millis floor = now;
  keep_oldest(&floor, stats.oldest_obligation());
  keep_oldest(&floor, records_birth(stats, records));
  if (stats.min_expiry <= now) keep_oldest(&floor, stats.min_expiry);
  return floor;
}

}  // namespace

// A moment: everything that was born before is in place to be seen, and everything to come is born then or later.
Millis DbImpl::fence(SeqNum* up_to) {
  Millis now = 0;
  {
    MutexLock lock(trees_.commit_mutex);
    now = pipeline_.advance_time(time_.stamped());
    *up_to = pipeline_.last_seq();
  }
  published_.await(*up_to);
  return now;
}

// The oldest birth of a delete that is pending in the tree, at most `now`.
Millis DbImpl::floor_of(const TreeView& view, Millis dropped_at, Millis now) const {
  Millis floor = now;
  keep_oldest(&floor, dropped_at);
  for (const auto& memtable : view.memtables) keep_oldest(&floor, oldest_birth(*memtable, now));
  keep_oldest(&floor, view.tables->oldest_obligation);
  if (view.tables->min_expiry <= now) keep_oldest(&floor, view.tables->min_expiry);
  for (const Record& record : view.tables->version->records->records()) keep_oldest(&floor, record.birth);
  return floor;
}

Millis DbImpl::floor_of(const TreePtr& tree) {
  SeqNum up_to = 0;
  const Millis now = fence(&up_to);
  std::shared_ptr<const TreeView> view;
  {
    MutexLock lock(trees_.state_mutex);
    view = tree->view_owner;
  }
  return view == nullptr ? now : floor_of(*view, tree->dropped_at, now);
}

// Deletes that were born in the survey's own millisecond are noted, too: a ticket's state in the millisecond of its delete says what is
// left.
void DbImpl::survey_memory(const std::vector<TreePtr>& trees, PurgeSurvey* survey) {
  const Millis now = survey->now + 1;
  for (const TreePtr& tree : trees) {
    std::shared_ptr<const TreeView> view;
    const Millis dropped_at = tree->dropped_at;
    {
      MutexLock lock(trees_.state_mutex);
      view = tree->view_owner;
      survey->trees[tree->id] = {tree->deadlines, tree->purge_before.load(std::memory_order_relaxed)};
    }
    if (view == nullptr || floor_of(*view, dropped_at, now) >= now) continue;
    for (const auto& memtable : view->memtables) {
      Millis floor = now;
      keep_oldest(&floor, oldest_birth(*memtable, now));
      keep_oldest(&floor, dropped_at);
      if (floor < now && !memtable->empty())
        survey->holders.push_back(
            {PurgePlace::kMemTable, tree->id, floor, memtable->memory_bytes(), kNoFile, memtable == view->memtables.front()});
    }
    for (const Run& run : view->tables->version->runs) {
      for (const FileMetaPtr& file : run.files) {
        Millis floor = ebbtide::floor_of(file->stats, *view->tables->version->records, now);
        keep_oldest(&floor, file->oldest_obligation());  // what was dropped counts until it is punched, its names until they go
        keep_oldest(&floor, dropped_at);
        if (floor < now)
          survey->holders.push_back({PurgePlace::kTable, tree->id, floor, file->data_bytes + file->metadata_bytes,
                                     file->data_file, false, view->tables->is_frozen(*file)});
      }
    }
  }
}

void DbImpl::survey_log(PurgeSurvey* survey) {
  const std::vector<LogSegment> segments = log_->segments();
  const auto debts = log_debts(segments, survey->now);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    for (std::size_t n = 0; n < debts[i].size(); ++n) {
      const Millis floor = debts[i][n];
      if (floor != 0 && floor <= survey->now)
        survey->holders.push_back({PurgePlace::kLog, segments[i].notes[n].tree, floor, segments[i].bytes, segments[i].file});
    }
  }
}

std::shared_ptr<const PurgeSurvey> DbImpl::draw_survey() {
  auto survey = std::make_shared<PurgeSurvey>();
  std::vector<TreePtr> trees;
  Millis least_deadline = 0;  // of trees whose rule is not known
  {
    SeqNum up_to = 0;
    survey->now = fence(&up_to);
    survey->looked_at = std::max(survey->now, time_.now());
    MutexLock lock(trees_.commit_mutex);
    for (const auto& [id, tree] : trees_.live()) trees.push_back(tree);
    trees.insert(trees.end(), trees_.dropped().begin(), trees_.dropped().end());
    for (DatabaseId d = 0; d < trees_.databases(); ++d) {
      if (trees_.mapped(d) != nullptr) survey->databases.emplace_back(d, trees_.mapped(d)->id);
      const Millis deadline = trees_.settings_of(d).delete_deadline;
      if (deadline != 0 && (least_deadline == 0 || deadline < least_deadline)) least_deadline = deadline;
    }
  }
  survey_memory(trees, survey.get());
  survey_log(survey.get());
  for (const auto& [tree, what] : ledger_.superseded()) {
    survey->holders.push_back({PurgePlace::kManifest, tree, what.floor, 0, kNoFile});
  }
  ledger_.look();
  for (const PurgeLedger::Leaving& file : ledger_.leaving()) {
    for (const auto& [tree, floor] : file.floors)
      survey->holders.push_back({PurgePlace::kLeaving, tree, floor, file.bytes, kNoFile});
  }
  {
    MutexLock lock(trees_.state_mutex);
    std::map<TreeId, DeadlineRule>& dropped = trees_.dropped_deadlines();
    const Millis urgent = purge_before_.load(std::memory_order_relaxed);
    for (const PurgeHolder& holder : survey->holders) {
      if (survey->trees.count(holder.tree) != 0) continue;
      const auto known = dropped.find(holder.tree);
      survey->trees[holder.tree] = {known == dropped.end() ? DeadlineRule(least_deadline) : known->second, urgent};
    }
    std::erase_if(dropped, [&](const auto& entry) { return survey->trees.count(entry.first) == 0; });
  }
  forget_changes(trees, *survey);
  return survey;
}

// Changes of deadlines that no delete waits for any more need not be kept in mind.
void DbImpl::forget_changes(const std::vector<TreePtr>& trees, const PurgeSurvey& survey) {
  std::optional<std::map<TreeId, Millis>> floors;  // rarely needed
  MutexLock lock(trees_.state_mutex);
  for (const TreePtr& tree : trees) {
    if (tree->deadlines.earlier().empty()) continue;
    if (!floors) floors = survey.floors();
    trees_.forget_deadline_changes(*tree, floors->at(tree->id));
  }
}

// What is left becomes overdue; the ticks and the planners do the rest. Memtables are flushed by the next tick.
Status DbImpl::purge_now(const PurgeTicket& ticket) {
  TRY(purges_.status(ticket).status());
  const auto raise = [&](std::atomic<Millis>& bound) {
    Millis have = bound.load(std::memory_order_relaxed);
    while (have < ticket.born_by && !bound.compare_exchange_weak(have, ticket.born_by, std::memory_order_relaxed)) {
    }
  };
  raise(purge_before_);
  const std::vector<TreePtr> trees = trees_.live_trees();
  for (const TreePtr& tree : trees) {
    if (!ticket.tree || tree->id == *ticket.tree) raise(tree->purge_before);
  }
  retention_.look_soon();
  for (const TreePtr& tree : trees) scheduler_.schedule(tree);
  return Status::ok();
}

}  // namespace ebbtide

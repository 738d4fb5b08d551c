#include "db/purge/surveyor.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/oldest.h"
#include "version/file_meta.h"

namespace ebbtide {
namespace {

// Returns the oldest birth, up to `now`, of a delete that is pending in the file; `now` if there is none. A delete is pending
// until its dead bytes are punched, and its key is replaced in fences and bounds by a rewrite of the file's metadata.
Millis floor_of_file(const FileMeta& file, const RecordSet& records, Millis now) {
  Millis floor = now;
  keep_oldest(&floor, file.oldest_obligation());
  keep_oldest(&floor, records_birth(file.stats, records));
  if (file.stats.min_expiry <= now) keep_oldest(&floor, file.stats.min_expiry);
  return floor;
}

void add_memtables(const TreeView& view, Millis dropped_at, Millis now, std::vector<PurgeHolder>* holders) {
  for (const auto& memtable : view.memtables) {
    Millis floor = now;
    keep_oldest(&floor, oldest_birth(*memtable, now));
    keep_oldest(&floor, dropped_at);
    if (floor < now && !memtable->empty())
      holders->push_back(
          {PurgePlace::kMemTable, view.tree, floor, memtable->memory_bytes(), kNoFile, memtable == view.memtables.front()});
  }
}

void add_tables(const TreeView& view, Millis dropped_at, Millis now, std::vector<PurgeHolder>* holders) {
  for (const Run& run : view.tables->version->runs) {
    for (const FileMetaPtr& file : run.files) {
      Millis floor = floor_of_file(*file, *view.tables->version->records, now);
      keep_oldest(&floor, dropped_at);
      if (floor < now)
        holders->push_back({PurgePlace::kTable, view.tree, floor, file->data_bytes + file->metadata_bytes, file->data_file, false,
                            view.tables->is_frozen(*file)});
    }
  }
}

void raise(std::atomic<Millis>* bound, Millis to) {
  Millis have = bound->load(std::memory_order_relaxed);
  while (have < to && !bound->compare_exchange_weak(have, to, std::memory_order_relaxed)) {
  }
}

}  // namespace

Millis pending_floor(const TreeView& view, Millis dropped_at, Millis now) {
  Millis floor = now;
  keep_oldest(&floor, dropped_at);
  for (const auto& memtable : view.memtables) keep_oldest(&floor, oldest_birth(*memtable, now));
  keep_oldest(&floor, view.tables->oldest_obligation);
  if (view.tables->min_expiry <= now) keep_oldest(&floor, view.tables->min_expiry);
  keep_oldest(&floor, view.tables->version->records->oldest_birth());
  return floor;
}

Millis Surveyor::fence(SeqNum* up_to) {
  Millis now = 0;
  {
    MutexLock lock(env_.trees->commit_mutex);
    now = env_.advance_time(up_to);
  }
  env_.await_visible(*up_to);
  return now;
}

Millis Surveyor::floor_of(const TreePtr& tree) {
  const Millis now = fence();
  const std::shared_ptr<const TreeView> view = tree == nullptr ? nullptr : env_.trees->view_of(*tree);
  return view == nullptr ? now : pending_floor(*view, tree->dropped_at, now);
}

std::shared_ptr<const PurgeSurvey> Surveyor::draw() {
  auto survey = std::make_shared<PurgeSurvey>();
  Millis longest_deadline = 0;
  const std::vector<TreePtr> trees = begin(survey.get(), &longest_deadline);
  survey_trees(trees, survey.get());
  survey_log(survey.get());
  survey_ledger(survey.get());
  add_gone_trees(longest_deadline, survey.get());
  forget_changes(trees, *survey);
  return survey;
}

// Starts the survey and returns all trees, live and dropped. Sets `*longest_deadline` to the longest deadline of all databases,
// or to kNever if a database has no deadline.
std::vector<TreePtr> Surveyor::begin(PurgeSurvey* survey, Millis* longest_deadline) {
  survey->now = fence();
  survey->looked_at = std::max(survey->now, env_.now());
  std::vector<TreePtr> trees;
  MutexLock lock(env_.trees->commit_mutex);
  for (const auto& [id, tree] : env_.trees->live()) trees.push_back(tree);
  trees.insert(trees.end(), env_.trees->dropped().begin(), env_.trees->dropped().end());
  for (DatabaseId d = 0; d < env_.trees->databases(); ++d) {  // index trees have their databases' deadlines
    if (env_.trees->mapped(d) != nullptr) survey->databases.emplace_back(d, env_.trees->mapped(d)->id);
    const Millis deadline = env_.trees->settings_of(d).delete_deadline;
    *longest_deadline = std::max(*longest_deadline, deadline == 0 ? DeadlineRule::kNever : deadline);
  }
  return trees;
}

// Surveys the trees. Includes deletes that were born in the millisecond of the survey. So a ticket is pending even in the
// millisecond in which its delete was born.
void Surveyor::survey_trees(const std::vector<TreePtr>& trees, PurgeSurvey* survey) {
  const Millis now = survey->now + 1;
  for (const TreePtr& tree : trees) {
    std::shared_ptr<const TreeView> view;
    const Millis dropped_at = tree->dropped_at;
    {
      MutexLock lock(env_.trees->state_mutex);
      view = tree->view_owner;
      survey->trees[tree->id] = {tree->deadlines, tree->purge_before.load(std::memory_order_relaxed)};
    }
    if (view == nullptr || pending_floor(*view, dropped_at, now) >= now) continue;
    add_memtables(*view, dropped_at, now, &survey->holders);
    add_tables(*view, dropped_at, now, &survey->holders);
  }
}

void Surveyor::survey_log(PurgeSurvey* survey) const {
  const std::vector<LogSegment> segments = env_.segments();
  const auto debts = log_debts(segments, survey->now);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    for (std::size_t n = 0; n < debts[i].size(); ++n) {
      const Millis floor = debts[i][n];
      if (floor != 0 && floor <= survey->now)
        survey->holders.push_back({PurgePlace::kLog, segments[i].notes[n].tree, floor, segments[i].bytes, segments[i].file});
    }
  }
}

void Surveyor::survey_ledger(PurgeSurvey* survey) const {
  for (const auto& [tree, what] : env_.ledger->superseded()) {
    survey->holders.push_back({PurgePlace::kManifest, tree, what.floor, 0, kNoFile});
  }
  env_.ledger->look();
  for (const PurgeLedger::Leaving& file : env_.ledger->leaving()) {
    for (const auto& [tree, floor] : file.floors)
      survey->holders.push_back({PurgePlace::kLeaving, tree, floor, file.bytes, kNoFile});
  }
}

// Adds retired trees that still have holders of deleted bytes. If a tree was removed before the server started, its deadline is
// unknown. Then its deletes are due at once, but count as late only after the longest deadline of all databases.
void Surveyor::add_gone_trees(Millis longest_deadline, PurgeSurvey* survey) {
  const DeadlineRule surely_late(longest_deadline == DeadlineRule::kNever ? 0 : longest_deadline);
  MutexLock lock(env_.trees->state_mutex);
  std::map<TreeId, DeadlineRule>& dropped = env_.trees->dropped_deadlines();
  const Millis purge_before = purge_before_.load(std::memory_order_relaxed);
  for (const PurgeHolder& holder : survey->holders) {
    if (survey->trees.count(holder.tree) != 0) continue;
    const auto known = dropped.find(holder.tree);
    survey->trees[holder.tree] = known != dropped.end() ? PurgeSurvey::Terms{known->second, purge_before}
                                                        : PurgeSurvey::Terms{surely_late, purge_before, false};
  }
  std::erase_if(dropped, [&](const auto& entry) { return survey->trees.count(entry.first) == 0; });
}

void Surveyor::forget_changes(const std::vector<TreePtr>& trees, const PurgeSurvey& survey) {
  std::optional<std::map<TreeId, Millis>> floors;  // computed only if needed, which is rare
  MutexLock lock(env_.trees->state_mutex);
  for (const TreePtr& tree : trees) {
    if (tree->deadlines.earlier().empty()) continue;
    if (!floors) floors = survey.floors();
    env_.trees->forget_deadline_changes(*tree, floors->at(tree->id));
  }
}

void Surveyor::make_overdue(const PurgeTicket& ticket) {
  raise(&purge_before_, ticket.born_by);
  for (const TreePtr& tree : env_.trees->live_trees()) {
    if (!ticket.tree || tree->id == *ticket.tree) raise(&tree->purge_before, ticket.born_by);
  }
}

}  // namespace ebbtide

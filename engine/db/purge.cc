// What deletes still owe, asked of everything that may hold their bytes, and the tickets that users hold for the answer.
//
// Order matters: things move from memtables to tables, from tables and log segments to the ledger of what is on its way out, and
// whoever moves one notes it at the new place before it leaves the old one. A survey looks in that direction, so that it meets
// everything at least once.
//
// Monotone: a survey's `now` is drawn where births are, so every later birth is `now` or later, and what it looks at has every
// earlier one (fence). A ticket is done once a survey drawn after its moment finds no holder with a floor at or before it, and
// floors never get older. So a ticket that is done stays done; over restarts too, since open() leaves nothing but what the
// manifest and the log name, with the births that they had.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>

#include "base/oldest.h"
#include "db/db_impl.h"
#include "io/file_names.h"

namespace ebbtide {
namespace {

// Births up to `now` that a file owes something to; `now` if there are none.
Millis floor_of(const TableStats& stats, const RecordSet& records, Millis now) {
  Millis floor = now;
  keep_oldest(&floor, stats.oldest_obligation());
  keep_oldest(&floor, records_birth(stats, records));
  if (stats.min_expiry <= now) keep_oldest(&floor, stats.min_expiry);
  return floor;
}

constexpr std::size_t kMaxTickets = 1000;
constexpr std::size_t kMaxGoneTrees = 256;
constexpr std::uint64_t kSurveyMaxAgeNs = 20'000'000;  // of one that answers somebody: they may ask very often

}  // namespace

const char* purge_place_name(PurgePlace place) {
  switch (place) {
    case PurgePlace::kMemTable:
      return "memtable";
    case PurgePlace::kTable:
      return "table";
    case PurgePlace::kLeaving:
      return "leaving";
    case PurgePlace::kLog:
      return "log";
    case PurgePlace::kManifest:
      return "manifest";
  }
  return "unknown";
}

std::string format_ticket(const PurgeTicket& ticket) {
  std::string text = "purge-" + std::to_string(ticket.born_by);
  if (ticket.tree) text += "-" + std::to_string(*ticket.tree);
  return text;
}

std::optional<PurgeTicket> parse_ticket(Bytes text) {
  constexpr Bytes kPrefix = "purge-";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  PurgeTicket ticket;
  const char* at = text.data() + kPrefix.size();
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(at, end, ticket.born_by);
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
    ticket.tree = 0;
    read = std::from_chars(read.ptr + 1, end, *ticket.tree);
  }
  // Each ticket has one spelling: no leading zeros, nothing behind it.
  if (read.ec != std::errc() || read.ptr != end || text != format_ticket(ticket)) return std::nullopt;
  return ticket;
}

std::uint64_t PurgeStatus::files() const {
  std::uint64_t sum = 0;
  for (std::size_t place = 1; place < kPurgePlaces; ++place) sum += left[place].files;  // a memtable is no file
  return sum;
}

std::uint64_t PurgeStatus::bytes() const {
  std::uint64_t sum = 0;
  for (std::size_t place = 1; place < kPurgePlaces; ++place) sum += left[place].bytes;
  return sum;
}

void PurgeHistory::note(Millis floor, Millis looked_at) {
  const Millis left_at = std::exchange(looked_at_, looked_at);
  if (!steps_.empty() && floor <= steps_.back().floor) return;
  steps_.push_back({floor, looked_at, left_at});
  if (steps_.size() <= kMaxSteps) return;
  // Of the older half every second step goes: what it said is then said by the one after it, which is later, but which no longer
  // says that anything was left after the look before the older of the two.
  std::deque<Step> thinned;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const bool goes = i % 2 == 0 && i < steps_.size() / 2;
    if (goes) steps_[i + 1].left_at = steps_[i].left_at;
    if (!goes) thinned.push_back(steps_[i]);
  }
  steps_ = std::move(thinned);
}

// The step that told it gone.
std::deque<PurgeHistory::Step>::const_iterator PurgeHistory::find(Millis n) const {
  return std::upper_bound(steps_.begin(), steps_.end(), n, [](Millis birth, const Step& step) { return birth < step.floor; });
}

Millis PurgeHistory::known_at(Millis n) const {
  const auto at = find(n);
  return at == steps_.end() ? 0 : at->known_at;
}

Millis PurgeHistory::left_at(Millis n) const {
  const auto at = find(n);
  return at == steps_.end() ? looked_at_ : at->left_at;
}

void PersistTimes::note(const ByTree& births, const ByTree& floors, Millis now) {
  MutexLock lock(mutex_);
  for (auto known = oldest_.begin(); known != oldest_.end();) {
    const auto floor = floors.find(known->first);
    const bool gone = floor == floors.end() || floor->second > known->second;
    if (gone) observe(now - std::min(now, known->second));
    known = gone ? oldest_.erase(known) : std::next(known);
  }
  oldest_.insert(births.begin(), births.end());
}

void PersistTimes::observe(Millis took) {
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), took) - kBounds.begin();
  buckets_[static_cast<std::size_t>(bucket)] += 1;
  sum_ += took;
}

HistogramInfo PersistTimes::info() const {
  MutexLock lock(mutex_);
  HistogramInfo out;
  for (const Millis bound : kBounds) out.bounds.push_back(static_cast<double>(bound) / 1000);
  out.buckets.assign(buckets_.begin(), buckets_.end());
  out.sum = static_cast<double>(sum_) / 1000;
  return out;
}

bool PurgeSurvey::Terms::is_over(Millis birth, unsigned eighths, Millis now) const {
  const Millis due = deadlines.due(birth);
  return due != DeadlineRule::kNever && now >= birth + (due - birth) / 8 * eighths;
}

bool PurgeSurvey::is_due(TreeId tree, Millis floor, unsigned eighths) const {
  const auto at = trees.find(tree);
  return at != trees.end() && (floor <= at->second.purge_before || at->second.is_over(floor, eighths, looked_at));
}

std::map<TreeId, Millis> PurgeSurvey::floors() const {
  std::map<TreeId, Millis> floors;
  for (const auto& [tree, terms] : trees) floors.emplace_hint(floors.end(), tree, now);
  for (const PurgeHolder& holder : holders) {
    Millis& floor = floors.at(holder.tree);
    floor = std::min(floor, holder.floor);
  }
  return floors;
}

std::map<TreeId, Millis> PurgeSurvey::floors(bool damage) const {
  std::map<TreeId, Millis> floors;
  for (const auto& [tree, terms] : trees) floors.emplace_hint(floors.end(), tree, now);
  for (const PurgeHolder& holder : holders) {
    if (holder.damage != damage) continue;
    Millis& floor = floors.at(holder.tree);
    floor = std::min(floor, holder.floor);
  }
  return floors;
}

// A moment: everything that was born before is in place to be seen, and everything to come is born then or later.
Millis DbImpl::fence(SeqNum* up_to) {
  Millis now = 0;
  {
    MutexLock lock(commit_mutex_);
    now = last_time_ = std::max(time_.stamped(), last_time_);
    *up_to = next_seq_ - 1;
  }
  await_visible(*up_to);
  return now;
}

// The oldest birth that the tree owes something to, at most `now`.
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
    MutexLock lock(state_mutex_);
    view = tree->view_owner;
  }
  return view == nullptr ? now : floor_of(*view, tree->dropped_at, now);
}

void DbImpl::leave_table(const OpenTable& table, TreeId tree, Millis floor, bool with_data) {
  table.floor.store(floor, std::memory_order_relaxed);
  const FileMeta& meta = *table.meta;
  ledger_.leave({metadata_file_name(meta.metadata_file), meta.metadata_bytes, {{tree, floor}}, table.reader});
  if (!with_data) return;
  for (const auto& reader : table.data->readers()) {
    ledger_.leave({data_file_name(meta.data_file), meta.data_bytes, {{tree, floor}}, reader});
  }
}

// A job that failed has unlinked what it wrote; that is not durable, and may not even have worked.
void DbImpl::leave_failed_outputs(const TreePtr& tree) {
  const Millis floor = floor_of(tree);
  ledger_.leave({"(outputs)", 0, {{tree->id, floor}}, {}});
  for (const std::string& name : removals_.unremoved()) ledger_.leave({name, 0, {{tree->id, floor}}, {}});
}

// What was born in the survey's own millisecond is noted, too: whoever asks for a ticket's state in the millisecond of its delete
// is told what is left.
void DbImpl::survey_memory(const std::vector<TreePtr>& trees, PurgeSurvey* survey) {
  const Millis now = survey->now + 1;
  for (const TreePtr& tree : trees) {
    std::shared_ptr<const TreeView> view;
    const Millis dropped_at = tree->dropped_at;
    {
      MutexLock lock(state_mutex_);
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
  const std::vector<LogQueue::Segment> segments = log_->segments();
  const auto debts = log_debts(segments, survey->now);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    for (std::size_t n = 0; n < debts[i].size(); ++n) {
      const Millis floor = debts[i][n];
      if (floor != 0 && floor <= survey->now)
        survey->holders.push_back({PurgePlace::kLog, segments[i].notes[n].tree, floor, segments[i].bytes, segments[i].file});
    }
  }
}

std::shared_ptr<const PurgeSurvey> DbImpl::survey_purges(std::uint64_t max_age_ns) {
  MutexLock lock(purge_mutex_);
  if (survey_ != nullptr && max_age_ns != 0 && clock_.mono_ns() - surveyed_ns_ < max_age_ns) return survey_;
  return look_at_purges();
}

std::shared_ptr<const PurgeSurvey> DbImpl::look_at_purges() {
  auto survey = std::make_shared<PurgeSurvey>();
  surveyed_ns_ = clock_.mono_ns();
  std::vector<TreePtr> trees;
  Millis least_deadline = 0;  // of what a tree had that nobody remembers
  {
    SeqNum up_to = 0;
    survey->now = fence(&up_to);
    survey->looked_at = std::max(survey->now, time_.now());
    MutexLock lock(commit_mutex_);
    for (const auto& [id, tree] : trees_) trees.push_back(tree);
    trees.insert(trees.end(), dropped_trees_.begin(), dropped_trees_.end());
    for (DatabaseId d = 0; d < database_trees_.size(); ++d) {
      if (database_trees_[d] != nullptr) survey->databases.emplace_back(d, database_trees_[d]->id);
      const Millis deadline = tree_settings_[d].delete_deadline;
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
    MutexLock lock(state_mutex_);
    const Millis urgent = purge_before_.load(std::memory_order_relaxed);
    for (const PurgeHolder& holder : survey->holders) {
      if (survey->trees.count(holder.tree) != 0) continue;
      const auto known = dropped_deadlines_.find(holder.tree);
      survey->trees[holder.tree] = {known == dropped_deadlines_.end() ? DeadlineRule(least_deadline) : known->second, urgent};
    }
    std::erase_if(dropped_deadlines_, [&](const auto& entry) { return survey->trees.count(entry.first) == 0; });
  }
  forget_changes(trees, *survey);
  note_survey(*survey);
  survey_ = survey;
  return survey;
}

// Changes of deadlines that no delete waits for any more need not be kept in mind.
void DbImpl::forget_changes(const std::vector<TreePtr>& trees, const PurgeSurvey& survey) {
  std::optional<std::map<TreeId, Millis>> floors;  // nearly always nobody needs them
  MutexLock lock(state_mutex_);
  for (const TreePtr& tree : trees) {
    if (tree->deadlines.earlier().empty()) continue;
    if (!floors) floors = survey.floors();
    if (tree->deadlines.forget(floors->at(tree->id))) deadlines_changed_ = true;
  }
}

void DbImpl::note_survey(const PurgeSurvey& survey) {
  const std::map<TreeId, Millis> floors = survey.floors();
  std::map<TreeId, Millis> births;
  for (const PurgeHolder& holder : survey.holders) {
    const bool born =
        holder.place == PurgePlace::kMemTable || holder.place == PurgePlace::kTable || holder.place == PurgePlace::kLog;
    if (born && holder.floor != kUnknownBirth) keep_oldest(&births[holder.tree], holder.floor);
  }
  for (const auto& [tree, floor] : floors) {
    auto [history, fresh] = purged_.try_emplace(tree);
    if (const auto gone = purged_gone_.find(tree); fresh && gone != purged_gone_.end()) {
      history->second = std::move(gone->second.history);  // something of it came up again
      purged_gone_.erase(gone);
    } else if (fresh && surveyed_until_ != 0) {
      // A tree that is met for the first time owes nothing of what was born before the last look: it was not there. So nothing of
      // that was ever waited for, either.
      history->second.note(std::min(floor, surveyed_until_), 0);
    }
    history->second.note(floor, survey.looked_at);
  }
  for (auto tree = purged_.begin(); tree != purged_.end();) {
    if (floors.count(tree->first) != 0) {
      ++tree;
      continue;
    }
    tree->second.note(survey.now, survey.looked_at);
    purged_gone_[tree->first] = {std::move(tree->second), survey_->trees.at(tree->first).deadlines};
    tree = purged_.erase(tree);
  }
  while (purged_gone_.size() > kMaxGoneTrees) {
    const auto oldest = std::min_element(purged_gone_.begin(), purged_gone_.end(), [](const auto& a, const auto& b) {
      return a.second.history.looked_at() < b.second.history.looked_at();
    });
    others_gone_at_ = std::max(others_gone_at_, oldest->second.history.looked_at());
    purged_gone_.erase(oldest);
  }
  persist_times_.note(births, floors, survey.looked_at);
  purged_others_.note(survey.now, survey.looked_at);
  surveyed_until_ = survey.now;
}

DbImpl::Purged DbImpl::purged(const PurgeTicket& ticket, const PurgeSurvey& survey) {
  const Millis n = ticket.born_by;
  // Trees that no survey met were gone at the first one that was later than `n`. Of those that are not remembered any one may
  // have been the last to go; but what was born after that is not concerned.
  Purged sum{purged_others_.covers(n), purged_others_.known_at(n)};
  if (n < others_gone_at_) sum.known_at = std::max(sum.known_at, others_gone_at_);
  const auto add = [&](const PurgeHistory& history) {
    sum.done &= history.covers(n);
    sum.known_at = std::max(sum.known_at, history.known_at(n));
    sum.left_at = std::max(sum.left_at, history.left_at(n));
  };
  // What is known of trees that are gone does not concern what was born later: they were gone by then.
  if (ticket.tree) {
    const auto tree = purged_.find(*ticket.tree);
    const auto gone = purged_gone_.find(*ticket.tree);
    const PurgeHistory* history = nullptr;
    if (tree != purged_.end()) {
      history = &tree->second;
    } else if (gone != purged_gone_.end() && gone->second.history.covers(n)) {
      history = &gone->second.history;
    }
    if (history == nullptr) return sum;
    sum = {.done = true};  // whatever there is of others
    add(*history);
    return sum;
  }
  for (const auto& [tree, terms] : survey.trees) {
    if (terms.promised(n)) add(purged_.at(tree));
  }
  for (const auto& [tree, gone] : purged_gone_) {
    if (gone.deadlines.due(n) != DeadlineRule::kNever && gone.history.covers(n)) add(gone.history);
  }
  return sum;
}

PurgeTicket DbImpl::purge_ticket(SeqNum* up_to) { return {fence(up_to), {}}; }

Result<PurgeStatus> DbImpl::purge_status(const PurgeTicket& ticket) {
  MutexLock lock(purge_mutex_);
  const bool fresh = survey_ != nullptr && survey_->now > ticket.born_by && clock_.mono_ns() - surveyed_ns_ < kSurveyMaxAgeNs;
  const std::shared_ptr<const PurgeSurvey> survey = fresh ? survey_ : look_at_purges();
  if (ticket.born_by > survey->now || ticket.born_by == 0 || ticket.tree.value_or(0) >= versions_->tree_limit()) {
    return Status::invalid_argument("no such purge ticket was ever given out");
  }
  PurgeStatus status;
  const Purged known = purged(ticket, *survey);
  status.done = known.done;
  if (status.done) status.completed_at = std::max(known.known_at, ticket.born_by);
  if (!ticket.tree && ticket.born_by >= opened_at_) status.promised = false;
  const auto promise = [&](TreeId tree, const DeadlineRule& deadlines) {
    if (ticket.tree && *ticket.tree != tree) return;
    const Millis due = deadlines.due(ticket.born_by);
    if (due != DeadlineRule::kNever || ticket.tree)
      status.promised = status.promised.value_or(false) || due != DeadlineRule::kNever;
    if (due != DeadlineRule::kNever) status.deadline = std::max(status.deadline, due);
  };
  for (const auto& [tree, terms] : survey->trees) promise(tree, terms.deadlines);
  for (const auto& [tree, gone] : purged_gone_) {
    if (gone.history.covers(ticket.born_by)) promise(tree, gone.deadlines);
  }
  if (status.deadline != 0 && status.done && status.completed_at <= status.deadline) {
    status.in_time = true;
  } else if (status.deadline != 0 && known.left_at >= status.deadline) {
    status.in_time = false;
  }
  if (!ticket.tree) {
    for (const auto& [database, tree] : survey->databases) {
      if (!survey->trees.at(tree).promised(ticket.born_by)) status.not_promised.push_back(database);
    }
  }
  if (status.done) return status;
  std::set<FileNum> segments;  // one may owe to several trees
  for (const PurgeHolder& holder : survey->holders) {
    const bool concerned = ticket.tree ? holder.tree == *ticket.tree : survey->trees.at(holder.tree).promised(ticket.born_by);
    if (!concerned || holder.floor > ticket.born_by) continue;
    PurgeStatus::Left& left = status.left[static_cast<std::size_t>(holder.place)];
    if (left.oldest_birth == 0 || holder.floor < left.oldest_birth) left.oldest_birth = holder.floor;
    if (holder.place == PurgePlace::kLog && !segments.insert(holder.file).second) continue;
    if (holder.place == PurgePlace::kManifest && left.files != 0) continue;
    left.files += 1;
    left.bytes += holder.bytes;
    if (!holder.damage) continue;
    keep_oldest(&status.damage.oldest_birth, holder.floor);
    status.damage.files += 1;
    status.damage.bytes += holder.bytes;
  }
  return status;
}

void DbImpl::note_ticket(const PurgeTicket& ticket) {
  MutexLock lock(ticket_mutex_);
  if (!tickets_.empty() && tickets_.back() == ticket) return;
  tickets_.push_back(ticket);
  if (tickets_.size() > kMaxTickets) tickets_.pop_front();
}

std::vector<PurgeTicket> DbImpl::open_tickets() {
  MutexLock purging(purge_mutex_);
  const auto survey = look_at_purges();
  MutexLock lock(ticket_mutex_);
  std::erase_if(tickets_, [&](const PurgeTicket& ticket) NO_THREAD_SAFETY_ANALYSIS { return purged(ticket, *survey).done; });
  return {tickets_.begin(), tickets_.end()};
}

// What is left becomes overdue; the ticks and the planners do the rest. Memtables are flushed by the next tick.
Status DbImpl::purge_now(const PurgeTicket& ticket) {
  TRY(purge_status(ticket).status());
  const auto raise = [&](std::atomic<Millis>& bound) {
    Millis have = bound.load(std::memory_order_relaxed);
    while (have < ticket.born_by && !bound.compare_exchange_weak(have, ticket.born_by, std::memory_order_relaxed)) {
    }
  };
  raise(purge_before_);
  const std::vector<TreePtr> trees = live_trees();
  for (const TreePtr& tree : trees) {
    if (!ticket.tree || tree->id == *ticket.tree) raise(tree->purge_before);
  }
  purge_asked_ = true;
  for (const TreePtr& tree : trees) schedule_compactions(tree);
  return Status::ok();
}

}  // namespace ebbtide

#include "db/purge/purge_tracker.h"

#include <algorithm>
#include <set>

#include "base/oldest.h"

namespace ebbtide {
namespace {

// Returns the births of the oldest pending deletes, by tree. Only memtables, tables and the log have exact births; other holders
// have only floors.
std::map<TreeId, Millis> oldest_births(const PurgeSurvey& survey) {
  std::map<TreeId, Millis> births;
  for (const PurgeHolder& holder : survey.holders) {
    const bool born =
        holder.place == PurgePlace::kMemTable || holder.place == PurgePlace::kTable || holder.place == PurgePlace::kLog;
    if (born && holder.floor != kUnknownBirth) keep_oldest(&births[holder.tree], holder.floor);
  }
  return births;
}

// Adds the survey's holders of the ticket's deletes to `status`, by PurgePlace.
void add_left(const PurgeTicket& ticket, const PurgeSurvey& survey, PurgeStatus* status) {
  std::set<FileNum> segments;  // segments counted so far: a segment with deletes of several trees counts once
  for (const PurgeHolder& holder : survey.holders) {
    const bool concerned = ticket.tree ? holder.tree == *ticket.tree : survey.trees.at(holder.tree).promised(ticket.born_by);
    if (!concerned || holder.floor > ticket.born_by) continue;
    PurgeStatus::Left& left = status->left[static_cast<std::size_t>(holder.place)];
    if (left.oldest_birth == 0 || holder.floor < left.oldest_birth) left.oldest_birth = holder.floor;
    if (holder.place == PurgePlace::kLog && !segments.insert(holder.file).second) continue;
    if (holder.place == PurgePlace::kManifest && left.files != 0) continue;
    left.files += 1;
    left.bytes += holder.bytes;
    if (!holder.damage) continue;
    keep_oldest(&status->damage.oldest_birth, holder.floor);
    status->damage.files += 1;
    status->damage.bytes += holder.bytes;
  }
}

}  // namespace

std::shared_ptr<const PurgeSurvey> PurgeTracker::look() {
  MutexLock lock(mutex_);
  return draw();
}

std::shared_ptr<const PurgeSurvey> PurgeTracker::draw() {
  surveyed_ns_ = env_.clock->mono_ns();
  const std::shared_ptr<const PurgeSurvey> survey = env_.survey();
  note(*survey);
  survey_ = survey;
  return survey;
}

void PurgeTracker::note(const PurgeSurvey& survey) {
  const std::map<TreeId, Millis> floors = survey.floors();
  for (const auto& [tree, floor] : floors) note_tree(tree, floor, survey.looked_at);
  note_gone_trees(survey, floors);
  persist_times_.note(oldest_births(survey), floors, survey.looked_at);
  others_.note(survey.now, survey.looked_at);
  surveyed_until_ = survey.now;
}

void PurgeTracker::note_tree(TreeId tree, Millis floor, Millis looked_at) {
  auto [history, fresh] = trees_.try_emplace(tree);
  if (const auto gone = gone_.find(tree); fresh && gone != gone_.end()) {
    history->second = std::move(gone->second.history);  // the survey found deleted bytes of the tree again
    gone_.erase(gone);
  } else if (fresh && surveyed_until_ != 0) {
    // A tree that a survey finds for the first time did not exist at the last survey, so it has no delete born before that
    // survey.
    history->second.note(std::min(floor, surveyed_until_), 0);
  }
  history->second.note(floor, looked_at);
}

void PurgeTracker::note_gone_trees(const PurgeSurvey& survey, const std::map<TreeId, Millis>& floors) {
  for (auto tree = trees_.begin(); tree != trees_.end();) {
    if (floors.count(tree->first) != 0) {
      ++tree;
      continue;
    }
    tree->second.note(survey.now, survey.looked_at);
    gone_[tree->first] = {std::move(tree->second), survey_->trees.at(tree->first)};
    tree = trees_.erase(tree);
  }
  while (gone_.size() > kMaxGoneTrees) {
    const auto oldest = std::min_element(gone_.begin(), gone_.end(), [](const auto& a, const auto& b) {
      return a.second.history.looked_at() < b.second.history.looked_at();
    });
    others_gone_at_ = std::max(others_gone_at_, oldest->second.history.looked_at());
    gone_.erase(oldest);
  }
}

void PurgeTracker::Purged::add(const PurgeHistory& history, Millis n) {
  done &= history.covers(n);
  known_at = std::max(known_at, history.known_at(n));
  left_at = std::max(left_at, history.left_at(n));
}

PurgeTracker::Purged PurgeTracker::purged(const PurgeTicket& ticket, const PurgeSurvey& survey) const {
  const Millis n = ticket.born_by;
  // Trees that no survey found were purged at the first survey later than `n`. For forgotten trees only one time is stored, at
  // which the last of them was found purged. A delete born after that time cannot be in a forgotten tree.
  Purged sum{others_.covers(n), others_.known_at(n)};
  if (n < others_gone_at_) sum.known_at = std::max(sum.known_at, others_gone_at_);
  if (ticket.tree) return purged_tree(*ticket.tree, n, sum);
  for (const auto& [tree, terms] : survey.trees) {
    if (terms.promised(n)) sum.add(trees_.at(tree), n);
  }
  // A removed tree whose deletes were all purged before `n` does not matter: its history does not cover `n`.
  for (const auto& [tree, gone] : gone_) {
    if (gone.terms.promised(n) && gone.history.covers(n)) sum.add(gone.history, n);
  }
  return sum;
}

// Returns the result for one tree. If no result for the tree and `n` is stored, returns `others`, the result for all trees that
// were forgotten or never found.
PurgeTracker::Purged PurgeTracker::purged_tree(TreeId id, Millis n, Purged others) const {
  Purged sum{.done = true};
  if (const auto tree = trees_.find(id); tree != trees_.end()) {
    sum.add(tree->second, n);
    return sum;
  }
  const auto gone = gone_.find(id);
  if (gone == gone_.end() || !gone->second.history.covers(n)) return others;
  sum.add(gone->second.history, n);
  return sum;
}

void PurgeTracker::add_promises(const PurgeTicket& ticket, const PurgeSurvey& survey, PurgeStatus* status) const {
  if (!ticket.tree && ticket.born_by >= env_.opened_at()) status->promised = false;
  const auto promise = [&](TreeId tree, const PurgeSurvey::Terms& terms) {
    if (!terms.known || (ticket.tree && *ticket.tree != tree)) return;
    const Millis due = terms.deadlines.due(ticket.born_by);
    const bool promised = due != DeadlineRule::kNever;
    if (promised || ticket.tree) status->promised = status->promised.value_or(false) || promised;
    if (promised) status->deadline = std::max(status->deadline, due);
  };
  for (const auto& [tree, terms] : survey.trees) promise(tree, terms);
  for (const auto& [tree, gone] : gone_) {
    if (gone.history.covers(ticket.born_by)) promise(tree, gone.terms);
  }
  if (ticket.tree) return;
  for (const auto& [database, tree] : survey.databases) {
    if (!survey.trees.at(tree).promised(ticket.born_by)) status->not_promised.push_back(database);
  }
}

Result<PurgeStatus> PurgeTracker::status(const PurgeTicket& ticket) {
  MutexLock lock(mutex_);
  const bool fresh =
      survey_ != nullptr && survey_->now > ticket.born_by && env_.clock->mono_ns() - surveyed_ns_ < kSurveyMaxAgeNs;
  const std::shared_ptr<const PurgeSurvey> survey = fresh ? survey_ : draw();
  if (ticket.born_by > survey->now || ticket.born_by == 0 || ticket.tree.value_or(0) >= env_.tree_limit()) {
    return Status::invalid_argument("no such purge ticket was ever issued");
  }
  PurgeStatus status;
  const Purged known = purged(ticket, *survey);
  status.done = known.done;
  if (status.done) status.completed_at = std::max(known.known_at, ticket.born_by);
  add_promises(ticket, *survey, &status);
  if (status.deadline != 0 && status.done && status.completed_at <= status.deadline) {
    status.in_time = true;
  } else if (status.deadline != 0 && known.left_at >= status.deadline) {
    status.in_time = false;
  }
  if (!status.done) add_left(ticket, *survey, &status);
  return status;
}

void PurgeTracker::note_ticket(const PurgeTicket& ticket) {
  MutexLock lock(ticket_mutex_);
  if (!tickets_.empty() && tickets_.back() == ticket) return;
  tickets_.push_back(ticket);
  if (tickets_.size() > kMaxTickets) tickets_.pop_front();
}

std::vector<PurgeTicket> PurgeTracker::open_tickets() {
  MutexLock lock(mutex_);
  const auto survey = draw();
  MutexLock tickets(ticket_mutex_);
  std::erase_if(tickets_, [&](const PurgeTicket& ticket) NO_THREAD_SAFETY_ANALYSIS { return purged(ticket, *survey).done; });
  return {tickets_.begin(), tickets_.end()};
}

}  // namespace ebbtide

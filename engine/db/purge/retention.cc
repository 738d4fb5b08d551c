#include "db/purge/retention.h"

#include <algorithm>
#include <limits>
#include <set>

namespace ebbtide {
namespace {

constexpr std::uint64_t kLookNs = 1'000'000'000;
// Number of trees with superseded keys, mostly removed trees, above which the manifest is rolled. Each survey, once a second,
// visits all of these trees.
constexpr std::size_t kMaxSuperseded = 2000;
constexpr unsigned kLogEighths = 2, kManifestEighths = 6;

// Plans revocations of views and pins that keep replaced files and old log segments.
void plan_revocations(const RetentionInput& in, RetentionPlan* plan) {
  const PurgeSurvey& survey = in.survey;
  bool views = false;
  RevokeLogPins pins;
  for (const PurgeHolder& holder : survey.holders) {
    const bool leaving = holder.place == PurgePlace::kLeaving;
    const bool old_segment = holder.place == PurgePlace::kLog && holder.file < in.log_begins;
    if ((!leaving && !old_segment) || !survey.is_due(holder.tree, holder.floor, kRevokeEighths)) continue;
    views |= leaving;
    if (old_segment) pins.segments.push_back(holder.file);
  }
  if (views) plan->actions.emplace_back(RevokeViews{});
  if (!pins.segments.empty()) plan->actions.emplace_back(std::move(pins));
}

// Plans flushes and the end of due segments. Returns the newest due segment; kNoFile if there is none.
FileNum plan_log(const RetentionInput& in, RetentionPlan* plan) {
  FileNum last_due = kNoFile;
  for (const PurgeHolder& holder : in.survey.holders) {
    if (!in.survey.is_due(holder.tree, holder.floor, kLogEighths)) continue;
    if (holder.place == PurgePlace::kMemTable) plan->actions.emplace_back(FlushMemTables{holder.tree, holder.active});
    if (holder.place == PurgePlace::kLog) last_due = std::max(last_due, holder.file);
  }
  if (last_due != kNoFile) plan->actions.emplace_back(RetireSegments{last_due});
  return last_due;
}

// True if PURGE.NOW applies to deletes whose bytes the holder may have, and no damage prevents their purge.
bool is_wanted(const PurgeSurvey& survey, const PurgeHolder& holder) {
  return holder.floor <= survey.trees.at(holder.tree).purge_before && !holder.damage;
}

// Returns the trees whose memtables and tables have no more deletes to which PURGE.NOW applies. Only for these trees a roll
// removes all purged keys from the manifest.
std::set<TreeId> clean_trees(const PurgeSurvey& survey) {
  std::set<TreeId> clean;
  for (const auto& [tree, terms] : survey.trees) clean.insert(tree);
  for (const PurgeHolder& holder : survey.holders) {
    const bool in_tree = holder.place == PurgePlace::kTable || holder.place == PurgePlace::kMemTable;
    if (in_tree && is_wanted(survey, holder)) clean.erase(holder.tree);
  }
  return clean;
}

bool must_roll(const RetentionInput& in) {
  const PurgeSurvey& survey = in.survey;
  if (in.superseded.size() > kMaxSuperseded) return true;
  const std::set<TreeId> clean = clean_trees(survey);
  for (const auto& [tree, what] : in.superseded) {
    const auto at = survey.trees.find(tree);
    if (at == survey.trees.end()) continue;
    const PurgeSurvey::Terms& terms = at->second;
    if (what.floor <= terms.purge_before && clean.count(tree) != 0) return true;
    if (!terms.promised(what.floor)) continue;
    if (survey.looked_at >= what.since + terms.deadlines.shortest() / 4) return true;
    if (terms.is_over(what.floor, kManifestEighths, survey.looked_at)) return true;
  }
  return false;
}

}  // namespace

std::string to_string(const RetentionAction& action) {
  struct Text {
    std::string operator()(const RevokeViews&) const { return "revoke views"; }
    std::string operator()(const RevokeLogPins& pins) const {
      std::string text = "revoke pins of";
      for (const FileNum segment : pins.segments) text += " " + std::to_string(segment);
      return text;
    }
    std::string operator()(const FlushMemTables& flush) const {
      return (flush.freeze ? "freeze and flush " : "flush ") + std::to_string(flush.tree);
    }
    std::string operator()(const RetireSegments& retire) const { return "retire up to " + std::to_string(retire.last); }
    std::string operator()(const CleanUp& clean_up) const { return clean_up.roll ? "clean up and roll" : "clean up"; }
  };
  return std::visit(Text{}, action);
}

RetentionPlan plan_retention(const RetentionInput& input) {
  const PurgeSurvey& survey = input.survey;
  RetentionPlan plan;
  plan_revocations(input, &plan);
  const bool retires = plan_log(input, &plan) != kNoFile;
  const bool roll = must_roll(input);
  if (roll || retires || input.unsynced_removals) plan.actions.emplace_back(CleanUp{roll});
  plan.look_again = std::any_of(survey.holders.begin(), survey.holders.end(),
                                [&](const PurgeHolder& holder) { return is_wanted(survey, holder); });
  return plan;
}

std::uint64_t survey_interval_ns(const PurgeSurvey& survey, std::uint64_t took_ns) {
  // The last eighth of the time before a deadline must contain two surveys.
  std::uint64_t often_enough = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [tree, terms] : survey.trees) {
    const Millis shortest = terms.deadlines.shortest();
    if (shortest != 0) often_enough = std::min<std::uint64_t>(often_enough, shortest * (1'000'000 / 16));
  }
  const std::uint64_t rarely = std::min(20 * took_ns, std::max(kLookNs, often_enough));
  for (const PurgeHolder& holder : survey.holders) {
    if (holder.damage || !survey.is_due(holder.tree, holder.floor, kRevokeEighths)) continue;
    const Millis shortest = survey.trees.at(holder.tree).deadlines.shortest();
    if (shortest != 0) often_enough = std::min<std::uint64_t>(often_enough, shortest * (1'000'000 / 64));
  }
  return std::max(std::min(kLookNs, often_enough), rarely);
}

void Retention::tick() {
  MutexLock lock(mutex_);
  const std::uint64_t now_ns = env_.clock->mono_ns();
  // asked_ is reset before the survey, so that a concurrent request is not lost.
  if (!asked_.exchange(false) && last_ns_ != 0 && now_ns - last_ns_ < every_ns_) return;
  last_ns_ = now_ns;
  const std::shared_ptr<const PurgeSurvey> survey = env_.tracker->look();
  report_missed(*survey);
  const RetentionPlan plan = plan_retention({.survey = *survey,
                                             .superseded = env_.ledger->superseded(),
                                             .unsynced_removals = env_.ledger->wants_sync(),
                                             .log_begins = env_.log_begins()});
  for (const RetentionAction& action : plan.actions) perform(action, *survey);
  if (plan.look_again) asked_ = true;
  every_ns_ = survey_interval_ns(*survey, env_.clock->mono_ns() - now_ns);
}

void Retention::report_missed(const PurgeSurvey& survey) {
  for (const MissedDeadlines::Miss& miss : missed_.note(survey, env_.causes())) {
    env_.report_error("tree " + std::to_string(miss.tree) + ": deletes missed their deadline by " + std::to_string(miss.late_ms) +
                      " ms so far (reason: " + miss_reason_name(miss.reason) + ")");
  }
}

void Retention::perform(const RetentionAction& action, const PurgeSurvey& survey) {
  struct Perform {
    Retention& self;
    const PurgeSurvey& survey;
    void operator()(const RevokeViews&) const { self.env_.revoke_views(survey); }
    void operator()(const RevokeLogPins& pins) const { self.env_.pins->revoke(pins.segments); }
    void operator()(const FlushMemTables& flush) const { self.env_.flush(flush.tree, flush.freeze); }
    void operator()(const RetireSegments& retire) const { self.env_.retire_segments(retire.last); }
    void operator()(const CleanUp& clean_up) const { self.request_clean_up(clean_up.roll); }
  };
  std::visit(Perform{*this, survey}, action);
}

void Retention::request_clean_up(bool roll) {
  if (cleaning_.exchange(true)) return;
  env_.submit([this, roll] { clean_up(roll); });
}

void Retention::clean_up(bool roll) {
  const Status status = env_.shorten(roll);
  // The result is ignored: until a sync succeeds, removed files do not count as purged, so the next clean-up syncs again.
  if (!env_.closing() && status.is_ok()) {
    env_.ledger->look();
    if (env_.ledger->wants_sync()) (void)env_.sync_dir();
  }
  cleaning_ = false;
  if (!status.is_ok()) env_.failed(status);
}

}  // namespace ebbtide

// Advice for one database from its history and its tree (engine/tuner.h).
//
// A change of settings is advised only if it pays. Its cost is the cost of the merges that bring the tree into its new shape. Its
// gain is the difference of the costs of an operation, times the operations of a day. The nominal tuning is judged at the mean
// workload. The robust tuning is judged at the worst workload of each tuning, since it is chosen for the worst workload.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <engine/policies.h>
#include <engine/tuner.h>
#include "model/figures.h"
#include "model/number_text.h"
#include "model/recommend_inputs.h"
#include "model/workload.h"

namespace ebbtide {
namespace {

/// Settings are chosen for kGrowth times the present data, but costs are computed for the present data. The cheapest settings for
/// the present data would fill their last level exactly: a little more data, or a memtable rounded to whole KiB, would add a
/// level.
constexpr double kGrowth = 1.1;

/// Returns the counts of the newest windows that have kSmallestWindow operations together.
PerOperation newest_counts(std::span<const WorkloadWindow> windows) {
  OperationCounts counts;
  for (std::size_t i = windows.size(); i > 0 && static_cast<double>(counts.total()) < kSmallestWindow; --i)
    counts += windows[i - 1].counts;
  return per_operation(counts);
}

double part(std::uint64_t of, std::uint64_t all) {
  return all == 0 ? 0 : std::min(1.0, static_cast<double>(of) / static_cast<double>(all));
}

/// Sets the fields of `question` about deletes; its mix must be set already.
void describe_deletes(const Workload& workload, const WorkloadSummary& summary, TunerQuestion* question) {
  const OperationCounts& total = summary.total;
  question->delete_share = part(total.deletes, total.writes);
  question->stamp_deletes = part(total.stamp_deletes, total.total());
  question->writes_per_deadline = summary.operations_per_day * question->workload.write *
                                  static_cast<double>(workload.settings.delete_deadline) / kMillisPerDay;
  if (workload.entries_per_file >= 1) question->entries_per_file = workload.entries_per_file;
}

/// Sets out->question, the inputs of the model.
void describe(const Workload& workload, const RecommendOptions& options, Recommendation* out) {
  const WorkloadSummary& summary = out->summary;
  TunerQuestion& q = out->question;
  q.entries = static_cast<double>(std::max<std::uint64_t>(workload.table_entries, 1));
  q.entry_bytes = std::max(1.0, static_cast<double>(workload.table_bytes) / q.entries);
  q.page_bytes = workload.settings.page_size;
  out->settings = settings_now(workload);
  q.memory_bytes = options.memory_bytes.value_or(static_cast<double>(workload.settings.memtable_size) +
                                                 out->settings.filter_bits_per_key * q.entries / 8);
  q.workload = options.workload.value_or(summary.mean);
  q.rho = options.rho.value_or(summary.rho);
  q.range_selectivity = std::min(1.0, summary.entries_per_range / q.entries);
  q.miss_ratios = {workload.cache_miss_ratio};
  q.max_transient_space = kMostTransientSpace;
  q.write_asymmetry = workload.device.write_asymmetry;
  q.sequential_cost = workload.device.sequential_cost;
  describe_deletes(workload, summary, &q);
  q.pages_per_tile = out->settings.pages_per_tile;
}

/// Returns the tiles of the advised settings. Returns `auto` (deletes/tile_size.h) if there are deletes by stamp, and `auto` has
/// measured a better size than the present one. Otherwise returns the present tiles: only deletes by stamp are measured.
Recommendation::Tiles advised_tiles(const Workload& workload, const WorkloadSummary& summary) {
  const bool follows = summary.total.stamp_deletes != 0 && workload.settings.pages_per_tile != 0 &&
                       workload.measured_pages_per_tile != workload.pages_per_tile;
  return {follows ? workload.measured_pages_per_tile : workload.pages_per_tile, follows};
}

/// Returns why there is no advice for the database; "" if there may be some.
std::string why_none(const Workload& workload, const RecommendOptions& options, const WorkloadSummary& summary) {
  if (!options.workload && !summary.enough) {
    return "no advice: the history has " + std::to_string(summary.total.total()) + " operations, and needs " +
           number_text(kSmallestWindow);
  }
  if (workload.table_bytes <= workload.settings.memtable_size) {
    return "no advice: the tables have " + std::to_string(workload.table_bytes) + " bytes, not more than a memtable (" +
           std::to_string(workload.settings.memtable_size) + "), so that merges cost next to nothing";
  }
  if (workload.cache_miss_ratio < kLeastMissRatio) {
    return "keep the settings: the block cache serves " + short_text(100 * (1 - workload.cache_miss_ratio)) +
           " % of the page reads, so that other merges would hardly change the cost of reads";
  }
  return "";
}

/// Sets the savings and the verdict of `proposal`. `before` and `after`: cost of an operation under the present settings and
/// under the advice. `at`: text that names the workload of these costs.
void judge(const Recommendation& all, double before, double after, const std::string& at, Proposal* proposal) {
  proposal->saved_per_day = (before - after) * all.summary.operations_per_day;
  const std::string costs = "an operation costs " + short_text(after) + " page reads instead of " + short_text(before) + " " + at;
  const std::string price = "the merges to their shape cost " + short_text(proposal->change_cost) +
                            " page reads, and a day saves " + short_text(proposal->saved_per_day);
  if (before - after < kLeastGain * before) {
    proposal->verdict = "keep the settings: with the best ones " + costs + ", which is a gain of less than " +
                        short_text(100 * kLeastGain) + " %, within the model's error";
  } else if (proposal->saved_per_day <= proposal->change_cost) {
    proposal->verdict = "keep the settings: with the best ones " + costs + ", but " + price;
  } else {
    proposal->worthwhile = true;
    proposal->verdict = "worth a change: " + costs + "; " + price;
  }
}

/// Returns costs_under(), but with mean_cost at the unchanged workload. If rho is above 0, costs_under() itself raises small
/// shares for both mean_cost and worst_cost.
Result<TunerAdvice> compared_costs(const TunerQuestion& question, const TunerSettings& settings) {
  TunerQuestion at_mean = question;
  at_mean.rho = 0;
  TRY_ASSIGN(out, costs_under(at_mean, settings));
  TRY_ASSIGN(within_rho, costs_under(question, settings));
  out.worst_cost = within_rho.worst_cost;
  out.worst_workload = within_rho.worst_workload;
  return out;
}

Result<Proposal> propose(const Recommendation& all, bool robust) {
  TunerQuestion later = all.question;
  if (!robust) later.rho = 0;
  later.pages_per_tile = all.tiles.pages;
  TRY_ASSIGN(best, best_settings(later));
  TRY_ASSIGN(now, compared_costs(all.question, settings_of(best)));
  Proposal proposal;
  proposal.advice = std::move(now);
  proposal.advice.layout = best.layout;
  proposal.advice.measures_tiles = all.tiles.measured;
  if (!all.today) {
    proposal.verdict = "not compared: the model has no formula for today's policy " + all.settings.policy.name +
                       "; `ebbtide-tune explain --policy` simulates it";
    return proposal;
  }
  TRY_ASSIGN(price, change_cost(all.question, all.settings, settings_of(best)));
  proposal.change_cost = price;
  if (robust) {
    judge(all, all.today->worst_cost, proposal.advice.worst_cost, "at the worst workload within rho", &proposal);
  } else {
    judge(all, all.today->mean_cost, proposal.advice.mean_cost, "on average", &proposal);
  }
  return proposal;
}

/// Returns the shortest text that reads back as the same number.
std::string exact_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

}  // namespace

WorkloadSummary summarize(std::span<const WorkloadWindow> windows) {
  WorkloadSummary out;
  std::vector<PerOperation> counts;
  for (const WorkloadWindow& window : windows) {
    out.total += window.counts;
    counts.push_back(per_operation(window.counts));
  }
  if (out.total.total() == 0) return out;
  out.mean = figures_of(mix_of_counts(per_operation(out.total)));
  if (out.total.ranges != 0)
    out.entries_per_range = static_cast<double>(out.total.range_entries) / static_cast<double>(out.total.ranges);
  const Millis span = windows.back().start + windows.back().length - windows.front().start;
  // Counts the history as at least a minute long, since the rate of the first seconds is mostly chance.
  out.operations_per_day =
      static_cast<double>(out.total.total()) * kMillisPerDay / static_cast<double>(std::max<Millis>(span, 60'000));
  const auto found = uncertainty_from_history(counts);
  if (!found.is_ok()) return out;
  out.enough = true;
  out.mean = figures_of(found->expected);
  out.rho = found->rho;
  out.divergence = kl_divergence(with_smallest_share(mix_of_counts(newest_counts(windows))), found->expected);
  return out;
}

TunerSettings settings_now(const Workload& workload) {
  const TreeSettings& tree = workload.settings;
  const double memory_of_filters = static_cast<double>(tree.filter_memory) * 8;
  const auto entries = static_cast<double>(std::max<std::uint64_t>(workload.table_entries, 1));
  return {tree.policy, tree.memtable_size,
          memory_of_filters > 0 ? std::min(32.0, memory_of_filters / entries) : tree.filter_bits_per_key,
          workload.pages_per_tile};
}

TunerSettings settings_of(const TunerAdvice& advice) {
  return {advice.policy, advice.memtable_bytes, advice.filter_bits_per_key, advice.pages_per_tile};
}

Recommendation inputs_of(const Workload& workload, const RecommendOptions& options) {
  Recommendation out;
  out.summary = summarize(workload.windows);
  describe(workload, options, &out);
  out.tiles = advised_tiles(workload, out.summary);
  out.verdict = why_none(workload, options, out.summary);
  return out;
}

Result<TunerAdvice> best_settings(const TunerQuestion& question) {
  TunerQuestion later = question;
  later.entries *= kGrowth;
  later.range_selectivity /= kGrowth;
  TRY_ASSIGN(advices, advise(later));
  return std::move(advices.front());
}

Result<Recommendation> recommend(const Workload& workload, const RecommendOptions& options) {
  Recommendation out = inputs_of(workload, options);
  if (!out.verdict.empty()) return out;
  auto today = compared_costs(out.question, out.settings);
  if (!today.is_ok() && today.status().code() != Code::kUnsupported) return today.status();
  if (today.is_ok()) out.today = std::move(today).value();
  TRY_ASSIGN(nominal, propose(out, false));
  out.verdict = nominal.verdict;
  out.nominal = std::move(nominal);
  if (out.question.rho <= 0) return out;
  TRY_ASSIGN(robust, propose(out, true));
  out.verdict = robust.verdict;
  out.robust = std::move(robust);
  return out;
}

std::optional<TunerAdvice> costs_now(const Workload& workload) {
  Recommendation out;
  out.summary = summarize(workload.windows);
  if (!out.summary.enough || workload.table_entries == 0) return std::nullopt;
  describe(workload, {.rho = 0, .workload = std::nullopt, .memory_bytes = std::nullopt}, &out);
  auto costs = costs_under(out.question, out.settings);
  return costs.is_ok() ? std::optional(std::move(costs).value()) : std::nullopt;
}

std::vector<std::pair<std::string, std::string>> database_config(DatabaseId database, const TunerAdvice& advice) {
  const std::string prefix = "databases." + std::to_string(database) + ".";
  std::vector<std::pair<std::string, std::string>> out = {{prefix + "policy.name", advice.policy.name}};
  // Lists every parameter, also those at their default: if the policy has the same name, the server keeps the old values of
  // parameters that are not listed.
  for (const PolicyParameterInfo& parameter : policy_parameters(advice.policy.name)) {
    const auto set = advice.policy.parameters.find(parameter.name);
    const double value = set == advice.policy.parameters.end() ? parameter.fallback : set->second;
    out.emplace_back(prefix + "policy." + parameter.name, exact_text(value));
  }
  if (advice.measures_tiles) out.emplace_back(prefix + "pages_per_tile", "auto");
  // Rounded down, so that filters and memtable stay within the memory.
  out.emplace_back(prefix + "memtable_size", std::to_string(advice.memtable_bytes / 1024) + "KiB");
  out.emplace_back(prefix + "filters.memory", "auto");  // else bits_per_key would have no effect
  out.emplace_back(prefix + "filters.bits_per_key", exact_text(std::floor(advice.filter_bits_per_key * 100) / 100));
  return out;
}

}  // namespace ebbtide

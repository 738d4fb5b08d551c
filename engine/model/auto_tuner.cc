#include <engine/auto_tuner.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/figures.h"
#include "model/number_text.h"
#include "model/recommend_inputs.h"
#include "model/workload.h"

namespace ebbtide {
namespace {

/// A question gets the answer of the last question if two differences are small. Its mix diverges from the last mix by less than
/// kSameMix nats, and its data differ from the last data by less than the fraction kSameData.
constexpr double kSameMix = 0.002, kSameData = 0.02;
/// The largest relative difference at which the share of deletes, the deletes by stamp and the writes within a deadline count as
/// unchanged. They differ much from window to window.
constexpr double kSameDeletes = 0.25;

/// True if no operator has changed the settings from `a` to `b`. Filters of a fixed size have fewer bits per key as the data
/// grow, which is no change of settings. Tiles are not compared, since `auto` changes them.
bool same_settings(const TunerSettings& a, const TunerSettings& b) {
  return a.policy == b.policy && a.memtable_bytes == b.memtable_bytes &&
         std::abs(a.filter_bits_per_key - b.filter_bits_per_key) < kSameBits;
}

bool same_question(const TunerQuestion& a, const TunerQuestion& b) {
  const auto within = [](double x, double y, double part) {
    return std::abs(x - y) <= part * std::max(std::abs(x), std::abs(y));
  };
  const auto near = [&](double x, double y) { return within(x, y, kSameData); };
  return a.rho == b.rho && a.page_bytes == b.page_bytes && near(a.entries, b.entries) && near(a.entry_bytes, b.entry_bytes) &&
         near(a.memory_bytes, b.memory_bytes) && near(a.range_selectivity, b.range_selectivity) &&
         near(a.miss_ratios.front(), b.miss_ratios.front()) && a.write_asymmetry == b.write_asymmetry &&
         a.sequential_cost == b.sequential_cost && a.pages_per_tile == b.pages_per_tile &&
         within(a.delete_share, b.delete_share, kSameDeletes) && within(a.stamp_deletes, b.stamp_deletes, kSameDeletes) &&
         within(a.writes_per_deadline, b.writes_per_deadline, kSameDeletes) && near(a.entries_per_file, b.entries_per_file) &&
         kl_divergence(with_smallest_share(per_operation(a.workload)), with_smallest_share(per_operation(b.workload))) < kSameMix;
}

double divergence_between(const OperationFigures& a, const OperationFigures& b) {
  return kl_divergence(with_smallest_share(per_operation(a)), with_smallest_share(per_operation(b)));
}

/// Returns the largest difference, over all kinds of operation, between its cost with `settings` and its cost with `base`.
double largest_loss(const TunerAdvice& settings, const TunerAdvice& base) {
  const PerOperation ours = per_operation(settings.costs), theirs = per_operation(base.costs);
  double most = 0;
  for (std::size_t i = 0; i < kOperations; ++i) most = std::max(most, ours[i] - theirs[i]);
  return most;
}

}  // namespace

void AutoTuner::start_again(const TunerSettings& settings, Millis start) {
  base_ = settings;
  at_base_ = true;
  since_ = start;
  own_ = base_pages_ = 0;
  changed_at_.reset();
  candidate_.reset();
  asked_.reset();
}

Result<TunerAdvice> AutoTuner::best_for(const TunerQuestion& question) {
  if (!asked_ || !same_question(question, *asked_)) {
    asked_.reset();
    TRY_ASSIGN(found, best_settings(question));
    best_ = std::move(found);
    asked_ = question;
  }
  return best_;
}

double AutoTuner::room(Millis now) const {
  const double elapsed = static_cast<double>(std::max<Millis>(now - since_, 1));
  const double whole = base_pages_ * std::max(1.0, static_cast<double>(kLedgerSpan) / elapsed);
  return base_pages_ + kMostLoss * whole - own_;
}

// True if the change back to the base is due at once: the ledger has only room for this change left, and the base is better.
bool AutoTuner::must_return(Millis now, double loss, double needed) const { return !at_base_ && loss > 0 && room(now) < needed; }

void AutoTuner::applied(Millis now) {
  own_ += last_change_cost_;
  changed_at_ = now;
  at_base_ = candidate_ && candidate_->is_base;
  candidate_.reset();
  adopt_ = true;
}

AutoTuner::Decision AutoTuner::end_window(Millis start, Millis now, const Workload& workload, const OperationCounts& counts,
                                          const AutoTunerOptions& options) {
  Decision out;
  const TunerSettings settings = settings_now(workload);
  if (!settings_ || (!adopt_ && !same_settings(settings, *settings_))) start_again(settings, start);
  settings_ = settings;
  base_.pages_per_tile = settings.pages_per_tile;  // a change back to the base leaves tiles as they are
  adopt_ = false;
  waiting_ += counts;
  if (!waiting_since_) waiting_since_ = start;
  if (static_cast<double>(waiting_.total()) < kSmallestWindow) {
    out.why =
        "no decision: " + std::to_string(waiting_.total()) + " operations, and " + number_text(kSmallestWindow) + " are needed";
    return out;
  }
  Workload window = workload;
  window.windows = {{*waiting_since_, now - std::exchange(waiting_since_, std::nullopt).value(), waiting_}};
  const double operations = static_cast<double>(std::exchange(waiting_, {}).total());
  out.mix = figures_of(mix_of_counts(per_operation(window.windows.front().counts)));
  out.divergence = divergence_between(out.mix, options.expected.value_or(last_mix_.value_or(out.mix)));
  last_mix_ = out.mix;
  const double memory = static_cast<double>(base_.memtable_bytes) +
                        base_.filter_bits_per_key * static_cast<double>(std::max<std::uint64_t>(workload.table_entries, 1)) / 8;
  const Recommendation in =
      inputs_of(window, {.rho = options.rho, .workload = options.expected.value_or(out.mix), .memory_bytes = memory});
  out.why = in.verdict;
  if (!out.why.empty()) return out;
  TunerQuestion for_best = in.question;
  for_best.pages_per_tile = in.tiles.pages;
  TunerQuestion at_mix = in.question;
  at_mix.workload = out.mix;
  at_mix.rho = 0;
  const auto cost = costs_under(at_mix, settings), base_cost = costs_under(at_mix, base_);
  auto best = best_for(for_best);
  for (const Status& status : {cost.status(), base_cost.status(), best.status()}) {
    if (!status.is_ok()) return out.why = "no advice: " + std::string(status.message()), out;
  }
  out.cost_now = cost->mean_cost;
  last_base_cost_ = base_cost->mean_cost;
  own_ += out.cost_now * operations;
  base_pages_ += last_base_cost_ * operations;
  choose(at_mix, std::move(best).value(), *base_cost);
  if (!candidate_->is_base) candidate_->advice.measures_tiles = in.tiles.measured;
  const double to_base = change_cost(at_mix, settings, base_).value();
  const double exposed = largest_loss(*cost, *base_cost) * operations;
  if (must_return(now, (out.cost_now - last_base_cost_) * operations, to_base + exposed)) {
    candidate_ = Candidate{.advice = std::move(base_cost).value(), .windows = 1, .regret = 0, .is_base = true};
    last_change_cost_ = out.change_cost = to_base;
    out.advice = candidate_->advice;
    out.advised = out.due = true;
    out.why = "back to the first settings: an operation costs " + short_text(last_base_cost_) +
              " page reads with them instead of " + short_text(out.cost_now) + ", and the ledger has no room for further losses";
    return out;
  }
  candidate_->regret = std::max(0.0, candidate_->regret + (out.cost_now - candidate_->advice.mean_cost) * operations);
  // change_cost() cannot fail: the model has formulas for the layouts that best_for() returns, and for the base.
  const TunerSettings chosen = settings_of(candidate_->advice);
  last_change_cost_ = change_cost(at_mix, settings, chosen).value();
  last_reserve_ = candidate_->is_base
                      ? 0
                      : change_cost(at_mix, chosen, base_).value() + largest_loss(candidate_->advice, *base_cost) * operations;
  judge(now, window.windows.front().length, operations, &out);
  return out;
}

// Sets candidate_. Keeps the candidate of the last window if it is nearly as good as the best settings for this window. Otherwise
// the advice would follow every small move of the mix, and no candidate would be the best for two windows.
void AutoTuner::choose(const TunerQuestion& at_mix, TunerAdvice best, const TunerAdvice& base) {
  const std::uint32_t tiles = best.pages_per_tile;
  auto costs = costs_under(at_mix, settings_of(best));
  const std::string layout = best.layout;
  Candidate next{
      .advice = costs.is_ok() ? std::move(costs).value() : std::move(best), .windows = 0, .regret = 0, .is_base = false};
  next.advice.layout = layout;
  if (!at_base_ && base.mean_cost <= next.advice.mean_cost) {
    next.advice = base;
    next.is_base = true;
  }
  if (candidate_) {
    TunerSettings kept = settings_of(candidate_->advice);
    kept.pages_per_tile = candidate_->is_base ? base.pages_per_tile : tiles;
    if (auto again = costs_under(at_mix, kept); again.is_ok() && again->mean_cost <= (1 + kSameAdvice) * next.advice.mean_cost) {
      again->layout = candidate_->advice.layout;
      candidate_->advice = std::move(again).value();
      ++candidate_->windows;
      return;
    }
  }
  candidate_ = std::move(next);
  candidate_->windows = 1;
}

void AutoTuner::judge(Millis now, Millis span, double operations, Decision* out) {
  const Candidate& best = *candidate_;
  const double gain = out->cost_now - best.advice.mean_cost;
  const double saved_per_day = gain * operations * kMillisPerDay / static_cast<double>(std::max<Millis>(span, 1));
  out->change_cost = last_change_cost_;
  out->advice = best.advice;
  const std::string costs = "an operation costs " + short_text(best.advice.mean_cost) + " page reads instead of " +
                            short_text(out->cost_now) + " with " + best.advice.policy.name;
  if (gain < kLeastGain * out->cost_now) {
    out->why = "keep the settings: " + costs + ", a gain of less than " + short_text(100 * kLeastGain) + " %";
  } else if (best.windows < 2) {
    out->why = "wait: " + costs + ", but only for the newest window";
  } else if (saved_per_day <= last_change_cost_) {
    out->why = "keep the settings: " + costs + ", but the merges to their shape cost " + short_text(last_change_cost_) +
               " page reads, and a day saves " + short_text(saved_per_day);
  } else {
    out->advised = true;
    const bool stays = changed_at_ && now < *changed_at_ + kStayWindows * span;
    if (stays) {
      out->why = "wait: " + costs + ", but the last change is recent";
    } else if (best.regret < last_change_cost_) {
      out->why = "wait: " + costs + ", but the merges to their shape cost " + short_text(last_change_cost_) +
                 " page reads, and would have saved " + short_text(best.regret) + " so far";
    } else if (!best.is_base && room(now) < last_change_cost_ + last_reserve_) {
      out->why = "wait: " + costs + ", but the ledger has room for " + short_text(room(now)) +
                 " page reads, and the change, a bad window and the way back may cost " +
                 short_text(last_change_cost_ + last_reserve_);
    } else {
      out->due = true;
      out->why = "change: " + costs;
    }
  }
}

}  // namespace ebbtide

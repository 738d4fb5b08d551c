#include "dispatch/server_stats.h"

#include <algorithm>

namespace ebbtide {
namespace {

constexpr std::size_t kMaxErrorCodes = 128;

}  // namespace

DispatchCounters* ServerStats::add_dispatcher() {
  std::lock_guard lock(mutex_);
  blocks_.push_back(std::make_unique<DispatchCounters>(commands_));
  return blocks_.back().get();
}

std::vector<CommandCounts> ServerStats::sum_commands() const {
  std::vector<CommandCounts> sums(commands_);
  for (const auto& block : blocks_) {
    for (std::size_t i = 0; i < commands_; ++i) {
      const auto& counters = block->commands_[i];
      for (std::size_t b = 0; b < kCallBuckets; ++b) {
        const std::uint64_t calls = counters.buckets[b].get();
        sums[i].buckets[b] += calls;
        sums[i].calls += calls;
      }
      sums[i].nanos += counters.nanos.get();
      sums[i].rejected += counters.rejected.get();
      sums[i].failed += counters.failed.get();
    }
  }
  return sums;
}

TotalCounts ServerStats::sum_totals() const {
  TotalCounts sum;
  for (const auto& block : blocks_) {
    for (std::size_t i = 0; i < commands_; ++i) {
      for (const Counter& bucket : block->commands_[i].buckets) sum.commands += bucket.get();
    }
    sum.errors += block->errors.get();
    sum.keyspace_hits += block->keyspace_hits.get();
    sum.keyspace_misses += block->keyspace_misses.get();
    sum.passes += block->passes.get();
    sum.waits_for_disk += block->waits_for_disk.get();
    sum.offloaded += block->offloaded.get();
    sum.retries += block->retries.get();
    sum.stalled += block->stalled.get();
  }
  return sum;
}

std::array<StageCounts, kStageNames.size()> ServerStats::stages() const {
  std::lock_guard lock(mutex_);
  std::array<StageCounts, kStageNames.size()> sums;
  for (const auto& block : blocks_) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].nanos += block->stages_[i].nanos.get();
      for (std::size_t b = 0; b < kCallBuckets; ++b) sums[i].buckets[b] += block->stages_[i].buckets[b].get();
    }
  }
  return sums;
}

ScanCounts ServerStats::scans() const {
  std::lock_guard lock(mutex_);
  ScanCounts sum;
  for (const auto& block : blocks_) {
    sum.steps += block->scan_steps_.get();
    for (std::size_t b = 0; b < sum.buckets.size(); ++b) sum.buckets[b] += block->scans_[b].get();
  }
  return sum;
}

std::vector<CommandCounts> ServerStats::commands() const {
  std::lock_guard lock(mutex_);
  std::vector<CommandCounts> counts = sum_commands();
  for (std::size_t i = 0; i < commands_; ++i) {
    counts[i].calls -= base_commands_[i].calls;
    for (std::size_t b = 0; b < kCallBuckets; ++b) counts[i].buckets[b] -= base_commands_[i].buckets[b];
    counts[i].nanos -= base_commands_[i].nanos;
    counts[i].rejected -= base_commands_[i].rejected;
    counts[i].failed -= base_commands_[i].failed;
  }
  return counts;
}

TotalCounts ServerStats::totals() const {
  std::lock_guard lock(mutex_);
  TotalCounts counts = sum_totals();
  counts.commands -= base_totals_.commands;
  counts.errors -= base_totals_.errors;
  counts.keyspace_hits -= base_totals_.keyspace_hits;
  counts.keyspace_misses -= base_totals_.keyspace_misses;
  counts.passes -= base_totals_.passes;
  counts.waits_for_disk -= base_totals_.waits_for_disk;
  counts.offloaded -= base_totals_.offloaded;
  counts.retries -= base_totals_.retries;
  counts.stalled -= base_totals_.stalled;
  return counts;
}

std::vector<std::uint64_t> ServerStats::sum_times(std::size_t command) const {
  std::vector<std::uint64_t> sums;
  for (const auto& block : blocks_) {
    const CallTimes* times = block->commands_[command].times.load(std::memory_order_acquire);
    if (times == nullptr) continue;
    sums.resize(CallTimes::kBuckets);
    times->add_to(sums);
  }
  return sums;
}

std::vector<double> ServerStats::percentiles(std::size_t command, std::span<const double> percents) const {
  std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> counts = sum_times(command);
  const std::vector<std::uint64_t>& base = base_times_[command];
  for (std::size_t i = 0; i < base.size(); ++i) counts[i] -= base[i];
  std::vector<double> out;
  for (const double percent : percents) out.push_back(percentile(counts, percent));
  return out;
}

void ServerStats::set_shown_percentiles(std::vector<double> percents) {
  std::lock_guard lock(mutex_);
  shown_percentiles_ = std::move(percents);
}

std::vector<double> ServerStats::shown_percentiles() const {
  std::lock_guard lock(mutex_);
  return shown_percentiles_;
}

void ServerStats::count_error(Bytes message) {
  const std::string code(message.substr(0, std::min<std::size_t>(message.find(' '), 32)));
  std::lock_guard lock(mutex_);
  const auto it = errors_.find(code);
  if (it != errors_.end()) {
    ++it->second;
  } else if (errors_.size() < kMaxErrorCodes) {
    errors_.emplace(code, 1);
  }
}

std::map<std::string, std::uint64_t> ServerStats::errors_by_code() const {
  std::lock_guard lock(mutex_);
  return errors_;
}

void ServerStats::reset() {
  std::lock_guard lock(mutex_);
  base_commands_ = sum_commands();
  for (std::size_t i = 0; i < commands_; ++i) base_times_[i] = sum_times(i);
  base_totals_ = sum_totals();
  errors_.clear();
}

}  // namespace ebbtide

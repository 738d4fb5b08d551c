#include "command/server_stats.h"

#include <algorithm>

namespace ebbtide {
namespace {

constexpr std::size_t kMaxErrorCodes = 128;
constexpr std::uint64_t kRateWindowNanos = 100'000'000;

}  // namespace

double CommandCounts::quantile_nanos(double q) const {
  const double wanted = q * static_cast<double>(calls);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < kCallBounds.size(); ++i) {
    if (buckets[i] > 0 && static_cast<double>(below + buckets[i]) >= wanted) {
      const double start = i == 0 ? 0 : static_cast<double>(kCallBounds[i - 1]);
      const double part = (wanted - static_cast<double>(below)) / static_cast<double>(buckets[i]);
      return start + part * (static_cast<double>(kCallBounds[i]) - start);
    }
    below += buckets[i];
  }
  return calls == 0 ? 0 : static_cast<double>(kCallBounds.back());
}

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

double ServerStats::commands_per_second(std::uint64_t mono_nanos) {
  std::lock_guard lock(mutex_);
  const std::uint64_t elapsed = mono_nanos - rate_nanos_;
  if (elapsed < kRateWindowNanos) return rate_;
  const std::uint64_t commands = sum_totals().commands;
  const double seconds = static_cast<double>(elapsed) / 1e9;
  // The first call has nothing to compare with.
  rate_ = rate_nanos_ == 0 ? 0 : static_cast<double>(commands - rate_commands_) / seconds;
  rate_nanos_ = mono_nanos;
  rate_commands_ = commands;
  return rate_;
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
  base_totals_ = sum_totals();
  errors_.clear();
}

}  // namespace ebbtide

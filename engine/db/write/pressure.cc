#include "db/write/pressure.h"

#include <algorithm>

namespace ebbtide {
namespace {

constexpr std::uint32_t kDeadlineSlows = 700;  // deadline_permille above which writes slow down
constexpr double kDebtMs = 10'000;
constexpr double kNoStop = 0.95;  // highest pressure of sources that slow writes down but never stop them

/// Keeps the largest pressure of all sources.
struct Worst {
  double pressure = 0;
  StallReason reason = StallReason::kNone;
  void raise(double to, StallReason why) {
    if (to <= pressure) return;
    pressure = to;
    reason = why;
  }
};

double ratio(std::uint64_t part, std::uint64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

// While a tree has runs that another policy has left, its number of runs slows writes down but never stops them: the merge of
// these runs may rewrite the whole tree.
void add_runs(const WriteLoad::Tree& tree, Worst* worst, bool* stuck) {
  const int own = tree.runs - tree.inherited_runs, slow = tree.slowdown_runs, stop = tree.stop_runs;
  if (own <= slow) return;
  const double most = tree.inherited_runs > 0 ? kNoStop : 1;
  worst->raise(std::min(most, static_cast<double>(own - slow) / std::max(1, stop - slow)), StallReason::kRuns);
  *stuck |= own >= stop && tree.compactions_fail;
}

// When level 0 is due for a merge, all of it is pending. This is normal in a tree with many runs. So pending bytes count only
// from twice the capacity of level 0 on.
void add_pending(const WriteLoad& load, const WriteLoad::Tree& tree, Worst* worst) {
  const auto pending = static_cast<double>(tree.pending_bytes);
  const double soft = std::max({64.0 * static_cast<double>(load.memtable_size), 0.5 * static_cast<double>(tree.data_bytes),
                                2 * tree.level0_bytes, kDebtMs * load.merge_bytes_per_ms});
  if (pending > soft) worst->raise(std::min(kNoStop, (pending - soft) / (3 * soft)), StallReason::kPendingBytes);
}

void add_memtables(const WriteLoad& load, std::uint64_t used, Worst* worst) {
  const std::uint64_t budget = load.memory_budget, frozen = load.memory.frozen;
  const std::uint64_t share = std::max(2 * load.memtable_size, std::min(budget / 3, 8 * load.memtable_size));
  if (frozen > share / 2) worst->raise(2 * ratio(frozen - share / 2, share), StallReason::kMemTable);
  const std::uint64_t eighth = budget / 8;
  if (frozen != 0 && used > 7 * eighth) worst->raise(ratio(used - 7 * eighth, eighth), StallReason::kMemTable);
}

}  // namespace

Pressure pressure_of(const WriteLoad& load) {
  Worst worst;
  Pressure out;
  for (const WriteLoad::Tree& tree : load.trees) {
    add_runs(tree, &worst, &out.stuck);
    add_pending(load, tree, &worst);
  }
  if (const std::uint32_t needed = load.deadline_permille; needed > kDeadlineSlows) {
    worst.raise(std::min(kNoStop, ratio(needed - kDeadlineSlows, 1000 - kDeadlineSlows)), StallReason::kDeadline);
  }
  const std::uint64_t budget = load.memory_budget, used = load.memory.uncharged + load.memory.tables + load.charged_bytes;
  add_memtables(load, used, &worst);
  // True if no memtable waits for a flush, and the next tick will freeze none (MemoryBudget::relief).
  const bool flushed = load.memory.frozen == 0 && load.memory.memtables <= budget / 2;
  out.out_of_memory = used > budget + budget / 10 && flushed;
  out.permille = static_cast<std::uint32_t>(std::min(1.0, worst.pressure) * 1000);
  out.reason = worst.reason;
  return out;
}

}  // namespace ebbtide

// Commands that wait for memory: flushes of memtables will make room in the budget.
//
// A waiting command holds no thread, no marks, and no memory but its arguments. So waiting commands never wait for each other. A
// command's loop repeatedly checks if the budget has room, and then runs the command from the start. The command gets -OOM if
// there is still no room after kLongestNs, or if flushes would not make enough room.
//
// The memory that an attempt needs is estimated: the refused charge plus the attempt's known earlier charges. An attempt may be
// refused although the budget has room right afterwards. Other commands may have charged more meanwhile, or some of the attempt's
// charges were not known. Such an attempt is repeated only a few times.
#include <algorithm>

#include "dispatch/dispatch_state.h"
#include "dispatch/dispatcher.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kLongestNs = 10'000 * kNanosPerMilli;  // enough to flush and sync a few hundred megabytes
constexpr std::uint32_t kFirstMs = 10, kMoreMs = 10, kMostMs = 100;
constexpr std::uint32_t kMostRaces = 8;

}  // namespace

std::uint32_t Dispatcher::memory_wait_ms(PendingCommand& pending, const Status& status) {
  if (status.code() != Code::kOutOfMemory || status.refused_bytes() == 0 || env_.db == nullptr) [[likely]]
    return 0;
  MissSet& misses = misses_of(pending);
  std::uint64_t wanted = status.refused_bytes();
  if (!misses.refused) {
    for (const MissSet::LargeValue& read : misses.large) wanted += read.value->size();
  }
  misses.clear();
  batch_.clear();
  const BudgetRoom room = env_.db->memory_room(wanted);
  if (room == BudgetRoom::kNone) return 0;
  Waiting& waiting = waiting_of(pending);
  if (!waiting.memory.since) waiting.memory.since = nanos_;
  if (nanos_ - std::min(nanos_, *waiting.memory.since) >= kLongestNs) return 0;
  if (room == BudgetRoom::kNow && ++waiting.memory.races > kMostRaces) return 0;
  waiting.memory.wanted = wanted;
  return std::min(kFirstMs + kMoreMs * waiting.memory.looks++, kMostMs);
}

void Dispatcher::park_for_memory(PendingCommand& pending, std::uint32_t ms) {
  Waiting& waiting = waiting_of(pending);
  waiting.fetched = nullptr;
  pending.retry_ms = ms;
  leave_waiting(pending);
  begin_wait(waiting, Stage::kStall);
}

bool Dispatcher::waits_for_memory(PendingCommand& pending, Waiting& waiting) {
  const bool late = nanos_ - std::min(nanos_, *waiting.memory.since) >= kLongestNs;
  if (late || env_.db->memory_room(waiting.memory.wanted) != BudgetRoom::kAfterFlush) {
    waiting.memory.wanted = 0;
    return false;
  }
  park_for_memory(pending, std::min(kFirstMs + kMoreMs * waiting.memory.looks++, kMostMs));
  return true;
}

}  // namespace ebbtide

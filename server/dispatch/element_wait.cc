// Commands that wait for an element of a list or sorted set: BLPOP and similar (blocking/key_waiters.h).
//
// Such a command runs like any other. If it finds no element, it enters the queues of its keys. It then runs once more, since
// another client may have written in between. Then it waits until it is woken, until its timeout has passed, or until CLIENT
// UNBLOCK ends the wait. Each attempt begins from the start.
#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "blocking/key_waiters.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/dispatch_state.h"
#include "dispatch/dispatcher.h"
#include "dispatch/planted_bug.h"

namespace ebbtide {

ElementWait Dispatcher::element_wait_of(const Waiting& waiting) const {
  if (!waiting.for_element) return {};
  const std::uint64_t waited_ms = (nanos_ - std::min(nanos_, waiting.blocked_since)) / kNanosPerMilli;
  const bool timeout = waiting.timeout_ms != 0 && waited_ms >= waiting.timeout_ms;
  const bool unblocked = waiting.blocked->end() == BlockedClients::End::kTimeout;
  return {.has_waited = true, .is_over = timeout || unblocked};
}

void Dispatcher::note_waited_for(std::vector<KeyWaiters::Written> keys, KeyWaiters::Wait* own) {
  if (keys.empty()) return;
  if (own != nullptr) own->has_written(keys);
  if (own != nullptr && planted(PlantedServerBug::kDropBaton)) return;
  waited_for_.insert(waited_for_.end(), std::make_move_iterator(keys.begin()), std::make_move_iterator(keys.end()));
}

void Dispatcher::wait_for_element(PendingCommand& pending, const Prepared& prepared, std::span<const LookupKey> keys,
                                  std::uint64_t timeout_ms) {
  Client& client = *pending.client;
  Waiting& waiting = waiting_of(pending);
  waiting.fetched = nullptr;  // the next attempt may miss other pages
  waiting.stalled = false;
  if (!waiting.for_element) {
    Reply reply(&client.out, client.protocol);
    if (keys.size() > KeyWaiters::kMaxKeys) {
      const Status error = reply_error("ERR a command can wait for at most " + std::to_string(KeyWaiters::kMaxKeys) + " keys");
      return finish(pending, *prepared.command, error, reply, reply.mark());
    }
    std::uint64_t bytes = keys.size() * KeyWaiters::kBytesPerKey;
    for (const LookupKey& key : keys) bytes += key.key.size();
    if (bytes > kLargeValueBytes) {  // fewer bytes are not charged, as in Ctx::reserve()
      if (!env_.db->try_charge(MemoryAccount::Kind::kCommands, bytes))
        return finish(pending, *prepared.command, refused_charge(env_.db->memory(), bytes), reply, reply.mark());
      waiting.names_charge.took(env_.db->memory(), MemoryAccount::Kind::kCommands, bytes);
    }
    waiting.blocked_since = nanos_;
    waiting.timeout_ms = timeout_ms;
    waiting.blocked.emplace(*env_.blocked, client);
    waiting.for_element.emplace(*env_.key_waiters, client, session_of(client).database, keys);
    return run_admitted(pending, prepared);
  }
  const bool woken = waiting.for_element->found_nothing();
  const std::uint64_t waited_ms = (nanos_ - std::min(nanos_, waiting.blocked_since)) / kNanosPerMilli;
  // A longer wait is split: the command looks at its keys after each part.
  constexpr std::uint64_t kMostMs = std::numeric_limits<std::uint32_t>::max() / 2;
  if (timeout_ms != 0)
    pending.retry_ms = static_cast<std::uint32_t>(std::min(kMostMs, timeout_ms - std::min(timeout_ms - 1, waited_ms)));
  pending.blocked = true;
  leave_waiting(pending);
  if (woken) client.loop->resume(client.id);
}

}  // namespace ebbtide

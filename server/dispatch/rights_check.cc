#include "dispatch/rights_check.h"

#include <utility>

#include <engine/seeded_hash.h>

#include "dispatch/command_keys.h"
#include "dispatch/dispatch_state.h"
#include "dispatch/dispatcher.h"
#include "dispatch/permissions.h"

namespace ebbtide {

void RightsCheck::run() {
  // A key that is too long is in no database, so the command fails whatever the user's rights are.
  status = check_key_lengths(command->spec->keys, args);
  AclBudget budget(threads == OffloadClass::kCheck ? kShortSteps : ~std::uint64_t{0}, &client_gone);
  if (status.is_ok()) verdict = check_permission(*user, *command, args.list, budget);
  done.store(true, std::memory_order_release);
  loop->resume(client_id);
}

void Dispatcher::check_off_loop(PendingCommand& pending, const Prepared& prepared) {
  Client& client = *pending.client;
  auto check = std::make_shared<RightsCheck>();
  check->command = prepared.command;
  check->args = pending.args;
  check->user = session_of(client).rights;
  check->loop = client.loop;
  check->client_id = client.id;
  check->user_id = SeededHash{}(user_of(session_of(client)));
  Waiting& waiting = waiting_of(pending);
  waiting.rights = check;
  session_of(client).modes |= Session::kInCheck;
  begin_wait(waiting, Stage::kThread);
  leave_waiting(pending);
  env_.offload->submit(OffloadClass::kCheck, std::move(check));
}

std::optional<AclVerdict> Dispatcher::end_check(PendingCommand& pending, const Prepared& prepared) {
  auto& waiting = static_cast<Waiting&>(*pending.continuation);
  const std::shared_ptr<RightsCheck> check = waiting.rights;
  if (!check->done.load(std::memory_order_acquire)) return leave_waiting(pending), std::nullopt;
  if (check->status.is_ok() && !check->verdict) {
    check->threads = OffloadClass::kLongCheck;
    check->done.store(false, std::memory_order_relaxed);
    leave_waiting(pending);
    env_.offload->submit(OffloadClass::kLongCheck, check);
    return std::nullopt;
  }
  end_wait(waiting);
  Session& session = session_of(*pending.client);
  session.modes &= static_cast<std::uint8_t>(~Session::kInCheck);
  pending.continuation.reset();  // the command begins now, with an empty state
  if (!check->status.is_ok()) return reject(pending, prepared.command, check->status), std::nullopt;
  if (session.rights == check->user) return check->verdict;
  check_off_loop(pending, prepared);  // the rights have changed since the check began
  return std::nullopt;
}

}  // namespace ebbtide

// Commits consecutive overwrites of a window as one batch.
//
// An overwrite is a command that replaces the value of one key without reading it, such as SET k v. A commit gets its position in
// the order of all writes under a mutex that all event loops share. A group of overwrites, which may come from different clients,
// takes the mutex once. Its overwrites share a view, a log record and a publication.
//
// Invariants:
//   * A group ends before a command that may read, since that command must read what the group has written.
//   * A group holds the key locks of all its commands until its commit.
//   * A group commits only if each command has added one operation and needs nothing else. Otherwise the group's batch and
//     replies are dropped, and each command runs alone: it may fail, wait, or leave its loop without an effect on the others.
#include <algorithm>
#include <optional>
#include <utility>

#include "dispatch/dispatch_state.h"
#include "dispatch/intents.h"
#include "dispatch/key_locks.h"
#include "index/index_catalog.h"

namespace ebbtide {
namespace {

constexpr std::size_t kMostArguments = 4;  // as many as STAMP.SET key stamp value

bool overwrites_one_key(const CommandSpec& spec, std::size_t arguments, std::size_t keys) {
  return keys == 1 && arguments <= kMostArguments && spec.has(kWrite) && spec.keys.blind(arguments);
}

}  // namespace

bool Dispatcher::joins_group(std::size_t first, std::size_t at) const {
  const PendingCommand& pending = window_[at];
  const Prepared& prepared = prepared_[at];
  if (prepared.command == nullptr || !overwrites_one_key(*prepared.command->spec, pending.args.size(), prepared.keys))
    return false;
  Client& client = *pending.client;
  if (env_.db == nullptr || !prepared.error.is_ok() || !client.may_run() || !client.authenticated) return false;
  if (pending.args.refused || !pending.args.shared_list.empty() || pending.continuation != nullptr) return false;
  const Session& session = session_of(client);
  return session.modes == 0 && session.replies == Session::Replies::kOn &&
         session.database == session_of(*window_[first].client).database;
}

bool Dispatcher::run_group(std::size_t first, std::size_t* end) {
  std::size_t last = first;
  while (last < window_.size() && joins_group(first, last)) ++last;
  *end = std::max(last, first + 1);
  if (last - first < 2 || env_.observers->switches.word() != 0 || finished_ != nullptr) return false;

  const DatabaseId database = session_of(*window_[first].client).database;
  batch_.clear();
  stall_ms_ = 0;
  const auto keys = std::span<const LookupKey>(keys_).subspan(prepared_[first].first_key, last - first);
  const KeyLocks::Guard lock(*env_.locks, keys, database);
  const ReadView view = view_of(database, ReadMode::kResident, &misses_->set);
  std::size_t ran = first;
  bool usual = true;
  while (usual && ran < last && batch_.payload_bytes() < kGroupBytes) {
    usual = run_in_group(window_[ran], prepared_[ran], view, &group_marks_[ran - first]);
    ++ran;
  }
  *end = ran;
  usual = usual && batch_.count() == ran - first;
  IndexChanges changes;
  if (usual && env_.indexes != nullptr && env_.indexes->any()) [[unlikely]]
    usual = maintain(view, &changes).is_ok();
  // Long writes set marks, and clients begin to wait for keys, only under the keys' locks. The group holds these until its
  // commit.
  usual = usual && !env_.intents->any() && !env_.key_waiters->any();
  if (usual && env_.db->try_commit(batch_, false, &stall_ms_).is_ok()) [[likely]] {
    if (!changes.empty()) [[unlikely]]
      env_.indexes->take(std::move(changes));
    finish_group(first, ran);
    return true;
  }
  while (ran-- > first) window_[ran].client->out.truncate(group_marks_[ran - first].out);
  batch_.clear();
  misses_->set.clear();
  return false;
}

bool Dispatcher::run_in_group(PendingCommand& pending, const Prepared& prepared, const ReadView& view, Reply::Mark* mark) {
  Client& client = *pending.client;
  Reply reply(&client.out, client.protocol);
  *mark = reply.mark();
  const std::span<const LookupKey> keys(keys_.data() + prepared.first_key, prepared.keys);
  Ctx ctx{env_, *prepared.command, pending.args, keys, view, batch_, reply, session_of(client)};
  ctx.client = &client;
  ctx.client_id = client.id;
  ctx.now = now_;
  ctx.random = random_of(pending);
  ctx.work_left = kLoopWorkBytes;
  const bool ok = prepared.command->spec->run(ctx).is_ok();
  return ok && ctx.after_commit == nullptr && ctx.charge.bytes() == 0 && !ctx.unfinished && !ctx.element_wait.wanted;
}

void Dispatcher::finish_group(std::size_t first, std::size_t end) {
  const std::uint64_t start = nanos_;
  const bool moved = refresh_time();
  const std::uint64_t share = (nanos_ - start) / (end - first);
  if (batch_.payload_bytes() > kMeasuredCommitBytes) note_large_commit(batch_, false);
  for (std::size_t i = first; i < end; ++i) {
    PendingCommand& pending = window_[i];
    const Command& command = *prepared_[i].command;
    Client& client = *pending.client;
    client.seen_seq = std::max(client.seen_seq, batch_.last_seq());
    session_of(client).last_command = &command;
    if (moved) [[unlikely]]
      note_slow(client, command, pending.args, share, StageNanos{});
    counters_->call(command.index, share);
    Reply reply(&client.out, client.protocol);
    end_of_command(pending, reply, group_marks_[i - first]);
  }
}

}  // namespace ebbtide

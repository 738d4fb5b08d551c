// Delivers the effects of long commands in slices: invalidations of client-side caches, keyspace notifications, messages of EXEC.
//
// An MSET of 300,000 keys has 600,000 notifications, each for any number of subscribers. Its loop spends at most kPassNanos of
// each round on them, so that other clients have their turn in between. A slice begins once all loops have sent the messages of
// the slices before it. So a loop's queue has the messages of one slice at most, and its memory does not grow.
//
//   1. The command replies, and its client's next command runs, only when all of its effects are delivered. So each client has at
//      most one command in delivery. The memory of effects is part of their command's charge.
//   2. Effects outlive their client: they are delivered even if the client has disconnected, since the data has changed.
//   3. Invalidations are delivered first: until a client has all of them, its cache may be older than its next reads.
//   4. Notifications of one key have the order of its writes. From the commit on, firm marks (intents.h) on the written keys make
//      later writes of these keys wait until everything is delivered. Notifications of different keys have no order.
//   5. Several commands take turns, one slice each, so that a short delivery does not wait for a long one.
#include <algorithm>
#include <span>
#include <utility>

#include "dispatch/dispatch_state.h"
#include "dispatch/dispatcher.h"
#include "dispatch/intents.h"
#include "dispatch/long_write.h"
#include "dispatch/off_loop.h"
#include "resp/disposal.h"

namespace ebbtide {
namespace {

/// A command with at most this many arguments stays on its loop, even if many clients get its notifications.
constexpr std::size_t kFewArguments = 8;

/// Calls effects in order. Returns false if the slice ends before all effects are complete.
bool deliver(OffLoopWork& work, const Slice& slice) {
  const Origin origin(work.loop, work.client_id, work.address, work.seen_seq);
  while (work.next_effect < work.effects.size()) {
    if (work.effects[work.next_effect](origin, slice)) ++work.next_effect;
    if (slice.over()) break;
  }
  return work.next_effect == work.effects.size();
}

}  // namespace

bool Dispatcher::notifies_many(std::size_t arguments) const {
  const Observers& observers = *env_.observers;
  if (arguments <= kFewArguments || !observers.switches.has(Switches::kNotifications)) return false;
  return observers.notifications.listeners && arguments * observers.notifications.listeners() > kLoopNotifications;
}

bool Dispatcher::notifies_long(const PendingCommand& pending, const Prepared& prepared) const {
  Observers& observers = *env_.observers;
  const bool writes = prepared.command->spec->has(kWrite);
  if (writes && notifies_many(pending.args.size())) return true;
  const std::span<const LookupKey> keys(keys_.data() + prepared.first_key, prepared.keys);
  std::size_t bytes = 0;
  for (const LookupKey& key : keys) bytes += key.key.size();
  if (observers.notifications.work_of(keys.size(), bytes) <= kLoopWorkBytes) return false;
  if (writes || (observers.notifications.flags() & kNotifyMiss) != 0) return true;
  const DatabaseId database = session_of(*pending.client).database;
  return observers.expiries.on() && std::any_of(keys.begin(), keys.end(), [&](const LookupKey& key) {
           return observers.expiries.is_due(database, key.key, now_);
         });
}

void Dispatcher::order_notifications(LongWrite& work) {
  if (!env_.observers->switches.has(Switches::kNotifications) || work.writes().empty()) return;
  env_.intents->unmark(work.marks);
  work.ordering_marks = std::make_shared<Intents::Marks>();
  work.ordering_marks->keys = std::move(work.written);
  work.ordering_marks->keys.keep_only_keys();  // FLUSHDB and SWAPDB cause no notifications, so whole databases need no marks
  work.ordering_marks->lasting = true;
  // If other commands had unbroken firm marks on these keys, this commit would have waited for them.
  if (!env_.intents->mark(work.ordering_marks, true, {work.loop, work.client_id})) work.ordering_marks = nullptr;
}

bool Dispatcher::deliver_first(PendingCommand& pending, Waiting& waiting, const std::shared_ptr<OffLoopWork>& work) {
  using Delivery = OffLoopWork::Delivery;
  const bool begins = work->delivery == Delivery::kNotBegun && work->status.is_ok() && work->has_many_effects();
  if (begins) {
    work->seen_seq = std::max(work->seen_seq, pending.client->seen_seq);
    work->delivery = Delivery::kUnderWay;
    deliveries_.push_back(work);
    if (deliveries_.size() == 1) deliver_slice(work->loop, false);
  }
  if (work->delivery != Delivery::kUnderWay) return false;
  if (large_commit_ != 0) work->large_commit = std::exchange(large_commit_, 0);
  leave_waiting(pending);
  begin_wait(waiting, Stage::kThread);
  return true;
}

void Dispatcher::deliver_slice(ClientLoop* here, bool resumes) {
  const std::shared_ptr<OffLoopWork> work = std::move(deliveries_.front());
  deliveries_.pop_front();
  const Slice slice([this, end = env_.control->mono_nanos() + kPassNanos] { return env_.control->mono_nanos() >= end; });
  bool done = false;
  const auto run = [&] { done = deliver(*work, slice); };
  const auto& together = env_.observers->notifications.together;
  together ? together(run) : run();
  env_.observers->tracking.send_broadcasts(here);
  if (!done) {
    deliveries_.push_back(work);
  } else {
    if (work->ordering_marks != nullptr) env_.intents->unmark(work->ordering_marks);
    work->delivery = OffLoopWork::Delivery::kDone;
    if (resumes) here->resume(work->client_id);
    if (!work->wanted()) let_go(work, true);
  }
  if (deliveries_.empty()) return;
  const auto next = [this, here] { deliver_slice(here, true); };
  const auto& after_all = env_.observers->after_all_loops;
  after_all ? after_all(here, next) : here->post(next);
}

}  // namespace ebbtide

#include "dispatch/context.h"

#include "dispatch/command_env.h"
#include "dispatch/intents.h"
#include "resp/freed_memory.h"

namespace ebbtide {
namespace {
constexpr auto kKind = MemoryAccount::Kind::kCommands;
}

ServerControl& Ctx::server() const { return *env.env_->control; }

std::unique_ptr<Iterator> Ctx::iterate(const IteratorOptions& options) const {
  return pending() == nullptr ? env.env_->db->iterate(view, options) : pending()->iterate(view, options);
}

ReadView Ctx::view_of(DatabaseId database) const {
  if (database == view.database()) return view;
  return other_view != nullptr ? (*other_view)(database) : env.env_->db->view(database, now, view.mode(), view.misses());
}

bool Ctx::may_store_result() const {
  return (client != nullptr || in_exec()) && env.env_->db->write_status().is_ok() && !env.env_->db->writes_stopped();
}

void Ctx::add_also_read(const LookupKey& key) const {
  KeySet& keys = *off_loop->also_read;
  if (keys.size() <= OffLoopCtx::kMostAlsoRead) keys.add(view.database(), key.hash);
}

Status Ctx::reserve_slowly(std::uint64_t bytes) {
  // Nothing to charge: no command builds values while the database is being opened.
  if (env.env_->db == nullptr) return Status::ok();
  if (!env.env_->db->try_charge(kKind, bytes)) return refused_charge(env.env_->db->memory(), charge.bytes() + bytes);
  charge.took(env.env_->db->memory(), kKind, bytes);
  collect_freed_before(bytes);
  return Status::ok();
}

Status Ctx::reserve_reply_slowly() {
  const std::uint64_t held = reply.out().memory();
  TRY(reserve_slowly(held - reply_charged));
  reply_charged = held;
  return Status::ok();
}

}  // namespace ebbtide

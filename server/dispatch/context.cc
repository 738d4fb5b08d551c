#include "dispatch/context.h"

#include <utility>

namespace ebbtide {
namespace {
constexpr auto kKind = MemoryAccount::Kind::kCommands;
}

Status Ctx::reserve_slowly(std::uint64_t bytes) {
  if (env.db == nullptr) return Status::ok();  // while the database is being opened, no command builds values
  if (!env.db->try_charge(kKind, bytes)) return refused_charge(env.db->memory(), charge.bytes() + bytes);
  charge.took(env.db->memory(), kKind, bytes);
  return Status::ok();
}

Status Ctx::reserve_reply_slowly() {
  // The allocator rounds a chunk up by as much as an eighth.
  const std::uint64_t held = reply.out().memory(), grown = held - reply_charged;
  TRY(reserve_slowly(grown + grown / 8));
  reply_charged = held;
  return Status::ok();
}

}  // namespace ebbtide

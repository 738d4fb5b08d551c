// The limits of walks and range deletes inside EXEC, since other writers wait for the transaction.
//
// A walk may visit Ctx::kExecKeys keys and skipped versions. Off the event loop, each walk of the transaction has this limit. On
// a loop all its walks share one limit, since other clients wait, too; after that, each walk may still visit kLeastExecKeys.
// A command that reaches its limit ends early (SCAN), estimates (DBSIZE), or fails while the transaction continues (KEYS).
#pragma once

#include <algorithm>
#include <cstdint>

#include <engine/db.h>

#include "dispatch/context.h"

namespace ebbtide {

constexpr std::uint64_t kLeastExecKeys = 200;

/// Returns how many keys and skipped versions a walk that begins now may visit. Outside EXEC there is no limit.
inline std::uint64_t walk_limit(const Ctx& ctx) {
  if (!ctx.in_exec()) return ~std::uint64_t{0};
  return ctx.exec->keys_left == nullptr ? Ctx::kExecKeys : std::max(*ctx.exec->keys_left, kLeastExecKeys);
}

/// Counts the keys and versions that one walk visits. The destructor subtracts them from the transaction's limit.
class ExecWalk {
 public:
  /// `ctx` and `walk` must outlive this object.
  ExecWalk(const Ctx& ctx, const Iterator& walk)
      : keys_left_(ctx.in_exec() ? ctx.exec->keys_left : nullptr), most_(walk_limit(ctx)), walk_(walk) {}
  ~ExecWalk() {
    if (keys_left_ != nullptr) *keys_left_ -= std::min(*keys_left_, looked_at_ + walk_.steps());
  }
  ExecWalk(const ExecWalk&) = delete;
  ExecWalk& operator=(const ExecWalk&) = delete;

  /// Returns true if a walk that has visited `keys` keys so far has reached its limit.
  [[nodiscard]] bool is_spent(std::uint64_t keys) {
    looked_at_ = keys;
    return keys + walk_.steps() > most_;
  }

 private:
  std::uint64_t* const keys_left_;
  const std::uint64_t most_;
  const Iterator& walk_;
  std::uint64_t looked_at_ = 0;
};

/// The work (Ctx::work) of an estimate of the number of keys, in bytes: it counts the entries in memory, which takes about 2 ms.
constexpr std::uint64_t kEstimateBytes = 2 << 20;

/// Counts the work of a range delete inside EXEC, whose bounds have `bound_bytes` bytes, and fails like Ctx::work(). The delete
/// reads no key, but its commit runs on the loop: it adds the delete to the memtable's tombstones, and copies the bounds.
inline Status range_delete_work(Ctx& ctx, std::size_t bound_bytes) {
  return ctx.in_exec() ? ctx.work(Ctx::kRangeDeleteWork + Ctx::kBoundByteWork * bound_bytes) : Status::ok();
}

}  // namespace ebbtide

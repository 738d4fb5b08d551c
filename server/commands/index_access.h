// Functions that INDEX.* and SPATIAL.* share: they find, create, describe and remove indexes (indexes.cc).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include <engine/index.h>
#include <engine/types.h>

#include "dispatch/arg_cursor.h"
#include "dispatch/context.h"

namespace ebbtide {

/// Returns the definition of an index of the session's database, or an error that names it.
Result<IndexDefinition> find_index(const Ctx& ctx, Bytes name);
/// Check the name of an index, and its prefix or the name of an indexed field. Fail with the error that the client gets.
Status check_index_name(Bytes name);
Status check_index_text(Bytes prefix_or_field);
/// Parses what follows POLICY: a name, and pairs of a parameter of that policy and its value.
Result<PolicySettings> policy_argument(Bytes name, ArgCursor* cursor);
/// Creates the index, whose definition has all but a number, and replies.
Status create_index(Ctx& ctx, IndexDefinition definition);
/// Removes the index whose name is the first argument, and replies.
Status drop_index(Ctx& ctx);
/// Replies with a map that describes an index. `add_source` writes `source_fields` entries of the map, which name the indexed
/// fields.
Status describe_index(const Ctx& ctx, const IndexDefinition& index, std::size_t source_fields,
                      const std::function<void()>& add_source);
/// Fails unless the index was complete when its tree was leased, and has not changed since. Call it after the lease. `index`: its
/// definition from before the lease.
Status check_complete(const Ctx& ctx, const IndexDefinition& index);
/// Returns the user key of a record, from its engine key.
Result<std::string> user_key_of(Bytes engine_key);
/// The most elements in a reply, and the largest argument of COUNT.
inline constexpr std::uint64_t kMostIndexReplies = 1'000'000;

/// Charges what a search has found so far, in steps. The first kLargeValueBytes are free of charge, as in Ctx::reserve().
class FoundCharge {
 public:
  explicit FoundCharge(Ctx& ctx) : ctx_(ctx) {}
  /// Call it before `bytes` more are kept. kOutOfMemory: the memory budget has no room.
  [[nodiscard]] Status add(std::uint64_t bytes) {
    bytes_ += bytes;
    if (bytes_ <= charged_) return Status::ok();
    const std::uint64_t step = std::max(bytes_ - charged_, kStep);
    charged_ += step;
    return ctx_.reserve(step);
  }

 private:
  static constexpr std::uint64_t kStep = std::uint64_t{1} << 20;

  Ctx& ctx_;
  std::uint64_t bytes_ = 0, charged_ = kLargeValueBytes;
};

}  // namespace ebbtide

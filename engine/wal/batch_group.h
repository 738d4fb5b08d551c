// A log record holds a group of batches: all batches that were written to the log together, each preceded by its length (u32).
#pragma once

#include <utility>

#include <engine/result.h>
#include <engine/write_batch.h>
#include "base/coding.h"

namespace ebbtide {

/// Calls `visit` with the payload of each batch, in order; `visit` returns a Status. Stops at the first error and returns it.
/// Returns kCorruption if the group is truncated.
template <typename Visit>
Status each_batch(Bytes group, Visit visit) {
  while (!group.empty()) {
    std::uint32_t length = 0;
    if (!get_u32(&group, &length) || length > group.size()) return Status::corruption("malformed group of batches");
    TRY(visit(group.substr(0, length)));
    group.remove_prefix(length);
  }
  return Status::ok();
}

/// The number of leading bytes of a group that looks_like_group() checks.
inline constexpr std::size_t kGroupPrefixBytes = sizeof(std::uint32_t) + WriteBatch::kHeaderBytes;

/// Returns true if `prefix`, the first kGroupPrefixBytes bytes of `bytes` bytes, may be the beginning of a group. Sets
/// `first_seq` to the seq of the group's first operation. The test is cheap, since a search for a record tests every offset.
inline bool looks_like_group(Bytes prefix, std::uint64_t bytes, SeqNum* first_seq) {
  constexpr std::uint64_t kLeastOperationBytes = 6;
  if (prefix.size() < kGroupPrefixBytes || bytes < kGroupPrefixBytes) return false;
  const char* batch = prefix.data() + sizeof(std::uint32_t);
  const auto length = load_fixed<std::uint32_t>(prefix.data());
  const auto count = load_fixed<std::uint32_t>(batch + 24), reserved = load_fixed<std::uint32_t>(batch + 28);
  *first_seq = load_fixed<std::uint64_t>(batch);
  return length >= WriteBatch::kHeaderBytes && length <= bytes - sizeof(std::uint32_t) && *first_seq != 0 &&
         *first_seq <= kMaxSeqNum && reserved == 0 && count * kLeastOperationBytes <= length - WriteBatch::kHeaderBytes;
}

}  // namespace ebbtide

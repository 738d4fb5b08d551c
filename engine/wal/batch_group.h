// What a record of the log holds: a group of batches, all that one write to the log took along, each behind its length (u32).
#pragma once

#include <utility>

#include <engine/result.h>
#include "base/coding.h"

namespace ebbtide {

/// Calls visit(Bytes payload of a batch) -> Status for one batch after the other; the first error ends the walk. kCorruption if
/// the group is cut short.
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

}  // namespace ebbtide

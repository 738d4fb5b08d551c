// Stages and commits batches in a Harness.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "engine/db/harness.h"

namespace ebbtide {

inline std::unique_ptr<StagedBatch> stage(Harness& h, WriteBatch batch) {
  auto staged = h.db->stage(std::move(batch));
  demand_ok(staged.status(), "stage");
  return std::move(staged).value();
}

/// Commits the batch. Returns the seq of its last operation.
inline SeqNum commit(Harness& h, StagedBatch& staged) {
  std::uint32_t wait_ms = 0;
  demand_ok(h.db->try_commit(staged, false, &wait_ms), "commit");
  h.db->write_log();
  return staged.batch().last_seq();
}

}  // namespace ebbtide

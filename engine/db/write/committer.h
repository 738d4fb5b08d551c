// Carries out commits: refuses or delays a batch, then commits it through the pipeline or, if it is large, as a staged batch.
//
//   refuse   the batch is invalid, the database is read-only, or memory or disk is full; nothing has changed
//   delay    merges are behind (write_controller.h): commit() sleeps, try_commit() returns how long to wait
//   commit   CommitPipeline commits an ordinary batch, StagedWriter a large one
//   count    CommitCounter counts the batch
//
// Env is a template parameter, as in commit_pipeline.h. Its members:
//
//   bool log_failed();
//   Status log_status();
//   bool read_only();
//   Status write_status();
//   bool disk_full();
//
// Each commit calls log_failed(), read_only() and disk_full(), so these must be fast. write_status() returns kReadOnly while
// read_only() is true.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <engine/charged_value.h>
#include <engine/memory_account.h>
#include <engine/staged_batch.h>
#include <engine/status.h>
#include <engine/write_batch.h>
#include "db/write/commit_counter.h"
#include "db/write/commit_pipeline.h"
#include "db/write/staged_writer.h"
#include "db/write/write_controller.h"

namespace ebbtide {

/// The commits of Db, with the same interface (engine/db.h). Thread-safe.
template <typename Env>
class Committer {
 public:
  /// All parts must outlive the committer.
  struct Parts {
    CommitPipeline<Env>& pipeline;
    WriteController& writes;
    StagedWriter& staged;
    CommitCounter& counter;
    MemoryAccount& memory;
    std::uint32_t databases = 0;  ///< Settings::databases
  };

  Committer(Env env, const Parts& parts) : env_(std::move(env)), parts_(parts) {}

  Status commit(WriteBatch& batch) {
    if (batch.empty()) return Status::ok();
    TRY(refuse(batch));
    TRY(parts_.writes.await(batch));
    return commit_admitted(batch, true);
  }
  Status try_commit(WriteBatch& batch, bool waited, std::uint32_t* wait_ms) {
    *wait_ms = 0;
    if (batch.empty()) return Status::ok();
    TRY(refuse(batch));
    *wait_ms = parts_.writes.delay_ms(batch, waited);
    if (*wait_ms != 0) return must_wait();
    return commit_admitted(batch, false);
  }

  /// Stages a batch that may be committed now (StagedWriter::stage()). `*staged` must be empty.
  Status stage(WriteBatch&& batch, const std::atomic<bool>* stop, StagedParts* staged) {
    TRY(refuse(batch));
    return parts_.staged.stage(std::move(batch), stop, staged);
  }
  Status commit(StagedParts* staged) {
    if (staged->batch.empty()) return Status::ok();
    TRY(refuse(staged->batch));
    TRY(parts_.writes.await(staged->batch));
    return parts_.staged.commit(staged);
  }
  Status try_commit(StagedParts* staged, bool waited, std::uint32_t* wait_ms) {
    *wait_ms = 0;
    if (staged->batch.empty()) return Status::ok();
    TRY(refuse(staged->batch));
    *wait_ms = parts_.writes.delay_ms(staged->batch, waited);
    if (*wait_ms != 0) return must_wait();
    return parts_.staged.commit(staged);
  }

 private:
  Status refuse(const WriteBatch& batch) {
    TRY(check_batch(batch, parts_.databases));
    if (env_.log_failed()) return Status::read_only(env_.log_status().to_string());
    if (env_.read_only()) TRY(env_.write_status());
    return parts_.writes.refuse(batch, env_.disk_full());
  }
  static Status must_wait() { return Status::busy("writes wait for flushes and compactions"); }
  /// `may_wait`: true if the call may wait for the device when it writes a large batch to the log.
  Status commit_admitted(WriteBatch& batch, bool may_wait) {
    const bool large_values =
        batch.payload_bytes() >= StagedBatch::kLeastBytes && batch.flushes() == 0;  // staging logs large values in pieces
    if (large_values || StagedBatch::pays_for(batch)) [[unlikely]] {
      Status status = parts_.staged.commit_now(batch, may_wait);
      if (status.code() != Code::kUnsupported) return status;
    }
    TRY(parts_.pipeline.commit(batch));
    if (batch.payload_bytes() > kLargeValueBytes) [[unlikely]]
      parts_.memory.lower_limit(batch.payload_bytes() - batch.shared_bytes());
    parts_.counter.count(batch);
    return Status::ok();
  }

  Env env_;
  const Parts parts_;
};

}  // namespace ebbtide

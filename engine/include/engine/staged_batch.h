// A large batch whose entries are sorted and hashed before it is committed, in memory of its own.
//
//   auto staged = db->stage(std::move(batch), &stop);        // long; on any thread, while event loops go on
//   ...
//   std::uint32_t wait_ms = 0;
//   Status status = db->try_commit(**staged, waited, &wait_ms);   // short, whatever the batch's size; on an event loop, too
//
// Committing 500,000 operations in the ordinary way inserts each of them between the batch's place in the order of writes and its
// visibility: every later writer waits for that. A staged batch leaves its memory to the tree instead, as one more memtable.
// Until then no reader sees it, nothing of it is in the log's order, and it depends on no other write: between both calls other
// batches may write the same keys, empty or swap the databases, and expiries may pass.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <engine/types.h>
#include <engine/write_batch.h>

namespace ebbtide {

struct DbImpl;

/// Made by Db::stage(), committed by Db::try_commit() or Db::commit(), at most once. One thread at a time. Ends before its Db;
/// if it was not committed, nothing of it remains.
class StagedBatch {
 public:
  ~StagedBatch();
  StagedBatch(const StagedBatch&) = delete;
  StagedBatch& operator=(const StagedBatch&) = delete;

  /// The operations, in order; their trees are the engine's business. first_seq(), last_seq() and time() are valid once committed.
  [[nodiscard]] const WriteBatch& batch() const;
  [[nodiscard]] bool committed() const;
  /// Bytes charged to Db::memory() until the commit, which makes them a memtable's, or the end.
  [[nodiscard]] std::size_t memory_bytes() const;

  /// Whether staging a batch pays: from so many operations or copied bytes on. A smaller one commits in less time than others
  /// notice, and does not leave a memtable of its own behind. Large values are not copied, and do not count.
  [[nodiscard]] static bool pays_for(const WriteBatch& batch) {
    return batch.flushes() == 0 &&
           (batch.count() >= kLeastOperations || batch.payload_bytes() - batch.shared_bytes() >= kLeastBytes);
  }
  static constexpr std::uint32_t kLeastOperations = 8192;           ///< some 5 ms of insertions
  static constexpr std::size_t kLeastBytes = std::size_t{4} << 20;  ///< some ms of copying

 private:
  friend struct DbImpl;
  struct Impl;
  explicit StagedBatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide

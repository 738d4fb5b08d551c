// A large batch whose entries are sorted and hashed in a memtable of their own before the batch is committed.
//
//   auto staged = db->stage(std::move(batch), &stop);        // long; on any thread, while event loops go on
//   ...
//   std::uint32_t wait_ms = 0;
//   Status status = db->try_commit(**staged, waited, &wait_ms);   // short for any size of the batch; also on an event loop
//
// An ordinary commit of 500,000 operations first gets its position in the order of writes and then inserts each operation. Every
// later writer waits until all operations are visible. The commit of a staged batch adds its memtable to the tree instead. Before
// that commit no reader sees the batch, it has no position in the order of writes, and it depends on no other write. Between
// stage() and try_commit() other batches may write the same keys, or empty or swap the databases, and keys may expire.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <engine/types.h>
#include <engine/write_batch.h>

namespace ebbtide {

struct DbImpl;

/// Db::stage() makes a staged batch; Db::try_commit() or Db::commit() commits it at most once. For one thread at a time. Destroy
/// the staged batch before its Db; without a commit it has no effect.
class StagedBatch {
 public:
  ~StagedBatch();
  StagedBatch(const StagedBatch&) = delete;
  StagedBatch& operator=(const StagedBatch&) = delete;

  /// Returns the operations in order. Do not use Op::tree. first_seq(), last_seq() and time() are valid after the commit.
  [[nodiscard]] const WriteBatch& batch() const;
  [[nodiscard]] bool committed() const;
  /// Returns the bytes charged to Db::memory(). The commit moves the charge to a memtable; without a commit the destructor
  /// releases it.
  [[nodiscard]] std::size_t memory_bytes() const;

  /// Returns true if a batch should be staged: it empties no database, and has at least kLeastOperations operations or copies
  /// at least kLeastBytes. A smaller batch commits fast enough without a memtable of its own. Large values are not copied, so
  /// their bytes are left out.
  [[nodiscard]] static bool pays_for(const WriteBatch& batch) {
    return batch.flushes() == 0 &&
           (batch.count() >= kLeastOperations || batch.payload_bytes() - batch.shared_bytes() >= kLeastBytes);
  }
  static constexpr std::uint32_t kLeastOperations = 8192;           ///< about 5 ms of insertions
  static constexpr std::size_t kLeastBytes = std::size_t{4} << 20;  ///< some milliseconds of copying

 private:
  friend struct DbImpl;
  struct Impl;
  explicit StagedBatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide

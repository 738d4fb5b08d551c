// A command that writes, or an EXEC, and runs off its loop, because it is long: many keys, large values.
//
// The thread runs its handler against a leased view into a batch of its own, while its keys are marked (intents.h). Its loop
// marks, commits and replies: all that others could see happens there, in one short step, under the key locks.
//
//   loop    start            mark                commit, or mark again
//              \             /  \                /
//   thread      collect keys     run the handler
//
// The steps are Dispatcher::continue_long_write's. No lock is held across a hop. Whatever ends the command ends its marks: its
// reply, an error, or its client (Dispatcher::client_closed).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <engine/staged_batch.h>
#include <engine/write_batch.h>

#include "dispatch/intents.h"
#include "dispatch/off_loop.h"
#include "dispatch/transaction_run.h"

namespace ebbtide {

struct LongWrite final : OffLoopWork {
  /// Conflicts after which the marks are firm.
  static constexpr int kSoftRuns = 2;
  /// Runs after which it is given up: range deletes and expiries that pass can break firm marks, too.
  static constexpr int kMaxRuns = 16;

  enum class Step : std::uint8_t {
    kMark,  ///< the thread finds its keys, once; then the loop marks them
    kRun,   ///< the thread runs it, then the loop commits
  };
  Step step = Step::kMark;
  DatabaseId database = 0;  ///< that its session has selected, and each run begins with
  int runs = 0;             ///< begun
  int conflicts = 0;        ///< runs whose marks were broken

  // --- results
  std::shared_ptr<Intents::Marks> marks = std::make_shared<Intents::Marks>();
  std::vector<std::uint16_t> stripes;  ///< of all its keys: ascending, each once
  bool locks_all = false;              ///< it has whole databases marked: all locks instead
  bool one_view = true;                ///< all that it reads is of one view: if it writes nothing, its marks do not matter
  WriteBatch batch;
  std::unique_ptr<StagedBatch> staged;  ///< has the batch instead, if that is large
  KeySet written;                       ///< by the batch

  /// Whether the commit of `batch` has a long part, which a thread does ahead of it: sorting many operations, or writing large
  /// values to the log.
  [[nodiscard]] static bool stages(const WriteBatch& batch) {
    return StagedBatch::pays_for(batch) || (batch.payload_bytes() >= StagedBatch::kLeastBytes && batch.flushes() == 0);
  }
  [[nodiscard]] const WriteBatch& writes() const { return staged != nullptr ? staged->batch() : batch; }

  // --- of EXEC
  std::unique_ptr<Transaction> transaction;  ///< the client's: it has none while this runs
  std::unique_ptr<TransactionRun> transaction_run;
  bool notes_reads = false;

  void run() override;

 private:
  Status collect();
  /// Gives back what a run has built.
  void forget_run();
  Status attempt();
  Status run_command(const ReadView& view);
  Status run_transaction(const ReadView& view);
  /// Does the long part of committing a large batch.
  Status stage();

  std::vector<LookupKey> keys_;
  std::deque<std::string> escaped_;
};

}  // namespace ebbtide

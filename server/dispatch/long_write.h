// Long writes: commands that write, and EXEC, that run off their loop because of many keys or large values.
//
// A thread runs the handler against a leased view into a batch of its own, while the command's keys are marked (intents.h). The
// command's loop marks, commits and replies. So everything that other clients can see happens on the loop, in one short step,
// under the key locks.
//
//   loop    start            mark                commit, or mark again
//              \             /  \                /
//   thread      collect keys     run the handler
//
// Dispatcher::continue_long_write has these steps. No lock is held from one step to the next. The marks are removed when the
// command ends: by its reply, by an error, or because its client closed (Dispatcher::client_closed).
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
  /// Runs after which the command fails. Range deletes and expirations can break firm marks, too.
  static constexpr int kMaxRuns = 16;

  enum class Step : std::uint8_t {
    kMark,  ///< the thread collects the keys, once; then the loop marks them
    kRun,   ///< the thread runs the command; then the loop commits
  };
  Step step = Step::kMark;
  int runs = 0;       ///< begun so far
  int conflicts = 0;  ///< runs whose marks were broken

  // --- results
  std::shared_ptr<Intents::Marks> marks = std::make_shared<Intents::Marks>();
  std::vector<std::uint16_t> stripes;  ///< of all its keys, ascending, each once
  bool locks_all = false;              ///< whole databases are marked or changed, so it takes all locks
  bool changes_databases = false;      ///< it empties or swaps databases
  bool one_view = true;                ///< it reads from one view only: if it writes nothing, its marks do not matter
  WriteBatch batch;
  MemoryCharge batch_charge;            ///< of what the batch copies, as long as this has it: until all effects are delivered
  std::unique_ptr<StagedBatch> staged;  ///< has the batch instead of `batch`, if the batch is large
  KeySet written;                       ///< the keys that the batch writes

  /// True if a thread prepares the commit of `batch`, because it takes long: many operations to sort, or large values to log.
  [[nodiscard]] static bool stages(const WriteBatch& batch) {
    return StagedBatch::pays_for(batch) || (batch.payload_bytes() >= StagedBatch::kLeastBytes && batch.flushes() == 0);
  }
  [[nodiscard]] const WriteBatch& writes() const { return staged != nullptr ? staged->batch() : batch; }

  // --- of EXEC
  std::unique_ptr<Transaction> transaction;  ///< the client's, which has none while this runs
  std::unique_ptr<TransactionRun> transaction_run;

  void run() override;
  [[nodiscard]] bool has_many_effects() const override;
  /// Called once it is committed: fills in its effects.
  void add_effects();

 private:
  Status collect();
  /// Frees what a run has built.
  void forget_run();
  Status attempt();
  /// Charges `bytes` for the memory of the batch in place of an earlier charge; a small batch is free of charge.
  Status charge_batch(std::uint64_t bytes);
  Status run_command(const ReadView& view);
  Status run_transaction(const ReadView& view);
  /// Prepares the commit of a large batch.
  Status stage();
};

}  // namespace ebbtide

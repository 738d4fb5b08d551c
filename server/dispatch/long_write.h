// Long writes: commands that write, and EXEC, which run off their loop because they have many keys or large values.
//
// A thread runs the handler against a leased view into a batch of its own, while the command's keys are marked (intents.h). Each
// such execution of the handler is an attempt of the command. If another write breaks the marks, the command runs again. The
// command's loop marks, commits and replies. So everything that other clients can see happens on the loop, in one short step,
// under the key locks.
//
//   loop    start            mark                commit, or mark again
//              \             /  \                /
//   thread      collect keys     run the handler
//
// Dispatcher::continue_long_write has these steps. No lock is held between steps. The marks are removed when the command ends: by
// its reply, by an error, or because its client closed (Dispatcher::client_closed).
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
#include "index/index_catalog.h"

namespace ebbtide {

struct LongWrite final : OffLoopWork {
  /// After this many conflicts with other writes, the marks become firm (dispatch/intents.h).
  static constexpr int kSoftRuns = 2;
  /// The command fails if it has not committed after this many attempts: range deletes and expirations can break even firm marks.
  static constexpr int kMaxRuns = 16;

  enum class Step : std::uint8_t {
    kMark,  ///< the thread collects the keys (again, if the command had to wait for memory); then the loop marks them
    kRun,   ///< the thread runs the command; then the loop commits
  };
  Step step = Step::kMark;
  bool collected = false;   ///< the command's keys are collected
  int runs = 0;             ///< number of attempts that have begun
  int conflicts = 0;        ///< number of attempts whose marks another write broke
  bool firm_marks = false;  ///< Ctx::firm_marks: the marks of the first attempt are firm, too

  // --- results
  std::shared_ptr<Intents::Marks> marks = std::make_shared<Intents::Marks>();
  std::vector<std::uint16_t> stripes;  ///< stripes of all keys of the command, ascending, each once
  bool locks_all = false;              ///< the command marks or changes whole databases, so its commit takes all locks
  bool changes_databases = false;      ///< the command empties or swaps databases
  bool reads_patterns = false;         ///< the command reads keys that are known only after it has run (Ctx::note_also_read)
  bool one_view = true;  ///< all reads are from one view, so if the command writes nothing, broken marks do not matter
  WriteBatch batch;
  MemoryCharge batch_charge;            ///< charges the memory that the batch has copied; held until all effects are delivered
  std::unique_ptr<StagedBatch> staged;  ///< set if the batch is large: then it has the operations, and `batch` is empty
  KeySet written;                       ///< the keys that the batch writes
  ElementWait element_wait;             ///< the wait for an element, as the latest attempt has requested it
  /// If reads_patterns is set: the marks for the next attempt. The first attempt marks whole databases. After a conflict, the
  /// next attempt marks only the keys that the command has read, if they are not too many. Then other writes of the database need
  /// not wait.
  std::shared_ptr<Intents::Marks> next_marks;
  bool marks_cover_reads = true;  ///< false: the latest attempt has read keys that were not marked, so its result is dropped

  std::uint64_t catalog_version = 0;  ///< IndexCatalog::version() with which the attempt has maintained indexes
  IndexChanges index_changes;         ///< the changes that the batch makes to the index catalog

  /// Returns true if a thread prepares the commit of `batch`, because the commit takes long: many operations to sort, or large
  /// values to log.
  [[nodiscard]] static bool stages(const WriteBatch& batch) {
    return StagedBatch::pays_for(batch) || (batch.payload_bytes() >= StagedBatch::kLeastBytes && batch.flushes() == 0);
  }
  [[nodiscard]] const WriteBatch& writes() const { return staged != nullptr ? staged->batch() : batch; }

  // --- for EXEC
  std::unique_ptr<Transaction> transaction;  ///< the client's transaction, moved here while the long write runs
  std::unique_ptr<TransactionRun> transaction_run;

  /// Returns true for a script outside MULTI, which runs as a transaction with one command.
  [[nodiscard]] bool is_script() const { return command->spec->has(kRunsScript); }

  void run() override;
  [[nodiscard]] bool has_many_effects() const override;
  /// Fills in `effects`. Call it once the long write is committed.
  void add_effects();

  /// Takes next_marks as the marks of the next attempt.
  void take_next_marks() {
    marks = std::move(next_marks);
    marks_are_exact = next_are_exact;
  }
  /// Discards the collected keys, marks and stripes, to free their memory. The next attempt collects them again.
  void forget_collected();

 private:
  Status collect();
  /// Learns from an attempt which keys the command reads. Sets marks_cover_reads: true if the marks (intents.h) cover all keys
  /// that the command has read. Makes next_marks: the known keys, or whole databases if the keys are too many or cannot be marked
  /// one by one.
  void learn_keys();
  /// Discards all results of the latest attempt, and frees their memory.
  void forget_run();
  Status attempt();
  /// Charges `bytes` for the memory of the batch, and releases the batch's previous charge. A small batch is not charged.
  Status charge_batch(std::uint64_t bytes);
  Status run_command(const ReadView& view);
  Status run_transaction(const ReadView& view);
  /// Adds the operations that keep indexes up to date to the batch. `view`: the view with which the command has run.
  Status maintain(const ReadView& view);
  /// Moves the large batch into `staged`, which prepares its commit on this thread.
  Status stage();

  // --- if it reads_patterns
  KeySet whole;                                          ///< the command's own keys, and the databases that its patterns may read
  KeySet known;                                          ///< the command's own keys, and all keys that its attempts have read
  KeySet also_read;                                      ///< keys outside its arguments that the latest attempt has read
  bool marks_are_exact = false, next_are_exact = false;  ///< true: the marks are `known`; false: `whole`
};

}  // namespace ebbtide

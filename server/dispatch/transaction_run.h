// One run of a queue of commands, as EXEC makes it: on a loop, or off it as a long write.
//
// Its commands run in order against one view, each into a batch of its own, which joins the transaction's if the command does not
// fail, and read through PendingWrites what those before them wrote. Nothing of a run is seen unless it is committed: replies,
// effects and counts wait here.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/transaction.h"
#include "resp/output_buffer.h"
#include "store/pending_writes.h"

namespace ebbtide {

class TransactionRun {
 public:
  /// Replies up to a command that has to write its own once the commit is known, and that command.
  struct Part {
    OutputBuffer out;
    const QueuedCommand* last = nullptr;
    void (*after_commit)(Ctx&) = nullptr;
    DatabaseId database = 0;                ///< in which it ran
    std::size_t first_op = 0, ops_end = 0;  ///< what it has written
  };
  struct Outcome {
    const QueuedCommand* queued;
    std::string error;  ///< "" = none
    std::uint64_t nanos;
    ReadCounts counts;
  };

  /// All of it outlives the run. `client`: null off its loop.
  TransactionRun(CommandEnv& env, const Transaction& transaction, Session& session, Client* client, WriteBatch& batch)
      : env_(env), transaction_(transaction), session_(session), client_(client), batch_(batch) {}
  TransactionRun(const TransactionRun&) = delete;
  TransactionRun& operator=(const TransactionRun&) = delete;

  // --- set before run()
  std::uint64_t client_id = 0;
  int protocol = 2;             ///< off the loop; on it the client's
  std::size_t reply_limit = 0;  ///< of OutputBuffer::set_limit
  Millis now = 0;
  std::uint64_t random = 0;
  bool notes_reads = false;                     ///< for a client-side cache (TrackingTable::note_reads)
  std::uint64_t work_left = ~std::uint64_t{0};  ///< Ctx::work
  const std::atomic<bool>* cancelled = nullptr;

  /// Looks whether a watched key has changed; if not, runs all commands and leaves their writes in the batch. kNotResident: the
  /// keys that it needs are not at hand, or (too_long) it is not for a loop.
  Status run(const ReadView& view);

  // --- results
  MemoryCharge charge;   ///< of what the run has built and kept: writes and replies, but for values that carry their charge
  bool changed = false;  ///< a watched key is not what it was: nothing was run
  bool too_long = false;
  SeqNum seen_seq = 0;  ///< of all views
  std::deque<Part> parts;
  std::vector<Outcome> outcomes;
  Effects effects;         ///< to happen once it is committed
  Millis commit_time = 0;  ///< set before the effects happen

  /// Another database, as it is now; off the loop as it was when the run first came to it.
  ReadView view_in(DatabaseId database, const ReadView& view);

 private:
  [[nodiscard]] int current_protocol() const { return client_ == nullptr ? protocol : client_->protocol; }
  void begin_part() {
    if (!parts.empty()) replies_ += parts.back().out.memory();
    parts.emplace_back().out.set_limit(reply_limit);
  }
  Status look_ahead(const ReadView& view);
  Status run_queued(const QueuedCommand& queued, const ReadView& view);
  void observe_later(const QueuedCommand& queued, DatabaseId database, PresentKeys had, bool failed);
  /// Charges what the run holds by now. kOutOfMemory: the budget has no room for that. kInvalidArgument: no commit takes it.
  Status account();
  /// The cursor behind the operations that are in the transaction's batch by now.
  std::size_t pass_ops();

  CommandEnv& env_;
  const Transaction& transaction_;
  Session& session_;
  Client* const client_;
  WriteBatch& batch_;
  PendingWrites* writes_ = nullptr;  ///< while it runs
  WriteBatch own_;                   ///< of the command at hand
  /// Off the loop, of other databases than the first: one moment each for the whole run.
  std::vector<ReadView> leases_;
  std::function<ReadView(DatabaseId)> other_view_;
  std::uint64_t replies_ = 0;  ///< bytes of memory of all parts but the last
  std::size_t cursor_ = 0;     ///< how far pass_ops has got
};

/// To the monitors.
void show_to_monitors(CommandEnv& env, const Client& client, const Command& command, const Args& args, DatabaseId database);

}  // namespace ebbtide

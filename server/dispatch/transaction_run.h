// One attempt of the queued commands of EXEC: on a loop, or off the loop as a long write.
//
// The commands run in order against one view. Each command writes into a batch of its own, which joins the transaction's batch if
// the command does not fail. It reads the writes of earlier commands through PendingWrites. Replies, effects and counts stay in
// this object until the attempt is committed, so an attempt without a commit has no visible effect.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/script_calls.h"
#include "dispatch/transaction.h"
#include "resp/output_buffer.h"
#include "store/pending_writes.h"

namespace ebbtide {

class TransactionRun final : private ScriptCalls {
 public:
  /// A section of the replies. It ends with the reply of a command that depends on the commit (after_commit), or with the last
  /// reply.
  struct Part {
    OutputBuffer out;
    const QueuedCommand* last = nullptr;
    void (*after_commit)(Ctx&) = nullptr;
    DatabaseId database = 0;                ///< the database in which the command ran
    std::size_t first_op = 0, ops_end = 0;  ///< the command's writes in the batch
  };
  struct Outcome {
    const QueuedCommand* queued;
    std::string error;  ///< "" if it succeeded
    std::uint64_t nanos;
    ReadCounts counts;
    AclVerdict denied = {};  ///< why the user's rights did not allow the command, if so
    std::string user = {};   ///< the user whose rights were checked
  };

  /// All arguments must outlive this object. `client` is null off the client's loop.
  TransactionRun(CommandEnv& env, const Transaction& transaction, Session& session, Client* client, WriteBatch& batch)
      : env_(env), transaction_(transaction), session_(session), client_(client), batch_(batch) {}
  TransactionRun(const TransactionRun&) = delete;
  TransactionRun& operator=(const TransactionRun&) = delete;
  ~TransactionRun() override = default;

  // --- set before run()
  std::uint64_t client_id = 0;
  int protocol = 2;             ///< RESP version off the loop; on the loop, the client's is used
  std::size_t reply_limit = 0;  ///< argument of OutputBuffer::set_limit
  Millis now = 0;
  std::uint64_t random = 0;
  bool notes_reads = false;  ///< the keys that are read must be noted for a client-side cache (TrackingTable::note_reads)
  std::uint64_t work_left = ~std::uint64_t{0};  ///< Ctx::work
  const std::atomic<bool>* cancelled = nullptr;
  KeySet* also_read = nullptr;  ///< OffLoopCtx::also_read
  /// The queue is one kRunsScript command outside MULTI. It has no Outcome; its error is script_error.
  bool is_script = false;
  bool holds_all_locks = false;  ///< on a loop: the attempt holds all key locks

  /// Compares the watched keys. If none has changed, runs all commands and leaves their writes in the batch. kNotResident: pages
  /// of the keys are missing, or, if too_long is set, the attempt takes too long for a loop.
  Status run(const ReadView& view);

  // --- results
  MemoryCharge charge;   ///< for the writes and replies of the attempt, except for values that have a charge of their own
  bool changed = false;  ///< a watched key has changed, so no command was run
  bool too_long = false;
  SeqNum seen_seq = 0;  ///< seq of the latest operation that any view of the attempt has
  std::deque<Part> parts;
  std::vector<Outcome> outcomes;
  Effects effects;           ///< run on the loop once the transaction is committed
  Millis commit_time = 0;    ///< engine time of the commit; set before the effects happen
  std::string script_error;  ///< if is_script: the error with which the script has replied; "" if it succeeded
  /// On a loop: a script that may write uses a key that it has not declared. It has to run again with all key locks
  /// (holds_all_locks).
  bool wants_all_locks = false;
  bool changes_databases = false;  ///< a script has emptied or swapped databases
  bool reads_all = false;          ///< a script has read keys that cannot be marked one by one, such as a whole database
  /// Counts of one command that scripts have called.
  struct Called {
    std::uint64_t calls = 0, failed = 0, nanos = 0;
  };
  std::map<const Command*, Called> called;
  ReadCounts called_counts;                            ///< reads of all commands that scripts have called
  std::map<std::string, std::uint64_t> called_errors;  ///< errors of the commands that scripts called

  /// Returns the part of `charge` for the batch's bytes, and releases the charge for their second copy, which a growing batch
  /// needs. Call it once the attempt has ended.
  [[nodiscard]] MemoryCharge take_batch_charge();

  /// Off the loop: returns true if the attempt has read more than one database, so that its views are not all of one moment.
  [[nodiscard]] bool reads_several() const { return !leases_.empty(); }

  /// Returns the view of another database. On the loop, it is of the moment of this call; off the loop, of the moment of the
  /// first call for that database.
  ReadView view_in(DatabaseId database, const ReadView& view);

 private:
  /// Checks the rights of the session's user, if they have changed since the command was queued. Fails like Ctx::work().
  Status check_rights(const QueuedCommand& queued, Ctx& ctx, AclVerdict* verdict);
  [[nodiscard]] int current_protocol() const { return client_ == nullptr ? protocol : client_->protocol; }
  void begin_part() {
    if (!parts.empty()) replies_ += parts.back().out.memory();
    parts.emplace_back().out.set_limit(reply_limit);
  }
  Status look_ahead(const ReadView& view);
  Status run_queued(const QueuedCommand& queued, const ReadView& view);
  /// Runs the command's handler. If the session's user has lost the right to the command, sets `verdict` instead.
  Status run_handler(const QueuedCommand& queued, Ctx& ctx, AclVerdict* verdict);
  /// Appends the writes of a command that has succeeded to the batch. A command with `after_commit` ends a Part of the replies.
  void keep_writes(const QueuedCommand& queued, DatabaseId database, void (*after_commit)(Ctx&));
  // script_calls.cc
  Status call(std::span<const Bytes> arguments, const ScriptCall& options, OutputBuffer* out) override;
  Status may_run(std::span<const Bytes> arguments, bool* allowed) override;
  void note_error(Bytes text) override { script_error = std::string(text); }
  void note_killed() override { script_killed_ = true; }
  /// Returns the command that a script calls, or the error for the script.
  Status resolve_call(std::span<const Bytes> arguments, const ScriptCall& options, const Command** command);
  /// Checks the rights of the session's user to a command that a script calls. Fails like Ctx::work().
  Status check_call(std::span<const Bytes> arguments, const Command& command, std::string* denial);
  /// Records the keys of a command that a script calls. kNotResident: the attempt has to start again, with other locks or off the
  /// loop.
  Status note_call(const Command& command, const Args& args, std::span<const LookupKey> keys);
  Status run_call(const QueuedCommand& queued, const ScriptCall& options, OutputBuffer* out, std::string* error);
  /// Appends the current command's writes to the transaction's batch.
  void append_own();
  void count_call(const Command& command, const std::string& error, std::uint64_t nanos);
  /// If events of new keys or of misses are on: adds the command's keys that exist before it runs to `had`. These look-ups are
  /// not counted as hits or misses.
  Status note_present(Ctx& ctx, PresentKeys* had) const;
  void observe_later(const QueuedCommand& queued, DatabaseId database, PresentKeys had, bool failed);
  /// Charges the current memory of the attempt. kOutOfMemory: the budget has no room for it. kInvalidArgument: the batch is too
  /// large to be committed.
  Status account();
  /// Advances cursor_ to the end of the transaction's batch, and returns it.
  std::size_t pass_ops();

  CommandEnv& env_;
  const Transaction& transaction_;
  Session& session_;
  Client* const client_;
  WriteBatch& batch_;
  PendingWrites* writes_ = nullptr;  ///< set while the transaction runs
  WriteBatch own_;                   ///< writes of the current command
  /// Off the loop: the views of databases other than the first. All commands of the attempt see the same view of a database.
  std::vector<ReadView> leases_;
  std::function<ReadView(DatabaseId)> other_view_;
  /// Off the loop: what earlier commands have to announce to the expiry watch. Cleared if databases are emptied or swapped.
  std::vector<std::shared_ptr<Observers::Progress>> announced_;
  std::uint64_t keys_left_ = Ctx::kExecKeys;  ///< on a loop: the keys and versions that all walks together may still visit
  std::uint64_t began_micros_ = 0;            ///< ExecCtx::unix_micros
  std::uint64_t replies_ = 0;                 ///< memory of all parts but the last
  std::uint64_t announced_bytes_ = 0;         ///< memory of the batches that `announced_` keeps until the commit
  std::size_t cursor_ = 0;                    ///< the position in the batch where pass_ops() has stopped
  // --- while a script runs
  Ctx* script_ = nullptr;  ///< the context of the script's own command
  const ReadView* first_view_ = nullptr;
  bool script_killed_ = false;
  std::set<std::uint64_t> declared_;  ///< hashes of the keys that the script declares (KEYS)
  DatabaseId declared_in_ = 0;        ///< the database of the declared keys
  std::uint64_t kept_bytes_ = 0;      ///< memory of kept_calls_
  CommandQueue kept_calls_;           ///< commands of scripts that are reported to observers after the commit
};

/// Sends the command to the clients in MONITOR.
void show_to_monitors(CommandEnv& env, const Origin& client, const Command& command, const Args& args, DatabaseId database);

}  // namespace ebbtide

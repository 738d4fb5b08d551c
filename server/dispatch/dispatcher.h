// Runs commands: the only place that locks, commits and counts.
//
// A pass is a span of commands, the pipelines of all connections that are ready. In windows of kWindow it resolves names, escapes
// and hashes keys once and prefetches for all of them, stage by stage, so that the cache misses of different commands overlap;
// then it runs the handlers in order, each against a view of the newest state, and commits what they write.
//
// What must stay true:
//   1. A command has all of its effects or, while it waits, none: no reply, no write, no count.
//   2. Of one client, commands run in order; one that waits holds up only its own client.
//   3. client.seen_seq covers everything that the handlers' replies could depend on.
//   4. No lock is held across I/O, nor while a write stall is on; but for walks inside EXEC, which read what they need at once.
//
// Waiting, of several kinds, all through PendingCommand::continuation and ClientLoop::resume:
//   * Pages on disk. The handler ran in ReadMode::kResident and answered kNotResident; all its misses are fetched together and it
//     runs again, on the same loop, with the fetched pages pinned and the fetched large values at hand until it is done. A reader
//     that still misses after kFetchRounds goes to an offload thread with a leased view. A writer goes on fetching (each round
//     adds to its set), and leaves its loop after kWriteRounds. What must not leave it reads on the loop then.
//   * kOffload commands run on an offload thread at once, with a copy of the session; kLong ones on threads of their own, and
//     only while their client is there.
//   * Long commands, by their arguments (kLoopArguments) or by the bytes that they are about to process (Ctx::work), do too, so
//     that a pass stays short. Those that write are long writes (long_write.h).
//   * Commands that keep state with their connection and have very many arguments deal with a slice of them a round (kSliced).
//   * Writes of keys that a long write has marked firmly wait for it (intents.h).
//   * kReplySynced commands: the commit is done, the reply is kept in the continuation, an offload thread waits for the sync.
//   * Commands that the memory budget has no room for until memtables have been flushed (memory_wait.cc).
//   * Writes that the write stall holds back: nothing is written, and the command is handed in again after the time that the
//     engine names.
//
// While the database is being opened (CommandEnv::db is null) only commands flagged kLoading run; all others answer -LOADING.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <engine/db.h>

#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/random.h"
#include "dispatch/server_stats.h"
#include "dispatch/table.h"
#include "resp/client.h"

namespace ebbtide {

struct LongWrite;
struct OffLoopRun;
struct OffLoopWork;
class TransactionRun;

/// The error reply for a Status that a handler or a commit returned, without '-'. kInvalidArgument messages that start with a
/// code in capitals ("WRONGTYPE ...") are sent as they are.
std::string error_reply(const Status& status);

/// One per event loop; used on its thread only.
class Dispatcher final : public CommandSink {
 public:
  static constexpr std::size_t kWindow = 32;
  static constexpr std::uint32_t kFetchRounds = 3;
  static constexpr std::uint32_t kWriteRounds = 16;
  /// Runs of one command, or transaction, that found an expiry passed at commit. Each run sees a later time, so the second
  /// succeeds unless expiries pass at every attempt.
  static constexpr int kMaxRetries = 16;
  /// Commands of more arguments run off the loop: about a millisecond of work.
  static constexpr std::size_t kLoopArguments = 1024;
  /// A command that has committed more is counted, and noted as slow, once the log has its batch and its reply may leave. Of
  /// smaller ones the wait for the log is in the stage `wal` only, so that they pay for no note.
  static constexpr std::uint64_t kLargeCommitBytes = 1 << 20;
  /// So do those that process more bytes of values (Ctx::work): a few hundred microseconds.
  static constexpr std::uint64_t kLoopWorkBytes = 1 << 20;
  /// Once a pass has taken so long, it begins no further command: a pipeline of thousands of commands, each short enough for the
  /// loop, would hold up other clients for seconds.
  static constexpr std::uint64_t kPassNanos = 5'000'000;

  /// `env` outlives it. `seed` is for the random numbers that handlers get.
  Dispatcher(CommandEnv& env, std::uint64_t seed);
  ~Dispatcher() override;

  void run_pass(std::span<PendingCommand> commands) override;
  void client_closed(Client& client, PendingCommand* waiting_command) override;
  void logged(std::uint64_t nanos) override;
  void poll() override;
  [[nodiscard]] int descriptor() const override;

 private:
  struct Prepared {
    const Command* command = nullptr;  ///< null: `error` says why
    Status error;
    std::uint32_t first_key = 0, keys = 0;
    bool long_by_arguments = false;  ///< runs off the loop, where its keys are collected
  };
  struct Fetched;
  struct Waiting;
  /// What a run of a command has ended in. Only of kDone, kSliced and kWaitsForSync do its reply and effects stand.
  enum class RunEnd : std::uint8_t {
    kDone,            ///< with its reply, or an error
    kSliced,          ///< a kSliced command has processed some of its arguments
    kWaitsForSync,    ///< committed; the reply leaves when the log is synced
    kMissesPages,     ///< it runs again when they are read
    kWaitsForMemory,  ///< for memory_ms_
    kWaitsForStall,   ///< the write stall delays it for stall_ms_
    kWaitsForMarks,   ///< of long writes
    kLeavesLoop,      ///< it is long: it runs off its loop
  };
  /// A command whose large batch is on its way to the log.
  struct Unlogged {
    SeqNum seq;
    std::size_t command;                  ///< its index
    std::uint64_t nanos;                  ///< that it ran
    std::uint64_t since;                  ///< monotonic ns: it has run
    std::optional<SlowLog::Entry> entry;  ///< for the slow log, without the wait for the log
    std::uint64_t entry_nanos = 0;        ///< that the entry stands for so far
  };

  void run_window(std::span<PendingCommand> commands);
  void prepare(const PendingCommand& pending, Prepared* prepared);
  Status resolve(const Args& args, const Command** command);
  Status collect(const Args& args, Prepared* prepared);
  void prefetch(std::span<PendingCommand> commands);
  void run(PendingCommand& pending, const Prepared& prepared);
  /// Like run(), once the command is admitted.
  void run_admitted(PendingCommand& pending, const Prepared& prepared);
  /// Of a command that has waited: whether it runs now. If not, it waits on, or has ended, or went on off its loop.
  bool resume(PendingCommand& pending, const Prepared& prepared);
  /// The same while somebody wants to know what commands do (Observers), or the connection is in a mode.
  void run_observed(PendingCommand& pending, Prepared prepared);
  /// Whether CLIENT PAUSE holds the command back for now.
  bool hold_back(PendingCommand& pending, const CommandSpec& spec);
  /// True if engine time was read, too.
  bool refresh_time();
  /// The database as of now; nothing is in it while the server is loading.
  [[nodiscard]] ReadView view_of(DatabaseId database, ReadMode mode, MissSet* misses) const;
  /// The command took `nanos` of work, and `waits`. For the slow log and LATENCY.
  /// `unlogged`: the entry goes there, whatever the threshold, not into the slow log.
  void note_slow(Client& client, const Command& command, const Args& args, std::uint64_t nanos, const StageNanos& waits,
                 Unlogged* unlogged = nullptr);
  /// Counts and notes the commands whose batches the log has by now.
  /// Ends what has come to its end, and begins reads that were asked for.
  void look_around();
  void settle_unlogged();

  /// Runs the command and commits its writes; repeats that while kRetry. kDone: `status` says how.
  RunEnd run_and_commit(PendingCommand& pending, const Prepared& prepared, Reply& reply, Status* status);
  /// Whether a command may run off its loop when it is long.
  static bool may_leave(const CommandSpec& spec);
  /// Whether EXEC of it is to run off its loop from the start.
  static bool is_long(const Transaction* transaction);
  /// Of kSliced: the loop runs other commands before the next slice.
  void continue_later(PendingCommand& pending);
  /// Of kLeavesLoop.
  void leave_loop(PendingCommand& pending, const Prepared& prepared);
  /// Commits batch_ of a command of this client, while its locks are held. kBusy: it waits, for stall_ms_, or (marked_) until
  /// marks of long writes are removed.
  Status commit(Client& client, bool waited);
  /// As commit, while long writes have marked keys.
  Status commit_beside_marks(Client& client, bool waited);
  /// Like run_and_commit(), also for EXEC. After EXEC the transaction is over unless it has to run again.
  RunEnd run_once(PendingCommand& pending, const Prepared& prepared, Reply& reply, Status* status);
  /// Like run_once(), repeated while the pages that it misses are at hand at once. Of kMissesPages they are being read.
  RunEnd run_resident(PendingCommand& pending, const Prepared& prepared, Reply& reply, Status* status);
  /// What a run ends in that has failed with this status.
  RunEnd end_of_failed(PendingCommand& pending, const Status& status, bool too_long);
  /// Whether the command's reply waits for the log's sync.
  [[nodiscard]] static bool replies_synced(Client& client, const CommandSpec& spec);

  // transaction.cc
  /// Of a connection in a mode (Session::Modes): whether the command is to be run now. If not, it was queued or refused.
  bool admit(PendingCommand& pending, const Prepared& prepared);
  void queue(PendingCommand& pending, const Prepared& prepared);
  RunEnd run_transaction(PendingCommand& pending, bool block, bool waited, Reply& reply, Status* status);
  /// `too_long`: set if the run is not for a loop.
  Status attempt_transaction(Client& client, bool waited, const ReadView& view, Reply& reply, bool* too_long);
  static Status transaction_discarded(const Status& error);
  /// What a run of this client's transaction needs of it and of dispatch.
  void prepare_run(Client& client, TransactionRun* run);
  /// Counts what has run and is committed. False: its replies are not written, as its effects alone may write.
  bool begin_effects(Client& client, TransactionRun& run);
  void write_replies(Client& client, TransactionRun& run, const ReadView& view, Reply& reply);
  void count_queued(Client& client, const TransactionRun& run);
  void watch_what_was_read(std::span<const LookupKey> keys, DatabaseId database);
  [[nodiscard]] PresentKeys which_are_there(std::span<const LookupKey> keys, DatabaseId database) const;

  /// True if everything was at hand: run again at once. False: the command waits.
  bool fetch_pages(PendingCommand& pending);
  /// Adds what the client's next commands of the window are going to miss.
  void look_ahead(const PendingCommand& pending, MissSet* misses);
  /// The set that a run of this command reads with: its own from the first fetch on.
  MissSet& misses_of(const PendingCommand& pending);
  bool delay_authentication(PendingCommand& pending);
  void park(PendingCommand& pending, std::uint32_t ms);
  // memory_wait.cc
  /// Of a command that failed, and whose memory is given back here: for how long it waits for room before it runs again; 0 = not.
  std::uint32_t memory_wait_ms(PendingCommand& pending, const Status& status);
  void park_for_memory(PendingCommand& pending, std::uint32_t ms);
  /// True if it goes on waiting.
  bool waits_for_memory(PendingCommand& pending, Waiting& waiting);
  void begin_wait(Waiting& waiting, Stage stage);
  void end_wait(Waiting& waiting);
  static Waiting& waiting_of(PendingCommand& pending);
  static void leave_waiting(PendingCommand& pending);
  // off_loop.cc
  /// Fills in what every command needs off its loop.
  void send_off_loop(PendingCommand& pending, const Prepared& prepared, OffLoopWork& work);
  void start_offload(PendingCommand& pending, const Prepared& prepared);
  /// `run`: of EXEC, and committed, unless nothing was run.
  void finish_off_loop(PendingCommand& pending, const Prepared& prepared, OffLoopWork& work, Waiting& waiting,
                       TransactionRun* run = nullptr);
  /// Of kWaitsForSync. `job` has the reply of the run, which began at `start` (as nanos_).
  void wait_for_sync(PendingCommand& pending, const Prepared& prepared, std::shared_ptr<OffLoopRun> job, std::uint64_t start);
  void finish_job(PendingCommand& pending, const Prepared& prepared);
  // long_write.cc
  void start_long_write(PendingCommand& pending, const Prepared& prepared);
  void submit_long_write(PendingCommand& pending, Waiting& waiting);
  void continue_long_write(PendingCommand& pending, const Prepared& prepared);
  void mark_long_write(PendingCommand& pending, Waiting& waiting);
  bool commit_long_write(PendingCommand& pending, Waiting& waiting);
  bool hold_back_commit(PendingCommand& pending);
  /// Ends a long write that is done, whose writes are not needed any more.
  void dispose_finished();
  /// What the command at hand has written.
  [[nodiscard]] const WriteBatch& written_batch() const;
  void reject(PendingCommand& pending, const Command* command, const Status& error);
  void finish(PendingCommand& pending, const Command& command, const Status& status, Reply& reply, const Reply::Mark& mark);
  void end_of_command(PendingCommand& pending, Reply& reply, const Reply::Mark& mark);
  void send_error(Reply& reply, const Status& error);
  void count_error(Bytes message);
  void count_reads(const ReadCounts& counts);
  std::uint64_t next_random() { return ebbtide::next_random(&random_state_); }

  CommandEnv& env_;
  DispatchCounters* counters_;
  RecentCommands recent_;
  std::uint64_t random_state_;

  // Of the window at hand.
  std::span<PendingCommand> window_;
  std::vector<Prepared> prepared_;
  std::vector<LookupKey> keys_;
  std::vector<LookupState> states_;      ///< by key: what its prefetch found
  std::vector<const LookupKey*> ahead_;  ///< whose prefetch goes on after the first stage
  std::deque<std::string> escaped_;      ///< stays put while it grows
  std::size_t escaped_used_ = 0;
  WriteBatch batch_;
  bool failed_ = false;                  ///< the latest command that finished with an error, since it was last cleared
  std::shared_ptr<LongWrite> finished_;  ///< the command at hand was a long write, and is done
  MemoryCharge pass_charge_;             ///< of replies, until their connections have charged their buffers, after the pass
  SeqNum large_commit_ = 0;              ///< last seq of the command at hand if its batch was large
  std::vector<Unlogged> unlogged_;
  std::uint32_t memory_ms_ = 0;                ///< of the latest run: how long it waits for memory, 0 = not
  std::uint32_t stall_ms_ = 0;                 ///< of the latest commit: how long the write stall delays it, 0 = not
  bool marked_ = false;                        ///< of the latest commit: it waits until marks of long writes are removed
  std::shared_ptr<Fetched> misses_;            ///< of commands that have fetched nothing yet
  const std::unique_ptr<FetchQueue> fetches_;  ///< null: threads fetch what is missing

  Millis now_ = 0;               ///< engine time, refreshed when the monotonic clock has moved a millisecond
  std::uint64_t nanos_ = 0;      ///< the monotonic clock at the end of the latest command
  std::uint64_t begun_ = 0;      ///< nanos_ when the latest command of the pass was begun
  std::uint64_t pass_end_ = 0;   ///< from when on the pass begins no command
  bool noted_ = false;           ///< note_slow() has looked at the latest command
  std::uint64_t now_nanos_ = 0;  ///< the monotonic clock when now_ was read
};

}  // namespace ebbtide

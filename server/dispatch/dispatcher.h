// Runs commands. No other code takes key locks, commits batches or counts commands.
//
// A pass is a span of commands: the pipelines of all connections that are ready. Dispatch takes it in windows of kWindow
// commands. For each window it resolves names, and escapes and hashes keys, once. It prefetches for all keys stage by stage, so
// that their cache misses overlap. Then it runs the handlers in order, each against a view of the newest state, and commits their
// writes.
//
// Invariants:
//   1. All effects of a command happen at once. A waiting command has had no effect: no reply, no write, no count.
//   2. Commands of one client run in order. A command that waits delays its own client only.
//   3. client.seen_seq is at least the seq of every operation that the replies of the client's commands could depend on.
//   4. No lock is held across I/O, nor during a write stall. Walks inside EXEC are the exception: they read under locks.
//
// A command may wait, through PendingCommand::continuation and ClientLoop::resume, for one of these reasons:
//   * It misses pages. The handler ran in ReadMode::kResident and returned kNotResident. All missed pages are read together, and
//     the command runs again on the same loop, with these pages pinned. A reader that still misses pages after kFetchRounds goes
//     to an offload thread with a leased view. A writer leaves its loop after kWriteRounds, or, if it must stay, reads on the
//     loop.
//   * It is flagged kOffload: it runs on an offload thread at once, with a copy of the session. kLong commands have threads of
//     their own, and run only while their client is connected.
//   * It is long, by its arguments (kLoopArguments) or by the bytes that it processes (Ctx::work). It runs off the loop, so that
//     a pass stays short. If it writes, it is a long write (long_write.h).
//   * It keeps state with its connection and has very many arguments (kSliced). Each round of the loop processes a slice of the
//     arguments.
//   * It writes keys that a long write has marked firmly (intents.h).
//   * It is flagged kReplySynced. It is committed, and its reply is kept while an offload thread waits for the sync.
//   * The memory budget has no room for it until memtables are flushed (memory_wait.cc).
//   * The write stall delays it. It has written nothing, and runs again after the delay that the engine has returned.
//
// While the database is being opened (CommandEnv::db is null) only commands flagged kLoading run. All others reply -LOADING.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <engine/db.h>

#include "blocking/key_waiters.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/random.h"
#include "dispatch/server_stats.h"
#include "dispatch/table.h"
#include "index/index_catalog.h"
#include "resp/client.h"

namespace ebbtide {

struct LongWrite;
struct Transaction;
struct OffLoopRun;
struct OffLoopWork;
class TransactionRun;

/// Returns the error reply, without '-', for the Status of a handler or commit. A kInvalidArgument message that starts with a
/// code in capitals ("WRONGTYPE ...") is sent unchanged.
std::string error_reply(const Status& status);

/// One per event loop; used on its thread only.
class Dispatcher final : public CommandSink {
 public:
  static constexpr std::size_t kWindow = 32;
  static constexpr std::uint32_t kFetchRounds = 3;
  static constexpr std::uint32_t kWriteRounds = 16;
  /// The most attempts of one command, or transaction. An attempt fails to commit if a key that it has read has expired. Each
  /// attempt reads at a later time, so all of them fail only if keys expire during every one.
  static constexpr int kMaxRetries = 16;
  /// A command with more arguments than this runs off the loop: processing this many takes about a millisecond.
  static constexpr std::size_t kLoopArguments = 1024;
  /// A command that has committed more bytes than this is counted, and enters the slow log, once the log has its batch. Its reply
  /// may be sent then. A command with a smaller commit is counted at its end: its wait for the log appears in the stage `wal`
  /// only.
  static constexpr std::uint64_t kLargeCommitBytes = 1 << 20;
  /// A command that processes more bytes of values than this runs off the loop (Ctx::work): so many take a few hundred
  /// microseconds.
  static constexpr std::uint64_t kLoopWorkBytes = 1 << 20;
  /// A pass that has taken this many nanoseconds begins no further command. Otherwise a pipeline of thousands of short commands
  /// would delay other clients for seconds.
  static constexpr std::uint64_t kPassNanos = 5'000'000;
  /// A pass that has committed kPassBytes begins no further command, either: writing these bytes to the log takes about 10
  /// milliseconds of the loop's time. Commits below kMeasuredCommitBytes are not added up, since kPassNanos already limits their
  /// number.
  static constexpr std::uint64_t kPassBytes = 4 << 20, kMeasuredCommitBytes = 4 << 10;
  /// A group of overwrites (write_group.cc) ends once it has this many bytes.
  static constexpr std::size_t kGroupBytes = 64 << 10;
  /// A command runs off the loop if it may cause more notifications than this: its number of arguments times the subscribers of
  /// each. This many take about 20 milliseconds.
  static constexpr std::uint64_t kLoopNotifications = 32'768;
  /// If checking a command's rights takes more steps (AclBudget) than this, the check is made off the loop: so many steps take a
  /// few milliseconds.
  static constexpr std::uint64_t kLoopCheckSteps = 1 << 20;

  /// `env` must outlive the dispatcher. `seed` is the start of the random numbers that handlers get (Ctx::random).
  Dispatcher(CommandEnv& env, std::uint64_t seed);
  ~Dispatcher() override;

  void run_pass(std::span<PendingCommand> commands) override;
  void client_closed(Client& client, PendingCommand* waiting_command) override;
  [[nodiscard]] bool charges_replies() const override { return pass_charge_.bytes() != 0; }
  void buffers_charged() override { pass_charge_.release(); }
  void logged(std::uint64_t nanos) override;
  void poll() override;
  [[nodiscard]] int descriptor() const override;

 private:
  struct Prepared {
    const Command* command = nullptr;  ///< null: the command is rejected with `error`
    Status error;
    std::uint32_t first_key = 0, keys = 0;
    bool long_by_arguments = false;  ///< the command has many arguments, so it runs off the loop, where its keys are collected
  };
  struct Fetched;
  struct Waiting;
  /// The result of one attempt of a command. Replies and effects of the attempt are valid only after kDone, kSliced and
  /// kWaitsForSync.
  enum class RunEnd : std::uint8_t {
    kDone,             ///< the command is done: it has its reply, or an error
    kSliced,           ///< a kSliced command has processed some of its arguments
    kWaitsForSync,     ///< the command has committed; its reply leaves when the log is synced
    kMissesPages,      ///< the command runs again when its missing pages are read
    kWaitsForMemory,   ///< the command waits for memory, for memory_ms_
    kWaitsForStall,    ///< the write stall delays the command for stall_ms_
    kWaitsForMarks,    ///< the command waits until marks of long writes are removed
    kWaitsForElement,  ///< the command waits until another client writes one of its keys
    kLeavesLoop,       ///< the command is long: it continues off its loop
  };
  /// A command whose large batch is not in the log yet.
  struct Unlogged {
    SeqNum seq;
    std::size_t command;                  ///< index of the command
    std::uint64_t nanos;                  ///< running time of the command
    std::uint64_t since;                  ///< monotonic ns: when the attempt ended
    std::optional<SlowLog::Entry> entry;  ///< the entry for the slow log, without the wait for the log
    std::uint64_t entry_nanos = 0;        ///< the time that `entry` shows so far, in ns
  };

  void run_window(std::span<PendingCommand> commands);
  void prepare(const PendingCommand& pending, Prepared* prepared);
  Status resolve(const Args& args, const Command** command);
  Status collect(const Args& args, Prepared* prepared);
  void prefetch(std::span<PendingCommand> commands);
  void prefetch_collected(const ReadView& view);
  void run(PendingCommand& pending, const Prepared& prepared);
  // write_group.cc
  /// Returns true if the command at index `at` of the window may join the group that begins with the command at index `first`.
  [[nodiscard]] bool joins_group(std::size_t first, std::size_t at) const;
  /// Tries to run and commit consecutive commands of the window as one group, from index `first` on. Returns true if it did: the
  /// commands before `*end` are done. Returns false if the group had no effect: then each command runs alone.
  bool run_group(std::size_t first, std::size_t* end);
  /// Runs a command of a group, without its commit. Returns false if the command cannot be in a group.
  bool run_in_group(PendingCommand& pending, const Prepared& prepared, const ReadView& view, Reply::Mark* mark);
  /// Ends the commands of a committed group: counts them, and completes their replies.
  void finish_group(std::size_t first, std::size_t end);
  /// Like run(), for use while there are observers (observers.h) or the session has a mode (Session::Modes).
  void run_in_mode(PendingCommand& pending, const Prepared& prepared);
  /// Returns true if the session's user may run the command. Returns false if the command was rejected, or waits for a check off
  /// the loop.
  bool permitted(PendingCommand& pending, const Prepared& prepared);
  // rights_check.cc
  /// Checks the rights of the session's user on another thread. The command waits.
  void check_off_loop(PendingCommand& pending, const Prepared& prepared);
  /// Returns the verdict of check_off_loop(). nullopt: the command still waits, or was rejected.
  std::optional<AclVerdict> end_check(PendingCommand& pending, const Prepared& prepared);
  /// Runs a command for which admit() has returned true, and writes its reply.
  void run_admitted(PendingCommand& pending, const Prepared& prepared);
  /// Continues a command that has waited. Returns true if the caller has to run it now. Returns false if it still waits, has
  /// ended, or continues off its loop.
  bool resume(PendingCommand& pending, const Prepared& prepared);
  /// Like run_admitted(), for use while there are observers or the connection is in a mode other than kChecked.
  void run_observed(PendingCommand& pending, Prepared prepared);
  /// Returns true if CLIENT PAUSE delays the command. The command then waits, and is handed in again later.
  bool hold_back(PendingCommand& pending, const CommandSpec& spec);
  /// Reads the monotonic clock. Returns true if it also read engine time, about once a millisecond.
  bool refresh_time();
  /// Returns a view of the newest state of the database; an empty view while the database is being opened.
  [[nodiscard]] ReadView view_of(DatabaseId database, ReadMode mode, MissSet* misses) const;
  /// Adds a command that worked for `nanos` and waited for `waits` to the slow log and LATENCY. If `unlogged` is set, stores the
  /// slow log's entry in `unlogged` instead, even below the threshold.
  void note_slow(Client& client, const Command& command, const Args& args, std::uint64_t nanos, const StageNanos& waits,
                 Unlogged* unlogged = nullptr);
  /// Resumes the commands whose missing pages have been read, and starts the reads that commands have requested. Also calls
  /// settle_unlogged() and dispose_finished().
  void look_around();
  /// For each command whose batch has reached the log since the last call: counts the command, and adds it to the slow log.
  void settle_unlogged();

  /// Runs the command and commits its writes. Repeats this as long as the commit fails with kRetry, at most kMaxRetries times.
  /// After kDone, `status` is the result.
  RunEnd run_and_commit(PendingCommand& pending, const Prepared& prepared, Reply& reply, Status* status);
  /// Returns true if EXEC of the transaction runs off its loop from the start.
  [[nodiscard]] bool is_long(const Transaction* transaction) const;
  /// Handles kSliced: the loop runs other commands before the next slice.
  void continue_later(PendingCommand& pending);
  /// Handles kLeavesLoop: continues the command on another thread, as a long write if it may write.
  void leave_loop(PendingCommand& pending, const Prepared& prepared);
  /// Adds the operations that keep indexes up to date to batch_, the writes of a command of this client, and commits it. The
  /// locks of the command's keys must be held. `view`: the view with which the command has run. `own`: the command's wait for an
  /// element, or null. kBusy: the command waits, for stall_ms_ or (if marked_ is set) until marks of long writes are removed.
  Status commit(Client& client, bool waited, const ReadView& view, KeyWaiters::Wait* own = nullptr);
  /// Commits batch_, and updates the rank indexes of its collections.
  Status try_commit(bool waited);
  Status commit_batch(Client& client, bool waited, KeyWaiters::Wait* own);
  /// Adds to the batch the operations that keep index trees up to date. `view`: the view with which the command has run. Sets
  /// `changes`, which are passed to the catalog after the commit.
  Status maintain(const ReadView& view, IndexChanges* changes);
  /// Counts a commit of more than kMeasuredCommitBytes: sets large_commit_, and ends the pass after kPassBytes. `logged`: the
  /// batch is already in the log, so its bytes are not added to those of the pass.
  void note_large_commit(const WriteBatch& batch, bool logged);
  /// Like commit(), while long writes have marked keys, or clients wait for elements of keys.
  Status commit_beside_others(Client& client, bool waited, KeyWaiters::Wait* own);
  /// Like run_and_commit(), also for EXEC. After EXEC the transaction is ended, unless EXEC has to run again.
  RunEnd run_once(PendingCommand& pending, const Prepared& prepared, Reply& reply, Status* status);
  /// Like run_once(), and repeats it while the missing pages can be had without a wait. kMissesPages: the pages are being read.
  RunEnd run_resident(PendingCommand& pending, const Prepared& prepared, Reply& reply, Status* status);
  /// Returns how an attempt ends whose handler or commit has failed with `status`. `too_long`: Ctx::work() has failed, so the
  /// command leaves its loop.
  RunEnd end_of_failed(PendingCommand& pending, const Status& status, bool too_long);
  /// Returns true if the command's reply waits for the log's sync.
  [[nodiscard]] static bool replies_synced(Client& client, const CommandSpec& spec);

  // transaction.cc
  /// For a session in a mode (Session::Modes): returns true if the command runs now, false if it was queued or rejected.
  bool admit(PendingCommand& pending, const Prepared& prepared);
  void queue(PendingCommand& pending, const Prepared& prepared);
  RunEnd run_transaction(PendingCommand& pending, bool block, bool waited, Reply& reply, Status* status);
  /// Runs the queued commands of EXEC once, and commits their writes (commit_run). If the attempt takes too long for a loop, sets
  /// `*too_long`.
  Status attempt_transaction(Client& client, bool waited, const ReadView& view, Reply& reply, bool* too_long);
  static Status transaction_discarded(const Status& error);
  /// Fills in a transaction whose only command is this script command.
  void queue_script(PendingCommand& pending, const Prepared& prepared, Transaction* transaction);
  /// Runs a kRunsScript command outside MULTI.
  RunEnd run_script(PendingCommand& pending, const Prepared& prepared, Reply& reply, Status* status);
  Status commit_run(Client& client, bool waited, const ReadView& view, TransactionRun& run, Reply& reply);
  Status attempt_script(Client& client, bool waited, const ReadView& view, TransactionRun& run, Reply& reply);
  /// Counts the error that a script has replied with.
  void count_script_error(const Command& command, const std::string& error);
  /// Sets the members of `run` that come from the client and the current command, such as client id, protocol and random number.
  void prepare_run(Client& client, TransactionRun* run);
  /// Counts the commands of a committed attempt. Returns false if CLIENT REPLY suppresses the attempt's replies. The attempt's
  /// effects may write pushes even then.
  bool begin_effects(Client& client, TransactionRun& run);
  void write_replies(Client& client, TransactionRun& run, const ReadView& view, Reply& reply);
  void count_queued(Client& client, const TransactionRun& run);
  void watch_what_was_read(std::span<const LookupKey> keys, DatabaseId database);
  [[nodiscard]] PresentKeys which_are_there(std::span<const LookupKey> keys, DatabaseId database) const;

  /// Returns true if all missed pages are in memory by now, so that the command runs again at once. Returns false if the command
  /// waits for the pages.
  bool fetch_pages(PendingCommand& pending);
  /// Adds to `misses` the pages that the client's next commands in this window will miss. So they are read together.
  void look_ahead(const PendingCommand& pending, MissSet* misses);
  /// Returns the set that collects the misses of the next attempt. It is misses_, or the command's own set after its first fetch.
  MissSet& misses_of(const PendingCommand& pending);
  /// Returns true if the command has a password that the server will check.
  static bool authenticates(const CommandSpec& spec, const Args& args);
  /// Returns true if the command has to wait: it checks a password after failures from the same network, or is an EXEC with
  /// several password checks.
  bool delay_authentication(PendingCommand& pending, const CommandSpec& spec);
  void park(PendingCommand& pending, std::uint32_t ms);
  // element_wait.cc
  /// Returns the state of the command's wait for an element, as input of its next attempt.
  [[nodiscard]] ElementWait element_wait_of(const Waiting& waiting) const;
  /// Adds `keys` to waited_for_: keys that a committed batch has written, and for whose elements clients wait. The clients are
  /// woken after the pass. `own`: the command's own wait, or null.
  void note_waited_for(std::vector<KeyWaiters::Written> keys, KeyWaiters::Wait* own);
  /// Handles kWaitsForElement. `keys`: the command's keys.
  void wait_for_element(PendingCommand& pending, const Prepared& prepared, std::span<const LookupKey> keys,
                        std::uint64_t timeout_ms);
  // memory_wait.cc
  /// Returns how many ms a command that failed for lack of memory waits before it runs again; 0 if it does not wait. Releases the
  /// command's memory.
  std::uint32_t memory_wait_ms(PendingCommand& pending, const Status& status);
  void park_for_memory(PendingCommand& pending, std::uint32_t ms);
  /// Returns true if the command still waits for memory.
  bool waits_for_memory(PendingCommand& pending, Waiting& waiting);
  void begin_wait(Waiting& waiting, Stage stage);
  void end_wait(Waiting& waiting);
  static Waiting& waiting_of(PendingCommand& pending);
  static void leave_waiting(PendingCommand& pending);
  // off_loop.cc
  /// Fills in the inputs that all off-loop commands have in common.
  void send_off_loop(PendingCommand& pending, const Prepared& prepared, OffLoopWork& work);
  void start_offload(PendingCommand& pending, const Prepared& prepared);
  /// Sends the reply and counts the command. `run`: the committed attempt of EXEC; null if EXEC has run no command.
  void finish_off_loop(PendingCommand& pending, const Prepared& prepared, OffLoopWork& work, Waiting& waiting,
                       TransactionRun* run = nullptr);
  /// Handles kWaitsForSync. `job` has the reply. The attempt began at `start`, on the clock of nanos_.
  void wait_for_sync(PendingCommand& pending, const Prepared& prepared, std::shared_ptr<OffLoopRun> job, std::uint64_t start);
  void finish_job(PendingCommand& pending, const Prepared& prepared);
  // delivery.cc
  /// If the command has many effects, delivers them before its reply. Returns true if the command has to wait until all effects
  /// are delivered.
  bool deliver_first(PendingCommand& pending, Waiting& waiting, const std::shared_ptr<OffLoopWork>& work);
  /// Delivers a slice of the effects of one command, and posts a task for the next slice. `resumes`: after the last effect,
  /// resumes the command.
  void deliver_slice(ClientLoop* here, bool resumes);
  /// Makes later writes of the same keys wait until the notifications of `work` are delivered. So subscribers get notifications
  /// in the order of the writes. The caller holds the locks of the commit.
  void order_notifications(LongWrite& work);
  /// Returns true if a command with this many arguments causes so many notifications that its loop would be busy for long.
  [[nodiscard]] bool notifies_many(std::size_t arguments) const;
  /// Like notifies_many(), and also true if matching the command's keys with many patterns takes too long. Requires collected
  /// keys.
  [[nodiscard]] bool notifies_long(const PendingCommand& pending, const Prepared& prepared) const;
  // long_write.cc
  void start_long_write(PendingCommand& pending, const Prepared& prepared);
  void submit_long_write(PendingCommand& pending, Waiting& waiting);
  void continue_long_write(PendingCommand& pending, const Prepared& prepared);
  void mark_long_write(PendingCommand& pending, Waiting& waiting);
  [[nodiscard]] bool indexes_have_changed(const LongWrite& work) const;
  bool commit_long_write(PendingCommand& pending, Waiting& waiting);
  bool hold_back_commit(PendingCommand& pending);
  /// Drops the rank indexes of collections that a long write has written.
  void drop_rank_indexes(const KeySet& written);
  /// Frees a finished long write.
  void dispose_finished();
  /// Returns the writes of the current command.
  [[nodiscard]] const WriteBatch& written_batch() const;
  void reject(PendingCommand& pending, const Command* command, const Status& error);
  void finish(PendingCommand& pending, const Command& command, const Status& status, Reply& reply, const Reply::Mark& mark);
  void end_of_command(PendingCommand& pending, Reply& reply, const Reply::Mark& mark);
  void send_error(Reply& reply, const Status& error);
  void count_error(Bytes message);
  void count_reads(const ReadCounts& counts);
  /// Returns the command's random number, the same in all its attempts. Otherwise a command such as SPOP, which runs again until
  /// its pages are in memory, would prefer elements whose pages are already there.
  std::uint64_t random_of(PendingCommand& pending) {
    if (pending.random == 0) pending.random = next_random(&random_state_);
    return pending.random;
  }

  CommandEnv& env_;
  DispatchCounters* counters_;
  RecentCommands recent_;
  std::uint64_t random_state_;
  std::uint64_t random_ = 0;  // random_of() the command that runs
  bool firm_marks_ = false;   // Ctx::firm_marks of the attempt that leaves its loop

  // Data of the current window.
  std::span<PendingCommand> window_;
  std::vector<Prepared> prepared_;
  std::vector<LookupKey> keys_;
  std::vector<LookupState> states_;  ///< results of prefetches, by key
  // Keys that prefetch() has collected: ahead_ has those that commands read, overwritten_ those that they only overwrite.
  std::vector<const LookupKey*> ahead_, overwritten_;
  std::deque<std::string> escaped_;  ///< a deque, since its strings keep their addresses when it grows
  std::size_t escaped_used_ = 0;
  WriteBatch batch_;
  std::array<Reply::Mark, kWindow> group_marks_{};  ///< where the replies of a group begin
  bool failed_ = false;                             ///< a command has finished with an error since this was last cleared
  std::shared_ptr<LongWrite> finished_;             ///< set if the current command was a long write that is done
  bool reported_ = false;                           ///< the current command has reported its keys to the observers itself
  /// Commands whose effects are being delivered. They take turns, one slice each.
  std::deque<std::shared_ptr<OffLoopWork>> deliveries_;
  MemoryCharge pass_charge_;  ///< charges the replies of a pass, until the connections charge their output buffers after it
  SeqNum large_commit_ = 0;   ///< last seq of the current command's batch, if the batch was large
  std::vector<Unlogged> unlogged_;
  std::uint32_t memory_ms_ = 0;  ///< how long the latest attempt has to wait for memory, in ms; 0: not at all
  std::uint64_t block_ms_ = 0;   ///< timeout of the latest attempt's wait for an element, in ms; 0: none
  std::uint32_t stall_ms_ = 0;   ///< how long the write stall delays the latest commit, in ms; 0: not at all
  /// Keys that commands of this pass have written and for which clients wait. The clients are woken after the pass: subscribers
  /// must get the notification of a push before that of the pop that it causes.
  std::vector<KeyWaiters::Written> waited_for_;
  bool marked_ = false;                        ///< the latest commit has to wait until marks of long writes are removed
  std::shared_ptr<Fetched> misses_;            ///< collects the misses of commands that have fetched nothing yet
  const std::unique_ptr<FetchQueue> fetches_;  ///< null: fetcher threads read the pages

  Millis now_ = 0;                ///< engine time; read again when the monotonic clock has advanced by a millisecond
  std::uint64_t nanos_ = 0;       ///< the monotonic clock at the end of the latest command
  std::uint64_t begun_ = 0;       ///< value of nanos_ when the latest command of the pass began
  std::uint64_t pass_end_ = 0;    ///< value of nanos_ from which on the pass begins no further command
  std::uint64_t pass_bytes_ = 0;  ///< bytes committed in this pass, without commits below kMeasuredCommitBytes
  bool noted_ = false;            ///< note_slow() was called for the latest command
  std::uint64_t now_nanos_ = 0;   ///< the monotonic clock when now_ was read
};

}  // namespace ebbtide

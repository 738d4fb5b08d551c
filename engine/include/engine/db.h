// The engine: a persistent ordered map from bytes to entries, with several databases in one directory.
//
//   auto db = Db::open(settings, components);
//   WriteBatch batch;  batch.put(0, "k", "v");
//   db->commit(batch);                        // readers see the batch from here on
//   db->write_log();                          // at the end of a pass: one write for all batches committed in the pass
//   ... send a reply once db->durable_seq() >= the highest seq that the reply depends on ...
//
// Threads: any thread may call every method, unless its comment says otherwise. A view or an iterator belongs to one thread at a
// time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <engine/iterator.h>
#include <engine/memory_account.h>
#include <engine/options.h>
#include <engine/purge.h>
#include <engine/read_view.h>
#include <engine/result.h>
#include <engine/staged_batch.h>
#include <engine/stats.h>
#include <engine/tree_map.h>
#include <engine/types.h>
#include <engine/workload.h>
#include <engine/write_batch.h>

namespace ebbtide {

struct DbImpl;

/// The result of Db::scan_stamps.
struct StampedKeys {
  struct Key {
    std::string key;
    EntryKind kind;
    DeleteKey stamp;
  };
  std::vector<Key> keys;
  bool more = false;   ///< true if the scan stopped before the last key: call scan_stamps again with from = `resume`
  std::string resume;  ///< if `more`: the key to continue from; greater than the call's `from`
  std::uint64_t pages_read = 0;
};

/// A key and the engine time at which it expires.
struct ExpiringKey {
  std::string key;
  Millis expiry = 0;
  SeqNum seq = 0;  ///< seq of the version that expires
};

class Db;

/// While a thread has a PassGuard, the engine frees nothing that a pass view of that thread can reach. A guard costs two stores,
/// and guards may nest. Do not hold a guard during long I/O, and do not move it to another thread.
class PassGuard {
 public:
  explicit PassGuard(Db& db);
  ~PassGuard();
  PassGuard(const PassGuard&) = delete;
  PassGuard& operator=(const PassGuard&) = delete;

 private:
  void* epoch_;
};

class Db {
 public:
  /// Opens or creates the database in settings.dir and replays its log. Reports the progress to components.events. Errors:
  /// kBusy if another process has the database open. kCorruption if a file is not what the manifest says; the message names the
  /// file. kUnsupported if a newer version wrote the database; the message names both versions. kInvalidArgument if a setting
  /// is wrong. Directory and files are private to the user (modes 0700 and 0600).
  static Result<std::unique_ptr<Db>> open(const Settings& settings, const Components& components);
  /// Closes the database like close(), but ignores errors.
  ~Db();
  Db(const Db&) = delete;
  Db& operator=(const Db&) = delete;

  /// Stops background work, writes and syncs the log, and ends running fetches: each `done` is called before the return. No
  /// other call may run at the same time or follow. Memtables are not flushed, since the log has their operations.
  Status close();

  // --- writing
  /// Assigns seqs, engine time and trees to the operations of the batch, queues the batch for the log and makes it visible.
  /// Returns when readers see the batch. An empty batch has no effect. During a write stall the call waits; a batch that
  /// empties a database waits only while more than 64 dropped trees are still in the manifest.
  ///
  /// After an error nothing was written. kRetry: engine time has reached batch.relied_expiry(), or the database has another
  /// tree than batch.relied_tree(); run the command again from its reads on. kOutOfMemory, kNoSpace: memory or disk is full,
  /// and the batch adds data; kNoSpace also if a stall cannot end because compactions fail. kInvalidArgument: the batch has
  /// more than 1 GiB or a key longer than kMaxKeyBytes, or it empties databases too often: more than 256 times, and more times
  /// than there are databases and index trees. kReadOnly: the database takes no writes.
  Status commit(WriteBatch& batch);
  /// Like commit(), for threads that must not wait. During a write stall the call writes nothing, returns kBusy, and sets
  /// `*wait_ms` to the milliseconds after which to try again. Otherwise `*wait_ms` is 0. On that next try pass `waited` = true: a
  /// slowdown delays a batch only once.
  Status try_commit(WriteBatch& batch, bool waited, std::uint32_t* wait_ms);
  /// Prepares the commit of a large batch (engine/staged_batch.h). Moves from `batch` only if the call succeeds. The time grows
  /// with the batch's size, so do not call stage() on an event loop. If `stop` becomes true, the call ends early with kAborted.
  /// kUnsupported: the batch empties or swaps databases; commit it with commit(). kOutOfMemory: the memory budget has no room.
  /// kInvalidArgument, kReadOnly, kNoSpace: as for commit().
  Result<std::unique_ptr<StagedBatch>> stage(WriteBatch&& batch, const std::atomic<bool>* stop = nullptr);
  /// Like commit() and try_commit() of a WriteBatch, with the same errors, but the time does not depend on the number of puts and
  /// deletes. After an error the same staged batch may be committed again, except after kRetry: then run the command again.
  Status commit(StagedBatch& staged);
  Status try_commit(StagedBatch& staged, bool waited, std::uint32_t* wait_ms);
  /// Returns true if a write stall stops writes now, so that commit() would wait. Takes no lock.
  [[nodiscard]] bool writes_stopped() const;
  /// Writes all queued batches to the log in one system call. If another thread is writing, leaves the batches to that thread;
  /// with fsync `always`, leaves them to the log thread. Returns true in all these cases, and false if no batch was queued.
  /// Call write_log() at the end of each pass.
  bool write_log();
  /// Returns the highest seq that readers see.
  [[nodiscard]] SeqNum visible_seq() const;
  /// Returns the seq up to which all operations are written to the log (fsync `everysec` and `no`) or synced (`always`).
  /// Replies that depend on operations up to this seq may be sent.
  [[nodiscard]] SeqNum durable_seq() const;
  /// Blocks until durable_seq() >= seq. Returns kUnknownOutcome if the log fails before that.
  Status wait_durable(SeqNum seq);
  /// Blocks until the log is synced up to seq, for any fsync mode. Returns kUnknownOutcome if the log fails before that.
  Status wait_synced(SeqNum seq);
  /// Sets the function that the engine calls each time durable_seq() has moved or the log has failed. The function runs on any
  /// engine thread, with no lock held. Set it once, before the first write.
  void set_durable_listener(std::function<void()> listener);
  /// After this call Settings::memory_budget also limits memory that is charged to no account, such as unused memory that the
  /// allocator keeps and buffers of system libraries. A 64th of the budget, or 4 MiB if that is more, is free for such memory;
  /// only the excess counts. `resident` returns the bytes of the process that are in memory. The engine calls `resident` from any
  /// thread, several times a second.
  void set_resident_source(std::function<std::uint64_t()> resident);
  /// Returns ok, or the error with which writes are refused now.
  [[nodiscard]] Status write_status() const;

  // --- reading
  /// Returns the engine time now, in ms. The result never decreases. A call reads one clock.
  [[nodiscard]] Millis now() const;
  /// Returns the engine time that a batch committed at `now` gets: `now`, or the persisted mark of engine time if that is
  /// earlier. `now` passes the mark only while no later mark can be written. A stamp by write time may be a little later, since
  /// the stamps of a tree never decrease.
  [[nodiscard]] Millis stamped(Millis now) const;
  /// Returns a pass view of a database at the newest visible seq. `now`: the engine time by which the view judges expiry.
  /// `misses` gets the pages that are not in memory. The caller must hold a PassGuard while it uses the view.
  [[nodiscard]] ReadView view(DatabaseId database, Millis now, ReadMode mode, MissSet* misses) const;
  /// Returns a leased view: it shows one seq, owns the memory and files that it reads, and can be revoked. Its mode is
  /// ReadMode::kBlocking.
  [[nodiscard]] ReadView lease(DatabaseId database) const;
  /// Returns the stamp mode of the database's tree, or, if there is no tree yet, of the tree that the first write will create.
  /// Takes a lock for a short time.
  [[nodiscard]] StampMode stamp_mode(DatabaseId database) const;
  /// Returns the stamp mode in the settings. The next tree of the database, which FLUSHDB creates, will have this mode.
  [[nodiscard]] StampMode configured_stamp_mode(DatabaseId database) const;
  /// Carries out a secondary range lookup on a leased view. Returns keys whose current entry has lo <= stamp < hi, in key order
  /// from `from` on, about `max_keys` at most. Reads only those table pages whose delete fences overlap the range. The work is
  /// bounded: at most `max_pages` pages, and about a hundred times as many entries. Each call advances by at least one key.
  /// Returns kRevoked if the view was revoked.
  [[nodiscard]] Result<StampedKeys> scan_stamps(const ReadView& lease, DeleteKey lo, DeleteKey hi, Bytes from,
                                                std::size_t max_keys, std::uint64_t max_pages) const;
  /// Returns an estimate of the number of keys with lo <= stamp < hi, from the delete fences, without I/O. It includes
  /// overwritten versions until a merge drops them. It leaves out pages that a secondary range tombstone covers completely.
  [[nodiscard]] std::uint64_t estimate_stamps(DatabaseId database, DeleteKey lo, DeleteKey hi) const;
  /// Returns an iterator over `view`. If `view` is a pass view, the iterator leases a new view, whose seq may be later.
  /// Exception: with IteratorOptions::resident and ReadMode::kResident it reads the pass view itself.
  [[nodiscard]] std::unique_ptr<Iterator> iterate(const ReadView& view, const IteratorOptions& options) const;
  /// Reads the pages and values of `misses` into memory and pins them in the set. Returns true if the system page cache had
  /// them all: run the command again at once; `done` is not called. Otherwise returns false, and `done` is called once when the
  /// reads have ended. The caller of `done` is a fetcher thread, poll() of the queue, or this thread before the return. Until
  /// then the caller must not move or change the set. Read errors are not reported here: the command gets them when it runs
  /// again.
  ///
  /// Fetched bytes are charged to memory() until the set is cleared and, for large values, the last pin is released. A page or
  /// value for which memory() has no room is not fetched. If `queue` is not null, pages are read through it as far as possible.
  [[nodiscard]] bool fetch(MissSet* misses, std::function<void()> done, FetchQueue* queue = nullptr);
  /// Returns a queue for fetch(). Returns null if Settings::io_uring is off or the system does not allow io_uring: then fetcher
  /// threads read everything.
  [[nodiscard]] std::unique_ptr<FetchQueue> new_fetch_queue();

  // --- on demand
  /// Flushes the memtables of a database and waits until the flushes are done.
  Status flush(DatabaseId database);
  /// Merges all tables that overlap the range into one run, and waits until the merges are done.
  Status compact(DatabaseId database, const KeyRange& range);
  /// Reads every block of a database's tables and checks checksums, order and bounds.
  Result<VerifyReport> verify(DatabaseId database);
  /// Writes a checkpoint to the directory `target`. The checkpoint opens as this database was at one moment between call and
  /// return, with every write that was visible at the call. Tables are hard links if the file system allows links: a link takes
  /// no space until the database removes its own file. Delete deadlines do not cover checkpoints. `target` is new or empty,
  /// outside the data directory, and absolute or relative as Settings::dir is. kInvalidArgument: `target` is inside the data
  /// directory. kExists: `target` is not empty. After another error `target` cannot be opened; its files are removed if possible.
  Result<CheckpointReport> checkpoint(const std::string& target);
  /// Counts the keys in a range by iterating over them.
  Result<std::uint64_t> count(DatabaseId database, const KeyRange& range);
  /// Estimates the number of keys in a range without I/O. The time grows with the number of tables and the size of the memtables.
  [[nodiscard]] std::uint64_t estimate_keys(DatabaseId database, const KeyRange& range) const;
  /// Estimates the number of keys in the database from a sample of its tiles, which the call reads; `seed` chooses the tiles.
  /// The result is exact if no entry in the tables was overwritten or deleted or has expired. Otherwise the sample grows until
  /// the standard error is half a percent, or until the sample has a million entries. After a million entries the error is larger
  /// than that only if fewer than one entry in twenty is a key. The call iterates over the memtables, reads some thousand pages
  /// and makes at most a million lookups. Errors: kRevoked, kCorruption, kIoError.
  [[nodiscard]] Result<std::uint64_t> sample_keys(DatabaseId database, std::uint64_t seed) const;
  /// Appends to `out` the keys with after < expiry <= until, at most the `limit` earliest of them. Keys of elements of
  /// collections are included. Returns the engine time up to which `out` is complete: `until`, or an earlier time if there are
  /// more keys. If more than `limit` keys expire at the same earliest time, the surplus is left out. Reads the pages that have
  /// such expiries, and iterates over the memtables. After kRevoked, kCorruption or kIoError the contents of `out` are undefined.
  Result<Millis> expiring_keys(DatabaseId database, Millis after, Millis until, std::size_t limit,
                               std::vector<ExpiringKey>* out) const;
  /// Changes the settings of a database number. Background jobs that start later use the new settings. SWAPDB exchanges the
  /// trees, not the settings. An existing tree keeps its stamp mode; the database's next tree gets the new mode.
  Status set_tree_settings(DatabaseId database, const TreeSettings& settings);
  /// Sets the options of an index tree, which need not exist yet. The options are not stored: set them again after each open.
  /// kInvalidArgument: an option is wrong, or `tree` is not the number of an index tree.
  Status set_index_options(DatabaseId tree, const IndexTreeOptions& options);
  /// Changes all settings that may change at run time in one step: fsync, memory budget, and the tree settings of every database
  /// number. The other settings keep their values. Checks all of `settings` first: if one is wrong, kInvalidArgument names it and
  /// nothing changes.
  Status reconfigure(const Settings& settings);
  /// Pauses compactions, except compactions that a delete deadline needs. Flushes go on. Calls nest: each pause needs a
  /// resume_compactions().
  void pause_compactions();
  void resume_compactions();

  // --- purging of deletes
  /// Returns a ticket for every delete that was committed before the call. Sets `*up_to`: send the ticket to a client only when
  /// the log is synced up to that seq.
  PurgeTicket purge_ticket(SeqNum* up_to);
  /// Returns whether the ticket's deletes are purged, and how much is pending if not. A ticket that is done stays done, also
  /// after a restart. The call may read all tables' metadata and check whether files exist, so do not call it on an event loop.
  /// kInvalidArgument: no such ticket was issued.
  Result<PurgeStatus> purge_status(const PurgeTicket& ticket);
  /// Stores the ticket so that open_tickets() lists it; has no other effect. The engine keeps a bounded number of the latest
  /// tickets, until they are done or the database is closed.
  void note_ticket(const PurgeTicket& ticket);
  /// Returns the stored tickets that are not done, oldest first. Takes as long as a purge_status() of each stored ticket.
  [[nodiscard]] std::vector<PurgeTicket> open_tickets();
  /// Starts the purge of the ticket's deletes now, even if they have no deadline or a later deadline. Errors are those of
  /// purge_status().
  Status purge_now(const PurgeTicket& ticket);

  /// Does the timed work: writes the mark of engine time, syncs, recovers after a full disk, sets memory limits. The engine's own
  /// thread calls tick() several times a second. If the engine has no threads (Components::background is set), the caller must
  /// call tick() after each step of the simulated clock.
  void tick();

  // --- memory, statistics, state
  /// Returns the account to which users of the engine charge their part of the memory budget. They must release all charges
  /// before the Db is destroyed. Only pins that the engine returned may be released later.
  [[nodiscard]] MemoryAccount& memory() const;
  /// Like memory().try_charge(), but evicts pages from the cache if that makes enough room. The caller must allocate the memory
  /// right after the call.
  [[nodiscard]] bool try_charge(MemoryAccount::Kind kind, std::uint64_t bytes);
  /// Returns when `bytes`, which try_charge() refused, could be charged: now, after a flush of memtables, which the next tick
  /// starts, or neither. For a caller that will try again and holds no charged memory while it waits. Never blocks.
  [[nodiscard]] BudgetRoom memory_room(std::uint64_t bytes);
  [[nodiscard]] Stats stats() const;
  [[nodiscard]] Result<TreeInfo> tree_info(DatabaseId database) const;
  /// Returns the shape of the tree for drawing, without keys. It has about `max_cells` cells at most, for any number of files.
  /// The call holds no lock while it computes the cells. The time grows with the number of files.
  [[nodiscard]] Result<TreeMap> tree_map(DatabaseId database, std::size_t max_cells) const;
  /// Returns the operations on a database number by windows of time, and the state of its tree. The history has a week at most
  /// (WorkloadHistory in db/admin/workload_history.h). kInvalidArgument: there is no such database.
  [[nodiscard]] Result<Workload> workload(DatabaseId database) const;
  /// Returns one line for each quarantined table of all databases: "database <n>: <file and fault>". Returns an empty list if no
  /// table is known to be damaged.
  [[nodiscard]] std::vector<std::string> damage() const;
  [[nodiscard]] const Settings& settings() const;

 private:
  friend class PassGuard;
  explicit Db(std::unique_ptr<DbImpl> impl);
  std::unique_ptr<DbImpl> impl_;
};

}  // namespace ebbtide

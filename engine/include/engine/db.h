// The engine: a persistent ordered map from bytes to entries, with several databases in one directory.
//
//   auto db = Db::open(settings, components);
//   WriteBatch batch;  batch.put(0, "k", "v");
//   db->commit(batch);                        // visible to every reader from here on
//   db->write_log();                          // at the end of a pass: one write for everything committed in it
//   ... send replies once db->durable_seq() >= what they could have seen ...
//
// Threads: every method is safe from any thread, unless said otherwise. Views and iterators belong to one thread at a time.
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
  bool more = false;   ///< the scan stopped before the end of the keys: go on from `resume`
  std::string resume;  ///< if `more`: greater than `from`
  std::uint64_t pages_read = 0;
};

/// A key and when it expires.
struct ExpiringKey {
  std::string key;
  Millis expiry = 0;
  SeqNum seq = 0;  ///< of the version that expires
};

class Db;

/// While a thread has a PassGuard, the engine frees nothing that a pass view of that thread can reach. Cheap (two stores); may
/// nest. Do not hold one during long I/O, and do not move it to another thread.
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
  /// Opens or creates the database in settings.dir, recovering what the log has (progress goes to the listener).
  /// kBusy: another process has it. kCorruption: a file is not what the manifest says, named. kUnsupported: written by a newer
  /// version, both named. kInvalidArgument: settings. Directory and files are private to the user (0700, 0600).
  static Result<std::unique_ptr<Db>> open(const Settings& settings, const Components& components);
  /// Closes the database like close(); errors are ignored.
  ~Db();
  Db(const Db&) = delete;
  Db& operator=(const Db&) = delete;

  /// Stops background work, writes and syncs the log. No other call may run at the same time or follow. Running fetches end
  /// first, with their `done` called. Memtables are not flushed, since the log has their operations.
  Status close();

  // --- writing
  /// Assigns seqs, time and trees to the batch, queues it for the log and makes it visible. Returns when it is visible. An empty
  /// batch has no effect. After an error nothing was written: kRetry: engine time passed batch.relied_expiry(). kOutOfMemory and
  /// kNoSpace: only for batches that add data. kInvalidArgument: more than 1 GiB, a key longer than kMaxKeyBytes, or too many
  /// dropped trees. kReadOnly. The call waits during a write stall, unless the batch empties a database; kNoSpace if the stall
  /// cannot end because compactions fail.
  Status commit(WriteBatch& batch);
  /// Like commit(), for threads that must not wait. During a write stall it returns kBusy, writes nothing, and sets `*wait_ms` to
  /// the ms after which to try again; otherwise `*wait_ms` is 0. A slowdown delays a batch once: set `waited` after this batch
  /// has waited that time.
  Status try_commit(WriteBatch& batch, bool waited, std::uint32_t* wait_ms);
  /// Prepares the commit of a large batch (engine/staged_batch.h). Moves from `batch` only if it succeeds. The time grows with
  /// the batch's size, so do not call it on an event loop. If `stop` becomes true, the call ends early. kUnsupported: the batch
  /// empties or swaps databases; commit it as it is. kOutOfMemory: the memory budget has no room. kAborted: `stop`.
  /// kInvalidArgument, kReadOnly, kNoSpace as commit().
  Result<std::unique_ptr<StagedBatch>> stage(WriteBatch&& batch, const std::atomic<bool>* stop = nullptr);
  /// Like the calls for a WriteBatch, with the same errors, in a time that does not depend on the number of puts and deletes.
  /// After an error the same staged batch may be committed again, except after kRetry: then run the handler again.
  Status commit(StagedBatch& staged);
  Status try_commit(StagedBatch& staged, bool waited, std::uint32_t* wait_ms);
  /// True if the write stall stops writes now: they wait and are not refused. Takes no lock.
  [[nodiscard]] bool writes_stopped() const;
  /// Writes all queued batches to the log, in one system call. If another thread is writing, that thread writes them; if fsync is
  /// `always`, the log thread does. Call it at the end of each pass. False if no batch was queued.
  bool write_log();
  /// The highest seq that readers see.
  [[nodiscard]] SeqNum visible_seq() const;
  /// Replies that depend on operations up to this seq may be sent: the log has them written (everysec, no) or synced (always).
  [[nodiscard]] SeqNum durable_seq() const;
  /// Blocks until durable_seq() >= seq. kUnknownOutcome if the log failed first.
  Status wait_durable(SeqNum seq);
  /// Blocks until the log is synced past seq, whatever the fsync mode.
  Status wait_synced(SeqNum seq);
  /// Called (from any engine thread, no locks held) each time durable_seq() moves or the log fails. Set once, before use.
  void set_durable_listener(std::function<void()> listener);
  /// From now on Settings::memory_budget pays for all memory of this process: also for what the allocator keeps and for buffers that
  /// are not charged, as far as they exceed a sixteenth of it. `resident` returns the bytes of the process that are in memory, and is
  /// called from any thread, some times a second.
  void set_resident_source(std::function<std::uint64_t()> resident);
  /// Ok, or why writes are refused now.
  [[nodiscard]] Status write_status() const;

  // --- reading
  /// Engine time now, in ms. Monotone. One clock call.
  [[nodiscard]] Millis now() const;
  /// The time that a batch committed at `now` gets: `now`, or the persisted mark of engine time if `now` is past it and a later
  /// mark cannot be written. A stamp by write time may be a little later, since the stamps of a tree only grow.
  [[nodiscard]] Millis stamped(Millis now) const;
  /// Returns a pass view of a database at the newest visible seq. The caller must hold a PassGuard while it uses the view.
  [[nodiscard]] ReadView view(DatabaseId database, Millis now, ReadMode mode, MissSet* misses) const;
  /// Returns a leased view: consistent, owning what it reads, revocable. Its mode is ReadMode::kBlocking.
  [[nodiscard]] ReadView lease(DatabaseId database) const;
  /// The stamp mode of the database's tree. If it has no tree: of the tree that its first write will create. Takes a short lock.
  [[nodiscard]] StampMode stamp_mode(DatabaseId database) const;
  /// The stamp mode in the settings. The next tree of the database, which FLUSHDB creates, will have it.
  [[nodiscard]] StampMode configured_stamp_mode(DatabaseId database) const;
  /// A secondary range lookup: returns keys of a leased view whose current entry has lo <= stamp < hi, in key order from `from`
  /// on, about `max_keys` at most. Reads only pages of tables whose delete fences overlap the range. The work is bounded:
  /// `max_pages` pages and about a hundred times as many entries. Each call passes at least one key. kRevoked.
  [[nodiscard]] Result<StampedKeys> scan_stamps(const ReadView& lease, DeleteKey lo, DeleteKey hi, Bytes from,
                                                std::size_t max_keys, std::uint64_t max_pages) const;
  /// Estimates the number of keys with lo <= stamp < hi from the delete fences: no I/O. Overwritten versions count until a merge
  /// drops them. Pages that a secondary range tombstone covers as a whole do not count.
  [[nodiscard]] std::uint64_t estimate_stamps(DatabaseId database, DeleteKey lo, DeleteKey hi) const;
  /// Returns an iterator over a leased view. For a pass view it leases a new view, whose seq may be later.
  [[nodiscard]] std::unique_ptr<Iterator> iterate(const ReadView& view, const IteratorOptions& options) const;
  /// Reads the pages and values of `misses` into memory and pins them in the set. Returns true if that took no wait for the
  /// device (the system page cache had them): run the command again at once, `done` is not called. Otherwise `done` is called
  /// once: by a fetcher thread, by poll() of the queue, or by this thread before this returns. Until then the set must not be
  /// moved or changed. Read errors are not reported here: the command's next run gets them. Fetched bytes are charged to memory()
  /// until the set is cleared and, for large values, the last pin is released. What does not fit there is not fetched.
  ///
  /// With a queue, pages are read through it as far as it can.
  [[nodiscard]] bool fetch(MissSet* misses, std::function<void()> done, FetchQueue* queue = nullptr);
  /// Null if Settings::io_uring is off, or if the system does not allow io_uring: then fetcher threads read everything.
  [[nodiscard]] std::unique_ptr<FetchQueue> new_fetch_queue();

  // --- on demand
  /// Flushes the memtables of a database and waits.
  Status flush(DatabaseId database);
  /// Merges everything in the range down to one run, and waits.
  Status compact(DatabaseId database, const KeyRange& range);
  /// Reads every block of a database and checks checksums, order and bounds.
  Result<VerifyReport> verify(DatabaseId database);
  /// Writes a checkpoint to the directory `target`. It opens as this database was at one moment between call and return, with
  /// everything that was visible at the call. Tables are hard links if the file system allows it: a link takes no space until the
  /// database removes its file. Delete deadlines do not cover checkpoints. `target` is new or empty, outside the data directory,
  /// and absolute or relative as Settings::dir is. kInvalidArgument: it is inside the data directory. kExists: it is not empty.
  /// After an error `target` does not open; its files are removed if possible.
  Result<CheckpointReport> checkpoint(const std::string& target);
  /// Counts the keys in a range by iterating over them.
  Result<std::uint64_t> count(DatabaseId database, const KeyRange& range);
  /// Estimates the number of keys in a range without I/O. The time grows with the number of tables and the size of the memtables.
  [[nodiscard]] std::uint64_t estimate_keys(DatabaseId database, const KeyRange& range) const;
  /// Estimates the number of keys in the database from a sample of its tiles, which it reads; `seed` chooses them. Exact if no
  /// entry in the tables was overwritten, deleted or has expired. Otherwise the sample grows until the standard error is half a
  /// percent, or until it has a million entries. That is enough unless less than one entry in twenty is a key. Iterates over the
  /// memtables, reads some thousand pages and makes at most a million lookups. kRevoked, kCorruption, kIoError.
  [[nodiscard]] Result<std::uint64_t> sample_keys(DatabaseId database, std::uint64_t seed) const;
  /// Appends keys with after < expiry <= until to `out`: the `limit` earliest. Returns the time up to which `out` is complete:
  /// `until`, or less if there are more keys. If more than `limit` keys expire at the earliest time, the others are left out.
  /// Reads the pages that have such expiries, and iterates over the memtables. After kRevoked, kCorruption or kIoError the result
  /// is unknown.
  Result<Millis> expiring_keys(DatabaseId database, Millis after, Millis until, std::size_t limit,
                               std::vector<ExpiringKey>* out) const;
  /// Changes the settings of a database number, from its tree's next job on. SWAPDB exchanges the trees, not the settings. An
  /// existing tree keeps its stamp mode; the database's next tree gets the new one.
  Status set_tree_settings(DatabaseId database, const TreeSettings& settings);
  /// Changes all settings that may change at run time in one step: fsync, memory budget, and the tree settings of every database
  /// number. Checks all settings first, the others too: kInvalidArgument names the wrong one, and nothing changes. The other
  /// settings keep their values.
  Status reconfigure(const Settings& settings);
  /// Pauses compactions, except those that a delete deadline needs. Flushes go on. Calls nest.
  void pause_compactions();
  void resume_compactions();

  // --- purging of deletes
  /// Returns a ticket for every delete so far. Send it to the client only when the log is synced past `*up_to`.
  PurgeTicket purge_ticket(SeqNum* up_to);
  /// Returns whether the ticket's deletes are purged, and what is left if not. A ticket that is done stays done, after restarts
  /// too. May read all tables' metadata and check whether files exist, so do not call it on an event loop. kInvalidArgument: no
  /// such ticket was ever issued.
  Result<PurgeStatus> purge_status(const PurgeTicket& ticket);
  /// Stores the ticket for open_tickets(), which is its only use. A bounded number of the latest tickets is kept, until they are
  /// done or the database is closed.
  void note_ticket(const PurgeTicket& ticket);
  /// The stored tickets that are not done, oldest first. As long as purge_status() for each.
  [[nodiscard]] std::vector<PurgeTicket> open_tickets();
  /// Starts the purge of the ticket's deletes now instead of by their deadline; works without a deadline, too. Errors as of
  /// purge_status().
  Status purge_now(const PurgeTicket& ticket);

  /// Timed work: the mark of engine time, syncs, recovery after a full disk, memory limits. The engine's own thread calls it
  /// several times a second. An engine without threads (Components::background is set) needs its caller to do so after each step
  /// of the simulated clock.
  void tick();

  // --- memory, statistics, state
  /// The part of the memory budget that the engine's users charge too. All charges must be released before the Db is destroyed,
  /// except those of pins that the engine returned.
  [[nodiscard]] MemoryAccount& memory() const;
  /// Like memory().try_charge(), but evicts pages from the cache if that makes enough room. For memory that is allocated right
  /// after.
  [[nodiscard]] bool try_charge(MemoryAccount::Kind kind, std::uint64_t bytes);
  /// Returns whether `bytes`, which were refused, could be charged now, or after a flush of memtables, which the next tick
  /// starts. For a caller that waits and tries again, and holds no memory meanwhile. Never blocks.
  [[nodiscard]] BudgetRoom memory_room(std::uint64_t bytes);
  [[nodiscard]] Stats stats() const;
  [[nodiscard]] Result<TreeInfo> tree_info(DatabaseId database) const;
  /// Returns the tree for drawing, without keys: at most about `max_cells` cells for any number of files. Holds no lock while it
  /// draws. The time grows with the number of files.
  [[nodiscard]] Result<TreeMap> tree_map(DatabaseId database, std::size_t max_cells) const;
  /// One line for each quarantined table of all databases: "database <n>: <file and fault>". Empty if no table is known to be
  /// damaged.
  [[nodiscard]] std::vector<std::string> damage() const;
  [[nodiscard]] const Settings& settings() const;

 private:
  friend class PassGuard;
  explicit Db(std::unique_ptr<DbImpl> impl);
  std::unique_ptr<DbImpl> impl_;
};

}  // namespace ebbtide

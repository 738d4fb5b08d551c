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

/// What Db::scan_stamps found.
struct StampedKeys {
  struct Key {
    std::string key;
    EntryKind kind;
    DeleteKey stamp;
  };
  std::vector<Key> keys;
  bool more = false;   ///< there may be others from `resume` on
  std::string resume;  ///< greater than where it began
  std::uint64_t pages_read = 0;
};

/// A key and when it expires.
struct ExpiringKey {
  std::string key;
  Millis expiry = 0;
  SeqNum seq = 0;  ///< of the version that does
};

class Db;

/// While one is alive on a thread, nothing that a pass view of that thread can reach is freed. Cheap (two stores); may nest.
/// Not for use across I/O that may last, nor to be moved to another thread.
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
  /// As close(), errors ignored.
  ~Db();
  Db(const Db&) = delete;
  Db& operator=(const Db&) = delete;

  /// Stops background work, writes and syncs the log. No other call may be running or follow; fetches under way
  /// are answered first. The memtables are not flushed: the log has them.
  Status close();

  // --- writing
  /// Gives the batch its seqs, time and trees, makes it visible and queues it for the log. Returns when it is visible.
  /// An empty batch does nothing. kRetry: engine time passed batch.relied_expiry(); nothing was written. kOutOfMemory, kNoSpace
  /// (only for batches that add data), kReadOnly, kInvalidArgument (more than 1 GiB, a key above kMaxKeyBytes, databases emptied
  /// very often): nothing was written. May wait while the write stall is on, unless the batch empties a database; kNoSpace if
  /// that stall cannot end because compactions fail.
  Status commit(WriteBatch& batch);
  /// As commit, for threads that must not wait: while the write stall holds the batch back nothing is written, the answer is
  /// kBusy and `*wait_ms`, else 0, says after how many ms to try again. A slowdown delays a batch once: set `waited`
  /// when this one has waited the requested time.
  Status try_commit(WriteBatch& batch, bool waited, std::uint32_t* wait_ms);
  /// Does the long part of committing a large batch ahead (engine/staged_batch.h). Takes the batch over only if it succeeds.
  /// Takes time in the batch's size: not for event loops. `stop`, if given, ends it early once it is true.
  /// kUnsupported: the batch empties or swaps databases; commit it as it is. kOutOfMemory: the memory budget has no room.
  /// kAborted: `stop`. kInvalidArgument, kReadOnly, kNoSpace as commit().
  Result<std::unique_ptr<StagedBatch>> stage(WriteBatch&& batch, const std::atomic<bool>* stop = nullptr);
  /// As the calls for a WriteBatch, with the same answers, in a time that does not depend on the number of puts and deletes.
  /// After kBusy, or any error, the same staged batch may be tried again; after kRetry it serves for nothing: run the handler
  /// again.
  Status commit(StagedBatch& staged);
  Status try_commit(StagedBatch& staged, bool waited, std::uint32_t* wait_ms);
  /// Whether the write stall stops writes now: they wait, and are not refused. Takes no lock.
  [[nodiscard]] bool writes_stopped() const;
  /// Writes all queued batches to the log, in one system call. If another thread is writing, that thread writes them; if fsync is
  /// `always`, the log thread does. Call it at the end of each pass. False if no batch was queued.
  bool write_log();
  /// The highest seq that readers see.
  [[nodiscard]] SeqNum visible_seq() const;
  /// The highest seq such that a reply that depends on it may leave: written (everysec, no) or synced (always).
  [[nodiscard]] SeqNum durable_seq() const;
  /// Blocks until durable_seq() >= seq. kUnknownOutcome if the log failed first.
  Status wait_durable(SeqNum seq);
  /// Blocks until the log is synced past seq, whatever the fsync mode.
  Status wait_synced(SeqNum seq);
  /// Called (from any engine thread, no locks held) each time durable_seq() moves or the log fails. Set once, before use.
  void set_durable_listener(std::function<void()> listener);
  /// Ok, or why writes are refused now.
  [[nodiscard]] Status write_status() const;

  // --- reading
  /// Engine time now, in ms. Monotone. One clock call.
  [[nodiscard]] Millis now() const;
  /// The time that a batch committed at `now` is stamped with: `now`, or the mark of engine time if that is earlier, since it
  /// cannot be written. A stamp by write time may be a little later, as stamps of a tree grow.
  [[nodiscard]] Millis stamped(Millis now) const;
  /// A pass view of a database at the newest visible seq. The caller holds a PassGuard for as long as it uses the view.
  [[nodiscard]] ReadView view(DatabaseId database, Millis now, ReadMode mode, MissSet* misses) const;
  /// A leased view: consistent, owned, revocable. Always ReadMode::kBlocking.
  [[nodiscard]] ReadView lease(DatabaseId database) const;
  /// Where the stamps of a database's keys come from: the mode of its tree, or, if it has none, of the tree that its first write
  /// makes. Takes a short lock.
  [[nodiscard]] StampMode stamp_mode(DatabaseId database) const;
  /// The mode that the settings ask for: that of the next tree, which FLUSHDB makes.
  [[nodiscard]] StampMode configured_stamp_mode(DatabaseId database) const;
  /// A secondary range lookup: keys of a leased view with lo <= stamp < hi, in key order from `from` on, about `max_keys` of them
  /// at most. Of tables only those pages are read whose delete fences meet the range; a key counts if its current entry does.
  /// Work is bounded by `max_pages` read and about a hundred times as many entries looked at; at least one key is passed.
  /// kRevoked.
  [[nodiscard]] Result<StampedKeys> scan_stamps(const ReadView& lease, DeleteKey lo, DeleteKey hi, Bytes from,
                                                std::size_t max_keys, std::uint64_t max_pages) const;
  /// How many keys that would be in all, estimated from the delete fences alone: no I/O. Versions that are shadowed count until a
  /// merge drops them; what records cover whole pages of does not.
  [[nodiscard]] std::uint64_t estimate_stamps(DatabaseId database, DeleteKey lo, DeleteKey hi) const;
  /// An iterator over a leased view (a new one if `view` is a pass view: its seq may then be later).
  [[nodiscard]] std::unique_ptr<Iterator> iterate(const ReadView& view, const IteratorOptions& options) const;
  /// Brings what `misses` lacks into memory and pins it in the set. True: it was all there without waiting for the device (the
  /// page cache had it), and `done` will not be called: run again at once. False: `done` is called once, from a fetcher thread,
  /// from poll() of the queue, or from this thread before this returns; the set must stay where it is, untouched, until then.
  /// Errors are left for the second try to meet. What is fetched is charged to memory() until the set is cleared and, for large
  /// values, the last pin is gone; without room there it is not fetched.
  ///
  /// With a queue, pages are read through it as far as it can.
  [[nodiscard]] bool fetch(MissSet* misses, std::function<void()> done, FetchQueue* queue = nullptr);
  /// Null if Settings::io_uring is off or the system does not have it, or not for this process: fetcher threads do it all.
  [[nodiscard]] std::unique_ptr<FetchQueue> new_fetch_queue();

  // --- by hand
  /// Flushes the memtables of a database and waits.
  Status flush(DatabaseId database);
  /// Merges everything in the range down to one run, and waits.
  Status compact(DatabaseId database, const KeyRange& range);
  /// Reads every block of a database and checks checksums, order and bounds.
  Result<VerifyReport> verify(DatabaseId database);
  /// A directory that opens as this database was at one moment between call and return, with everything that was visible at the
  /// call. Files are hard links where the file system can, so it takes no time and no space at first. Only files that the
  /// database has removed since then take space. Deadlines of deletes do not reach it. `target` is new or empty, outside the data
  /// directory, and on a path in the same form (both absolute, or both relative). kInvalidArgument: it lies inside. kExists: it
  /// is not empty. After any error it does not open, and what was made of it is gone, if that works.
  Result<CheckpointReport> checkpoint(const std::string& target);
  /// Number of keys in a range, by walking it.
  Result<std::uint64_t> count(DatabaseId database, const KeyRange& range);
  /// An estimate of that from what is in memory: no I/O, time in the number of tables and the size of the memtables.
  [[nodiscard]] std::uint64_t estimate_keys(DatabaseId database, const KeyRange& range) const;
  /// An estimate of the number of keys in the whole database from a sample of its tiles, chosen by `seed`, which it reads. Exact
  /// where nothing in the tables was overwritten, deleted or has expired; else the sample grows until the standard error is half
  /// a percent or it has a million entries, which is enough unless less than one in twenty is a key. Time for a walk over the
  /// memtables and some thousand page reads, for a million lookups at most. kRevoked, kCorruption, kIoError.
  [[nodiscard]] Result<std::uint64_t> sample_keys(DatabaseId database, std::uint64_t seed) const;
  /// Appends the keys that expire later than `after` and no later than `until`, as things are now; the `limit` earliest of them.
  /// Returns up to when they are all there: `until`, or earlier if there are more; of more than `limit` at the first moment only
  /// so many. Reads pages that have such expiries, and walks the memtables. kRevoked, kCorruption, kIoError: nothing can be said.
  Result<Millis> expiring_keys(DatabaseId database, Millis after, Millis until, std::size_t limit,
                               std::vector<ExpiringKey>* out) const;
  /// New settings for a database's tree, from the next job on. They belong to the number: SWAPDB changes which tree has them. The
  /// stamp mode of a tree that exists stays as it is, wherever it goes; the database's next tree takes the new one.
  Status set_tree_settings(DatabaseId database, const TreeSettings& settings);
  /// All that may change while running, in one step: fsync, memory budget, and the trees' settings of every database number.
  /// Everything is checked first: kInvalidArgument names what is wrong, and then nothing has changed. What cannot change while
  /// running is checked, too, but not taken over.
  Status reconfigure(const Settings& settings);
  /// Stops compactions, but for those that a delete deadline needs; flushes go on. Nests.
  void pause_compactions();
  void resume_compactions();

  // --- deletes on their way out of the files
  /// A ticket for every delete so far. `up_to`: the reply that carries it must not leave before the log is synced past this seq.
  PurgeTicket purge_ticket(SeqNum* up_to);
  /// Whether the ticket's deletes are physically gone, and what is left if not. A ticket that is done is done for ever, restarts
  /// included. May look at all tables' metadata, and whether files exist: not for an event loop to wait for.
  /// kInvalidArgument: such a ticket was never given out.
  Result<PurgeStatus> purge_status(const PurgeTicket& ticket);
  /// Keeps the ticket for open_tickets(): a bounded number of the latest, until they are done or the database is closed. Needed
  /// for nothing else.
  void note_ticket(const PurgeTicket& ticket);
  /// Those that are not done, oldest first. As purge_status().
  [[nodiscard]] std::vector<PurgeTicket> open_tickets();
  /// Starts the work for the ticket's deletes now instead of by their deadline, with a deadline or without. Errors as above.
  Status purge_now(const PurgeTicket& ticket);

  /// Housekeeping that goes by the clock: the mark of engine time, syncs that are due, healing after a full disk, memory limits.
  /// The engine's own thread calls it several times a second; only an engine without threads (Components::background given) needs
  /// it called, after its simulated clock moved.
  void tick();

  // --- knowing
  /// The part of the memory budget that the engine's users charge too. All charges must be released before the Db is destroyed,
  /// except those of pins that the engine returned.
  [[nodiscard]] MemoryAccount& memory() const;
  /// As memory().try_charge, and the cache makes room at once: for memory that is about to be allocated.
  [[nodiscard]] bool try_charge(MemoryAccount::Kind kind, std::uint64_t bytes);
  /// Whether `bytes`, which were refused, could be charged now, or will be able to be once memtables have been flushed: the next
  /// tick starts that. For who waits without holding memory, and asks again. Never waits.
  [[nodiscard]] BudgetRoom memory_room(std::uint64_t bytes);
  [[nodiscard]] Stats stats() const;
  [[nodiscard]] Result<TreeInfo> tree_info(DatabaseId database) const;
  /// The tree as a picture, without a key: at most about `max_cells` cells, however many files there are. Holds no lock while it
  /// is made; time in the number of files.
  [[nodiscard]] Result<TreeMap> tree_map(DatabaseId database, std::size_t max_cells) const;
  /// A line for each table that is quarantined now, in all databases: "database <n>: <file and what is wrong>". Empty: none is
  /// known to be damaged.
  [[nodiscard]] std::vector<std::string> damage() const;
  [[nodiscard]] const Settings& settings() const;

 private:
  friend class PassGuard;
  explicit Db(std::unique_ptr<DbImpl> impl);
  std::unique_ptr<DbImpl> impl_;
};

}  // namespace ebbtide

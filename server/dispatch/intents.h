// Marks on the keys of long writes, which run off their loops without holding locks.
//
//   loop          marks keys ---------------------------------- commits, unmarks ----> reply
//   thread                  \-- leases a view, runs the handler --/
//   other writers             SET marked key: breaks the mark, or waits if the mark is firm
//
// A long write is atomic: nothing that it may read or write changes between its marks and its commit, or else it runs again. The
// holder of marks is the long write that has set them.
//   1. Marks are set on a loop's thread, under the key locks of all marked keys; so is the commit. The view is taken after the
//      marks. So a write of a marked key is in the view, or its loop sees the mark.
//   2. A loop that has committed a write of a marked key breaks all marks of the key's holder at once. The holder finds them
//      broken under the locks, before its commit, and runs again.
//   3. After two such conflicts the marks are firm. For some commands, those of the first attempt are firm already
//      (Ctx::firm_marks). Point writes of these keys then wait until the marks are removed. Only one holder can have firm marks
//      on a key; another holder waits before it marks anything. A holder of firm marks waits for no mark, so no two holders wait
//      for each other.
//   4. Deletes of ranges, FLUSHDB and SWAPDB wait for no mark. They break all marks in their databases, even firm ones.
//
// A command that writes calls any() once, which is one atomic load. Only if any() is true, while a long write is under way, does
// the command check marks. The keys that a command has written come from the committed batch, not from its arguments. Keys are
// compared by 64-bit hashes: two keys with the same hash may cause a second attempt, never a wrong result.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <engine/types.h>
#include <engine/write_batch.h>

namespace ebbtide {

class ClientLoop;

/// A set of keys of several databases; it may also contain whole databases. One thread builds the set; then any thread may read
/// it.
class KeySet {
 public:
  KeySet() = default;
  /// Makes the set of the keys and collections that a batch writes. Deletes of ranges or by stamp, FLUSHDB and SWAPDB add whole
  /// databases.
  explicit KeySet(const WriteBatch& batch);

  void add(DatabaseId database, std::uint64_t hash);
  /// Adds all keys of the database, including those that do not exist yet.
  void add_all(DatabaseId database);
  /// Adds the keys and databases of another set.
  void add_all_of(const KeySet& other);
  /// Removes the whole databases (add_all) from the set, and keeps single keys.
  void keep_only_keys() { whole_.clear(); }
  /// Call after the last add(), before any query. After another add(), call seal() again.
  void seal();

  /// Returns true if the sets have a key in common, or if one of them has a whole database in which the other has keys.
  [[nodiscard]] bool meets(const KeySet& other) const;
  /// Returns true if this set has a whole database in which `other` has keys.
  [[nodiscard]] bool covers_some(const KeySet& other) const;
  /// Returns true if this set has every single key of `other`.
  [[nodiscard]] bool has_keys_of(const KeySet& other) const;
  [[nodiscard]] std::size_t size() const { return keys_.size(); }

 private:
  std::vector<std::uint64_t> keys_;  ///< ascending, each once
  std::vector<DatabaseId> databases_, whole_;
};

/// Thread-safe.
class Intents {
 public:
  /// A client whose command waits until firm marks are removed. Intents then resumes it on `loop`.
  struct Waiter {
    ClientLoop* loop = nullptr;
    std::uint64_t client_id = 0;
  };
  /// The marks of one command, which owns this object. Guarded by Intents::mutex_ while `set` is true.
  struct Marks {
    KeySet keys;
    bool set = false, firm = false, broken = false;
    /// Nothing breaks these marks: the command is committed, and later writes of its keys only wait until its notifications are
    /// delivered.
    bool lasting = false;
    std::vector<Waiter> waiters;
  };

  /// Returns true if any command holds marks. This is one atomic load. With several loops, a writer calls this under the locks of
  /// the keys that it writes.
  [[nodiscard]] bool any() const { return holders_count_.load(std::memory_order_relaxed) != 0; }

  /// Sets all marks, unbroken. Firm marks cannot be set while another holder has firm marks on one of the keys. Then returns
  /// false, sets no mark, and resumes `waiter` when those marks are removed. The caller holds the locks of all keys.
  [[nodiscard]] bool mark(const std::shared_ptr<Marks>& marks, bool firm, Waiter waiter);
  /// Removes the marks, if they are set, and resumes the commands that wait for their removal.
  void unmark(const std::shared_ptr<Marks>& marks);
  [[nodiscard]] bool is_broken(const Marks& marks) const;

  /// Returns true if a commit of `written` has to wait for firm marks other than `own`. Then `waiter` is resumed when these marks
  /// are removed.
  [[nodiscard]] bool must_wait(const KeySet& written, const Marks* own, Waiter waiter);
  /// Dispatch calls this after the commit of `written`. Breaks all marks on these keys, except for `own`.
  void committed(const KeySet& written, const Marks* own);

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Marks>> holders_;  ///< guarded by mutex_
  std::atomic<std::size_t> holders_count_{0};
};

}  // namespace ebbtide

// Marks on the keys of long writes, which run off their loops and hold no lock meanwhile.
//
//   loop          marks keys ---------------------------------- commits, unmarks ----> reply
//   thread                  \-- leases a view, runs the handler --/
//   other writers             SET marked key: breaks the mark, or waits if the mark is firm
//
// A long write is atomic because nothing that it may read or write changes between its marks and its commit, or it runs again:
//   1. Marks are set, and committed under, the key locks of all marked keys, on a loop's thread; the view is taken afterwards.
//      So a write of a marked key is in the view, or its loop sees the mark.
//   2. A loop that has committed a write of a marked key breaks the marks of that holder: all of them, once. The holder finds
//      them broken under the locks, before its commit, and runs again.
//   3. After two such conflicts its marks are firm: point writes of these keys wait until they go. Of two holders only one can
//      have firm marks on a key; the other waits before it marks anything. A holder of firm marks waits for no mark, so no two
//      wait for each other.
//   4. Deletes of ranges, FLUSHDB and SWAPDB wait for no mark. They break all marks in their databases, firm ones too.
//
// A command that writes asks any() once, a load; only while a long write is under way does it look further. What counts as a
// write of a key is what stands in the committed batch, not what the command names. Keys are compared by 64-bit hashes: two
// keys with the same hash may cost a second run, never a wrong result.
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

/// Keys of several databases, and whole databases. Built by one thread, then read by any.
class KeySet {
 public:
  KeySet() = default;
  /// What the batch, not yet committed, writes: point operations as keys, all others as whole databases.
  explicit KeySet(const WriteBatch& batch);

  void add(DatabaseId database, std::uint64_t hash);
  /// All keys of the database, those that are not there yet included.
  void add_all(DatabaseId database);
  /// After the last add, before anything else.
  void seal();

  /// Whether a key is in both, or one has all of a database that the other has keys of.
  [[nodiscard]] bool meets(const KeySet& other) const;
  /// Whether `other` has keys of a database that is in this one as a whole.
  [[nodiscard]] bool covers_some(const KeySet& other) const;
  [[nodiscard]] std::size_t size() const { return keys_.size(); }

 private:
  std::vector<std::uint64_t> keys_;  ///< ascending, each once
  std::vector<DatabaseId> databases_, whole_;
};

/// Thread-safe.
class Intents {
 public:
  /// A command that waits for firm marks to go: then it is resumed.
  struct Waiter {
    ClientLoop* loop = nullptr;
    std::uint64_t client_id = 0;
  };
  /// The marks of one command. Belongs to its holder; guarded by Intents while it is marked.
  struct Marks {
    KeySet keys;
    bool set = false, firm = false, broken = false;
    std::vector<Waiter> waiters;
  };

  /// Whether any command holds marks. One load; with several loops asked under the locks of the keys that are written.
  [[nodiscard]] bool any() const { return holders_count_.load(std::memory_order_relaxed) != 0; }

  /// Sets all marks, unbroken. False if they are to be firm and another holder's firm marks are in the way: none is set, and
  /// `waiter` is resumed when they go. Under the locks of all keys.
  [[nodiscard]] bool mark(const std::shared_ptr<Marks>& marks, bool firm, Waiter waiter);
  /// Removes them, if they are set, and resumes who waits for them.
  void unmark(const std::shared_ptr<Marks>& marks);
  [[nodiscard]] bool is_broken(const Marks& marks) const;

  /// Whether a commit of `written` has to wait for firm marks that are not `own`; then `waiter` is resumed when they go.
  [[nodiscard]] bool must_wait(const KeySet& written, const Marks* own, Waiter waiter);
  /// `written` is committed: breaks the marks that it meets, but for `own`.
  void committed(const KeySet& written, const Marks* own);

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Marks>> holders_;  ///< guarded by mutex_
  std::atomic<std::size_t> holders_count_{0};
};

}  // namespace ebbtide

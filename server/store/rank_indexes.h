// The rank indexes (collection/rank_index.h) of the large collections whose ranks clients ask for.
//
// An index describes exactly one state of a collection. Each command that changes a large collection also writes its header, in
// the same batch. So the seq of the header's entry identifies the state. A reader uses an index only if its seq is that of the
// header that the reader has found.
//
//   reader    open_at_...() ----------- walks ----------- close(points)
//   writer       locks   collect(batch)   commit   apply(changes, batch)   unlocks
//
// Invariants:
//   1. A writer calls collect() before its commit and apply() after it, both under the locks of the keys that it writes. So the
//      changes of one collection are applied in the order of their commits.
//   2. A reader makes a new index first, and then checks that its header is still the newest one. After its commit, a writer
//      looks for indexes that were made since collect(). So either the reader's header is from after the commit, or the writer
//      finds the new index.
//   3. While a reader walks, the index keeps the changes that the walk may not have seen. Only one reader at a time splits an
//      index.
//   4. If a batch contradicts an index, the index is dropped; the next reader makes a new one.
//
// While there is no index, a command that writes only loads two atomic numbers. Indexes are not stored: after a restart the first
// reader walks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <engine/memory_account.h>
#include <engine/write_batch.h>

#include "store/collection/large.h"
#include "store/collection/rank_index.h"

namespace ebbtide {

/// Thread-safe.
class RankIndexes {
 public:
  /// A collection with fewer elements gets no index: a walk over all of them takes some ten microseconds.
  static constexpr std::uint64_t kLeastElements = 256;
  /// All indexes together take at most 1 / kBudgetPart of the memory budget. There are at most kMostIndexes, one per collection.
  static constexpr std::uint64_t kBudgetPart = 32;
  static constexpr std::size_t kMostIndexes = 4096;
  /// If more changes happen during a walk, the walk does not split its index.
  static constexpr std::size_t kMostChanges = 65'536;

  ~RankIndexes();

  /// Sets the account of the indexes' memory. Call it before any other method.
  void start(std::shared_ptr<MemoryAccount> account) { account_ = std::move(account); }

  /// The state of a collection that a reader has found.
  struct State {
    DatabaseId database = 0;
    Bytes key;       ///< engine key
    SeqNum seq = 0;  ///< seq of the header's entry
    Generation generation = 0;
    ElementClass which{};  ///< the class whose elements are ranked
    std::uint64_t count = 0;
  };
  /// A reader's walk over a segment.
  struct Walk {
    RankIndex::Boundary from;
    std::uint64_t ticket = 0;  ///< argument of close(); 0: the walk does not split its segment
  };
  /// Returns where a walk to a name or rank begins; nullopt if there is no index of this state. If the collection has no index at
  /// all, makes one. `newest` must return the seq of the collection's newest header, or 0.
  std::optional<Walk> open_at_name(const State& state, Bytes name, const std::function<SeqNum()>& newest);
  std::optional<Walk> open_at_rank(const State& state, std::uint64_t rank, const std::function<SeqNum()>& newest);
  /// Ends a walk whose ticket is not 0. `points`: where to split the segment.
  void close(const State& state, const Walk& walk, std::span<const RankIndex::Point> points);

  /// The changes of indexed collections in one batch. Names point into the batch.
  struct Changes {
    struct Element {
      Bytes name;
      bool added = false;
    };
    struct OfCollection {
      std::string id;
      std::vector<Element> elements;
      std::uint32_t header_op = 0;  ///< index of the header's operation, if `header` is set
      std::optional<LargeHeader::Start> header;
      bool unknown = false;  ///< the batch changes the collection in a way that the index cannot follow
    };
    std::vector<OfCollection> collections;
    bool all_unknown = false;  ///< the batch empties or swaps databases
    std::uint64_t made = 0;    ///< number of indexes ever made, at the time of collect()
  };
  /// Returns the changes that a batch will make. Call it before the commit, since afterwards the batch's operations name trees,
  /// not databases.
  [[nodiscard]] Changes collect(const WriteBatch& batch) {
    Changes changes;
    changes.made = made_.load(std::memory_order_seq_cst);
    if (any_.load(std::memory_order_relaxed)) [[unlikely]]
      collect_changes(batch, &changes);
    return changes;
  }
  /// Applies the changes of a batch that was committed.
  void apply(Changes& changes, const WriteBatch& batch) {
    if (!changes.collections.empty() || changes.all_unknown || made_.load(std::memory_order_seq_cst) != changes.made) [[unlikely]]
      apply_changes(changes, batch);
  }
  /// Drops all indexes.
  void clear();
  /// Drops the indexes of the collections for which `is_written(database, key)` returns true.
  void drop_if(const std::function<bool(DatabaseId database, Bytes key)>& is_written);

 private:
  struct Entry {
    SeqNum seq = 0;
    Generation generation = 0;
    ElementClass which{};
    RankIndex index{0};
    std::uint64_t used = 0;                ///< tick of the last use
    std::uint64_t ticket = 0;              ///< ticket of the walk that will split this index; 0: none
    std::uint32_t mismatches = 0;          ///< number of successive readers that found a newer header than this index describes
    bool checked = false;                  ///< make() has checked that the header was the newest one
    bool changed = false;                  ///< a batch has changed the collection before that check
    std::uint64_t made = 0;                ///< serial number of this index among all that were ever made
    std::vector<RankIndex::Change> since;  ///< changes since the walk with `ticket` began
    std::size_t charged = 0;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  template <typename Find>
  std::optional<Walk> open(const State& state, const std::function<SeqNum()>& newest, Find find);
  /// Makes an index with one segment. Returns false if the budget has no room, or if the index is already outdated.
  bool make(const std::string& id, const State& state, const std::function<SeqNum()>& newest, std::unique_lock<std::mutex>& lock);
  /// Returns true if the key may have an index; false positives are possible. Takes no lock.
  [[nodiscard]] bool may_have(DatabaseId database, Bytes key) const {
    return counts_[slot_of(database, key)].load(std::memory_order_relaxed) != 0;
  }
  static std::size_t slot_of(DatabaseId database, Bytes key) { return (std::hash<Bytes>()(key) + database) % kSlots; }
  void collect_changes(const WriteBatch& batch, Changes* changes);
  void apply_changes(Changes& changes, const WriteBatch& batch);
  /// Returns false if the change contradicts the index.
  bool apply_to(Entry& entry, Changes::OfCollection& change, SeqNum first_seq);
  /// Drops indexes with a serial number above `made` whose keys the batch has written.
  void drop_made_since(const WriteBatch& batch, std::uint64_t made);
  Entries::iterator erase(Entries::iterator at);
  /// Charges the entry's current memory. Returns false if the budget has no room.
  bool recharge(Entry& entry);
  [[nodiscard]] std::uint64_t most_bytes() const;
  /// Drops the least recently used indexes until there is room for one more.
  void make_room();

  std::shared_ptr<MemoryAccount> account_;
  static constexpr std::size_t kSlots = 4096;
  std::atomic<bool> any_{false};
  std::atomic<std::uint64_t> made_{0};
  std::array<std::atomic<std::uint32_t>, kSlots> counts_{};  ///< number of indexes, by a hash of the key
  std::mutex mutex_;
  // Guarded by mutex_.
  Entries entries_;
  std::size_t bytes_ = 0;
  std::uint64_t ticks_ = 0, tickets_ = 0;
};

}  // namespace ebbtide

// The rank indexes (collection/rank_index.h) of the large collections whose ranks clients ask for.
//
// An index is exact for one state of a collection. Each command that changes a large collection writes its header, in the same
// batch. So the seq of the header's entry names the state, and a reader uses an index only if it has the seq of the header that
// the reader has found.
//
//   reader    open_at_...() ----------- walks ----------- close(points)
//   writer       locks   collect(batch)   commit   apply(changes, batch)   unlocks
//
// Invariants:
//   1. A writer calls collect() before its commit and apply() after it, both under the locks of the keys that it writes. So the
//      changes of one collection are applied in the order of their commits.
//   2. A reader makes a new index first, and then checks that its header is still the newest one. A writer looks once more after
//      its commit for indexes that were made since collect(). So the commit is in the reader's header, or its writer finds the index.
//   3. While a reader walks, the index keeps the changes that the walk may not have seen. Only one reader at a time splits.
//   4. If a batch does not fit to an index, the index is dropped: the next reader makes a new one.
//
// While there is no index a command that writes loads two atomic numbers. Nothing is stored: after a restart the first reader walks.
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
  /// A collection with fewer elements has no index: a walk over all takes some ten microseconds.
  static constexpr std::uint64_t kLeastElements = 256;
  /// All indexes together have at most this part of the memory budget, and this many collections.
  static constexpr std::uint64_t kBudgetPart = 32;
  static constexpr std::size_t kMostIndexes = 4096;
  /// A walk during which more changes happen splits nothing.
  static constexpr std::size_t kMostChanges = 65'536;

  ~RankIndexes();

  /// Sets the account of the indexes' memory. Called before any other method.
  void start(std::shared_ptr<MemoryAccount> account) { account_ = std::move(account); }

  /// A collection in the state that a reader has found.
  struct State {
    DatabaseId database = 0;
    Bytes key;       ///< engine key
    SeqNum seq = 0;  ///< of the header's entry
    Generation generation = 0;
    ElementClass which{};  ///< the class whose elements are ranked
    std::uint64_t count = 0;
  };
  /// A reader's walk over a segment.
  struct Walk {
    RankIndex::Boundary from;
    std::uint64_t ticket = 0;  ///< for close(); 0: the walk splits nothing
  };
  /// Returns where a walk to a name or rank begins; nullopt if there is no index of that state. Without any index of the collection
  /// makes one; `newest` then returns the seq of the collection's newest header, or 0.
  std::optional<Walk> open_at_name(const State& state, Bytes name, const std::function<SeqNum()>& newest);
  std::optional<Walk> open_at_rank(const State& state, std::uint64_t rank, const std::function<SeqNum()>& newest);
  /// Ends a walk that has a ticket.
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
      bool unknown = false;  ///< the batch changes the collection in another way
    };
    std::vector<OfCollection> collections;
    bool all_unknown = false;  ///< the batch empties or swaps databases
    std::uint64_t made = 0;    ///< number of indexes that were ever made, as of collect()
  };
  /// Returns the changes that a batch will make. Called before the commit, while its operations name databases.
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
    std::uint64_t ticket = 0;              ///< of the walk that will split; 0: none
    std::uint32_t mismatches = 0;          ///< readers in a row that found a newer header
    bool checked = false;                  ///< make() has checked that the header was the newest one
    bool changed = false;                  ///< a batch has changed the collection before that
    std::uint64_t made = 0;                ///< its number among all indexes that were ever made
    std::vector<RankIndex::Change> since;  ///< changes since that walk began
    std::size_t charged = 0;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  template <typename Find>
  std::optional<Walk> open(const State& state, const std::function<SeqNum()>& newest, Find find);
  /// Makes an index with one segment, and checks that it is not outdated already.
  bool make(const std::string& id, const State& state, const std::function<SeqNum()>& newest, std::unique_lock<std::mutex>& lock);
  /// Returns true if the key may have an index. Takes no lock.
  [[nodiscard]] bool may_have(DatabaseId database, Bytes key) const {
    return counts_[slot_of(database, key)].load(std::memory_order_relaxed) != 0;
  }
  static std::size_t slot_of(DatabaseId database, Bytes key) { return (std::hash<Bytes>()(key) + database) % kSlots; }
  void collect_changes(const WriteBatch& batch, Changes* changes);
  void apply_changes(Changes& changes, const WriteBatch& batch);
  /// Returns false if the change does not fit to the index.
  bool apply_to(Entry& entry, Changes::OfCollection& change, SeqNum first_seq);
  /// Drops the indexes made after the first `made` ones whose keys the batch has written.
  void drop_made_since(const WriteBatch& batch, std::uint64_t made);
  Entries::iterator erase(Entries::iterator at);
  /// Charges the entry's memory. Returns false if there is no room.
  bool recharge(Entry& entry);
  [[nodiscard]] std::uint64_t most_bytes() const;
  /// Drops the least recently used indexes until one more has room.
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

#include "store/rank_indexes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ebbtide {
namespace {

/// If this many successive readers have found a header other than the index's, the index has missed a change, and is made again.
/// A single reader may only have read between a commit and its apply().
constexpr std::uint32_t kMostMismatches = 8;
/// Memory of an entry, without its index and its changes.
constexpr std::size_t kEntryBytes = 256;
/// The most memory of a point, without its name.
constexpr std::size_t kRankPointBytes = 64;

std::string id_of(DatabaseId database, Bytes key) {
  std::string id;
  id.reserve(sizeof(database) + key.size());
  for (std::size_t i = 0; i < sizeof(database); ++i) id.push_back(static_cast<char>(database >> (8 * i)));
  id.append(key);
  return id;
}

std::pair<DatabaseId, Bytes> parts_of(Bytes id) {
  DatabaseId database = 0;
  for (std::size_t i = 0; i < sizeof(database); ++i) database |= DatabaseId{static_cast<unsigned char>(id[i])} << (8 * i);
  return {database, id.substr(sizeof(database))};
}

/// The parts of the key of an element.
struct ElementName {
  Bytes collection, name;
  Generation generation = 0;
  ElementClass which{};
};

std::optional<ElementName> element_of(Bytes key) {
  constexpr std::size_t kMarks = 2, kGeneration = 8, kClass = 1;
  ElementName element{.collection = main_key_of(key), .name = {}};
  const std::size_t at = element.collection.size() + kMarks;
  if (key.size() < at + kGeneration + kClass) return std::nullopt;
  for (std::size_t i = 0; i < kGeneration; ++i) {
    element.generation = element.generation << 8 | static_cast<unsigned char>(key[at + i]);
  }
  element.which = static_cast<ElementClass>(key[at + kGeneration]);
  element.name = key.substr(at + kGeneration + kClass);
  return element;
}

}  // namespace

RankIndexes::~RankIndexes() { clear(); }

// --- readers

std::optional<RankIndexes::Walk> RankIndexes::open_at_name(const State& state, Bytes name,
                                                           const std::function<SeqNum()>& newest) {
  return open(state, newest, [&](const RankIndex& index) { return index.at_name(name); });
}

std::optional<RankIndexes::Walk> RankIndexes::open_at_rank(const State& state, std::uint64_t rank,
                                                           const std::function<SeqNum()>& newest) {
  return open(state, newest, [&](const RankIndex& index) { return index.at_rank(rank); });
}

template <typename Find>
std::optional<RankIndexes::Walk> RankIndexes::open(const State& state, const std::function<SeqNum()>& newest, Find find) {
  if (state.count < kLeastElements || account_ == nullptr) return std::nullopt;
  const std::string id = id_of(state.database, state.key);
  std::unique_lock lock(mutex_);
  auto found = entries_.find(id);
  if (found != entries_.end() && (found->second.seq != state.seq || !found->second.checked)) {
    Entry& other = found->second;
    if (other.seq >= state.seq || ++other.mismatches < kMostMismatches) return std::nullopt;
    erase(found);
    found = entries_.end();
  }
  if (found == entries_.end()) {
    if (!make(id, state, newest, lock)) return std::nullopt;
    found = entries_.find(id);
  }
  Entry& entry = found->second;
  entry.used = ++ticks_;
  entry.mismatches = 0;
  Walk walk{.from = find(entry.index)};
  if (entry.ticket == 0 && walk.from.elements > 2 * RankIndex::kSegmentElements) walk.ticket = entry.ticket = ++tickets_;
  return walk;
}

bool RankIndexes::make(const std::string& id, const State& state, const std::function<SeqNum()>& newest,
                       std::unique_lock<std::mutex>& lock) {
  make_room();
  Entry entry;
  entry.seq = state.seq;
  entry.generation = state.generation;
  entry.which = state.which;
  entry.index = RankIndex(state.count);
  if (!recharge(entry)) return false;
  const std::uint64_t made = made_.load(std::memory_order_relaxed) + 1;
  entry.made = made;
  entries_.emplace(id, std::move(entry));
  counts_[slot_of(state.database, state.key)].fetch_add(1, std::memory_order_seq_cst);
  any_.store(true, std::memory_order_seq_cst);
  made_.fetch_add(1, std::memory_order_seq_cst);
  lock.unlock();
  const bool is_newest = newest() == state.seq;
  lock.lock();
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.made != made) return false;  // another reader has replaced this index meanwhile
  found->second.checked = is_newest && !found->second.changed;
  if (found->second.checked) return true;
  erase(found);
  return false;
}

void RankIndexes::close(const State& state, const Walk& walk, std::span<const RankIndex::Point> points) {
  if (walk.ticket == 0) return;
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(id_of(state.database, state.key));
  if (found == entries_.end() || found->second.ticket != walk.ticket) return;
  Entry& entry = found->second;
  std::size_t bytes = 0;
  for (const RankIndex::Point& point : points) bytes += point.name.size() + kRankPointBytes;
  if (bytes_ + bytes <= most_bytes()) (void)entry.index.split(walk.from.name, points, entry.since);
  entry.ticket = 0;
  entry.since.clear();
  entry.since.shrink_to_fit();
  if (!recharge(entry)) erase(found);
}

// --- writers

void RankIndexes::collect_changes(const WriteBatch& batch, Changes* changes) {
  std::unique_lock lock(mutex_, std::defer_lock);
  Changes::OfCollection* last = nullptr;
  DatabaseId last_database = 0;
  std::optional<Bytes> last_key;
  // Returns the changes of a collection; null if it has no index. Operations on one collection are mostly consecutive.
  const auto of = [&](DatabaseId database, Bytes key) -> Changes::OfCollection* {
    if (last_key == key && last_database == database) return last;
    if (!may_have(database, key)) return nullptr;
    if (!lock.owns_lock()) lock.lock();
    last_database = database;
    last_key = key;
    last = nullptr;
    std::string id = id_of(database, key);
    if (!entries_.contains(id)) return last;
    for (auto& each : changes->collections) {
      if (each.id == id) last = &each;
    }
    if (last != nullptr) return last;
    last = &changes->collections.emplace_back();
    last->id = std::move(id);
    return last;
  };
  std::size_t cursor = 0;
  WriteBatch::Op op;
  for (std::uint32_t i = 0; batch.next_op(&cursor, &op); ++i) {
    switch (op.kind) {
      case OpKind::kPut:
      case OpKind::kTombstone: {
        const auto element = op.element ? element_of(op.key) : std::nullopt;
        Changes::OfCollection* const change = of(op.tree, element ? element->collection : op.key);
        if (change == nullptr) break;
        const Entry& entry = entries_.find(change->id)->second;
        if (!element || element->generation != entry.generation) {
          change->unknown = true;
        } else if (element->which == entry.which) {
          change->elements.push_back({element->name, op.kind == OpKind::kPut});
        }
        break;
      }
      case OpKind::kHeader: {
        Changes::OfCollection* const change = of(op.tree, op.key);
        if (change == nullptr) break;
        change->header = LargeHeader::start_of(op.value);
        change->header_op = i;
        break;
      }
      case OpKind::kRangeTombstone: {
        // A longer range deletes the header, too, and then no reader uses the index.
        Changes::OfCollection* const change = of(op.tree, main_key_of(op.key));
        if (change != nullptr) change->unknown = true;
        break;
      }
      case OpKind::kFlushDatabase:
      case OpKind::kSwapDatabases:
        changes->all_unknown = true;
        break;
      default:
        break;
    }
  }
}

void RankIndexes::apply_changes(Changes& changes, const WriteBatch& batch) {
  if (changes.all_unknown) return clear();
  std::lock_guard lock(mutex_);
  for (Changes::OfCollection& change : changes.collections) {
    const auto found = entries_.find(change.id);
    if (found != entries_.end() && !apply_to(found->second, change, batch.first_seq())) erase(found);
  }
  if (made_.load(std::memory_order_relaxed) != changes.made) drop_made_since(batch, changes.made);
}

bool RankIndexes::apply_to(Entry& entry, Changes::OfCollection& change, SeqNum first_seq) {
  entry.changed = true;
  if (change.unknown || !change.header || change.header->generation != entry.generation) return false;
  const SeqNum seq = first_seq + change.header_op;
  if (seq <= entry.seq) return true;  // the index was made after this commit
  for (const Changes::Element& element : change.elements) {
    if (element.added) {
      entry.index.add(element.name);
    } else if (!entry.index.remove(element.name)) {
      return false;
    }
  }
  if (entry.index.count() != change.header->count) return false;
  entry.seq = seq;
  if (entry.ticket == 0) return true;
  if (entry.since.size() + change.elements.size() > kMostChanges) {
    entry.ticket = 0;
    entry.since.clear();
  } else {
    for (const Changes::Element& element : change.elements) entry.since.push_back({std::string(element.name), element.added});
  }
  return true;
}

void RankIndexes::drop_made_since(const WriteBatch& batch, std::uint64_t made) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    bool written = false;
    if (at->second.made > made) {
      const Bytes key = parts_of(at->first).second;
      std::size_t cursor = 0;
      for (WriteBatch::Op op; !written && batch.next_op(&cursor, &op);) written = main_key_of(op.key) == key;
    }
    at = written ? erase(at) : std::next(at);
  }
}

void RankIndexes::clear() {
  std::lock_guard lock(mutex_);
  while (!entries_.empty()) erase(entries_.begin());
}

void RankIndexes::drop_if(const std::function<bool(DatabaseId database, Bytes key)>& is_written) {
  std::lock_guard lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto [database, key] = parts_of(at->first);
    at = is_written(database, key) ? erase(at) : std::next(at);
  }
}

// --- memory

std::uint64_t RankIndexes::most_bytes() const {
  return account_->budget() == 0 ? ~std::uint64_t{0} : account_->budget() / kBudgetPart;
}

RankIndexes::Entries::iterator RankIndexes::erase(Entries::iterator at) {
  const auto [database, key] = parts_of(at->first);
  counts_[slot_of(database, key)].fetch_sub(1, std::memory_order_relaxed);
  account_->release(MemoryAccount::Kind::kCommands, at->second.charged);
  bytes_ -= at->second.charged;
  const auto next = entries_.erase(at);
  if (entries_.empty()) any_.store(false, std::memory_order_relaxed);
  return next;
}

bool RankIndexes::recharge(Entry& entry) {
  const std::size_t bytes = kEntryBytes + entry.index.memory_bytes();
  if (bytes > entry.charged) {
    const std::size_t more = bytes - entry.charged;
    if (bytes_ + more > most_bytes()) return false;
    if (!account_->try_charge(MemoryAccount::Kind::kCommands, more)) return false;
  } else {
    account_->release(MemoryAccount::Kind::kCommands, entry.charged - bytes);
  }
  bytes_ = bytes_ + bytes - entry.charged;
  entry.charged = bytes;
  return true;
}

void RankIndexes::make_room() {
  while (!entries_.empty() && (entries_.size() >= kMostIndexes || bytes_ > most_bytes() / 2)) {
    erase(std::min_element(entries_.begin(), entries_.end(),
                           [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
}

}  // namespace ebbtide

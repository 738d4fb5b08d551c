// The order in which an insertion becomes visible:
//
// A new key goes into the ordered index first, then into the hash index. The ordered index decides which node a key has. So if
// two writers do not find the key in the hash index, both use the same node. A node in the hash index is always in the ordered
// index, too. So a writer that finds a node in the hash index only adds its version and returns. With the other order, such an
// overwrite could return before iterators see the key.
#include "memtable/memtable.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <engine/charged_value.h>

#include "base/arena.h"
#include "base/invariant.h"
#include "deletes/tombstone_set.h"
#include "memtable/btree.h"
#include "memtable/hash_index.h"
#include "memtable/key_node.h"

namespace ebbtide {
namespace {

// Assumed bytes of an average key with its node, version and value. With four keys per bucket, the hash index then takes 1/16 of
// a memtable.
constexpr std::size_t kExpectedBytesPerKey = 256;

// A block is at most 1/32 of the memtable, so that one unused block does not make a small memtable count as full.
std::size_t block_bytes(std::size_t expected_bytes) {
  return std::clamp<std::size_t>(expected_bytes / 32, std::size_t{4} << 10, std::size_t{2} << 20);
}

/// Lowers `value` to `candidate` if `candidate` is smaller. 0 means "none" for both.
void lower(std::atomic<Millis>& value, Millis candidate) {
  if (candidate == 0) return;
  Millis now = value.load(std::memory_order_relaxed);
  while ((now == 0 || candidate < now) && !value.compare_exchange_weak(now, candidate, std::memory_order_relaxed)) {
  }
}

/// A shared value, kept alive until the memtable is destroyed.
struct KeptValue {
  std::shared_ptr<const std::string> value;
  KeptValue* next;
};

}  // namespace

struct MemTable::Impl {
  explicit Impl(std::size_t expected_bytes)
      : arena(block_bytes(expected_bytes)), hash(expected_bytes / kExpectedBytesPerKey, arena), ordered(arena) {}
  ~Impl() {
    for (KeptValue* kept = kept_values.load(); kept != nullptr;) {
      KeptValue* next = kept->next;
      kept->~KeptValue();
      kept = next;
    }
  }

  const std::shared_ptr<const std::string>* keep(const Entry& entry);
  static void add_version(KeyNode* node, VersionNode* version);

  Arena arena;
  EntryPlace place;  // the position of a staged batch in the order of writes; constant once readers have the memtable
  HashIndex hash;
  BTree ordered;
  TombstoneSet ranges;
  RecordLog records;
  // Every insertion writes the following members, so they are on other cache lines than the members that readers need.
  alignas(64) std::atomic<KeptValue*> kept_values{nullptr};
  std::atomic<std::size_t> kept_bytes{0};
  std::atomic<std::size_t> charged_bytes{0};
  std::atomic<std::uint64_t> entries{0};
  std::atomic<std::uint64_t> tombstones{0};
  std::atomic<Millis> oldest_birth{0};
  std::atomic<Millis> min_expiry{0};
  std::atomic<bool> collections{false}, headers{false};
};

const std::shared_ptr<const std::string>* MemTable::Impl::keep(const Entry& entry) {
  auto* kept = new (arena.allocate(sizeof(KeptValue))) KeptValue;
  // The buffer is shared only if the value is the whole buffer, since a version stores no offset into it.
  const bool whole =
      entry.shared != nullptr && (*entry.shared)->data() == entry.value.data() && (*entry.shared)->size() == entry.value.size();
  kept->value = whole ? *entry.shared : std::make_shared<const std::string>(entry.value);
  const bool charged = keep_charge(kept->value, MemoryAccount::Kind::kMemTables);
  (charged ? charged_bytes : kept_bytes).fetch_add(kept->value->size(), std::memory_order_relaxed);
  kept->next = kept_values.load(std::memory_order_relaxed);
  while (!kept_values.compare_exchange_weak(kept->next, kept, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return &kept->value;
}

void MemTable::Impl::add_version(KeyNode* node, VersionNode* version) {
  std::atomic<VersionNode*>* link = &node->newest;
  for (;;) {
    VersionNode* older = link->load(std::memory_order_acquire);
    while (older != nullptr && older->seq() > version->seq()) {
      link = &older->older;
      older = link->load(std::memory_order_acquire);
    }
    ASSERT_MSG(older == nullptr || older->seq() != version->seq(), "two versions of a key have the same seq");
    version->older.store(older, std::memory_order_relaxed);
    if (link->compare_exchange_strong(older, version, std::memory_order_release, std::memory_order_relaxed)) return;
  }
}

MemTable::MemTable(std::size_t expected_bytes) : impl_(std::make_unique<Impl>(expected_bytes)) {}
MemTable::~MemTable() = default;

void MemTable::insert(const LookupKey& key, const Entry& entry) {
  Impl& m = *impl_;
  ASSERT(!entry.is_large() && entry.seq <= kMaxSeqNum && m.place.first_seq == 0);
  const auto* shared = entry.value.size() > kLargeValueBytes ? m.keep(entry) : nullptr;
  const std::size_t version_bytes = VersionNode::bytes_for(entry, shared != nullptr);
  if (KeyNode* node = m.hash.find_to_write(key)) {
    Impl::add_version(node, VersionNode::create(m.arena.allocate(version_bytes), entry, shared));
  } else {
    const std::size_t key_bytes = KeyNode::bytes_for(key.key.size());
    char* memory = m.arena.allocate(key_bytes + version_bytes);
    KeyNode* mine = KeyNode::create(memory, key.key);
    VersionNode* version = VersionNode::create(memory + key_bytes, entry, shared);
    mine->newest.store(version, std::memory_order_relaxed);
    node = m.ordered.insert(mine);
    m.hash.add(key, node);
    if (node != mine) Impl::add_version(node, version);  // another thread has added the key; `mine` stays in the arena, unused
  }
  m.entries.fetch_add(1, std::memory_order_relaxed);
  if (entry.is_tombstone()) {
    m.tombstones.fetch_add(1, std::memory_order_relaxed);
    lower(m.oldest_birth, entry.birth());
  } else if (entry.kind != EntryKind::kValue) {
    m.collections.store(true, std::memory_order_relaxed);
    if (entry.kind == EntryKind::kHeader) m.headers.store(true, std::memory_order_relaxed);
  }
  lower(m.oldest_birth, entry.debt);
  lower(m.min_expiry, entry.expiry);
}

void MemTable::insert_range(RangeTombstone tombstone) {
  lower(impl_->oldest_birth, tombstone.birth);
  impl_->ranges.insert(std::move(tombstone));
}

void MemTable::insert_record(const Record& record) {
  lower(impl_->oldest_birth, record.birth);
  impl_->records.insert(record);
}

void MemTable::set_place(const EntryPlace& place) {
  ASSERT(place.first_seq != 0 && impl_->place.first_seq == 0);
  impl_->place = place;
  if (tombstones() != 0 || oldest_birth() != 0) lower(impl_->oldest_birth, place.time);  // replaces kUnbornDebt by the time
}

bool MemTable::get(const LookupKey& key, SeqNum view_seq, Entry* out) const {
  const KeyNode* node = impl_->hash.find(key);
  if (node == nullptr) return false;
  const EntryPlace& place = impl_->place;
  if (view_seq < place.first_seq) return false;
  const SeqNum up_to = view_seq - place.first_seq;
  const VersionNode* version = node->newest.load(std::memory_order_acquire);
  while (version != nullptr && version->seq() > up_to) version = version->older.load(std::memory_order_acquire);
  if (version == nullptr) return false;
  out->key = node->key();
  version->read(out);
  if (place.first_seq != 0) [[unlikely]]
    place.settle(out);
  return true;
}

bool MemTable::prefetch(const LookupKey& key, int stage) const { return impl_->hash.prefetch(key, stage); }

bool MemTable::newest_cover(Bytes key, SeqNum view_seq, FragmentedRangeTombstones::Cover* out) const {
  return !impl_->ranges.empty() && impl_->ranges.newest_cover(key, view_seq, out);
}
std::vector<SharedTombstones> MemTable::range_tombstone_runs() const { return impl_->ranges.runs(); }
SharedTombstones MemTable::range_tombstones() const { return impl_->ranges.fragment_all(); }
const RecordLog& MemTable::records() const { return impl_->records; }

std::size_t MemTable::memory_bytes() const {
  const Impl& m = *impl_;
  return sizeof(Impl) + m.arena.memory_bytes() + m.hash.memory_bytes() + m.ranges.memory_bytes() + m.records.memory_bytes() +
         m.kept_bytes.load(std::memory_order_relaxed) + charged_bytes();
}
std::size_t MemTable::charged_bytes() const { return impl_->charged_bytes.load(std::memory_order_relaxed); }
std::uint64_t MemTable::entries() const { return impl_->entries.load(std::memory_order_relaxed); }
std::uint64_t MemTable::tombstones() const { return impl_->tombstones.load(std::memory_order_relaxed); }
Millis MemTable::oldest_birth() const { return impl_->oldest_birth.load(std::memory_order_relaxed); }
Millis MemTable::min_expiry() const {
  const Millis smallest = impl_->min_expiry.load(std::memory_order_relaxed);
  // For a staged batch: settle() turns an entry that had expired by the batch's time into a delete, so no expiry is earlier.
  return smallest == 0 ? 0 : std::max(smallest, impl_->place.time);
}
bool MemTable::has_collections() const { return impl_->collections.load(std::memory_order_relaxed); }
bool MemTable::has_headers() const { return impl_->headers.load(std::memory_order_relaxed); }
bool MemTable::empty() const { return entries() == 0 && impl_->ranges.empty() && impl_->records.empty(); }

namespace {

/// Reads the ordered index key by key, and each key's chain version by version. A chain is linked only from newer to older
/// versions. So an iterator that moves backward collects the versions of a key once, when it enters the key, and a long chain
/// costs linear time.
class MemTableIterator final : public InternalIterator {
 public:
  MemTableIterator(const BTree& index, const EntryPlace& place) : cursor_(&index), place_(place) {}

  void seek_to_first() override {
    cursor_.seek_to_first();
    show_newest();
  }
  void seek_to_last() override {
    cursor_.seek_to_last();
    show_oldest();
  }
  void seek(Bytes key) override {
    cursor_.seek(key);
    show_newest();
  }
  void seek_before(Bytes key) override {
    cursor_.seek_before(key);
    show_oldest();
  }
  void next() override {
    DEBUG_ASSERT(valid_);
    const VersionNode* older = version_->older.load(std::memory_order_acquire);
    if (older == nullptr) {
      cursor_.next();
      show_newest();
      return;
    }
    if (collected_) newer_.push_back(version_);
    show(older);
  }
  void prev() override {
    DEBUG_ASSERT(valid_);
    if (!collected_) collect_newer_than(version_);
    if (newer_.empty()) {
      cursor_.prev();
      show_oldest();
      return;
    }
    const VersionNode* version = newer_.back();
    newer_.pop_back();
    show(version);
  }

 private:
  void show(const VersionNode* version) {
    version_ = version;
    version->read(&entry_);
    if (place_.first_seq != 0) place_.settle(&entry_);
  }
  /// Makes the cursor's key the current one; returns false if the cursor is on no key.
  bool enter_key() {
    newer_.clear();
    collected_ = false;
    const KeyNode* node = cursor_.node();
    valid_ = node != nullptr;
    if (valid_) entry_.key = node->key();
    return valid_;
  }
  void show_newest() {
    if (enter_key()) show(cursor_.node()->newest.load(std::memory_order_acquire));
  }
  void show_oldest() {
    if (!enter_key()) return;
    collect_newer_than(nullptr);
    const VersionNode* oldest = newer_.back();
    newer_.pop_back();
    show(oldest);
  }
  void collect_newer_than(const VersionNode* version) {
    const VersionNode* v = cursor_.node()->newest.load(std::memory_order_acquire);
    for (; v != version; v = v->older.load(std::memory_order_acquire)) newer_.push_back(v);
    collected_ = true;
  }

  BTree::Cursor cursor_;
  const EntryPlace place_;
  const VersionNode* version_ = nullptr;
  // If collected_ is true: the versions of the current key that are newer than version_, newest first.
  std::vector<const VersionNode*> newer_;
  bool collected_ = false;
};

}  // namespace

std::unique_ptr<InternalIterator> MemTable::new_iterator() const {
  return std::make_unique<MemTableIterator>(impl_->ordered, impl_->place);
}

}  // namespace ebbtide

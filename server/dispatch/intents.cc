#include "dispatch/intents.h"

#include <algorithm>
#include <utility>

#include <engine/read_view.h>

#include "resp/client.h"
#include "store/collection/large.h"

namespace ebbtide {
namespace {

std::uint64_t mixed(DatabaseId database, std::uint64_t hash) {
  return hash ^ (static_cast<std::uint64_t>(database) * 0x9e3779b97f4a7c15u);
}

template <typename T>
void sort_unique(std::vector<T>* values) {
  std::sort(values->begin(), values->end());
  values->erase(std::unique(values->begin(), values->end()), values->end());
}

/// Returns true if two ascending lists have a common value. Walks both; if one is much shorter, looks up its values in the other.
template <typename T>
bool share(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() > b.size()) return share(b, a);
  constexpr std::size_t kMuchShorter = 16;
  if (a.size() * kMuchShorter < b.size()) {
    return std::any_of(a.begin(), a.end(), [&b](const T& value) { return std::binary_search(b.begin(), b.end(), value); });
  }
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i == *j) return true;
    *i < *j ? ++i : ++j;
  }
  return false;
}

}  // namespace

KeySet::KeySet(const WriteBatch& batch) {
  std::size_t cursor = 0;
  for (WriteBatch::Op op; batch.next_op(&cursor, &op);) {
    switch (op.kind) {
      case OpKind::kPut:
      case OpKind::kHeader:
      case OpKind::kTombstone:
        if (!op.element) add(op.tree, hash_key(op.key));
        break;
      case OpKind::kRangeTombstone:
        if (collection_of_range(op.key, op.end)) {
          add(op.tree, hash_key(main_key_of(op.key)));
          break;
        }
        [[fallthrough]];
      case OpKind::kSecondaryDelete:
        add_all(op.tree);
        break;
      case OpKind::kFlushDatabase:
        add_all(static_cast<DatabaseId>(op.lo));
        break;
      case OpKind::kSwapDatabases:
        add_all(static_cast<DatabaseId>(op.lo));
        add_all(static_cast<DatabaseId>(op.hi));
        break;
      case OpKind::kCreateTree:
        break;  // no handler writes such operations
    }
  }
  seal();
}

void KeySet::add(DatabaseId database, std::uint64_t hash) {
  keys_.push_back(mixed(database, hash));
  if (databases_.empty() || databases_.back() != database) databases_.push_back(database);
}

void KeySet::add_all(DatabaseId database) {
  whole_.push_back(database);
  databases_.push_back(database);
}

void KeySet::add_all_of(const KeySet& other) {
  keys_.insert(keys_.end(), other.keys_.begin(), other.keys_.end());
  databases_.insert(databases_.end(), other.databases_.begin(), other.databases_.end());
  whole_.insert(whole_.end(), other.whole_.begin(), other.whole_.end());
}

void KeySet::seal() {
  sort_unique(&keys_);
  sort_unique(&databases_);
  sort_unique(&whole_);
}

bool KeySet::meets(const KeySet& other) const {
  return share(keys_, other.keys_) || covers_some(other) || other.covers_some(*this);
}

bool KeySet::has_keys_of(const KeySet& other) const {
  return std::includes(keys_.begin(), keys_.end(), other.keys_.begin(), other.keys_.end());
}

bool KeySet::covers_some(const KeySet& other) const { return share(whole_, other.databases_); }

bool Intents::mark(const std::shared_ptr<Marks>& marks, bool firm, Waiter waiter) {
  std::lock_guard lock(mutex_);
  for (const auto& holder : holders_) {
    if (!firm || !holder->firm || !holder->keys.meets(marks->keys)) continue;
    holder->waiters.push_back(waiter);
    return false;
  }
  marks->set = true;
  marks->firm = firm;
  marks->broken = false;
  holders_.push_back(marks);
  holders_count_.store(holders_.size(), std::memory_order_relaxed);
  return true;
}

void Intents::unmark(const std::shared_ptr<Marks>& marks) {
  std::vector<Waiter> waiters;
  {
    std::lock_guard lock(mutex_);
    if (!marks->set) return;
    marks->set = false;
    waiters.swap(marks->waiters);
    std::erase(holders_, marks);
    holders_count_.store(holders_.size(), std::memory_order_relaxed);
  }
  for (const Waiter& waiter : waiters) waiter.loop->resume(waiter.client_id);
}

bool Intents::is_broken(const Marks& marks) const {
  std::lock_guard lock(mutex_);
  return marks.broken;
}

bool Intents::must_wait(const KeySet& written, const Marks* own, Waiter waiter) {
  std::lock_guard lock(mutex_);
  for (const auto& holder : holders_) {
    if (holder.get() == own || !holder->firm || holder->broken) continue;
    if (written.covers_some(holder->keys) || !written.meets(holder->keys)) continue;
    holder->waiters.push_back(waiter);
    return true;
  }
  return false;
}

void Intents::committed(const KeySet& written, const Marks* own) {
  std::lock_guard lock(mutex_);
  for (const auto& holder : holders_) {
    if (holder.get() == own || holder->lasting) continue;
    holder->broken = holder->broken || written.covers_some(holder->keys) || written.meets(holder->keys);
  }
}

}  // namespace ebbtide

#include "dispatch/expiry_watch.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <engine/collection_keys.h>
#include <engine/db.h>
#include <engine/read_view.h>

#include "store/collection/large.h"

namespace ebbtide {
namespace {

/// Estimated memory of a key in touched_, without the key's bytes.
constexpr std::size_t kTouchedBytes = 64;
constexpr Millis kForever = std::numeric_limits<Millis>::max();

std::string id_of(DatabaseId database, Bytes key) {
  std::string id;
  id.reserve(key.size() + 2);
  id += static_cast<char>(database >> 8);
  id += static_cast<char>(database & 0xff);
  id += key;
  return id;
}

ExpiryWatch::Key key_of(const std::string& id) {
  const auto byte = [&id](std::size_t i) { return static_cast<DatabaseId>(static_cast<unsigned char>(id[i])); };
  return {static_cast<DatabaseId>(byte(0) << 8 | byte(1)), id.substr(2)};
}

/// Returns true if the header's entry expires because the hash's last field expires at that time.
bool ends_with_fields(const WriteBatch::Op& op) {
  if (op.expiry == 0) return false;
  const auto header = LargeHeader::decode(op.value);
  return header.is_ok() && header->expiries && header->expiries->key_expiry != op.expiry;
}

}  // namespace

std::string ExpiryWatch::end_of_fields(Bytes key) { return element_range(key).start; }

std::optional<Bytes> ExpiryWatch::hash_of_field(Bytes key) {
  return is_field_expiry(key) ? std::optional(main_key_of(key)) : std::nullopt;
}

void ExpiryWatch::set_mode(bool on, bool sweeping, Millis now) {
  std::lock_guard lock(mutex_);
  const bool was_on = on_.load(std::memory_order_relaxed);
  on_.store(on, std::memory_order_relaxed);
  if (!on) {
    sweeping_ = false;
    return forget();
  }
  if (sweeping && !sweeping_) horizon_ = now;
  if (!sweeping && (sweeping_ || !was_on)) horizon_ = kForever;
  sweeping_ = sweeping;
}

void ExpiryWatch::add(const std::string& id, Millis expiry, Millis known) {
  remove(id);
  if (expiry > known && !under_way_) return;
  order_.emplace(expiry, &expiries_.emplace(id, expiry).first->first);
  bytes_ += id.size();
  while (order_.size() > kMaxKeys || bytes_ > kMaxBytes) {
    // If more keys than the watch can hold expire at the earliest known moment, some of them are dropped, and are never reported.
    const Millis first = order_.begin()->first, last = std::prev(order_.end())->first, known = first == last ? last : last - 1;
    if (sweeping_) horizon_ = std::min(horizon_, known);
    full_ = std::min(full_, known);
    erase_last();
  }
}

void ExpiryWatch::remove(const std::string& id) {
  if (const auto it = expiries_.find(id); it != expiries_.end()) erase(order_.find({it->second, &it->first}));
}

ExpiryWatch::Order::iterator ExpiryWatch::erase(Order::iterator it) {
  const auto entry = expiries_.find(*it->second);
  bytes_ -= entry->first.size();
  expiries_.erase(entry);
  return order_.erase(it);
}

void ExpiryWatch::written(DatabaseId database, Bytes key, Millis expiry, Millis time) {
  const std::string id = id_of(database, key);
  std::lock_guard lock(mutex_);
  if (!on()) return;
  if (under_way_ && !stale_ && touched_.insert(id).second) touched_bytes_ += kTouchedBytes + id.size();
  if (touched_bytes_ > kMaxBytes) make_stale();
  expiry == 0 ? remove(id) : add(id, expiry, std::max(horizon_, time));
}

void ExpiryWatch::seen(DatabaseId database, Bytes key, Millis expiry) {
  if (expiry == 0) return;
  const std::string id = id_of(database, key);
  std::lock_guard lock(mutex_);
  if (on()) add(id, expiry, horizon_);
}

void ExpiryWatch::seen(DatabaseId database, Bytes key, const Found& found, Millis now) {
  constexpr Millis kUnknown = 1000;
  if (found.kind != EntryKind::kHeader) return seen(database, key, found.expiry);
  const auto header = LargeHeader::decode(found.value);
  if (!header.is_ok() || !header->expiries) return seen(database, key, found.expiry);
  seen(database, key, header->expiries->key_expiry);
  const Millis due = header->counts_expired(now) ? now + kUnknown : header->expiries->soonest;
  seen(database, element_range(key, header->generation).start, due);
}

void ExpiryWatch::range_deleted(DatabaseId database, Bytes start, Bytes end) {
  const std::string low = id_of(database, start), high = id_of(database, end);
  std::lock_guard lock(mutex_);
  make_stale();
  for (auto it = order_.begin(); it != order_.end();) {
    const std::string& id = *it->second;
    const bool gone = id.compare(0, 2, low, 0, 2) == 0 && id >= low && (end.empty() || id < high);
    it = gone ? erase(it) : std::next(it);
  }
}

void ExpiryWatch::databases_changed() {
  std::lock_guard lock(mutex_);
  make_stale();
  forget();
}

void ExpiryWatch::make_stale() {
  stale_ = under_way_;
  touched_.clear();
  touched_bytes_ = 0;
}

void ExpiryWatch::forget() {
  if (sweeping_ && !order_.empty()) horizon_ = std::min(horizon_, order_.begin()->first - 1);
  order_.clear();
  expiries_.clear();
  bytes_ = 0;
}

std::optional<ExpiryWatch::Key> ExpiryWatch::take_first_due(Millis now) {
  std::lock_guard lock(mutex_);
  if (order_.empty() || order_.begin()->first > now) return std::nullopt;
  Key key = key_of(*order_.begin()->second);
  erase(order_.begin());
  return key;
}

bool ExpiryWatch::is_due(DatabaseId database, Bytes key, Millis now) {
  const std::string id = id_of(database, key);
  std::lock_guard lock(mutex_);
  const auto it = expiries_.find(id);
  return it != expiries_.end() && it->second <= now;
}

bool ExpiryWatch::take_due(DatabaseId database, Bytes key, Millis now) {
  const std::string id = id_of(database, key);
  std::lock_guard lock(mutex_);
  const auto it = expiries_.find(id);
  if (it == expiries_.end() || it->second > now) return false;
  remove(id);
  return true;
}

std::optional<ExpiryWatch::Sweep> ExpiryWatch::begin_sweep(Millis now) {
  std::lock_guard lock(mutex_);
  if (!sweeping_ || under_way_ || horizon_ > now + kHorizon / 4) return std::nullopt;
  // Expirations that the watch has missed are still reported, if they are less than a minute old.
  const Millis after = std::max(horizon_, now > kHorizon ? now - kHorizon : Millis{0});
  under_way_ = true;
  full_ = kForever;
  stale_ = false;
  return Sweep{after, now + kHorizon};
}

void ExpiryWatch::found(DatabaseId database, const std::string& key, Millis expiry) {
  const std::string id = id_of(database, key);
  std::lock_guard lock(mutex_);
  if (on() && !stale_ && !touched_.contains(id)) add(id, expiry, horizon_);
}

// A hash whose own entry expires at the same time as its last field is added as end_of_fields(): it ends because its fields do,
// and gets the event for that.
void ExpiryWatch::found(DatabaseId database, const std::vector<ExpiringKey>& keys) {
  std::map<Bytes, Millis> last;
  for (const ExpiringKey& key : keys) {
    const auto hash = hash_of_field(key.key);
    if (!hash) continue;
    last[*hash] = std::max(last[*hash], key.expiry);
    found(database, key.key, key.expiry);
  }
  for (const ExpiringKey& key : keys) {
    if (main_key_of(key.key).size() != key.key.size()) continue;
    const auto fields = last.find(key.key);
    const bool with_fields = fields != last.end() && fields->second == key.expiry;
    found(database, with_fields ? end_of_fields(key.key) : key.key, key.expiry + (with_fields ? 1 : 0));
  }
}

void ExpiryWatch::end_sweep(std::optional<Millis> until) {
  std::lock_guard lock(mutex_);
  under_way_ = false;
  touched_.clear();
  touched_bytes_ = 0;
  if (std::exchange(stale_, false)) return forget();
  if (!until || !sweeping_) return;
  horizon_ = std::min(*until, full_);
  // Drops keys that were written during the sweep and expire after the new horizon, since a later sweep finds them.
  while (!order_.empty() && std::prev(order_.end())->first > horizon_) erase_last();
}

bool ExpiryWatch::committed(const CommittedCommand& commit, DatabaseId target, std::size_t* cursor, const Slice& slice) {
  for (WriteBatch::Op op; commit.batch.next_command_op(cursor, &op);) {
    if (op.element && !is_field_expiry(op.key)) continue;
    switch (op.kind) {
      case OpKind::kHeader: {
        const bool with_fields = ends_with_fields(op);
        if (collection_type_of(op.value) == CollectionType::kHash) {
          written(target, end_of_fields(op.key), with_fields ? op.expiry + 1 : 0, commit.time);
        }
        written(target, op.key, with_fields ? 0 : op.expiry, commit.time);
        break;
      }
      case OpKind::kPut:
        written(target, op.key, op.expiry, commit.time);
        break;
      case OpKind::kTombstone:
        written(commit.database, op.key, 0, commit.time);
        break;
      case OpKind::kRangeTombstone:
        range_deleted(commit.database, op.key, op.end);
        break;
      case OpKind::kFlushDatabase:
      case OpKind::kSwapDatabases:
      case OpKind::kSecondaryDelete:
        databases_changed();
        break;
      case OpKind::kCreateTree:
        break;
    }
    if (slice.over()) return false;
  }
  return true;
}

}  // namespace ebbtide

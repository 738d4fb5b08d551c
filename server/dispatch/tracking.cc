#include "dispatch/tracking.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dispatch/command_keys.h"
#include "dispatch/session.h"
#include "resp/disposal.h"
#include "resp/reply.h"
#include "store/collection/large.h"

namespace ebbtide {
namespace {

/// Estimated memory of a noted key, without the key's bytes; and of each client that has noted it.
constexpr std::size_t kKeyBytes = 128, kItemBytes = 48;
/// At most this many operations are handled, and about this many notes removed, before their invalidations are sent. This takes
/// about a millisecond.
constexpr std::size_t kOpsAtOnce = 1024, kNotesAtOnce = 4096;

/// Clients share the encoded keys of an invalidation if the keys have at least this many bytes.
constexpr std::size_t kSharedKeysBytes = 4 << 10;

/// A broadcast that exceeds one of these limits, of key lists or of bytes that prefixes do not share, invalidates all keys
/// instead. So it takes at most a few milliseconds.
constexpr std::size_t kMostLists = 64 << 10, kMostCopiedBytes = 4 << 20;
/// If the messages of a broadcast exceed kMostMessageBytes (kMessageBytes each, plus copied keys), each client gets one message
/// instead, which invalidates all keys. The messages cannot wait for a later round: a client's next reply may be newer
/// than its cache. And if keys are written faster than messages are sent, any amount of memory would be needed.
constexpr std::size_t kMessageBytes = 256, kMostMessageBytes = 8 << 20;

Bytes engine_key_of(const std::pair<const std::string, std::uint64_t>& written) { return written.first; }
Bytes engine_key_of(const std::shared_ptr<const std::string>& key) { return *key; }

std::size_t common_bytes(Bytes a, Bytes b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

/// Writes an invalidation of `keys` to a client; null: all keys.
void write_invalidation(Client& client, const std::shared_ptr<const std::string>& keys) {
  Reply reply(&client.out, client.protocol);
  if (client.protocol == 3) {
    reply.push(2);
    reply.bulk("invalidate");
  } else {
    reply.array(3);
    reply.bulk("message");
    reply.bulk("__redis__:invalidate");
  }
  if (keys == nullptr) {
    reply.null_array();
  } else {
    keys->size() < kSharedKeysBytes ? client.out.append(*keys) : client.out.append_shared(keys, *keys, true);
  }
}

/// If more invalidations are kept for one client, the client gets one for all keys instead.
constexpr std::size_t kMostKept = 256;

/// Sends a client a push message: the client that receives its invalidations (REDIRECT) has disconnected.
void report_broken_redirect(Client& client, std::uint64_t redirect) {
  if (client.protocol != 3) return;
  Reply reply(&client.out, client.protocol);
  reply.push(2);
  reply.bulk("tracking-redir-broken");
  reply.integer(static_cast<std::int64_t>(redirect));
  client.loop->touch(&client);
}

}  // namespace

// Returns engine keys encoded as in a reply.
template <typename Keys>
TrackingTable::EncodedKeys TrackingTable::encode(const Keys& keys) const {
  std::string out = "*" + std::to_string(keys.size()) + "\r\n";
  for (const auto& key : keys) {
    const std::string shown = user_key(engine_key_of(key));
    out += "$" + std::to_string(shown.size()) + "\r\n";
    out += shown;
    out += "\r\n";
  }
  return out.size() < kSharedKeysBytes ? std::make_shared<const std::string>(std::move(out)) : texts.share(std::move(out));
}

void keep_invalidations(Client& client) {
  auto& kept = state_of(client).kept_invalidations;
  if (!kept) kept.emplace();
}

void send_kept_invalidations(Client& client) {
  const auto kept = std::exchange(state_of(client).kept_invalidations, std::nullopt);
  if (!kept || kept->empty()) return;
  for (const Invalidation& invalidation : *kept) {
    client.seen_seq = std::max(client.seen_seq, invalidation.seq);
    write_invalidation(client, invalidation.keys);
  }
  client.loop->touch(&client);
}

void TrackingTable::set(Client& client, const Tracking& tracking) {
  std::lock_guard lock(mutex_);
  const auto before = trackers_.find(client.id);
  for (std::size_t i = 0; before != trackers_.end() && i < before->second.prefixes.size(); ++i) {
    remove_prefix(client.id, before->second.prefixes[i]->first);
  }
  if (tracking.on) {
    Tracker& tracker = trackers_[client.id];
    tracker = {client.loop, tracking.no_loop, tracking.redirect, tracking.broadcast};
    tracker.prefixes.reserve(tracking.prefixes.size());
    for (const std::string& prefix : tracking.prefixes) tracker.prefixes.push_back(add_prefix(client.id, prefix));
    if (tracking.broadcast && tracking.prefixes.empty()) tracker.prefixes.push_back(add_prefix(client.id, ""));  // every key
  } else {
    trackers_.erase(client.id);  // its notes are removed when their keys are written, or when the table is full
  }
  if (trackers_.empty()) forget_notes();
  switches_.set(Switches::kTracking, !trackers_.empty());
}

// Returns the entry just before the text in sorted order, or one of that entry's parents. This is the longest prefix, since every
// entry between a prefix and the text begins with the prefix, too.
TrackingTable::Prefixes::value_type* TrackingTable::longest_prefix_of(Bytes text) {
  const auto next = prefixes_.upper_bound(text);
  if (next == prefixes_.begin()) return nullptr;
  Prefixes::value_type* prefix = &*std::prev(next);
  const std::size_t common = common_bytes(prefix->first, text);
  while (prefix != nullptr && prefix->first.size() > common) prefix = prefix->second.parent;
  return prefix;
}

TrackingTable::Prefixes::value_type* TrackingTable::add_prefix(std::uint64_t client_id, const std::string& prefix) {
  auto it = prefixes_.find(prefix);
  if (it == prefixes_.end()) {
    Prefixes::value_type* const parent = longest_prefix_of(prefix);
    it = prefixes_.try_emplace(prefix).first;
    it->second.parent = parent;
    for (auto child = std::next(it); child != prefixes_.end() && child->first.starts_with(prefix); ++child) {
      if (child->second.parent == parent) child->second.parent = &*it;
    }
  }
  it->second.clients.insert(client_id);
  return &*it;
}

void TrackingTable::remove_prefix(std::uint64_t client_id, const std::string& prefix) {
  const auto it = prefixes_.find(prefix);
  it->second.clients.erase(client_id);
  if (!it->second.clients.empty()) return;
  Prefixes::value_type* const parent = it->second.parent;
  for (auto child = std::next(it); child != prefixes_.end() && child->first.starts_with(prefix); ++child) {
    if (child->second.parent == &*it) child->second.parent = parent;
  }
  if (!it->second.keys.empty()) {
    std::erase(written_, &*it);
    if (parent != nullptr) {
      for (const auto& [key, writer] : it->second.keys) note_written(*parent, key, writer);
    }
  }
  prefixes_.erase(it);
}

void TrackingTable::note_reads(std::uint64_t client_id, std::span<const LookupKey> keys) {
  Invalidations invalidations;
  {
    std::lock_guard lock(mutex_);
    for (const LookupKey& key : keys) {
      auto it = noted_.find(key.key);
      if (it == noted_.end()) {
        it = noted_.emplace(std::string(key.key), std::set<std::uint64_t>()).first;
        bytes_ += kKeyBytes + key.key.size();
      }
      if (!it->second.insert(client_id).second) continue;
      items_ += 1;
      bytes_ += kItemBytes;
    }
    while (noted_.size() > kMaxKeys || bytes_ > max_bytes_) take_notes(noted_.begin(), 0, &invalidations);
    memory.follow(bytes_);
  }
  if (!invalidations.empty()) send(invalidations, nullptr, 0);
}

void TrackingTable::forget_notes() {
  if (items_ > kDisposedPieces) let_go(std::make_shared<NotedKeys>(std::move(noted_)), true);
  noted_.clear();
  items_ = bytes_ = 0;
  memory.follow(bytes_);
}

void TrackingTable::set_budget(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  max_bytes_ = static_cast<std::size_t>(std::min<std::uint64_t>(bytes / kBudgetPart, kMaxBytes));
}

void TrackingTable::take_notes(NotedKeys::iterator it, std::uint64_t writer, Invalidations* out) {
  std::shared_ptr<const std::string> key;  // the engine key, shared by all clients
  for (const std::uint64_t id : it->second) {
    const auto tracker = trackers_.find(id);
    if (tracker == trackers_.end() || tracker->second.broadcast || (tracker->second.no_loop && id == writer)) continue;
    auto& keys = out->try_emplace(id, std::vector<std::shared_ptr<const std::string>>()).first->second;
    if (!keys) continue;
    if (key == nullptr) key = std::make_shared<const std::string>(it->first);
    keys->push_back(key);
  }
  items_ -= it->second.size();
  bytes_ -= kKeyBytes + it->first.size() + kItemBytes * it->second.size();
  noted_.erase(it);
  memory.follow(bytes_);
}

void TrackingTable::invalidate_key(Bytes key, std::uint64_t writer, Invalidations* out) {
  if (const auto it = noted_.find(key); it != noted_.end()) take_notes(it, writer, out);
  if (prefixes_.empty()) return;
  Prefixes::value_type* const prefix = longest_prefix_of(user_key(key));
  if (prefix == nullptr) return;
  note_written(*prefix, key, writer);
  has_broadcasts_.store(true, std::memory_order_relaxed);
}

void TrackingTable::note_written(Prefixes::value_type& prefix, Bytes key, std::uint64_t writer) {
  WrittenKeys& keys = prefix.second.keys;
  if (keys.empty()) written_.push_back(&prefix);
  const auto [it, is_new] = keys.try_emplace(std::string(key), writer);
  if (is_new) prefix.second.key_bytes += key.size();
  if (!is_new && it->second != writer) it->second = 0;
}

/// The invalidations of one broadcast. Keys are grouped by their longest prefix, and each prefix lists its groups. So even a key
/// that begins with thousands of prefixes is stored and encoded once.
struct TrackingTable::Broadcasts {
  struct Receiver {
    std::uint64_t id;
    bool no_loop;
  };
  struct OfPrefix {
    std::vector<std::size_t> groups;
    std::vector<Receiver> receivers;
  };
  std::vector<WrittenKeys> groups;
  std::vector<OfPrefix> prefixes;
  /// Clients that must invalidate all keys; if a limit was exceeded, the other members are empty.
  std::vector<std::uint64_t> all;
  SeqNum seq = 0;
};

void TrackingTable::take_broadcasts(Broadcasts* out) {
  std::unordered_map<const Prefixes::value_type*, std::size_t> numbers;
  std::size_t lists = 0, message_bytes = 0;
  out->seq = broadcast_seq_;
  // As in Redis, a client gets the keys of its prefixes in the order of the prefixes, those of one prefix together. No prefix of
  // a client begins with another prefix of the same client.
  std::sort(written_.begin(), written_.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  for (Prefixes::value_type* const longest : std::exchange(written_, {})) {
    out->groups.emplace_back().swap(longest->second.keys);
    const std::size_t bytes = std::exchange(longest->second.key_bytes, 0), copied = bytes < kSharedKeysBytes ? bytes : 0;
    for (auto* prefix = longest; prefix != nullptr && lists <= kMostLists; prefix = prefix->second.parent, ++lists) {
      const auto [it, is_new] = numbers.try_emplace(prefix, numbers.size());
      message_bytes += prefix->second.clients.size() * (copied + (is_new ? kMessageBytes : 0));
      if (message_bytes > kMostMessageBytes) continue;
      if (is_new) {
        auto& receivers = out->prefixes.emplace_back().receivers;
        for (const std::uint64_t id : prefix->second.clients) receivers.push_back({id, trackers_.at(id).no_loop});
      }
      out->prefixes[it->second].groups.push_back(out->groups.size() - 1);
    }
  }
  if (lists <= kMostLists && message_bytes <= kMostMessageBytes) return;
  out->prefixes.clear();
  if (lists <= kMostLists) return take_concerned(numbers, out);
  for (const auto& [id, tracker] : trackers_) {
    if (tracker.broadcast) out->all.push_back(id);
  }
}

void TrackingTable::take_concerned(const std::unordered_map<const Prefixes::value_type*, std::size_t>& prefixes,
                                   Broadcasts* out) const {
  const std::size_t most_compared = kMostLists / trackers_.size();
  for (const auto& [id, tracker] : trackers_) {
    const auto is_written = [&](const Prefixes::value_type* prefix) { return prefixes.contains(prefix); };
    if (tracker.prefixes.size() > std::max<std::size_t>(most_compared, 1) ||
        std::any_of(tracker.prefixes.begin(), tracker.prefixes.end(), is_written)) {
      out->all.push_back(id);
    }
  }
}

void TrackingTable::send_broadcasts(ClientLoop* here) {
  if (!has_broadcasts_.load(std::memory_order_relaxed)) return;
  Broadcasts broadcasts;
  {
    std::lock_guard lock(mutex_);
    has_broadcasts_.store(false, std::memory_order_relaxed);
    take_broadcasts(&broadcasts);
  }
  for (const std::uint64_t id : broadcasts.all) send_to(id, nullptr, here, broadcasts.seq);
  std::vector<EncodedKeys> texts(broadcasts.groups.size());  // encoded keys of each group
  std::vector<std::set<std::uint64_t>> writers_of(broadcasts.groups.size());
  std::size_t copied = 0;
  /// Returns the encoded keys of several groups in order, without those that `left_out` wrote. An empty text: no keys. Null: the
  /// keys would be too long, so all keys are invalidated.
  const auto join = [&](const std::vector<std::size_t>& groups, std::uint64_t left_out) -> EncodedKeys {
    std::vector<std::shared_ptr<const std::string>> keys;
    for (const std::size_t group : groups) {
      for (const auto& [key, writer] : broadcasts.groups[group]) {
        if (copied > kMostCopiedBytes) return nullptr;
        if (left_out != 0 && writer == left_out) continue;
        copied += key.size() + kKeyBytes;
        keys.push_back(std::make_shared<const std::string>(key));
      }
    }
    std::sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return *a < *b; });
    return keys.empty() ? std::make_shared<const std::string>() : encode(keys);
  };
  // Neighboring prefixes mostly have the same groups, and then share their text.
  const Broadcasts::OfPrefix* before = nullptr;
  EncodedKeys text;
  std::set<std::uint64_t> writers;
  for (const Broadcasts::OfPrefix& prefix : broadcasts.prefixes) {
    if (before == nullptr || before->groups != prefix.groups) {
      EncodedKeys& first = texts[prefix.groups.front()];
      if (prefix.groups.size() == 1 && first == nullptr) first = encode(broadcasts.groups[prefix.groups.front()]);
      text = prefix.groups.size() == 1 ? first : join(prefix.groups, 0);
      writers.clear();
      for (const std::size_t group : prefix.groups) {
        if (copied > kMostCopiedBytes) break;  // too long: all keys are invalidated instead
        if (writers_of[group].empty()) {
          for (const auto& [key, writer] : broadcasts.groups[group]) writers_of[group].insert(writer);
        }
        writers.insert(writers_of[group].begin(), writers_of[group].end());
        copied += prefix.groups.size() == 1 ? 0 : kItemBytes * writers_of[group].size();
      }
    }
    before = &prefix;
    if (copied > kMostCopiedBytes && prefix.groups.size() > 1) text = nullptr;
    for (const Broadcasts::Receiver& receiver : prefix.receivers) {
      const bool leaves_out = receiver.no_loop && writers.contains(receiver.id);
      const EncodedKeys own = leaves_out ? join(prefix.groups, receiver.id) : text;
      if (own == nullptr || !own->empty()) send_to(receiver.id, own, here, broadcasts.seq);
    }
  }
}

bool TrackingTable::expired(Bytes engine_key, ClientLoop* here) {
  Invalidations invalidations;
  if (switches_.has(Switches::kTracking)) {
    std::lock_guard lock(mutex_);
    invalidate_key(engine_key, 0, &invalidations);
  }
  const bool broadcasts = has_broadcasts_.load(std::memory_order_relaxed);
  if (!invalidations.empty()) send(invalidations, here, 0);
  if (broadcasts) send_broadcasts(here);
  return !invalidations.empty() || broadcasts;
}

TrackingTable::Counts TrackingTable::counts() {
  std::lock_guard lock(mutex_);
  Counts counts{trackers_.size(), noted_.size(), items_, 0};
  for (const auto& [id, tracker] : trackers_) counts.prefixes += tracker.prefixes.size();
  return counts;
}

void TrackingTable::invalidate(const WriteBatch::Op& op, std::uint64_t writer, Invalidations* out) {
  switch (op.kind) {
    // The keys that a delete by stamp deletes are unknown here, so it invalidates all keys, as FLUSHDB does.
    case OpKind::kFlushDatabase:
    case OpKind::kSwapDatabases:
    case OpKind::kSecondaryDelete:
      for (const auto& [id, tracker] : trackers_) (*out)[id] = std::nullopt;
      return forget_notes();
    case OpKind::kRangeTombstone:
      if (const auto key = collection_of_range(op.key, op.end)) {
        if (!key->empty()) invalidate_key(*key, writer, out);
        return;
      }
      // The server does not know which keys a broadcasting client has cached, so the client must invalidate all keys.
      for (const auto& [id, tracker] : trackers_) {
        if (tracker.broadcast && !(tracker.no_loop && id == writer)) (*out)[id] = std::nullopt;
      }
      return invalidate_range(op, writer, out);
    case OpKind::kPut:
    case OpKind::kHeader:
    case OpKind::kTombstone:
      if (!op.element) invalidate_key(op.key, writer, out);
      return;
    case OpKind::kCreateTree:
      return;
  }
}

void TrackingTable::invalidate_range(const WriteBatch::Op& op, std::uint64_t writer, Invalidations* out) {
  const auto ends = [&](NotedKeys::const_iterator it) { return it == noted_.end() || (!op.end.empty() && it->first >= op.end); };
  const auto first = noted_.lower_bound(op.key);
  std::size_t notes = 0;
  for (auto it = first; notes <= kNotesAtOnce && !ends(it); ++it) notes += 1 + it->second.size();
  if (notes > kNotesAtOnce) {
    for (const auto& [id, tracker] : trackers_) {
      if (!tracker.broadcast) (*out)[id] = std::nullopt;
    }
    return forget_notes();
  }
  for (auto it = first; !ends(it);) take_notes(it++, writer, out);
}

// Handles a few operations per lock: other loops need the lock, and sending the messages takes time, too.
bool TrackingTable::committed(const WriteBatch& batch, const Origin& writer, SeqNum seq, std::size_t* cursor,
                              const Slice& slice) {
  while (true) {
    Invalidations invalidations;
    bool done = false;
    {
      std::lock_guard lock(mutex_);
      broadcast_seq_ = std::max(broadcast_seq_, seq);
      const std::size_t notes = items_;
      WriteBatch::Op op;
      for (std::size_t n = 0; n < kOpsAtOnce && notes - std::min(notes, items_) < kNotesAtOnce && !done; ++n) {
        done = !batch.next_command_op(cursor, &op);
        if (!done) invalidate(op, writer.client_id, &invalidations);
        if (slice.over()) break;
      }
    }
    if (!invalidations.empty()) send(invalidations, writer.loop, seq);
    if (done || slice.over()) return done;
  }
}

void TrackingTable::send(const Invalidations& invalidations, ClientLoop* here, SeqNum seq) {
  // Clients that have noted the same keys share one encoded text.
  const std::vector<std::shared_ptr<const std::string>>* encoded = nullptr;
  EncodedKeys text;
  for (const auto& [id, keys] : invalidations) {
    if (keys && (encoded == nullptr || *encoded != *keys)) {
      text = encode(*keys);
      encoded = &*keys;
    }
    send_to(id, keys ? text : nullptr, here, seq);
  }
}

void TrackingTable::send_to(std::uint64_t id, const EncodedKeys& keys, ClientLoop* here, SeqNum seq) {
  ClientLoop* loop = nullptr;
  std::uint64_t redirect = 0;
  {
    std::lock_guard lock(mutex_);
    const auto it = trackers_.find(id);
    if (it == trackers_.end()) return;
    loop = it->second.loop;
    redirect = it->second.redirect;
  }
  const auto deliver = [redirected = redirect != 0, keys, seq](Client& client) {
    if (client.protocol == 2 && !(redirected && client.subscriber)) return;
    // Invalidations are kept only for the client's own reads. A client that receives the invalidations of another client has to
    // expect them at any time, so it gets them at once.
    if (auto& kept = state_of(client).kept_invalidations; kept && !redirected) {
      if (kept->size() < kMostKept) return kept->push_back({keys, seq});
      kept->assign(1, {nullptr, std::max(kept->back().seq, seq)});
      return;
    }
    client.seen_seq = std::max(client.seen_seq, seq);
    write_invalidation(client, keys);
    client.loop->touch(&client);
  };
  const auto on_own_loop = [&](auto function) {
    const auto task = [loop, id, function] {
      if (Client* client = loop->find(id)) function(*client);
    };
    loop == here ? task() : loop->post(task);
  };
  if (redirect == 0) {
    on_own_loop(deliver);
  } else if (is_connected && !is_connected(redirect)) {
    on_own_loop([redirect](Client& client) { report_broken_redirect(client, redirect); });
  } else if (to_client) {
    to_client(redirect, deliver);
  }
}

}  // namespace ebbtide

#include "dispatch/tracking.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dispatch/command_keys.h"
#include "dispatch/session.h"
#include "resp/disposal.h"
#include "resp/reply.h"

namespace ebbtide {
namespace {

/// Estimated memory of a noted key, and of a client that has noted it, beside the key's bytes.
constexpr std::size_t kKeyBytes = 128, kItemBytes = 48;
/// Operations, and notes that they end, for which clients are sent one invalidation: about a millisecond of work.
constexpr std::size_t kOpsAtOnce = 1024, kNotesAtOnce = 4096;

/// From this length on clients share an invalidation's keys.
constexpr std::size_t kSharedKeysBytes = 4 << 10;

/// `keys`: engine keys, or pairs that begin with one.
template <typename Keys>
std::shared_ptr<const std::string> encode(const Keys& keys) {
  std::string out = "*" + std::to_string(keys.size()) + "\r\n";
  for (const auto& key : keys) {
    std::string shown;
    if constexpr (requires { key.first; }) {
      shown = user_key(key.first);
    } else {
      shown = user_key(key);
    }
    out += "$" + std::to_string(shown.size()) + "\r\n";
    out += shown;
    out += "\r\n";
  }
  return std::make_shared<const std::string>(std::move(out));
}

/// Writes an invalidation to a client: of `keys`, or of all keys.
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

/// With more invalidations that are kept for a client, all of its keys are invalidated instead.
constexpr std::size_t kMostKept = 256;

/// Sends a client a push: the client that received its invalidations has disconnected.
void report_broken_redirect(Client& client, std::uint64_t redirect) {
  if (client.protocol != 3) return;
  Reply reply(&client.out, client.protocol);
  reply.push(2);
  reply.bulk("tracking-redir-broken");
  reply.integer(static_cast<std::int64_t>(redirect));
  client.loop->touch(&client);
}

}  // namespace

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
    const auto prefix = prefixes_.find(before->second.prefixes[i]);
    prefix->second.clients.erase(client.id);
    if (prefix->second.clients.empty()) prefixes_.erase(prefix);
  }
  if (tracking.on) {
    Tracker& tracker = trackers_[client.id];
    tracker = {client.loop, tracking.no_loop, tracking.redirect, tracking.prefixes, tracking.broadcast};
    if (tracking.broadcast && tracking.prefixes.empty()) tracker.prefixes.emplace_back();  // every key
    for (const std::string& prefix : tracker.prefixes) prefixes_[prefix].clients.insert(client.id);
  } else {
    trackers_.erase(client.id);  // its notes are removed when their keys are written, or at the limits
  }
  if (trackers_.empty()) forget_notes();
  switches_.set(Switches::kTracking, !trackers_.empty());
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
  for (const std::uint64_t id : it->second) {
    const auto tracker = trackers_.find(id);
    if (tracker == trackers_.end() || tracker->second.broadcast || (tracker->second.no_loop && id == writer)) continue;
    auto& keys = out->try_emplace(id, std::vector<std::string>()).first->second;
    if (keys) keys->push_back(it->first);
  }
  items_ -= it->second.size();
  bytes_ -= kKeyBytes + it->first.size() + kItemBytes * it->second.size();
  noted_.erase(it);
  memory.follow(bytes_);
}

void TrackingTable::invalidate_key(Bytes key, std::uint64_t writer, Invalidations* out) {
  if (const auto it = noted_.find(key); it != noted_.end()) take_notes(it, writer, out);
  if (prefixes_.empty()) return;
  const std::string shown_key = user_key(key);
  // The prefixes of the key, from the longest to the shortest. In sorted order, all of them come before the key, and the last text
  // before it shares as much with the key as they do, or more.
  Bytes probe = shown_key;
  for (auto next = prefixes_.upper_bound(probe); next != prefixes_.begin(); next = prefixes_.upper_bound(probe)) {
    auto& [prefix, broadcast] = *std::prev(next);
    const auto common = std::mismatch(prefix.begin(), prefix.end(), probe.begin(), probe.end()).first - prefix.begin();
    probe = probe.substr(0, static_cast<std::size_t>(common));
    if (probe.size() < prefix.size()) continue;
    const auto [it, is_new] = broadcast.keys.try_emplace(std::string(key), writer);
    if (!is_new && it->second != writer) it->second = 0;
    has_broadcasts_.store(true, std::memory_order_relaxed);
    if (probe.empty()) break;
    probe.remove_suffix(1);
  }
}

void TrackingTable::send_broadcasts(ClientLoop* here) {
  if (!has_broadcasts_.load(std::memory_order_relaxed)) return;
  struct Receiver {
    std::uint64_t id;
    bool no_loop;
  };
  struct Broadcast {
    std::map<std::string, std::uint64_t> keys;
    std::vector<Receiver> receivers;
  };
  std::vector<Broadcast> broadcasts;  // one per prefix
  SeqNum seq = 0;
  {
    std::lock_guard lock(mutex_);
    has_broadcasts_.store(false, std::memory_order_relaxed);
    seq = broadcast_seq_;
    for (auto& [name, prefix] : prefixes_) {
      if (prefix.keys.empty()) continue;
      Broadcast& broadcast = broadcasts.emplace_back();
      broadcast.keys.swap(prefix.keys);
      for (const std::uint64_t id : prefix.clients) broadcast.receivers.push_back({id, trackers_.at(id).no_loop});
    }
  }
  for (const Broadcast& broadcast : broadcasts) {
    EncodedKeys all;
    std::set<std::uint64_t> writers;
    for (const auto& [key, writer] : broadcast.keys) writers.insert(writer);
    for (const Receiver& receiver : broadcast.receivers) {
      if (!receiver.no_loop || !writers.contains(receiver.id)) {
        if (all == nullptr) all = encode(broadcast.keys);
        send_to(receiver.id, all, here, seq);
        continue;
      }
      std::vector<std::string> keys;
      for (const auto& [key, writer] : broadcast.keys) {
        if (writer != receiver.id) keys.push_back(key);
      }
      if (!keys.empty()) send_to(receiver.id, encode(keys), here, seq);
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
    // It is unknown which keys a delete by stamp deletes. So it invalidates all keys, as FLUSHDB does.
    case OpKind::kFlushDatabase:
    case OpKind::kSwapDatabases:
    case OpKind::kSecondaryDelete:
      for (const auto& [id, tracker] : trackers_) (*out)[id] = std::nullopt;
      return forget_notes();
    case OpKind::kRangeTombstone:
      // It is unknown which keys a broadcasting client has cached, so all of them are invalidated.
      for (const auto& [id, tracker] : trackers_) {
        if (tracker.broadcast && !(tracker.no_loop && id == writer)) (*out)[id] = std::nullopt;
      }
      return invalidate_range(op, writer, out);
    case OpKind::kPut:
    case OpKind::kHeader:
    case OpKind::kTombstone:
      return invalidate_key(op.key, writer, out);
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

// A few operations at a time: other loops need the lock, and the clients' messages take time, too.
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
        done = !batch.next_op(cursor, &op);
        if (!done) invalidate(op, writer.client_id, &invalidations);
        if (slice.over()) break;
      }
    }
    if (!invalidations.empty()) send(invalidations, writer.loop, seq);
    if (done || slice.over()) return done;
  }
}

void TrackingTable::send(const Invalidations& invalidations, ClientLoop* here, SeqNum seq) {
  for (const auto& [id, keys] : invalidations) send_to(id, keys ? encode(*keys) : nullptr, here, seq);
}

void TrackingTable::send_to(std::uint64_t id, const EncodedKeys& keys, ClientLoop* here, SeqNum seq) {
  Tracker tracker;
  {
    std::lock_guard lock(mutex_);
    const auto it = trackers_.find(id);
    if (it == trackers_.end()) return;
    tracker = it->second;
  }
  const std::uint64_t redirect = tracker.redirect;
  const auto deliver = [redirected = redirect != 0, keys, seq](Client& client) {
    if (client.protocol == 2 && !(redirected && client.subscriber)) return;
    // A client that others' invalidations go to has to expect them at any time.
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
    const auto task = [loop = tracker.loop, id, function] {
      if (Client* client = loop->find(id)) function(*client);
    };
    tracker.loop == here ? task() : tracker.loop->post(task);
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

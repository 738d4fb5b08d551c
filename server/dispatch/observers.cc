#include "dispatch/observers.h"

#include <algorithm>

#include "dispatch/arg_cursor.h"
#include "dispatch/table.h"
#include "resp/reply.h"
#include "store/key_codec.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

std::string user_key(Bytes engine_key) {
  std::string buffer;
  const auto key = unescape_key(engine_key, &buffer);
  return std::string(key.is_ok() ? *key : engine_key);
}

/// What a noted key, and a client that has noted it, take beside the key's bytes, about.
constexpr std::size_t kKeyBytes = 128, kItemBytes = 48;

/// As Redis prints it: in quotes, what is not printable as \xhh.
std::string quoted(Bytes text) {
  constexpr char kHex[] = "0123456789abcdef";
  constexpr Bytes kNamed = "\\\"\n\r\t\a\b", kNames = "\\\"nrtab";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t i = kNamed.find(c); i != Bytes::npos) {
      out += {'\\', kNames[i]};
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out + "\"";
}

struct Event {
  Bytes command;
  Bytes name;  ///< of what a put did; deletes are "del"
  std::uint32_t type;
};
constexpr Event kEvents[] = {
    {"set", "set", kNotifyString},
    {"stamp.set", "set", kNotifyString},
    {"setnx", "set", kNotifyString},
    {"setex", "set", kNotifyString},
    {"psetex", "set", kNotifyString},
    {"getset", "set", kNotifyString},
    {"mset", "set", kNotifyString},
    {"msetnx", "set", kNotifyString},
    {"append", "append", kNotifyString},
    {"setrange", "setrange", kNotifyString},
    {"incr", "incrby", kNotifyString},
    {"incrby", "incrby", kNotifyString},
    {"decr", "incrby", kNotifyString},
    {"decrby", "incrby", kNotifyString},
    {"incrbyfloat", "incrbyfloat", kNotifyString},
    {"setbit", "setbit", kNotifyString},
    {"bitfield", "setbit", kNotifyString},
    {"bitop", "set", kNotifyString},
    {"pfadd", "pfadd", kNotifyString},
    {"pfmerge", "pfadd", kNotifyString},
    {"expire", "expire", kNotifyGeneric},
    {"pexpire", "expire", kNotifyGeneric},
    {"expireat", "expire", kNotifyGeneric},
    {"pexpireat", "expire", kNotifyGeneric},
    {"persist", "persist", kNotifyGeneric},
    {"rename", "rename_to", kNotifyGeneric},
    {"renamenx", "rename_to", kNotifyGeneric},
    {"move", "move_to", kNotifyGeneric},
    {"copy", "copy_to", kNotifyGeneric},
    {"restore", "restore", kNotifyGeneric},
    {"getex", "expire", kNotifyGeneric},
};

bool has_word(const Args& args, Bytes word) {
  return std::any_of(args.begin(), args.end(), [word](Bytes argument) { return equal_ignoring_case(argument, word); });
}

// Where MOVE and COPY put it; the database at hand otherwise.
DatabaseId target_of(Bytes command, const Args& args, DatabaseId database) {
  std::optional<std::int64_t> number;
  if (command == "move") number = parse_integer(args[2]);
  for (std::size_t i = 3; command == "copy" && i + 1 < args.size(); ++i) {
    if (equal_ignoring_case(args[i], "db")) number = parse_integer(args[i + 1]);
  }
  return number ? static_cast<DatabaseId>(*number) : database;
}

}  // namespace

std::optional<std::uint32_t> parse_notify_flags(Bytes text) {
  std::uint32_t flags = 0;
  for (const char c : text) {
    switch (c) {
      case 'K':
        flags |= kNotifyKeyspace;
        break;
      case 'E':
        flags |= kNotifyKeyevent;
        break;
      case 'A':
        flags |= kNotifyGeneric | kNotifyString | kNotifyExpired | kNotifyOthers;
        break;
      case 'g':
        flags |= kNotifyGeneric;
        break;
      case '$':
        flags |= kNotifyString;
        break;
      case 'x':
        flags |= kNotifyExpired;
        break;
      case 'm':
        flags |= kNotifyMiss;
        break;
      case 'n':
        flags |= kNotifyNew;
        break;
      default:
        if (Bytes("lshzetd").find(c) == Bytes::npos) return std::nullopt;
        flags |= kNotifyOthers;
    }
  }
  return flags;
}

void Observers::set_switch(std::uint32_t bit, bool on) {
  on ? switches_.fetch_or(bit, std::memory_order_relaxed) : switches_.fetch_and(~bit, std::memory_order_relaxed);
}

void Observers::set_notify_flags(std::uint32_t flags) {
  constexpr std::uint32_t kSome = kNotifyGeneric | kNotifyString | kNotifyExpired | kNotifyMiss | kNotifyNew;
  const bool on = (flags & (kNotifyKeyspace | kNotifyKeyevent)) != 0 && (flags & kSome) != 0;
  notify_flags_.store(on ? flags : 0, std::memory_order_relaxed);
  set_switch(kNotify, on);
}

void Observers::pause(std::uint64_t until_ms, bool all) {
  std::lock_guard lock(mutex_);
  pause_until_ms_ = std::max(pause_until_ms_, until_ms);
  pause_all_ = pause_all_ || all;
  set_switch(kPause, true);
}

void Observers::unpause() {
  std::lock_guard lock(mutex_);
  pause_until_ms_ = 0;
  pause_all_ = false;
  set_switch(kPause, false);
}

std::uint32_t Observers::paused_for(std::uint64_t now_ms, bool writes) {
  std::lock_guard lock(mutex_);
  if (now_ms >= pause_until_ms_) {
    pause_until_ms_ = 0;
    pause_all_ = false;
    set_switch(kPause, false);
    return 0;
  }
  if (!writes && !pause_all_) return 0;
  // Asked again soon: CLIENT UNPAUSE may come.
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(pause_until_ms_ - now_ms, 20));
}

void Observers::set_tracking(Client& client, const Tracking& tracking) {
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
    trackers_.erase(client.id);  // its keys go when they are written, or when there are too many
  }
  if (trackers_.empty()) forget_tracked();
  set_switch(kTracking, !trackers_.empty());
  // At once: what the client reads next may expire before refresh_expiries() comes round.
  if (tracking.on && !expiries.on()) expiries.set_mode(true, false, 0);
}

void Observers::note_reads(std::uint64_t client_id, std::span<const LookupKey> keys) {
  Told told;
  {
    std::lock_guard lock(mutex_);
    for (const LookupKey& key : keys) {
      auto it = tracked_.find(key.key);
      if (it == tracked_.end()) {
        it = tracked_.emplace(std::string(key.key), std::set<std::uint64_t>()).first;
        tracked_bytes_ += kKeyBytes + key.key.size();
      }
      if (!it->second.insert(client_id).second) continue;
      tracked_items_ += 1;
      tracked_bytes_ += kItemBytes;
    }
    while (tracked_.size() > kMaxTrackedKeys || tracked_bytes_ > max_tracked_bytes_) collect(tracked_.begin(), 0, &told);
  }
  if (!told.empty()) send(told, nullptr, 0);
}

void Observers::forget_tracked() {
  tracked_.clear();
  tracked_items_ = tracked_bytes_ = 0;
}

void Observers::collect(TrackedKeys::iterator it, std::uint64_t writer, Told* told) {
  for (const std::uint64_t id : it->second) {
    const auto tracker = trackers_.find(id);
    if (tracker == trackers_.end() || tracker->second.broadcast || (tracker->second.no_loop && id == writer)) continue;
    auto& keys = told->try_emplace(id, std::vector<std::string>()).first->second;
    if (keys) keys->push_back(it->first);
  }
  tracked_items_ -= it->second.size();
  tracked_bytes_ -= kKeyBytes + it->first.size() + kItemBytes * it->second.size();
  tracked_.erase(it);
}

void Observers::add_monitor(Client& client) {
  std::lock_guard lock(mutex_);
  monitors_[client.id] = client.loop;
  set_switch(kMonitor, true);
}

void Observers::remove_monitor(std::uint64_t client_id) {
  std::lock_guard lock(mutex_);
  monitors_.erase(client_id);
  set_switch(kMonitor, !monitors_.empty());
}

void Observers::show_command(const Args& args, DatabaseId database, const Client& client, std::uint64_t unix_micros) {
  const std::string fraction = std::to_string(1'000'000 + unix_micros % 1'000'000).substr(1);
  std::string line = "+" + std::to_string(unix_micros / 1'000'000) + "." + fraction + " [" + std::to_string(database) + " " +
                     client.address + "]";
  for (const Bytes argument : args) line += " " + quoted(argument);
  line += "\r\n";
  const auto text = std::make_shared<const std::string>(std::move(line));
  std::lock_guard lock(mutex_);
  for (const auto& [id, loop] : monitors_) {
    const auto deliver = [loop = loop, id = id, text] {
      Client* monitor = loop->find(id);
      if (monitor == nullptr) return;
      monitor->out.append(*text);
      monitor->check_push_limit();
      loop->touch(monitor);
    };
    loop == client.loop ? deliver() : loop->post(deliver);
  }
}

void Observers::committed(const Commit& commit, Client& client) {
  const std::uint32_t on = switches();
  if (expiries.on()) watch_expiries(commit);
  if ((on & kTracking) != 0) invalidate(commit.batch, client, commit.seq);
  if ((on & kNotify) != 0) notify_all(commit, client.loop);
}

void Observers::collect_key(Bytes key, std::uint64_t writer, Told* told) {
  if (const auto it = tracked_.find(key); it != tracked_.end()) collect(it, writer, told);
  if (prefixes_.empty()) return;
  const std::string shown_key = user_key(key);
  for (auto& [prefix, broadcast] : prefixes_) {
    if (!shown_key.starts_with(prefix)) continue;
    const auto [it, is_new] = broadcast.keys.try_emplace(std::string(key), writer);
    if (!is_new && it->second != writer) it->second = 0;
    has_broadcasts_.store(true, std::memory_order_relaxed);
  }
}

void Observers::send_broadcasts(ClientLoop* here) {
  if (!has_broadcasts_.load(std::memory_order_relaxed)) return;
  std::vector<Told> messages;  // a message per prefix and client
  std::uint64_t seq = 0;
  {
    std::lock_guard lock(mutex_);
    has_broadcasts_.store(false, std::memory_order_relaxed);
    seq = broadcast_seq_;
    for (auto& [name, prefix] : prefixes_) {
      if (prefix.keys.empty()) continue;
      Told& told = messages.emplace_back();
      for (const std::uint64_t id : prefix.clients) {
        const bool no_loop = trackers_.at(id).no_loop;
        std::vector<std::string> keys;
        for (const auto& [key, writer] : prefix.keys) {
          if (!no_loop || writer != id) keys.push_back(key);
        }
        if (!keys.empty()) told.emplace(id, std::move(keys));
      }
      prefix.keys.clear();
    }
  }
  for (const Told& told : messages) send(told, here, seq);
}

void Observers::refresh_expiries(Millis now) {
  std::lock_guard lock(mutex_);  // as set_tracking(): what was found before must not undo what was set since
  const bool told = (notify_flags() & kNotifyExpired) != 0, tracked = (switches() & kTracking) != 0;
  expiries.set_mode(told || tracked, told, now);
}

void Observers::expired(DatabaseId database, Bytes engine_key, ClientLoop* here) {
  notify(kNotifyExpired, "expired", user_key(engine_key), database, here, 0);
  Told told;
  if ((switches() & kTracking) != 0) {
    std::lock_guard lock(mutex_);
    collect_key(engine_key, 0, &told);
  }
  const bool broadcasts = has_broadcasts_.load(std::memory_order_relaxed);
  if (!told.empty()) send(told, here, 0);
  if (broadcasts) send_broadcasts(here);
  if (!told.empty() || broadcasts || (notify_flags() & kNotifyExpired) != 0)
    expired_told_.fetch_add(1, std::memory_order_relaxed);
}

Observers::TrackingCounts Observers::tracking_counts() {
  std::lock_guard lock(mutex_);
  TrackingCounts counts{trackers_.size(), tracked_.size(), tracked_items_, 0};
  for (const auto& [id, tracker] : trackers_) counts.prefixes += tracker.prefixes.size();
  return counts;
}

void Observers::watch_expiries(const Commit& commit) {
  const DatabaseId target = target_of(commit.command.spec->name, commit.args, commit.database);
  std::size_t cursor = 0;
  for (WriteBatch::Op op; commit.batch.next_op(&cursor, &op);) {
    switch (op.kind) {
      case OpKind::kPut:
      case OpKind::kHeader:
        expiries.written(target, op.key, op.expiry, commit.time);
        break;
      case OpKind::kTombstone:
        expiries.written(commit.database, op.key, 0, commit.time);
        break;
      case OpKind::kRangeTombstone:
        expiries.range_deleted(commit.database, op.key, op.end);
        break;
      case OpKind::kFlushDatabase:
      case OpKind::kSwapDatabases:
      case OpKind::kSecondaryDelete:
        expiries.databases_changed();
        break;
      case OpKind::kCreateTree:
        break;
    }
  }
}

void Observers::invalidate(const WriteBatch& batch, Client& writer, std::uint64_t seq) {
  Told told;
  {
    std::lock_guard lock(mutex_);
    PresentKeys met;  // a key is told of once, however often it was written
    std::size_t cursor = 0;
    for (WriteBatch::Op op; batch.next_op(&cursor, &op);) {
      // Which keys a delete by stamp takes is not known: it tells everybody to forget all, as FLUSHDB does.
      if (op.kind == OpKind::kFlushDatabase || op.kind == OpKind::kSwapDatabases || op.kind == OpKind::kSecondaryDelete) {
        for (const auto& [id, tracker] : trackers_) told[id] = std::nullopt;
        forget_tracked();
      } else if (op.kind == OpKind::kRangeTombstone) {
        // Nor is it known which keys a broadcasting client has got.
        for (const auto& [id, tracker] : trackers_) {
          if (tracker.broadcast && !(tracker.no_loop && id == writer.id)) told[id] = std::nullopt;
        }
        while (true) {
          const auto it = tracked_.lower_bound(op.key);
          if (it == tracked_.end() || (!op.end.empty() && it->first >= op.end)) break;
          collect(it, writer.id, &told);
        }
      } else if (op.kind == OpKind::kPut || op.kind == OpKind::kHeader || op.kind == OpKind::kTombstone) {
        if (met.insert(op.key).second) collect_key(op.key, writer.id, &told);
      }
    }
    broadcast_seq_ = std::max(broadcast_seq_, seq);
  }
  if (!told.empty()) send(told, writer.loop, seq);
}

void Observers::send(const Told& told, ClientLoop* here, std::uint64_t seq) {
  for (const auto& [id, keys] : told) {
    Tracker tracker;
    {
      std::lock_guard lock(mutex_);
      const auto it = trackers_.find(id);
      if (it == trackers_.end()) continue;
      tracker = it->second;
    }
    const auto tell = [redirected = tracker.redirect != 0, keys = keys, seq](Client& client) {
      if (client.protocol == 2 && !(redirected && client.subscriber)) return;
      client.seen_seq = std::max(client.seen_seq, seq);
      Reply reply(&client.out, client.protocol);
      if (client.protocol == 3) {
        reply.push(2);
        reply.bulk("invalidate");
      } else {
        reply.array(3);
        reply.bulk("message");
        reply.bulk("__redis__:invalidate");
      }
      if (!keys) {
        reply.null_array();
      } else {
        reply.array(keys->size());
        for (const std::string& key : *keys) reply.bulk(user_key(key));
      }
      client.loop->touch(&client);
    };
    if (tracker.redirect != 0) {
      if (is_connected && !is_connected(tracker.redirect)) {
        const auto complain = [loop = tracker.loop, id = id, redirect = tracker.redirect] {
          Client* client = loop->find(id);
          if (client == nullptr || client->protocol != 3) return;
          Reply reply(&client->out, client->protocol);
          reply.push(2);
          reply.bulk("tracking-redir-broken");
          reply.integer(static_cast<std::int64_t>(redirect));
          loop->touch(client);
        };
        tracker.loop == here ? complain() : tracker.loop->post(complain);
        continue;
      }
      if (to_client) to_client(tracker.redirect, tell);
      continue;
    }
    const auto deliver = [loop = tracker.loop, id = id, tell] {
      if (Client* client = loop->find(id)) tell(*client);
    };
    tracker.loop == here ? deliver() : tracker.loop->post(deliver);
  }
}

void Observers::notify(std::uint32_t type, Bytes event, Bytes key, DatabaseId database, ClientLoop* here, std::uint64_t seq) {
  const std::uint32_t flags = notify_flags();
  if ((flags & type) == 0) return;
  const std::string number = std::to_string(database);
  if ((flags & kNotifyKeyspace) != 0) publish("__keyspace@" + number + "__:" + std::string(key), event, here, seq);
  if ((flags & kNotifyKeyevent) != 0) publish("__keyevent@" + number + "__:" + std::string(event), key, here, seq);
}

void Observers::missed(const Command& command, const Args& args, std::span<const LookupKey> keys, const PresentKeys& had,
                       DatabaseId database, ClientLoop* here, std::uint64_t seq) {
  // What only writes looks its keys up without a word; so do OBJECT and MEMORY USAGE.
  constexpr Bytes kReaders[] = {"getex", "getdel", "getset", "set", "bitfield", "bitop", "pfcount", "pfmerge", "copy"};
  const CommandSpec& spec = *command.spec;
  const bool reads = spec.has(kReadOnly) ? spec.container.empty()
                                         : std::find(std::begin(kReaders), std::end(kReaders), spec.name) != std::end(kReaders);
  if (!reads || (spec.name == "set" && !has_word(args, "GET"))) return;
  if (spec.name == "bitfield" && (has_word(args, "SET") || has_word(args, "INCRBY"))) return;
  const bool writes_first = spec.name == "bitop";
  const std::size_t last = spec.name == "copy" ? 1 : keys.size();
  for (std::size_t i = writes_first ? 1 : 0; i < last; ++i) {
    if (!had.contains(keys[i].key)) notify(kNotifyMiss, "keymiss", user_key(keys[i].key), database, here, seq);
  }
}

void Observers::notify_all(const Commit& commit, ClientLoop* here) {
  const Bytes name = commit.command.spec->name;
  const Args& args = commit.args;
  const std::uint64_t seq = commit.seq;
  const bool renames = name == "rename" || name == "renamenx", moves = name == "move";
  // These delete what they overwrite, so that the key counts as new.
  const bool replaces = renames || moves || name == "copy" || name == "restore";
  const DatabaseId target = target_of(name, args, commit.database);
  std::set<std::string, std::less<>> announced;  // MSET may name a key twice
  const auto announce_new = [&](const WriteBatch::Op& op) {
    if ((notify_flags() & kNotifyNew) == 0 || (!replaces && commit.had.contains(op.key))) return;
    if (!announced.emplace(op.key).second) return;
    notify(kNotifyNew, "new", user_key(op.key), target, here, seq);
  };
  std::size_t cursor = 0;
  for (WriteBatch::Op op; replaces && commit.batch.next_op(&cursor, &op);) {
    if (op.kind == OpKind::kPut) announce_new(op);
  }
  cursor = 0;
  // What a key went from comes before what it went to.
  for (WriteBatch::Op op; commit.batch.next_op(&cursor, &op);) {
    if (op.kind != OpKind::kTombstone) continue;
    const Bytes event = renames ? "rename_from" : moves ? "move_from" : "del";
    notify(kNotifyGeneric, event, user_key(op.key), commit.database, here, seq);
  }
  const auto* known = std::find_if(std::begin(kEvents), std::end(kEvents), [name](const Event& e) { return e.command == name; });
  if (known == std::end(kEvents)) return;
  const bool sets_expiry =
      name == "setex" || name == "psetex" || ((name == "set" || name == "stamp.set") && !has_word(args, "KEEPTTL"));
  cursor = 0;
  for (WriteBatch::Op op; commit.batch.next_op(&cursor, &op);) {
    if (op.kind != OpKind::kPut) continue;
    if (!replaces) announce_new(op);
    const std::string key = user_key(op.key);
    const Bytes event = name == "getex" && op.expiry == 0 ? Bytes("persist") : known->name;
    notify(known->type, event, key, target, here, seq);
    if (sets_expiry && op.expiry != 0) notify(kNotifyGeneric, "expire", key, target, here, seq);
  }
}

}  // namespace ebbtide

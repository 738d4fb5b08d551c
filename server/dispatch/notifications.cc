#include "dispatch/notifications.h"

#include <algorithm>
#include <string>

#include "dispatch/arg_cursor.h"
#include "dispatch/command_keys.h"
#include "dispatch/table.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

struct Event {
  Bytes command;
  Bytes name;  ///< of a put; a delete is "del"
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

void Notifications::set_flags(std::uint32_t flags) {
  constexpr std::uint32_t kSome = kNotifyGeneric | kNotifyString | kNotifyExpired | kNotifyMiss | kNotifyNew;
  const bool on = (flags & (kNotifyKeyspace | kNotifyKeyevent)) != 0 && (flags & kSome) != 0;
  flags_.store(on ? flags : 0, std::memory_order_relaxed);
  switches_.set(Switches::kNotifications, on);
}

void Notifications::notify(std::uint32_t type, Bytes event, Bytes key, DatabaseId database, ClientLoop* here, SeqNum seq) {
  const std::uint32_t on = flags();
  if ((on & type) == 0) return;
  const std::string number = std::to_string(database);
  if ((on & kNotifyKeyspace) != 0) publish("__keyspace@" + number + "__:" + std::string(key), event, here, seq);
  if ((on & kNotifyKeyevent) != 0) publish("__keyevent@" + number + "__:" + std::string(event), key, here, seq);
}

bool Notifications::expired(DatabaseId database, Bytes engine_key, ClientLoop* here) {
  notify(kNotifyExpired, "expired", user_key(engine_key), database, here, 0);
  return (flags() & kNotifyExpired) != 0;
}

bool Notifications::missed(const Command& command, const Args& args, std::span<const LookupKey> keys, const PresentKeys& had,
                           DatabaseId database, ClientLoop* here, SeqNum seq, std::size_t* next, const Slice& slice) {
  // In Redis, commands that only write, OBJECT and MEMORY USAGE send no event for a missing key.
  constexpr Bytes kReaders[] = {"getex", "getdel", "getset", "set", "bitfield", "bitop", "pfcount", "pfmerge", "copy"};
  const CommandSpec& spec = *command.spec;
  const bool reads = spec.has(kReadOnly) ? spec.container.empty()
                                         : std::find(std::begin(kReaders), std::end(kReaders), spec.name) != std::end(kReaders);
  if (!reads || (spec.name == "set" && !has_word(args, "GET"))) return true;
  if (spec.name == "bitfield" && (has_word(args, "SET") || has_word(args, "INCRBY"))) return true;
  const bool writes_first = spec.name == "bitop";
  const std::size_t last = spec.name == "copy" ? 1 : keys.size();
  for (std::size_t i = std::max<std::size_t>(*next, writes_first ? 1 : 0); i < last; ++i) {
    if (!had.contains(keys[i].key)) notify(kNotifyMiss, "keymiss", user_key(keys[i].key), database, here, seq);
    *next = i + 1;
    if (slice.over()) return *next >= last;
  }
  return true;
}

bool Notifications::committed(const CommittedCommand& commit, ClientLoop* here, Progress* progress, const Slice& slice) {
  const Bytes name = commit.command.spec->name;
  const Args& args = commit.args;
  const SeqNum seq = commit.seq;
  const bool renames = name == "rename" || name == "renamenx", moves = name == "move";
  // These commands delete the key that they overwrite, so it counts as new.
  const bool replaces = renames || moves || name == "copy" || name == "restore";
  const DatabaseId target = target_database(*commit.command.spec, args, commit.database);
  const auto announce_new = [&](const WriteBatch::Op& op) {
    if ((flags() & kNotifyNew) == 0 || (!replaces && commit.had.contains(op.key))) return;
    if (progress->new_keys.insert(op.key).second) notify(kNotifyNew, "new", user_key(op.key), target, here, seq);
  };
  const auto announce_delete = [&](const WriteBatch::Op& op) {
    const Bytes event = renames ? "rename_from" : moves ? "move_from" : "del";
    notify(kNotifyGeneric, event, user_key(op.key), commit.database, here, seq);
  };
  const auto* known = std::find_if(std::begin(kEvents), std::end(kEvents), [name](const Event& e) { return e.command == name; });
  const bool sets_expiry =
      name == "setex" || name == "psetex" || ((name == "set" || name == "stamp.set") && !has_word(args, "KEEPTTL"));
  const auto announce_put = [&](const WriteBatch::Op& op) {
    if (!replaces) announce_new(op);
    const std::string key = user_key(op.key);
    const Bytes event = name == "getex" && op.expiry == 0 ? Bytes("persist") : known->name;
    notify(known->type, event, key, target, here, seq);
    if (sets_expiry && op.expiry != 0) notify(kNotifyGeneric, "expire", key, target, here, seq);
  };
  // Three walks over the batch: keys that are replaced count as new first, and the event of the source key comes before that of
  // the target key.
  for (; progress->walks < 3; ++progress->walks, progress->cursor = 0) {
    const bool replaced = progress->walks == 0, deletes = progress->walks == 1;
    if ((replaced && !replaces) || (!replaced && !deletes && known == std::end(kEvents))) continue;
    for (WriteBatch::Op op; commit.batch.next_op(&progress->cursor, &op);) {
      if (replaced && op.kind == OpKind::kPut) announce_new(op);
      if (deletes && op.kind == OpKind::kTombstone) announce_delete(op);
      if (!replaced && !deletes && op.kind == OpKind::kPut) announce_put(op);
      if (slice.over()) return false;
    }
  }
  return true;
}

}  // namespace ebbtide

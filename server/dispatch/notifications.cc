#include "dispatch/notifications.h"

#include <algorithm>
#include <string>

#include "dispatch/arg_cursor.h"
#include "dispatch/command_keys.h"
#include "dispatch/expiry_watch.h"
#include "dispatch/table.h"
#include "store/collection/large.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

struct Event {
  Bytes command;
  Bytes name;  ///< event name of a put; that of a delete is always "del"
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

constexpr struct {
  char letter;
  std::uint32_t type;
} kCollectionTypes[] = {{'l', kNotifyList}, {'s', kNotifySet}, {'h', kNotifyHash}, {'z', kNotifyZset}};

/// Returns the flag of a letter that stands for a type of collections; 0 for other letters.
std::uint32_t collection_type(char letter) {
  for (const auto& known : kCollectionTypes) {
    if (known.letter == letter) return known.type;
  }
  return 0;
}

bool has_word(const Args& args, Bytes word) {
  return std::any_of(args.begin(), args.end(), [word](Bytes argument) { return equal_ignoring_case(argument, word); });
}

/// Returns true if ZADD has the option INCR. The options of ZADD end before the first score.
bool zadd_increments(const Args& args) {
  constexpr Bytes kOptions[] = {"nx", "xx", "ch", "gt", "lt"};
  for (std::size_t i = 2; i < args.size(); ++i) {
    if (equal_ignoring_case(args[i], "incr")) return true;
    const auto is = [&](Bytes option) { return equal_ignoring_case(args[i], option); };
    if (std::none_of(std::begin(kOptions), std::end(kOptions), is)) return false;
  }
  return false;
}

/// Returns true if a command such as HEXPIRE has deleted fields, because its time has passed at `now`. `word`: the option before
/// `time`, such as PX; "": the command's name says if the time is absolute.
bool has_deleted_fields(Bytes command, Bytes word, Bytes time, Millis now) {
  const auto number = parse_integer(time);
  if (!number) return false;
  const bool absolute = word.empty() ? command.ends_with("at") : word.size() == 4;  // EXAT, PXAT
  if (!absolute) return *number == 0;
  const bool seconds = word.empty() ? command == "hexpireat" : equal_ignoring_case(word, "EXAT");
  return static_cast<Millis>(*number) * (seconds ? 1000 : 1) <= now;
}

/// The events of a command that has changed elements of one key: usually one event.
struct ElementEvents {
  Bytes first, second = {};
};

/// The events of commands such as HEXPIRE, HPERSIST and HGETEX.
ElementEvents field_events(const CommandSpec& spec, const Args& args, Millis now) {
  const Bytes name = spec.name;
  constexpr Bytes kExpired = "hdel", kExpires = "hexpire";
  if (name.starts_with("hexpire") || name.starts_with("hpexpire")) {
    return {has_deleted_fields(name, {}, args[2], now) ? kExpired : kExpires};
  }
  constexpr Bytes kTimes[] = {"ex", "px", "exat", "pxat"};
  for (std::size_t i = 2; i + 1 < args.size() && !equal_ignoring_case(args[i], "fields"); ++i) {
    const auto is = [&](Bytes word) { return equal_ignoring_case(args[i], word); };
    if (name == "hgetex" && is("persist")) return {"hpersist"};
    if (std::none_of(std::begin(kTimes), std::end(kTimes), is)) continue;
    const Bytes event = has_deleted_fields(name, args[i], args[i + 1], now) ? kExpired : kExpires;
    return name == "hsetex" ? ElementEvents{spec.event.name, event} : ElementEvents{event};
  }
  return {spec.event.name};
}

ElementEvents element_events(const CommandSpec& spec, const Args& args, const std::string& key, Millis now) {
  const Bytes name = spec.name;
  const auto is = [&args](std::size_t i, Bytes word) { return equal_ignoring_case(args[i], word); };
  if (name == "hgetex" || name == "hsetex" || spec.event.name == "hexpire") return field_events(spec, args, now);
  if (name == "zadd" && zadd_increments(args)) return {"zincr"};
  if (name == "smove" && key != args[1]) return {"sadd"};
  if (name == "lmpop" || name == "zmpop" || name == "blmpop" || name == "bzmpop") {
    const auto after = static_cast<std::size_t>(last_key(spec.keys, args.list)) + 1;
    if (name.ends_with("zmpop")) return {is(after, "max") ? Bytes("zpopmax") : Bytes("zpopmin")};
    return {is(after, "right") ? Bytes("rpop") : Bytes("lpop")};
  }
  const bool moves = name == "lmove" || name == "blmove";
  if (!moves && name != "rpoplpush" && name != "brpoplpush") return {spec.event.name};
  const Bytes push = moves && is(4, "right") ? "rpush" : "lpush";
  const Bytes pop = moves && is(3, "left") ? "lpop" : "rpop";
  if (args[1] == args[2]) return {push, pop};  // LMOVE within one list
  return {key == args[1] ? pop : push};
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
        for (const auto& known : kCollectionTypes) flags |= known.type;
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
        if (const std::uint32_t type = collection_type(c); type != 0) {
          flags |= type;
        } else {
          if (Bytes("etd").find(c) == Bytes::npos) return std::nullopt;
          flags |= kNotifyOthers;
        }
    }
  }
  return flags;
}

void Notifications::set_flags(std::uint32_t flags) {
  constexpr std::uint32_t kSome = kNotifyGeneric | kNotifyString | kNotifyExpired | kNotifyMiss | kNotifyNew | kNotifyList |
                                  kNotifySet | kNotifyHash | kNotifyZset;
  const bool on = (flags & (kNotifyKeyspace | kNotifyKeyevent)) != 0 && (flags & kSome) != 0;
  flags_.store(on ? flags : 0, std::memory_order_relaxed);
  switches_.set(Switches::kNotifications, on);
}

std::uint64_t Notifications::work_of(std::size_t keys, std::size_t bytes) const {
  constexpr std::size_t kNameBytes = 32;  // bytes of both channel names, without the key
  const std::uint32_t on = flags();
  if (on == 0 || !work) return 0;
  // Only keyspace channels have the key in their names.
  return work(kNameBytes * keys + ((on & kNotifyKeyspace) != 0 ? bytes : 0));
}

void Notifications::notify(std::uint32_t type, Bytes event, Bytes key, DatabaseId database, ClientLoop* here, SeqNum seq,
                           Outbox* outbox) {
  const std::uint32_t on = flags();
  if ((on & type) == 0) return;
  const auto send = [&](const std::string& channel, Bytes message) {
    if (outbox->empty() && !(publish_in_parts && work && work(channel.size()) > kSentAtOnce))
      return publish(channel, message, here, seq);
    outbox->add(publish_in_parts(channel, message, here, seq));
  };
  const std::string number = std::to_string(database);
  if ((on & kNotifyKeyspace) != 0) send("__keyspace@" + number + "__:" + std::string(key), event);
  if ((on & kNotifyKeyevent) != 0) send("__keyevent@" + number + "__:" + std::string(event), key);
}

bool Notifications::expired(DatabaseId database, Bytes engine_key, ClientLoop* here, Outbox* outbox) {
  // The watch knows fields, and the end of a hash with its last field, under keys of their own (ExpiryWatch).
  const Bytes main = main_key_of(engine_key);
  const bool field = is_field_expiry(engine_key), last_field = engine_key == ExpiryWatch::end_of_fields(main);
  if (!field && !last_field && main.size() != engine_key.size()) return false;
  const std::uint32_t type = field ? kNotifyHash : last_field ? kNotifyGeneric : kNotifyExpired;
  notify(type, field ? "hexpired" : last_field ? "del" : "expired", user_key(main), database, here, 0, outbox);
  return (flags() & type) != 0;
}

bool Notifications::missed(const Command& command, const Args& args, std::span<const LookupKey> keys, const PresentKeys& had,
                           DatabaseId database, ClientLoop* here, SeqNum seq, Misses* progress, const Slice& slice) {
  // In Redis, OBJECT, MEMORY USAGE and commands that only write cause no event for a missing key.
  constexpr Bytes kReaders[] = {"getex",   "getdel",  "getset", "set",  "bitfield",  "bitop",
                                "pfcount", "pfmerge", "copy",   "sort", "georadius", "georadiusbymember"};
  // These commands only read their sources, and overwrite their first key.
  constexpr Bytes kStores[] = {"sinterstore", "sunionstore", "sdiffstore",  "zunionstore",
                               "zinterstore", "zdiffstore",  "zrangestore", "geosearchstore"};
  const CommandSpec& spec = *command.spec;
  const bool stores = std::find(std::begin(kStores), std::end(kStores), spec.name) != std::end(kStores);
  const bool reads = spec.has(kReadOnly)
                         ? spec.container.empty()
                         : stores || std::find(std::begin(kReaders), std::end(kReaders), spec.name) != std::end(kReaders);
  if (!reads || (spec.name == "set" && !has_word(args, "GET"))) return true;
  if (spec.name == "bitfield" && (has_word(args, "SET") || has_word(args, "INCRBY"))) return true;
  const bool writes_first = stores || spec.name == "bitop";
  const std::size_t last = spec.name == "copy" || spec.keys.has_store ? 1 : keys.size();
  Outbox* const outbox = &progress->outbox;
  for (std::size_t i = std::max<std::size_t>(progress->next, writes_first ? 1 : 0); i < last; ++i) {
    if (!outbox->send(slice)) return false;
    if (!had.contains(keys[i].key)) notify(kNotifyMiss, "keymiss", user_key(keys[i].key), database, here, seq, outbox);
    progress->next = i + 1;
    if (slice.over()) return progress->next >= last && outbox->empty();
  }
  return outbox->send(slice);
}

namespace {

/// The effect of an operation on a key that clients see. Elements of a large collection are no such keys.
enum class KeyChange : std::uint8_t { kNone, kPut, kDelete };

KeyChange change_of(const WriteBatch::Op& op) {
  if (op.element) return KeyChange::kNone;
  switch (op.kind) {
    case OpKind::kPut:
    case OpKind::kHeader:
      return KeyChange::kPut;
    case OpKind::kTombstone:
      return KeyChange::kDelete;
    case OpKind::kRangeTombstone: {
      const auto key = collection_of_range(op.key, op.end);
      return key && !key->empty() ? KeyChange::kDelete : KeyChange::kNone;
    }
    default:
      return KeyChange::kNone;
  }
}

}  // namespace

bool Notifications::elements_changed(const CommittedCommand& commit, ClientLoop* here, Progress* progress, const Slice& slice) {
  const CommandSpec& spec = *commit.command.spec;
  const std::uint32_t type = collection_type(spec.event.letter);
  Outbox* const outbox = &progress->outbox;
  for (WriteBatch::Op op; outbox->send(slice);) {
    if (!commit.batch.next_command_op(&progress->cursor, &op)) break;
    const KeyChange change = change_of(op);
    if (change == KeyChange::kNone) continue;
    const std::string key = user_key(op.key);
    const auto send = [&](std::uint32_t of, Bytes event) { notify(of, event, key, commit.database, here, commit.seq, outbox); };
    const bool deletes = change == KeyChange::kDelete;
    const bool is_new = !deletes && !commit.had.contains(op.key);
    if (is_new && (flags() & kNotifyNew) != 0) send(kNotifyNew, "new");
    if (!deletes || spec.event.before_delete) {
      const ElementEvents events = element_events(spec, commit.args, key, commit.time);
      send(type, events.first);
      if (!events.second.empty()) send(type, events.second);
    }
    if (deletes) send(kNotifyGeneric, "del");
    if (slice.over()) return false;
  }
  return outbox->empty();
}

bool Notifications::committed(const CommittedCommand& commit, ClientLoop* here, Progress* progress, const Slice& slice) {
  if (!commit.command.spec->event.name.empty()) return elements_changed(commit, here, progress, slice);
  const Bytes name = commit.command.spec->name;
  const Args& args = commit.args;
  const SeqNum seq = commit.seq;
  Outbox* const outbox = &progress->outbox;
  const bool renames = name == "rename" || name == "renamenx", moves = name == "move";
  // These commands first delete the key that they overwrite, so the event of a new key is published.
  const bool replaces = renames || moves || name == "copy" || name == "restore";
  const DatabaseId target = target_database(*commit.command.spec, args, commit.database);
  const auto announce_new = [&](const WriteBatch::Op& op) {
    if ((flags() & kNotifyNew) == 0 || (!replaces && commit.had.contains(op.key))) return;
    if (progress->new_keys.insert(op.key).second) notify(kNotifyNew, "new", user_key(op.key), target, here, seq, outbox);
  };
  const auto announce_delete = [&](const WriteBatch::Op& op) {
    const Bytes event = renames ? "rename_from" : moves ? "move_from" : "del";
    notify(kNotifyGeneric, event, user_key(op.key), commit.database, here, seq, outbox);
  };
  const auto* known = std::find_if(std::begin(kEvents), std::end(kEvents), [name](const Event& e) { return e.command == name; });
  const bool sets_expiry =
      name == "setex" || name == "psetex" || ((name == "set" || name == "stamp.set") && !has_word(args, "KEEPTTL"));
  const auto announce_put = [&](const WriteBatch::Op& op) {
    if (!replaces) announce_new(op);
    const std::string key = user_key(op.key);
    const Bytes event = name == "getex" && op.expiry == 0 ? Bytes("persist") : known->name;
    notify(known->type, event, key, target, here, seq, outbox);
    if (sets_expiry && op.expiry != 0) notify(kNotifyGeneric, "expire", key, target, here, seq, outbox);
  };
  // Three walks over the batch give Redis's order of events. The first walk sends "new" events of keys that the command replaces.
  // The second sends events of deletes (a source key), and the third events of puts (a target key).
  for (; progress->walks < 3; ++progress->walks, progress->cursor = 0) {
    const bool replaced = progress->walks == 0, deletes = progress->walks == 1;
    if ((replaced && !replaces) || (!replaced && !deletes && known == std::end(kEvents))) continue;
    for (WriteBatch::Op op; outbox->send(slice);) {
      if (!commit.batch.next_command_op(&progress->cursor, &op)) break;
      const KeyChange change = change_of(op);
      if (replaced && change == KeyChange::kPut) announce_new(op);
      if (deletes && change == KeyChange::kDelete) announce_delete(op);
      if (!replaced && !deletes && change == KeyChange::kPut) announce_put(op);
      if (slice.over()) return false;
    }
    if (!outbox->empty()) return false;
  }
  return true;
}

}  // namespace ebbtide

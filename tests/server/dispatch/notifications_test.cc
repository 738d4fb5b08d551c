// Tests of keyspace notifications: the events that a command's writes publish, and their order.
#include "dispatch/notifications.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "dispatch/table.h"

namespace ebbtide::test {
namespace TEST_FILE {

using Strings = std::vector<std::string>;

/// Collects published messages as "channel message".
struct Fixture {
  explicit Fixture(Bytes flags) {
    notifications.publish = [this](Bytes channel, Bytes message, ClientLoop*, SeqNum) {
      published.push_back(std::string(channel) + " " + std::string(message));
    };
    notifications.set_flags(parse_notify_flags(flags).value());
  }
  Strings take() { return std::exchange(published, {}); }
  /// Returns the events of a command that has written `batch` in `database`.
  Strings events(const std::vector<Bytes>& words, const WriteBatch& batch, const PresentKeys& had = {}, DatabaseId database = 0) {
    return events(CommandSpec{.name = words[0]}, words, batch, had, database);
  }
  Strings events(const CommandSpec& spec, const std::vector<Bytes>& words, const WriteBatch& batch, const PresentKeys& had = {},
                 DatabaseId database = 0) {
    const Command command{&spec, 0, 0, std::string(words[0])};
    Args args;
    args.list = words;
    notifications.committed({command, args, database, batch, 1, had, 0}, nullptr);
    return take();
  }

  Switches switches;
  Notifications notifications{switches};
  Strings published;
};

WriteBatch put(Bytes key, Millis expiry = 0) {
  WriteBatch batch;
  batch.put(0, key, "v", {.expiry = expiry});
  return batch;
}

TEST_CASE("letter of notify-keyspace-events is unknown: the setting is refused") {
  CHECK(parse_notify_flags("KEA"));
  CHECK(parse_notify_flags("") == 0u);
  CHECK_FALSE(parse_notify_flags("KEQ"));
}

TEST_CASE("notify-keyspace-events has no K or E, or no class of events: notifications are off") {
  for (const char* off : {"", "K", "E", "$", "KEt"}) {
    Fixture t(off);
    CHECK(t.notifications.flags() == 0);
    CHECK_FALSE(t.switches.has(Switches::kNotifications));
  }
  Fixture t("K$");
  CHECK(t.notifications.flags() == (kNotifyKeyspace | kNotifyString));
  CHECK(t.switches.has(Switches::kNotifications));
}

TEST_CASE("SET has an expiry: it publishes set, then expire, on both kinds of channels") {
  Fixture t("KEA");
  CHECK(t.events({"set", "k", "v", "EX", "5"}, put("k", 5000), {}, 3) ==
        Strings{"__keyspace@3__:k set", "__keyevent@3__:set k", "__keyspace@3__:k expire", "__keyevent@3__:expire k"});
}

TEST_CASE("RENAME runs: rename_from of the source is published before rename_to of the target") {
  Fixture t("EA");
  WriteBatch batch = put("to");
  batch.del(0, "from");
  CHECK(t.events({"rename", "from", "to"}, batch) == Strings{"__keyevent@0__:rename_from from", "__keyevent@0__:rename_to to"});
}

TEST_CASE("COPY has a target in another database: the event is published in that database") {
  Fixture t("EA");
  CHECK(t.events({"copy", "from", "to", "DB", "2"}, put("to")) == Strings{"__keyevent@2__:copy_to to"});
}

TEST_CASE("key is deleted: the event del is published, unless its class is off") {
  WriteBatch batch;
  batch.del(0, "k");
  CHECK(Fixture("Eg").events({"del", "k"}, batch) == Strings{"__keyevent@0__:del k"});
  CHECK(Fixture("E$").events({"del", "k"}, batch).empty());
}

TEST_CASE("key is written: the event `new` is published only if the key did not exist, and once per command") {
  Fixture t("En");
  CHECK(t.events({"set", "k", "v"}, put("k"), {"k"}).empty());
  WriteBatch batch = put("k");
  batch.put(0, "k", "v");
  CHECK(t.events({"mset", "k", "v", "k", "v"}, batch) == Strings{"__keyevent@0__:new k"});
}

TEST_CASE("command reads keys: keymiss is published for each key that does not exist") {
  Fixture t("Em");
  const CommandSpec spec{.name = "mget", .flags = kReadOnly};
  const Command command{&spec, 0, 0, "mget"};
  const LookupKey keys[] = {{"a", 1}, {"b", 2}};
  Notifications::Misses progress;
  CHECK(t.notifications.missed(command, {}, keys, {"a"}, 0, nullptr, 0, &progress, Slice()));
  CHECK(t.take() == Strings{"__keyevent@0__:keymiss b"});
}

TEST_CASE("key expires: the event expired is published if its class is on") {
  Fixture on("Ex"), off("E$");
  Notifications::Outbox outbox;
  CHECK(on.notifications.expired(1, "k", nullptr, &outbox));
  CHECK(on.take() == Strings{"__keyevent@1__:expired k"});
  CHECK_FALSE(off.notifications.expired(1, "k", nullptr, &outbox));
  CHECK(off.take().empty());
}

TEST_CASE("events are published in slices: events and order are the same as without slices") {
  Fixture t("KEAn");
  WriteBatch batch;
  for (const char* key : {"a", "b", "a", "c"}) batch.put(0, key, "v");
  batch.del(0, "d");
  const CommandSpec spec{.name = "mset"};
  const Command command{&spec, 0, 0, "mset"};
  const CommittedCommand commit{command, {}, 0, batch, 1, {"b"}, 0};
  t.notifications.committed(commit, nullptr);
  const Strings at_once = t.take();
  CHECK(at_once.size() == 2 * (1 + 4 + 2));  // d is deleted, there are 4 sets, and a and c are new

  const Slice one_step([] { return true; });
  Notifications::Progress progress;
  std::size_t slices = 1, most = 0, before = 0;
  for (; !t.notifications.committed(commit, nullptr, &progress, one_step); ++slices) {
    most = std::max(most, t.published.size() - before);
    before = t.published.size();
  }
  CHECK(slices > 5);
  CHECK(most == 4);  // one key, with the event that it is new
  CHECK(t.take() == at_once);
}

TEST_CASE("messages take long to send: they are sent in parts, in the order of the events") {
  Fixture t("KEn$");
  WriteBatch batch;
  for (const char* key : {"a", "long", "b"}) batch.put(0, key, "v");
  const CommandSpec spec{.name = "mset"};
  const Command command{&spec, 0, 0, "mset"};
  const CommittedCommand commit{command, {}, 0, batch, 1, {}, 0};
  t.notifications.committed(commit, nullptr);
  const Strings at_once = t.take();

  int parts = 0;
  t.notifications.work = [](std::size_t channel_bytes) { return channel_bytes == 19 ? 1 << 20 : 0; };  // __keyspace@0__:long
  t.notifications.publish_in_parts = [&](Bytes channel, Bytes message, ClientLoop*, SeqNum) {
    const std::string text = std::string(channel) + " " + std::string(message);
    return [&t, &parts, text, left = 3](const Slice&) mutable {
      ++parts;
      if (--left > 0) return false;
      t.published.push_back(text);
      return true;
    };
  };
  Notifications::Progress progress;
  int slices = 1;
  for (; !t.notifications.committed(commit, nullptr, &progress, Slice()); ++slices) {
  }
  CHECK(t.take() == at_once);
  CHECK(slices > 4);
  CHECK(parts >= 6);
}

TEST_CASE("keymiss events are published in slices: events and order are the same as without slices") {
  Fixture t("KEm");
  const CommandSpec spec{.name = "mget", .flags = kReadOnly};
  const Command command{&spec, 0, 0, "mget"};
  const std::vector<LookupKey> keys{{"a", 0}, {"b", 0}, {"c", 0}};
  Notifications::Misses progress;
  const Slice one_step([] { return true; });
  CHECK_FALSE(t.notifications.missed(command, {}, keys, {"b"}, 0, nullptr, 0, &progress, one_step));
  CHECK(t.take() == Strings{"__keyspace@0__:a keymiss", "__keyevent@0__:keymiss a"});
  CHECK_FALSE(t.notifications.missed(command, {}, keys, {"b"}, 0, nullptr, 0, &progress, one_step));
  CHECK(t.take().empty());
  CHECK(t.notifications.missed(command, {}, keys, {"b"}, 0, nullptr, 0, &progress, one_step));
  CHECK(t.take() == Strings{"__keyspace@0__:c keymiss", "__keyevent@0__:keymiss c"});
}

TEST_CASE("command removes the last element: its event comes before del; a command that stores no element publishes only del") {
  Fixture t("EA");
  WriteBatch batch;
  batch.del(0, "k");
  const CommandSpec hdel{.name = "hdel", .event = {.name = "hdel", .letter = 'h', .before_delete = true}};
  const CommandSpec store{.name = "sinterstore", .event = {.name = "sinterstore", .letter = 's'}};
  CHECK(t.events(hdel, {"hdel", "k", "f"}, batch) == Strings{"__keyevent@0__:hdel k", "__keyevent@0__:del k"});
  CHECK(t.events(hdel, {"hdel", "k", "f"}, put("k")) == Strings{"__keyevent@0__:hdel k"});
  CHECK(t.events(store, {"sinterstore", "k", "a"}, batch) == Strings{"__keyevent@0__:del k"});
  CHECK(Fixture("Eg").events(hdel, {"hdel", "k", "f"}, batch) == Strings{"__keyevent@0__:del k"});
}

TEST_CASE("element is moved: source and target keys have an event each, and a list that is rotated has both") {
  Fixture t("EA");
  const CommandSpec smove{.name = "smove", .event = {.name = "srem", .letter = 's', .before_delete = true}};
  WriteBatch moved;
  moved.del(0, "a");
  moved.put(0, "b", "v");
  CHECK(t.events(smove, {"smove", "a", "b", "m"}, moved) ==
        Strings{"__keyevent@0__:srem a", "__keyevent@0__:del a", "__keyevent@0__:sadd b"});
  const CommandSpec lmove{.name = "lmove", .event = {.name = "lpop", .letter = 'l', .before_delete = true}};
  WriteBatch pushed;
  pushed.put(0, "b", "v");
  pushed.del(0, "a");
  CHECK(t.events(lmove, {"lmove", "a", "b", "left", "right"}, pushed) ==
        Strings{"__keyevent@0__:rpush b", "__keyevent@0__:lpop a", "__keyevent@0__:del a"});
  CHECK(t.events(lmove, {"lmove", "a", "a", "right", "left"}, put("a")) ==
        Strings{"__keyevent@0__:lpush a", "__keyevent@0__:rpop a"});
}

TEST_CASE("ZADD has the word INCR: the event is zincr if INCR is an option, and zadd if it is a member") {
  Fixture t("EA");
  const CommandSpec zadd{.name = "zadd", .event = {.name = "zadd", .letter = 'z'}};
  CHECK(t.events(zadd, {"zadd", "k", "XX", "incr", "1", "m"}, put("k")) == Strings{"__keyevent@0__:zincr k"});
  CHECK(t.events(zadd, {"zadd", "k", "1", "incr"}, put("k")) == Strings{"__keyevent@0__:zadd k"});
}

}  // namespace TEST_FILE
}  // namespace ebbtide::test

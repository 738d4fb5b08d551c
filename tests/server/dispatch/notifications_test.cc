// Keyspace notifications: which events a command's writes publish, and in which order.
#include "dispatch/notifications.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "dispatch/table.h"

namespace ebbtide::test {
namespace {

using Strings = std::vector<std::string>;

/// Collects "channel message" of what is published.
struct Fixture {
  explicit Fixture(Bytes flags) {
    notifications.publish = [this](Bytes channel, Bytes message, ClientLoop*, SeqNum) {
      published.push_back(std::string(channel) + " " + std::string(message));
    };
    notifications.set_flags(parse_notify_flags(flags).value());
  }
  Strings take() { return std::exchange(published, {}); }
  /// Publishes the events of a command that has written `batch` in `database`.
  Strings events(const std::vector<Bytes>& words, const WriteBatch& batch, const PresentKeys& had = {}, DatabaseId database = 0) {
    const CommandSpec spec{.name = words[0]};
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

TEST_CASE("an unknown letter of notify-keyspace-events is refused") {
  CHECK(parse_notify_flags("KEA"));
  CHECK(parse_notify_flags("") == 0u);
  CHECK_FALSE(parse_notify_flags("KEQ"));
}

TEST_CASE("notifications are off without a channel kind, or without a class of events that exists") {
  for (const char* off : {"", "K", "E", "$", "KEl"}) {
    Fixture t(off);
    CHECK(t.notifications.flags() == 0);
    CHECK_FALSE(t.switches.has(Switches::kNotifications));
  }
  Fixture t("K$");
  CHECK(t.notifications.flags() == (kNotifyKeyspace | kNotifyString));
  CHECK(t.switches.has(Switches::kNotifications));
}

TEST_CASE("a SET with an expiry publishes set, then expire, on both kinds of channels") {
  Fixture t("KEA");
  CHECK(t.events({"set", "k", "v", "EX", "5"}, put("k", 5000), {}, 3) ==
        Strings{"__keyspace@3__:k set", "__keyevent@3__:set k", "__keyspace@3__:k expire", "__keyevent@3__:expire k"});
}

TEST_CASE("RENAME publishes the event of its source first") {
  Fixture t("EA");
  WriteBatch batch = put("to");
  batch.del(0, "from");
  CHECK(t.events({"rename", "from", "to"}, batch) == Strings{"__keyevent@0__:rename_from from", "__keyevent@0__:rename_to to"});
}

TEST_CASE("COPY to another database publishes its event there") {
  Fixture t("EA");
  CHECK(t.events({"copy", "from", "to", "DB", "2"}, put("to")) == Strings{"__keyevent@2__:copy_to to"});
}

TEST_CASE("a delete publishes del, unless its class is off") {
  WriteBatch batch;
  batch.del(0, "k");
  CHECK(Fixture("Eg").events({"del", "k"}, batch) == Strings{"__keyevent@0__:del k"});
  CHECK(Fixture("E$").events({"del", "k"}, batch).empty());
}

TEST_CASE("only a key that did not exist before is new, once per command") {
  Fixture t("En");
  CHECK(t.events({"set", "k", "v"}, put("k"), {"k"}).empty());
  WriteBatch batch = put("k");
  batch.put(0, "k", "v");
  CHECK(t.events({"mset", "k", "v", "k", "v"}, batch) == Strings{"__keyevent@0__:new k"});
}

TEST_CASE("a read publishes a miss of each key that does not exist") {
  Fixture t("Em");
  const CommandSpec spec{.name = "mget", .flags = kReadOnly};
  const Command command{&spec, 0, 0, "mget"};
  const LookupKey keys[] = {{"a", 1}, {"b", 2}};
  t.notifications.missed(command, {}, keys, {"a"}, 0, nullptr, 0);
  CHECK(t.take() == Strings{"__keyevent@0__:keymiss b"});
}

TEST_CASE("an expiration is published if its class is on") {
  Fixture on("Ex"), off("E$");
  CHECK(on.notifications.expired(1, "k", nullptr));
  CHECK(on.take() == Strings{"__keyevent@1__:expired k"});
  CHECK_FALSE(off.notifications.expired(1, "k", nullptr));
  CHECK(off.take().empty());
}

}  // namespace
}  // namespace ebbtide::test

// Keyspace notifications: which events a command's writes publish, and in which order.
#include "dispatch/notifications.h"

#include <algorithm>
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
  std::size_t next = 0;
  CHECK(t.notifications.missed(command, {}, keys, {"a"}, 0, nullptr, 0, &next, Slice()));
  CHECK(t.take() == Strings{"__keyevent@0__:keymiss b"});
}

TEST_CASE("an expiration is published if its class is on") {
  Fixture on("Ex"), off("E$");
  CHECK(on.notifications.expired(1, "k", nullptr));
  CHECK(on.take() == Strings{"__keyevent@1__:expired k"});
  CHECK_FALSE(off.notifications.expired(1, "k", nullptr));
  CHECK(off.take().empty());
}

TEST_CASE("events in slices are the same, in the same order, as events at once") {
  Fixture t("KEAn");
  WriteBatch batch;
  for (const char* key : {"a", "b", "a", "c"}) batch.put(0, key, "v");
  batch.del(0, "d");
  const CommandSpec spec{.name = "mset"};
  const Command command{&spec, 0, 0, "mset"};
  const CommittedCommand commit{command, {}, 0, batch, 1, {"b"}, 0};
  t.notifications.committed(commit, nullptr);
  const Strings at_once = t.take();
  CHECK(at_once.size() == 2 * (1 + 4 + 2));  // d is deleted, 4 sets, a and c are new

  const Slice one_step([] { return true; });
  Notifications::Progress progress;
  std::size_t slices = 1, most = 0, before = 0;
  for (; !t.notifications.committed(commit, nullptr, &progress, one_step); ++slices) {
    most = std::max(most, t.published.size() - before);
    before = t.published.size();
  }
  CHECK(slices > 5);
  CHECK(most == 4);  // one key, with its event of a new key
  CHECK(t.take() == at_once);
}

TEST_CASE("events of misses in slices are the same as at once") {
  Fixture t("KEm");
  const CommandSpec spec{.name = "mget", .flags = kReadOnly};
  const Command command{&spec, 0, 0, "mget"};
  const std::vector<LookupKey> keys{{"a", 0}, {"b", 0}, {"c", 0}};
  std::size_t next = 0;
  const Slice one_step([] { return true; });
  CHECK_FALSE(t.notifications.missed(command, {}, keys, {"b"}, 0, nullptr, 0, &next, one_step));
  CHECK(t.take() == Strings{"__keyspace@0__:a keymiss", "__keyevent@0__:keymiss a"});
  CHECK_FALSE(t.notifications.missed(command, {}, keys, {"b"}, 0, nullptr, 0, &next, one_step));
  CHECK(t.take().empty());
  CHECK(t.notifications.missed(command, {}, keys, {"b"}, 0, nullptr, 0, &next, one_step));
  CHECK(t.take() == Strings{"__keyspace@0__:c keymiss", "__keyevent@0__:keymiss c"});
}

}  // namespace
}  // namespace ebbtide::test

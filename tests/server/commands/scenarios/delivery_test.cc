// Tests of the effects of long commands: they are delivered in slices, and other clients are served in between.
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "commands/families.h"
#include "server/dispatch/manual_offload.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

using Lines = std::vector<std::string>;

/// A server whose slices have a few effects each, and begin when the test calls for them.
struct SlicedServer : CommandHarness {
  SlicedServer() : CommandHarness(command_families()) {
    env.offload = &manual;
    control.nanos_per_look = Dispatcher::kPassNanos / 5;
    observers.notifications.publish = [this](Bytes channel, Bytes message, ClientLoop*, SeqNum) {
      published.push_back(std::string(channel) + " " + std::string(message));
    };
    observers.notifications.listeners = [this] { return listeners; };
    observers.after_all_loops = [this](ClientLoop*, std::function<void()> then) { slices.push_back(std::move(then)); };
  }
  ~SlicedServer() {
    while (next_slice()) {
    }
    while (manual.run_one()) {
    }
  }
  void notify(Bytes flags) { observers.notifications.set_flags(parse_notify_flags(flags).value()); }
  /// Runs the command until its batch is committed.
  void commit(Asked& asked) {
    CHECK_FALSE(asked.step());
    REQUIRE(manual.run_one());
    CHECK_FALSE(asked.step());
    REQUIRE(manual.run_one());
    CHECK_FALSE(asked.step());
  }
  Asked ask(int client_number, Lines words) { return {*dispatcher, client(client_number), std::move(words)}; }
  /// Runs a command of another client to its end. It must not have to wait.
  std::string beside(Bytes line, int client_number = 50) {
    Asked asked = ask(client_number, split_line(line));
    REQUIRE(asked.step());
    return asked.reply();
  }
  bool next_slice() {
    if (slices.empty()) return false;
    const std::function<void()> slice = std::move(slices.front());
    slices.pop_front();
    slice();
    return true;
  }
  void deliver_all() {
    while (next_slice()) {
    }
  }

  ManualOffload manual;
  std::deque<std::function<void()>> slices;
  Lines published;
  std::size_t listeners = 1;
};

Lines many(const char* command, int keys, bool values) {
  Lines words{command};
  for (int i = 0; i < keys; ++i) {
    words.push_back("k" + std::to_string(i));
    if (values) words.push_back("v");
  }
  return words;
}

Lines events(int keys, const char* event) {
  Lines lines;
  for (int i = 0; i < keys; ++i) lines.push_back("__keyevent@0__:" + std::string(event) + " k" + std::to_string(i));
  return lines;
}

TEST_CASE("command changes many keys: its notifications are sent in slices before the reply, and other clients run in between") {
  SlicedServer server;
  server.notify("EA");
  Asked set = server.ask(1, many("MSET", 600, true));
  server.commit(set);
  CHECK(server.published.size() < 10);
  CHECK(server.beside("GET k599") == "\"v\"");
  CHECK(server.beside("SET other 1") == "OK");
  CHECK(server.next_slice());
  CHECK(server.published.size() < 20);
  CHECK_FALSE(set.step());  // the command was resumed for another reason
  server.deliver_all();
  CHECK(set.step());
  CHECK(set.reply() == "OK");
  std::erase(server.published, "__keyevent@0__:set other");
  CHECK(server.published == events(600, "set"));
  CHECK_FALSE(server.intents.any());
}

TEST_CASE("key is compared with many patterns: the comparison is cut into slices, and other clients run in between") {
  SlicedServer server;
  server.notify("Km$");
  // Each message takes several slices.
  server.observers.notifications.work = [](std::size_t channel_bytes) {
    return channel_bytes > 60 ? 2 * Dispatcher::kLoopWorkBytes : 0;
  };
  server.observers.notifications.publish_in_parts = [&server](Bytes, Bytes message, ClientLoop*, SeqNum) {
    return [&server, text = std::string(message), left = 20](const Slice&) mutable {
      if (--left > 0) return false;
      server.published.push_back(text);
      return true;
    };
  };
  const std::string name(100, 'k');
  const bool writes = GENERATE(true, false);
  Asked asked = server.ask(1, writes ? Lines{"SET", name, "v"} : Lines{"GET", name});
  if (writes) {
    server.commit(asked);
  } else {
    CHECK_FALSE(asked.step());
    REQUIRE(server.manual.run_one());
    CHECK_FALSE(asked.step());
  }
  CHECK(server.published.empty());
  CHECK(server.beside("SET other 1") == "OK");
  CHECK(server.next_slice());
  CHECK_FALSE(asked.step());
  server.deliver_all();
  CHECK(asked.step());
  CHECK(asked.reply() == (writes ? "OK" : "(nil)"));
  std::erase(server.published, "__keyspace@0__:other set");
  CHECK(server.published == Lines{writes ? "set" : "keymiss"});
  CHECK_FALSE(server.intents.any());
}

TEST_CASE("long write is committed: its batch is charged to the budget until its notifications are delivered") {
  SlicedServer server;
  server.notify("EA");
  Lines words{"MSET"};
  for (int i = 0; i < 600; ++i) {
    words.push_back("k" + std::to_string(i));
    words.push_back(std::string(1000, 'v'));
  }
  Asked set = server.ask(1, words);
  server.commit(set);
  const auto charged = [&server] { return server.db->memory().charged(MemoryAccount::Kind::kCommands); };
  CHECK(charged() >= 600'000);
  server.deliver_all();
  CHECK(set.step());
  CHECK(set.reply() == "OK");
  while (server.manual.run_one()) {
  }
  CHECK(charged() == 0);
}

TEST_CASE("notifications of a key are being delivered: a write of the key waits until they are, also after FLUSHDB") {
  SlicedServer server;
  server.notify("EA");
  Asked set = server.ask(1, many("MSET", 600, true));
  server.commit(set);
  if (GENERATE(false, true)) CHECK(server.beside("FLUSHDB") == "OK");
  Asked later = server.ask(2, {"SETEX", "k599", "100", "w"});
  CHECK_FALSE(later.step());
  CHECK(server.beside("EXISTS none") == "(integer) 0");
  server.deliver_all();
  CHECK(later.step());
  CHECK(later.reply() == "OK");
  CHECK(server.published.back() == "__keyevent@0__:expire k599");
  CHECK(server.published.size() == 602);
  CHECK(set.step());
}

TEST_CASE("notifications of EXEC with FLUSHDB are being delivered: only keys that EXEC set are locked for writes") {
  SlicedServer server;
  server.notify("EA");
  CHECK(server.beside("MULTI", 1) == "OK");
  CHECK(server.beside("SETEX gone 100 v", 1) == "QUEUED");
  CHECK(server.beside("FLUSHDB", 1) == "QUEUED");
  Asked queued = server.ask(1, many("MSET", 600, true));
  CHECK(queued.step());
  queued.reply();
  Asked exec = server.ask(1, {"EXEC"});
  server.commit(exec);
  CHECK(server.published.size() < 10);
  CHECK(server.beside("SETEX other 100 1") == "OK");
  Asked later = server.ask(2, {"SET", "k599", "w"});
  CHECK_FALSE(later.step());
  server.deliver_all();
  CHECK(later.step());
  CHECK(exec.step());
  CHECK(exec.reply() == "[OK, OK, OK]");
  CHECK(server.published.size() == 2 + 600 + 2 + 1);
  CHECK(server.published.back() == "__keyevent@0__:set k599");
  CHECK(server.beside("EXISTS gone k0 k599") == "(integer) 2");
}

TEST_CASE("client disconnects before its notifications are sent: they are sent, and then its keys are writable") {
  SlicedServer server;
  server.notify("EA");
  {
    Asked set = server.ask(1, many("MSET", 600, true));
    server.commit(set);
    set.close();
  }
  server.deliver_all();
  CHECK(server.published == events(600, "set"));
  CHECK_FALSE(server.intents.any());
  CHECK(server.beside("SET k1 x") == "OK");
}

TEST_CASE("two long commands have committed: their notifications and invalidations are delivered in turns") {
  SlicedServer server;
  server.notify("EA");
  Asked set = server.ask(1, many("MSET", 6000, true));
  server.commit(set);
  Lines names = many("MSET", 513, true);
  for (std::size_t i = 1; i < names.size(); i += 2) names[i] = "other:" + names[i];
  Asked shorter = server.ask(2, names);
  server.commit(shorter);
  while (!shorter.step()) REQUIRE(server.next_slice());
  CHECK(shorter.reply() == "OK");
  CHECK(server.published.size() < 6000);
  server.deliver_all();
  CHECK(set.step());
  CHECK(server.published.size() == 6513);
}

TEST_CASE("transaction is long: its notifications have the order of its commands, and come before its reply") {
  SlicedServer server;
  server.notify("EA");
  CHECK(server.beside("SET gone 1") == "OK");
  server.published.clear();
  const bool large_command = GENERATE(false, true);
  CHECK(server.beside("MULTI", 1) == "OK");
  Lines expected;
  if (large_command) {
    CHECK(server.raw(many("MSET", 600, true)) == "+QUEUED\r\n");
    expected = events(600, "set");
  } else {
    for (int i = 0; i < 400; ++i) CHECK(server.beside("SETEX k" + std::to_string(i) + " 100 v", 1) == "QUEUED");
    for (const std::string& set : events(400, "set")) {
      expected.push_back(set);
      expected.push_back("__keyevent@0__:expire " + set.substr(set.rfind('k')));
    }
  }
  CHECK(server.beside("DEL gone", 1) == "QUEUED");
  expected.push_back("__keyevent@0__:del gone");
  Asked exec = server.ask(1, {"EXEC"});
  server.commit(exec);
  CHECK(server.published.size() < 10);
  CHECK(exec.reply().empty());
  server.deliver_all();
  CHECK(exec.step());
  CHECK(exec.reply().ends_with("(integer) 1]"));
  CHECK(server.published == expected);
}

TEST_CASE("command has several keys: it runs on its event loop if few clients get notifications, off the loop if many do") {
  SlicedServer server;
  server.notify("EA");
  server.listeners = 10;
  CHECK(server.beside("MSET a 1 b 2 c 3 d 4 e 5") == "OK");
  server.listeners = 10'000;
  Asked set = server.ask(1, split_line("MSET a 1 b 2 c 3 d 4 e 5"));
  CHECK_FALSE(set.step());
  CHECK(server.manual.run_one());
  CHECK_FALSE(set.step());
  CHECK(server.manual.run_one());
  if (!set.step()) {
    server.deliver_all();
    CHECK(set.step());
  }
  CHECK(set.reply() == "OK");
  CHECK(server.published.size() == 10);
}

TEST_CASE("tracking client runs MGET of 2,000 keys: the keys are tracked before the read, and misses are sent in slices") {
  SlicedServer server;
  server.notify("Em");
  server.client(1).protocol = 3;
  CHECK(server.beside("CLIENT TRACKING ON", 1) == "OK");
  CHECK(server.beside("MSET k0 v k1999 v") == "OK");
  Asked read = server.ask(1, many("MGET", 2000, false));
  CHECK_FALSE(read.step());
  CHECK(server.observers.tracking.counts().keys == 0);
  CHECK(server.manual.run_one());
  CHECK(server.observers.tracking.counts().keys == 2000);
  CHECK_FALSE(read.step());
  CHECK(server.published.size() < 10);
  server.deliver_all();
  auto& kept = state_of(server.client(1)).kept_invalidations;
  REQUIRE(kept);
  kept->push_back({nullptr, 1});  // an invalidation: the reply may have older values
  CHECK(server.client(1).out.empty());
  CHECK(read.step());
  CHECK_FALSE(kept);
  const std::string reply = server.client(1).out.to_string();
  CHECK(reply.starts_with("*2000\r\n$1\r\nv\r\n_\r\n"));
  CHECK(reply.ends_with("$1\r\nv\r\n>2\r\n$10\r\ninvalidate\r\n_\r\n"));
  CHECK(server.published.size() == 1998);
}

TEST_CASE("long command writes new and old keys: the event `new` is published only for keys that did not exist") {
  SlicedServer server;
  server.notify("En");
  CHECK(server.beside("SET k7 v") == "OK");
  server.published.clear();
  Asked set = server.ask(1, many("MSET", 600, true));
  server.commit(set);
  server.deliver_all();
  CHECK(set.step());
  Lines expected = events(600, "new");
  expected.erase(expected.begin() + 7);
  CHECK(server.published == expected);
}

}  // namespace TEST_FILE

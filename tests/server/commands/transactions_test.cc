// Tests of transactions in dispatch: stalls, missing pages, atomicity. The transcripts test their replies.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "commands/families.h"
#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

std::uint64_t calls(const CommandHarness& server, Bytes command) {
  return server.stats.commands()[server.table.find_full(command)->index].calls;
}

/// Makes two transactions meet inside EXEC, if they can. Each waits there for the other, for a limited time, since the other may
/// be waiting for its locks.
class Meeting {
 public:
  static constexpr int kPatience = 2000;
  static Status meet(Ctx& ctx) {
    inside_ += 1;
    for (int i = 0; i < kPatience && inside_ < 2; ++i) std::this_thread::yield();
    ctx.reply.simple("OK");
    return Status::ok();
  }
  static void begin() { inside_ = 0; }

 private:
  static std::atomic<int> inside_;
};
std::atomic<int> Meeting::inside_{0};

/// Advances the time inside EXEC, once.
class Delay {
 public:
  static Status wait(Ctx& ctx) {
    if (clock_ != nullptr) std::exchange(clock_, nullptr)->advance(kMillis);
    ctx.reply.simple("OK");
    return Status::ok();
  }
  static void begin(SimulatedClock& clock) { clock_ = &clock; }
  static bool is_over() { return clock_ == nullptr; }
  static constexpr Millis kMillis = 100;

 private:
  static SimulatedClock* clock_;
};
SimulatedClock* Delay::clock_ = nullptr;

constexpr CommandSpec kOwn[] = {
    {.name = "meet", .arity = exactly(1), .flags = kWrite, .run = Meeting::meet},
    {.name = "delay", .arity = exactly(1), .flags = kWrite, .run = Delay::wait},
};

std::vector<std::span<const CommandSpec>> families_and_own() {
  std::vector<std::span<const CommandSpec>> families(command_families().begin(), command_families().end());
  families.emplace_back(kOwn);
  return families;
}

/// Runs EXEC on an event loop of its own.
std::string exec_on_a_loop(CommandHarness& server, int client_number) {
  Dispatcher dispatcher(server.env, static_cast<std::uint64_t>(client_number));
  Client& client = server.client(client_number);
  const std::vector<Bytes> line{"EXEC"};
  PendingCommand pending;
  pending.client = &client;
  pending.args.list = line;
  dispatcher.run_pass(std::span(&pending, 1));
  const std::string reply = client.out.to_string();
  client.out.consume(client.out.size());
  return reply;
}

TEST_CASE("two transactions watch a and b and write one key each: one of them fails", "[threads]") {
  CommandHarness server(families_and_own());
  for (int round = 0; round < 20; ++round) {
    Meeting::begin();
    server("MSET a 0 b 0");
    const char* const writes[] = {"SET b 1", "SET a 1"};
    for (const int client : {1, 2}) {
      server("WATCH a b", client);
      server("MULTI", client);
      server("MEET", client);
      server(writes[client - 1], client);
    }
    std::string replies[2];
    std::thread other([&] { replies[1] = exec_on_a_loop(server, 2); });
    replies[0] = exec_on_a_loop(server, 1);
    other.join();
    server.db->write_log();
    const bool first = replies[0] == "*2\r\n+OK\r\n+OK\r\n", second = replies[1] == "*2\r\n+OK\r\n+OK\r\n";
    INFO("round " << round << ", replies " << replies[0] << " and " << replies[1]);
    REQUIRE(first != second);
    CHECK(replies[first ? 1 : 0] == "*-1\r\n");
    CHECK(server("MGET a b") == (first ? R"(["0", "1"])" : R"(["1", "0"])"));
  }
}

TEST_CASE("two transactions increment a key, one of them after SELECT: one runs after the other", "[threads]") {
  CommandHarness server(families_and_own());
  server("SELECT 1", 2);
  for (int round = 0; round < 20; ++round) {
    Meeting::begin();
    server("DEL a", 2);
    server("MULTI", 1);
    server("SELECT 1", 1);
    server("MULTI", 2);
    for (const int client : {1, 2}) {
      server("INCR a", client);
      server("MEET", client);
    }
    server("SELECT 0", 1);
    std::thread other([&] { (void)exec_on_a_loop(server, 2); });
    (void)exec_on_a_loop(server, 1);
    other.join();
    server.db->write_log();
    INFO("round " << round);
    REQUIRE(server("GET a", 2) == "\"2\"");
  }
}

TEST_CASE("key expires during EXEC: all of EXEC runs again, in the database in which it began") {
  CommandHarness server(families_and_own());
  server("SELECT 1");
  server("SET a 5 PX 50");
  server("SELECT 0");
  server("MULTI");
  server("SET first 1");
  server("SELECT 1");
  server("INCR a");
  server("DELAY");
  server("SELECT 0");
  Delay::begin(server.clock);
  CHECK(server("EXEC") == "[OK, OK, (integer) 1, OK, OK]");
  REQUIRE(Delay::is_over());
  CHECK(server("GET first") == "\"1\"");
  server("SELECT 1");
  CHECK(server("EXISTS first") == "(integer) 0");
  CHECK(server("GET a") == "\"1\"");
  CHECK(server("PTTL a") == "(integer) -1");
}

TEST_CASE("time passes during EXEC or a script: TIME returns the time at which EXEC or the script began") {
  CommandHarness server(families_and_own());
  const std::string script = "local first = redis.call('TIME') redis.call('DELAY') return {first, redis.call('TIME')}";
  const std::string began = server("TIME");
  Delay::begin(server.clock);
  SECTION("EXEC") {
    for (const char* line : {"MULTI", "TIME", "DELAY", "TIME"}) server(line);
    CHECK(server("EXEC") == "[" + began + ", OK, " + began + "]");
  }
  SECTION("script") { CHECK(show(server.raw({"EVAL", script, "0"})) == "[" + began + ", " + began + "]"); }
  SECTION("script inside EXEC") {
    server("MULTI");
    server.raw({"EVAL", script, "0"});
    server("TIME");
    CHECK(server("EXEC") == "[[" + began + ", " + began + "], " + began + "]");
  }
  REQUIRE(Delay::is_over());
  CHECK(server("TIME") != began);
}

TEST_CASE("EXEC writes: its reply waits until the log has the writes") {
  CommandHarness server(command_families());
  server("MULTI");
  server("SET a 1");
  server("SET b 2");
  server("EXEC");
  CHECK(server.client().seen_seq == server.db->visible_seq());
}

TEST_CASE("time passes the newest mark of engine time: keys expire, and tickets of empty deletes are valid") {
  CommandHarness server(command_families());
  server("SET other 1");
  server("SET k v PX 20000");
  server.clock.advance(15'000);  // past the mark; no later mark is written, since there is no tick
  CHECK(server("PTTL k") == "(integer) 5000");
  server.clock.advance(5000);
  CHECK(server("GET k") == "(nil)");
  CHECK(server("PTTL k") == "(integer) -2");
  CHECK(server("INCR k") == "(integer) 1");
  CHECK(server("GET k") == "\"1\"");
  server("SELECT 5");
  const std::string ticket = server("DELRANGE a b");
  REQUIRE(ticket.rfind("\"purge-", 0) == 0);
  CHECK(server("PURGE.STATUS " + ticket.substr(1, ticket.size() - 2)).rfind("(error)", 0) == std::string::npos);
}

TEST_CASE("EXEC misses pages: the pages are read together, and failed attempts leave nothing behind") {
  CommandHarness server(command_families());
  CHECK(server("MSET a 1 b 2 c 3") == "OK");
  REQUIRE(server.db->flush(0).is_ok());
  server.settle();
  server.reopen();
  server("MULTI");
  server("INCR a");
  server("INCR b");
  server("APPEND c x");
  server("GET c");
  const std::uint64_t before = server.stats.totals().waits_for_disk + server.db->stats().fetches;
  CHECK(server("EXEC") == "[(integer) 2, (integer) 3, (integer) 2, \"3x\"]");
  CHECK(server.stats.totals().waits_for_disk + server.db->stats().fetches > before);  // otherwise this tests nothing
  CHECK(server("MGET a b c") == "[\"2\", \"3\", \"3x\"]");
}

TEST_CASE("transaction has several writes: they are one batch, so no crash can separate them") {
  CommandHarness server(command_families());
  const std::uint64_t seq = server.db->visible_seq();
  server("MULTI");
  server("SET a 1");
  server("SET b 2");
  server("DEL nothing");
  CHECK(server.db->visible_seq() == seq);
  server("EXEC");
  server.reopen();
  CHECK(server("MGET a b") == "[\"1\", \"2\"]");
}

TEST_CASE("commands queued by MULTI do not fit into memory: EXEC is aborted, and their memory is released") {
  CommandHarness server(command_families());
  MemoryAccount& memory = server.db->memory();
  const std::uint64_t before = memory.charged(MemoryAccount::Kind::kConnections);
  server("MULTI");
  const std::vector<std::string> command{"SET", "key", std::string(1 << 20, 'v')};
  std::string reply;
  for (int i = 0; i < 200 && reply.rfind("-OOM", 0) != 0; ++i) reply = server.raw(command);
  CHECK(reply.rfind("-OOM", 0) == 0);
  CHECK(server("EXEC") == "(error) EXECABORT Transaction discarded because of previous errors.");
  CHECK(memory.charged(MemoryAccount::Kind::kConnections) == before);
  CHECK(server("EXISTS key") == "(integer) 0");
}

TEST_CASE("transaction must stay on its event loop: it is refused if it is long, and runs if it is short") {
  CommandHarness server(command_families());
  const std::string refused =
      "(error) EXECABORT Transaction discarded because of: a transaction with a command that cannot leave";
  server("SETRANGE large 40000000 x");
  SECTION("long by the bytes of its values") {
    server("MULTI");
    server("CLIENT ID");
    server("SET k v");
    server("BITOP NOT other large");
    CHECK(server("EXEC").starts_with(refused));
  }
  SECTION("long by its arguments") {
    server("MULTI");
    server("CLIENT ID");
    std::vector<std::string> words{"EXISTS"};
    words.insert(words.end(), 1000, "k");
    for (int i = 0; i < 66; ++i) server.raw(words);
    server("SET k v");
    CHECK(server("EXEC").starts_with(refused));
  }
  SECTION("long by the pairs of bytes that it compares") {
    server.raw({"SET", "text", std::string(4000, 't')});
    server("MULTI");
    server("CLIENT ID");
    server("SET k v");
    for (int i = 0; i < 3; ++i) server("LCS text text LEN");
    CHECK(server("EXEC").starts_with(refused));
  }
  SECTION("long by the collections that it decodes") {
    std::vector<std::string> words{"HSET", "hash"};
    for (int i = 0; i < 500; ++i) words.insert(words.end(), {"field:" + std::to_string(i), std::string(1000, 'v')});
    server.raw(words);
    server("MULTI");
    server("CLIENT ID");
    server("SET k v");
    for (int i = 0; i < 150; ++i) server("HGETALL hash");
    CHECK(server("EXEC").starts_with(refused));
  }
  SECTION("long by the number of its RANDOMKEY") {
    server("MULTI");
    server("CLIENT ID");
    server("SET k v");
    for (int i = 0; i < 2049; ++i) server("RANDOMKEY");
    CHECK(server("EXEC").starts_with(refused));
  }
  SECTION("long by the replies of COMMAND DOCS") {
    server("MULTI");
    server("CLIENT ID");
    server("SET k v");
    for (int i = 0; i < 40; ++i) server("COMMAND DOCS");
    CHECK(server("EXEC").starts_with(refused));
  }
  SECTION("long by the subscribed patterns that its keys are compared with") {
    server.observers.notifications.set_flags(parse_notify_flags("KEA").value());
    server.observers.notifications.work = [](std::size_t bytes) { return std::uint64_t{bytes} << 20; };
    server("MULTI");
    server("CLIENT ID");
    server("SET k v");
    CHECK(server("EXEC").starts_with(refused));
    server.observers.notifications.set_flags(0);
  }
  CHECK(server("EXISTS k other") == "(integer) 0");
  server("MULTI");
  server("CLIENT ID");
  server("BITCOUNT large 0 1000");
  CHECK_FALSE(server("EXEC").starts_with("(error)"));
}

TEST_CASE("MULTI, WATCH, SUBSCRIBE and tracking have ended: the connection has none of their modes") {
  CommandHarness server(command_families());
  for (const char* line : {"MULTI", "SET a 1", "EXEC", "WATCH a", "MULTI", "DISCARD", "SUBSCRIBE c", "UNSUBSCRIBE c",
                           "CLIENT TRACKING on", "CLIENT TRACKING off", "MULTI", "RESET"}) {
    server(line);
  }
  CHECK(session_of(server.client()).modes == 0);
  CHECK(server.observers.switches.word() == 0);
}

TEST_CASE("write stall delays EXEC: the queued commands stay queued and run later") {
  CommandHarness server(command_families());
  server.stop_writes();
  server("MULTI");
  server("SET other 1");
  server("SET other 2");
  server("BGSAVE");
  server("SETRANGE k -1 x");
  const std::uint64_t sets = calls(server, "set"), errors = server.stats.totals().errors;
  const std::vector<Bytes> exec{"EXEC"};
  PendingCommand pending;
  pending.client = &server.client(1);
  pending.args.list = exec;
  server.dispatcher->run_pass(std::span(&pending, 1));
  CHECK(pending.state == PendingCommand::State::kWaiting);
  CHECK(pending.retry_ms > 0);
  CHECK(server.client(1).out.empty());
  CHECK(server("EXISTS other", 2) == "(integer) 0");
  CHECK(calls(server, "set") == sets);
  CHECK(server.stats.totals().errors == errors);
  CHECK_FALSE(server.control.saving);
  CHECK(server.control.saves == 0);
  server.settle();
  server.advance(1000);
  REQUIRE_FALSE(server.db->writes_stopped());
  server.client(1).waiting = false;
  pending.state = PendingCommand::State::kNotRun;
  server.dispatcher->run_pass(std::span(&pending, 1));
  if (pending.state == PendingCommand::State::kWaiting) {  // the command may wait once for a slowdown
    server.client(1).waiting = false;
    pending.state = PendingCommand::State::kNotRun;
    server.dispatcher->run_pass(std::span(&pending, 1));
  }
  CHECK(show(server.client(1).out.to_string()) == "[OK, OK, Background saving started, (error) ERR offset is out of range]");
  CHECK(calls(server, "set") == sets + 2);
  CHECK(server.stats.totals().errors == errors + 1);
  server.client(1).out.clear();
  CHECK(server("GET other", 2) == "\"2\"");
  CHECK(server("EXEC") == "(error) ERR EXEC without MULTI");
}

TEST_CASE("write stall delays a write of an existing key: no event `new` is published") {
  CommandHarness server(command_families());
  std::vector<std::string> events;
  server.observers.notifications.publish = [&](Bytes channel, Bytes message, ClientLoop*, std::uint64_t) {
    events.push_back(std::string(channel) + " " + std::string(message));
  };
  server.observers.notifications.set_flags(*parse_notify_flags("En"));
  server.stop_writes();
  events.clear();
  CHECK(server("SET k 2") == "OK");
  CHECK(server.stats.totals().stalled > 0);
  CHECK(events.empty());
  CHECK(server("SET fresh 1") == "OK");
  CHECK(events == std::vector<std::string>{"__keyevent@0__:new fresh"});
}

TEST_CASE("transaction has several range deletes: each gets the ticket of its own database's tree") {
  CommandHarness server(command_families());
  for (const char* line : {"SET a 1", "SELECT 1", "SET a 1", "SELECT 0"}) REQUIRE(server(line) == "OK");
  const std::string trees[] = {std::to_string(server.db->tree_info(0)->tree), std::to_string(server.db->tree_info(1)->tree)};
  REQUIRE(trees[0] != trees[1]);
  for (const char* line : {"MULTI", "DELRANGE a b", "SELECT 1", "DELRANGE a b", "DELRANGE b a", "SET c 1"}) server(line);
  const std::string reply = server("EXEC");
  const std::size_t born_at = reply.find("purge-");
  REQUIRE(born_at != std::string::npos);
  const std::string born = reply.substr(born_at, reply.find('-', born_at + 6) - born_at);
  const std::string of_0 = "\"" + born + "-" + trees[0] + "\"", of_1 = "\"" + born + "-" + trees[1] + "\"";
  CHECK(reply == "[" + of_0 + ", OK, " + of_1 + ", " + of_1 + ", OK]");
}

TEST_CASE("EXEC's reply has a purge ticket: the reply waits for the sync, even if there was nothing to delete") {
  CommandHarness server(command_families());
  REQUIRE(server("SET a 1") == "OK");
  REQUIRE(server("DEL a") == "(integer) 1");
  server("MULTI");
  server("DELRANGE b a");
  const SeqNum seen = server.db->visible_seq();
  REQUIRE(server.db->stats().synced_seq < seen);
  server("EXEC");
  CHECK(server.db->stats().synced_seq >= seen);
}

TEST_CASE("transaction is slow: the slow log shows its commands, without passwords") {
  CommandHarness server(command_families());
  server.observers.slow_log.configure(0, 100, true);
  server.control.config["requirepass"] = "";
  for (const char* line : {"AUTH default sesame", "HELLO 2 AUTH default sesame", "CONFIG SET maxmemory 1 requirepass sesame",
                           "MULTI", "SET a 1", "GETX a", "DISCARD", "MULTI", "SET a 2", "EXEC"}) {
    server(line);
  }
  std::vector<std::string> lines;
  for (const SlowLog::Entry& entry : server.observers.slow_log.latest(100)) {
    std::string line;
    for (const std::string& argument : entry.arguments) line += argument + " ";
    lines.push_back(line);
  }
  const auto has = [&lines](const std::string& line) { return std::count(lines.begin(), lines.end(), line) == 1; };
  CHECK(has("SET a 2 "));
  CHECK_FALSE(has("SET a 1 "));
  CHECK(has("AUTH (redacted) (redacted) "));
  CHECK(has("HELLO 2 (redacted) (redacted) (redacted) "));
  CHECK(has("CONFIG SET maxmemory 1 requirepass (redacted) "));
}

TEST_CASE("slow log: arguments are kept only if configured, and removed when the setting changes") {
  CommandHarness server(command_families());
  server.observers.slow_log.configure(0, 100, false);
  const auto latest = [&server] {
    const std::vector<SlowLog::Entry> entries = server.observers.slow_log.latest(1);
    std::string line;
    for (const std::string& argument : entries.at(0).arguments) line += argument + " ";
    return line;
  };
  server("SET secret-key secret-value");
  CHECK(latest() == "SET (redacted) (redacted) ");
  server("OBJECT ENCODING secret-key");
  CHECK(latest() == "OBJECT ENCODING (redacted) ");
  server("MULTI");
  server("GET secret-key");
  server("EXEC");
  const auto entries = server.observers.slow_log.latest(100);
  CHECK(std::none_of(entries.begin(), entries.end(), [](const SlowLog::Entry& entry) {
    return std::any_of(entry.arguments.begin(), entry.arguments.end(), [](const auto& a) { return a.find("secret") != a.npos; });
  }));
  server.observers.slow_log.configure(0, 100, true);
  server("SET secret-key secret-value");
  CHECK(latest() == "SET secret-key secret-value ");
  server.observers.slow_log.configure(0, 100, false);
  CHECK(server.observers.slow_log.size() == 0);
}

TEST_CASE("WATCH names a watched key again: the version of the first WATCH stays, and no memory is charged") {
  CommandHarness server(command_families());
  REQUIRE(server("SET a 1") == "OK");
  REQUIRE(server("WATCH a a") == "OK");
  const std::uint64_t charged = server.db->memory().charged(MemoryAccount::Kind::kConnections);
  REQUIRE(charged > 0);
  REQUIRE(server("SET a 2", 2) == "OK");
  REQUIRE(server("WATCH a") == "OK");
  CHECK(server.db->memory().charged(MemoryAccount::Kind::kConnections) == charged);
  server("MULTI");
  server("GET a");
  CHECK(server("EXEC") == "(nil)");
}

TEST_CASE("client has subscriptions and tracked prefixes: the connection is charged for their memory until they end") {
  CommandHarness server(command_families());
  const std::string name(10'000, 'n');
  server.raw({"SUBSCRIBE", name});
  const std::size_t subscribed = server.client().state_bytes;
  CHECK(subscribed > 2 * name.size());
  server.raw({"SUBSCRIBE", name});
  CHECK(server.client().state_bytes == subscribed);
  server("UNSUBSCRIBE");
  CHECK(server.client().state_bytes == 0);
  server.raw({"CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", name});
  CHECK(server.client().state_bytes > name.size());
  server("RESET");
  CHECK(server.client().state_bytes == 0);
}

TEST_CASE("WATCH has too many keys for one slice: other commands run in between, and every key is watched") {
  CommandHarness server(command_families());
  constexpr int kKeys = 5000;
  std::vector<std::string> watch{"WATCH"}, set{"MSET"};
  for (int i = 0; i < kKeys; ++i) {
    watch.push_back("key:" + std::to_string(i));
    set.insert(set.end(), {watch.back(), "v"});
  }
  REQUIRE(show(server.raw(set)) == "OK");
  REQUIRE(server.db->flush(0).is_ok());
  server.settle();
  server.reopen();  // the pages of the keys are read slice by slice
  int others = 0;
  const auto watch_all = [&] {
    server.on_wait = [&] {
      others += server.client().waiting ? 1 : 0;
      CHECK(server("PING", 2) == "PONG");
    };
    CHECK(show(server.raw(watch)) == "OK");
    server.on_wait = nullptr;
  };
  for (const int changed : {0, 1023, 1024, 2500, kKeys - 1}) {
    watch_all();
    CHECK(server("SET key:" + std::to_string(changed) + " other", 2) == "OK");
    CHECK(server("MULTI") == "OK");
    CHECK(server("SET done yes") == "QUEUED");
    CHECK(server("EXEC") == "(nil)");
  }
  CHECK(others >= 5 * (kKeys / 1024));
  watch_all();
  CHECK(server("MULTI") == "OK");
  CHECK(server("SET done yes") == "QUEUED");
  CHECK(server("EXEC") == "[OK]");
}

TEST_CASE("SUBSCRIBE and UNSUBSCRIBE have many names: other commands run in between, and names are confirmed in order") {
  CommandHarness server(command_families());
  constexpr int kNames = 5000;
  std::vector<std::string> names;
  for (int i = 0; i < kNames; ++i) names.push_back("channel:" + std::to_string(10'000 + i));
  const auto confirmed = [&](const std::string& word, bool grows) {
    std::string out;
    for (int i = 0; i < kNames; ++i) {
      const std::string& name = names[static_cast<std::size_t>(i)];
      const int count = grows ? i + 1 : kNames - 1 - i;
      out += "*3\r\n$" + std::to_string(word.size()) + "\r\n" + word + "\r\n$13\r\n" + name + "\r\n:" + std::to_string(count) +
             "\r\n";
    }
    return out;
  };
  int others = 0;
  server.on_wait = [&] {
    ++others;
    CHECK(server("PING", 2) == "PONG");
  };
  std::vector<std::string> command{"SUBSCRIBE"};
  command.insert(command.end(), names.begin(), names.end());
  CHECK(server.raw(command) == confirmed("subscribe", true));
  CHECK(others == kNames / 1024);
  CHECK(server("PUBLISH channel:14999 m", 2) == "(integer) 1");
  SECTION("UNSUBSCRIBE with all names") {
    command.front() = "UNSUBSCRIBE";
    CHECK(server.raw(command) == confirmed("unsubscribe", false));
  }
  SECTION("UNSUBSCRIBE without names") { CHECK(server.raw({"UNSUBSCRIBE"}) == confirmed("unsubscribe", false)); }
  SECTION("RESET") { CHECK(server("RESET") == "RESET"); }
  CHECK(others == 2 * (kNames / 1024));
  CHECK(server("PUBLISH channel:14999 m", 2) == "(integer) 0");
  CHECK(server("GET k") == "(nil)");  // there is no subscriber any more
}

TEST_CASE("time passes the newest mark of engine time: STAMP.GET in a transaction returns the stamp of the commit") {
  CommandHarness server(command_families());
  server("SET before 1");
  server.clock.advance(60'000);  // the mark stays, since there is no tick
  for (const char* line : {"MULTI", "SET k 1", "STAMP.GET k"}) server(line);
  const std::string replies = server("EXEC");
  CHECK(replies == "[OK, " + server("STAMP.GET k") + "]");
}

}  // namespace TEST_FILE

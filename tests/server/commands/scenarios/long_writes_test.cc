// Tests of long commands, which run off their loop: other commands run at the same time, and all effects happen at one moment, or
// none.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "commands/families.h"
#include "dispatch/long_write.h"
#include "server/dispatch/manual_offload.h"
#include "support/planted_server.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

/// The handler of LONGW, a write that leaves its loop.
std::function<Status(Ctx&)> g_long;
Status long_write(Ctx& ctx) {
  TRY(ctx.work(Dispatcher::kLoopWorkBytes + 1));
  return g_long(ctx);
}

constexpr CommandSpec kProbes[] = {
    {.name = "longw", .arity = at_least(2), .keys = {.first = 1, .last = -1}, .flags = kWrite, .run = long_write},
};

std::span<const std::span<const CommandSpec>> families() {
  static const auto all = [] {
    std::vector<std::span<const CommandSpec>> all(command_families().begin(), command_families().end());
    all.emplace_back(kProbes);
    return all;
  }();
  return all;
}

/// Two event loops, each with a dispatcher and clients, and offload threads that run when the test calls run_one().
struct TwoLoops : CommandHarness {
  explicit TwoLoops(bool one_loop = false) : CommandHarness(families()), other(std::make_unique<Dispatcher>(env, 7)) {
    env.offload = &manual;
    if (one_loop) env.locks = &disabled;
    g_long = [](Ctx& ctx) -> Status {  // appends a letter to each value, so that a lost update shows
      for (const LookupKey& key : ctx.keys) {
        std::optional<Found> found;
        Strings strings = ctx.strings();
        TRY(strings.get_for_update(key, &found));
        strings.modify(key, found, std::string(found ? found->value : Bytes()) + "L", &ctx.charge);
      }
      ctx.reply.ok();
      return Status::ok();
    };
  }
  ~TwoLoops() {
    while (manual.run_one()) {
    }
  }
  Asked ask(int client_number, std::vector<std::string> words) { return {*dispatcher, client(client_number), std::move(words)}; }
  /// Runs a command of a client of the other loop to its end. It must not have to wait.
  std::string beside(Bytes line, int client_number = 50) {
    Asked asked(*other, client(client_number), split_line(line));
    REQUIRE(asked.step());
    return asked.reply();
  }

  ManualOffload manual;
  KeyLocks disabled{1};
  std::unique_ptr<Dispatcher> other;
};

std::vector<std::string> many(const char* command, int keys, bool values) {
  std::vector<std::string> words{command};
  for (int i = 0; i < keys; ++i) {
    words.push_back("k" + std::to_string(i));
    if (values) words.push_back("v" + std::to_string(i));
  }
  return words;
}

TEST_CASE("command has many keys: it runs off its event loop, and its writes become visible at one moment") {
  TwoLoops server(GENERATE(false, true));
  Asked set = server.ask(1, many("MSET", 2000, true));
  CHECK_FALSE(set.step());
  CHECK(server.manual.queued() == 1);
  REQUIRE(server.manual.run_one());  // the command collects its keys
  CHECK(server.beside("SET other 1") == "OK");
  CHECK_FALSE(set.step());
  REQUIRE(server.manual.run_one());  // the command builds its batch
  CHECK(server.beside("GET k0") == "(nil)");
  CHECK(server.beside("SET another 1") == "OK");
  CHECK(set.step());
  CHECK(set.reply() == "OK");
  CHECK(server.beside("MGET k0 k1999") == "[\"v0\", \"v1999\"]");
  CHECK_FALSE(server.intents.any());
  CHECK(server.stats.totals().offloaded == 1);
  server.manual.run_one();  // the thread frees the command's memory

  Asked remove = server.ask(1, many("DEL", 2000, false));
  CHECK_FALSE(remove.step());
  server.manual.run_one();
  CHECK_FALSE(remove.step());
  server.manual.run_one();
  CHECK(server.beside("EXISTS k0 k1999") == "(integer) 2");
  CHECK(remove.step());
  CHECK(remove.reply() == "(integer) 2000");
  CHECK(server.beside("EXISTS k0 k1999") == "(integer) 0");
}

TEST_CASE("long read runs off its event loop: it sees the data of one moment") {
  TwoLoops server;
  server.beside("MSET k0 a k1999 b");
  const bool exists = GENERATE(false, true);
  Asked read = server.ask(1, many(exists ? "EXISTS" : "MGET", 2000, false));
  CHECK_FALSE(read.step());
  CHECK(server.manual.queued() == 1);
  CHECK(server.beside("SET k1 late") == "OK");
  server.manual.run_one();
  CHECK(server.beside("DEL k0") == "(integer) 1");
  CHECK(read.step());
  const std::string reply = read.reply();
  if (exists) {
    CHECK(reply == "(integer) 3");
  } else {
    CHECK(reply.starts_with("[\"a\", \"late\", (nil)"));
    CHECK(reply.ends_with("\"b\"]"));
  }
}

TEST_CASE("command has a large value: it leaves its event loop before the work is done") {
  TwoLoops server;
  const std::string value(2 << 20, 'v');
  Asked set = server.ask(1, {"SET", "big", value});
  REQUIRE(set.step());  // the value is shared, not copied
  CHECK(set.reply() == "OK");
  const auto words =
      GENERATE(std::vector<std::string>{"APPEND", "big", "x"}, std::vector<std::string>{"SETRANGE", "big", "0", "x"},
               std::vector<std::string>{"SETBIT", "new", "20000000", "1"}, std::vector<std::string>{"BITCOUNT", "big"},
               std::vector<std::string>{"BITOP", "NOT", "to", "big"}, std::vector<std::string>{"EXPIRE", "big", "100"},
               std::vector<std::string>{"RENAME", "big", "to"});
  CAPTURE(words);
  Asked asked = server.ask(1, words);
  CHECK_FALSE(asked.step());
  CHECK(server.manual.queued() == 1);
  CHECK(server.beside("STRLEN big") == "(integer) 2097152");
  for (int i = 0; i < 3 && !asked.done(); ++i) {
    server.manual.run_one();
    asked.step();
  }
  CHECK(asked.done());
  CHECK(asked.reply().find("error") == std::string::npos);
  CHECK_FALSE(server.intents.any());
}

TEST_CASE("another client writes a key of a long write: the long write runs again, and neither write is lost") {
  TwoLoops server(GENERATE(false, true));
  server.beside("SET k a");
  Asked asked = server.ask(1, {"LONGW", "k", "other"});
  CHECK_FALSE(asked.step());
  server.manual.run_one();
  const bool before_run = GENERATE(true, false);
  CHECK_FALSE(asked.step());  // the key is marked
  if (before_run) CHECK(server.beside("APPEND k b") == "(integer) 2");
  server.manual.run_one();
  if (!before_run) CHECK(server.beside("APPEND k b") == "(integer) 2");
  CHECK_FALSE(asked.step());  // the commit finds a conflict
  CHECK(server.stats.totals().retries == 1);
  server.manual.run_one();
  CHECK(server.beside("GETEX k") == "\"ab\"");  // GETEX writes nothing
  CHECK(asked.step());
  CHECK(asked.reply() == "OK");
  CHECK(server.beside("MGET k other") == "[\"abL\", \"L\"]");
  CHECK_FALSE(server.intents.any());
}

/// Runs a long write, and at each moment of it one write of its key by the other loop. Both must have their effect.
void another_write_at_each_moment() {
  for (int moment = 0; moment < 4; ++moment) {
    TwoLoops server;
    server.beside("SET k a");
    Asked asked = server.ask(1, {"LONGW", "k"});
    for (int i = 0; i < 8 && !asked.done(); ++i) {
      if (i == 2 * (moment / 2) && moment % 2 == 0) server.beside("APPEND k b");
      asked.step();
      if (i == 2 * (moment / 2) && moment % 2 == 1) server.beside("APPEND k b");
      server.manual.run_one();
      if (i == 1 && moment == 3) server.beside("APPEND k c");
    }
    std::string value = server.beside("GET k");
    std::sort(value.begin(), value.end());
    demand_same(value, moment == 3 ? "\"\"Labc" : "\"\"Lab", "what both have written");
  }
}

TEST_CASE("planted bug commits a long write despite a conflict: the conflict test finds it", "[planted]") {
  must_catch(PlantedServerBug::kCommitDespiteConflict, another_write_at_each_moment);
}

TEST_CASE("planted bug removes a long write's marks early: the conflict test finds it", "[planted]") {
  must_catch(PlantedServerBug::kMarksEndEarly, another_write_at_each_moment);
}

TEST_CASE("long write has had two conflicts: other writers of its keys wait for it, and run afterwards") {
  TwoLoops server(GENERATE(false, true));
  server.beside("SET k a");
  Asked asked = server.ask(1, {"LONGW", "k"});
  asked.step();
  server.manual.run_one();
  asked.step();
  for (const char* line : {"APPEND k 1", "APPEND k 2"}) {
    server.manual.run_one();
    server.beside(line);
    CHECK_FALSE(asked.step());
  }
  Asked writer(*server.other, server.client(60), {"APPEND", "k", "w"});
  CHECK_FALSE(writer.step());  // the marks are firm
  CHECK(writer.retry_ms() == 0);
  CHECK(server.beside("GET k") == "\"a12\"");
  CHECK(server.beside("SETNX k x") == "(integer) 0");  // SETNX writes nothing
  CHECK(server.beside("SET free 1") == "OK");
  server.beside("MULTI", 70);
  CHECK(server.beside("SET k exec", 70) == "QUEUED");
  Asked exec(*server.other, server.client(70), {"EXEC"});
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK(asked.step());
  CHECK(asked.reply() == "OK");
  server.loop.wait(60);
  server.loop.wait(70);
  CHECK(writer.step());
  CHECK(writer.reply() == "(integer) 5");
  CHECK(server.beside("GET k") == "\"a12Lw\"");
  CHECK(exec.step());
  CHECK(exec.reply() == "[OK]");
  CHECK(server.beside("GET k") == "\"exec\"");
}

TEST_CASE("two long writes of one key have had conflicts: one runs after the other") {
  TwoLoops server;
  Asked first = server.ask(1, {"LONGW", "k", "a"}), second = server.ask(2, {"LONGW", "k", "b"});
  const auto run_all = [&server] {
    while (server.manual.run_one()) {
    }
  };
  for (Asked* asked : {&first, &second}) asked->step();
  run_all();
  for (Asked* asked : {&first, &second}) asked->step();  // both set marks
  for (int i = 0; i < 2; ++i) {
    run_all();
    server.beside("SET k " + std::to_string(i));
    CHECK_FALSE(first.step());
    CHECK_FALSE(second.step());
  }
  CHECK(server.manual.queued() == 1);  // the second waits until the first one's marks are removed, and sets none meanwhile
  CHECK(server.beside("SET b x") == "OK");
  server.manual.run_one();
  CHECK(first.step());
  server.loop.wait(2);
  CHECK_FALSE(second.step());
  server.manual.run_one();
  CHECK(second.step());
  CHECK(server.beside("MGET k a b") == "[\"1LL\", \"L\", \"xL\"]");
}

TEST_CASE("range or database is deleted during a long write: the delete does not wait for marks, and the long write runs again") {
  TwoLoops server(GENERATE(false, true));
  server.beside("SET k a");
  Asked asked = server.ask(1, {"LONGW", "k"});
  asked.step();
  server.manual.run_one();
  asked.step();
  for (int i = 0; i < 2; ++i) {
    server.manual.run_one();
    server.beside("APPEND k " + std::to_string(i));
    asked.step();
  }
  server.manual.run_one();  // the marks of the command are firm by now
  const std::string line = GENERATE("FLUSHDB", "FLUSHALL", "SWAPDB 0 1", "DELPREFIX k", "DELRANGE a z");
  CAPTURE(line);
  Asked remover(*server.other, server.client(60), split_line(line));
  if (!remover.step()) {  // the reply with a purge ticket waits for the sync
    server.manual.run_one();
    CHECK(remover.step());
  }
  CHECK_FALSE(asked.step());
  CHECK(server.beside("GET k") == "(nil)");
  server.manual.run_one();
  CHECK(asked.step());
  CHECK(server.beside("GET k") == "\"L\"");
}

TEST_CASE("client of a long write disconnects at any stage: no marks on keys and no write remain, and waiting writers run") {
  TwoLoops server(GENERATE(false, true));
  server.beside("SET k a");
  const int stage = GENERATE(0, 1, 2, 3, 4, 5);
  CAPTURE(stage);
  Asked asked = server.ask(1, {"LONGW", "k"});
  asked.step();
  if (stage >= 1) server.manual.run_one();
  if (stage >= 2) asked.step();
  if (stage >= 3) server.manual.run_one();
  if (stage >= 4) {
    for (int i = 0; i < 2; ++i) {
      server.beside("SET k " + std::to_string(i));
      asked.step();
      if (i == 0 || stage == 5) server.manual.run_one();
    }
  }
  Asked writer(*server.other, server.client(60), {"APPEND", "k", "w"});
  CHECK(writer.step() == (stage < 4));
  asked.close();
  if (stage >= 4) {
    server.loop.wait(60);
    CHECK(writer.step());
  }
  CHECK_FALSE(server.intents.any());
  while (server.manual.run_one()) {
  }
  CHECK_FALSE(server.intents.any());
  CHECK(server.beside("GET k") == (stage >= 4 ? "\"1w\"" : "\"aw\""));
}

TEST_CASE("long write fails: no marks on keys and no write remain") {
  TwoLoops server;
  server.beside("SET k a");
  g_long = [](Ctx& ctx) -> Status {
    TRY(ctx.strings().set(ctx.key(), "half"));
    return Status::out_of_memory("");
  };
  Asked asked = server.ask(1, {"LONGW", "k"});
  asked.step();
  server.manual.run_one();
  asked.step();
  server.manual.run_one();
  CHECK(asked.step());
  CHECK(asked.reply().starts_with("(error) OOM"));
  CHECK_FALSE(server.intents.any());
  CHECK(server.beside("GET k") == "\"a\"");
}

TEST_CASE("key expires before the commit of a long write: the long write runs again") {
  TwoLoops server;
  server.beside("SET k a PX 100");
  Asked asked = server.ask(1, {"LONGW", "k"});
  asked.step();
  server.manual.run_one();
  asked.step();
  server.manual.run_one();
  server.advance(200);
  CHECK_FALSE(asked.step());
  server.manual.run_one();
  CHECK(asked.step());
  CHECK(server.beside("GET k") == "\"L\"");
  CHECK(server.beside("TTL k") == "(integer) -1");
}

TEST_CASE("each attempt of a long write conflicts with another write: the long write fails with an error") {
  TwoLoops server;
  Asked asked = server.ask(1, {"LONGW", "k"});
  asked.step();
  int runs = 0;
  while (!asked.done() && runs < 100) {
    server.manual.run_one();
    server.beside("FLUSHDB");
    server.beside("SET x 1");
    asked.step();
    ++runs;
  }
  CHECK(runs == LongWrite::kMaxRuns + 1);
  CHECK(asked.reply().starts_with("(error) ERR busy: other clients wrote the command's keys"));
  CHECK_FALSE(server.intents.any());
}

TEST_CASE("CLIENT PAUSE comes during a long write: the commit of the long write is delayed") {
  TwoLoops server;
  Asked asked = server.ask(1, {"LONGW", "k"});
  asked.step();
  server.manual.run_one();
  asked.step();
  server.beside("CLIENT PAUSE 1000 WRITE");
  server.manual.run_one();
  CHECK_FALSE(asked.step());
  CHECK(asked.retry_ms() > 0);
  CHECK(server.beside("GET k") == "(nil)");
  server.advance(2000);
  CHECK(asked.step());
  CHECK(server.beside("GET k") == "\"L\"");
}

TEST_CASE("write stall begins before the commit of a long write: the commit is delayed, and the command does not run again") {
  TwoLoops server;
  server.env.offload = &*server.offload;
  server.stop_writes();
  server.env.offload = &server.manual;
  int runs = 0;
  auto add = g_long;
  g_long = [&](Ctx& ctx) { return ++runs, add(ctx); };
  Asked asked = server.ask(1, {"LONGW", "fresh"});
  asked.step();
  server.manual.run_one();
  asked.step();
  server.manual.run_one();
  CHECK_FALSE(asked.step());
  CHECK(asked.retry_ms() > 0);
  CHECK(server.beside("GET fresh") == "(nil)");
  server.settle();
  server.advance(1000);
  if (!asked.step()) CHECK(asked.step());  // the command may wait once for a slowdown
  CHECK(asked.reply() == "OK");
  CHECK(runs == 1);
  CHECK(server.beside("GET fresh") == "\"L\"");
}

/// Sends MULTI and enough commands that EXEC is long.
void queue_many(TwoLoops& server, int client_number) {
  Asked multi = server.ask(client_number, {"MULTI"});
  REQUIRE(multi.step());
  for (int i = 0; i < 400; ++i) {
    Asked set = server.ask(client_number, {"SET", "k" + std::to_string(i), "v"});
    REQUIRE(set.step());
    set.reply();
  }
}
void queue_one(TwoLoops& server, int client_number, Bytes line) {
  Asked asked = server.ask(client_number, split_line(line));
  REQUIRE(asked.step());
  CHECK(asked.reply().ends_with("QUEUED"));
}
std::uint64_t calls(const CommandHarness& server, Bytes command) {
  return server.stats.commands()[server.table.find_full(command)->index].calls;
}

TEST_CASE("EXEC has many commands: it runs off its event loop, and its writes become visible at one moment") {
  TwoLoops server(GENERATE(false, true));
  const std::uint64_t charged = server.db->memory().charged(MemoryAccount::Kind::kConnections);
  queue_many(server, 1);
  queue_one(server, 1, "INCR k0");
  queue_one(server, 1, "APPEND k1 w");
  queue_one(server, 1, "MGET k1 k2");
  Asked exec = server.ask(1, {"EXEC"});
  CHECK_FALSE(exec.step());
  CHECK(server.manual.queued() == 1);
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK(server.beside("EXISTS k0 k399") == "(integer) 0");
  CHECK(calls(server, "set") == 0);
  CHECK(exec.step());
  const std::string reply = exec.reply();
  CHECK(reply.starts_with("[OK, OK"));
  CHECK(reply.ends_with("(error) ERR value is not an integer or out of range, (integer) 2, [\"vw\", \"v\"]]"));
  CHECK(server.beside("MGET k0 k1 k399") == "[\"v\", \"vw\", \"v\"]");
  CHECK(calls(server, "set") == 400);
  CHECK(calls(server, "exec") == 1);
  CHECK(server.beside("EXEC", 1) == "(error) ERR EXEC without MULTI");
  CHECK(session_of(server.client(1)).modes == 0);
  CHECK_FALSE(server.intents.any());
  while (server.manual.run_one()) {
  }
  CHECK(server.db->memory().charged(MemoryAccount::Kind::kConnections) == charged);
}

TEST_CASE("EXEC runs longer than expected on its event loop: it starts again off its event loop") {
  TwoLoops server;
  CHECK(server.beside("INCR n") == "(integer) 1");
  server.beside("MULTI", 1);
  queue_one(server, 1, "INCR n");
  queue_one(server, 1, "SETRANGE large 600000 x");
  queue_one(server, 1, "SETRANGE other 600000 x");  // together, both are too long for the loop
  Asked exec = server.ask(1, {"EXEC"});
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK(exec.step());
  CHECK(exec.reply() == "[(integer) 2, (integer) 600001, (integer) 600001]");
  CHECK(server.beside("GET n") == "\"2\"");
  CHECK(calls(server, "setrange") == 2);
}

TEST_CASE("watched key changes before the commit of an EXEC off the event loop: EXEC replies nil") {
  TwoLoops server(GENERATE(false, true));
  const int moment = GENERATE(0, 1, 2, 3);
  const std::string change = GENERATE("SET watched x", "FLUSHDB", "DEL watched");
  CAPTURE(moment, change);
  server.beside("SET watched 1");
  server.beside("WATCH watched", 1);
  queue_many(server, 1);
  Asked exec = server.ask(1, {"EXEC"});
  if (moment == 0) server.beside(change);
  CHECK_FALSE(exec.step());
  if (moment == 1) server.beside(change);
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  if (moment == 2) server.beside(change);
  server.manual.run_one();
  if (moment == 3) server.beside(change);
  if (!exec.step()) {
    server.manual.run_one();
    CHECK(exec.step());
  }
  CHECK(exec.reply() == "(nil)");
  CHECK(server.beside("EXISTS k0") == "(integer) 0");
  CHECK(server.beside("EXEC", 1) == "(error) ERR EXEC without MULTI");
}

TEST_CASE("two long EXECs watch each other's keys: one of them replies nil") {
  TwoLoops server;
  for (const int number : {1, 2}) {
    server.beside("WATCH a b", number);
    queue_many(server, number);
    queue_one(server, number, number == 1 ? "SET a 1" : "SET b 1");
  }
  Asked first = server.ask(1, {"EXEC"}), second = server.ask(2, {"EXEC"});
  for (int i = 0; i < 6; ++i) {
    for (Asked* asked : {&first, &second}) {
      if (!asked->done()) asked->step();
    }
    server.manual.run_one();
    server.manual.run_one();
  }
  REQUIRE(first.done());
  REQUIRE(second.done());
  CHECK((first.reply() == "(nil)") != (second.reply() == "(nil)"));
  CHECK(server.beside("EXISTS a b") == "(integer) 1");
}

TEST_CASE("client disconnects during a long EXEC: no marks on keys, no write and no charged memory remain") {
  TwoLoops server;
  const std::uint64_t charged = server.db->memory().charged(MemoryAccount::Kind::kConnections);
  auto client = std::make_unique<Client>();
  client->id = 77;
  client->loop = &server.loop;
  const auto ask = [&](std::vector<std::string> words) { return Asked(*server.dispatcher, *client, std::move(words)); };
  CHECK(ask({"MULTI"}).step());
  for (int i = 0; i < 400; ++i) CHECK(ask({"SET", "k" + std::to_string(i), "v"}).step());
  Asked exec = ask({"EXEC"});
  exec.step();
  const int stage = GENERATE(0, 1, 2);
  for (int i = 0; i < stage; ++i) {
    server.manual.run_one();
    if (i == 0) exec.step();
  }
  exec.close();
  client.reset();
  CHECK_FALSE(server.intents.any());
  while (server.manual.run_one()) {
  }
  CHECK(server.db->memory().charged(MemoryAccount::Kind::kConnections) == charged);
  CHECK(server.beside("EXISTS k0") == "(integer) 0");
}

TEST_CASE("EXEC has a command that must stay on its event loop: EXEC stays there") {
  TwoLoops server;
  queue_many(server, 1);
  queue_one(server, 1, "CLIENT SETNAME x");
  Asked exec = server.ask(1, {"EXEC"});
  CHECK(exec.step());
}

TEST_CASE("EXEC has a command that by itself runs off the event loop: EXEC leaves its event loop even if short") {
  for (const char* command : {"LCS k0 k1", "INFO", "PUBSUB CHANNELS"}) {
    CAPTURE(command);
    TwoLoops server;
    server.beside("MULTI", 1);
    queue_one(server, 1, command);
    Asked exec = server.ask(1, {"EXEC"});
    CHECK_FALSE(exec.step());
    for (int steps = 0; steps < 10 && !exec.done(); ++steps) {
      server.manual.run_one();
      exec.step();
    }
    CHECK(exec.reply().starts_with("["));
  }
}

TEST_CASE("offload thread collects the keys of a command: memory for the keys is charged until the reply") {
  TwoLoops server;
  const MemoryAccount& memory = server.db->memory();
  Asked asked = server.ask(1, many("UNLINK", 20'000, false));
  CHECK_FALSE(asked.step());
  CHECK(memory.charged(MemoryAccount::Kind::kCommands) == 0);
  server.manual.run_one();
  CHECK(memory.charged(MemoryAccount::Kind::kCommands) >= 20'000 * (sizeof(LookupKey) + sizeof(std::uint64_t)));
  for (int steps = 0; steps < 10 && !asked.step(); ++steps) server.manual.run_one();
  CHECK(asked.reply() == "(integer) 0");
  while (server.manual.run_one()) {
  }
  CHECK(memory.charged(MemoryAccount::Kind::kCommands) == 0);
}

TEST_CASE("EXEC has FLUSHDB: it runs off its event loop, and the database is emptied as it is at the commit") {
  TwoLoops server(GENERATE(false, true));
  const bool had_keys = GENERATE(false, true);
  if (had_keys) CHECK(server.beside("MSET k0 old gone 1") == "OK");
  queue_many(server, 1);
  queue_one(server, 1, "APPEND k0 w");
  queue_one(server, 1, GENERATE("FLUSHDB", "FLUSHALL"));
  queue_one(server, 1, "EXISTS k0 gone");
  queue_one(server, 1, "SET k1 new");
  Asked exec = server.ask(1, {"EXEC"});
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK(server.beside("MSET later 1") == "OK");  // the transaction has marked no key
  CHECK(exec.step());
  CHECK(exec.reply().ends_with("OK, (integer) 2, OK, (integer) 0, OK]"));
  CHECK(server.beside("EXISTS k0 k399 gone later k1") == "(integer) 1");
  CHECK(server.beside("GET k1") == "\"new\"");
  CHECK_FALSE(server.intents.any());
}

TEST_CASE("EXEC has SWAPDB: it runs off its event loop, and runs again if a key that it read in the other database changes") {
  TwoLoops server(GENERATE(false, true));
  const bool conflict = GENERATE(false, true);
  server.beside("SELECT 1", 51);
  CHECK(server.beside("SET there 10", 51) == "OK");
  queue_many(server, 1);
  queue_one(server, 1, "SWAPDB 0 1");
  queue_one(server, 1, "INCR there");
  queue_one(server, 1, "EXISTS k0");
  Asked exec = server.ask(1, {"EXEC"});
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  if (conflict) {
    CHECK(server.beside("SET there 20", 51) == "OK");
    CHECK_FALSE(exec.step());
    server.manual.run_one();
  }
  CHECK(exec.step());
  CHECK(exec.reply().ends_with(conflict ? "OK, (integer) 21, (integer) 0]" : "OK, (integer) 11, (integer) 0]"));
  CHECK(server.beside("EXISTS k0 k399 there", 51) == "(integer) 2");
  CHECK(server.beside("MGET there k0") == (conflict ? "[\"21\", (nil)]" : "[\"11\", (nil)]"));
}

TEST_CASE("EXEC with SELECT runs off its event loop: each command runs in its database, and the last one stays selected") {
  TwoLoops server(GENERATE(false, true));
  const bool conflict = GENERATE(false, true);
  server.beside("SELECT 1", 51);
  queue_many(server, 1);
  for (const char* line : {"PING", "PUBLISH c m", "SELECT 1", "INCR there", "SELECT 99", "SET here 1", "ECHO x"}) {
    queue_one(server, 1, line);
  }
  Asked exec = server.ask(1, {"EXEC"});
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  if (conflict) {
    CHECK(server.beside("INCR there", 51) == "(integer) 1");
    CHECK_FALSE(exec.step());
    server.manual.run_one();
  }
  CHECK(exec.step());
  const std::string end = "OK, PONG, (integer) 0, OK, (integer) " + std::string(conflict ? "2" : "1") +
                          ", (error) ERR DB index is out of range, OK, \"x\"]";
  CHECK(exec.reply().ends_with(end));
  CHECK(session_of(server.client(1)).database == 1);
  CHECK(server.beside("MGET k0 here", 51) == "[(nil), \"1\"]");
  CHECK(server.beside("MGET k0 here") == "[\"v\", (nil)]");
}

TEST_CASE("EXEC has COPY and MOVE: it runs off its event loop, and runs again if a target in another database is written") {
  TwoLoops server(GENERATE(false, true));
  const bool conflict = GENERATE(false, true);
  server.beside("SELECT 1", 51);
  queue_many(server, 1);
  for (const char* line : {"COPY k0 here", "COPY k1 there REPLACE DB 1", "COPY k2 target DB 1", "MOVE k3 1"})
    queue_one(server, 1, line);
  Asked exec = server.ask(1, {"EXEC"});
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  if (conflict) {
    CHECK(server.beside("SET target mine", 51) == "OK");
    CHECK_FALSE(exec.step());
    server.manual.run_one();
  }
  CHECK(exec.step());
  CHECK(exec.reply().ends_with(conflict ? "(integer) 1, (integer) 1, (integer) 0, (integer) 1]"
                                        : "(integer) 1, (integer) 1, (integer) 1, (integer) 1]"));
  CHECK(server.beside("MGET there target k3", 51) == (conflict ? "[\"v\", \"mine\", \"v\"]" : "[\"v\", \"v\", \"v\"]"));
  CHECK(server.beside("MGET here k2 k3") == "[\"v\", \"v\", (nil)]");
  CHECK_FALSE(server.intents.any());
}

TEST_CASE("COPY or MOVE has a large value: it runs off its event loop, and runs again if the target is written") {
  TwoLoops server(GENERATE(false, true));
  const bool moves = GENERATE(false, true);
  server.beside("SELECT 1", 51);
  server.beside("SET k " + std::string(3 << 20, 'x'));
  Asked asked = server.ask(1, split_line(moves ? "MOVE k 1" : "COPY k k DB 1"));
  CHECK_FALSE(asked.step());
  server.manual.run_one();
  CHECK_FALSE(asked.step());
  server.manual.run_one();
  CHECK(server.beside("SET k mine", 51) == "OK");
  CHECK_FALSE(asked.step());
  server.manual.run_one();
  CHECK(asked.step());
  CHECK(asked.reply() == "(integer) 0");
  CHECK(server.beside("GET k", 51) == "\"mine\"");
  CHECK(server.beside("STRLEN k") == "(integer) 3145728");
  CHECK_FALSE(server.intents.any());
}

/// A list of 3,000 elements, so that SORT BY leaves its loop.
void push_many(TwoLoops& server) {
  for (int first = 0; first < 3000; first += 1000) {
    std::vector<std::string> words{"RPUSH", "list"};
    for (int i = 0; i < 1000; ++i) words.push_back(std::to_string(first + i));
    Asked push = server.ask(50, words);
    REQUIRE(push.step());
    push.reply();
  }
}

TEST_CASE("client writes a key of BY during a long SORT with STORE: the SORT runs again, then other writers wait") {
  TwoLoops server(GENERATE(false, true));
  push_many(server);
  server.beside("SELECT 1", 51);
  Asked sort = server.ask(1, split_line("SORT list BY w* DESC LIMIT 0 2 GET # GET g* STORE d"));
  CHECK_FALSE(sort.step());
  server.manual.run_one();
  CHECK_FALSE(sort.step());
  server.manual.run_one();
  CHECK(server.beside("SET w7 1", 51) == "OK");  // another database
  for (const char* line : {"SET w7 8", "SET g7 seven"}) {
    CHECK(server.beside(line) == "OK");
    CHECK_FALSE(sort.step());
    server.manual.run_one();
  }
  CHECK(server.beside("SET unrelated 1") == "OK");
  Asked writer(*server.other, server.client(52), split_line("SET w8 9"));  // the SET waits now
  CHECK_FALSE(writer.step());
  CHECK(sort.step());
  CHECK(sort.reply() == "(integer) 4");
  CHECK(writer.step());
  CHECK(server.beside("LRANGE d 0 -1") == "[\"7\", \"seven\", \"999\", \"\"]");
  CHECK_FALSE(server.intents.any());
}

TEST_CASE("key of BY expires before the commit of a long SORT with STORE: the SORT runs again") {
  TwoLoops server;
  push_many(server);
  server.beside("SET w7 8 PX 100");
  Asked sort = server.ask(1, split_line("SORT list BY w* DESC LIMIT 0 1 STORE d"));
  sort.step();
  server.manual.run_one();
  sort.step();
  server.manual.run_one();
  server.advance(200);
  CHECK_FALSE(sort.step());
  server.manual.run_one();
  CHECK(sort.step());
  CHECK(server.beside("LRANGE d 0 -1") == "[\"999\"]");
}

TEST_CASE("SORT without STORE runs off its event loop: it sees the data of one moment, and marks no key") {
  TwoLoops server(GENERATE(false, true));
  push_many(server);
  const std::string name = GENERATE("SORT", "SORT_RO");
  Asked sort = server.ask(1, split_line(name + " list BY w* DESC LIMIT 0 2 GET # GET g*"));
  CHECK_FALSE(sort.step());
  CHECK(server.beside("SET w7 8") == "OK");
  CHECK_FALSE(server.intents.any());
  server.manual.run_one();
  CHECK(server.beside("MSET w8 9 g7 seven") == "OK");
  CHECK(sort.step());
  CHECK(sort.reply() == "[\"7\", (nil), \"999\", (nil)]");
}

TEST_CASE("EXEC with SORT by other keys runs off its event loop: EXEC runs again if one of these keys is written") {
  TwoLoops server(GENERATE(false, true));
  push_many(server);
  server.beside("MULTI", 1);
  queue_one(server, 1, "SORT_RO list BY w* DESC LIMIT 0 1");
  queue_one(server, 1, "SET own 1");
  Asked exec = server.ask(1, {"EXEC"});
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK(server.beside("SET w7 1") == "OK");
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK(exec.step());
  CHECK(exec.reply() == "[[\"7\"], OK]");
  CHECK_FALSE(server.intents.any());
}

TEST_CASE("EXEC has KEYS or SCAN: it runs off its event loop even if short, and runs again if a key is added") {
  TwoLoops server(GENERATE(false, true));
  server.beside("SELECT 1", 51);
  server.beside("SET first 1");
  server.beside("MULTI", 1);
  for (const char* line : {"SET own 1", "DBSIZE", "KEYS *", "SCAN 0", "RANDOMKEY"}) queue_one(server, 1, line);
  Asked exec = server.ask(1, {"EXEC"});
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK(server.beside("SET elsewhere 1", 51) == "OK");
  for (const char* key : {"second", "third"}) {
    CHECK(server.beside("SET " + std::string(key) + " 1") == "OK");
    CHECK_FALSE(exec.step());
    server.manual.run_one();
  }
  Asked writer(*server.other, server.client(52), split_line("SET fourth 1"));  // the SET waits now
  CHECK_FALSE(writer.step());
  CHECK(server.beside("GET first") == "\"1\"");
  CHECK(exec.step());
  CHECK(exec.reply().starts_with("[OK, (integer) 4, [\"first\", \"own\", \"second\", \"third\"], [\"0\", [\"first\", \"own\""));
  CHECK(writer.step());
  CHECK(server.beside("EXISTS first own second third fourth") == "(integer) 5");
  CHECK_FALSE(server.intents.any());
}

TEST_CASE("EXEC off its event loop has PFCOUNT: PFCOUNT stores its count in the sketch") {
  TwoLoops server(GENERATE(false, true));
  server.beside("PFADD h a b");
  server.beside("MULTI", 1);
  for (const char* line : {"RANDOMKEY", "PFCOUNT h"}) queue_one(server, 1, line);
  Asked exec = server.ask(1, {"EXEC"});
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK(exec.step());
  CHECK(exec.reply() == "[\"h\", (integer) 2]");
  CHECK(server.beside("GETRANGE h 8 15") == "\"\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"");
}

TEST_CASE("EXEC has DBSIZE and KEYS and no write: all see the data of one moment, although other clients write") {
  TwoLoops server;
  server.beside("SET first 1");
  g_long = [&](Ctx& ctx) -> Status {
    server.beside("SET second 1");
    ctx.reply.ok();
    return Status::ok();
  };
  server.beside("MULTI", 1);
  for (const char* line : {"DBSIZE", "LONGW k", "DBSIZE", "KEYS *"}) queue_one(server, 1, line);
  Asked exec = server.ask(1, {"EXEC"});
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK(exec.step());
  CHECK(exec.reply() == "[(integer) 1, OK, (integer) 1, [\"first\"]]");
}

TEST_CASE("EXEC off its event loop reads two databases: it sees both as of one moment") {
  TwoLoops server;
  server.beside("SET k0 old");
  server.beside("SELECT 1", 51);
  server.beside("SET there old", 51);
  g_long = [&](Ctx& ctx) -> Status {  // another client changes both databases once, between the reads of the transaction
    if (server.beside("GET k0") == "\"old\"") {
      server.beside("SET k0 new");
      server.beside("SET there new", 51);
    }
    ctx.reply.ok();
    return Status::ok();
  };
  server.beside("MULTI", 1);
  for (int i = 0; i < 600; ++i) queue_one(server, 1, "EXISTS k0");
  for (const char* line : {"GET k0", "LONGW k0", "SELECT 1", "GET there"}) queue_one(server, 1, line);
  Asked exec = server.ask(1, {"EXEC"});
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK_FALSE(exec.step());
  server.manual.run_one();
  CHECK(exec.step());
  CHECK(exec.reply().ends_with("\"new\", OK, OK, \"new\"]"));
}

TEST_CASE("long write runs again after a conflict: it publishes each key once, at its commit") {
  TwoLoops server;
  std::vector<std::string> events;
  server.observers.notifications.publish = [&](Bytes, Bytes message, ClientLoop*, std::uint64_t) {
    events.emplace_back(message);
  };
  server.observers.notifications.set_flags(kNotifyKeyevent | kNotifyString);
  const bool transaction = GENERATE(false, true);
  if (transaction) queue_many(server, 1);
  Asked asked = server.ask(1, transaction ? std::vector<std::string>{"EXEC"} : many("MSET", 400 * 3, true));
  asked.step();
  server.manual.run_one();
  asked.step();
  server.manual.run_one();
  server.beside("SET k7 x");  // this causes a conflict
  CHECK(events.size() == 1);
  CHECK_FALSE(asked.step());
  server.manual.run_one();
  CHECK(events.size() == 1);
  CHECK(asked.step());
  CHECK(events.size() == 1 + (transaction ? 400 : 1200));
}

TEST_CASE("long write commits: a watched key counts as changed, for its own client and for others") {
  TwoLoops server;
  server.beside("WATCH k", 70);
  server.beside("MULTI", 70);
  server.beside("SET x 1", 70);
  Asked asked = server.ask(1, {"LONGW", "k"});
  asked.step();
  server.manual.run_one();
  asked.step();
  server.manual.run_one();
  CHECK(asked.step());
  CHECK(server.beside("EXEC", 70) == "(nil)");
}

TEST_CASE("two event loops and long writes change the same keys: no change is lost", "[threads]") {
  TwoLoops server;
  server.env.offload = &*server.offload;
  constexpr int kRounds = 300;
  g_long = [](Ctx& ctx) -> Status {
    for (const LookupKey& key : ctx.keys) {
      std::optional<Found> found;
      Strings strings = ctx.strings();
      TRY(strings.get_for_update(key, &found));
      strings.modify(key, found, std::to_string(found ? std::stoi(std::string(found->value)) + 1 : 1), &ctx.charge);
    }
    ctx.reply.ok();
    return Status::ok();
  };
  struct Resumed final : ClientLoop {
    void post(std::function<void()> task) override { task(); }
    void resume(std::uint64_t) override { ready = true; }
    Client* find(std::uint64_t) override { return nullptr; }
    void touch(Client*) override {}
    int index() const override { return 0; }
    void for_each(const std::function<void(Client&)>&) override {}
    std::atomic<bool> ready{false};
  };
  const auto client_of = [&](Dispatcher& dispatcher, std::uint64_t id, std::vector<std::string> words) {
    Resumed loop;
    Client client;
    client.id = id;
    client.loop = &loop;
    for (int i = 0; i < kRounds; ++i) {
      Asked asked(dispatcher, client, words);
      while (!asked.step()) {
        while (asked.retry_ms() == 0 && !loop.ready.exchange(false)) std::this_thread::yield();
      }
      client.out.consume(client.out.size());
    }
  };
  Dispatcher third(server.env, 3), fourth(server.env, 4);
  std::vector<std::thread> threads;
  threads.emplace_back(client_of, std::ref(*server.dispatcher), 101, std::vector<std::string>{"LONGW", "a", "b"});
  threads.emplace_back(client_of, std::ref(*server.other), 102, std::vector<std::string>{"LONGW", "b", "a"});
  threads.emplace_back(client_of, std::ref(third), 103, std::vector<std::string>{"INCR", "a"});
  threads.emplace_back(client_of, std::ref(fourth), 104, std::vector<std::string>{"INCR", "b"});
  for (std::thread& thread : threads) thread.join();
  const std::string sum = "\"" + std::to_string(3 * kRounds) + "\"";
  CHECK(server("MGET a b") == "[" + sum + ", " + sum + "]");
  CHECK_FALSE(server.intents.any());
}

}  // namespace TEST_FILE

// Tests of commands that wait for memory until memtables are flushed. A waiting command holds no memory, thread or mark.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "commands/families.h"
#include "server/dispatch/manual_offload.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr auto kCommands = MemoryAccount::Kind::kCommands;

/// A server whose threads run when the test says so.
struct ManualThreads : CommandHarness {
  ManualThreads() : CommandHarness(command_families()) {}
  ~ManualThreads() {
    while (manual.run_one()) {
    }
  }
  /// From now on the test decides when threads run and when time passes.
  Asked ask(std::vector<std::string> words, int client_number = 1) {
    env.offload = &manual;
    return {*dispatcher, client(client_number), std::move(words)};
  }

  ManualOffload manual;
};

/// A server with a budget of 64 MiB, a value of 24 MiB on disk at "old", and a value of 40 MiB in a memtable.
struct FullMemTables : ManualThreads {
  FullMemTables() {
    REQUIRE((*this)("SETRANGE old 25165823 x") == "(integer) 25165824");
    REQUIRE((*this)("EXPIRE old 1000") == "(integer) 1");
    REQUIRE(db->flush(0).is_ok());
    settle();
    reopen();
    advance(1000);
    fill();
    REQUIRE(db->memory().charged(MemoryAccount::Kind::kMemTables) == 40 * kMiB);
    REQUIRE(db->memory().room() < 24 * kMiB);
    flushes = db->stats().flushes;
  }
  /// Writes the large value without a command, whose thread might keep the value longer than the memtable does.
  void fill() {
    MemoryCharge charge;
    REQUIRE(db->try_charge(kCommands, 40 * kMiB));
    charge.took(db->memory(), kCommands, 40 * kMiB);
    WriteBatch batch;
    batch.put_shared(0, "fill", charged_value(std::string(40 * kMiB, 'x'), &charge), {});
    REQUIRE(db->commit(batch).is_ok());
  }
  /// Runs the command until it waits for memory.
  void step_until_it_waits_for_memory(Asked& asked) {
    for (int steps = 0; steps < 20; ++steps) {
      REQUIRE_FALSE(asked.step());
      if (asked.retry_ms() != 0 && manual.queued() == 0) return;
      while (manual.run_one()) {
      }
    }
    FAIL("it does not wait for memory");
  }

  std::uint64_t flushes = 0;
};

TEST_CASE("value of a command needs a flush of memtables: the command waits for the flush and then runs") {
  struct Case {
    std::vector<std::string> command;
    const char *reply, *then, *then_reply;
  };
  const Case cases[] = {
      {{"EXPIRE", "old", "50"}, "(integer) 1", "TTL old", "(integer) 50"},
      {{"PERSIST", "old"}, "(integer) 1", "TTL old", "(integer) -1"},
      {{"RENAME", "old", "new"}, "OK", "STRLEN new", "(integer) 25165824"},
      {{"COPY", "old", "new"}, "(integer) 1", "STRLEN new", "(integer) 25165824"},
      {{"MOVE", "old", "1"}, "(integer) 1", "EXISTS old", "(integer) 0"},
      {{"APPEND", "old", "end"}, "(integer) 25165827", "GETRANGE old 25165823 -1", "\"xend\""},
      {{"SETRANGE", "old", "25165822", "ab"}, "(integer) 25165824", "GETRANGE old 25165821 -1", "\"\\x00ab\""},
      {{"BITOP", "NOT", "new", "old"}, "(integer) 25165824", "GETRANGE new 25165823 -1", "\"\\x87\""},
      {{"GETDEL", "old"}, nullptr, "EXISTS old", "(integer) 0"},
      {{"GETEX", "old", "EX", "50"}, nullptr, "TTL old", "(integer) 50"},
      {{"GETSET", "old", "short"}, nullptr, "GET old", "\"short\""},
      {{"GET", "old"}, nullptr, "TTL old", "(integer) 999"},
      {{"MGET", "old", "none"}, nullptr, "TTL old", "(integer) 999"},
      {{"DUMP", "old"}, nullptr, "TTL old", "(integer) 999"},
  };
  for (std::size_t i = first_of_every_nth(); i < std::size(cases); i += every_nth()) {
    const Case& test = cases[i];
    FullMemTables server;
    INFO(test.command.front());
    const std::string reply = server.raw(test.command);
    CHECK(reply.substr(0, 1) != "-");
    if (test.reply != nullptr) CHECK(show(reply) == test.reply);
    if (test.reply == nullptr && test.command.front() != "GETSET") CHECK(reply.size() > 24 * kMiB);
    CHECK(server.db->stats().flushes > server.flushes);
    CHECK(server(test.then) == test.then_reply);
    CHECK_FALSE(server.intents.any());
  }
}

TEST_CASE("value of a transaction needs a flush of memtables: the transaction waits for the flush and then runs") {
  const bool on_loop = GENERATE(true, false);  // COPY keeps the transaction on its loop
  FullMemTables server;
  CHECK(server("MULTI") == "OK");
  CHECK(server("INCR n") == "QUEUED");
  CHECK(server(on_loop ? "COPY old new" : "EXPIRE old 50") == "QUEUED");
  CHECK(server("EXEC") == "[(integer) 1, (integer) 1]");
  CHECK(server("GET n") == "\"1\"");
  CHECK(server(on_loop ? "STRLEN new" : "TTL old") == (on_loop ? "(integer) 25165824" : "(integer) 50"));
  CHECK(server("EXEC") == "(error) ERR EXEC without MULTI");
  CHECK(server.db->stats().flushes > server.flushes);
}

TEST_CASE("EXPIRE, RENAME or COPY rewrites a large value: memory has room for one copy, and the command succeeds") {
  for (const char* command : {"EXPIRE old 50", "PERSIST old", "GETEX old EX 50", "RENAME old new", "COPY old new"}) {
    FullMemTables server;
    INFO(command);
    REQUIRE(server.db->flush(0).is_ok());
    server.settle();
    server.advance(1000);
    const std::uint64_t before = server.db->memory().charged();
    // Leaves room for the value, for the part that commands spare (a sixteenth of the budget) and a little more. A second copy,
    // or a second charge, would not fit.
    const std::uint64_t taken = server.db->memory().room() - 29 * kMiB;
    server.db->memory().charge(kCommands, taken);
    CHECK(server(command).substr(0, 7) != "(error)");
    CHECK(server.db->memory().charged() - before - taken == 24 * kMiB);
    server.db->memory().release(kCommands, taken);
  }
}

TEST_CASE("command waits for memory: it holds no memory and no marks on keys") {
  FullMemTables server;
  const char* command = GENERATE("APPEND", "EXPIRE");
  const std::uint64_t before = server.db->memory().charged();
  Asked asked = server.ask({command, "old", "50"});
  server.step_until_it_waits_for_memory(asked);
  CHECK(server.db->memory().charged() == before);
  CHECK_FALSE(server.intents.any());
  SECTION("client disconnects: nothing of the command is left") {
    asked.close();
    CHECK(server.manual.queued() == 0);
    CHECK(server.db->memory().charged() == before);
  }
  SECTION("no flush ends: the command is refused after ten seconds") {
    for (int ms = 0; ms < 9'900; ms += 100) {
      server.clock.advance(100);
      REQUIRE_FALSE(asked.step());
    }
    server.clock.advance(100);
    for (int steps = 0; steps < 10 && !asked.step(); ++steps) server.manual.run_one();
    CHECK(asked.reply().substr(0, 11) == "(error) OOM");
  }
}

TEST_CASE("several commands wait for memory at the same time: none waits for another command") {
  FullMemTables server;
  std::vector<Asked> asked;
  for (int i = 1; i <= 4; ++i) asked.push_back(server.ask({"SETRANGE", "new" + std::to_string(i), "25165823", "x"}, i));
  std::size_t done = 0;
  for (int rounds = 0; rounds < 200 && done < asked.size(); ++rounds) {
    done = 0;
    for (Asked& one : asked) {
      if (!one.done()) one.step();
      done += one.done() ? 1 : 0;
    }
    server.manual.run_one();
    server.db->write_log();
    server.settle();
    server.advance(50);
  }
  REQUIRE(done == asked.size());
  for (int i = 1; i <= 4; ++i) CHECK(asked[static_cast<std::size_t>(i - 1)].done());
  CHECK(server.client(1).out.to_string() == ":25165824\r\n");
  CHECK(server.client(4).out.to_string() == ":25165824\r\n");
}

TEST_CASE("no flush can make room for a command's value: the command is refused at once") {
  FullMemTables server;
  server.db->memory().charge(kCommands, 45 * kMiB);
  const std::string reply = server("EXPIRE old 50");
  CHECK(reply.find("(error) OOM command not allowed when used memory > 'memory_budget'. 25165824 bytes are needed at once") == 0);
  CHECK(reply.find("Raise") == std::string::npos);
  CHECK(server.db->stats().flushes == server.flushes);
  server.db->memory().release(kCommands, 45 * kMiB);
}

TEST_CASE("command adds 100,000 elements to a collection: memory is reserved for the index of the elements") {
  CommandHarness server(command_families());
  const std::uint64_t charged = server.db->memory().room() - 10 * kMiB;
  server.db->memory().charge(kCommands, charged);
  std::vector<std::string> words = GENERATE(std::vector<std::string>{"HSET", "k"}, std::vector<std::string>{"SADD", "k"},
                                            std::vector<std::string>{"ZADD", "k"}, std::vector<std::string>{"RPUSH", "k"});
  words.resize(200'002, "1");
  const std::string reply = show(server.raw(words));
  CHECK(reply.substr(0, 86) == "(error) OOM command not allowed when used memory > 'memory_budget'. 12800128 bytes are");
  server.db->memory().release(kCommands, charged);
}

TEST_CASE("value can never fit into the budget: it is refused at once, and the error has size, budget and remedy") {
  FullMemTables server;
  const std::string command = GENERATE("SETRANGE k 99999999 x", "SETBIT k 799999999 1");
  const std::string reply = server(command);
  CHECK(reply.find("OOM command not allowed when used memory > 'memory_budget'. 100000000 bytes are needed at once") !=
        std::string::npos);
  CHECK(reply.find("storage.memory_budget is 67108864 bytes, of which at most ") != std::string::npos);
  CHECK(reply.find("Raise storage.memory_budget.") != std::string::npos);
  CHECK(server.db->stats().flushes == server.flushes);
}

TEST_CASE("memory has room for a transaction and little more: the batch takes over a part of the charge, and EXEC succeeds") {
  ManualThreads server;
  CHECK(server("MULTI") == "OK");
  for (int i = 0; i < 10'000; ++i) server.raw({"SET", "k" + std::to_string(i), std::string(1000, 'v')});
  MemoryAccount& memory = server.db->memory();
  const std::uint64_t taken = memory.room() - 42 * kMiB;  // too little for EXEC and another 10 MB
  memory.charge(kCommands, taken);
  Asked exec = server.ask({"EXEC"});
  int jobs = 0;
  for (int steps = 0; steps < 100 && !exec.step(); ++steps) {
    while (server.manual.run_one()) ++jobs;
  }
  CHECK(exec.reply().starts_with("[OK, OK"));
  CHECK(jobs >= 2);
  CHECK(jobs <= 3);  // it collects its keys, runs once, and frees its memory
  memory.release(kCommands, taken);
}

}  // namespace TEST_FILE

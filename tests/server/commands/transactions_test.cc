// Transactions in dispatch: stalled and missing, as one. What they answer is in the transcripts.
#include <catch2/catch.hpp>

#include "commands/families.h"
#include "server/command/harness.h"

using namespace ebbtide;
using namespace ebbtide::test;

TEST_CASE("what EXEC lacks is fetched in one go, and no attempt leaves anything behind") {
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
  CHECK(server.stats.totals().waits_for_disk + server.db->stats().fetches > before);  // else the test tests nothing
  CHECK(server("MGET a b c") == "[\"2\", \"3\", \"3x\"]");
}

TEST_CASE("a transaction is one batch: a crash between its commands is not possible") {
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

TEST_CASE("a queue that does not fit into memory is refused, and gives back what it held") {
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

TEST_CASE("every command outside of MULTI leaves the connection without a mode") {
  CommandHarness server(command_families());
  for (const char* line : {"MULTI", "SET a 1", "EXEC", "WATCH a", "MULTI", "DISCARD", "SUBSCRIBE c", "UNSUBSCRIBE c",
                           "CLIENT TRACKING on", "CLIENT TRACKING off", "MULTI", "RESET"}) {
    server(line);
  }
  CHECK(session_of(server.client()).modes == 0);
  CHECK(server.observers.switches() == 0);
}

TEST_CASE("an EXEC that the write stall holds back keeps its queue and runs later") {
  CommandHarness server(command_families());
  server("SET k 1");
  server.db->pause_compactions();
  for (int run = 0; run < 80; ++run) {
    server("SET k 1");
    REQUIRE(server.db->flush(0).is_ok());
  }
  server.db->resume_compactions();
  server.db->tick();
  REQUIRE(server.db->stats().write_stalled);
  server("MULTI");
  server("SET other 1");
  server("SET other 2");
  const std::vector<Bytes> exec{"EXEC"};
  PendingCommand pending;
  pending.client = &server.client(1);
  pending.args.list = exec;
  server.dispatcher->run_pass(std::span(&pending, 1));
  CHECK(pending.state == PendingCommand::State::kWaiting);
  CHECK(pending.retry_ms > 0);
  CHECK(server.client(1).out.empty());
  CHECK(server("EXISTS other", 2) == "(integer) 0");
  server.settle();
  server.advance(1000);
  REQUIRE_FALSE(server.db->writes_stopped());
  server.client(1).waiting = false;
  pending.state = PendingCommand::State::kNotRun;
  server.dispatcher->run_pass(std::span(&pending, 1));
  if (pending.state == PendingCommand::State::kWaiting) {  // a slowdown, once
    server.client(1).waiting = false;
    pending.state = PendingCommand::State::kNotRun;
    server.dispatcher->run_pass(std::span(&pending, 1));
  }
  CHECK(show(server.client(1).out.to_string()) == "[OK, OK]");
  server.client(1).out.clear();
  CHECK(server("GET other", 2) == "\"2\"");
  CHECK(server("EXEC") == "(error) ERR EXEC without MULTI");
}

// Tests of dispatch with commands made for these tests: waiting, retrying, ordering, counting.
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <numeric>
#include <thread>

#include "commands/families.h"
#include "dispatch/arg_cursor.h"
#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

/// The handler of PROBE (reads), PROBEW (writes), PROBES and PROBEL (off the loop, short and long). Each test sets it.
std::function<Status(Ctx&)> g_probe;
Status probe(Ctx& ctx) { return g_probe(ctx); }

constexpr CommandSpec kProbes[] = {
    {.name = "probe", .arity = at_least(1), .flags = kReadOnly, .run = probe},
    {.name = "probew", .arity = at_least(2), .keys = {.first = 1}, .flags = kWrite, .run = probe},
    {.name = "probes", .arity = exactly(1), .flags = kReadOnly | kOffload, .run = probe},
    {.name = "probel", .arity = exactly(1), .flags = kReadOnly | kOffload | kLong, .run = probe},
};

std::span<const std::span<const CommandSpec>> families() {
  static const std::array all = {string_commands(), counter_commands(),    key_commands(),
                                 scan_commands(),   database_commands(),   range_delete_commands(),
                                 tree_commands(),   connection_commands(), transaction_commands(),
                                 client_commands(), purge_commands(),      std::span<const CommandSpec>(kProbes)};
  return all;
}

std::uint64_t times(const CommandHarness& server, Stage stage) {
  const StageCounts counts = server.stats.stages()[static_cast<std::size_t>(stage)];
  return std::accumulate(counts.buckets.begin(), counts.buckets.end(), std::uint64_t{0});
}
std::uint64_t nanos(const CommandHarness& server, Stage stage) {
  return server.stats.stages()[static_cast<std::size_t>(stage)].nanos;
}

TEST_CASE("read needs pages that are not in memory: it runs again, and after several misses on an offload thread") {
  CommandHarness server(families());
  std::atomic<int> on_loop{0}, off_loop{0};
  g_probe = [&](Ctx& ctx) -> Status {
    ctx.reply.simple("half a reply");
    if (ctx.client != nullptr) {
      ++on_loop;
      return Status::not_resident();
    }
    ++off_loop;
    CHECK(ctx.view.mode() == ReadMode::kBlocking);
    return Status::ok();
  };
  CHECK(server("PROBE") == "half a reply");
  CHECK(on_loop == static_cast<int>(Dispatcher::kFetchRounds) + 1);
  CHECK(off_loop == 1);
  CHECK(server.stats.totals().offloaded == 1);
  CHECK(times(server, Stage::kThread) == 1);
}

TEST_CASE("write misses pages many times: it moves to an offload thread, which reads the pages with blocking I/O") {
  CommandHarness server(families());
  std::atomic<int> runs{0}, off_loop{0};
  g_probe = [&](Ctx& ctx) -> Status {
    CHECK((ctx.client == nullptr) == (ctx.view.mode() == ReadMode::kBlocking));
    off_loop += ctx.client == nullptr ? 1 : 0;
    ++runs;
    ctx.batch.put(ctx.session.database, ctx.key().key, std::to_string(runs));
    return ctx.view.mode() == ReadMode::kBlocking ? ctx.reply.ok(), Status::ok() : Status::not_resident();
  };
  CHECK(server("PROBEW k") == "OK");
  CHECK(runs == static_cast<int>(Dispatcher::kWriteRounds) + 2);
  CHECK(off_loop == 1);
  CHECK(server("GET k") == "\"" + std::to_string(runs) + "\"");
}

TEST_CASE("large value is on disk: a read or a write fetches it once, and then finds it in memory") {
  CommandHarness server(families());
  const std::string value(200'000, 'v');
  for (const char* key : {"a", "b", "c"}) CHECK(show(server.raw({"SET", key, value})) == "OK");
  REQUIRE(server.db->flush(0).is_ok());
  server.settle();
  CHECK(show(server.raw({"GET", "a"})) == "\"" + value + "\"");
  CHECK(server.stats.totals().offloaded == 0);
  const std::uint64_t before = server.db->stats().fetches;
  CHECK(show(server.raw({"APPEND", "b", "xy"})) == "(integer) 200002");
  CHECK(server.db->stats().fetches <= before + 2);  // one fetch for the page, and one for the value
  CHECK(show(server.raw({"MGET", "a", "c", "none"})) == "[\"" + value + "\", \"" + value + "\", (nil)]");
  CHECK(show(server.raw({"GETDEL", "c"})) == "\"" + value + "\"");
  CHECK(server.stats.totals().offloaded == 0);
  CHECK(times(server, Stage::kDisk) == server.stats.totals().waits_for_disk);
}

TEST_CASE("key expires after a write has run and before its commit: the write runs again") {
  CommandHarness server(families());
  server("SET k 5 PX 100");
  int runs = 0;
  g_probe = [&](Ctx& ctx) -> Status {
    ++runs;
    std::optional<Found> found;
    Strings strings = ctx.strings();
    TRY(strings.get_for_update(ctx.key(), &found));
    ctx.reply.simple(found ? "found" : "gone");
    TRY(strings.set(ctx.key(), "new"));
    if (runs == 1) server.clock.advance(200);  // the expiry passes between the read and the commit
    return Status::ok();
  };
  CHECK(server("PROBEW k") == "gone");
  CHECK(runs == 2);
  CHECK(server("GET k") == "\"new\"");
  CHECK(server.stats.totals().retries == 1);
}

TEST_CASE("handler of a command returns an error: the writes of the command are dropped") {
  CommandHarness server(families());
  g_probe = [](Ctx& ctx) -> Status {
    ctx.reply.array(2);
    ctx.reply.bulk("x");
    ctx.batch.put(0, ctx.key().key, "v");
    return wrong_type();
  };
  CHECK(server("PROBEW k") == "(error) WRONGTYPE Operation against a key holding the wrong kind of value");
  CHECK(server("GET k") == "(nil)");
}

TEST_CASE("command of one client waits: other clients are not delayed") {
  CommandHarness server(families());
  server("SET k v");
  const std::vector<Bytes> dbsize{"DBSIZE"}, get{"GET", "k"};
  std::vector<PendingCommand> span(4);
  for (auto& pending : span) pending.args.list = get;
  span[0].args.list = dbsize;
  span[0].client = span[1].client = &server.client(1);
  span[2].client = span[3].client = &server.client(2);
  server.dispatcher->run_pass(span);
  CHECK(span[0].state == PendingCommand::State::kWaiting);
  CHECK(span[1].state == PendingCommand::State::kNotRun);
  CHECK(span[2].state == PendingCommand::State::kDone);
  CHECK(span[3].state == PendingCommand::State::kDone);
  CHECK(server.client(1).out.empty());
  CHECK(show(server.client(2).out.to_string()) == "\"v\"\n\"v\"");
  server.loop.wait(1);
  server.client(1).waiting = false;
  server.dispatcher->run_pass(std::span(span).first(2));
  CHECK(show(server.client(1).out.to_string()) == "(integer) 1\n\"v\"");
}

TEST_CASE("pass has used up its time: it begins no further command, and the next pass runs the rest") {
  CommandHarness server(families());
  int runs = 0;
  g_probe = [&](Ctx& ctx) {
    ++runs;
    server.clock.advance(2);
    ctx.reply.integer(runs);
    return Status::ok();
  };
  const std::vector<Bytes> probe{"PROBE", "k"}, get{"GET", "k"};
  std::vector<PendingCommand> span(100);
  for (auto& pending : span) {
    pending.args.list = probe;
    pending.client = &server.client(1);
  }
  span.back().client = &server.client(2);
  span.back().args.list = get;
  server.dispatcher->run_pass(span);
  CHECK(runs == 3);
  CHECK(span[2].state == PendingCommand::State::kDone);
  for (std::size_t i = 3; i < span.size(); ++i) REQUIRE(span[i].state == PendingCommand::State::kNotRun);
  CHECK_FALSE(server.client(1).waiting);
  server.dispatcher->run_pass(std::span(span).subspan(3));
  CHECK(runs == 6);
  CHECK(show(server.client(1).out.to_string()).ends_with("(integer) 5\n(integer) 6"));
  CHECK(server.client(2).out.empty());
}

TEST_CASE("pass has committed megabytes: it begins no further command, since the loop then writes them to the log") {
  CommandHarness server(families());
  const std::string value(1 << 20, 'v'), small(100, 'v');
  const std::vector<Bytes> set{"SET", "k", GENERATE(true, false) ? Bytes(value) : Bytes(small)};
  std::vector<PendingCommand> span(20);
  for (auto& pending : span) {
    pending.args.list = set;
    pending.client = &server.client(1);
  }
  server.dispatcher->run_pass(span);
  const auto done =
      std::count_if(span.begin(), span.end(), [](const auto& p) { return p.state == PendingCommand::State::kDone; });
  CHECK(done == (set[2].size() == value.size() ? 4 : 20));
}

TEST_CASE("client disconnects while its command is off its event loop: the command's results are dropped") {
  CommandHarness server(families());
  const std::vector<Bytes> dbsize{"DBSIZE"};
  auto client = std::make_unique<Client>();
  client->id = 77;
  client->loop = &server.loop;
  std::vector<PendingCommand> span(1);
  span[0].client = client.get();
  span[0].args.list = dbsize;
  server.dispatcher->run_pass(span);
  REQUIRE(span[0].state == PendingCommand::State::kWaiting);
  server.dispatcher->client_closed(*client, span.data());
  client.reset();
  CHECK(server("DBSIZE") == "(integer) 0");  // DBSIZE runs after the dropped command in the queue
}

TEST_CASE("client disconnects: its running long command is cancelled, and its queued command never begins") {
  CommandHarness server(families());
  std::promise<void> begun;
  std::atomic<int> runs{0};
  std::atomic<bool> ended{false};
  g_probe = [&](Ctx& ctx) -> Status {
    if (++runs == 1) begun.set_value();
    while (!ctx.is_cancelled()) std::this_thread::yield();
    ended = true;
    return Status::ok();
  };
  const std::vector<Bytes> probe{"PROBEL"};
  std::vector<PendingCommand> span(2);
  std::vector<Client> clients(2);
  for (std::size_t i = 0; i < 2; ++i) {
    clients[i].id = 70 + i;
    clients[i].loop = &server.loop;
    span[i].client = &clients[i];
    span[i].args.list = probe;
  }
  server.dispatcher->run_pass(span);
  begun.get_future().wait();
  server.dispatcher->client_closed(clients[1], &span[1]);
  server.dispatcher->client_closed(clients[0], &span[0]);
  server.loop.wait(70);
  CHECK(ended);
  // The next command is after both of them in the queue.
  g_probe = [&](Ctx& ctx) -> Status { return ctx.reply.ok(), Status::ok(); };
  CHECK(server("PROBEL") == "OK");
  CHECK(runs == 1);
}

TEST_CASE("long work is queued on offload threads: short work does not wait for it") {
  CommandHarness server(families());
  server("SET k v");
  std::promise<void> release;
  auto released = release.get_future().share();
  g_probe = [released](Ctx& ctx) -> Status {
    released.wait();
    ctx.reply.ok();
    return Status::ok();
  };
  const std::vector<Bytes> probe{"PROBEL"};
  std::vector<PendingCommand> span(4);
  for (std::size_t i = 0; i < span.size(); ++i) {
    span[i].client = &server.client(10 + static_cast<int>(i));
    span[i].args.list = probe;
  }
  server.dispatcher->run_pass(span);
  CHECK(server("SCAN 0") == "[\"0\", [\"k\"]]");
  CHECK(server("DELPREFIX none").starts_with("\"purge-"));  // DELPREFIX waits for a sync
  release.set_value();
  for (std::uint64_t id = 10; id < 14; ++id) server.loop.wait(id);
}

TEST_CASE("CLIENT UNBLOCK comes during a wait or between two checks of it: the wait ends, even without a timeout") {
  CommandHarness server(families());
  server("SET k v");
  const std::string ticket = server("DELPREFIX k");
  const bool error = GENERATE(false, true);
  const int at = GENERATE(1, 2, 3, 4);  // odd: during a check; even: between two checks
  CAPTURE(error, at);
  int waits = 0;
  server.on_wait = [&] {
    CHECK(server.blocked.size() == 1);
    if (++waits != at) return;
    CHECK_FALSE(server.blocked.unblock(2, BlockedClients::End::kTimeout));
    CHECK(server.blocked.unblock(1, error ? BlockedClients::End::kError : BlockedClients::End::kTimeout));
    CHECK_FALSE(server.blocked.unblock(1, BlockedClients::End::kTimeout));  // the client is unblocked already
  };
  CHECK(server("PURGE.WAIT " + ticket + " 0") ==
        (error ? "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK" : "(integer) 0"));
  CHECK(waits <= at + 2);
  server.on_wait = nullptr;
  CHECK(server.blocked.size() == 0);
  CHECK(server("CLIENT UNBLOCK 1") == "(integer) 0");
}

TEST_CASE("write is stalled: it waits, and delays neither other clients nor a FLUSHDB") {
  CommandHarness server(families());
  server("SET k v");
  server.db->pause_compactions();
  for (int run = 0; run < 80; ++run) {
    server("SET k v");
    REQUIRE(server.db->flush(0).is_ok());
  }
  server.db->resume_compactions();
  server.db->tick();
  REQUIRE(server.db->stats().write_stalled);
  const std::vector<Bytes> set{"SET", "k", "new"}, get{"GET", "k"};
  std::vector<PendingCommand> span(3);
  span[0].client = span[1].client = &server.client(1);
  span[2].client = &server.client(2);
  span[0].args.list = set;
  span[1].args.list = span[2].args.list = get;
  server.dispatcher->run_pass(span);
  CHECK(span[0].state == PendingCommand::State::kWaiting);
  CHECK(span[0].retry_ms > 0);
  CHECK(span[1].state == PendingCommand::State::kNotRun);
  CHECK(server.client(1).out.empty());
  if (span[2].state == PendingCommand::State::kWaiting) {  // the command waits for a page, not for the stall
    server.loop.wait(2);
    server.client(2).waiting = false;
    server.dispatcher->run_pass(std::span(span).last(1));
  }
  CHECK(show(server.client(2).out.to_string()) == "\"v\"");
  server.client(2).out.clear();
  // The stall is still on, so the command waits again.
  server.client(1).waiting = false;
  span[0].state = PendingCommand::State::kNotRun;
  server.dispatcher->run_pass(std::span(span).first(2));
  CHECK(span[0].state == PendingCommand::State::kWaiting);
  CHECK(server("FLUSHDB", 3) == "OK");
  server.settle();
  server.advance(1000);
  REQUIRE_FALSE(server.db->writes_stopped());
  server.client(1).waiting = false;
  span[0].state = PendingCommand::State::kNotRun;
  server.dispatcher->run_pass(std::span(span).first(2));
  CHECK(show(server.client(1).out.to_string()) == "OK\n\"new\"");
  server.client(1).out.clear();
  CHECK(server.stats.totals().stalled == 2);
  CHECK(times(server, Stage::kStall) == 1);
  CHECK(nanos(server, Stage::kStall) >= 1'000'000'000);
  const std::vector<SlowLog::Entry> slow = server.observers.slow_log.latest(1);
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].micros >= 1'000'000);
  CHECK(slow[0].arguments.back().starts_with("(waited: stall 1"));
}

TEST_CASE("database becomes read-only while a write is stopped: the write is refused") {
  CommandHarness server(families());
  server.stop_writes();
  const std::vector<Bytes> set{"SET", "k", "new"};
  PendingCommand pending;
  pending.client = &server.client(1);
  pending.args.list = set;
  server.dispatcher->run_pass(std::span(&pending, 1));
  REQUIRE(pending.state == PendingCommand::State::kWaiting);
  server.faults().inject({.sticky = true});
  server.advance(20'000);  // this fails, since the mark of engine time cannot be written
  REQUIRE_FALSE(server.db->write_status().is_ok());
  server.client(1).waiting = false;
  pending.state = PendingCommand::State::kNotRun;
  server.dispatcher->run_pass(std::span(&pending, 1));
  CHECK(pending.state == PendingCommand::State::kDone);
  CHECK(show(server.client(1).out.to_string()).starts_with("(error) MISCONF "));
  server.client(1).out.clear();
  server.faults().clear_faults();
}

TEST_CASE("values of a command do not fit into memory: the command gets -OOM and does not run") {
  CommandHarness server(families());
  const std::vector<Bytes> set{"SET", "k", ""};
  PendingCommand pending;
  pending.client = &server.client(1);
  pending.args.list = set;
  pending.args.refused = true;
  server.dispatcher->run_pass(std::span(&pending, 1));
  CHECK(show(server.client(1).out.to_string()).starts_with("(error) OOM "));
  server.client(1).out.clear();
  CHECK(server("GET k") == "(nil)");
}

TEST_CASE("command runs on an offload thread: its reply waits until the log has all data that its handler could see") {
  CommandHarness server(families());
  server("SET k v");
  SeqNum later = 0;
  g_probe = [&](Ctx& ctx) -> Status {
    WriteBatch batch;  // another client writes meanwhile, and the engine's count includes its key
    batch.put(0, "other", "x");
    TRY(server.db->commit(batch));
    later = batch.last_seq();
    TRY_ASSIGN(count, env_of(ctx).db->count(0, {}));
    ctx.reply.integer(static_cast<std::int64_t>(count));
    return Status::ok();
  };
  CHECK(server("PROBES", 5) == "(integer) 2");
  CHECK(server.client(5).seen_seq >= later);
}

TEST_CASE("handler sees newer data than its view: the reply waits until the log has that data") {
  CommandHarness server(families());
  server("SET k v");
  const SeqNum after_set = server.db->visible_seq();
  CHECK(server.client(1).seen_seq == after_set);
  CHECK(server.client(2).seen_seq == 0);
  server("GET k", 2);
  CHECK(server.client(2).seen_seq == after_set);
  server("DBSIZE", 3);
  CHECK(server.client(3).seen_seq == after_set);
}

TEST_CASE("commands succeed, fail or are refused: calls, failures, rejections, hits and misses are counted") {
  CommandHarness server(families());
  server("SET n x");
  server("INCR n");
  server("GET n");
  server("GET none");
  server("GET");
  server("NOSUCH");
  const auto counts = server.stats.commands();
  const auto of = [&](Bytes name) { return counts[server.table.find(name)->index]; };
  CHECK(of("incr").calls == 1);
  CHECK(of("incr").failed == 1);
  CHECK(of("get").calls == 2);
  CHECK(of("get").rejected == 1);
  const TotalCounts totals = server.stats.totals();
  CHECK(totals.commands == 4);
  CHECK(totals.errors == 3);
  CHECK(totals.keyspace_hits == 1);
  CHECK(totals.keyspace_misses == 1);
  CHECK(server.stats.errors_by_code().at("ERR") == 3);
  server.stats.reset();
  CHECK(server.stats.totals().commands == 0);
  CHECK(server.stats.commands()[server.table.find("get")->index].calls == 0);
}

TEST_CASE("command has waited: its slow-log entry includes the time and the kind of the wait") {
  CommandHarness server(families());
  server.observers.slow_log.configure(10'000, 100, true);
  const auto latest = [&server] {
    const auto entries = server.observers.slow_log.latest(1);
    if (entries.empty()) return std::string();
    std::string line = std::to_string(entries[0].micros / 1000) + " ms:";
    for (const std::string& argument : entries[0].arguments) line += " " + argument;
    return line;
  };
  server.on_wait = [&server] { server.clock.advance(50); };
  server("DELPREFIX a");  // DELPREFIX waits for a sync
  CHECK(latest() == "50 ms: DELPREFIX a (waited: wal 50000 us)");
  server("MULTI");
  server("DELPREFIX b");
  server("EXEC");
  CHECK(latest() == "50 ms: EXEC (waited: wal 50000 us)");
  CHECK(server.observers.slow_log.size() == 2);
  server.on_wait = nullptr;
  g_probe = [&](Ctx&) -> Status {
    server.clock.advance(30);
    return Status::ok();
  };
  server("PROBES");
  CHECK(latest() == "30 ms: PROBES");
  server("MULTI");
  server("EXEC");
  CHECK(server.observers.slow_log.size() == 3);
}

TEST_CASE("large write waits for the WAL: it is counted, and enters the slow log, only when the WAL has its data") {
  CommandHarness server(families());
  server.observers.slow_log.configure(100'000, 10, true);
  const std::size_t set = server.table.find_full("set")->index;
  const std::string value(2 << 20, 'v');
  const std::vector<Bytes> words{"SET", "large", value};
  PendingCommand pending;
  pending.client = &server.client(1);
  pending.args.list = words;
  server.dispatcher->run_pass(std::span(&pending, 1));
  CHECK(pending.state == PendingCommand::State::kDone);
  server.clock.advance(700);
  server.dispatcher->poll();
  CHECK(server.stats.commands()[set].calls == 0);  // the reply is still waiting
  CHECK(server.observers.slow_log.size() == 0);
  server.db->write_log();
  server.dispatcher->logged(700'000'000);
  CHECK(server.stats.commands()[set].calls == 1);
  CHECK(server.stats.commands()[set].nanos >= 700'000'000);
  REQUIRE(server.observers.slow_log.size() == 1);
  const SlowLog::Entry slow = server.observers.slow_log.latest(1).front();
  CHECK(slow.micros >= 700'000);
  CHECK(slow.arguments.back() == "(log: 700000 us)");
  server("SET small 1");
  CHECK(server.stats.commands()[set].calls == 2);
}

TEST_CASE("pass is over: latency stages have its last command's wait for the commands before it, and its running time") {
  CommandHarness server(families());
  g_probe = [&](Ctx& ctx) -> Status {
    server.clock.advance(2);
    ctx.reply.ok();
    return Status::ok();
  };
  const std::vector<Bytes> probe{"PROBE"};
  std::vector<PendingCommand> span(3);
  for (PendingCommand& pending : span) {
    pending.client = &server.client(1);
    pending.args.list = probe;
  }
  server.dispatcher->run_pass(span);
  CHECK(times(server, Stage::kQueue) == 1);
  CHECK(nanos(server, Stage::kQueue) == 4'000'000);
  CHECK(times(server, Stage::kMemory) == 1);
  CHECK(nanos(server, Stage::kMemory) == 2'000'000);
}

TEST_CASE("key is too long (a zero byte counts as two bytes): the command is refused") {
  CommandHarness server(families());
  CHECK(show(server.raw({"SET", std::string(kMaxKeyBytes, 'k'), "v"})) == "OK");
  CHECK(show(server.raw({"SET", std::string(kMaxKeyBytes + 1, 'k'), "v"}))
            .starts_with("(error) ERR a key of 1048577 bytes is too long"));
  CHECK(show(server.raw({"GET", std::string(kMaxKeyBytes / 2 + 1, '\0')})).starts_with("(error) ERR a key of"));
}

TEST_CASE("handler returns a status: each status code has its own error reply") {
  CHECK(error_reply(wrong_type()).starts_with("WRONGTYPE Operation"));
  CHECK(error_reply(Status::invalid_argument("key is too long")) == "ERR key is too long");
  CHECK(error_reply(Status::out_of_memory("x")) == "OOM command not allowed when used memory > 'memory_budget'.");
  CHECK(error_reply(Status::no_space("5 bytes left")).starts_with("MISCONF "));
  CHECK(error_reply(Status::read_only("the log failed")) == "MISCONF Writes are refused: the log failed");
  CHECK(error_reply(Status::corruption("000012.data: bad page")) == "ERR corruption: 000012.data: bad page");
}

TEST_CASE("two event loops increment the same keys: no increment is lost") {
  CommandHarness server(families());
  constexpr int kRounds = 500;
  Dispatcher other(server.env, 7);
  const auto work = [&](Dispatcher& dispatcher, std::uint64_t id) {
    FakeLoop loop;
    Client client;
    client.id = id;
    client.loop = &loop;
    const std::vector<Bytes> incr{"INCR", "n"}, move{"APPEND", "s", "x"};
    for (int i = 0; i < kRounds; ++i) {
      std::vector<PendingCommand> span(2);
      span[0].client = span[1].client = &client;
      span[0].args.list = incr;
      span[1].args.list = move;
      dispatcher.run_pass(span);
      if (span[0].state != PendingCommand::State::kDone || span[1].state != PendingCommand::State::kDone) std::abort();
      server.db->write_log();
    }
  };
  std::thread first([&] { work(*server.dispatcher, 100); });
  std::thread second([&] { work(other, 101); });
  first.join();
  second.join();
  CHECK(server("GET n") == "\"" + std::to_string(2 * kRounds) + "\"");
  CHECK(server("STRLEN s") == "(integer) " + std::to_string(2 * kRounds));
}

TEST_CASE("server has a command: its spec is well-formed, and its name is found in upper and lower case") {
  const CommandTable table(command_families());
  for (const Command& command : table.all()) {
    INFO(command.full_name);
    const CommandSpec& spec = *command.spec;
    CHECK(table.find_full(command.full_name) == &command);
    std::string upper = command.full_name;
    for (char& c : upper) c = static_cast<char>(std::toupper(c));
    CHECK(table.find_full(upper) == &command);
    CHECK(spec.arity != 0);
    CHECK_FALSE(spec.summary.empty());
    CHECK_FALSE(spec.since.empty());
    CHECK_FALSE(spec.complexity.empty());
    CHECK((spec.run != nullptr || !spec.subcommands.empty()));
    CHECK((spec.keys.first < std::abs(spec.arity) || spec.has(kRunsScript)));  // a script may have no keys
    CHECK((spec.keys.first == 0 || spec.keys.access != 0));
    // Commands off their loop must commit nothing. Commands whose keys are not known in advance must exclude all others.
    CHECK_FALSE((spec.has(kOffload) && spec.has(kWrite)));
    if (spec.has(kWrite) && spec.keys.first == 0) CHECK(spec.has(kLockAll));
    for (const CommandSpec& sub : spec.subcommands) CHECK(sub.container == spec.name);
  }
  CHECK(table.find("nosuch") == nullptr);
  CHECK(table.find("") == nullptr);
  CHECK(table.find("ge") == nullptr);
  CHECK(table.find(Bytes("get\0", 4)) == nullptr);
  CHECK(table.find("ge\xf4") == nullptr);  // differs from 't' in the top bit only
  CHECK(table.find("GE\xd4") == nullptr);
  CHECK(table.find("g\x05t") == nullptr);  // differs from 'e' in the bits of its case only
  CHECK(table.find("getrangf") == nullptr);
  CHECK(table.find("incrbyfloas") == nullptr);
  CHECK(table.find("config|get") == nullptr);
}

TEST_CASE("EXEC selects another database: it reads the data as of the SELECT, and its reply waits until the log has that data") {
  CommandHarness server(families());
  CHECK(server("MSET a 1 b 1") == "OK");
  g_probe = [&](Ctx& ctx) -> Status {  // this stands for a write by another loop
    WriteBatch batch;
    batch.put(1, "b", "2");
    CHECK(env_of(ctx).db->commit(batch).is_ok());
    ctx.reply.ok();
    return Status::ok();
  };
  for (const char* line : {"MULTI", "PROBE", "SELECT 1", "GET b"}) server(line);
  CHECK(server("EXEC") == "[OK, OK, \"2\"]");
  CHECK(server.client().seen_seq == server.db->visible_seq());
}

TEST_CASE("network has sent wrong passwords: AUTH and HELLO from it are delayed, even with the right password") {
  CommandHarness h(families());
  h.control.password = "secret";
  h.control.auth_delay_ms = 700;
  const auto waited_for = [&](const std::string& command, int client) {
    const auto before = h.clock.wall_ms();
    const int waits = h.waits;
    const std::string reply = h(command, client);
    return std::pair(reply.substr(0, 17), h.waits == waits ? 0 : h.clock.wall_ms() - before);
  };
  CHECK(waited_for("AUTH wrong", 1) == std::pair(std::string("(error) WRONGPASS"), Millis{700}));
  CHECK(waited_for("AUTH secret", 1) == std::pair(std::string("OK"), Millis{700}));
  CHECK(waited_for("HELLO 2 AUTH default wrong", 2) == std::pair(std::string("(error) WRONGPASS"), Millis{700}));
  CHECK(waited_for("HELLO 2", 1).second == 0);
  CHECK(waited_for("PING", 1).second == 0);
  CHECK(h.control.auth_failures == 2);
  CHECK(h.control.failed_network == h.client(2).network);  // all connections from one network count together
  CHECK(h.control.delayed_network == h.client(2).network);
  h.control.auth_delay_ms = 0;
  CHECK(waited_for("AUTH wrong", 3).second == 0);
}

TEST_CASE("EXEC has several AUTH commands: it waits the delay of one, plus the maximum delay for each further one") {
  CommandHarness h(families());
  const auto waited_for = [&](std::initializer_list<const char*> queue) {
    h("MULTI");
    for (const char* command : queue) CHECK(h(command) == "QUEUED");
    const auto before = h.clock.wall_ms();
    const int waits = h.waits;
    h("EXEC");
    return h.waits == waits ? 0 : h.clock.wall_ms() - before;
  };
  CHECK(waited_for({"SET a 1", "AUTH default wrong"}) == 0);
  h.control.auth_delay_ms = 700;
  CHECK(waited_for({"SET a 1"}) == 0);
  CHECK(waited_for({"SET a 1", "AUTH default wrong"}) == 700);
  CHECK(waited_for({"AUTH default wrong", "AUTH default x", "HELLO 2 AUTH default y"}) == 4700);
  h.control.auth_delay_ms = 0;
  CHECK(waited_for({"AUTH default wrong", "AUTH default x"}) == 2000);
}

}  // namespace TEST_FILE

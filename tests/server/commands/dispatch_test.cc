// Dispatch, seen through commands made for it: waiting, retrying, ordering, counting.
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "command/arg_cursor.h"
#include "commands/families.h"
#include "server/command/harness.h"

using namespace ebbtide;
using namespace ebbtide::test;

namespace {

/// What PROBE (reads) and PROBEW (writes) do, set by each test.
std::function<Status(Ctx&)> g_probe;
Status probe(Ctx& ctx) { return g_probe(ctx); }

constexpr CommandSpec kProbes[] = {
    {.name = "probe", .arity = at_least(1), .flags = kReadOnly, .run = probe},
    {.name = "probew", .arity = at_least(2), .keys = {.first = 1}, .flags = kWrite, .run = probe},
};

std::span<const std::span<const CommandSpec>> families() {
  static const std::array all = {string_commands(), counter_commands(), key_commands(), scan_commands(),
                                 std::span<const CommandSpec>(kProbes)};
  return all;
}

}  // namespace

TEST_CASE("a reader that misses is run again, then on an offload thread") {
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
}

TEST_CASE("a writer that misses stays on its loop and reads blocking in the end") {
  CommandHarness server(families());
  int runs = 0;
  g_probe = [&](Ctx& ctx) -> Status {
    CHECK(ctx.client != nullptr);
    ++runs;
    ctx.batch.put(ctx.session.database, ctx.key().key, std::to_string(runs));
    return ctx.view.mode() == ReadMode::kBlocking ? ctx.reply.ok(), Status::ok() : Status::not_resident();
  };
  CHECK(server("PROBEW k") == "OK");
  CHECK(runs == static_cast<int>(Dispatcher::kWriteRounds) + 1);
  CHECK(server("GET k") == "\"" + std::to_string(runs) + "\"");
}

TEST_CASE("a large value on disk is fetched once and then found, by readers and writers") {
  CommandHarness server(families());
  const std::string value(200'000, 'v');
  for (const char* key : {"a", "b", "c"}) CHECK(show(server.raw({"SET", key, value})) == "OK");
  REQUIRE(server.db->flush(0).is_ok());
  server.settle();
  CHECK(show(server.raw({"GET", "a"})) == "\"" + value + "\"");
  CHECK(server.stats.totals().offloaded == 0);
  const std::uint64_t before = server.db->stats().fetches;
  CHECK(show(server.raw({"APPEND", "b", "xy"})) == "(integer) 200002");
  CHECK(server.db->stats().fetches <= before + 2);  // the page, the value
  CHECK(show(server.raw({"MGET", "a", "c", "none"})) == "[\"" + value + "\", \"" + value + "\", (nil)]");
  CHECK(show(server.raw({"GETDEL", "c"})) == "\"" + value + "\"");
  CHECK(server.stats.totals().offloaded == 0);
}

TEST_CASE("a write whose expiry passed before its commit runs again") {
  CommandHarness server(families());
  server("SET k 5 PX 100");
  int runs = 0;
  g_probe = [&](Ctx& ctx) -> Status {
    ++runs;
    std::optional<Found> found;
    Strings strings = ctx.strings();
    TRY(strings.get_for_update(ctx.key(), &found));
    ctx.reply.simple(found ? "found" : "gone");
    strings.set(ctx.key(), "new");
    if (runs == 1) server.clock.advance(200);  // between the read and the commit
    return Status::ok();
  };
  CHECK(server("PROBEW k") == "gone");
  CHECK(runs == 2);
  CHECK(server("GET k") == "\"new\"");
  CHECK(server.stats.totals().retries == 1);
}

TEST_CASE("an error drops what the handler wrote") {
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

TEST_CASE("a client that waits holds up itself only") {
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

TEST_CASE("a client that goes while its command is off the loop") {
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
  server.loop.wait(77);
}

TEST_CASE("replies depend on the newest state that their handlers saw") {
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

TEST_CASE("calls, failures, rejections, hits and misses are counted") {
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

TEST_CASE("keys over the limit are refused, zero bytes counting twice") {
  CommandHarness server(families());
  CHECK(show(server.raw({"SET", std::string(kMaxKeyBytes, 'k'), "v"})) == "OK");
  CHECK(show(server.raw({"SET", std::string(kMaxKeyBytes + 1, 'k'), "v"}))
            .starts_with("(error) ERR a key of 1048577 bytes is too long"));
  CHECK(show(server.raw({"GET", std::string(kMaxKeyBytes / 2 + 1, '\0')})).starts_with("(error) ERR a key of"));
}

TEST_CASE("statuses as error replies") {
  CHECK(error_reply(wrong_type()).starts_with("WRONGTYPE Operation"));
  CHECK(error_reply(Status::invalid_argument("key is too long")) == "ERR key is too long");
  CHECK(error_reply(Status::out_of_memory("x")) == "OOM command not allowed when used memory > 'memory_budget'.");
  CHECK(error_reply(Status::no_space("5 bytes left")).starts_with("MISCONF "));
  CHECK(error_reply(Status::read_only("the log failed")) == "MISCONF Writes are refused: the log failed");
  CHECK(error_reply(Status::corruption("000012.data: bad page")) == "ERR corruption: 000012.data: bad page");
}

TEST_CASE("two loops increment the same keys and lose nothing") {
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

TEST_CASE("every command is well formed, and found by its name in any case") {
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
    CHECK(spec.keys.first < std::abs(spec.arity));
    CHECK((spec.keys.first == 0 || spec.keys.access != 0));
    // Commands off their loop commit nothing; commands that commit with keys they cannot name exclude all others.
    CHECK_FALSE((spec.has(kOffload) && spec.has(kWrite)));
    if (spec.has(kWrite) && spec.keys.first == 0) CHECK(spec.has(kLockAll));
    for (const CommandSpec& sub : spec.subcommands) CHECK(sub.container == spec.name);
  }
  CHECK(table.find("nosuch") == nullptr);
  CHECK(table.find("") == nullptr);
  CHECK(table.find("ge") == nullptr);
  CHECK(table.find(Bytes("get\0", 4)) == nullptr);
  CHECK(table.find("config|get") == nullptr);
}

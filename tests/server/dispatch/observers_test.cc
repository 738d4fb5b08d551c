// Tests of observers of commands together: the expiry watch, and expirations that clients are notified of.
#include "dispatch/observers.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "dispatch/table.h"
#include "one_loop.h"

namespace ebbtide::test {
namespace TEST_FILE {

TEST_CASE("client tracks keys, or expired events are on: only then does the server watch expiries") {
  Observers observers;
  OneLoop loop;
  CHECK_FALSE(observers.expiries.on());
  observers.set_tracking(loop.client, {.on = true});
  CHECK(observers.expiries.on());  // refresh_expiries() has not been called yet
  observers.refresh_expiries(1);
  CHECK(observers.expiries.on());
  observers.set_tracking(loop.client, {});
  observers.refresh_expiries(2);
  CHECK_FALSE(observers.expiries.on());
  observers.notifications.set_flags(*parse_notify_flags("Ex"));
  observers.refresh_expiries(3);
  CHECK(observers.expiries.on());
}

TEST_CASE("key expires: it is counted as reported only if a client was notified") {
  Observers observers;
  OneLoop loop;
  std::vector<std::string> published;
  observers.notifications.publish = [&](Bytes channel, Bytes, ClientLoop*, SeqNum) { published.emplace_back(channel); };
  observers.expired(0, "k", &loop);
  CHECK(observers.expired_reported() == 0);
  observers.set_tracking(loop.client, {.on = true});
  const LookupKey read{"k", 1};
  observers.tracking.note_reads(loop.client.id, std::span(&read, 1));
  observers.expired(0, "k", &loop);
  CHECK(observers.expired_reported() == 1);
  CHECK_FALSE(loop.client.out.empty());
  CHECK(published.empty());
  observers.notifications.set_flags(*parse_notify_flags("Ex"));
  observers.expired(0, "k", &loop);
  CHECK(observers.expired_reported() == 2);
  CHECK(published == std::vector<std::string>{"__keyevent@0__:expired"});
}

TEST_CASE("MOVE moves a key: its expiration is published in the target database") {
  Observers observers;
  OneLoop loop;
  observers.set_tracking(loop.client, {.on = true});
  const CommandSpec spec{.name = "move"};
  const Command command{&spec, 0, 0, "move"};
  const std::vector<Bytes> words{"move", "k", "3"};
  Args args;
  args.list = words;
  WriteBatch batch;
  batch.put(3, "k", "v", {.expiry = 50});
  batch.del(0, "k");
  observers.committed({command, args, 0, batch, 1, {}, 10}, loop.client);
  const auto due = observers.expiries.take_first_due(50);
  REQUIRE(due);
  CHECK(due->database == 3);
  CHECK(due->key == "k");
  CHECK_FALSE(observers.expiries.take_first_due(50));
}

}  // namespace TEST_FILE
}  // namespace ebbtide::test

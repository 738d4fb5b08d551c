// Tests of client-side caches: which client gets which invalidation, and the limits of the notes.
#include "dispatch/tracking.h"

#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "one_loop.h"

namespace ebbtide::test {
namespace TEST_FILE {

/// A tracking table, and a loop with one client.
struct Fixture {
  explicit Fixture(std::size_t max_bytes = TrackingTable::kMaxBytes) : table(switches, max_bytes) {}

  void write(Client& writer, const char* key, SeqNum seq = 1) {
    WriteBatch batch;
    batch.put(0, key, "v");
    table.committed(batch, writer, seq);
  }
  void write(const char* key, SeqNum seq = 1) { write(client, key, seq); }
  void read(Bytes key) {
    const LookupKey read{key, 0};
    table.note_reads(client.id, std::span(&read, 1));
  }
  std::string received() {
    std::string out = client.out.to_string();
    client.out.clear();
    return out;
  }

  Switches switches;
  TrackingTable table;
  OneLoop loop;
  Client& client = loop.client;
};

std::string invalidation(const std::string& key) {
  return ">2\r\n$10\r\ninvalidate\r\n*1\r\n$" + std::to_string(key.size()) + "\r\n" + key + "\r\n";
}
constexpr const char* kInvalidateAll = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

TEST_CASE("key that a tracking client has read is written: the client gets one invalidation") {
  Fixture t;
  t.table.set(t.client, {.on = true});
  CHECK(t.switches.has(Switches::kTracking));
  t.read("k");
  t.write("k", 7);
  CHECK(t.received() == invalidation("k"));
  CHECK(t.client.seen_seq == 7);
  t.write("k", 8);
  CHECK(t.received().empty());
  t.table.set(t.client, {});
  CHECK_FALSE(t.switches.has(Switches::kTracking));
}

TEST_CASE("invalidations are sent in slices: each key that a client has read is invalidated once") {
  Fixture t;
  t.table.set(t.client, {.on = true});
  WriteBatch batch;
  for (const char* key : {"a", "b", "c"}) {
    t.read(key);
    batch.put(0, key, "v");
  }
  const Slice one_step([] { return true; });
  std::size_t cursor = 0;
  CHECK_FALSE(t.table.committed(batch, t.client, 1, &cursor, one_step));
  CHECK(t.received() == invalidation("a"));
  t.read("a");  // read again in between, so this is the new value
  CHECK_FALSE(t.table.committed(batch, t.client, 1, &cursor, one_step));
  CHECK_FALSE(t.table.committed(batch, t.client, 1, &cursor, one_step));
  CHECK(t.received() == invalidation("b") + invalidation("c"));
  CHECK(t.table.committed(batch, t.client, 1, &cursor, one_step));
  CHECK(t.received().empty());
  CHECK(t.table.counts().keys == 1);
}

TEST_CASE("invalidations come during a long read: they follow the reply of the read, and many become one for all keys") {
  Fixture t;
  t.table.set(t.client, {.on = true});
  for (const Bytes key : {"a", "b", "c"}) t.read(key);
  t.write("a", 3);
  keep_invalidations(t.client);
  t.write("b", 7);
  t.write("c", 8);
  CHECK(t.received() == invalidation("a"));
  CHECK(t.client.seen_seq == 3);
  send_kept_invalidations(t.client);
  CHECK(t.received() == invalidation("b") + invalidation("c"));
  CHECK(t.client.seen_seq == 8);
  keep_invalidations(t.client);
  for (int i = 0; i < 1000; ++i) {
    t.read("a");
    t.write("a", 10);
  }
  send_kept_invalidations(t.client);
  const std::string received = t.received();
  CHECK(received.starts_with(kInvalidateAll));
  CHECK(received.size() < 300 * invalidation("a").size());
  t.read("a");
  t.write("a", 11);
  CHECK(t.received() == invalidation("a"));
}

TEST_CASE("range delete covers thousands of keys that a client has read: one invalidation covers all keys") {
  Fixture t;
  t.table.set(t.client, {.on = true});
  for (int i = 0; i < 10'000; ++i) t.read("k" + std::to_string(i));
  t.read("other");
  WriteBatch batch;
  batch.delete_range(0, "k1", "k2");
  t.table.committed(batch, t.client, 1);
  CHECK(t.received().starts_with(">2\r\n$10\r\ninvalidate\r\n*1111\r\n$2\r\nk1\r\n"));
  CHECK(t.table.counts().keys == 10'001 - 1'111);
  batch.clear();
  batch.delete_range(0, "k", "l");
  t.table.committed(batch, t.client, 2);
  CHECK(t.received() == kInvalidateAll);
  CHECK(t.table.counts().keys == 0);
}

TEST_CASE("client tracks with NOLOOP: it gets invalidations of keys that others wrote, and none of its own") {
  Fixture t;
  t.table.set(t.client, {.on = true, .broadcast = true, .no_loop = true});
  Client other;
  other.id = 2;
  other.loop = &t.loop;
  t.write(other, "theirs");
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received() == invalidation("theirs"));
  t.write("mine");
  t.write(other, "theirs");
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received() == invalidation("theirs"));
}

TEST_CASE("tracked keys are many: their memory is charged to the budget, and is limited to a part of it") {
  Fixture t;
  std::int64_t charged = 0;
  t.table.memory.charge = [&](std::size_t bytes) { charged += static_cast<std::int64_t>(bytes); };
  t.table.memory.release = [&](std::size_t bytes) { charged -= static_cast<std::int64_t>(bytes); };
  t.table.set_budget(8 << 20);
  t.table.set(t.client, {.on = true});
  for (int i = 0; i < 10'000; ++i) t.read("key:" + std::to_string(i));
  CHECK(t.table.counts().keys < 10'000);
  CHECK(charged > 900'000);
  CHECK(charged <= 1 << 20);
  CHECK(t.received().starts_with(invalidation("key:0")));
  t.table.set(t.client, {});
  CHECK(charged == 0);
}

TEST_CASE("broadcast has 1,000 keys: clients share its text, and the text counts in the output of each client") {
  Fixture t;
  t.table.set(t.client, {.on = true, .broadcast = true});
  WriteBatch batch;
  const std::string prefix(100, 'p');
  for (int i = 0; i < 1000; ++i) batch.put(0, prefix + std::to_string(1000 + i), "v");
  t.table.committed(batch, t.client, 1);
  t.table.send_broadcasts(&t.loop);
  CHECK(t.client.out.memory() >= t.client.out.size());
  const std::string text = t.received();
  CHECK(text.starts_with(">2\r\n$10\r\ninvalidate\r\n*1000\r\n$104\r\n" + prefix + "1000\r\n$104\r\n"));
  CHECK(text.ends_with(prefix + "1999\r\n"));
  CHECK(t.client.out.memory() == 0);
}

TEST_CASE("key that a client has read expires: the client gets an invalidation, as for a write") {
  Fixture t;
  t.table.set(t.client, {.on = true});
  t.read("k");
  CHECK_FALSE(t.table.expired("other", &t.loop));
  CHECK(t.table.expired("k", &t.loop));
  CHECK(t.received() == invalidation("k"));
}

TEST_CASE("database is flushed: every tracking client gets an invalidation for all keys, even if it has read none") {
  Fixture t;
  t.table.set(t.client, {.on = true});
  WriteBatch batch;
  batch.flush_database(0);
  t.table.committed(batch, t.client, 1);
  CHECK(t.received() == kInvalidateAll);
}

TEST_CASE("redirection target has disconnected: the tracking client gets tracking-redir-broken instead") {
  Fixture t;
  t.table.is_connected = [](std::uint64_t) { return false; };
  t.table.set(t.client, {.on = true, .redirect = 9});
  t.read("k");
  t.write("k");
  CHECK(t.received() == ">2\r\n$21\r\ntracking-redir-broken\r\n:9\r\n");
}

TEST_CASE("batch writes a key twice: the key is broadcast once") {
  Fixture t;
  t.table.set(t.client, {.on = true, .broadcast = true});
  WriteBatch batch;
  for (const char* key : {"a", "b", "a"}) batch.put(0, key, "v");
  t.table.committed(batch, t.client, 1);
  CHECK(t.received().empty());
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received() == ">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n");
}

TEST_CASE("one pass has several commits: their keys are broadcast in one message per prefix, in order") {
  Fixture t;
  t.table.set(t.client, {.on = true, .broadcast = true, .prefixes = {"a", "b"}});
  for (const char* key : {"b1", "a2", "c1", "a1"}) t.write(key, 7);
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received() == ">2\r\n$10\r\ninvalidate\r\n*2\r\n$2\r\na1\r\n$2\r\na2\r\n" + invalidation("b1"));
  CHECK(t.client.seen_seq == 7);
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received().empty());
}

TEST_CASE("another client tracks a longer prefix: keys broadcast for the shorter prefix stay in order") {
  Fixture t;
  Client other;
  other.id = 2;
  other.loop = &t.loop;
  t.table.set(t.client, {.on = true, .broadcast = true, .prefixes = {"a"}});
  t.table.set(other, {.on = true, .broadcast = true, .prefixes = {"ab"}});
  for (const char* key : {"abx", "ac", "aa"}) t.write(key);
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received() == ">2\r\n$10\r\ninvalidate\r\n*3\r\n$2\r\naa\r\n$3\r\nabx\r\n$2\r\nac\r\n");
}

TEST_CASE("key is written: clients with a broadcast prefix of the key get an invalidation, and other clients do not") {
  Fixture t;
  Client other;
  for (const char* prefix : {"", "a", "ab", "abc:", "abc:de", "abd", "aa", "abc:df", "b", "abc:d\xff"}) {
    t.table.set(t.client, {.on = true, .broadcast = true, .prefixes = {prefix}});
    // The other prefixes belong to another client.
    other.id = 2;
    other.loop = &t.loop;
    Tracking rest{.on = true, .broadcast = true};
    for (const char* one : {"", "a", "ab", "abc:", "abc:de", "abd", "aa", "abc:df", "b", "abc:d\xff"}) {
      if (Bytes(one) != prefix) rest.prefixes.emplace_back(one);
    }
    t.table.set(other, rest);
    for (const char* key : {"abc:de", "abc:d", "abc", "c", "abc:dez", "a", "abc:d\xff\xff"}) {
      t.write(key);
      t.table.send_broadcasts(&t.loop);
      CHECK(t.received() == (Bytes(key).starts_with(prefix) ? invalidation(key) : ""));
    }
  }
}

TEST_CASE("prefixes are added and removed in any order: each key is broadcast for the prefixes that exist") {
  std::mt19937_64 random(11);
  const auto text = [&random](std::size_t most) {
    std::string out;
    for (std::size_t n = random() % (most + 1); n > 0; --n) out += "ab"[random() % 2];
    return out;
  };
  Fixture t;
  std::vector<Client> clients(20);
  std::vector<std::optional<std::string>> prefixes(clients.size());
  for (std::size_t i = 0; i < clients.size(); ++i) {
    clients[i].id = 100 + i;
    clients[i].loop = &t.loop;
    clients[i].protocol = 3;
  }
  for (int round = 0; round < 3000; ++round) {
    const std::size_t i = random() % clients.size();
    prefixes[i].reset();
    if (random() % 4 != 0) prefixes[i] = text(5);
    t.table.set(clients[i], {.on = prefixes[i].has_value(), .broadcast = true, .prefixes = {prefixes[i].value_or("")}});
    const std::string mine = text(3), key = text(8);
    t.table.set(t.client, {.on = true, .broadcast = true, .prefixes = {mine}});
    t.write(key.c_str());
    const bool ends_before = random() % 8 == 0;  // a prefix of the key, perhaps the longest one
    if (ends_before) t.table.set(clients[i], {});
    if (ends_before) prefixes[i].reset();
    t.table.send_broadcasts(&t.loop);
    INFO(mine << " and " << key);
    REQUIRE(t.received() == (Bytes(key).starts_with(mine) ? invalidation(key) : ""));
  }
}

TEST_CASE("long key begins with thousands of broadcast prefixes: the key is stored once for all broadcasts") {
  Fixture t;
  std::vector<Client> clients(2000);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    clients[i].id = 100 + i;
    clients[i].loop = &t.loop;
    t.table.set(clients[i], {.on = true, .broadcast = true, .prefixes = {std::string(i + 1, 'a')}});
  }
  t.table.set(t.client, {.on = true, .broadcast = true, .prefixes = {"a"}});
  WriteBatch batch;
  for (int i = 0; i < 100; ++i) batch.put(0, std::string(60'000, 'a') + std::to_string(100 + i), "v");
  t.table.committed(batch, t.client, 1);  // 12 GB, if the key were stored for each prefix
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received().starts_with(">2\r\n$10\r\ninvalidate\r\n*100\r\n$60003\r\n"));
}

TEST_CASE("keys of a batch match thousands of different lists of prefixes: clients get an invalidation for all keys") {
  Fixture t;
  std::vector<Client> clients(2000);
  t.table.set(t.client, {.on = true, .broadcast = true, .prefixes = {"a"}});
  WriteBatch batch;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    clients[i].id = 100 + i;
    clients[i].loop = &t.loop;
    t.table.set(clients[i], {.on = true, .broadcast = true, .prefixes = {std::string(i + 1, 'a')}});
    batch.put(0, std::string(i + 1, 'a') + "b", "v");
  }
  t.table.committed(batch, t.client, 1);
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received() == kInvalidateAll);
  t.write("aab");
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received() == invalidation("aab"));
}

TEST_CASE("pass has too many broadcasts: each client whose prefixes were written gets one invalidation for all keys") {
  constexpr std::size_t kClients = 60, kPrefixes = 1000;
  Fixture t;
  std::size_t messages = 0;
  std::vector<Client> clients(kClients);
  t.table.to_client = [&messages](std::uint64_t, const std::function<void(Client&)>&) { ++messages; };
  Tracking tracking{.on = true, .broadcast = true, .redirect = 1};
  WriteBatch batch;
  for (std::size_t i = 0; i < kPrefixes; ++i) {
    tracking.prefixes.push_back("p" + std::to_string(i) + ":");
    batch.put(0, tracking.prefixes.back() + "key", "v");
  }
  for (std::size_t i = 0; i < kClients; ++i) {
    clients[i].id = 100 + i;
    clients[i].loop = &t.loop;
    t.table.set(clients[i], tracking);
  }
  t.table.set(t.client, {.on = true, .broadcast = true, .prefixes = {"other"}});
  t.table.committed(batch, t.client, 1);
  t.table.send_broadcasts(&t.loop);
  CHECK(messages == kClients);
  CHECK(t.received().empty());
  t.table.set(t.client, {.on = true, .broadcast = true, .prefixes = {"p1:", "x"}});
  t.table.committed(batch, t.client, 2);
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received() == kInvalidateAll);
  CHECK(t.client.seen_seq == 2);
  t.write("p1:key", 3);
  t.table.send_broadcasts(&t.loop);
  CHECK(messages == 3 * kClients);
  CHECK(t.received() == invalidation("p1:key"));
}

TEST_CASE("broadcasts have too many bytes: clients get an invalidation for all keys") {
  constexpr std::size_t kClients = 200;
  Fixture t;
  std::vector<Client> clients(kClients);
  Tracking tracking{.on = true, .broadcast = true};
  WriteBatch batch;
  for (std::size_t i = 0; i < 100; ++i) {
    tracking.prefixes.push_back("p" + std::to_string(i) + ":");
    batch.put(0, tracking.prefixes.back() + std::string(1000, 'k'), "v");
  }
  for (std::size_t i = 0; i < kClients; ++i) {
    clients[i].id = 100 + i;
    clients[i].loop = &t.loop;
    t.table.set(clients[i], tracking);
  }
  t.table.set(t.client, tracking);
  t.table.committed(batch, t.client, 1);
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received() == kInvalidateAll);
}

TEST_CASE("only the NOLOOP client itself wrote a key: the broadcast to this client omits the key") {
  Fixture t;
  t.table.set(t.client, {.on = true, .broadcast = true, .no_loop = true});
  Client other;
  other.id = 2;
  other.loop = &t.loop;
  t.write("own");
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received().empty());
  t.write("both");
  t.write(other, "both");
  t.write("own");
  t.table.send_broadcasts(&t.loop);
  CHECK(t.received() == invalidation("both"));
}

TEST_CASE("range is deleted: a broadcasting client gets an invalidation for all keys") {
  Fixture t;
  t.table.set(t.client, {.on = true, .broadcast = true, .prefixes = {"a"}});
  WriteBatch batch;
  batch.delete_range(0, "a", "b");
  t.table.committed(batch, t.client, 1);
  CHECK(t.received() == kInvalidateAll);
}

TEST_CASE("tracked keys exceed their memory: some are removed, and their clients get invalidations for them") {
  constexpr std::size_t kKeyBytes = 1000, kFit = 50, kKeys = 200;
  Fixture t(kFit * kKeyBytes);
  t.table.set(t.client, {.on = true});
  for (std::size_t i = 0; i < kKeys; ++i) {
    std::string key(kKeyBytes, 'k');
    key.replace(0, 3, std::to_string(100 + i));
    t.read(key);
    t.read(key);
  }
  const auto counts = t.table.counts();
  CHECK(counts.keys < kFit);
  CHECK(counts.keys > kFit / 2);
  CHECK(counts.items == counts.keys);
  const std::string received = t.received();
  std::size_t n = 0;
  for (std::size_t at = received.find("invalidate"); at != std::string::npos; at = received.find("invalidate", at + 1)) ++n;
  CHECK(n == kKeys - counts.keys);
  t.table.set(t.client, {});
  CHECK(t.table.counts().keys == 0);
  CHECK(t.table.counts().items == 0);
}

}  // namespace TEST_FILE
}  // namespace ebbtide::test

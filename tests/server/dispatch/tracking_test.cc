// Client-side caches: who is told of what, and what noting it may take.
#include "dispatch/observers.h"

#include <catch2/catch.hpp>
#include <string>

#include "dispatch/table.h"

namespace ebbtide::test {
namespace {

/// One client, on the loop at hand.
class OneLoop final : public ClientLoop {
 public:
  OneLoop() {
    client.id = 1;
    client.loop = this;
    client.protocol = 3;
  }
  void post(std::function<void()> task) override { task(); }
  void resume(std::uint64_t) override {}
  Client* find(std::uint64_t id) override { return id == client.id ? &client : nullptr; }
  void touch(Client*) override {}
  int index() const override { return 0; }
  void for_each(const std::function<void(Client&)>& f) override { f(client); }

  Client client;
};

constexpr CommandSpec kSpec = {.name = "mset"};

TEST_CASE("a key that a batch writes twice is broadcast once") {
  OneLoop loop;
  Observers observers;
  observers.set_tracking(loop.client, {.on = true, .broadcast = true});
  WriteBatch batch;
  for (const char* key : {"a", "b", "a"}) batch.put(0, key, "v");
  const Command command{&kSpec, 0, 0, "mset"};
  const Args args;
  observers.committed({command, args, 0, batch, 1, {}, 0}, loop.client);
  CHECK(loop.client.out.empty());
  observers.send_broadcasts(&loop);
  CHECK(loop.client.out.to_string() == ">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n");
}

TEST_CASE("commits of one pass are broadcast as one message per prefix") {
  OneLoop loop;
  Observers observers;
  observers.set_tracking(loop.client, {.on = true, .broadcast = true, .prefixes = {"a", "b"}});
  const Command command{&kSpec, 0, 0, "set"};
  const Args args;
  for (const char* key : {"a2", "b1", "c1", "a1"}) {
    WriteBatch batch;
    batch.put(0, key, "v");
    observers.committed({command, args, 0, batch, 7, {}, 0}, loop.client);
  }
  observers.send_broadcasts(&loop);
  CHECK(loop.client.out.to_string() ==
        ">2\r\n$10\r\ninvalidate\r\n*2\r\n$2\r\na1\r\n$2\r\na2\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$2\r\nb1\r\n");
  CHECK(loop.client.seen_seq == 7);
  loop.client.out.clear();
  observers.send_broadcasts(&loop);
  CHECK(loop.client.out.empty());
}

TEST_CASE("NOLOOP leaves out the broadcast of keys that only the client itself wrote") {
  OneLoop loop;
  Observers observers;
  observers.set_tracking(loop.client, {.on = true, .broadcast = true, .no_loop = true});
  const Command command{&kSpec, 0, 0, "set"};
  const Args args;
  Client& self = loop.client;
  const auto write = [&](Client& writer, const char* key) {
    WriteBatch batch;
    batch.put(0, key, "v");
    observers.committed({command, args, 0, batch, 1, {}, 0}, writer);
  };
  Client other;
  other.id = 2;
  other.loop = &loop;
  write(self, "own");
  observers.send_broadcasts(&loop);
  CHECK(self.out.empty());
  write(self, "both");
  write(other, "both");
  write(self, "own");
  observers.send_broadcasts(&loop);
  CHECK(self.out.to_string() == ">2\r\n$10\r\ninvalidate\r\n*1\r\n$4\r\nboth\r\n");
}

TEST_CASE("a range delete tells who is broadcast to that any key may be gone") {
  OneLoop loop;
  Observers observers;
  observers.set_tracking(loop.client, {.on = true, .broadcast = true, .prefixes = {"a"}});
  WriteBatch batch;
  batch.delete_range(0, "a", "b");
  const Command command{&kSpec, 0, 0, "delrange"};
  const Args args;
  observers.committed({command, args, 0, batch, 1, {}, 0}, loop.client);
  CHECK(loop.client.out.to_string() == ">2\r\n$10\r\ninvalidate\r\n_\r\n");
}

TEST_CASE("noted keys stay within their memory: what is noted no more is told as if it had changed") {
  constexpr std::size_t kKeyBytes = 1000, kFit = 50, kKeys = 200;
  OneLoop loop;
  Observers observers(kFit * kKeyBytes);
  observers.set_tracking(loop.client, {.on = true});
  for (std::size_t i = 0; i < kKeys; ++i) {
    std::string key(kKeyBytes, 'k');
    key.replace(0, 3, std::to_string(100 + i));
    const LookupKey read{key, i};
    observers.note_reads(1, std::span(&read, 1));
    observers.note_reads(1, std::span(&read, 1));
  }
  const auto counts = observers.tracking_counts();
  CHECK(counts.keys < kFit);
  CHECK(counts.keys > kFit / 2);
  CHECK(counts.items == counts.keys);
  const std::string told = loop.client.out.to_string();
  std::size_t n = 0;
  for (std::size_t at = told.find("invalidate"); at != std::string::npos; at = told.find("invalidate", at + 1)) ++n;
  CHECK(n == kKeys - counts.keys);
  observers.set_tracking(loop.client, {});
  CHECK(observers.tracking_counts().keys == 0);
  CHECK(observers.tracking_counts().items == 0);
}

}  // namespace
}  // namespace ebbtide::test

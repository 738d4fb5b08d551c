// Tests of the queues of clients that wait for keys: which write wakes which client, and where a wake-up goes that its client
// does not use.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "blocking/key_waiters.h"

namespace TEST_FILE {

using namespace ebbtide;

using Ids = std::vector<std::uint64_t>;

class Loop final : public ClientLoop {
 public:
  void post(std::function<void()> task) override { task(); }
  void resume(std::uint64_t client_id) override { resumed.push_back(client_id); }
  Client* find(std::uint64_t) override { return nullptr; }
  void touch(Client*) override {}
  int index() const override { return 0; }
  void for_each(const std::function<void(Client&)>&) override {}
  Ids resumed;
};

struct Fixture {
  Loop loop;
  KeyWaiters waiters;

  std::unique_ptr<KeyWaiters::Wait> wait(std::uint64_t client_id, const std::vector<std::string>& names,
                                         DatabaseId database = 0) {
    Client client;
    client.id = client_id;
    client.loop = &loop;
    std::vector<LookupKey> keys;
    for (const std::string& name : names) keys.push_back({name, hash_key(name)});
    return std::make_unique<KeyWaiters::Wait>(waiters, client, database, keys);
  }
  /// Commits a batch, and returns the clients that it wakes.
  Ids commit(const WriteBatch& batch, KeyWaiters::Wait* own = nullptr) {
    const std::vector<KeyWaiters::Written> keys = waiters.waited_for(batch, own != nullptr);
    if (own != nullptr) own->has_written(keys);
    waiters.wake(keys);
    return std::exchange(loop.resumed, {});
  }
  Ids push(const char* key, KeyWaiters::Wait* own = nullptr, DatabaseId database = 0) {
    WriteBatch batch;
    batch.put(database, key, "list", {.kind = EntryKind::kCompact});
    return commit(batch, own);
  }
  Ids erase(const char* key, KeyWaiters::Wait* own = nullptr) {
    WriteBatch batch;
    batch.del(0, key);
    return commit(batch, own);
  }
  /// Ends a wait, and returns the clients that it wakes.
  Ids end(std::unique_ptr<KeyWaiters::Wait>& wait) {
    wait.reset();
    return std::exchange(loop.resumed, {});
  }
};

TEST_CASE("clients are blocked on a key: each push wakes the client that has waited longest and is not yet woken") {
  Fixture t;
  CHECK_FALSE(t.waiters.any());
  auto a = t.wait(1, {"q"}), b = t.wait(2, {"q"}), c = t.wait(3, {"q"});
  CHECK(t.waiters.any());
  CHECK(t.push("q") == Ids{1});
  CHECK(t.push("q") == Ids{2});
  CHECK(t.push("q") == Ids{3});
  CHECK(t.push("q").empty());
}

TEST_CASE("write to a key adds no element: no blocked client is woken") {
  Fixture t;
  auto a = t.wait(1, {"q"});
  CHECK(t.push("other").empty());
  CHECK(t.push("q", nullptr, 1).empty());
  CHECK(t.erase("q").empty());
  WriteBatch batch;
  batch.put(0, "q", "a string");
  CHECK(t.commit(batch).empty());
}

TEST_CASE("woken BLPOP client finds no element: it keeps its position in the queue") {
  Fixture t;
  auto a = t.wait(1, {"q"}), b = t.wait(2, {"q"});
  CHECK(t.push("q") == Ids{1});
  a->begin_look();
  CHECK_FALSE(a->found_nothing());
  CHECK(t.push("q") == Ids{1});
}

TEST_CASE("push comes while a woken BLPOP client reads its keys: the client is woken once more") {
  Fixture t;
  auto a = t.wait(1, {"q"});
  CHECK(t.push("q") == Ids{1});
  a->begin_look();
  CHECK(t.push("q") == Ids{1});
  CHECK(a->found_nothing());
  a->begin_look();
  CHECK_FALSE(a->found_nothing());
}

TEST_CASE("push comes during the first read of a BLPOP client: the client reads its keys again") {
  Fixture t;
  auto a = t.wait(1, {"q"});
  a->begin_look();
  CHECK(t.push("q") == Ids{1});
  CHECK(a->found_nothing());
}

TEST_CASE("woken BLPOP client ends its wait before it reads its keys: the next client is woken") {
  Fixture t;
  auto a = t.wait(1, {"q"}), b = t.wait(2, {"q"});
  CHECK(t.push("q") == Ids{1});
  CHECK(t.end(a) == Ids{2});
}

TEST_CASE("BLPOP client that was not woken ends its wait: no client is woken") {
  Fixture t;
  auto a = t.wait(1, {"q"}), b = t.wait(2, {"q"});
  CHECK(t.end(a).empty());
  CHECK(t.push("q") == Ids{2});
}

TEST_CASE("woken BLPOP client gets an element of another key: the next client in the queue is woken") {
  Fixture t;
  auto a = t.wait(1, {"first", "q"}), b = t.wait(2, {"q"});
  CHECK(t.push("q") == Ids{1});
  a->begin_look();
  CHECK(t.erase("first", a.get()).empty());  // it pops the last element of its first key
  CHECK(t.end(a) == Ids{2});
}

TEST_CASE("woken BLPOP client pops the last element: no other client is woken") {
  Fixture t;
  auto a = t.wait(1, {"q"}), b = t.wait(2, {"q"});
  CHECK(t.push("q") == Ids{1});
  a->begin_look();
  CHECK(t.erase("q", a.get()).empty());
  CHECK(t.end(a).empty());
}

TEST_CASE("woken BLPOP client pops one of several elements: the next client is woken, once") {
  Fixture t;
  auto a = t.wait(1, {"q"}), b = t.wait(2, {"q"}), c = t.wait(3, {"q"});
  CHECK(t.push("q") == Ids{1});
  a->begin_look();
  // The client itself is the first in the queue, so its commit may wake it. It then passes the baton on when its wait ends.
  Ids woken = t.push("q", a.get());
  for (const std::uint64_t id : t.end(a)) woken.push_back(id);
  std::erase(woken, 1);
  CHECK(woken == Ids{2});
}

TEST_CASE("push comes while a BLPOP client pops the last element: the next client is woken when the first ends its wait") {
  Fixture t;
  auto a = t.wait(1, {"q"}), b = t.wait(2, {"q"});
  CHECK(t.push("q") == Ids{1});
  a->begin_look();
  CHECK(t.erase("q", a.get()).empty());
  CHECK(t.push("q") == Ids{1});  // this push comes before its wait ends
  CHECK(t.end(a) == Ids{2});
}

TEST_CASE("blocking command names a key twice: after its wait the client is in no queue") {
  Fixture t;
  auto a = t.wait(1, {"q", "q"}), b = t.wait(2, {"q"});
  CHECK(t.push("q") == Ids{1});
  CHECK(t.end(a) == Ids{2});
  CHECK(t.end(b).empty());
  CHECK_FALSE(t.waiters.any());
  CHECK(t.push("q").empty());
}

TEST_CASE("woken BLPOP client ends its wait for 2,000 keys: for each key that was pushed, the next client is woken once") {
  Fixture t;
  std::vector<std::string> names;
  for (int i = 0; i < 2'000; ++i) names.push_back("q" + std::to_string(i));
  auto a = t.wait(1, names), b = t.wait(2, names);
  CHECK(t.push("q0") == Ids{1});
  CHECK(t.push("q1024") == Ids{1});
  CHECK(t.push("q1999") == Ids{1});
  CHECK(t.end(a) == Ids{2, 2, 2});
  CHECK(t.end(b).empty());
  CHECK_FALSE(t.waiters.any());
  CHECK(t.push("q1999").empty());
}

TEST_CASE("SWAPDB swaps two databases: the first client of each queue in both databases is woken") {
  Fixture t;
  auto a = t.wait(1, {"q"}, 0), b = t.wait(2, {"r"}, 1), c = t.wait(3, {"q"}, 2);
  WriteBatch batch;
  batch.swap_databases(0, 1);
  Ids woken = t.commit(batch);
  std::sort(woken.begin(), woken.end());
  CHECK(woken == Ids{1, 2});
}

}  // namespace TEST_FILE

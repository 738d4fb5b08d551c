// Which loop is sent which message, and in how many tasks.
#include "pubsub/pubsub.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

using namespace ebbtide;

namespace {

/// A loop with one client, whose tasks run when the test says so.
class Loop final : public ClientLoop {
 public:
  explicit Loop(std::uint64_t id) {
    client.id = id;
    client.loop = this;
  }
  void post(std::function<void()> task) override { tasks.push_back(std::move(task)); }
  void resume(std::uint64_t) override {}
  Client* find(std::uint64_t id) override { return id == client.id ? &client : nullptr; }
  void touch(Client*) override {}
  int index() const override { return 0; }
  void for_each(const std::function<void(Client&)>& f) override { f(client); }
  std::size_t run_tasks() {
    const std::vector<std::function<void()>> now = std::move(tasks);
    tasks.clear();
    for (const auto& task : now) task();
    return now.size();
  }

  Client client;
  std::vector<std::function<void()>> tasks;
};

bool never(Bytes, Bytes) { return false; }

std::string messages(int from, int to) {
  std::string all;
  for (int i = from; i < to; ++i) {
    const std::string text = std::to_string(i);
    all += "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  return all;
}

}  // namespace

TEST_CASE("gathered messages reach another loop in order, in few tasks; those of the own loop at once") {
  PubSub pubsub(never);
  Loop here(1), there(2);
  pubsub.add(PubSub::Kind::kChannel, "c", {&here, 1});
  pubsub.add(PubSub::Kind::kChannel, "c", {&there, 2});
  const auto publish = [&](int from, int to) {
    for (int i = from; i < to; ++i) pubsub.publish(PubSub::Kind::kChannel, "c", std::to_string(i), &here, 7);
  };
  {
    const PubSub::Gathering gathering;
    publish(0, 1000);
    CHECK(here.client.out.to_string() == messages(0, 1000));
  }
  publish(1000, 1002);
  CHECK(there.run_tasks() == 1000 / PubSub::Gathering::kMessagesPerTask + 1 + 2);
  CHECK(there.client.out.to_string() == messages(0, 1002));
  CHECK(there.client.seen_seq == 7);
  CHECK(here.run_tasks() == 0);
}

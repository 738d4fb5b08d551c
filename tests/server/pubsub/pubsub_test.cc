// Tests of messages: which loop gets which message, and in how many tasks.
#include "pubsub/pubsub.h"

#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

/// A loop with one client, whose tasks run when the test calls for them.
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

std::string messages(int from, int to) {
  std::string all;
  for (int i = from; i < to; ++i) {
    const std::string text = std::to_string(i);
    all += "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  return all;
}

TEST_CASE("messages are published together: another loop gets them in order and in few tasks") {
  PubSub pubsub;
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

TEST_CASE("message is sent to its subscribers in parts: each subscriber gets it once, on every loop") {
  PubSub pubsub;
  Loop here(1), there(2);
  constexpr int kTimes = 2500;
  for (int i = 0; i < kTimes; ++i) {
    pubsub.add(PubSub::Kind::kPattern, "c" + std::string(static_cast<std::size_t>(i), '*'), {&here, 1});
    pubsub.add(PubSub::Kind::kPattern, "c" + std::string(static_cast<std::size_t>(i), '*'), {&there, 2});
  }
  PubSub::Sending sending(pubsub, pubsub.audience(PubSub::Kind::kChannel, "c"), PubSub::Kind::kChannel, "c", "text", nullptr);
  int parts = 1;
  for (; !sending.go_on(&here, 7, [] { return true; }); ++parts) {
  }
  CHECK(parts == 6);
  CHECK(there.client.out.empty());
  there.run_tasks();
  for (Loop* loop : {&here, &there}) {
    const std::string received = loop->client.out.to_string();
    int messages = 0;
    for (std::size_t at = 0; (at = received.find("pmessage", at)) != std::string::npos; ++at) ++messages;
    CHECK(messages == kTimes);
    CHECK(loop->client.seen_seq == 7);
  }
}

TEST_CASE("subscribers are searched in parts: the message reaches the same clients as without parts") {
  PubSub pubsub;
  std::deque<Loop> loops;
  const std::string channel(10'000, 'c');
  for (std::uint64_t i = 0; i < 300; ++i) {
    Loop& loop = loops.emplace_back(i);
    const std::string pattern = (i % 3 == 0 ? "*c*" : "*d*") + std::to_string(i) + (i % 3 == 0 ? "*" : "");
    pubsub.add(PubSub::Kind::kPattern, pattern, {&loop, i});
  }
  pubsub.add(PubSub::Kind::kPattern, "c*", {&loops[0], 0});
  pubsub.add(PubSub::Kind::kChannel, channel, {&loops[1], 1});
  const auto receivers = [&] {
    std::vector<std::string> out;
    for (Loop& loop : loops) {
      loop.run_tasks();
      out.push_back(loop.client.out.to_string());
      loop.client.out.clear();
    }
    return out;
  };
  pubsub.publish(PubSub::Kind::kChannel, channel, "text", &loops[0], 7);
  const std::vector<std::string> at_once = receivers();
  PubSub::Publishing publishing(pubsub, PubSub::Kind::kChannel, channel, "text", &loops[0], 7);
  int parts = 1;
  for (; !publishing.go_on([] { return true; }); ++parts) {
  }
  CHECK(parts > 3);
  CHECK(receivers() == at_once);
  CHECK(at_once[1].find("text") != std::string::npos);
  CHECK(at_once[2].empty());
}

TEST_CASE("patterns are removed during a search for subscribers: only clients of the remaining patterns are found") {
  PubSub pubsub;
  Loop loop(1);
  const std::string channel(100'000, 'c');
  const auto pattern = [](int i) { return std::to_string(i) + "*"; };
  for (int i = 0; i < 1000; ++i) pubsub.add(PubSub::Kind::kPattern, pattern(i), {&loop, 1});
  pubsub.add(PubSub::Kind::kPattern, "cc*", {&loop, 1});
  pubsub.add(PubSub::Kind::kPattern, "ccc*", {&loop, 1});
  PubSub::Search search(pubsub, PubSub::Kind::kChannel, channel);
  PubSub::Audience found;
  bool done = search.go_on(&found, 1, [] { return true; });
  REQUIRE_FALSE(done);
  for (int i = 0; i < 1000; ++i) pubsub.remove(PubSub::Kind::kPattern, pattern(i), {&loop, 1});
  pubsub.remove(PubSub::Kind::kPattern, "cc*", {&loop, 1});
  while (!done) done = search.go_on(&found, 1, [] { return true; });
  CHECK(found.size() == 1);
}

TEST_CASE("channel name is empty: only the empty pattern matches it, and the pattern * does not") {
  PubSub pubsub;
  Loop loop(1);
  for (const char* pattern : {"", "*", "**"}) pubsub.add(PubSub::Kind::kPattern, pattern, {&loop, 1});
  pubsub.publish(PubSub::Kind::kChannel, "", "text", &loop, 7);
  CHECK(loop.client.out.to_string() == "*4\r\n$8\r\npmessage\r\n$0\r\n\r\n$0\r\n\r\n$4\r\ntext\r\n");
}

TEST_CASE("client disconnects while PUBSUB CHANNELS lists names for it: the list ends early") {
  PubSub pubsub;
  Loop loop(1);
  for (int i = 0; i < 1000; ++i) pubsub.add(PubSub::Kind::kChannel, std::to_string(i), {&loop, 1});
  CHECK(pubsub.names(PubSub::Kind::kChannel, "*").size() == 1000);
  CHECK(pubsub.names(PubSub::Kind::kChannel, "", [] { return false; }).size() == 1000);
  CHECK(pubsub.names(PubSub::Kind::kChannel, "*", [] { return true; }).size() < 100);
}

TEST_CASE("channel, pattern and text are long: subscribers get them whole, and share one copy of each") {
  PubSub pubsub;
  Loop here(1), there(2);
  const std::string pattern(50'000, '*'), channel(60'000, 'c'), text(70'000, 't');
  for (Loop* loop : {&here, &there}) pubsub.add(PubSub::Kind::kPattern, pattern, {loop, loop->client.id});
  pubsub.publish(PubSub::Kind::kChannel, channel, text, &here, 7);
  there.run_tasks();
  const auto bulk = [](const std::string& part) { return "$" + std::to_string(part.size()) + "\r\n" + part + "\r\n"; };
  std::vector<std::vector<const void*>> places;
  for (Loop* loop : {&here, &there}) {
    CHECK(loop->client.out.to_string() == "*4\r\n$8\r\npmessage\r\n" + bulk(pattern) + bulk(channel) + bulk(text));
    iovec pieces[16];
    const int count = loop->client.out.pieces(pieces, 16, ~std::uint64_t{0});
    places.emplace_back();
    for (int i = 0; i < count; ++i) {
      if (pieces[i].iov_len > 40'000) places.back().push_back(pieces[i].iov_base);
    }
  }
  CHECK(places[0].size() == 3);
  CHECK(places[0] == places[1]);
}

}  // namespace TEST_FILE

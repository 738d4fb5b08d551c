// A loop with one client, for tests of messages to clients.
#pragma once

#include <functional>

#include "resp/client.h"

namespace ebbtide::test {

/// Runs posted tasks at once.
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

}  // namespace ebbtide::test

// Answers clients while the database is being opened.
#pragma once

#include <algorithm>

#include "resp/client.h"
#include "resp/reply.h"

namespace ebbtide {

/// Every command gets Redis's -LOADING, but for QUIT, and for INFO, by which client libraries see that they have to wait.
class LoadingSink final : public CommandSink {
 public:
  void run_pass(std::span<PendingCommand> commands) override {
    for (PendingCommand& command : commands) {
      Client& client = *command.client;
      if (!client.may_run()) continue;
      Reply reply(&client.out, client.protocol);
      if (is(command, "quit")) {
        reply.ok();
        client.close_after_reply = true;
      } else if (is(command, "info") && client.authenticated) {
        reply.verbatim("txt", "# Persistence\r\nloading:1\r\nasync_loading:0\r\n");
      } else {
        reply.error("LOADING Redis is loading the dataset in memory");
      }
      command.state = PendingCommand::State::kDone;
    }
  }
  void client_closed(Client&, PendingCommand*) override {}

 private:
  static bool is(const PendingCommand& command, Bytes name) {
    const Bytes given = command.args[0];
    return given.size() == name.size() &&
           std::equal(given.begin(), given.end(), name.begin(), [](char a, char b) { return (a | 32) == b; });
  }
};

}  // namespace ebbtide

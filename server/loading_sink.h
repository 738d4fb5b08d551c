// Answers clients while the database is being opened.
#pragma once

#include "resp/client.h"
#include "resp/reply.h"

namespace ebbtide {

/// Every command gets Redis's -LOADING, but for QUIT.
class LoadingSink final : public CommandSink {
 public:
  void run_pass(std::span<PendingCommand> commands) override {
    for (PendingCommand& command : commands) {
      Client& client = *command.client;
      if (!client.may_run()) continue;
      Reply reply(&client.out, client.protocol);
      const Bytes name = command.args[0];
      const bool quit =
          name.size() == 4 && (name[0] | 32) == 'q' && (name[1] | 32) == 'u' && (name[2] | 32) == 'i' && (name[3] | 32) == 't';
      if (quit) {
        reply.ok();
        client.close_after_reply = true;
      } else {
        reply.error("LOADING Redis is loading the dataset in memory");
      }
      command.state = PendingCommand::State::kDone;
    }
  }
  void client_closed(Client&, PendingCommand*) override {}
};

}  // namespace ebbtide

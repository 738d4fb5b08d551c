// MONITOR: clients that receive every command that the server runs.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include <engine/types.h>

#include "dispatch/committed_command.h"
#include "dispatch/switches.h"
#include "resp/args.h"
#include "resp/client.h"
#include "resp/shared_texts.h"

namespace ebbtide {

/// Thread-safe.
class Monitors {
 public:
  explicit Monitors(Switches& switches) : switches_(switches) {}

  /// Shares and charges the text of long lines. Set once, before use.
  SharedTexts texts;

  /// Sends the client every command from now on, until remove(). Call it on the client's loop.
  void add(Client& client);
  void remove(std::uint64_t client_id);
  /// Sends all monitors a line that shows the command. Call it on the loop of `client`, which sent the command.
  void show(const Args& args, DatabaseId database, const Origin& client, std::uint64_t unix_micros);

 private:
  Switches& switches_;
  std::mutex mutex_;
  std::map<std::uint64_t, ClientLoop*> monitors_;  // guarded by mutex_
};

}  // namespace ebbtide

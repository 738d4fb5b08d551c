// The parts of a server that all its dispatchers share.
//
// Dispatch includes this file, and so do commands that need a part of the server directly. These commands are SCAN, deletes by
// range or stamp, those that use ranks of sorted sets, and those that show or change the server (INFO, PURGE.*, TREE.*, CLIENT
// ...). All other handlers include only Ctx, and reach the server through ServerControl.
#pragma once

#include <cstdint>
#include <memory>

#include <engine/db.h>

#include "dispatch/context.h"
#include "dispatch/observers.h"
#include "dispatch/script_cache.h"
#include "dispatch/server_control.h"

namespace ebbtide {

class BlockedClients;
class CommandTable;
class IndexCatalog;
class Intents;
class KeyLocks;
class KeyWaiters;
class Offload;
class PubSub;
class RankIndexes;
class ScanCursors;
class ServerStats;
class TuningBoard;

/// All members outlive the dispatchers and are thread-safe.
struct CommandEnv {
  Db* db = nullptr;  ///< null while the database is being opened
  ServerControl* control = nullptr;
  const CommandTable* table = nullptr;
  KeyLocks* locks = nullptr;
  Offload* offload = nullptr;
  ScanCursors* cursors = nullptr;
  ServerStats* stats = nullptr;
  PubSub* pubsub = nullptr;
  Observers* observers = nullptr;
  BlockedClients* blocked = nullptr;
  std::uint32_t databases = 16;
  MemoryAccount* memory = nullptr;  ///< charged with queued commands, watched keys and scripts
  Intents* intents = nullptr;
  KeyWaiters* key_waiters = nullptr;
  TuningBoard* tuning = nullptr;
  RankIndexes* ranks = nullptr;
  IndexCatalog* indexes = nullptr;  ///< null in tests without indexes
  std::shared_ptr<ScriptCache> scripts = std::make_shared<ScriptCache>();

  /// Returns engine time in ms; Unix time while the database is being opened.
  [[nodiscard]] Millis now() const { return db == nullptr ? control->unix_micros() / 1000 : db->now(); }
};

/// Returns the environment of an attempt of a handler.
inline CommandEnv& env_of(const Ctx& ctx) { return *ctx.env.env_; }

}  // namespace ebbtide

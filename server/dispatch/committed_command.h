// A committed command, as the observers of commands (observers.h) get it.
#pragma once

#include <engine/seeded_hash.h>
#include <engine/types.h>
#include <engine/write_batch.h>

#include "resp/args.h"
#include "resp/client.h"

namespace ebbtide {

struct Command;

/// The keys of a command that existed before it ran, as views of the command's engine keys. Dispatch looks them up only if
/// notifications of new keys or of key misses are on.
using PresentKeys = BytesSet;

/// The client that sent a command whose effects are delivered. The client may have disconnected.
struct Origin {
  Origin(const Client& client)  // NOLINT(google-explicit-constructor): a client is an origin
      : loop(client.loop), client_id(client.id), address(client.address), seen_seq(client.seen_seq) {}
  Origin(ClientLoop* its_loop, std::uint64_t id, Bytes its_address, SeqNum seq)
      : loop(its_loop), client_id(id), address(its_address), seen_seq(seq) {}

  ClientLoop* loop;  ///< the loop on whose thread the effects happen
  std::uint64_t client_id;
  Bytes address;    ///< points to memory that outlives this object
  SeqNum seen_seq;  ///< Client::seen_seq
};

struct CommittedCommand {
  const Command& command;
  const Args& args;
  DatabaseId database;  ///< the database in which the command ran
  const WriteBatch& batch;
  SeqNum seq;  ///< seq of the batch's last operation
  const PresentKeys& had;
  Millis time;  ///< engine time of the commit
};

}  // namespace ebbtide

// A command whose writes are committed, as observers of commands see it.
#pragma once

#include <unordered_set>

#include <engine/types.h>
#include <engine/write_batch.h>

#include "resp/args.h"

namespace ebbtide {

struct Command;

/// The keys of a command that existed before it: views into its engine keys. Dispatch looks them up only if events of new keys or
/// of misses are on.
using PresentKeys = std::unordered_set<Bytes>;

struct CommittedCommand {
  const Command& command;
  const Args& args;
  DatabaseId database;  ///< that it ran in
  const WriteBatch& batch;
  SeqNum seq;  ///< of the batch's last operation
  const PresentKeys& had;
  Millis time;  ///< engine time of the commit
};

}  // namespace ebbtide

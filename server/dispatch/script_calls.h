// The interface by which a script runs commands.
//
// A script runs as a command of a transaction (TransactionRun); outside MULTI the transaction has no other command. The handler
// of EVAL runs the script, and the script calls commands through this interface. Each call writes into the transaction's batch,
// and reads the writes of earlier commands. So all writes of a script are committed together, whatever the script replies. As in
// Redis, an error of the script undoes nothing. If an attempt cannot commit, because pages are missing or the attempt takes too
// long for a loop, it has no effect.
#pragma once

#include <span>

#include <engine/status.h>

#include "resp/args.h"
#include "resp/output_buffer.h"

namespace ebbtide {

struct ScriptCall {
  bool read_only = false;  ///< the script may not write
  int protocol = 2;        ///< RESP version of the reply
};

/// Belongs to one attempt of a script, and is used on the thread of that attempt.
class ScriptCalls {
 public:
  /// Runs a command and appends its reply, which may be an error, to `out`. Not OK: the attempt cannot continue, and the script's
  /// handler must return this status. `arguments` has at least one element.
  [[nodiscard]] virtual Status call(std::span<const Bytes> arguments, const ScriptCall& options, OutputBuffer* out) = 0;
  /// Sets `*allowed` to true if the user may run the command. kInvalidArgument: there is no such command.
  [[nodiscard]] virtual Status may_run(std::span<const Bytes> arguments, bool* allowed) = 0;
  /// Counts an error for the script's command. The handler calls this when the script replies with an error.
  virtual void note_error(Bytes text) = 0;
  /// Makes the attempt fail without a write. The handler calls this when SCRIPT KILL has ended the script.
  virtual void note_killed() = 0;

 protected:
  virtual ~ScriptCalls() = default;
};

}  // namespace ebbtide

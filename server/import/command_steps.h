// Runs the commands of an append-only file in steps, so that an interrupted import continues and no command runs twice.
//
// Each step is one transaction of the server: the commands, and a SET of a key of the import to the number of commands so far. So the
// server's data always has the effects of exactly as many commands as that key says, also after a crash of either side.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "import/connection.h"
#include "import/report.h"

namespace ebbtide {

/// Runs commands on one server. Not thread-safe.
class CommandSteps {
 public:
  /// Called after each step with the number of commands that have run, once the report has their errors.
  using OnStep = std::function<Status(std::uint64_t commands)>;

  /// `key`: the name of the import's key, in database 0. The arguments must outlive this object.
  CommandSteps(Connection& target, TransferReport& report, std::string key, OnStep on_step)
      : target_(target), report_(report), key_(std::move(key)), on_step_(std::move(on_step)) {}

  /// Begins an import: writes the key; no command has run.
  Status begin();
  /// Continues an import whose report has the errors of the first `reported` commands. kNotFound: the key is absent, so it is unknown
  /// which commands have run.
  Status resume(std::uint64_t reported);
  /// Takes the next command from the first of the file on, and runs a step if enough commands are waiting. Commands that have run
  /// before the interruption do not run again. `name`: the command's place, for the report. Commands that the server refuses are reported.
  /// kInvalidArgument: a SELECT names a database that the server does not have; kIoError: the server has run nothing of a step.
  Status add(std::vector<std::string> arguments, std::string name);
  /// Runs the commands that are waiting.
  Status flush();
  /// Removes the key. Call it when the import is complete.
  Status end();

 private:
  struct Command {
    std::vector<std::string> arguments;
    std::string name;
    bool refused = false;  // when it was queued
  };
  Status select(const std::string& database);
  Result<bool> run_step();
  Result<bool> receive_queued();
  void note(const ServerReply& replies);

  Connection& target_;
  TransferReport& report_;
  const std::string key_;
  const OnStep on_step_;
  std::uint64_t read_ = 0;  // commands so far
  std::uint64_t ran_ = 0;   // the first of them, which have run
  std::vector<Command> step_;
  std::size_t step_bytes_ = 0;
  std::string database_ = "0", step_database_ = "0";  // selected by the file: now, and before the step
  std::set<std::string> databases_;                   // that the server has
};

}  // namespace ebbtide

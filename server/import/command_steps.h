// Runs the commands of an append-only file in steps, so that an interrupted import can continue and no command runs twice.
//
// Each step is one transaction on the server: the commands, and a SET of the import's own key to the number of commands so far.
// So this key always says exactly how many commands have run, even after a crash of either side.
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
  /// CommandSteps calls this after each step with the number of commands that have run. The report has their errors by then.
  using OnStep = std::function<Status(std::uint64_t commands)>;

  /// `key`: the name of the import's own key, in database 0. The arguments must outlive this object.
  CommandSteps(Connection& target, TransferReport& report, std::string key, OnStep on_step)
      : target_(target), report_(report), key_(std::move(key)), on_step_(std::move(on_step)) {}

  /// Begins an import: sets the import's key to 0 commands.
  Status begin();
  /// Continues an import whose report has the errors of the first `reported` commands. kNotFound: the import's key is missing, so
  /// it is unknown which commands have run.
  Status resume(std::uint64_t reported);
  /// Takes the next command of the file, beginning with the first. Runs a step if enough commands are waiting. Commands that have
  /// already run before an interruption are skipped. `name`: the command's position in the file, for the report, which has the
  /// commands that the server refuses. kInvalidArgument: a SELECT names a database that the server does not have. kIoError: the
  /// server has run no command of a step.
  Status add(std::vector<std::string> arguments, std::string name);
  /// Runs the commands that are waiting.
  Status flush();
  /// Removes the import's key. Call it when the import is complete.
  Status end();

 private:
  struct Command {
    std::vector<std::string> arguments;
    std::string name;
    bool refused = false;  // the server refused to queue it
  };
  Status select(const std::string& database);
  Result<bool> run_step();
  Result<bool> receive_queued();
  void note(const ServerReply& replies);

  Connection& target_;
  TransferReport& report_;
  const std::string key_;
  const OnStep on_step_;
  std::uint64_t read_ = 0;  // commands taken so far
  std::uint64_t ran_ = 0;   // how many of them have run
  std::vector<Command> step_;
  std::size_t step_bytes_ = 0;
  // The database that the file has selected: now, and at the start of the step.
  std::string database_ = "0", step_database_ = "0";
  std::set<std::string> databases_;  // databases that the server is known to have
};

}  // namespace ebbtide

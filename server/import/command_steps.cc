#include "import/command_steps.h"

#include <array>
#include <charconv>

#include "store/numbers.h"

namespace ebbtide {
namespace {

// A server runs a transaction of up to 1,024 arguments and 1 MiB on its event loop; larger ones would leave the loop.
constexpr std::size_t kStepCommands = 256, kStepBytes = std::size_t{512} << 10;

constexpr Bytes kKeyDatabase = "0";

}  // namespace

Status CommandSteps::begin() {
  TRY(target_.require(std::array<Bytes, 2>{"SELECT", kKeyDatabase}).status());
  return target_.require(std::array<Bytes, 3>{"SET", key_, "0"}).status();
}

Status CommandSteps::resume(std::uint64_t reported) {
  TRY(target_.require(std::array<Bytes, 2>{"SELECT", kKeyDatabase}).status());
  TRY_ASSIGN(reply, target_.require(std::array<Bytes, 2>{"GET", key_}));
  const char* const end = reply.text.data() + reply.text.size();
  const auto [stop, error] = std::from_chars(reply.text.data(), end, ran_);
  if (error != std::errc() || stop != end) {
    return Status::not_found(target_.name() + " has lost the key " + printable(key_) +
                             ", so it is unknown which commands have run. Empty its databases, remove the file of --resume and "
                             "begin again");
  }
  if (ran_ > reported) report_.add_unseen(ran_ - reported);
  return Status::ok();
}

Status CommandSteps::add(std::vector<std::string> arguments, std::string name) {
  ++read_;
  if (arguments.size() == 2 && equal_ignoring_case(arguments[0], "select")) TRY(select(arguments[1]));
  if (read_ <= ran_) {
    step_database_ = database_;
    return Status::ok();
  }
  for (const std::string& argument : arguments) step_bytes_ += argument.size();
  step_.push_back({.arguments = std::move(arguments), .name = std::move(name)});
  return step_.size() < kStepCommands && step_bytes_ < kStepBytes ? Status::ok() : flush();
}

/// Stores which database the file selects. The server must have that database: if SELECT failed within a transaction, the
/// following commands would change another one.
Status CommandSteps::select(const std::string& database) {
  database_ = database;
  if (read_ <= ran_ || databases_.count(database) != 0) return Status::ok();
  TRY_ASSIGN(reply, target_.call(std::array<Bytes, 2>{"SELECT", database}));
  if (reply.is_error()) {
    return Status::invalid_argument("database " + database + " cannot be selected at " + target_.name() + ": " + reply.text +
                                    ". The configuration key `server.databases` sets their number.");
  }
  databases_.insert(database);
  return Status::ok();
}

Status CommandSteps::flush() {
  if (step_.empty()) return Status::ok();
  // If the server refuses to queue a command, the whole transaction fails. Then the step runs again without that command.
  for (bool ran = false; !ran;) {
    TRY_ASSIGN(done, run_step());
    ran = done;
  }
  ran_ = read_;
  step_.clear();
  step_bytes_ = 0;
  step_database_ = database_;
  return on_step_(ran_);
}

/// Returns false if the server has refused to queue a command, and so has run none.
Result<bool> CommandSteps::run_step() {
  // Waits for this reply before it sends more: if MULTI failed, the commands after it would run one by one.
  TRY(target_.require(std::array<Bytes, 1>{"MULTI"}).status());
  target_.send(std::array<Bytes, 2>{"SELECT", step_database_});
  for (const Command& command : step_) {
    if (!command.refused) target_.send(std::vector<Bytes>(command.arguments.begin(), command.arguments.end()));
  }
  const std::string position = std::to_string(read_);
  target_.send(std::array<Bytes, 2>{"SELECT", kKeyDatabase});
  target_.send(std::array<Bytes, 3>{"SET", key_, position});
  target_.send(std::array<Bytes, 1>{"EXEC"});
  TRY_ASSIGN(queued, receive_queued());
  TRY_ASSIGN(replies, target_.receive());
  if (!queued) return false;
  const ServerReply& last = replies.array.empty() ? replies : replies.array.back();
  if (replies.array.empty() || last.is_error()) {
    return Status::io_error(target_.name() + " has run no command from " + step_.front().name + " on: " + last.text +
                            ". Repeat this command to continue there");
  }
  note(replies);
  return true;
}

/// Receives the replies, the last of which is EXEC's. Returns false if the server has refused to queue a command of the file.
Result<bool> CommandSteps::receive_queued() {
  TRY_ASSIGN(before, target_.receive());
  bool all = true;
  for (Command& command : step_) {
    if (command.refused) continue;
    TRY_ASSIGN(reply, target_.receive());
    if (!reply.is_error()) continue;
    report_.add_other(command.name, reply.text);
    command.refused = true;
    all = false;
  }
  TRY_ASSIGN(after, target_.receive());
  TRY_ASSIGN(set, target_.receive());
  for (const ServerReply& own : {before, after, set}) {
    if (own.is_error())
      return Status::io_error(target_.name() + " refuses SELECT or SET of " + printable(key_) + ": " + own.text);
  }
  return all;
}

/// Reports the commands that failed: EXEC's reply has their errors.
void CommandSteps::note(const ServerReply& replies) {
  std::size_t next = 1;  // index in EXEC's reply, whose element 0 is SELECT's
  for (const Command& command : step_) {
    if (command.refused || next == replies.array.size()) continue;
    const ServerReply& reply = replies.array[next++];
    if (reply.is_error()) report_.add_other(command.name, reply.text);
  }
}

Status CommandSteps::end() {
  TRY(target_.require(std::array<Bytes, 2>{"SELECT", kKeyDatabase}).status());
  return target_.require(std::array<Bytes, 2>{"DEL", key_}).status();
}

}  // namespace ebbtide

#include "dispatch/session.h"

#include <algorithm>

#include "dispatch/table.h"
#include "resp/disposal.h"

namespace ebbtide {
namespace {

/// A prefix of CLIENT TRACKING is stored three times: here, and twice in TrackingTable. kPrefixBytes estimates the strings and
/// nodes there.
constexpr std::size_t kPrefixCopies = 3, kPrefixBytes = 320;

}  // namespace

SessionState::~SessionState() {
  if (observers != nullptr) observers->set_tracking(*client, Tracking{});
  if (monitored != nullptr) monitored->remove(client->id);
  if (subscriptions != nullptr && subscriptions->memory() >= kDisposedBytes) {
    // Frees the subscriptions on another thread, since they are large. No message can reach them: the client is closed.
    let_go(std::shared_ptr<ClientState>(std::move(subscriptions)), true);
  }
}

void make_session(Client& client) {
  auto state = std::make_unique<SessionState>();
  state->client = &client;
  client.state = std::move(state);
}

std::size_t SessionState::memory() const {
  std::size_t bytes = subscriptions == nullptr ? 0 : subscriptions->memory();
  for (const std::string& prefix : tracking.prefixes) bytes += kPrefixBytes + kPrefixCopies * prefix.size();
  return bytes;
}

void set_tracking(Client& client, Observers& observers, const Tracking& tracking) {
  SessionState& state = state_of(client);
  state.tracking = tracking;
  state.observers = tracking.on ? &observers : nullptr;
  state.session.modes &= static_cast<std::uint8_t>(~Session::kTracks);
  if (tracking.on) state.session.modes |= Session::kTracks;
  client.state_bytes = state.memory();
  observers.set_tracking(client, tracking);
}

Transaction& make_transaction(Client& client, MemoryAccount& memory) {
  auto& transaction = state_of(client).transaction;
  // A transaction that began before the database was open may have charged another account, and keeps it while it has a charge.
  const bool moves = transaction != nullptr && &transaction->memory != &memory && transaction->charged == 0;
  if (transaction == nullptr || moves) transaction = std::make_unique<Transaction>(memory);
  return *transaction;
}

Status check_debugging(const ServerControl& control, const Client* client) {
  using Debugging = ServerControl::Debugging;
  const Debugging who = control.debugging();
  const Bytes address = client == nullptr ? Bytes() : Bytes(client->address);
  const bool local = address.starts_with("127.") || address.starts_with("[::1]:") || address.starts_with("::1:") ||
                     address.starts_with("/");  // a client of the Unix socket
  if (who == Debugging::kYes || (who == Debugging::kLocal && local)) return Status::ok();
  return Status::invalid_argument(
      "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local "
      "connection, otherwise you need to set this option in the configuration file, and then restart the server.");
}

void end_transaction(Client& client) {
  if (Transaction* transaction = transaction_of(client)) transaction->end();
  session_of(client).modes &= static_cast<std::uint8_t>(~Session::kInTransaction);
}

void reset_session(Client& client) {
  SessionState& state = state_of(client);
  Session& session = state.session;
  end_transaction(client);
  if (state.observers != nullptr) set_tracking(client, *state.observers, Tracking{});
  if (state.monitored != nullptr) state.monitored->remove(client.id);
  state.monitored = nullptr;
  state.subscriptions.reset();
  client.subscriber = false;
  client.state_bytes = 0;
  const std::uint64_t commands = session.commands;
  // Like Redis, RESET keeps the library name and version.
  std::string library_name = std::move(session.library_name), library_version = std::move(session.library_version);
  // As in Redis, CLIENT REPLY SKIP before RESET suppresses the reply to RESET.
  const Session::Replies replies = session.replies == Session::Replies::kSkip ? Session::Replies::kSkip : Session::Replies::kOn;
  session = Session{};
  session.replies = replies;
  session.commands = commands;
  session.library_name = std::move(library_name);
  session.library_version = std::move(library_version);
  client.protocol = 2;
}

std::string describe_client(Client& client, std::int64_t now_ms, bool blocked) {
  const SessionState& state = state_of(client);
  const Session& session = state.session;
  const Tracking& tracking = state.tracking;
  const auto seconds_since = [now_ms](std::int64_t then) {
    return std::to_string(std::max<std::int64_t>(0, now_ms - then) / 1000);
  };
  std::string flags;
  const Transaction* transaction = transaction_of(client);
  const bool in_transaction = transaction != nullptr && transaction->open;
  if (state.monitored != nullptr) flags += 'O';
  if (state.monitored == nullptr && client.subscriber) flags += 'P';
  if (blocked) flags += 'b';
  if (in_transaction) flags += 'x';
  if (tracking.on) flags += 't';
  if (tracking.on && tracking.broadcast) flags += 'B';
  if (client.close_after_reply) flags += 'c';
  if (client.close_now) flags += 'A';
  if (session.no_evict) flags += 'e';
  if (session.no_touch) flags += 'T';
  if (flags.empty()) flags = "N";
  const std::string query_bytes = std::to_string(client.query_bytes());
  const OutputBuffer::Usage out = client.out.usage();
  const std::uint64_t queued_bytes = transaction == nullptr ? 0 : transaction->charged;
  const auto field = [](const char* name, std::uint64_t value) { return std::string(name) + std::to_string(value); };
  std::string line = "id=" + std::to_string(client.id) + " addr=" + client.address + " laddr=" + client.local_address;
  line += " fd=" + std::to_string(client.fd) + " name=" + session.name + " age=" + seconds_since(client.created_ms);
  line += " idle=" + seconds_since(client.last_command_ms) + " flags=" + flags + " db=" + std::to_string(session.database);
  line += " sub=" + std::to_string(session.channels) + " psub=" + std::to_string(session.patterns);
  line += " ssub=" + std::to_string(session.shard_channels) +
          " multi=" + (in_transaction ? std::to_string(transaction->queue.size()) : "-1") + " qbuf=" + query_bytes +
          field(" qbuf-free=", client.query_free_bytes()) + field(" argv-mem=", client.argument_bytes()) +
          field(" multi-mem=", queued_bytes) + field(" rbs=", out.first_capacity) + field(" rbp=", client.out.peak_memory());
  line += field(" obl=", out.first_waiting) + field(" oll=", out.more) + field(" omem=", out.more_bytes) +
          field(" tot-mem=", client.total_bytes() + state.memory() + queued_bytes);
  line += client.out.empty() ? " events=r cmd=" : " events=rw cmd=";
  line += session.last_command == nullptr ? "NULL" : session.last_command->full_name;
  line += " user=" + std::string(user_of(session)) + " redir=" + (tracking.on ? std::to_string(tracking.redirect) : "-1") +
          " resp=" + std::to_string(client.protocol);
  line += " lib-name=" + session.library_name + " lib-ver=" + session.library_version;
  return line;
}

bool is_valid_client_text(Bytes text) {
  return text.size() <= kMaxClientTextBytes && std::all_of(text.begin(), text.end(), [](char c) { return c >= '!' && c <= '~'; });
}

Status invalid_client_text(Bytes text, Bytes what) {
  if (text.size() > kMaxClientTextBytes) {
    return Status::invalid_argument("ERR " + std::string(what) + " cannot have more than " + std::to_string(kMaxClientTextBytes) +
                                    " bytes.");
  }
  return Status::invalid_argument("ERR " + std::string(what) + " cannot contain spaces, newlines or special characters.");
}

}  // namespace ebbtide

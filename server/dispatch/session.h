// The state of a connection between commands.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <engine/types.h>

#include "acl/users.h"
#include "dispatch/blocked_clients.h"
#include "dispatch/observers.h"
#include "dispatch/server_control.h"
#include "dispatch/transaction.h"
#include "resp/client.h"

namespace ebbtide {

struct Command;

/// Belongs to its client's loop thread. A command that runs on another thread gets a copy of the session.
struct Session {
  /// The states of CLIENT REPLY.
  enum class Replies : std::uint8_t { kOn, kOff, kSkipNext, kSkip };

  /// Modes in which dispatch makes more checks before each command; 0 for nearly all connections.
  enum Modes : std::uint8_t {
    kInTransaction = 1,  ///< MULTI was called
    kSubscribed = 2,     ///< the client has subscribed to a channel or a pattern
    kTracks = 4,         ///< CLIENT TRACKING ON
    kPaused = 8,         ///< CLIENT PAUSE delays its next command
    kChecked = 16,       ///< the user may not run every command, or `rights` is not known yet
    kInCheck = 32,       ///< the rights for the client's next command are being checked off the loop (rights_check.h)
  };

  DatabaseId database = 0;
  std::uint8_t modes = kChecked;
  Replies replies = Replies::kOn;
  /// The current command has written push messages, which CLIENT REPLY does not suppress.
  bool wrote_pushes = false;
  std::uint32_t channels = 0, patterns = 0, shard_channels = 0;  ///< how many subscriptions of each kind there are
  bool no_evict = false;
  bool no_touch = false;
  const Command* last_command = nullptr;  ///< the latest command that ran, for CLIENT LIST
  std::string name;
  std::string user;  ///< the user as which AUTH or HELLO has authenticated the client; "": not authenticated yet, so "default"
  std::shared_ptr<const User> rights;  ///< rights of `user`; null: dispatch looks them up before the next command (permissions.h)
  std::string library_name, library_version;
  std::uint64_t commands = 0;  ///< number of commands that have run
};

/// Returns true if the reply to the current command is suppressed.
inline bool is_quiet(const Session& session) {
  return session.replies == Session::Replies::kOff || session.replies == Session::Replies::kSkip;
}

inline Bytes user_of(const Session& session) { return session.user.empty() ? Bytes("default") : Bytes(session.user); }

/// The session of a client, and the client's other state.
struct SessionState final : ClientState {
  Session session;
  Client* client = nullptr;                  ///< the client whose state this is
  std::unique_ptr<Transaction> transaction;  ///< set from the first MULTI or WATCH on
  Tracking tracking;
  /// Invalidations that wait until a reply is written; set while keep_invalidations() is in effect.
  std::optional<std::vector<Invalidation>> kept_invalidations;
  std::optional<BlockedClients::Wait> paused;  ///< set while mode Session::kPaused is set
  Observers* observers = nullptr;              ///< set while the client has CLIENT TRACKING on
  Monitors* monitored = nullptr;               ///< set after MONITOR
  ~SessionState() override;
  /// Returns the memory of the client's subscriptions and prefixes, in bytes. Transactions are charged separately.
  [[nodiscard]] std::size_t memory() const override;
  std::unique_ptr<ClientState> subscriptions;  ///< set from the first SUBSCRIBE on; its destructor ends the subscriptions
};

void make_session(Client& client);
/// Starts or ends CLIENT TRACKING. `observers` must outlive the client. Loop thread only.
void set_tracking(Client& client, Observers& observers, const Tracking& tracking);

/// Returns the client's session state. The first call creates it. Loop thread only.
inline SessionState& state_of(Client& client) {
  if (client.state == nullptr) [[unlikely]]
    make_session(client);
  return static_cast<SessionState&>(*client.state);
}
inline Session& session_of(Client& client) { return state_of(client).session; }
/// Returns the client's settings of CLIENT TRACKING.
inline Tracking& tracking_of(Client& client) { return state_of(client).tracking; }

/// Returns the client's transaction; null if it never had one. Loop thread only.
inline Transaction* transaction_of(Client& client) {
  return client.state == nullptr ? nullptr : static_cast<SessionState&>(*client.state).transaction.get();
}
/// Returns the client's transaction. The first call creates it. Loop thread only.
Transaction& make_transaction(Client& client, MemoryAccount& memory);
/// Returns OK if the client may run DEBUG, else Redis's error. A null client, as off the loop, may not.
Status check_debugging(const ServerControl& control, const Client* client);
/// Frees the queued commands and the watched keys, and leaves MULTI.
void end_transaction(Client& client);

/// Makes the session like that of a new connection, for RESET. The caller resets the authentication.
void reset_session(Client& client);

/// Returns the line of CLIENT LIST and CLIENT INFO, without a newline, with Redis's fields in Redis's order. `blocked`: a command
/// of the client waits for an event, not for the disk. Loop thread only.
std::string describe_client(Client& client, std::int64_t now_ms, bool blocked);

/// The most bytes in the name of a client or library. Each connection stores three of these texts, which are not charged.
inline constexpr std::size_t kMaxClientTextBytes = 1024;
/// Returns true if the text may be the name of a client or library: printable ASCII without spaces, and not too long.
bool is_valid_client_text(Bytes text);
/// Returns the error for a text that is_valid_client_text() rejects. `what` says in the error which text it is.
Status invalid_client_text(Bytes text, Bytes what);

}  // namespace ebbtide

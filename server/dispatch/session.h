// The state of a connection between commands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <engine/types.h>

#include "dispatch/blocked_clients.h"
#include "dispatch/observers.h"
#include "dispatch/server_control.h"
#include "dispatch/transaction.h"
#include "resp/client.h"

namespace ebbtide {

struct Command;

/// Belongs to its client's loop thread. Copyable: a command that runs on another thread sees a copy.
struct Session {
  /// CLIENT REPLY.
  enum class Replies : std::uint8_t { kOn, kOff, kSkipNext, kSkip };

  /// Modes in which dispatch takes the slower path before a command; 0 for nearly all connections.
  enum Modes : std::uint8_t {
    kInTransaction = 1,  ///< after MULTI
    kSubscribed = 2,     ///< to a channel or a pattern
    kTracks = 4,         ///< CLIENT TRACKING ON
    kPaused = 8,         ///< CLIENT PAUSE delays its next command
  };

  DatabaseId database = 0;
  std::uint8_t modes = 0;
  Replies replies = Replies::kOn;
  /// The current command has written pushes, which CLIENT REPLY does not suppress.
  bool wrote_pushes = false;
  std::uint32_t channels = 0, patterns = 0, shard_channels = 0;  ///< subscribed to
  bool no_evict = false;
  bool no_touch = false;
  const Command* last_command = nullptr;  ///< the latest command that ran, for CLIENT LIST
  std::string name;
  std::string user;  ///< as whom AUTH or HELLO has authenticated; "": not yet, so "default"
  std::string library_name, library_version;
  std::uint64_t commands = 0;  ///< run so far
};

/// True if the reply to the current command is suppressed.
inline bool is_quiet(const Session& session) {
  return session.replies == Session::Replies::kOff || session.replies == Session::Replies::kSkip;
}

inline Bytes user_of(const Session& session) { return session.user.empty() ? Bytes("default") : Bytes(session.user); }

/// The session of a client, and its other state.
struct SessionState final : ClientState {
  Session session;
  Client* client = nullptr;                  ///< the client itself
  std::unique_ptr<Transaction> transaction;  ///< from the first MULTI or WATCH on
  Tracking tracking;
  std::optional<std::vector<Invalidation>> kept_invalidations;  ///< set while they are kept (keep_invalidations)
  std::optional<BlockedClients::Wait> paused;                   ///< set while Session::kPaused is
  Observers* observers = nullptr;                               ///< set while it tracks
  Monitors* monitored = nullptr;                                ///< set after MONITOR
  ~SessionState() override;
  /// Bytes of the subscriptions and prefixes that the client's commands made it keep. Transactions are charged separately.
  [[nodiscard]] std::size_t memory() const override;
  std::unique_ptr<ClientState> subscriptions;  ///< from the first SUBSCRIBE on; its destructor ends them
};

void make_session(Client& client);
/// Starts or ends tracking. `observers` outlives the client. Loop thread only.
void set_tracking(Client& client, Observers& observers, const Tracking& tracking);

/// The client's session state, made on first use. Loop thread only.
inline SessionState& state_of(Client& client) {
  if (client.state == nullptr) [[unlikely]]
    make_session(client);
  return static_cast<SessionState&>(*client.state);
}
inline Session& session_of(Client& client) { return state_of(client).session; }
/// The client's settings of CLIENT TRACKING.
inline Tracking& tracking_of(Client& client) { return state_of(client).tracking; }

/// The client's transaction, or null if it never had one. Loop thread only.
inline Transaction* transaction_of(Client& client) {
  return client.state == nullptr ? nullptr : static_cast<SessionState&>(*client.state).transaction.get();
}
/// The same, made on first use.
Transaction& make_transaction(Client& client, MemoryAccount& memory);
/// True if the client may run DEBUG. A null client may not.
Status check_debugging(const ServerControl& control, const Client* client);
/// Forgets the queued commands and the watched keys, and leaves MULTI.
void end_transaction(Client& client);

/// RESET: makes everything as in a new connection, except for the authentication, which the caller resets.
void reset_session(Client& client);

/// The line of CLIENT LIST and CLIENT INFO, without a newline, with Redis's fields in Redis's order. `blocked`: a command of the
/// client waits for an event, not for the disk. Loop thread only.
std::string describe_client(Client& client, std::int64_t now_ms, bool blocked);

/// True if the text may be the name of a client or library: printable ASCII without spaces.
bool is_valid_client_text(Bytes text);

}  // namespace ebbtide

// The interface by which handlers reach the server. It has everything except keys and the connection.
//
// server.cc implements it, and a fake in tests. Loop threads call the methods; offload threads do so where a comment says it. The
// methods are thread-safe, and block only where a comment says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/result.h>
#include <engine/status.h>
#include <engine/types.h>

#include "acl/users.h"

namespace ebbtide {

/// Facts for INFO and HELLO that neither dispatch nor the engine knows. Sizes are in bytes, times in seconds.
struct ServerInfo {
  std::string version;  ///< version of this server, "0.1.0"
  std::string run_id;   ///< 40 hex digits, new at each start
  std::string executable;
  std::string config_file;
  std::string os;            ///< the system in the form of uname: "Linux 6.1.0 x86_64"
  std::string compiler;      ///< "12.2.0"
  std::string multiplexing;  ///< "epoll"
  std::uint64_t process_id = 0;
  std::uint16_t port = 0;
  std::uint64_t start_unix_micros = 0;
  std::uint64_t uptime_micros = 0;  ///< by the monotonic clock, which a change of the system's time does not affect
  std::uint32_t loops = 1;
  std::uint32_t databases = 16;
  std::uint64_t max_clients = 0;
  // clients
  std::uint64_t connected_clients = 0;
  std::uint64_t blocked_clients = 0;  ///< clients in a blocking command or under CLIENT PAUSE, not those that wait for the disk
  std::uint64_t waiting_clients = 0;  ///< clients that wait for the disk or an offload thread
  std::uint64_t max_input_buffer = 0, max_output_buffer = 0;
  // stats
  std::uint64_t connections_received = 0, connections_rejected = 0;
  std::uint64_t net_input_bytes = 0, net_output_bytes = 0;
  std::uint64_t net_reads = 0, net_writes = 0;  ///< number of system calls
  std::uint64_t query_buffer_limit_disconnections = 0, output_buffer_limit_disconnections = 0;
  std::uint64_t acl_access_denied_auth = 0;
  std::uint64_t acl_access_denied_cmd = 0, acl_access_denied_key = 0, acl_access_denied_channel = 0;
  // While the database is being opened: bytes of the log that is being replayed.
  std::uint64_t loading_total_bytes = 0, loading_loaded_bytes = 0;
  /// Means of the last 1.6 s; network rates in bytes.
  double commands_per_second = 0, net_input_per_second = 0, net_output_per_second = 0;
  // memory
  std::string allocator;  ///< "mimalloc-2.0.9"
  std::uint64_t resident_bytes = 0, peak_resident_bytes = 0, clients_bytes = 0, system_memory = 0;
  // cpu, in seconds
  double cpu_sys = 0, cpu_user = 0, cpu_sys_children = 0, cpu_user_children = 0;
};

struct ShutdownRequest {
  bool save = false, no_save = false;  ///< accepted for compatibility, without effect: the log already has every write
  bool now = false, force = false;
};

/// The result of verifying the newest backup, by reading all of it.
enum class BackupCheck : std::uint8_t { kNone, kRunning, kOk, kDamaged };
struct BackupCheckState {
  BackupCheck result = BackupCheck::kNone;
  std::uint64_t last_ok_unix_seconds = 0;  ///< when a backup last passed its verification; 0: none has since the start
  std::string pruning_held;  ///< why older backups that are due for removal are kept; "": nothing prevents their removal
};

/// The state of backups (SAVE and BGSAVE).
struct SaveState {
  std::uint64_t last_unix_seconds = 0;  ///< time of the last successful backup; without one, of the server's start
  bool last_ok = true;
  std::int64_t last_took_seconds = -1;     ///< -1: no backup since the start
  std::uint64_t running_since_micros = 0;  ///< Unix time; 0: no backup is under way
  BackupCheckState check = {};
  std::uint64_t last_damaged = 0;  ///< quarantined tables in the last successful backup
  /// The last successful backup has all operations up to this seq. Without a backup: the seq at the start.
  SeqNum last_seq = 0;
};

/// Selects the clients that CLIENT LIST shows or CLIENT KILL closes. A field that is empty or 0 selects all clients.
struct ClientFilter {
  std::vector<std::uint64_t> ids;
  std::string addr, laddr, user, type;
  std::uint64_t except_id = 0;
};

class ServerControl {
 public:
  virtual ~ServerControl() = default;

  // --- clocks, for uses where engine time is not suitable
  /// Unix time in microseconds, for TIME.
  [[nodiscard]] virtual std::uint64_t unix_micros() const = 0;
  /// A monotonic clock in nanoseconds, for durations.
  [[nodiscard]] virtual std::uint64_t mono_nanos() const = 0;

  // --- shutdown
  /// Begins to shut down. On success the client gets no reply; otherwise the error says why.
  virtual Status shutdown(const ShutdownRequest& request) = 0;
  /// Stops a shutdown. Returns kNotFound if no shutdown that can be stopped is under way.
  virtual Status abort_shutdown() = 0;

  // --- configuration. Names are dotted YAML keys or Redis's names, in any case.
  /// Appends the name and value of each parameter that matches a glob pattern, each parameter once. The name has the form that
  /// the pattern matched: Redis's name, or the YAML key.
  virtual void config_get(std::span<const Bytes> patterns, std::vector<std::pair<std::string, std::string>>* items) const = 0;
  /// Sets all items or none. On error the message is the whole reply after '-', as Redis words it: "ERR Unknown option or number
  /// of arguments for CONFIG SET - 'x'", or "ERR CONFIG SET failed (possibly related to argument 'x') - why". May block, so only
  /// offload threads call it.
  virtual Status config_set(std::span<const std::pair<Bytes, Bytes>> items) = 0;
  /// Rewrites the configuration file. Errors have the form of config_set(): "ERR The server is running without a config file".
  /// Only offload threads call it.
  virtual Status config_rewrite() = 0;

  // --- backups
  /// Claims the right to make a backup; returns false if one is under way. A caller that gets true must call save().
  virtual bool begin_save() = 0;
  /// Makes the backup. Errors are returned and logged. May take long, so only offload threads call it.
  virtual Status save() = 0;
  [[nodiscard]] virtual SaveState save_state() const = 0;

  // --- maintenance by hand
  /// The clients that may run DEBUG.
  enum class Debugging : std::uint8_t { kNo, kLocal, kYes };
  [[nodiscard]] virtual Debugging debugging() const = 0;
  /// Writes a line to the server's log.
  virtual void log_message(const std::string& text) = 0;
  /// Writes a line about a change of settings to the server's log, at a lower level than log_message().
  virtual void log_change(const std::string& text) = 0;
  /// Stops compactions until resume_compactions(), or for `ms` (0: no limit). After several calls, the latest limit applies.
  virtual void pause_compactions(std::uint64_t ms) = 0;
  virtual void resume_compactions() = 0;
  /// Blocks the calling thread, for DEBUG SLEEP.
  virtual void sleep_ms(std::uint64_t ms) = 0;

  // --- authentication
  /// Returns true if a new connection, as user "default", has to authenticate.
  [[nodiscard]] virtual bool password_required() const = 0;
  /// Returns the current users; never null.
  [[nodiscard]] virtual std::shared_ptr<const Users> users() const = 0;
  /// Applies rules to a user, for ACL SETUSER; creates the user if it is missing. When this returns, the rules apply to all of
  /// the user's connections. It closes connections with a subscription to which the user has no right any more. On error the
  /// message is the whole reply after '-', and nothing has changed. Only offload threads call set_user(), delete_users(),
  /// load_users() and save_users().
  virtual Status set_user(Bytes name, std::span<const Bytes> rules, std::uint64_t self_id) = 0;
  /// Removes users, for ACL DELUSER, and closes their connections. Returns how many of the users existed.
  virtual Result<std::uint64_t> delete_users(std::span<const Bytes> names, std::uint64_t self_id) = 0;
  /// Reads the file of users again. Closes the connections of users that have changed; that of the calling client only after its
  /// reply. On error the message is the whole reply after '-', and nothing has changed.
  virtual Status load_users(std::uint64_t self_id) = 0;
  /// Writes the users to their file, which is readable by its owner only. Errors have the form of load_users().
  virtual Status save_users() = 0;
  /// Counts and logs a command that its user's rights do not allow. `address` is Client::address.
  virtual void access_denied(AclDenial denial, Bytes address, Bytes user, Bytes command) = 0;
  /// Returns `bits` random bits from the system as hexadecimal digits, for ACL GENPASS.
  [[nodiscard]] virtual std::string random_secret(std::size_t bits) = 0;
  /// Counts and logs a failed AUTH or HELLO. `network` and `address` are those of Client.
  virtual void authentication_failed(Bytes network, Bytes address, Bytes user) = 0;
  /// Returns how many ms an AUTH or HELLO from `network` is delayed because of earlier failures from that network; 0 without a
  /// delay.
  [[nodiscard]] virtual std::uint32_t authentication_delay_ms(Bytes network) = 0;

  // --- facts
  [[nodiscard]] virtual ServerInfo info() const = 0;
  /// Returns the number of databases: SELECT takes 0 to databases() - 1.
  [[nodiscard]] virtual std::uint32_t databases() const = 0;
  virtual void reset_stats() = 0;

  // --- clients
  /// Returns true if a client with this id is connected.
  [[nodiscard]] virtual bool has_client(std::uint64_t id) const = 0;
  /// Calls `add` with the lines of describe_client() (session.h), one per client, each with a newline, ordered by id. Each call
  /// gets a few lines, since other clients wait while a loop makes lines. Returns the first error of `add`. May wait for other
  /// loops, so only offload threads call it.
  virtual Status client_list(const ClientFilter& filter, const std::function<Status(std::string lines)>& add) = 0;
  /// Closes the matching clients and returns their number. The calling client, if it matches, is closed after its reply. Only
  /// offload threads call it.
  virtual std::uint64_t kill_clients(const ClientFilter& filter, std::uint64_t self_id) = 0;
};

}  // namespace ebbtide

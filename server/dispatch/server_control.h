// What commands ask of the server around them: everything that is neither a key nor the connection at hand.
//
// Implemented by server.cc, and by a stand-in in tests. Calls come from loop threads, and from offload threads where said so;
// implementations are thread-safe. None may block, unless said otherwise.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/status.h>
#include <engine/types.h>

namespace ebbtide {

/// What INFO and HELLO print that dispatch and the engine do not know. Sizes in bytes, times in seconds.
struct ServerInfo {
  std::string version;  ///< of this server, "0.1.0"
  std::string run_id;   ///< 40 hex digits, new at each start
  std::string executable;
  std::string config_file;
  std::string os;            ///< as uname: "Linux 6.1.0 x86_64"
  std::string compiler;      ///< "12.2.0"
  std::string multiplexing;  ///< "epoll"
  std::uint64_t process_id = 0;
  std::uint16_t port = 0;
  std::uint64_t start_unix_micros = 0;
  std::uint32_t loops = 1;
  std::uint32_t databases = 16;
  std::uint64_t max_clients = 0;
  // clients
  std::uint64_t connected_clients = 0;
  std::uint64_t blocked_clients = 0;  ///< in a blocking command; not those that wait for the disk
  std::uint64_t waiting_clients = 0;  ///< that wait for the disk or an offload thread
  std::uint64_t max_input_buffer = 0, max_output_buffer = 0;
  // stats
  std::uint64_t connections_received = 0, connections_rejected = 0;
  std::uint64_t net_input_bytes = 0, net_output_bytes = 0;
  std::uint64_t net_reads = 0, net_writes = 0;  ///< system calls
  std::uint64_t query_buffer_limit_disconnections = 0, output_buffer_limit_disconnections = 0;
  std::uint64_t acl_access_denied_auth = 0;
  // while the database is being opened: of the log that is replayed
  std::uint64_t loading_total_bytes = 0, loading_loaded_bytes = 0;
  double commands_per_second = 0, net_input_per_second = 0, net_output_per_second = 0;  ///< over the last 1.6 s; bytes
  // memory
  std::string allocator;  ///< "mimalloc-2.0.9"
  std::uint64_t resident_bytes = 0, peak_resident_bytes = 0, clients_bytes = 0, system_memory = 0;
  // cpu
  double cpu_sys = 0, cpu_user = 0, cpu_sys_children = 0, cpu_user_children = 0;
};

struct ShutdownRequest {
  bool save = false, no_save = false;  ///< accepted for Redis's sake: the log always has everything
  bool now = false, force = false;
};

/// What became of reading the newest backup as a whole.
enum class BackupCheck : std::uint8_t { kNone, kRunning, kOk, kDamaged };
struct BackupCheckState {
  BackupCheck result = BackupCheck::kNone;
  std::uint64_t last_ok_unix_seconds = 0;  ///< when a backup was last found good; 0 = not since the start
  std::string pruning_held;                ///< why older backups stay that would go; "" = nothing keeps them
};

/// Of SAVE and BGSAVE.
struct SaveState {
  std::uint64_t last_unix_seconds = 0;  ///< of the last one that succeeded; of the server's start, if there is none
  bool last_ok = true;
  std::int64_t last_took_seconds = -1;     ///< -1: none since the start
  std::uint64_t running_since_micros = 0;  ///< Unix time; 0: none is under way
  BackupCheckState check = {};
  std::uint64_t last_damaged = 0;  ///< tables of the last one that succeeded that are quarantined in it
  SeqNum last_seq = 0;             ///< what the last one that succeeded has, at least; of the start, if there is none
};

/// Which clients CLIENT LIST shows or CLIENT KILL ends. Empty or 0: any.
struct ClientFilter {
  std::vector<std::uint64_t> ids;
  std::string addr, laddr, user, type;
  std::uint64_t except_id = 0;
};

class ServerControl {
 public:
  virtual ~ServerControl() = default;

  // --- time, for what engine time does not serve
  /// Unix time in microseconds, for TIME.
  [[nodiscard]] virtual std::uint64_t unix_micros() const = 0;
  /// A monotonic clock in nanoseconds, for durations of commands.
  [[nodiscard]] virtual std::uint64_t mono_nanos() const = 0;

  // --- life
  /// Begins to shut down; the asking client gets no reply on success, an error with the reason otherwise.
  virtual Status shutdown(const ShutdownRequest& request) = 0;
  /// kNotFound if no shutdown is under way that could be stopped.
  virtual Status abort_shutdown() = 0;

  // --- configuration. Names are dotted YAML keys or Redis's; case-insensitive.
  /// Name and value of each parameter that matches one of the glob patterns, without repeats, each name as it was asked for
  /// (Redis's name if the pattern met that one). Appends.
  virtual void config_get(std::span<const Bytes> patterns, std::vector<std::pair<std::string, std::string>>* items) const = 0;
  /// All or none. On error the message is the whole reply after '-', as Redis words it:
  /// "ERR Unknown option or number of arguments for CONFIG SET - 'x'", "ERR CONFIG SET failed (possibly related to argument 'x')
  /// - why". From offload threads only: may wait.
  virtual Status config_set(std::span<const std::pair<Bytes, Bytes>> items) = 0;
  /// The same convention: "ERR The server is running without a config file". From offload threads only: writes a file.
  virtual Status config_rewrite() = 0;

  // --- backups
  /// Claims the one place for a backup under way; false if it is taken. Whoever gets it calls save().
  virtual bool begin_save() = 0;
  /// Makes the backup; what goes wrong is logged, too. From offload threads only: may take long.
  virtual Status save() = 0;
  [[nodiscard]] virtual SaveState save_state() const = 0;

  // --- by hand
  /// Who may run DEBUG.
  enum class Debugging : std::uint8_t { kNo, kLocal, kYes };
  [[nodiscard]] virtual Debugging debugging() const = 0;
  /// A line for the server's log.
  virtual void log_message(const std::string& text) = 0;
  /// Compactions stop, until resume_compactions() or for `ms` (0: no limit); again: for the time named last.
  virtual void pause_compactions(std::uint64_t ms) = 0;
  virtual void resume_compactions() = 0;
  /// DEBUG SLEEP: blocks the caller.
  virtual void sleep_ms(std::uint64_t ms) = 0;

  // --- secrets
  /// Whether a new connection, which is of user "default", has to authenticate.
  [[nodiscard]] virtual bool password_required() const = 0;
  /// Compared in constant time. A user without a password ("default", as long as nobody gives it one) accepts any.
  [[nodiscard]] virtual bool check_password(Bytes user, Bytes password) const = 0;
  /// A line for each user as ACL LIST shows it, "user NAME ...", by name.
  [[nodiscard]] virtual std::vector<std::string> user_lines() const = 0;
  /// Reads the file of users again and closes the connections of those that have changed, one that asks after its reply. On error
  /// the message is the whole reply after '-', and nothing has changed. From offload threads only.
  virtual Status load_users(std::uint64_t self_id) = 0;
  /// So many bits from the system's random generator, as hexadecimal digits, for ACL GENPASS.
  [[nodiscard]] virtual std::string random_secret(std::size_t bits) = 0;
  /// Counts and logs a failed AUTH or HELLO. `network` and `address` as Client has them.
  virtual void authentication_failed(Bytes network, Bytes address, Bytes user) = 0;
  /// How long an AUTH or HELLO from there waits before it is judged, since others from there have failed; 0 for most.
  [[nodiscard]] virtual std::uint32_t authentication_delay_ms(Bytes network) = 0;

  // --- knowing
  [[nodiscard]] virtual ServerInfo info() const = 0;
  /// How many databases there are: SELECT takes 0 to databases() - 1.
  [[nodiscard]] virtual std::uint32_t databases() const = 0;
  virtual void reset_stats() = 0;

  // --- clients
  /// Whether a client with this id is connected.
  [[nodiscard]] virtual bool has_client(std::uint64_t id) const = 0;
  /// One line per client as describe_client (session.h) makes it, newline at each end, ordered by id. From offload threads only:
  /// may wait for other loops.
  [[nodiscard]] virtual std::string client_list(const ClientFilter& filter) = 0;
  /// Closes the clients that match and tells how many; a client that kills itself is closed after its reply. From offload threads
  /// only.
  virtual std::uint64_t kill_clients(const ClientFilter& filter, std::uint64_t self_id) = 0;
};

}  // namespace ebbtide

// The configuration: the settings from YAML file, environment and command line as one value, and the table of all keys.
//
// The table config_keys() has the type, range, meaning and Redis name of each key. It also has functions that read and write the
// key in a Config. The loader, CONFIG GET, SET and REWRITE and the check of config/ebbtide.yaml use the table. It has only keys
// with an effect. Keys of a tree exist twice: under `tree.` for every database, and under `databases.<n>.` for one database.
//
// Precedence: command line, then environment (EBBTIDE_A__B__C), then file, then default.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/auto_tuner.h>
#include <engine/options.h>
#include <engine/result.h>
#include "acl/users.h"
#include "tls/tls_context.h"

namespace ebbtide {

/// The clients that may run DEBUG.
enum class DebugCommands : std::uint8_t { kNo, kLocal, kYes };
/// A threshold, in microseconds, that no command reaches.
inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

/// Limits of the bytes that wait to be sent to a client of one class. The server closes the client when they exceed `hard`, or
/// when they have exceeded `soft` for `soft_ms`; 0 = no limit.
struct OutputBufferLimits {
  std::uint64_t hard = 0, soft = 0, soft_ms = 60'000;
};

/// All settings. Sizes are in bytes, times in ms. 0 stands for "auto" where a key allows auto.
struct Config {
  // The section `server`.
  std::vector<std::string> bind = {"127.0.0.1", "::1"};
  std::uint64_t port = 6379;
  std::string unixsocket;           ///< path of the Unix socket; "" = none
  unsigned unixsocket_mode = 0700;  ///< file mode of the Unix socket
  std::uint64_t threads = 0;        ///< event loops; 0 = auto
  std::uint64_t max_clients = 10'000;
  std::uint64_t tcp_backlog = 511;
  std::string password;
  std::string password_file;  ///< "" = none
  std::string file_password;  ///< content of password_file when the configuration was loaded
  std::string users_file;     ///< "" = none
  Users file_users;           ///< content of users_file when the configuration was loaded
  AclCatalogPtr commands;     ///< commands that rules of users can name; not a setting; null = none
  std::uint64_t acl_log_max_len = 128;
  std::uint64_t tls_port = 0;  ///< 0 = off
  TlsSettings tls;
  bool protected_mode = true;
  bool core_dumps = false;
  bool protected_configs = false;
  std::string backup_dir = "auto";
  std::uint64_t backup_keep = 3;
  // The sections `storage` and `tree`. memory_budget is 0 (auto) until memory_budget_of() resolves it.
  Settings engine = default_engine();
  // The section `limits`.
  std::uint64_t timeout_ms = 0;
  std::uint64_t tcp_keepalive_ms = 300'000;
  std::uint64_t slowlog_slower_than_us = 10'000;  ///< kNever: no command is logged
  std::uint64_t latency_threshold_ms = 0;         ///< 0: no samples
  DebugCommands debug_commands = DebugCommands::kNo;
  std::uint64_t slowlog_max_len = 128;
  std::vector<std::string> latency_percentiles = {"50", "99", "99.9"};  ///< numbers from 0 to 100
  /// Returns latency_percentiles as numbers.
  [[nodiscard]] std::vector<double> percentiles() const;
  bool slowlog_arguments = false;
  std::string notify_keyspace_events;  ///< letters as Redis's; "" = none
  std::uint64_t authentication_timeout_ms = 10'000;
  std::uint64_t unauthenticated_clients = 128;
  std::uint64_t client_query_buffer_limit = std::uint64_t{64} << 20;
  std::uint64_t proto_max_bulk_len = std::uint64_t{512} << 20;
  OutputBufferLimits output_buffer = {.hard = std::uint64_t{256} << 20, .soft = std::uint64_t{64} << 20};
  OutputBufferLimits pubsub_output_buffer = {.hard = std::uint64_t{32} << 20, .soft = std::uint64_t{8} << 20};
  /// Accepted, without effect.
  OutputBufferLimits replica_output_buffer = {.hard = std::uint64_t{256} << 20, .soft = std::uint64_t{64} << 20};
  // The section `tuning`.
  TuningMode tuning_auto = TuningMode::kOff;
  double tuning_rho = 0.5;
  std::uint64_t tuning_window_ms = 60'000;
  std::vector<std::string> tuning_expected_workload;  ///< four numbers as texts, or none
  DeviceCosts tuning_device;
  /// Returns tuning_expected_workload as shares; nullopt if it is not set.
  [[nodiscard]] std::optional<OperationFigures> expected_workload() const;
  // The sections `metrics` and `log`.
  std::string metrics_bind = "127.0.0.1";
  std::uint64_t metrics_port = 9736;  ///< 0 = off
  bool console = true;
  bool metrics_tls = false;              ///< HTTPS with the certificate of `tls`
  std::string metrics_user = "ebbtide";  ///< user name of HTTP's basic authentication
  std::string metrics_password_file;     ///< "" = no authentication
  std::string log_level = "info";
  std::string log_file;             ///< "" = standard output
  std::string log_format = "text";  ///< "text" or "json"

  std::string file;  ///< the configuration file; "" = none

  /// Returns the password in effect; "" = none.
  [[nodiscard]] const std::string& secret() const { return password.empty() ? file_password : password; }
  static Settings default_engine();
};

/// Reads a secret from a file, without a newline at its end. kInvalidArgument: the file cannot be read, or is empty.
Result<std::string> read_secret(const std::string& path);
/// Reads users_file, whose users may take `most_bytes` of memory. If it is not set, returns the user "default" only.
/// kInvalidArgument: the file cannot be read, Users::parse() refuses it, or it conflicts with the configured password.
Result<Users> read_users(const Config& config, std::uint64_t most_bytes);
/// Returns the memory budget: storage.memory_budget, with `auto` resolved for a machine of `memory` bytes.
std::uint64_t memory_budget_of(const Config& config, std::uint64_t memory);

/// Returns the backup directory: backup_dir with `auto` resolved.
std::string backup_directory(const Config& config);

enum class ConfigType : std::uint8_t { kBool, kInteger, kNumber, kSize, kDuration, kText, kName, kList };

/// A key of the configuration, with the functions that read and write its value.
struct ConfigKey {
  std::string name;  ///< "storage.block_cache"; of a tree key, the name without `tree.`
  ConfigType type = ConfigType::kText;
  std::string allowed;        ///< allowed values, for people: "16KiB to 16GiB, or auto"
  std::string doc;            ///< meaning of the key in one sentence
  bool changeable = false;    ///< CONFIG SET may change the key while the server runs
  bool is_protected = false;  ///< CONFIG SET refuses the key unless server.protected_configs is on, since its value is a path
  std::string redis_name;     ///< "" = Redis has no such parameter
  /// Returns the value's canonical text, as in the YAML.
  std::function<std::string(const Config&)> get;
  /// Sets the value from its text. On kInvalidArgument the message says which values are allowed, but does not name the key.
  std::function<Status(Config&, Bytes)> set;
  /// Like get and set, with the text in Redis's form. Null if Redis's form is the same.
  std::function<std::string(const Config&)> redis_get;
  std::function<Status(Config&, Bytes)> redis_set;
};

/// Returns all keys; tree keys are named `tree.<name>`. The table is built once.
const std::vector<ConfigKey>& config_keys();
using ConfigKeyPtr = std::shared_ptr<const ConfigKey>;
/// Finds a key by its dotted name, including `databases.<n>.<tree key>` and parameters of policies; null if there is none. Also
/// finds a parameter that no policy has: setting it returns an error that says so.
ConfigKeyPtr find_config_key(Bytes name);
/// Returns true for a name that a key had in earlier versions. find_config_key() finds the key by that name, too. If a source has
/// both names, the value of the current name applies.
bool is_older_name(Bytes name);
/// Returns all older names.
std::span<const Bytes> older_names();
/// Finds a key by Redis's name; null if there is none.
ConfigKeyPtr find_redis_key(Bytes name);
/// Returns the end of an error message for an unknown key: it suggests the most similar known name, if there is one.
std::string explain_unknown_key(Bytes name);

/// Returns the content of a regular file. kInvalidArgument: "PATH: cannot be read: REASON", or "PATH: is a pipe or a device ...".
Result<std::string> read_text_file(const std::string& path);

/// The sources from which a configuration is read.
struct ConfigSources {
  std::string file;                                               ///< "" = none
  std::vector<std::pair<std::string, std::string>> environment;   ///< as in `environ`; variables other than EBBTIDE_* are ignored
  std::vector<std::pair<std::string, std::string>> command_line;  ///< dotted name, value; in order
  AclCatalogPtr commands = nullptr;                               ///< Config::commands
  std::uint64_t memory = 0;                                       ///< bytes that the process may use; 0 = unknown
};

/// Reads all sources and checks the result. Errors have the form "config/ebbtide.yaml:12: storage.fsync: 'sometimes' is not
/// allowed; ...".
Result<Config> load_config(const ConfigSources& sources);
/// Like load_config(), for a file whose content is `text`. `file`: the file's name, for messages.
Result<Config> load_config_text(const std::string& text, const std::string& file, const ConfigSources& sources);
/// Checks the rules that concern several keys, and the engine's rules.
Status validate(const Config& config);

/// Returns `text`, a configuration file, with the values of `config`. Values that differ are replaced in place or added to their
/// section. All other text stays, comments included. kInvalidArgument if the text cannot be edited.
Result<std::string> rewrite_config(const std::string& text, const std::string& file, const Config& config);

// --- values as text
/// Parse and format a size: a whole number and a unit (B, KiB, MiB, GiB, TiB), like "64MiB"; 0 needs no unit.
Result<std::uint64_t> parse_size(Bytes text);
std::string format_size(std::uint64_t bytes);
/// Parse and format a duration, in ms: "250ms", "30s", "5m", "24h", "7d"; 0 needs no unit.
Result<std::uint64_t> parse_duration_ms(Bytes text);
std::string format_duration_ms(std::uint64_t ms);
/// Parses a size like Redis's memtoll: "100", "1k" = 1000, "1kb" = 1024, ...; also accepts the units of parse_size().
Result<std::uint64_t> parse_redis_memory(Bytes text);

}  // namespace ebbtide

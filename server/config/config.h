// The configuration: the values of YAML file, environment and command line as one value, and the table of its keys.
//
// One table (config_keys()) has type, range, meaning and Redis name of each key, and functions that read it from and write it to
// a Config. The loader, CONFIG GET, SET and REWRITE and the check of config/ebbtide.yaml use it. Only keys that have an effect
// are in the table. The keys of a tree exist twice: under `tree.` for every database, and under `databases.<n>.` for one.
//
// Precedence: command line, then environment (EBBTIDE_A__B__C), then file, then default.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <engine/options.h>
#include <engine/result.h>
#include "acl/users.h"

namespace ebbtide {

/// The clients that may run DEBUG.
enum class DebugCommands : std::uint8_t { kNo, kLocal, kYes };
/// A threshold that is never reached.
inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

/// Bytes that may wait for a client of one class: closed at `hard`, or after `soft_ms` above `soft`; 0 = no limit.
struct OutputBufferLimits {
  std::uint64_t hard = 0, soft = 0, soft_ms = 60'000;
};

/// Every setting. Sizes in bytes, times in ms. 0 stands for "auto" where a key allows auto.
struct Config {
  // server
  std::vector<std::string> bind = {"127.0.0.1", "::1"};
  std::uint64_t port = 6379;
  std::uint64_t threads = 0;  ///< event loops; 0 = auto
  std::uint64_t max_clients = 10'000;
  std::uint64_t tcp_backlog = 511;
  std::string password;
  std::string password_file;  ///< "" = none
  std::string file_password;  ///< content of password_file when the configuration was loaded
  std::string users_file;     ///< "" = none
  Users file_users;           ///< content of users_file at that time
  bool protected_mode = true;
  bool core_dumps = false;
  bool protected_configs = false;
  std::string backup_dir = "auto";
  std::uint64_t backup_keep = 3;
  // storage and tree; memory_budget 0 = auto until resolved
  Settings engine = default_engine();
  // limits
  std::uint64_t timeout_ms = 0;
  std::uint64_t tcp_keepalive_ms = 300'000;
  std::uint64_t slowlog_slower_than_us = 10'000;  ///< kNever: none
  std::uint64_t latency_threshold_ms = 0;         ///< 0: none
  DebugCommands debug_commands = DebugCommands::kNo;
  std::uint64_t slowlog_max_len = 128;
  std::vector<std::string> latency_percentiles = {"50", "99", "99.9"};  ///< numbers from 0 to 100
  /// The same as numbers.
  [[nodiscard]] std::vector<double> percentiles() const;
  bool slowlog_arguments = false;
  std::string notify_keyspace_events;  ///< letters as Redis's; "" = none
  std::uint64_t authentication_timeout_ms = 10'000;
  std::uint64_t unauthenticated_clients = 128;
  std::uint64_t client_query_buffer_limit = std::uint64_t{64} << 20;
  std::uint64_t proto_max_bulk_len = std::uint64_t{512} << 20;
  OutputBufferLimits output_buffer = {.hard = std::uint64_t{256} << 20, .soft = std::uint64_t{64} << 20};
  OutputBufferLimits pubsub_output_buffer = {.hard = std::uint64_t{32} << 20, .soft = std::uint64_t{8} << 20};
  OutputBufferLimits replica_output_buffer = {.hard = std::uint64_t{256} << 20, .soft = std::uint64_t{64} << 20};  ///< shown only
  // metrics, log
  std::string metrics_bind = "127.0.0.1";
  std::uint64_t metrics_port = 9736;  ///< 0 = off
  bool console = true;
  std::string log_level = "info";
  std::string log_file;  ///< "" = standard output

  std::string file;  ///< the configuration file; "" = none

  /// The password in effect; "" = none.
  [[nodiscard]] const std::string& secret() const { return password.empty() ? file_password : password; }
  static Settings default_engine();
};

/// Reads users_file; without one, returns only "default". kInvalidArgument: the file cannot be read, Users::parse() refuses it,
/// or it conflicts with the password.
Result<Users> read_users(const Config& config);

/// The backup directory: backup_dir with `auto` resolved.
std::string backup_directory(const Config& config);

enum class ConfigType : std::uint8_t { kBool, kInteger, kNumber, kSize, kDuration, kText, kName, kList };

/// One key.
struct ConfigKey {
  std::string name;  ///< "storage.memtable_size"; of a tree key, without the `tree.`
  ConfigType type = ConfigType::kText;
  std::string allowed;        ///< for people: "16KiB to 16GiB, or auto"
  std::string doc;            ///< one sentence
  bool changeable = false;    ///< by CONFIG SET, while running
  bool is_protected = false;  ///< CONFIG SET needs server.protected_configs, since the value is a path
  std::string redis_name;     ///< "" = Redis has none
  /// Canonical text, as in the YAML.
  std::function<std::string(const Config&)> get;
  /// Sets from text. kInvalidArgument says what is allowed, without the key's name.
  std::function<Status(Config&, Bytes)> set;
  /// The same in Redis's form, if that differs.
  std::function<std::string(const Config&)> redis_get;
  std::function<Status(Config&, Bytes)> redis_set;
};

/// All keys, tree keys as `tree.<name>`. Built once.
const std::vector<ConfigKey>& config_keys();
using ConfigKeyPtr = std::shared_ptr<const ConfigKey>;
/// Finds a key by its dotted name, including `databases.<n>.<tree key>` and parameters of policies; null if there is none. A
/// parameter that no policy has is found, too: setting it returns an error that says so.
ConfigKeyPtr find_config_key(Bytes name);
/// By Redis's name; null if there is none.
ConfigKeyPtr find_redis_key(Bytes name);
/// The end of an error message for an unknown key: similar names, or that the key has no effect yet.
std::string explain_unknown_key(Bytes name);

/// The sources of settings.
struct ConfigSources {
  std::string file;                                               ///< "" = none
  std::vector<std::pair<std::string, std::string>> environment;   ///< as in `environ`; only EBBTIDE_* is used
  std::vector<std::pair<std::string, std::string>> command_line;  ///< dotted name, value; in order
};

/// Reads and checks everything. Errors: "config/ebbtide.yaml:12: storage.fsync: 'sometimes' is not allowed; ...".
Result<Config> load_config(const ConfigSources& sources);
/// The same for a text instead of the file; `file` is for messages.
Result<Config> load_config_text(const std::string& text, const std::string& file, const ConfigSources& sources);
/// Checks rules that concern several keys, and the engine's rules.
Status validate(const Config& config);

/// Returns `text`, a configuration file, with the values of `config`. Values that differ are replaced in place or added to their
/// section; everything else stays, comments included. kInvalidArgument if the text cannot be edited.
Result<std::string> rewrite_config(const std::string& text, const std::string& file, const Config& config);

// --- texts of values
/// "64MiB", "1GiB", "0B": a whole number and a unit (B, KiB, MiB, GiB, TiB); 0 needs none.
Result<std::uint64_t> parse_size(Bytes text);
std::string format_size(std::uint64_t bytes);
/// "250ms", "30s", "5m", "24h", "7d"; 0 needs no unit.
Result<std::uint64_t> parse_duration_ms(Bytes text);
std::string format_duration_ms(std::uint64_t ms);
/// Like Redis's memtoll: "100", "1k" = 1000, "1kb" = 1024, ...; also the units of parse_size().
Result<std::uint64_t> parse_redis_memory(Bytes text);

}  // namespace ebbtide

// The table of all configuration keys.
#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>

#include <engine/stamp_mode.h>
#include "config/config.h"
#include "config/config_key_makers.h"

namespace ebbtide {
namespace {

using namespace key_makers;

constexpr std::uint64_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;
constexpr std::uint64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();
constexpr DatabaseId kMostDatabases = 1024;

/// Returns true for an IP address. An IPv6 address may have a zone, as in fe80::1%eth0.
bool is_address(const std::string& text) {
  in_addr v4{};
  in6_addr v6{};
  return ::inet_pton(AF_INET, text.c_str(), &v4) == 1 || ::inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), &v6) == 1;
}

// Formats the letters as Redis does: in Redis's order, each once, and A instead of all classes that A stands for.
std::string notify_letters(Bytes text) {
  static constexpr Bytes kAll = "g$lshzxetd";
  const auto has = [text](char c) {
    return text.find(c) != Bytes::npos || (text.find('A') != Bytes::npos && kAll.find(c) != Bytes::npos);
  };
  const bool all = std::all_of(kAll.begin(), kAll.end(), has);
  std::string out = all ? "A" : "";
  for (const char c : kAll) {
    if (!all && has(c)) out += c;
  }
  // In Redis, n comes first if some class is not set: n, K, E, m. Otherwise the order is K, E, m, n.
  if (!all && has('n')) out += 'n';
  for (const char c : Bytes("KEm")) {
    if (has(c)) out += c;
  }
  if (all && has('n')) out += 'n';
  return out;
}

const std::vector<std::pair<std::string, Compression>> kCompressions = {
    {"none", Compression::kNone}, {"lz4", Compression::kLz4}, {"zstd", Compression::kZstd}};

std::pair<std::string, StampMode> stamp_mode(StampMode mode) { return {stamp_mode_name(mode), mode}; }

void add_tree_keys(std::vector<ConfigKey>* keys, const std::string& prefix, const TreeOf& tree, bool changeable) {
  const std::size_t first = keys->size();
  ConfigKey policy;
  policy.name = "policy.name";
  policy.type = ConfigType::kName;
  policy.allowed =
      "one_leveling, leveling, tiering, lazy_leveling, klsm, garnering, bigtable, constant, exploring, concurrent, "
      "min_latency, binomial";
  policy.doc = "The merge policy; the keys beside this one are its parameters.";
  policy.get = [tree](const Config& c) { return tree(const_cast<Config&>(c)).policy.name; };
  policy.set = [tree](Config& c, Bytes text) {
    PolicySettings settings;  // without parameters: those of the old policy do not apply
    settings.name = std::string(text);
    if (tree(c).policy.name == settings.name) return Status::ok();
    TRY(validate(settings));
    tree(c).policy = settings;
    return Status::ok();
  };
  keys->push_back(policy);
  keys->push_back(size_key("memtable_size", of(tree, &TreeSettings::memtable_size), 16 * kKiB, 16 * kGiB,
                           "Size at which a memtable is flushed."));
  keys->push_back(size_key("file_size", of(tree, &TreeSettings::file_size), 64 * kKiB, 4 * kGiB,
                           "Size at which a table file ends; a file is at most half as large again."));
  keys->push_back(size_key("page_size", of(tree, &TreeSettings::page_size), kKiB, 64 * kKiB,
                           "Size of a page: before compression if pages_per_tile is 1, otherwise after compression."));
  keys->push_back(integer_key("pages_per_tile", of(tree, &TreeSettings::pages_per_tile), 1, 64,
                              "Pages of a delete tile; auto follows the measured numbers of deletes by stamp and reads.", true));
  keys->push_back(name_key<FileChoice>("file_choice", of(tree, &TreeSettings::file_choice),
                                       {{"round_robin", FileChoice::kRoundRobin},
                                        {"least_overlap", FileChoice::kLeastOverlap},
                                        {"most_tombstones", FileChoice::kMostTombstones},
                                        {"oldest", FileChoice::kOldest}},
                                       "Which file of a level is merged into the next level first if the level is too large."));
  keys->push_back(name_key<Partitioning>(
      "partitioning", of(tree, &TreeSettings::partitioning),
      {{"size", Partitioning::kSize}, {"local_range", Partitioning::kLocalRange}, {"global_range", Partitioning::kGlobalRange}},
      "The rule by which a merge splits its output into files."));
  keys->push_back(name_key<FilterAllocation>("filters.allocation", of(tree, &TreeSettings::filter_allocation),
                                             {{"monkey", FilterAllocation::kMonkey}, {"uniform", FilterAllocation::kUniform}},
                                             "How filter memory is distributed over the levels."));
  keys->push_back(number_key("filters.bits_per_key", of(tree, &TreeSettings::filter_bits_per_key), 0, 32,
                             "Filter memory per key on average, in bits; 0 = no filters."));
  keys->push_back(size_key("filters.memory", of(tree, &TreeSettings::filter_memory), 64 * kKiB, 1024 * kGiB,
                           "Filter memory of a database, instead of bits_per_key; auto = bits_per_key decides.", "auto"));
  keys->push_back(name_key<FilterLookups>("filters.lookups", of(tree, &TreeSettings::filter_lookups),
                                          {{"measured", FilterLookups::kMeasured}, {"zero_result", FilterLookups::kZeroResult}},
                                          "The kind of lookups that the distribution of filter memory favours."));
  keys->push_back(deadline_key("deletes.deadline", of(tree, &TreeSettings::delete_deadline),
                               "Longest time after a delete until no file has the deleted data."));
  keys->push_back(size_key(
      "deletes.io_budget", of(tree, &TreeSettings::delete_io_budget), 16 * kKiB, 64 * kGiB,
      "Bytes per second that merges for deadlines may read and write; merges exceed it if a deadline needs more.", "auto"));
  keys->push_back(name_key<StampMode>(
      "deletes.stamp", of(tree, &TreeSettings::stamp),
      {stamp_mode(StampMode::kWriteTime), stamp_mode(StampMode::kExpireTime), stamp_mode(StampMode::kExplicit)},
      "The source of a key's stamp; fixed when the database gets its first key."));
  for (std::size_t i = first; i < keys->size(); ++i) {
    (*keys)[i].name = prefix + (*keys)[i].name;
    (*keys)[i].changeable = changeable && (*keys)[i].name.find("deletes.stamp") == std::string::npos;
  }
}

TreeSettings& tree_of(Config& config, DatabaseId database) {
  auto& overrides = config.engine.overrides;
  return overrides.try_emplace(database, config.engine.tree).first->second;
}

class Table {
 public:
  Table() {
    add_server();
    add_storage();
    add_tree_keys(
        &keys, "tree.", [](Config& c) -> TreeSettings& { return c.engine.tree; }, true);
    add_limits();
    add_tuning();
    add_rest();
  }
  std::vector<ConfigKey> keys;

 private:
  ConfigKey& add(ConfigKey key, std::string redis_name = {}, bool changeable = false) {
    key.redis_name = std::move(redis_name);
    key.changeable = changeable;
    keys.push_back(std::move(key));
    return keys.back();
  }

  void add_server() {
    ConfigKey& bind =
        add(list_key("server.bind", of(&Config::bind), "a list of IP addresses, * for all of IPv4",
                     "Addresses to listen on. An address that the machine does not have is skipped if another address works."),
            "bind");
    bind.set = [set = bind.set, allowed = bind.allowed](Config& c, Bytes text) {
      Config next;
      TRY(set(next, text));
      for (const std::string& item : next.bind) {
        if (item != "*" && !is_address(item)) return not_allowed(item, allowed);
      }
      c.bind = std::move(next.bind);
      return Status::ok();
    };
    add(integer_key("server.port", of(&Config::port), 0, 65535, "Port to listen on; 0 = any free one."), "port");
    add_unixsocket();
    add(integer_key("server.threads", of(&Config::threads), 1, 64,
                    "Number of event loops; auto follows the cores and the cgroup's quota.", true),
        "io-threads");
    add(integer_key("server.databases", of(&Settings::databases), 1, kMostDatabases, "Number of databases, for SELECT."),
        "databases");
    add(integer_key("server.max_clients", of(&Config::max_clients), 1, 1'000'000,
                    "Most connections at the same time; further connections are refused."),
        "maxclients", true);
    add(integer_key("server.tcp_backlog", of(&Config::tcp_backlog), 1, 65535,
                    "Connections that the kernel queues until they are accepted."),
        "tcp-backlog");
    add(text_key("server.password", of(&Config::password), "any text; empty = none",
                 "The password for AUTH and HELLO. Empty: none."),
        "requirepass", true);
    add(text_key(
        "server.password_file", of(&Config::password_file), "a path; empty = none",
        "A file with the password, instead of server.password. It is read once at the start; a newline at its end is ignored."));
    add(text_key("server.users_file", of(&Config::users_file), "a path; empty = none",
                 "A file of users in Redis's form, each with its passwords and rights: user NAME on >PASSWORD ~* &* +@all."),
        "aclfile");
    add_tls();
    add(bool_key("server.protected_mode", of(&Config::protected_mode), "Without a password, serve clients of this machine only."),
        "protected-mode", true);
    add(name_key<DebugCommands>("server.debug_commands", of(&Config::debug_commands),
                                {{"no", DebugCommands::kNo}, {"local", DebugCommands::kLocal}, {"yes", DebugCommands::kYes}},
                                "Clients that may run DEBUG: none, those of this machine, or all."),
        "enable-debug-command");
    add(bool_key("server.protected_configs", of(&Config::protected_configs),
                 "Whether CONFIG SET may change keys that are paths: storage.backup_dir."),
        "enable-protected-configs");
    add(bool_key("server.core_dumps", of(&Config::core_dumps),
                 "Whether a crash may write a core file, which contains keys and values."));
  }

  void add_unixsocket() {
    // The system's limit for the path of a Unix socket, without its terminating zero.
    constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
    auto& path = add(text_key("server.unixsocket", of(&Config::unixsocket),
                              "a path of at most " + std::to_string(kLongest) + " bytes; empty = none",
                              "Unix socket to listen on, besides the port."),
                     "unixsocket");
    path.set = [set = path.set, allowed = path.allowed](Config& c, Bytes text) {
      return text.size() <= kLongest && text.find('\0') == Bytes::npos ? set(c, text) : not_allowed(text, allowed);
    };
    ConfigKey mode;
    mode.name = "server.unixsocket_mode";
    mode.type = ConfigType::kText;
    mode.allowed = "three octal digits, such as 700 or 770";
    mode.doc = "File mode of the Unix socket at server.unixsocket: users who may write to it may connect.";
    mode.get = [](const Config& c) {
      char text[8];
      return std::string(text, static_cast<std::size_t>(std::snprintf(text, sizeof(text), "%03o", c.unixsocket_mode & 0777)));
    };
    mode.set = [allowed = mode.allowed](Config& c, Bytes text) {
      const Bytes digits = text.size() == 4 && text[0] == '0' ? text.substr(1) : text;
      if (digits.size() != 3 || digits.find_first_not_of("01234567") != Bytes::npos) return not_allowed(text, allowed);
      c.unixsocket_mode = 0;
      for (const char digit : digits) c.unixsocket_mode = c.unixsocket_mode * 8 + static_cast<unsigned>(digit - '0');
      return Status::ok();
    };
    add(std::move(mode), "unixsocketperm");
  }

  void add_tls() {
    const auto field = [](auto TlsSettings::*member) {
      using T = std::remove_reference_t<decltype(std::declval<TlsSettings&>().*member)>;
      return Field<T>([member](Config& c) -> T& { return c.tls.*member; });
    };
    add(integer_key("server.tls.port", of(&Config::tls_port), 0, 65535, "Port for TLS, beside server.port; 0 = none."),
        "tls-port");
    add(text_key("server.tls.cert_file", field(&TlsSettings::cert_file), "a path; empty = none",
                 "The server's certificate in PEM form, followed by its intermediate certificates."),
        "tls-cert-file", true);
    add(text_key("server.tls.key_file", field(&TlsSettings::key_file), "a path; empty = none",
                 "The private key of the server's certificate, in PEM form."),
        "tls-key-file", true);
    add(text_key("server.tls.key_password_file", field(&TlsSettings::key_password_file), "a path; empty = none",
                 "A file with the password of the private key, if the key is encrypted."),
        "", true);
    add(text_key("server.tls.ca_cert_file", field(&TlsSettings::ca_cert_file), "a path; empty = none",
                 "Certificates, in PEM form, of the authorities that are trusted to sign clients' certificates."),
        "tls-ca-cert-file", true);
    add(name_key<TlsClients>("server.tls.auth_clients", field(&TlsSettings::auth_clients),
                             {{"no", TlsClients::kNo}, {"optional", TlsClients::kOptional}, {"yes", TlsClients::kYes}},
                             "Whether clients must (yes), may (optional) or need not (no) show a certificate."),
        "tls-auth-clients", true);
    ConfigKey& protocols = add(text_key("server.tls.protocols", field(&TlsSettings::protocols),
                                        "TLSv1.2, TLSv1.3, or both; empty = both", "Versions of TLS that clients may use."),
                               "tls-protocols", true);
    protocols.set = [set = protocols.set, allowed = protocols.allowed](Config& c, Bytes text) {
      std::istringstream words{std::string(text)};
      for (std::string word; words >> word;) {
        if (word != "TLSv1.2" && word != "TLSv1.3") return not_allowed(text, allowed);
      }
      return set(c, text);
    };
  }

  void add_storage() {
    add(text_key("storage.dir", of(&Settings::dir), "a path", "The data directory; the server creates it if it is missing."),
        "dir");
    add(name_key<FsyncMode>("storage.fsync", of(&Settings::fsync),
                            {{"always", FsyncMode::kAlways}, {"everysec", FsyncMode::kEverySecond}, {"no", FsyncMode::kNo}},
                            "When the log is synced: before each reply, once a second, or when the system decides."),
        "appendfsync", true);
    add(name_key<Compression>("storage.compression", compression(&TreeSettings::compression), kCompressions,
                              "Compression of pages on all levels but the last."));
    add(name_key<Compression>("storage.compression_last_level", compression(&TreeSettings::compression_last_level), kCompressions,
                              "Compression of pages on the last level."));
    add(size_key("storage.memory_budget", of(&Settings::memory_budget), 4 * kMiB, std::uint64_t{1} << 46,
                 "Memory for memtables, cache, filters, indexes and large values; auto = half of the machine's memory or the "
                 "cgroup's limit.",
                 "auto"),
        "maxmemory", true);
    add(size_key("storage.block_cache", of(&Settings::block_cache), kMiB, std::uint64_t{1} << 46,
                 "Memory for pages read from disk; auto = the rest of the budget.", "auto"));
    add(size_key("storage.max_disk_bytes", of(&Settings::max_disk_bytes), 16 * kMiB, std::uint64_t{1} << 50,
                 "Disk space for the data directory; auto = 95 % of the disk.", "auto"));
    add(size_key("storage.wal_segment_size", of(&Settings::wal_segment_size), 64 * kKiB, 4 * kGiB,
                 "Size at which a log file is finished."));
    add(duration_key("storage.scrub_interval", of(&Settings::scrub_interval), 3650 * std::uint64_t{86'400'000},
                     "Time in which every table is read from the drive and checked once; 0s = never."),
        "", true);
    add(bool_key("storage.direct_io", of(&Settings::direct_io), "Bypass the system's page cache for reads of tables."));
    add(integer_key("storage.background_threads", of(&Settings::background_threads), 1, 256,
                    "Threads for merges; auto = a quarter of the cores. Flushes have threads of their own.", true));
    add(bool_key("storage.io_uring", of(&Settings::io_uring), "Read missing pages by io_uring if the system allows it."));
    add(integer_key("storage.fetch_threads", of(&Settings::fetch_threads), 1, 256,
                    "Threads that read large values, and missing pages without io_uring."));
    add(integer_key("storage.max_open_files", of(&Settings::max_open_files), 1, std::uint64_t{1} << 30,
                    "Files of tables that are kept open; auto = the part of the limit of open files that clients leave.", true),
        "", true);
    ConfigKey& backups =
        add(text_key("storage.backup_dir", of(&Config::backup_dir), "a path outside storage.dir, or auto",
                     "Where BGSAVE and SAVE make backups; auto = beside the data directory, its name with -backups at the end."),
            "", true);
    backups.is_protected = true;
    backups.set = [set = backups.set, allowed = backups.allowed](Config& c, Bytes text) {
      if (text.empty() || text.find('\0') != Bytes::npos) return not_allowed(text, allowed);
      return set(c, text);
    };
    add(integer_key("storage.backup_keep", of(&Config::backup_keep), 1, 100'000,
                    "Number of newest finished backups to keep; older backups are removed once a new one has been verified."),
        "", true);
    add(bool_key(
        "storage.accept_clock", of(&Settings::accept_clock),
        "Open the database even if the clock is far ahead of its last use; keys that have expired by then are removed."));
  }

  // Returns a field of a compression setting. It applies to all trees, since databases have no compression setting of their own.
  static Field<Compression> compression(Compression TreeSettings::*member) {
    return [member](Config& c) -> Compression& { return c.engine.tree.*member; };
  }

  void add_limits() {
    auto& notify =
        add(text_key("server.notify_keyspace_events", of(&Config::notify_keyspace_events), "letters of KEg$lshzxetdmnA",
                     "The keyspace notifications to publish: K or E, and g, $, x, n, m or A."),
            "notify-keyspace-events", true);
    notify.set = [set = notify.set](Config& c, Bytes text) {
      // The error has Redis's text, which client libraries know.
      if (text.find_first_not_of("KEg$lshzxetdmnA") != Bytes::npos)
        return Status::invalid_argument("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
      return set(c, notify_letters(text));
    };
    add_slow_log();
    add(integer_key("log.slow_commands_kept", of(&Config::slowlog_max_len), 0, 1'000'000,
                    "Maximum number of entries of the slow log."),
        "slowlog-max-len", true);
    add(integer_key("log.denials_kept", of(&Config::acl_log_max_len), 0, 1'000'000,
                    "Maximum number of entries of ACL LOG: failed authentications and denied commands."),
        "acllog-max-len", true);
    auto& percentiles =
        add(list_key("log.latency_percentiles", of(&Config::latency_percentiles), "a list of numbers from 0 to 100",
                     "The percentiles of each command's time that INFO latencystats shows."),
            "latency-tracking-info-percentiles", true);
    percentiles.set = [allowed = percentiles.allowed](Config& c, Bytes text) { return set_percentiles(c, text, allowed); };
    add(bool_key("log.slow_commands_arguments", of(&Config::slowlog_arguments),
                 "Whether the slow log shows the arguments of commands, including names of keys and values."),
        "", true);
    add(duration_key("limits.timeout", of(&Config::timeout_ms), 365 * std::uint64_t{86'400'000},
                     "Time after which idle clients are closed; 0s = never."),
        "timeout", true);
    add(duration_key("limits.tcp_keepalive", of(&Config::tcp_keepalive_ms), 86'400'000,
                     "Idle time after which the kernel probes a peer; 0s = never."),
        "tcp-keepalive", true);
    add(duration_key("limits.authentication_timeout", of(&Config::authentication_timeout_ms), 86'400'000,
                     "Time after which clients that have not authenticated are closed; 0s = never."),
        "", true);
    add(integer_key("limits.unauthenticated_clients", of(&Config::unauthenticated_clients), 1, 1'000'000,
                    "Most clients at the same time that have not authenticated."),
        "", true);
    add(size_key("limits.client_query_buffer_limit", of(&Config::client_query_buffer_limit), kMiB, 4 * kGiB,
                 "Most bytes of an incomplete command of a client; one value over 64KiB does not count."),
        "client-query-buffer-limit", true);
    add(size_key("limits.proto_max_bulk_len", of(&Config::proto_max_bulk_len), kMiB, 512 * kMiB, "Most bytes of one argument."),
        "proto-max-bulk-len", true);
    add_output_limits("limits.client_output_buffer_limit.", &Config::output_buffer,
                      "Most bytes of replies that wait for a client;");
    add_output_limits("limits.client_output_buffer_limit.pubsub.", &Config::pubsub_output_buffer,
                      "Most bytes of messages that wait for a subscriber, or of lines that wait for a MONITOR;");
    auto& hard = *std::find_if(keys.begin(), keys.end(),
                               [](const ConfigKey& key) { return key.name == "limits.client_output_buffer_limit.hard"; });
    hard.redis_name = "client-output-buffer-limit";
    hard.redis_get = [](const Config& c) {
      const auto text = [](const OutputBufferLimits& l) {
        return std::to_string(l.hard) + " " + std::to_string(l.soft) + " " + std::to_string(l.soft_ms / 1000);
      };
      return "normal " + text(c.output_buffer) + " slave " + text(c.replica_output_buffer) + " pubsub " +
             text(c.pubsub_output_buffer);
    };
    hard.redis_set = [](Config& c, Bytes text) { return set_output_limits(c, text); };
  }

  void add_output_limits(const std::string& prefix, OutputBufferLimits Config::*limits, const std::string& what) {
    const auto member = [limits](std::uint64_t OutputBufferLimits::*field) -> Field<std::uint64_t> {
      return [limits, field](Config& c) -> std::uint64_t& { return (c.*limits).*field; };
    };
    add(size_key(prefix + "hard", member(&OutputBufferLimits::hard), 0, 64 * kGiB,
                 what + " above this the client is closed. 0B = no limit."),
        "", true);
    add(size_key(prefix + "soft", member(&OutputBufferLimits::soft), 0, 64 * kGiB,
                 "The client is closed if the bytes that wait for it exceed this for soft_time; 0B = no limit."),
        "", true);
    add(duration_key(prefix + "soft_time", member(&OutputBufferLimits::soft_ms), 86'400'000,
                     "How long the soft limit may be exceeded."),
        "", true);
  }

  void add_slow_log() {
    auto& slow =
        add(integer_key(
                "log.slow_commands_us", of(&Config::slowlog_slower_than_us), 0, kMaxInteger,
                "Commands whose work and waits take at least this many microseconds go into the slow log; 0 = all, off = none."),
            "slowlog-log-slower-than", true);
    slow.allowed += ", or off";
    slow.get = [](const Config& c) {
      return c.slowlog_slower_than_us == kNever ? "off" : std::to_string(c.slowlog_slower_than_us);
    };
    slow.redis_get = [](const Config& c) {
      return c.slowlog_slower_than_us == kNever ? "-1" : std::to_string(c.slowlog_slower_than_us);
    };
    const auto set_or = [set = slow.set](Bytes word) {
      return [set, word](Config& c, Bytes text) {
        if (text != word) return set(c, text);
        c.slowlog_slower_than_us = kNever;
        return Status::ok();
      };
    };
    slow.redis_set = set_or("-1");
    slow.set = set_or("off");
    add(integer_key("log.latency_threshold_ms", of(&Config::latency_threshold_ms), 0, kMaxInteger,
                    "Commands that run for at least this many milliseconds become samples of LATENCY; 0 = none."),
        "latency-monitor-threshold", true);
  }

  static Status set_percentiles(Config& config, Bytes text, const std::string& allowed) {
    Config next;
    next.latency_percentiles.clear();
    std::istringstream words{std::string(text)};
    for (std::string word; words >> word;) {
      double value = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc() || end != word.data() + word.size() || !(value >= 0 && value <= 100))
        return not_allowed(word, allowed);
      next.latency_percentiles.push_back(number_text(value));
    }
    config.latency_percentiles = std::move(next.latency_percentiles);
    return Status::ok();
  }

  // Parses "<class> <hard> <soft> <seconds>", repeated for several classes. Other classes keep their limits.
  static Status set_output_limits(Config& config, Bytes text) {
    std::vector<std::string> words(1);
    for (const char c : text) {
      if (c != ' ') {
        words.back() += c;
      } else if (!words.back().empty()) {
        words.emplace_back();
      }
    }
    if (words.back().empty()) words.pop_back();
    const Status wrong = Status::invalid_argument("Wrong number of arguments in buffer limit configuration.");
    if (words.empty() || words.size() % 4 != 0) return wrong;
    Config next = config;
    for (std::size_t i = 0; i < words.size(); i += 4) {
      OutputBufferLimits* limits = nullptr;
      if (words[i] == "normal") limits = &next.output_buffer;
      if (words[i] == "slave" || words[i] == "replica") limits = &next.replica_output_buffer;
      if (words[i] == "pubsub") limits = &next.pubsub_output_buffer;
      if (limits == nullptr) return Status::invalid_argument("Invalid client class specified in buffer limit configuration.");
      const auto hard = parse_redis_memory(words[i + 1]), soft = parse_redis_memory(words[i + 2]),
                 time = parse_duration_ms(words[i + 3] + "s");
      if (!hard.is_ok() || !soft.is_ok() || !time.is_ok()) {
        return Status::invalid_argument("Error in hard, soft or soft_seconds setting in buffer limit configuration.");
      }
      *limits = {*hard, *soft, *time};
    }
    config = next;
    return Status::ok();
  }

  void add_tuning() {
    add(name_key<TuningMode>(
            "tuning.auto", of(&Config::tuning_auto),
            {{"off", TuningMode::kOff}, {"advise", TuningMode::kAdvise}, {"apply", TuningMode::kApply}},
            "Whether the settings of each database are compared with the best ones for its workload (advise), and "
            "changed (apply)."),
        "", true);
    // ln 100, rounded up: the largest divergence between two mixes, none of whose shares is below 1 %.
    add(number_key("tuning.rho", of(&Config::tuning_rho), 0, 5,
                   "How far the mix may move from the expected mix for which settings are chosen, as a divergence in nats."),
        "", true);
    ConfigKey& window = add(duration_key("tuning.window", of(&Config::tuning_window_ms), 86'400'000,
                                         "Length of the period whose operations a decision of tuning.auto considers."),
                            "", true);
    window.allowed = "1s to 1d";
    window.set = [set = window.set, allowed = window.allowed](Config& c, Bytes text) {
      Config next;
      if (!set(next, text).is_ok() || next.tuning_window_ms < 1000) return not_allowed(text, allowed);
      c.tuning_window_ms = next.tuning_window_ms;
      return Status::ok();
    };
    window.redis_get = nullptr;
    window.redis_set = nullptr;
    ConfigKey& expected =
        add(list_key("tuning.expected_workload", of(&Config::tuning_expected_workload),
                     "four shares from 0 to 1 that sum to 1, of empty reads, reads, ranges and writes; empty = what is measured",
                     "The mix that tuning.auto chooses settings for; empty: the mix of the last window."),
            "", true);
    expected.set = [allowed = expected.allowed](Config& c, Bytes text) { return set_expected_workload(c, text, allowed); };
    add(number_key(
            "tuning.write_asymmetry", [](Config& c) -> double& { return c.tuning_device.write_asymmetry; }, 0, 1000,
            "Cost of writing a page / cost of reading one, as `ebbtide-tune device` measures it."),
        "", true);
    add(number_key(
            "tuning.sequential_cost", [](Config& c) -> double& { return c.tuning_device.sequential_cost; }, 0, 1000,
            "Cost of a page in a sequential access / cost in a random one, as `ebbtide-tune device` measures it."),
        "", true);
  }

  static Status set_expected_workload(Config& config, Bytes text, const std::string& allowed) {
    std::string plain(text);
    std::replace(plain.begin(), plain.end(), ',', ' ');
    std::istringstream words{plain};
    std::vector<std::string> shares;
    double sum = 0;
    for (std::string word; words >> word;) {
      double value = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc() || end != word.data() + word.size() || !(value >= 0 && value <= 1))
        return not_allowed(text, allowed);
      shares.push_back(number_text(value));
      sum += value;
    }
    if (!shares.empty() && (shares.size() != 4 || !(sum > 1 - 1e-6 && sum < 1 + 1e-6))) return not_allowed(text, allowed);
    config.tuning_expected_workload = std::move(shares);
    return Status::ok();
  }

  void add_rest() {
    ConfigKey& bind = add(
        text_key("metrics.bind", of(&Config::metrics_bind), "an IP address", "Address of the HTTP port for metrics and health."));
    bind.set = [set = bind.set, allowed = bind.allowed](Config& c, Bytes text) {
      return is_address(std::string(text)) ? set(c, text) : not_allowed(text, allowed);
    };
    add(integer_key("metrics.port", of(&Config::metrics_port), 0, 65535, "Port for metrics and health; 0 = off."));
    add(bool_key("metrics.console", of(&Config::console), "Whether the HTTP port serves the console, a page for people."));
    add(bool_key("metrics.tls", of(&Config::metrics_tls),
                 "Whether the HTTP port speaks TLS only, with the certificate and the versions of server.tls."));
    ConfigKey& user = add(text_key("metrics.user", of(&Config::metrics_user), "a name without a colon, not empty",
                                   "User for HTTP's basic authentication, if there is metrics.password_file."));
    user.set = [set = user.set, allowed = user.allowed](Config& c, Bytes text) {
      return text.empty() || text.find(':') != Bytes::npos ? not_allowed(text, allowed) : set(c, text);
    };
    add(text_key("metrics.password_file", of(&Config::metrics_password_file), "a path; empty = none",
                 "A file with the password that metrics and console require. Empty: none."));
    auto& level = add(name_key<std::string>("log.level", of(&Config::log_level),
                                            {{"debug", "debug"}, {"info", "info"}, {"warning", "warning"}, {"error", "error"}},
                                            "Minimum level of logged messages."),
                      "loglevel", true);
    level.redis_get = [](const Config& c) {
      return c.log_level == "info" ? "notice" : c.log_level == "error" ? "warning" : c.log_level;
    };
    level.redis_set = [set = level.set](Config& c, Bytes text) {
      return set(c, text == "notice" ? "info" : text == "verbose" ? "debug" : text);
    };
    add(text_key("log.file", of(&Config::log_file), "a path; empty = standard output", "The log file. SIGHUP reopens it."),
        "logfile");
    add(name_key<std::string>("log.format", of(&Config::log_format), {{"text", "text"}, {"json", "json"}},
                              "The form of each message: a line of text, or a JSON object."));
  }
};

std::size_t distance(Bytes a, Bytes b) {  // the Levenshtein distance
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t old = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = old;
    }
  }
  return row[b.size()];
}

bool parse_database(Bytes text, DatabaseId* database) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *database);
  return error == std::errc() && end == text.data() + text.size() && *database < kMostDatabases;
}

bool parse_policy_parameter(Bytes name, std::string* parameter) {
  if (name.substr(0, 7) != "policy." || name.size() == 7 || name == "policy.name" || name.find('.', 7) != Bytes::npos)
    return false;
  *parameter = std::string(name.substr(7));
  return true;
}

// Makes keys whose names vary, so that they are not in the table: parameters of policies, and keys under databases.<n>.
ConfigKey parameter_key(const std::string& name, const TreeOf& tree, const std::string& parameter) {
  ConfigKey key;
  key.name = name;
  key.type = ConfigType::kNumber;
  key.allowed = "the values that the policy allows";
  key.changeable = true;
  key.get = [tree, parameter](const Config& c) {
    const auto& parameters = tree(const_cast<Config&>(c)).policy.parameters;
    const auto it = parameters.find(parameter);
    return it == parameters.end() ? std::string() : number_text(it->second);
  };
  key.set = [tree, parameter](Config& c, Bytes text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return not_allowed(text, "a number");
    PolicySettings settings = tree(c).policy;
    settings.parameters[parameter] = value;
    TRY(validate(settings));
    tree(c).policy = settings;
    return Status::ok();
  };
  return key;
}

// Makes the key's reads use a copy of the Config. Accessing a database's tree adds an override if it is missing, and a read must
// not change the Config.
void reads_on_a_copy(ConfigKey* key) {
  key->get = [get = key->get](const Config& c) {
    const Config copy = c;
    return get(copy);
  };
}

}  // namespace

Settings Config::default_engine() {
  Settings settings;
  settings.memory_budget = 0;       // 0 means auto
  settings.background_threads = 0;  // 0 means auto
  settings.tree.policy.parameters = {{"size_ratio", 6}, {"level0_runs", 4}};
  return settings;
}

const std::vector<ConfigKey>& config_keys() {
  static const Table table;
  return table.keys;
}

std::span<const Bytes> older_names() {
  static constexpr Bytes kNames[] = {"storage.memtable_size"};
  return kNames;
}

bool is_older_name(Bytes name) { return std::ranges::find(older_names(), name) != older_names().end(); }

ConfigKeyPtr find_config_key(Bytes name) {
  if (is_older_name(name)) name = "tree.memtable_size";
  for (const ConfigKey& key : config_keys()) {
    if (key.name == name) return {ConfigKeyPtr(), &key};  // a key of the table, which lives as long as the process
  }
  TreeOf tree = [](Config& c) -> TreeSettings& { return c.engine.tree; };
  Bytes rest;
  if (name.substr(0, 5) == "tree.") {
    rest = name.substr(5);
  } else if (name.substr(0, 10) == "databases.") {
    DatabaseId database = 0;
    const Bytes tail = name.substr(10);
    const std::size_t dot = tail.find('.');
    if (dot == Bytes::npos || !parse_database(tail.substr(0, dot), &database)) return nullptr;
    rest = tail.substr(dot + 1);
    tree = [database](Config& c) -> TreeSettings& { return tree_of(c, database); };
    std::vector<ConfigKey> keys;
    add_tree_keys(&keys, "", tree, true);
    for (ConfigKey& key : keys) {
      if (key.name != rest) continue;
      key.name = std::string(name);
      reads_on_a_copy(&key);
      return std::make_shared<ConfigKey>(std::move(key));
    }
  }
  std::string parameter;
  if (!parse_policy_parameter(rest, &parameter)) return nullptr;
  ConfigKey key = parameter_key(std::string(name), tree, parameter);
  reads_on_a_copy(&key);
  return std::make_shared<ConfigKey>(std::move(key));
}

ConfigKeyPtr find_redis_key(Bytes name) {
  for (const ConfigKey& key : config_keys()) {
    if (!key.redis_name.empty() && key.redis_name == name) return {ConfigKeyPtr(), &key};
  }
  return nullptr;
}

std::string explain_unknown_key(Bytes name) {
  if (name.empty()) return "the name of a key is missing; a key is, for example, server.port";
  std::string prefix;
  Bytes tail = name;
  if (name.substr(0, 10) == "databases.") {  // suggests names of keys that a database can have
    const std::size_t dot = name.find('.', 10);
    const Bytes database = name.substr(10, dot == Bytes::npos ? dot : dot - 10);
    if (DatabaseId number = 0; !parse_database(database, &number))
      return not_allowed_text(database, "a database's number, 0 to " + std::to_string(kMostDatabases - 1));
    if (dot != Bytes::npos) {
      prefix = std::string(name.substr(0, dot + 1));
      tail = name.substr(dot + 1);
    }
  }
  std::string nearest;
  std::size_t best = std::max<std::size_t>(3, tail.size() / 3) + 1;
  for (const ConfigKey& key : config_keys()) {
    Bytes candidate = key.name;
    if (!prefix.empty()) {
      if (candidate.substr(0, 5) != "tree.") continue;
      candidate.remove_prefix(5);
    }
    const Bytes last = candidate.substr(candidate.rfind('.') + 1);
    const std::size_t d = std::min(distance(tail, candidate), last == tail.substr(tail.rfind('.') + 1) ? std::size_t{1} : best);
    if (d < best) {
      best = d;
      nearest = prefix + std::string(candidate);
    }
  }
  return nearest.empty() ? "no such key" : "no such key; did you mean " + nearest + "?";
}

}  // namespace ebbtide

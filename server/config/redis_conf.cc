// A directive for which this server has a key is parsed like CONFIG SET of that key in Redis's form. For all other known
// directives, a table has the reason why they have no effect. Any other directive is reported as unknown, so none is dropped
// silently.
#include "config/redis_conf.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "config/config.h"

namespace ebbtide {
namespace {

struct Directive {
  std::size_t line = 0;
  std::string name;                    ///< in lower case
  std::vector<std::string> arguments;  ///< arguments without their quotes
  std::string text;                    ///< the whole line
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

/// Returns the character at `at`, which may be escaped as in Redis's double quotes. Moves `at` past it.
char unescape(const std::string& line, std::size_t* at) {
  if (line[*at] != '\\' || *at + 1 >= line.size()) return line[(*at)++];
  const char next = line[*at + 1];
  if (next == 'x' && *at + 3 < line.size() && hex_digit(line[*at + 2]) && hex_digit(line[*at + 3])) {
    const unsigned byte = *hex_digit(line[*at + 2]) * 16 + *hex_digit(line[*at + 3]);
    *at += 4;
    return static_cast<char>(byte);
  }
  *at += 2;
  static constexpr std::string_view kFrom = "nrtba", kTo = "\n\r\t\b\a";
  const std::size_t known = kFrom.find(next);
  return known == std::string_view::npos ? next : kTo[known];
}

/// Returns the words of a line, split as in Redis; nullopt if the quotes are not balanced.
std::optional<std::vector<std::string>> words_of(const std::string& line) {
  static constexpr std::string_view kBlanks = " \t\r\v\f";
  std::vector<std::string> words;
  std::size_t at = 0;
  while ((at = line.find_first_not_of(kBlanks, at)) != std::string::npos) {
    std::string word;
    char quote = 0;
    for (; at < line.size() && (quote != 0 || kBlanks.find(line[at]) == std::string_view::npos);) {
      const char c = line[at];
      if (quote == 0 && (c == '"' || c == '\'')) {
        quote = c;
        ++at;
      } else if (quote != 0 && c == quote) {
        if (at + 1 < line.size() && kBlanks.find(line[at + 1]) == std::string_view::npos) return std::nullopt;
        quote = 0;
        ++at;
      } else if (quote == '"') {
        word += unescape(line, &at);
      } else if (quote == '\'' && c == '\\' && at + 1 < line.size() && line[at + 1] == '\'') {
        word += '\'';
        at += 2;
      } else {
        word += c;
        ++at;
      }
    }
    if (quote != 0) return std::nullopt;
    words.push_back(std::move(word));
  }
  return words;
}

Result<std::vector<Directive>> parse(const std::string& text, const std::string& file) {
  std::vector<Directive> directives;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    Directive directive{.line = ++number, .name = {}, .arguments = {}, .text = text.substr(begin, end - begin)};
    begin = end + 1;
    while (!directive.text.empty() && (directive.text.back() == '\r' || directive.text.back() == ' ')) directive.text.pop_back();
    const std::size_t first = directive.text.find_first_not_of(" \t");
    if (first == std::string::npos || directive.text[first] == '#') continue;
    auto words = words_of(directive.text);
    if (!words || words->empty()) {
      return Status::invalid_argument(file + ":" + std::to_string(directive.line) + ": unbalanced quotes: " + directive.text);
    }
    directive.name = lower(words->front());
    directive.arguments.assign(words->begin() + 1, words->end());
    directives.push_back(std::move(directive));
  }
  return directives;
}

struct Reason {
  const char* name;  ///< name of a directive; with * at the end, the beginning of several names
  const char* why;
};

// Reasons why directives have no effect. The first match counts.
constexpr Reason kReasons[] = {
    {"save", "BGSAVE makes backups, for instance from cron; the log has the data at once"},
    {"appendonly", "every write is in the log; storage.fsync says when it is synced"},
    {"dbfilename", "there is no dump file; backups are directories in storage.backup_dir"},
    {"appendfilename", "the log is in storage.dir"},
    {"appenddirname", "the log is in storage.dir"},
    {"rdb*", "there is no dump file"},
    {"aof*", "there is no append-only file; the log is replayed at the start"},
    {"auto-aof-*", "there is no append-only file to rewrite; merges do this work"},
    {"no-appendfsync-on-rewrite", "there is no append-only file to rewrite"},
    {"stop-writes-on-bgsave-error", "a failed backup does not stop writes"},
    {"sanitize-dump-payload", "RESTORE always checks its payload"},
    {"maxmemory-policy", "no key is evicted: storage.memory_budget bounds memory, and data are on disk"},
    {"maxmemory-*", "no key is evicted"},
    {"lfu-*", "no key is evicted"},
    {"active-expire-effort", "expired keys are absent at once, and purged by tree.deletes.deadline"},
    {"lazyfree-*", "deletes are tombstones, and merges do the work in the background"},
    {"lazy*", "deletes are tombstones, and merges do the work in the background"},
    {"activedefrag", "values are on disk, so memory has little to defragment"},
    {"active-defrag-*", "values are on disk, so memory has little to defragment"},
    {"jemalloc-bg-thread", "the allocator is mimalloc"},
    {"include", "included files are not read: translate that file, too"},
    {"loadmodule", "there are no modules"},
    {"enable-module-command", "there are no modules"},
    {"user", "users are in a file of their own: put this line into server.users_file"},
    {"acl-pubsub-default", "put the rules of users into server.users_file"},
    {"rename-command", "commands keep their names"},
    {"replicaof", "there is no replication"},
    {"slaveof", "there is no replication"},
    {"replica-*", "there is no replication"},
    {"slave-*", "there is no replication"},
    {"repl-*", "there is no replication"},
    {"min-replicas-*", "there is no replication"},
    {"min-slaves-*", "there is no replication"},
    {"masterauth", "there is no replication"},
    {"masteruser", "there is no replication"},
    {"propagation-error-behavior", "there is no replication"},
    {"cluster-*", "there is no cluster"},
    {"tls-replication", "there is no replication"},
    {"tls-cluster", "there is no cluster"},
    {"tls-client-*", "the server connects to no other server"},
    {"tls-session-*", "OpenSSL's defaults apply to sessions"},
    {"tls-dh-params-file", "OpenSSL chooses the parameters"},
    {"tls-*", "server.tls in config/ebbtide.yaml has all keys of TLS"},
    {"daemonize", "the server stays in the foreground: use deploy/systemd"},
    {"supervised", "the server detects systemd by itself"},
    {"pidfile", "the server writes no pid file: use deploy/systemd"},
    {"syslog-*", "the log goes to standard output or log.file"},
    {"crash-*", "a crash logs one line"},
    {"always-show-logo", "there is no logo"},
    {"set-proc-title", "the server does not change the title of its process"},
    {"proc-title-template", "the server does not change the title of its process"},
    {"locale-collate", "SORT ALPHA compares bytes, in any locale"},
    {"lua-time-limit", "a long script delays no other client, and SCRIPT KILL ends it"},
    {"busy-reply-threshold", "a long script delays no other client, and SCRIPT KILL ends it"},
    {"shutdown-*", "the server syncs the log when it stops"},
    {"hz", "the server checks timeouts and expiries ten times a second; this is not configurable"},
    {"dynamic-hz", "the server checks timeouts and expiries ten times a second; this is not configurable"},
    {"list-*", "has no effect: Ebbtide's value encoding is not configurable"},
    {"hash-*", "has no effect: Ebbtide's value encoding is not configurable"},
    {"set-*", "has no effect: Ebbtide's value encoding is not configurable"},
    {"zset-*", "has no effect: Ebbtide's value encoding is not configurable"},
    {"hll-*", "has no effect: Ebbtide's value encoding is not configurable"},
    {"stream-*", "there are no streams"},
    {"activerehashing", "there is no hash table to grow"},
    {"io-threads-do-reads", "every event loop reads and writes: server.threads"},
    {"socket-mark-id", "not supported"},
    {"bind-source-addr", "the server opens no connections"},
    {"port-*", "not supported"},
    {"oom-score-adj*", "set OOMScoreAdjust= in the systemd unit"},
    {"disable-thp", "not needed: memory is not copied by a fork"},
    {"server-cpulist", "use CPUAffinity= in the systemd unit"},
    {"server_cpulist", "use CPUAffinity= in the systemd unit"},
    {"bio*", "use CPUAffinity= in the systemd unit"},
    {"bgsave*", "use CPUAffinity= in the systemd unit"},
    {"tracking-table-max-keys", "storage.memory_budget bounds that memory"},
    {"maxmemory-clients", "storage.memory_budget bounds that memory"},
    {"latency-tracking", "the times of commands are always recorded"},
    {"ignore-warnings", "not supported"},
    {"extended-redis-compatibility", "not supported"},
};

const char* reason_for(const std::string& name) {
  for (const Reason& reason : kReasons) {
    const std::string_view pattern = reason.name;
    const bool matches =
        pattern.back() == '*' ? name.compare(0, pattern.size() - 1, pattern.substr(0, pattern.size() - 1)) == 0 : name == pattern;
    if (matches) return reason.why;
  }
  return nullptr;
}

/// In Redis, "-::1" is an address that may be missing; here any address may be missing. "::*" and "*" mean all addresses.
std::string bind_value(const std::vector<std::string>& arguments) {
  std::string value;
  for (std::string address : arguments) {
    if (address.size() > 1 && address[0] == '-') address.erase(0, 1);
    if (address == "::*") address = "::";
    value += (value.empty() ? "" : " ") + address;
  }
  return value;
}

std::string value_of(const Directive& directive) {
  if (directive.name == "bind") return bind_value(directive.arguments);
  std::string value;
  for (const std::string& argument : directive.arguments) value += (value.empty() ? "" : " ") + argument;
  return value;
}

/// Applies a directive to the configuration. Returns "" on success, otherwise why the directive has no effect.
std::string translate(const Directive& directive, Config* config) {
  if (const ConfigKeyPtr key = find_redis_key(directive.name); key != nullptr) {
    const Status status = (key->redis_set ? key->redis_set : key->set)(*config, value_of(directive));
    if (status.is_ok()) return {};
    return key->name + ": " + std::string(status.message());
  }
  if (const char* why = reason_for(directive.name)) return why;
  return "unknown to this server";
}

/// Returns the text as one comment line. Control characters become spaces, so that none ends the line.
std::string comment(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return "# " + text + "\n";
}

/// Returns the directive's text without passwords, since people copy comments.
std::string shown(const Directive& directive) {
  static constexpr std::string_view kSecret[] = {"masterauth", "user", "tls-key-file-pass", "tls-client-key-file-pass"};
  const bool secret = std::find(std::begin(kSecret), std::end(kSecret), directive.name) != std::end(kSecret);
  return secret ? directive.name + " ..." : directive.text;
}

}  // namespace

Result<std::string> yaml_from_redis_conf(const std::string& text, const std::string& file) {
  TRY_ASSIGN(directives, parse(text, file));
  Config config;
  std::string notes;
  for (const Directive& directive : directives) {
    const std::string why = translate(directive, &config);
    if (!why.empty()) notes += comment("line " + std::to_string(directive.line) + ": " + shown(directive) + ": " + why);
  }
  TRY(validate(config).with_context(file));
  TRY_ASSIGN(yaml, rewrite_config("", file, config));
  std::string head = comment("Made from " + file + " by ebbtide-server --from-redis-conf. config/ebbtide.yaml has every key.");
  head += comment("storage.dir must be a directory of this server's own: it cannot read Redis's files.");
  if (!notes.empty()) head += "#\n" + comment("Not translated:") + notes;
  return head + yaml;
}

}  // namespace ebbtide

// Tests of the translation of redis.conf to YAML: each directive has its effect, or is in a comment with the reason.
#include "config/redis_conf.h"

#include <catch2/catch.hpp>

#include "config/config.h"

namespace ebbtide {
namespace TEST_FILE {

std::string yaml_of(const std::string& conf) {
  const auto yaml = yaml_from_redis_conf(conf, "redis.conf");
  return yaml.is_ok() ? *yaml : "error: " + std::string(yaml.status().message());
}

Config loaded(const std::string& conf) {
  const std::string yaml = yaml_of(conf);
  auto config = load_config_text(yaml, "made.yaml", {});
  INFO(yaml << config.status().to_string());
  REQUIRE(config.is_ok());
  return *config;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("directive of redis.conf has a key in Ebbtide: the YAML sets the key, and Redis's units and names are converted") {
  const Config config = loaded(
      "port 7000\nBIND 127.0.0.1 -::1\nmaxclients 500\ntimeout 30\ntcp-keepalive 60\nloglevel notice\nlogfile \"\"\nappendfsync "
      "always\n"
      "maxmemory 2gb\ndatabases 4\nslowlog-log-slower-than -1\nprotected-mode no\nnotify-keyspace-events KEA\nunixsocket "
      "/run/r.sock\n"
      "unixsocketperm 770\nclient-output-buffer-limit pubsub 64mb 16mb 90\nrequirepass \"a \\\"b\\\" \\x41\"\n");
  CHECK(config.port == 7000);
  CHECK(config.bind == std::vector<std::string>{"127.0.0.1", "::1"});
  CHECK(config.max_clients == 500);
  CHECK(config.timeout_ms == 30'000);
  CHECK(config.tcp_keepalive_ms == 60'000);
  CHECK(config.log_level == "info");
  CHECK(config.engine.fsync == FsyncMode::kAlways);
  CHECK(config.engine.memory_budget == std::uint64_t{2} << 30);
  CHECK(config.engine.databases == 4);
  CHECK(config.slowlog_slower_than_us == kNever);
  CHECK_FALSE(config.protected_mode);
  CHECK(config.notify_keyspace_events == "AKE");
  CHECK(config.unixsocket == "/run/r.sock");
  CHECK(config.unixsocket_mode == 0770);
  CHECK(config.pubsub_output_buffer.hard == std::uint64_t{64} << 20);
  CHECK(config.pubsub_output_buffer.soft_ms == 90'000);
  CHECK(config.password == "a \"b\" A");
}

TEST_CASE("directive of redis.conf has no key in Ebbtide: the YAML has it in a comment, with line number and reason") {
  const std::string yaml =
      yaml_of("# a comment\n\nsave 900 1\nmaxmemory-policy allkeys-lru\nhash-max-listpack-entries 128\nfrobnicate yes\n");
  CHECK(has(yaml, "# line 3: save 900 1: BGSAVE makes backups"));
  CHECK(has(yaml, "# line 4: maxmemory-policy allkeys-lru: no key is evicted"));
  CHECK(has(yaml, "# line 5: hash-max-listpack-entries 128: has no effect: Ebbtide's value encoding is not configurable"));
  CHECK(has(yaml, "# line 6: frobnicate yes: unknown to this server"));
  CHECK_FALSE(has(yaml, "a comment"));
}

TEST_CASE("redis.conf has a value that Ebbtide refuses: the YAML has it in a comment that says what is allowed") {
  const std::string yaml = yaml_of("maxclients 99999999\nport 7001\n");
  CHECK(has(yaml, "# line 1: maxclients 99999999: server.max_clients: '99999999' is not allowed; allowed: 1 to 1000000"));
  CHECK(has(yaml, "port: 7001"));
}

TEST_CASE("redis.conf has a directive: it sets a key, or is in a comment with its line number") {
  const std::string lines[] = {
      "port 6380",      "save \"\"",     "user bob on >secret ~* +@all", "include /etc/more.conf", "replicaof a 1",
      "tls-cluster no", "daemonize yes", "rename-command CONFIG \"\"",   "loadmodule x.so",        "cluster-enabled no",
      "io-threads 4"};
  for (const std::string& line : lines) {
    INFO(line);
    const std::string yaml = yaml_of(line + "\n");
    const bool named = has(yaml, "# line 1: ");
    const bool effect = has(yaml, "6380") || has(yaml, "threads: 4");
    CHECK(named != effect);
  }
}

TEST_CASE("redis.conf has TLS directives: they set TLS keys, and a TLS port without a certificate is an error") {
  const Config config = loaded("tls-port 6390\ntls-cert-file /c.pem\ntls-key-file /k.pem\ntls-auth-clients optional\n");
  CHECK(config.tls_port == 6390);
  CHECK(config.tls.cert_file == "/c.pem");
  CHECK(config.tls.key_file == "/k.pem");
  CHECK(config.tls.auth_clients == TlsClients::kOptional);
  CHECK(yaml_of("tls-port 6390\n") ==
        "error: redis.conf: server.tls.port is set and needs server.tls.cert_file and server.tls.key_file");
  CHECK(has(yaml_of("tls-replication yes\n"), "# line 1: tls-replication yes: there is no replication"));
  CHECK(has(yaml_of("tls-session-caching no\n"), "# line 1: tls-session-caching no: OpenSSL's defaults apply to sessions"));
}

TEST_CASE("redis.conf has a user's or a master's password: the translated YAML does not contain it") {
  const std::string yaml = yaml_of("user bob on >secret1 ~* +@all\nmasterauth secret2\n");
  CHECK(has(yaml, "# line 1: user ...: users are in a file of their own"));
  CHECK_FALSE(has(yaml, "secret"));
}

TEST_CASE("directive of redis.conf has control bytes: they cannot end the comment that contains the directive") {
  const std::string yaml = yaml_of("frobnicate a\rserver: {port: 1}\n");
  CHECK(loaded("frobnicate a\rserver: {port: 1}\n").port == 6379);
  CHECK_FALSE(has(yaml, "\r"));
}

TEST_CASE("redis.conf has unbalanced quotes: the error names the line") {
  CHECK(yaml_of("port 1\nrequirepass \"abc\n") == "error: redis.conf:2: unbalanced quotes: requirepass \"abc");
  CHECK(has(yaml_of("requirepass 'a'b\n"), "error: redis.conf:1: unbalanced quotes"));
}

TEST_CASE("redis.conf sets the port of the metrics: the translation fails with an error that names both ports") {
  CHECK(has(yaml_of("port 9736\n"), "error: redis.conf: metrics.port and server.port are both 9736"));
}

TEST_CASE("redis.conf is empty: the translated configuration has the defaults") { CHECK(loaded("").port == 6379); }

}  // namespace TEST_FILE
}  // namespace ebbtide

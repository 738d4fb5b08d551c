// ebbtide-server: parses the command line, and runs a Server.
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <system_error>

#include "admin/health_probe.h"
#include "commands/families.h"
#include "config/config.h"
#include "config/redis_conf.h"
#include "dispatch/permissions.h"
#include "log/server_log.h"
#include "machine/machine.h"
#include "server.h"

extern char** environ;

namespace ebbtide {
namespace {

std::vector<std::pair<std::string, std::string>> environment() {
  std::vector<std::pair<std::string, std::string>> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

constexpr std::int64_t kHealthMs = 4'000;  // below the timeouts of docker/Dockerfile and of Kubernetes' probes, 5 s

/// Asks the configured server for its health. Returns 0, or 1 if it is unhealthy: Docker reserves all other statuses.
int health(const Config& config) {
  const std::string why = probe_health({.metrics_bind = config.metrics_bind,
                                        .metrics_port = static_cast<std::uint16_t>(config.metrics_port),
                                        .metrics_tls = config.metrics_tls,
                                        .bind = config.bind.front(),
                                        .port = static_cast<std::uint16_t>(config.port)},
                                       kHealthMs);
  std::printf("%s\n", why.empty() ? "ready" : ("not ready: " + why).c_str());
  return why.empty() ? 0 : 1;
}

/// Prints the YAML that corresponds to a redis.conf.
int translate(const std::string& file) {
  auto text = read_text_file(file);
  auto yaml = text.is_ok() ? yaml_from_redis_conf(*text, file) : Result<std::string>(text.status());
  if (!yaml.is_ok()) {
    std::fprintf(stderr, "%s\n", std::string(yaml.status().message()).c_str());
    return 2;
  }
  std::fputs(yaml->c_str(), stdout);
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{"ebbtide-server: a disk-backed server that speaks the Redis protocol"};
  ConfigSources sources;
  std::string port, dir, redis_conf;
  std::vector<std::string> settings;
  bool check = false, ask_health = false, accept_clock = false;
  app.set_version_flag("--version", "ebbtide-server " EBBTIDE_VERSION);
  app.add_option("--config", sources.file, "YAML file with the configuration; if it is not given, every key has its default");
  app.add_option("--port", port, "short for --set server.port=N");
  app.add_option("--dir", dir, "short for --set storage.dir=PATH");
  app.add_option("--set", settings, "set a configuration key: a.b.c=value; repeatable")->allow_extra_args(false);
  app.add_flag("--accept-clock", accept_clock,
               "open the database even if the wall clock is more than 30 days ahead of its last use");
  app.add_flag("--check", check, "check the configuration and exit");
  app.add_flag("--health", ask_health,
               "ask the running server of this configuration if it is ready; exit with 0 if so, otherwise with 1");
  app.add_option("--from-redis-conf", redis_conf,
                 "print the YAML for a redis.conf, with a comment for each directive that has no key here, and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {  // --help and --version throw, too
    return app.exit(e) == 0 ? 0 : 2;
  }

  if (!redis_conf.empty()) return translate(redis_conf);
  sources.environment = environment();
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      std::fprintf(stderr, "--set %s: must be name=value, for example server.port=6379\n", setting.c_str());
      return 2;
    }
    sources.command_line.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  if (!port.empty()) sources.command_line.emplace_back("server.port", port);
  if (accept_clock) sources.command_line.emplace_back("storage.accept_clock", "true");
  if (!dir.empty()) sources.command_line.emplace_back("storage.dir", dir);
  sources.commands = std::make_shared<const AclCatalog>(acl_catalog(CommandTable(command_families())));
  sources.memory = usable_memory().bytes;
  auto config = load_config(sources);
  if (!config.is_ok()) {
    std::fprintf(stderr, "%s\n", escape_controls(config.status().message()).c_str());  // the message may quote the file
    return ask_health ? 1 : 2;
  }
  if (ask_health) return health(*config);
  if (!config->file.empty()) config->file = std::filesystem::absolute(config->file).string();
  if (check) {
    std::printf("the configuration is valid\n");
    return 0;
  }
  ::umask(077);
  set_core_dumps(config->core_dumps);
  give_freed_memory_back();
  return Server(std::move(*config), argv[0]).run();
}

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) {
  try {
    return ebbtide::run(argc, argv);
  } catch (const std::system_error& e) {
    const bool refused = e.code() == std::errc::resource_unavailable_try_again;  // for example, no memory for a thread's stack
    std::fprintf(stderr, "ebbtide-server: %s%s\n", e.what(),
                 refused
                     ? ": out of memory or threads: a limit of the process (ulimit -v, ulimit -u) or of the machine is too small"
                     : "");
    return 1;
  } catch (const std::exception& e) {  // yaml-cpp, spdlog and the allocator throw exceptions; other code must not
    std::fprintf(stderr, "ebbtide-server: %s\n", e.what());
    return 1;
  }
}

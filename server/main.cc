// ebbtide-server: the command line, then Server.
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <system_error>

#include "config/config.h"
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

int run(int argc, char** argv) {
  CLI::App app{"ebbtide-server: a disk-backed server that speaks the Redis protocol"};
  ConfigSources sources;
  std::string port, dir;
  std::vector<std::string> settings;
  bool check = false, accept_clock = false;
  app.set_version_flag("--version", "ebbtide-server " EBBTIDE_VERSION);
  app.add_option("--config", sources.file, "YAML file; without it, every key has its default");
  app.add_option("--port", port, "short for --set server.port=N");
  app.add_option("--dir", dir, "short for --set storage.dir=PATH");
  app.add_option("--set", settings, "a.b.c=value; repeatable")->allow_extra_args(false);
  app.add_flag("--accept-clock", accept_clock, "open the data although the wall clock is over 30 days past its last use");
  app.add_flag("--check", check, "check the configuration and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {  // also --help and --version
    return app.exit(e) == 0 ? 0 : 2;
  }

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
  auto config = load_config(sources);
  if (!config.is_ok()) {
    std::fprintf(stderr, "%s\n", std::string(config.status().message()).c_str());
    return 2;
  }
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
    const bool refused = e.code() == std::errc::resource_unavailable_try_again;  // e.g. no memory for a thread's stack
    std::fprintf(stderr, "ebbtide-server: %s%s\n", e.what(),
                 refused
                     ? ": out of memory or threads: a limit of the process (ulimit -v, ulimit -u) or of the machine is too small"
                     : "");
    return 1;
  } catch (const std::exception& e) {  // yaml-cpp, spdlog and the allocator throw; nothing else may
    std::fprintf(stderr, "ebbtide-server: %s\n", e.what());
    return 1;
  }
}

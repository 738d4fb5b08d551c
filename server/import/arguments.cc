#include "import/arguments.h"

#include <cstdio>
#include <cstdlib>

#include "import/input_file.h"

namespace ebbtide {

void add_endpoint_flags(CLI::App* app, Endpoint* endpoint, std::string* password_file, const std::string& what) {
  app->add_option("--host", endpoint->host, "address of " + what)->capture_default_str()->type_name("ADDRESS");
  app->add_option("-p,--port", endpoint->port, "port of " + what)
      ->capture_default_str()
      ->check(CLI::Range(1, 65535))
      ->type_name("N");
  app->add_option("--unixsocket", endpoint->unixsocket, "Unix socket of " + what + ", instead of address and port")
      ->type_name("PATH");
  app->add_option("--user", endpoint->user, "user, if it is not the default one")->type_name("NAME");
  app->add_option("--password-file", *password_file, "file with the password; default: the environment variable REDISCLI_AUTH")
      ->type_name("FILE");
}

Status read_password(const std::string& file, const char* variable, Endpoint* endpoint) {
  if (file.empty()) {
    const char* const given = std::getenv(variable);
    if (given != nullptr) endpoint->password = given;
    return Status::ok();
  }
  constexpr std::uint64_t kMaxBytes = 4096;
  TRY_ASSIGN(input, InputFile::open(file));
  while (input->offset() < kMaxBytes) {
    TRY_ASSIGN(next, input->peek());
    if (!next || *next == '\n' || *next == '\r') break;
    TRY(input->take(1, &endpoint->password));
  }
  return endpoint->password.empty() ? Status::invalid_argument(file + ": the first line has no password") : Status::ok();
}

int fail(const char* tool, int status, const Status& why) {
  std::fprintf(stderr, "%s: %s\n", tool, why.to_string().c_str());
  return status;
}

}  // namespace ebbtide

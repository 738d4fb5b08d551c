// Flags that the import and export tools share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "import/connection.h"

namespace ebbtide {

/// Adds --host, --port, --unixsocket, --user and --password-file for `what`, such as "the server".
void add_endpoint_flags(CLI::App* app, Endpoint* endpoint, std::string* password_file, const std::string& what);
/// Reads the password: from `file` if it is not "", else from the environment variable `variable`.
Status read_password(const std::string& file, const char* variable, Endpoint* endpoint);

/// Prints "TOOL: message" to standard error and returns the exit status.
int fail(const char* tool, int status, const Status& why);

}  // namespace ebbtide

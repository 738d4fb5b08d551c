// Tests of TLS files that are missing or do not fit. Handshakes are in tests/contract/test_tls.py.
#include "tls/tls_context.h"

#include <catch2/catch.hpp>
#include <string>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("TLS certificate is missing: no context is made, and the error names the configuration key and the file", "[tls]") {
  TlsSettings settings;
  settings.cert_file = "/no/such.crt";
  settings.key_file = "/no/such.key";
  std::string error;
  CHECK(TlsContext::make(settings, &error) == nullptr);
  CHECK(error.starts_with("server.tls.cert_file /no/such.crt: "));
}

TEST_CASE("password file of the TLS key is missing: the error names it, and the key is not read", "[tls]") {
  TlsSettings settings;
  settings.cert_file = "c";
  settings.key_file = "k";
  settings.key_password_file = "/no/such";
  std::string error;
  CHECK(TlsContext::make(settings, &error) == nullptr);
  CHECK(error == "server.tls.key_password_file /no/such: cannot be read or is empty");
}

TEST_CASE("TLS key file is a pipe or a device: it is refused and not opened", "[tls]") {
  TlsSettings settings;
  settings.cert_file = "c";
  settings.key_file = "/dev/null";
  std::string error;
  CHECK(TlsContext::make(settings, &error) == nullptr);
  CHECK(error ==
        "server.tls.key_file /dev/null: is a pipe or a device, not a regular file; write its content to a file, and give "
        "that file's path");
}

}  // namespace TEST_FILE

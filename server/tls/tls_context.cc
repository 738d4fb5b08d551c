#include "tls/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>
#include <vector>

namespace ebbtide {
namespace {

/// Returns the latest OpenSSL error of this thread, and clears all of them.
std::string openssl_error() {
  char text[256] = "unknown error";
  if (const unsigned long code = ERR_peek_last_error(); code != 0) ERR_error_string_n(code, text, sizeof(text));
  ERR_clear_error();
  // The text is like "error:0A00018F:SSL routines::ee key too small". Only its last part helps people.
  const char* last = std::strrchr(text, ':');
  return last == nullptr || last[1] == '\0' ? text : last + 1;
}

/// Reads a file without its final newline, through OpenSSL.
bool read_secret(const std::string& file, std::string* out) {
  BIO* in = BIO_new_file(file.c_str(), "rb");
  if (in == nullptr) return false;
  char text[1024];
  const int n = BIO_read(in, text, sizeof(text));
  BIO_free(in);
  if (n <= 0) return false;
  out->assign(text, static_cast<std::size_t>(n));
  OPENSSL_cleanse(text, sizeof(text));
  while (!out->empty() && (out->back() == '\n' || out->back() == '\r')) out->pop_back();
  return !out->empty();
}

int give_password(char* buffer, int size, int, void* user) {
  const auto& password = *static_cast<const std::string*>(user);
  if (password.size() > static_cast<std::size_t>(size)) return -1;
  std::memcpy(buffer, password.data(), password.size());
  return static_cast<int>(password.size());
}

bool set_protocols(SSL_CTX* context, const std::string& protocols) {
  const bool has_12 = protocols.empty() || protocols.find("TLSv1.2") != std::string::npos;
  const bool has_13 = protocols.empty() || protocols.find("TLSv1.3") != std::string::npos;
  return (has_12 || has_13) && SSL_CTX_set_min_proto_version(context, has_12 ? TLS1_2_VERSION : TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(context, has_13 ? TLS1_3_VERSION : TLS1_2_VERSION) == 1;
}

std::string load_certificate(SSL_CTX* context, const TlsSettings& settings) {
  std::string password;
  if (!settings.key_password_file.empty() && !read_secret(settings.key_password_file, &password)) {
    ERR_clear_error();
    return "server.tls.key_password_file " + settings.key_password_file + ": cannot be read or is empty";
  }
  SSL_CTX_set_default_passwd_cb(context, give_password);
  SSL_CTX_set_default_passwd_cb_userdata(context, &password);
  std::string why;
  if (SSL_CTX_use_certificate_chain_file(context, settings.cert_file.c_str()) != 1) {
    why = "server.tls.cert_file " + settings.cert_file + ": " + openssl_error();
  } else if (SSL_CTX_use_PrivateKey_file(context, settings.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
             SSL_CTX_check_private_key(context) != 1) {
    why = "server.tls.key_file " + settings.key_file + ": " + openssl_error();
  }
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  OPENSSL_cleanse(password.data(), password.size());
  return why;
}

std::string set_clients(SSL_CTX* context, const TlsSettings& settings) {
  if (settings.auth_clients == TlsClients::kNo) return {};
  if (settings.ca_cert_file.empty()) {
    return "server.tls.auth_clients yes or optional needs server.tls.ca_cert_file, whose authorities are trusted";
  }
  STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(settings.ca_cert_file.c_str());
  if (names == nullptr || SSL_CTX_load_verify_file(context, settings.ca_cert_file.c_str()) != 1) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    return "server.tls.ca_cert_file " + settings.ca_cert_file + ": " + openssl_error();
  }
  SSL_CTX_set_client_CA_list(context, names);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (settings.auth_clients == TlsClients::kYes ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                     nullptr);
  return {};
}

/// Returns an error if one of the files is a pipe or a device: opening a named pipe without a writer would block.
std::string find_special_file(const TlsSettings& settings) {
  const std::pair<const char*, const std::string*> files[] = {{"cert_file", &settings.cert_file},
                                                              {"key_file", &settings.key_file},
                                                              {"key_password_file", &settings.key_password_file},
                                                              {"ca_cert_file", &settings.ca_cert_file}};
  for (const auto& [name, path] : files) {
    std::error_code error;
    if (!std::filesystem::is_other(*path, error)) continue;
    return "server.tls." + std::string(name) + " " + *path +
           ": is a pipe or a device, not a regular file; write its content to a file, and give that file's path";
  }
  return {};
}

std::int64_t expiry_of(const SSL_CTX* context) {
  const X509* certificate = SSL_CTX_get0_certificate(context);
  std::tm time{};
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time) != 1) return 0;
  return static_cast<std::int64_t>(::timegm(&time));
}

}  // namespace

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

std::shared_ptr<const TlsContext> TlsContext::make(const TlsSettings& settings, std::string* error) {
  ERR_clear_error();
  if (*error = find_special_file(settings); !error->empty()) return nullptr;
  std::shared_ptr<TlsContext> made(new TlsContext);
  SSL_CTX* const context = made->context_ = SSL_CTX_new(TLS_server_method());
  if (context == nullptr || !set_protocols(context, settings.protocols)) return *error = "TLS: " + openssl_error(), nullptr;
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  // A loop writes as many bytes as the socket takes. These bytes are in an output buffer, and may move before the next attempt.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);  // otherwise each record takes two receives
  static constexpr unsigned char kName[] = "ebbtide";
  SSL_CTX_set_session_id_context(context, kName, sizeof(kName) - 1);
  *error = load_certificate(context, settings);
  if (error->empty()) *error = set_clients(context, settings);
  if (!error->empty()) return nullptr;
  made->expires_at_ = expiry_of(context);
  return made;
}

}  // namespace ebbtide

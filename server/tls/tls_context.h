// The server's side of TLS: certificate, private key, and the certificates that clients must show.
//
// A context never changes. A reload makes another context for new connections; existing ones keep theirs. TLS 1.2 and 1.3 are on;
// renegotiation and compression are off. Sessions are resumed by tickets, whose keys live as long as the context.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

struct ssl_ctx_st;

namespace ebbtide {

/// kNo: clients need no certificate; kOptional: they may show one; kYes: they must show one.
enum class TlsClients : std::uint8_t { kNo, kOptional, kYes };

/// The files are in PEM form; "" = none.
struct TlsSettings {
  std::string cert_file;          ///< the certificate, followed by its intermediate certificates
  std::string key_file;           ///< the certificate's private key
  std::string key_password_file;  ///< file with the password of an encrypted private key
  std::string ca_cert_file;       ///< certificates of the authorities that may sign certificates of clients
  TlsClients auth_clients = TlsClients::kYes;
  std::string protocols;  ///< "TLSv1.2 TLSv1.3", one of them, or ""
  friend bool operator==(const TlsSettings&, const TlsSettings&) = default;
};

/// Immutable, so thread-safe.
class TlsContext {
 public:
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  /// Reads the files. Returns null if a file is missing, does not parse or does not match the others. Then `*error` names the
  /// file and the reason, and never has a secret.
  static std::shared_ptr<const TlsContext> make(const TlsSettings& settings, std::string* error);

  /// Returns the Unix time, in seconds, at which the certificate expires.
  [[nodiscard]] std::int64_t expires_at() const { return expires_at_; }
  /// Returns OpenSSL's context. For TlsStream only.
  [[nodiscard]] ssl_ctx_st* native() const { return context_; }

 private:
  TlsContext() = default;

  ssl_ctx_st* context_ = nullptr;
  std::int64_t expires_at_ = 0;
};

}  // namespace ebbtide

#include "tls/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ebbtide {

TlsStream::TlsStream(std::shared_ptr<const TlsContext> context, int socket)
    : context_(std::move(context)), ssl_(SSL_new(context_->native())) {
  if (ssl_ == nullptr || SSL_set_fd(ssl_, socket) != 1) {
    failed_ = true;
    failure_ = "no memory";
    return;
  }
  SSL_set_accept_state(ssl_);
}

TlsStream::~TlsStream() { SSL_free(ssl_); }

TlsStream::Io TlsStream::result_of(int result) {
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_NONE:
      return Io::kOk;
    case SSL_ERROR_WANT_READ:
      return Io::kWaitsToRead;
    case SSL_ERROR_WANT_WRITE:
      return Io::kWaitsToWrite;
    case SSL_ERROR_ZERO_RETURN:
      return Io::kEnd;
    case SSL_ERROR_SYSCALL:
      failure_ = errno == 0 ? "the peer has closed the connection" : std::strerror(errno);
      break;
    default: {
      const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
      failure_ = reason == nullptr ? "protocol error" : reason;
    }
  }
  failed_ = true;
  return Io::kError;
}

TlsStream::Io TlsStream::shake_hands() {
  if (failed_) return Io::kError;
  ERR_clear_error();
  errno = 0;
  const Io io = result_of(SSL_do_handshake(ssl_));
  if (io == Io::kOk) established_ = true;
  if (io == Io::kEnd) failed_ = true;
  return io;
}

TlsStream::Io TlsStream::read(std::span<char> room, std::size_t* n) {
  *n = 0;
  if (failed_) return Io::kError;
  ERR_clear_error();
  errno = 0;
  return result_of(SSL_read_ex(ssl_, room.data(), room.size(), n));
}

TlsStream::Io TlsStream::write(std::span<const char> bytes, std::size_t* n) {
  *n = 0;
  if (failed_) return Io::kError;
  ERR_clear_error();
  errno = 0;
  return result_of(SSL_write_ex(ssl_, bytes.data(), bytes.size(), n));
}

bool TlsStream::has_more() const { return SSL_has_pending(ssl_) == 1; }

void TlsStream::close() {
  if (!established_ || failed_) return;
  ERR_clear_error();
  (void)SSL_shutdown(ssl_);
  ERR_clear_error();
}

}  // namespace ebbtide

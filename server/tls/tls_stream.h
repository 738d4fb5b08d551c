// TLS on one non-blocking socket.
//
// The stream receives from the socket and sends to it. Like the socket it never waits: after kWaitsToRead or kWaitsToWrite the
// caller waits until the socket can be read or written, and then makes the same call again. A call may read more from the socket
// than it returns, so only kWaitsToRead, or the rule at kLittleBytes, shows that the socket is empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tls/tls_context.h"

struct ssl_st;

namespace ebbtide {

/// Not thread-safe. It may move to another thread between calls.
class TlsStream {
 public:
  enum class Io : std::uint8_t { kOk, kWaitsToRead, kWaitsToWrite, kEnd, kError };

  /// The caller owns the socket, which must outlive the stream's last call.
  TlsStream(std::shared_ptr<const TlsContext> context, int socket);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// Continues the handshake. Returns kOk once it is done. After kError, failure() has the reason.
  Io shake_hands();
  [[nodiscard]] bool established() const { return established_; }
  /// Decrypts at most one record into `room`. kEnd: the peer sends no more.
  Io read(std::span<char> room, std::size_t* n);
  /// Encrypts and sends a part of `bytes`, as one record. After kWaitsToWrite the next call must have the same bytes.
  Io write(std::span<const char> bytes, std::size_t* n);
  /// Returns true if bytes that were received from the socket are left for read().
  [[nodiscard]] bool has_more() const;
  /// Notifies the peer that no more data comes, if the socket takes the notice.
  void close();
  /// Returns why the handshake failed, as a text for the log.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// The memory of an idle stream in bytes: a thousand streams took 15 KiB each.
  static constexpr std::size_t kMemoryBytes = 16 << 10;
  /// If read() has returned fewer bytes since the stream last waited or was empty, and the stream is empty again, then the socket
  /// is empty, too: the stream always receives more than that at once.
  static constexpr std::size_t kLittleBytes = 8 << 10;
  /// The most bytes of a record.
  static constexpr std::size_t kRecordBytes = 16 << 10;

 private:
  Io result_of(int result);

  std::shared_ptr<const TlsContext> context_;
  ssl_st* ssl_ = nullptr;
  bool established_ = false, failed_ = false;
  std::string failure_;
};

}  // namespace ebbtide

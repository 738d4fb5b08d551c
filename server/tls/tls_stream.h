// TLS on one non-blocking socket.
//
// The stream receives from the socket and sends to it. Like the socket it never waits: after kWaitsToRead or kWaitsToWrite the
// caller waits until the socket is readable or writable, and then makes the same call again. A call may receive more than it
// returns. So the socket is known to be empty only after kWaitsToRead, or by the rule at kLittleBytes.
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

  /// The caller owns the socket, which must stay open until the last call of this object.
  TlsStream(std::shared_ptr<const TlsContext> context, int socket);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// Continues the handshake. kOk: it is done. kError: failure() has the reason.
  Io shake_hands();
  [[nodiscard]] bool established() const { return established_; }
  /// Decrypts at most one record into `room`. kEnd: the peer sends no more.
  Io read(std::span<char> room, std::size_t* n);
  /// Encrypts and sends a part of `bytes` as one record, and sets `*n`. After kWaitsToWrite the next call must begin with the
  /// same bytes.
  Io write(std::span<const char> bytes, std::size_t* n);
  /// Returns true if bytes that were already received remain for read().
  [[nodiscard]] bool has_more() const;
  /// Sends the notice that no more data comes, if the socket takes it at once.
  void close();
  /// Returns why the handshake failed, for the log.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// The memory of an idle stream in bytes: a thousand streams took 15 KiB each when measured.
  static constexpr std::size_t kMemoryBytes = 16 << 10;
  /// The stream receives more bytes than this at once whenever it can. Suppose that the stream is empty, and read() has returned
  /// fewer bytes than this since the stream was last empty or waited. Then the socket is empty, too.
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

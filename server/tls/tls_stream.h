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
  /// Sends close_notify if the socket accepts it without waiting; otherwise sends nothing.
  void close();
  /// Returns why the handshake failed, for the log.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// The memory of an idle stream in bytes: a thousand streams took 15 KiB each when measured.
  static constexpr std::size_t kMemoryBytes = 16 << 10;
  /// If has_more() is false, and read() has returned fewer bytes than this in total, the socket is empty, too: no further read() is
  /// needed. The total starts when has_more() is false or read() returns kWaitsToRead. The stream receives more than this at once
  /// if the socket has it.
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

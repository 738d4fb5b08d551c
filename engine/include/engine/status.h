// Status is the result of a call that can fail: a code for the caller, and a sentence that says what is wrong and where.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <engine/bytes.h>

namespace ebbtide {

enum class Code : std::uint8_t {
  kOk = 0,
  kNotFound,     ///< no such key, file or name
  kNotResident,  ///< a read that may not block needs pages that are not in memory; they were added to its MissSet
  kRetry,  ///< a condition that the caller relied on has changed, such as an expiry that has passed; run again from the start
  kInvalidArgument,  ///< the caller's input is wrong
  kCorruption,       ///< bytes on disk fail their checksum or grammar; the message names file and offset
  kIoError,          ///< a call of the operating system failed
  kNoSpace,          ///< the disk is full, or the data directory has reached Settings::max_disk_bytes
  kOutOfMemory,      ///< the memory budget is spent
  kReadOnly,         ///< the engine takes no writes now; the message says why
  kRevoked,          ///< the read view was revoked to meet a delete deadline
  kBusy,             ///< in use by another process, or already running
  kExists,           ///< the name is in use
  kUnsupported,      ///< the request is valid, but this version, or this file system, does not support it
  kAborted,          ///< stopped on request, for example by a shutdown or because the job had to yield
  kUnknownOutcome,   ///< the log failed before the write was durable: the write may or may not survive
};

/// Returns the name of a code for messages: "corruption", "no space", ...
const char* code_name(Code code);

/// Success, or a code with a message. A successful Status allocates no memory. Thread-safe as long as no thread changes it.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : code_(code), message_(message.empty() ? nullptr : std::make_shared<const std::string>(std::move(message))) {}

  static Status ok() { return {}; }
  static Status not_found(std::string m = {}) { return {Code::kNotFound, std::move(m)}; }
  static Status not_resident() { return {Code::kNotResident, {}}; }
  static Status retry() { return {Code::kRetry, {}}; }
  static Status invalid_argument(std::string m) { return {Code::kInvalidArgument, std::move(m)}; }
  static Status corruption(std::string m) { return {Code::kCorruption, std::move(m)}; }
  static Status io_error(std::string m) { return {Code::kIoError, std::move(m)}; }
  static Status no_space(std::string m) { return {Code::kNoSpace, std::move(m)}; }
  /// `bytes`: size of the refused charge. 0: waiting for room would not help the caller.
  static Status out_of_memory(std::string m, std::uint64_t bytes = 0) {
    Status status(Code::kOutOfMemory, std::move(m));
    status.refused_kib_ = static_cast<std::uint32_t>(std::min<std::uint64_t>((bytes + 1023) / 1024, ~std::uint32_t{0}));
    return status;
  }
  static Status read_only(std::string m) { return {Code::kReadOnly, std::move(m)}; }
  static Status revoked(std::string m) { return {Code::kRevoked, std::move(m)}; }
  static Status busy(std::string m) { return {Code::kBusy, std::move(m)}; }
  static Status exists(std::string m) { return {Code::kExists, std::move(m)}; }
  static Status unsupported(std::string m) { return {Code::kUnsupported, std::move(m)}; }
  static Status aborted(std::string m) { return {Code::kAborted, std::move(m)}; }
  static Status unknown_outcome(std::string m) { return {Code::kUnknownOutcome, std::move(m)}; }

  [[nodiscard]] bool is_ok() const { return code_ == Code::kOk; }
  [[nodiscard]] bool is_not_found() const { return code_ == Code::kNotFound; }
  [[nodiscard]] bool is_not_resident() const { return code_ == Code::kNotResident; }
  [[nodiscard]] Code code() const { return code_; }
  /// For kOutOfMemory only: returns the bytes of the refused charge, rounded up to a KiB. 0: waiting for room would not help.
  [[nodiscard]] std::uint64_t refused_bytes() const { return std::uint64_t{refused_kib_} * 1024; }
  /// Returns the message without the code's name, or "" on success.
  [[nodiscard]] Bytes message() const { return message_ ? Bytes(*message_) : Bytes(); }
  /// Returns the code's name and the message: "corruption: 000012.data: page at 8192: checksum mismatch".
  [[nodiscard]] std::string to_string() const;

  /// Returns the same status with "context: " before its message. Success stays success.
  [[nodiscard]] Status with_context(Bytes context) const;

 private:
  Code code_ = Code::kOk;
  std::uint32_t refused_kib_ = 0;  // placed before message_, where it takes no extra space
  std::shared_ptr<const std::string> message_;
};

}  // namespace ebbtide

/// Evaluates `expr`, a Status; if it is not ok, returns it from the calling function.
#define TRY(expr)                                                                  \
  do {                                                                             \
    if (::ebbtide::Status try_status_ = (expr); !try_status_.is_ok()) [[unlikely]] \
      return try_status_;                                                          \
  } while (false)

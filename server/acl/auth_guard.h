// Delays and logs authentication attempts after failures from the same network.
//
// The first failures from a network cause no delay, since people mistype. After them, each attempt waits before its password is
// checked, right or wrong, so that the delay reveals nothing. The delay doubles with each failure, up to kMaxDelayMs. So a client
// of that network with the right password waits at most that long.
//
// Effect: at most limits.unauthenticated_clients connections (128) wait at the same time. So one network tries 128 / 2 s = 64
// passwords a second, instead of 200,000. Guessing a random password of 8 letters and digits (2.8 * 10^12) takes 1,400 years.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include <engine/types.h>

namespace ebbtide {

/// Thread-safe. Times are milliseconds of one monotonic clock.
class AuthGuard {
 public:
  static constexpr std::uint32_t kFreeFailures = 3;
  static constexpr std::uint32_t kFirstDelayMs = 100;
  static constexpr std::uint32_t kMaxDelayMs = 2'000;  ///< well below limits.authentication_timeout, 10 s
  static constexpr std::int64_t kForgetMs = 60'000;    ///< a network without a failure for this long is forgotten
  /// The most networks that are remembered, at 150 bytes each: 600 KB. A peer with more networks can displace the oldest ones,
  /// but each of these had only 3 attempts.
  static constexpr std::size_t kNetworks = 4'096;
  static constexpr std::int64_t kLogMs = 10'000;     ///< at most one log line per network in this time
  static constexpr std::uint32_t kLinesASecond = 5;  ///< log lines of all networks together

  /// Returns how many ms an attempt from this network waits before its password is checked.
  [[nodiscard]] std::uint32_t delay_ms(Bytes network, std::int64_t now_ms);
  /// Counts a failed attempt. Returns the line to log; nullopt if too many lines were logged.
  [[nodiscard]] std::optional<std::string> failed(Bytes network, Bytes address, Bytes user, std::int64_t now_ms);
  /// Returns how many networks with recent failures are remembered.
  [[nodiscard]] std::size_t networks() const;

 private:
  struct Network {
    std::string name;
    std::uint32_t failures = 0;
    std::int64_t last_ms = 0;
    std::optional<std::int64_t> logged_ms;
    std::uint64_t unlogged = 0;
  };
  using InOrder = std::list<Network>;

  void forget(std::int64_t now_ms);
  bool line_allowed(std::int64_t now_ms);

  mutable std::mutex mutex_;
  InOrder in_order_;                                            // guarded by mutex_; by last failure, earliest first
  std::unordered_map<std::string, InOrder::iterator> by_name_;  // guarded by mutex_
  std::int64_t second_ = 0;                                     // the second in which lines_ lines were logged
  std::uint32_t lines_ = 0;                                     // guarded by mutex_
};

}  // namespace ebbtide

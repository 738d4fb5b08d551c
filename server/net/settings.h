// Settings and counters of the network.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "net/strangers.h"

namespace ebbtide {

/// Limits of the bytes that wait to be sent to one client. The server closes the client when they exceed `hard`, or when they
/// have exceeded `soft` for `soft_ms`. 0: no limit.
struct OutputLimits {
  std::uint64_t hard = 0, soft = 0;
  std::int64_t soft_ms = 60'000;
};

/// Limits of connections. Each loop has a copy, which is replaced as a whole when a setting changes.
struct NetSettings {
  std::uint64_t max_clients = 10'000;
  std::uint64_t max_strangers = 128;                           ///< connections that must authenticate and have not
  std::int64_t auth_timeout_ms = 10'000;                       ///< 0: off
  std::int64_t idle_timeout_ms = 0;                            ///< 0: off
  std::int64_t tcp_keepalive_ms = 300'000;                     ///< 0: off
  std::uint64_t query_buffer_bytes = std::uint64_t{64} << 20;  ///< the most unparsed input of a client, without one big bulk
  std::uint64_t max_bulk_bytes = std::uint64_t{512} << 20;
  OutputLimits output = {.hard = std::uint64_t{256} << 20, .soft = std::uint64_t{64} << 20};
  /// Limits of subscribers, and of clients in MONITOR.
  OutputLimits subscriber_output = {.hard = std::uint64_t{32} << 20, .soft = std::uint64_t{8} << 20};
  std::uint64_t memory_budget = 0;  ///< budget of the whole server; the output of one client may take half of it; 0: no limit
  bool password_required = false;   ///< new connections must authenticate
  bool protected_mode = true;       ///< without a password, clients of other machines are refused
  int tcp_backlog = 511;
};

/// A counter with one writer and any number of readers.
class NetCounter {
 public:
  void add(std::uint64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// The counts of one loop, which the loop's thread writes.
struct LoopCounters {
  NetCounter bytes_in, bytes_out, reads, writes, waits, passes, commands, closed;
  NetCounter query_limit_closes, output_limit_closes, idle_closes, auth_timeout_closes, protocol_errors, security_closes,
      memory_closes, values_refused, tls_handshakes, tls_failures;
  // How many passes there were, by duration, which includes receiving their commands. Bucket i has an upper bound of 2^i
  // microseconds; the last bucket has all longer passes.
  static constexpr int kPassBuckets = 24;
  NetCounter pass_bucket[kPassBuckets];
  NetCounter pass_nanos;
};

/// The ids of the connected clients. Thread-safe.
class LiveClients {
 public:
  void add(std::uint64_t id) {
    std::lock_guard lock(mutex_);
    ids_.insert(id);
  }
  void remove(std::uint64_t id) {
    std::lock_guard lock(mutex_);
    ids_.erase(id);
  }
  [[nodiscard]] bool contains(std::uint64_t id) const {
    std::lock_guard lock(mutex_);
    return ids_.contains(id);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_set<std::uint64_t> ids_;  // guarded by mutex_
};

/// State that all loops and the listener share. Thread-safe.
struct NetShared {
  LiveClients live;
  std::atomic<std::uint64_t> next_client_id{1};
  std::atomic<std::uint64_t> clients{0}, strangers{0};  ///< including connections that no loop has taken yet
  Strangers unauthenticated;                            ///< unauthenticated clients that a loop has taken
  std::atomic<std::uint64_t> accepted{0}, rejected_max_clients{0}, rejected_protected{0}, rejected_strangers{0},
      evicted_strangers{0}, accept_errors{0};
  /// The time at which an HTTP request (POST or Host:) was last logged, in ms; this is logged at most once a minute. 0: never.
  std::atomic<std::int64_t> attack_told_ms{0};
};

enum class NetLog : std::uint8_t { kDebug, kInfo, kWarning };

/// Charges connections to the memory budget. Thread-safe. A caller must release the charges that it has made.
class ClientMemory {
 public:
  virtual ~ClientMemory() = default;
  /// Charge and release bytes of query and output buffers.
  virtual void charge_buffers(std::uint64_t bytes) = 0;
  virtual void release_buffers(std::uint64_t bytes) = 0;
  /// Charges large values while they are received. If the budget has no room, charges nothing and returns false.
  [[nodiscard]] virtual bool try_charge_values(std::uint64_t bytes) = 0;
  virtual void charge_values(std::uint64_t bytes) = 0;
  virtual void release_values(std::uint64_t bytes) = 0;
  /// Returns a value with the same bytes, which owns their charge and releases it with its last copy. So the caller must not
  /// release it.
  [[nodiscard]] virtual std::shared_ptr<const std::string> own_value(std::shared_ptr<const std::string> value) = 0;
  /// Charges `bytes` for input that outlives its connection. Returns the same memory; the charge is released with its last owner.
  [[nodiscard]] virtual std::shared_ptr<const void> own_input(std::shared_ptr<const void> input, std::uint64_t bytes) = 0;
  /// Returns true if the budget is used up and client buffers have a considerable part of it. Then the loops close the
  /// connections with the largest buffers.
  [[nodiscard]] virtual bool short_of_buffers() const = 0;
  /// Returns true if buffers have grown by a considerable part of the budget since it was used up. Closing only the largest is
  /// then too slow: the loops close each connection that grows, unless it is small.
  [[nodiscard]] virtual bool overdrawn() const = 0;
};

/// The environment of the network, as functions, since this layer cannot include the server's. Any thread may call them.
struct NetEnv {
  /// Unix time in ms; each loop reads it once, at its start, so that a jump of the clock causes no timeout.
  std::function<std::int64_t()> unix_ms;
  std::function<std::uint64_t()> mono_ns;               ///< a monotonic clock
  std::function<void(NetLog, const std::string&)> log;  ///< logs one sentence
  ClientMemory* memory = nullptr;                       ///< null: no memory is charged
};

/// Shows how far the log has advanced, for replies that wait for it. Any thread may call this.
class ReplyGate {
 public:
  virtual ~ReplyGate() = default;
  /// Writes the queued batches to the log. A loop calls this at the end of a pass. Returns false if none was queued.
  virtual bool end_of_pass() = 0;
  /// Returns the seq up to which replies may leave.
  [[nodiscard]] virtual std::uint64_t durable_seq() const = 0;
  /// Returns true if the engine refuses writes. Replies that wait for a seq after durable_seq() then have an unknown outcome, and
  /// might wait forever.
  [[nodiscard]] virtual bool failed() const = 0;
};

}  // namespace ebbtide

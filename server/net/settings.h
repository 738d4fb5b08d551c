// What the network may be told, and what it tells.
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

/// How many bytes may wait to be sent to one client. At `hard` it is closed, and after `soft_ms` above `soft`; 0 = no limit.
struct OutputLimits {
  std::uint64_t hard = 0, soft = 0;
  std::int64_t soft_ms = 60'000;
};

/// Limits of connections. A value: each loop has its copy, replaced as a whole when a setting changes.
struct NetSettings {
  std::uint64_t max_clients = 10'000;
  std::uint64_t max_strangers = 128;                           ///< connections that have not authenticated, password set
  std::int64_t auth_timeout_ms = 10'000;                       ///< 0 = off
  std::int64_t idle_timeout_ms = 0;                            ///< 0 = off
  std::int64_t tcp_keepalive_ms = 300'000;                     ///< 0 = off
  std::uint64_t query_buffer_bytes = std::uint64_t{64} << 20;  ///< unparsed input of a client, not counting one big bulk
  std::uint64_t max_bulk_bytes = std::uint64_t{512} << 20;
  OutputLimits output = {.hard = std::uint64_t{256} << 20, .soft = std::uint64_t{64} << 20};
  OutputLimits subscriber_output = {.hard = std::uint64_t{32} << 20, .soft = std::uint64_t{8} << 20};  ///< and of monitors
  std::uint64_t memory_budget = 0;  ///< of the whole server; one client's output may have half of it; 0 = no limit
  bool password_required = false;   ///< new connections are strangers
  bool protected_mode = true;       ///< without a password only loopback may connect
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

/// What one loop counts. Written by its thread only.
struct LoopCounters {
  NetCounter bytes_in, bytes_out, reads, writes, waits, passes, commands, closed;
  NetCounter query_limit_closes, output_limit_closes, idle_closes, auth_timeout_closes, protocol_errors, security_closes,
      memory_closes, values_refused;
  // Passes by duration, with the reading before them; upper bound 2^i microseconds; the last one holds the rest.
  static constexpr int kPassBuckets = 24;
  NetCounter pass_bucket[kPassBuckets];
  NetCounter pass_nanos;
};

/// The ids of the connections that are there. Thread-safe.
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

/// What all loops and the listener share. Thread-safe.
struct NetShared {
  LiveClients live;
  std::atomic<std::uint64_t> next_client_id{1};
  std::atomic<std::uint64_t> clients{0}, strangers{0};  ///< those on their way to a loop included
  Strangers unauthenticated;                            ///< the strangers that have reached their loop
  std::atomic<std::uint64_t> accepted{0}, rejected_max_clients{0}, rejected_protected{0}, rejected_strangers{0},
      evicted_strangers{0}, accept_errors{0};
  std::atomic<std::int64_t> attack_told_ms{0};  ///< when the log was told of POST or Host:, at most once a minute; 0 = never
};

enum class NetLog : std::uint8_t { kDebug, kInfo, kWarning };

/// The memory budget, as far as connections go. Thread-safe. What is charged is released by the same caller.
class ClientMemory {
 public:
  virtual ~ClientMemory() = default;
  /// Query and output buffers, and back.
  virtual void charge_buffers(std::uint64_t bytes) = 0;
  virtual void release_buffers(std::uint64_t bytes) = 0;
  /// Large values being received: false and nothing charged if there is no room for so much.
  [[nodiscard]] virtual bool try_charge_values(std::uint64_t bytes) = 0;
  virtual void charge_values(std::uint64_t bytes) = 0;
  virtual void release_values(std::uint64_t bytes) = 0;
  /// A value whose bytes are charged: the same bytes with another owner, which releases them with its last copy, instead of the
  /// caller.
  [[nodiscard]] virtual std::shared_ptr<const std::string> own_value(std::shared_ptr<const std::string> value) = 0;
  /// Input that outlives its connection: the same memory, of so many bytes, with another owner that has them charged.
  [[nodiscard]] virtual std::shared_ptr<const void> own_input(std::shared_ptr<const void> input, std::uint64_t bytes) = 0;
  /// The budget is spent, and buffers have a good part in it: who holds the largest ones has to go.
  [[nodiscard]] virtual bool short_of_buffers() const = 0;
};

/// The world around the network, as functions: what it may not include. All callable from any thread.
struct NetEnv {
  std::function<std::int64_t()> unix_ms;                ///< Unix time in ms; asked once, so that nothing times out when it jumps
  std::function<std::uint64_t()> mono_ns;               ///< a monotonic clock
  std::function<void(NetLog, const std::string&)> log;  ///< one sentence
  ClientMemory* memory = nullptr;                       ///< null: nothing is charged
};

/// The log behind the replies. All callable from any thread.
class ReplyGate {
 public:
  virtual ~ReplyGate() = default;
  /// The pass is over: write what it queued. False if there was nothing.
  virtual bool end_of_pass() = 0;
  /// Replies that depend on no later seq may leave.
  [[nodiscard]] virtual std::uint64_t durable_seq() const = 0;
  /// Writes are refused: replies that go on waiting for more than durable_seq() may wait for ever, their outcome is unknown.
  [[nodiscard]] virtual bool failed() const = 0;
};

}  // namespace ebbtide

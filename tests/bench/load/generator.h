// One thread of the load generator: it sends requests over many connections, all in one epoll set, at the times that the load
// asks for.
//
// Open loop (a rate is given): requests start by the schedule, on the next connection in turn, even if that has unanswered
// requests. Latency counts from the intended start. If the server stalls, requests that should have started meanwhile count as
// late by the rest of the stall. A generator that waits for a reply before its next request leaves these out ("coordinated
// omission").
//
// Closed loop (no rate): each connection sends `depth` requests at once, and the next requests after all replies, like
// redis-benchmark. This shows the server's throughput, not how long clients wait.
//
// The generator itself may be late, if its thread waits for a core of a busy machine. `lag` has the lateness of its requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arrivals.h"
#include "histogram.h"
#include "wire_format.h"

namespace ebbtide::bench {

enum class Order : std::uint8_t { kUniform, kSequential, kShuffled };

struct Load {
  std::string host = "127.0.0.1";
  std::uint16_t port = 6379;
  unsigned connections = 50;
  double rate = 0;  ///< requests per second of all threads; 0: closed loop
  bool poisson = true;
  unsigned depth = 1;          ///< closed loop: requests that a connection sends at once
  double seconds = 10;         ///< 0: until `requests` are done
  std::uint64_t requests = 0;  ///< 0: until `seconds` are over
  double warmup = 0;           ///< seconds at the beginning that are not recorded
  double interval = 1;         ///< seconds per line of the time line
  std::uint64_t keys = 1'000'000, first_key = 0;
  std::size_t value_bytes = 100;
  double compressible = 0;
  double gets = 1;  ///< the fraction of GETs; the others are SETs
  bool absent = false;
  bool verify = false;
  Order order = Order::kUniform;
  std::uint64_t seed = 1;
  unsigned threads = 1;
  double stall_ms = 100;
  double drain = 30;  ///< seconds to wait for replies after the last request
};

/// A period with unanswered requests and without a reply on any connection of a thread.
struct Stall {
  double at_seconds = 0, ms = 0;
};

/// The results of a thread for the whole run or one interval. Durations are nanoseconds.
struct Tally {
  Histogram get, set, lag;
  std::uint64_t sent = 0, errors = 0, misses = 0, wrong = 0, unanswered = 0;
  std::int64_t longest_gap_ns = 0;
  std::vector<Stall> stalls;
  std::string first_error;

  void merge(const Tally& other);
};

/// The state shared by the threads of a run.
struct Shared {
  std::int64_t begin_ns = 0;
  std::atomic<std::uint64_t> next_request{0};  ///< for runs that end after a number of requests
  std::atomic<bool> stop{false};
  std::atomic<bool> overloaded{false};  ///< the run ended early because of too many unanswered requests
  /// Called by each thread after every interval, and at the end for the incomplete interval.
  std::function<void(std::size_t interval, const Tally& tally)> deliver;
};

class Generator {
 public:
  /// Requires `index` < load.threads.
  Generator(const Load& load, unsigned index, const Requests& requests, Shared& shared);
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Connects. Returns "" or the error.
  std::string connect();
  /// Runs to the end. Returns "" if the run is complete, otherwise the reason why it ended early. Called once.
  std::string run();
  /// Returns the results of the whole run, without the warm-up.
  [[nodiscard]] const Tally& total() const { return total_; }
  /// Returns the nanoseconds from the end of the warm-up to the last reply.
  [[nodiscard]] std::int64_t last_answer_ns() const { return last_answer_ns_; }

 private:
  struct Pending {
    std::int64_t intended_ns;
    std::uint64_t key;
    bool get;
  };
  struct Connection {
    int fd = -1;
    std::string out, in;
    std::size_t out_sent = 0;
    std::deque<Pending> pending;
    bool dirty = false, blocked = false;  ///< has data to send and waits until the socket is writable
  };

  [[nodiscard]] bool issuing(std::int64_t now) const;
  void issue_due(std::int64_t now);
  void issue_batch(Connection& connection, std::int64_t now);
  bool issue(Connection& connection, std::int64_t intended_ns);
  [[nodiscard]] std::uint64_t choose_key(std::uint64_t number);
  std::string send_dirty();
  std::string send(Connection& connection);
  std::string receive(Connection& connection);
  std::string take(Connection& connection, const ReplyView& reply, std::int64_t now);
  void note_gap(std::int64_t now);
  void close_intervals(std::int64_t now);
  void count_unanswered(std::int64_t now);
  [[nodiscard]] std::int64_t wait_ns(std::int64_t now) const;
  std::string wait_and_receive(std::int64_t timeout_ns);

  const Load& load_;
  const Requests& requests_;
  Shared& shared_;
  const unsigned index_;
  int epoll_ = -1;
  std::vector<Connection> connections_;
  std::vector<Connection*> dirty_;
  std::size_t next_connection_ = 0;
  Random random_;
  Shuffle shuffle_;
  std::unique_ptr<Arrivals> arrivals_;
  std::uint64_t outstanding_ = 0;
  bool exhausted_ = false;             ///< all requests have been sent
  std::int64_t waiting_since_ns_ = 0;  ///< start of the time without a reply although one is due
  std::int64_t recorded_from_ns_ = 0, end_ns_ = 0, interval_ends_ns_ = 0, last_answer_ns_ = 0;
  std::size_t interval_ = 0;
  std::vector<char> buffer_;
  Tally window_, total_;
};

/// Returns the time of a monotonic clock, in nanoseconds.
std::int64_t now_ns();

}  // namespace ebbtide::bench

// An event loop: one thread, one epoll set, many connections.
//
// A round:
//   1. epoll_wait; receive once from each connection that is readable.
//   2. Parse all their pipelines into one span, hand it to the sink: a pass.
//   3. Have the log written, once.
//   4. Send each connection what may leave, directly; epoll is asked only after EAGAIN.
// So a GET at pipeline 1 costs one recv, one send and a share of one epoll_wait.
//
// Sockets are registered once, edge-triggered, for both directions; what is known to be readable or writable is kept with the
// connection. A connection with more to do than its share of a round is queued for the next one, and that one does not wait.
//
// Other threads reach the loop through tasks and resumes, and wake it through an eventfd, at most once per round.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>
#include <unordered_map>
#include <vector>

#include "net/connection.h"
#include "net/settings.h"
#include "resp/client.h"

namespace ebbtide {

/// A connected, non-blocking socket on its way to a loop.
struct Arrival {
  int fd = -1;
  std::string address, network, local_address;  ///< as Client has them
  bool stranger = false;                        ///< it has to authenticate
};

class EventLoop final : public ClientLoop {
 public:
  EventLoop(int index, const NetSettings& settings, NetShared* shared, const NetEnv* env);
  /// Stops and joins; connections are closed.
  ~EventLoop() override;

  /// Empty, or why the loop could not be set up.
  std::string start(std::unique_ptr<CommandSink> sink);
  /// Sends what can be sent at once, closes every connection, ends the thread and waits for it. Idempotent. The sink is
  /// destroyed.
  void stop();

  /// From the next round on; null gate: nothing to wait for.
  void set_sink(std::unique_ptr<CommandSink> sink, ReplyGate* gate);
  void set_settings(const NetSettings& settings);
  /// Takes over a socket that was counted in `shared` (clients, and strangers if it has to authenticate). From any thread.
  void adopt(Arrival arrival);
  /// Closes the connection if it has not authenticated by then. From any thread.
  void evict(std::uint64_t client_id);
  /// The log has moved: replies may be free to go. From any thread; cheap if no reply waits here.
  void notify_durable();

  void post(std::function<void()> task) override;
  void resume(std::uint64_t client_id) override;
  Client* find(std::uint64_t client_id) override;
  void touch(Client* client) override;
  [[nodiscard]] int index() const override { return index_; }
  void for_each(const std::function<void(Client&)>& f) override;

  /// Connections here, or on their way here.
  [[nodiscard]] std::uint64_t load() const { return load_.load(std::memory_order_relaxed); }
  /// Connections whose command waits for pages or for an offload thread.
  [[nodiscard]] std::uint64_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  /// Bytes held for input and output, and the largest of each; as of the last sweep, at most a second old.
  [[nodiscard]] std::uint64_t client_bytes() const { return client_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t max_input() const { return max_input_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t max_output() const { return max_output_.load(std::memory_order_relaxed); }
  [[nodiscard]] const LoopCounters& counters() const { return counters_; }

 private:
  struct Deadline {
    std::int64_t at_ms;
    std::uint64_t client_id;
    bool operator>(const Deadline& other) const { return at_ms > other.at_ms; }
  };

  void run();
  void round(int timeout_ms);
  [[nodiscard]] int wait_time() const;
  void wake();
  void run_tasks();
  void hand_in_again(std::uint64_t client_id);
  [[nodiscard]] std::string watch_sink();
  void on_event(Connection& c, std::uint32_t events);
  void receive(Connection& c);
  void run_pass();
  void settle(Connection& c);
  void settle_failure(Connection& c);
  void flush(Connection& c);
  void flush_gated();
  void enqueue(Connection& c);
  void check_output_limits(Connection& c);
  void close_overflown(Connection& c);
  void set_output_limit(Connection& c) const;
  void read_clock();
  void account(Connection& c);
  void charge_buffers(std::size_t bytes);
  void charge_push(Connection& c);
  void charge_values(Connection& c);
  void hand_over(Connection& c);
  void relieve(Connection& c);
  void count_stranger(Connection& c);
  void finish_closing(Connection& c);
  void linger(Connection& c);
  void close(Connection& c);
  void bury();
  void sweep();
  void sweep_one(Connection& c);
  void hand_in_late();
  ParserLimits limits_for(const Connection& c) const;
  void add_connection(Arrival arrival);
  void take_arrivals(std::size_t most);
  void drop(const Arrival& arrival);

  // Constant after construction.
  const int index_;
  NetShared* const shared_;
  const NetEnv* const env_;
  int epoll_ = -1, wake_fd_ = -1;

  // Loop thread.
  NetSettings settings_;
  std::unique_ptr<CommandSink> sink_;
  ReplyGate* gate_ = nullptr;
  std::unordered_map<std::uint64_t, Connection*> by_id_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connection>> graveyard_;
  std::vector<Connection*> queue_, working_, gated_;
  bool cut_ = false;                        ///< connections have a rank: commands were left over by the last pass
  std::vector<std::uint64_t> own_resumes_;  ///< that this thread asked for
  std::vector<PendingCommand> pass_;
  struct Part {
    Connection* connection;
    std::size_t first, count;
  };
  std::vector<Part> parts_;
  std::priority_queue<Deadline, std::vector<Deadline>, std::greater<>> deadlines_;
  std::vector<char> scratch_;
  std::uint64_t logging_seq_ = 0, logging_since_ns_ = 0;  ///< of the pass whose wait for the log is being timed; 0 = none is
  std::uint64_t now_ns_ = 0;                              ///< the monotonic clock when the round began
  std::int64_t base_ms_ = 0;                              ///< Unix time less monotonic time, at start
  std::int64_t now_ms_ = 0, next_sweep_ms_ = 0;
  std::size_t sweep_at_ = 0;
  bool more_arrivals_ = false;
  std::size_t held_bytes_ = 0, charged_bytes_ = 0;  ///< buffers of all connections; of that, what the budget knows
  std::size_t largest_held_ = 0;                    ///< by one connection, since the last round of sweeps
  std::uint64_t sweep_bytes_ = 0, sweep_input_ = 0, sweep_output_ = 0;

  // Own synchronization.
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;  // guarded by mutex_
  std::vector<std::uint64_t> resumes_;        // guarded by mutex_
  std::deque<Arrival> arrivals_;              // guarded by mutex_
  bool accepting_tasks_ = true;               // guarded by mutex_
  std::atomic<bool> woken_{false}, stopping_{false}, gate_waited_{false};
  std::atomic<std::uint64_t> load_{0}, waiting_{0}, client_bytes_{0}, max_input_{0}, max_output_{0};
  LoopCounters counters_;
  std::thread thread_;
};

}  // namespace ebbtide

// An event loop: one thread, one epoll set, many connections.
//
// A round:
//   1. epoll_wait; receive once from each readable connection.
//   2. Parse all their pipelines into one span, and hand it to the sink: a pass.
//   3. Write the log, once.
//   4. Send each connection the replies that may leave. Epoll is used for sending only after EAGAIN.
// A round has a few milliseconds each for receiving and parsing, for the sink's pass, and for sending. Connections whose large
// input or output takes longer come first in the next round. Connections with little input or output are served in every round.
// In a round like this, a GET without pipelining takes one recv, one send and a share of one epoll_wait.
//
// Sockets are registered once, edge-triggered, for both directions. The connection stores whether its socket is readable and
// writable. A connection with more work than its share of a round is queued for the next round, which then does not wait.
//
// Other threads reach the loop through tasks and resumes. An eventfd wakes the loop, at most once per round.
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

/// A connected, non-blocking socket that the listener gives to a loop.
struct Arrival {
  int fd = -1;
  std::string address, network, local_address;  ///< Client::address, Client::network, Client::local_address
  bool stranger = false;                     ///< the client must authenticate but has not, or its TLS handshake is not finished
  std::unique_ptr<TlsStream> tls = nullptr;  ///< null: plain text
  std::uint64_t id = 0;                      ///< the client's id; adopt() sets it
};

class EventLoop final : public ClientLoop {
 public:
  EventLoop(int index, const NetSettings& settings, NetShared* shared, const NetEnv* env);
  /// Stops the thread, joins it, and closes the connections.
  ~EventLoop() override;

  /// Starts the thread. Returns "", or why the loop could not be set up.
  std::string start(std::unique_ptr<CommandSink> sink);
  /// Sends as much output as the sockets take at once, closes every connection, and waits for the end of the thread. Destroys the
  /// sink. May be called twice.
  void stop();

  /// Replaces sink and gate from the next round on. If `gate` is null, replies do not wait for the log.
  void set_sink(std::unique_ptr<CommandSink> sink, ReplyGate* gate);
  void set_settings(const NetSettings& settings);
  /// Takes ownership of a socket. The caller has counted it in `shared` as a client, and as a stranger if it must authenticate.
  /// Any thread.
  void adopt(Arrival arrival);
  /// Closes the connection of a client that has not authenticated by the time that the loop runs this. Any thread.
  void evict(std::uint64_t client_id);
  /// Makes the loop send replies that waited for the log. Call it when the log has advanced. Any thread. Cheap if no reply waits.
  void notify_durable();

  void post(std::function<void()> task) override;
  void resume(std::uint64_t client_id) override;
  Client* find(std::uint64_t client_id) override;
  void touch(Client* client) override;
  [[nodiscard]] int index() const override { return index_; }
  void for_each(const std::function<void(Client&)>& f) override;

  /// Returns the number of this loop's connections, including sockets from adopt() that the loop has not taken yet.
  [[nodiscard]] std::uint64_t load() const { return load_.load(std::memory_order_relaxed); }
  /// Returns the number of connections whose command waits for pages or for an offload thread.
  [[nodiscard]] std::uint64_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  /// Return the bytes of all input and output buffers, and the largest buffer of each kind. The values are at most a second old.
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
  /// Runs tasks that other threads have posted, for at most `nanos`.
  void run_tasks(std::uint64_t nanos);
  void hand_in_again(std::uint64_t client_id);
  [[nodiscard]] std::string watch_sink();
  void on_event(Connection& c, std::uint32_t events);
  void receive(Connection& c);
  /// Returns true once the client's TLS handshake is done.
  bool shake_hands(Connection& c);
  void run_pass();
  void collect_pass();
  /// The monotonic times at which the commands of a pass had run, and at which the log had their writes.
  struct PassTimes {
    std::uint64_t ran_ns = 0, logged_ns = 0;
    bool wrote = false;  ///< the pass wrote to the log
  };
  PassTimes run_commands();
  std::uint64_t return_commands();
  void settle(Connection& c);
  void settle_failure(Connection& c);
  void flush(Connection& c);
  void flush_gated();
  void enqueue(Connection& c);
  /// Like enqueue(), for a connection for whose work this round had no time.
  void put_off(Connection& c);
  /// Begins the next part of the round. One part receives and parses, the other sends.
  void begin_part(std::uint64_t now_ns);
  /// Counts bytes that were received, parsed or sent. Sets late_ once the part's time is used up.
  void spend(std::size_t bytes);
  void order_working();
  void check_output_limits(Connection& c);
  void close_overflown(Connection& c);
  void set_output_limit(Connection& c) const;
  void read_clock();
  void account(Connection& c);
  void take_over_charges();
  bool add_held(Connection& c);
  void charge_buffers(std::size_t bytes);
  void charge_push(Connection& c);
  void charge_values(Connection& c);
  void hand_over(Connection& c);
  [[nodiscard]] std::size_t spared_bytes() const;
  [[nodiscard]] bool is_one_too_many(const Connection& c) const;
  void relieve(Connection& c);
  void count_stranger(Connection& c);
  void evict_arrival(std::uint64_t client_id);
  void finish_closing(Connection& c);
  void linger(Connection& c);
  void close(Connection& c);
  /// Frees closed connections, for at most a part of the round's time.
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

  // Used on the loop's thread.
  NetSettings settings_;
  std::unique_ptr<CommandSink> sink_;
  ReplyGate* gate_ = nullptr;
  std::unordered_map<std::uint64_t, Connection*> by_id_;
  std::vector<std::unique_ptr<Connection>> connections_;
  /// Closed connections, in the order in which they closed; bury() frees them.
  std::deque<std::unique_ptr<Connection>> graveyard_;
  std::vector<Connection*> queue_, working_, gated_, put_off_;
  bool cut_ = false;          ///< connections have ranks, because the last pass did not run all commands or inputs are large
  bool short_first_ = false;  ///< the current pass began with short inputs
  bool late_ = false;         ///< the time of this part of the round is used up: large inputs and outputs wait for the next round
  std::uint64_t part_end_ns_ = 0;           ///< when this part of the round ends
  std::size_t unmeasured_ = 0;              ///< bytes since spend() last read the clock
  std::vector<std::uint64_t> own_resumes_;  ///< ids of clients for which resume() was called on this loop's own thread
  std::vector<PendingCommand> pass_;
  struct Part {
    Connection* connection;
    std::size_t first, count;
  };
  std::vector<Part> parts_;
  std::priority_queue<Deadline, std::vector<Deadline>, std::greater<>> deadlines_;
  std::vector<char> scratch_;
  /// Seq and start of the pass whose wait for the log is being measured; 0: none.
  std::uint64_t logging_seq_ = 0, logging_since_ns_ = 0;
  std::uint64_t now_ns_ = 0;  ///< the monotonic clock at the start of the round
  std::int64_t base_ms_ = 0;  ///< Unix time minus monotonic time, at the start
  std::int64_t now_ms_ = 0, next_sweep_ms_ = 0;
  std::size_t sweep_at_ = 0;
  bool more_arrivals_ = false, more_tasks_ = false;
  /// Bytes of the connections' own buffers, and how many of these bytes are charged to the budget.
  std::size_t held_bytes_ = 0, charged_bytes_ = 0;
  std::size_t largest_held_ = 0;  ///< the most bytes that one connection has held since the last complete sweep
  std::uint64_t sweep_bytes_ = 0, sweep_input_ = 0, sweep_output_ = 0;

  // Members with synchronization of their own.
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  std::vector<std::uint64_t> resumes_;       // guarded by mutex_
  std::deque<Arrival> arrivals_;             // guarded by mutex_
  bool accepting_tasks_ = true;              // guarded by mutex_
  std::atomic<bool> woken_{false}, stopping_{false}, gate_waited_{false};
  std::atomic<std::uint64_t> load_{0}, waiting_{0}, client_bytes_{0}, max_input_{0}, max_output_{0};
  LoopCounters counters_;
  std::thread thread_;
};

}  // namespace ebbtide

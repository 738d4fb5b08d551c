#include "net/event_loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "resp/block_pool.h"
#include "resp/reply.h"

namespace ebbtide {
namespace {

constexpr int kEvents = 512;
constexpr std::size_t kScratchBytes = 256 << 10;
constexpr std::int64_t kSweepMs = 100;  // each sweep checks a tenth of the connections, so each is checked once a second
// The most arrivals that a round takes. An arrival takes about 10 us, including its close, so they take less than a millisecond.
constexpr std::size_t kArrivalsPerRound = 64;
// A connection runs no further command while its waiting replies take 1 / kHighWaterParts of the memory budget. The budget has
// room for a hundred clients that send pipelines and read slowly.
constexpr std::uint64_t kHighWaterParts = 1024;
constexpr std::uint64_t kLeastHighWater = 64 << 10, kMostHighWater = 1 << 20;
constexpr std::int64_t kLingerMs = 500;
constexpr std::size_t kLingerBytes = 1 << 20;
// Replies wait for this time after the log has failed, since a sync may still succeed a moment later.
constexpr std::int64_t kGiveUpMs = 1'000;
// A command may wait for the disk for this time after its client has closed its sending side.
constexpr std::int64_t kHalfClosedMs = 1'000;
constexpr std::size_t kChargeStep = 1 << 20;  // each loop charges buffers to the budget in steps of this size
// The most connections without commands that a round serves. Sending to such a connection, or closing it, takes about 10 us,
// while the other connections wait. So a message to thousands of subscribers, or the end of these connections, is spread over
// several rounds.
constexpr std::size_t kQuietPerRound = 256;
constexpr std::uint64_t kTaskNanos = 5'000'000;  // time for a round's tasks, about that of a pass (Dispatcher::kPassNanos)
// A round spends at most this time on receiving and parsing, and as much on sending. After that, it serves only connections with
// little input or output.
constexpr std::uint64_t kPartNanos = 5'000'000;
// The most commands in a pass. A command takes at least 0.3 us, so a pass has no time for more, even if thousands of pipelines
// have more commands.
constexpr std::size_t kPassCommands = 16'384;
constexpr std::size_t kFewCommands = 16;  // a connection with at most this many commands left need not wait for another pass
constexpr std::size_t kLittle = 8 << 10;  // input or output of up to this many bytes takes only a few microseconds
constexpr std::size_t kMeasuredBytes =
    64 << 10;  // the clock is read only after this many bytes, since reading it for each small command would cost too much
// A connection that holds at most this many bytes is never closed for lack of memory. With many connections the limit is lower
// (EventLoop::spared_bytes).
constexpr std::size_t kSparedBytes = 64 << 10;
// All connections that spared_bytes() protects may together hold 1 / kSparedParts of the memory budget. But each may hold
// kLeastSpared bytes in any case: a block of input, and a few arguments.
constexpr std::uint64_t kSparedParts = 8;
constexpr std::size_t kLeastSpared = kBlockBytes + (1 << 10);

thread_local const EventLoop* loop_of_thread = nullptr;

}  // namespace

EventLoop::EventLoop(int index, const NetSettings& settings, NetShared* shared, const NetEnv* env)
    : index_(index), shared_(shared), env_(env), settings_(settings), scratch_(kScratchBytes) {}

EventLoop::~EventLoop() {
  stop();
  if (epoll_ >= 0) ::close(epoll_);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

std::string EventLoop::start(std::unique_ptr<CommandSink> sink) {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return std::string("epoll_create1: ") + std::strerror(errno);
  wake_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return std::string("eventfd: ") + std::strerror(errno);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.ptr = nullptr;  // this value marks the wake-up
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_fd_, &event) != 0) return std::string("epoll_ctl: ") + std::strerror(errno);
  sink_ = std::move(sink);
  if (std::string error = watch_sink(); !error.empty()) return error;
  thread_ = std::thread([this] {
    loop_of_thread = this;
    ::pthread_setname_np(::pthread_self(), ("loop-" + std::to_string(index_)).c_str());
    run();
  });
  return {};
}

// Adds the sink's descriptor to the epoll set; when it is readable, the loop calls the sink's poll(). If the sink closes the
// descriptor, it leaves the set by itself.
std::string EventLoop::watch_sink() {
  const int descriptor = sink_->descriptor();
  if (descriptor < 0) return {};
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = this;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) == 0) return {};
  return std::string("epoll_ctl: ") + std::strerror(errno);
}

void EventLoop::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  wake();
  thread_.join();
}

// --- methods that other threads call

void EventLoop::wake() {
  if (woken_.exchange(true)) return;
  const std::uint64_t one = 1;
  while (::write(wake_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void EventLoop::post(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (!accepting_tasks_) return;
    tasks_.push_back(std::move(task));
  }
  wake();
}

void EventLoop::resume(std::uint64_t client_id) {
  if (loop_of_thread == this) return own_resumes_.push_back(client_id);
  {
    std::lock_guard lock(mutex_);
    if (!accepting_tasks_) return;
    resumes_.push_back(client_id);
  }
  wake();
}

void EventLoop::adopt(Arrival arrival) {
  load_.fetch_add(1);
  arrival.id = shared_->next_client_id.fetch_add(1);
  bool taken = false;
  {
    std::lock_guard lock(mutex_);
    taken = accepting_tasks_;
    if (taken && arrival.stranger) shared_->unauthenticated.add({arrival.id, arrival.network, host_of(arrival.address), this});
    if (taken) arrivals_.push_back(std::move(arrival));
  }
  taken ? wake() : drop(arrival);
}

// Closes an arrival that the loop does not take: the loop has ended, or the arrival was evicted.
void EventLoop::drop(const Arrival& arrival) {
  ::close(arrival.fd);
  shared_->clients.fetch_sub(1);
  if (arrival.stranger) shared_->strangers.fetch_sub(1);
  load_.fetch_sub(1);
}

void EventLoop::evict(std::uint64_t client_id) {
  post([this, client_id] {
    auto* c = static_cast<Connection*>(find(client_id));
    if (c == nullptr) return evict_arrival(client_id);
    if (c->authenticated) return;
    c->send_at_once(kTooManyStrangers);
    close(*c);
  });
}

void EventLoop::evict_arrival(std::uint64_t client_id) {
  Arrival evicted;
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(arrivals_.begin(), arrivals_.end(), [&](const Arrival& a) { return a.id == client_id; });
    if (found == arrivals_.end()) return;
    evicted = std::move(*found);
    arrivals_.erase(found);
  }
  if (evicted.tls == nullptr)
    (void)!::send(evicted.fd, kTooManyStrangers, std::strlen(kTooManyStrangers), MSG_NOSIGNAL | MSG_DONTWAIT);
  drop(evicted);
}

void EventLoop::notify_durable() {
  // Orders the following load after the store of durable_seq, which may have been a plain store.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (gate_waited_.load()) wake();
}

void EventLoop::set_sink(std::unique_ptr<CommandSink> sink, ReplyGate* gate) {
  auto shared = std::make_shared<std::unique_ptr<CommandSink>>(std::move(sink));
  post([this, shared, gate] {
    sink_ = std::move(*shared);
    gate_ = gate;
    if (const std::string error = watch_sink(); !error.empty())
      env_->log(NetLog::kWarning,
                "an event loop is not notified of completed page reads, so commands wait longer for them: " + error);
  });
}

void EventLoop::set_settings(const NetSettings& settings) {
  post([this, settings] {
    take_arrivals(~std::size_t{0});  // arrivals that the listener has accepted under the old settings
    settings_ = settings;
    for (const auto& c : connections_) {
      set_output_limit(*c);
      if (settings.password_required || c->authenticated || c->in_handshake()) continue;
      c->authenticated = true;  // there is no password any more
      count_stranger(*c);
    }
  });
}

// --- the loop

void EventLoop::run() {
  base_ms_ = env_->unix_ms() - static_cast<std::int64_t>(env_->mono_ns() / 1'000'000);
  read_clock();
  while (!stopping_) round(wait_time());
  {
    std::lock_guard lock(mutex_);
    accepting_tasks_ = false;
  }
  run_tasks(~std::uint64_t{0});
  take_arrivals(~std::size_t{0});
  if (gate_ != nullptr) gate_->end_of_pass();
  while (!connections_.empty()) {
    Connection& c = *connections_.back();
    c.send(gate_ == nullptr ? ~std::uint64_t{0} : gate_->durable_seq(), counters_);
    close(c);
  }
  graveyard_.clear();
  sink_.reset();
  charge_buffers(0);
}

void EventLoop::read_clock() {
  now_ns_ = env_->mono_ns();
  now_ms_ = base_ms_ + static_cast<std::int64_t>(now_ns_ / 1'000'000);
}

int EventLoop::wait_time() const {
  if (!queue_.empty() || !own_resumes_.empty() || more_arrivals_ || more_tasks_ || !graveyard_.empty()) return 0;
  std::int64_t until = connections_.empty() ? now_ms_ + 60'000 : next_sweep_ms_;
  if (!deadlines_.empty()) until = std::min(until, deadlines_.top().at_ms);
  return static_cast<int>(std::clamp<std::int64_t>(until - now_ms_, 0, 60'000));
}

void EventLoop::round(int timeout_ms) {
  epoll_event events[kEvents];
  const int n = ::epoll_wait(epoll_, events, kEvents, timeout_ms);
  counters_.waits.add(1);
  read_clock();
  begin_part(now_ns_);
  bool woken = false;
  for (int i = 0; i < n; ++i) {
    if (events[i].data.ptr == nullptr) {
      woken = true;
    } else if (events[i].data.ptr != this) {
      on_event(*static_cast<Connection*>(events[i].data.ptr), events[i].events);
    }
  }
  if (woken) {
    std::uint64_t count = 0;
    (void)!::read(wake_fd_, &count, sizeof(count));
    woken_ = false;
  }
  if (woken || more_tasks_) run_tasks(kTaskNanos);
  if (woken || more_arrivals_) take_arrivals(kArrivalsPerRound);
  sink_->poll();
  for (std::size_t i = 0; i < own_resumes_.size(); ++i) hand_in_again(own_resumes_[i]);
  own_resumes_.clear();
  hand_in_late();
  working_.swap(queue_);
  run_pass();
  flush_gated();
  queue_.insert(queue_.begin(), put_off_.begin(), put_off_.end());
  put_off_.clear();
  if (now_ms_ >= next_sweep_ms_) sweep();
  bury();
}

// Runs tasks for a part of the round only. A message to thousands of subscribers is one task, and other threads may post tasks
// faster than the loop runs them. Tasks that are posted meanwhile run in the next round.
void EventLoop::run_tasks(std::uint64_t nanos) {
  std::deque<std::function<void()>> tasks;
  std::vector<std::uint64_t> resumes;
  {
    std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
    resumes.swap(resumes_);
  }
  const std::uint64_t start = env_->mono_ns();
  while (!tasks.empty()) {
    tasks.front()();
    tasks.pop_front();
    if (env_->mono_ns() - start >= nanos) break;
  }
  more_tasks_ = !tasks.empty();
  if (more_tasks_) {
    std::lock_guard lock(mutex_);
    for (auto& task : tasks_) tasks.push_back(std::move(task));
    tasks_.swap(tasks);
  }
  for (const std::uint64_t id : resumes) hand_in_again(id);
}

void EventLoop::hand_in_again(std::uint64_t client_id) {
  auto* c = static_cast<Connection*>(find(client_id));
  if (c == nullptr || !c->waiting) return;
  c->resumed = true;
  enqueue(*c);
}

void EventLoop::hand_in_late() {
  while (!deadlines_.empty() && deadlines_.top().at_ms <= now_ms_) {
    auto* c = static_cast<Connection*>(find(deadlines_.top().client_id));
    deadlines_.pop();
    if (c == nullptr || !c->waiting || c->pending.empty()) continue;
    if (c->retry_at_ms == 0 || c->retry_at_ms > now_ms_) continue;  // this deadline belongs to an earlier command
    c->resumed = true;
    enqueue(*c);
  }
}

// Takes a limited number of arrivals per round, so that a flood of connections does not delay the other clients.
void EventLoop::take_arrivals(std::size_t most) {
  std::vector<Arrival> arrivals;
  {
    std::lock_guard lock(mutex_);
    while (!arrivals_.empty() && arrivals.size() < most) {
      arrivals.push_back(std::move(arrivals_.front()));
      arrivals_.pop_front();
    }
    more_arrivals_ = !arrivals_.empty();
  }
  for (Arrival& arrival : arrivals) add_connection(std::move(arrival));
}

void EventLoop::add_connection(Arrival arrival) {
  const bool stranger = arrival.stranger;
  auto owned = std::make_unique<Connection>(arrival.fd, std::move(arrival.tls));
  Connection& c = *owned;
  c.id = arrival.id;
  c.loop = this;
  c.memory = env_->memory;
  c.address = std::move(arrival.address);
  c.network = std::move(arrival.network);
  c.local_address = std::move(arrival.local_address);
  c.created_ms = c.last_command_ms = c.stranger_since_ms = now_ms_;
  set_output_limit(c);
  c.authenticated = !stranger;
  c.counted_stranger = stranger;
  c.slot = connections_.size();
  connections_.push_back(std::move(owned));
  by_id_.emplace(c.id, &c);
  shared_->live.add(c.id);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &c;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, c.fd, &event) != 0) close(c);
}

// Sets the limit of the connection's output. A single reply may neither exceed the hard limit nor take all memory. On top of
// that, replies may wait until they stop further commands (output_high_water).
void EventLoop::set_output_limit(Connection& c) const {
  c.limited_as_subscriber = c.subscriber;
  c.push_limit = settings_.subscriber_output.hard;
  std::uint64_t limit = (c.subscriber ? settings_.subscriber_output : settings_.output).hard;
  if (settings_.memory_budget != 0) {
    c.output_high_water = std::clamp(settings_.memory_budget / kHighWaterParts, kLeastHighWater, kMostHighWater);
  }
  const std::uint64_t half = settings_.memory_budget / 2;
  if (half != 0 && (limit == 0 || limit > half)) limit = half;
  c.out.set_limit(limit == 0 ? 0 : limit + c.output_high_water);
}

Client* EventLoop::find(std::uint64_t client_id) {
  auto it = by_id_.find(client_id);
  return it == by_id_.end() || it->second->lingering ? nullptr : it->second;
}

void EventLoop::for_each(const std::function<void(Client&)>& f) {
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (!connections_[i]->dead && !connections_[i]->lingering) f(*connections_[i]);
  }
}

void EventLoop::touch(Client* client) {
  auto& c = static_cast<Connection&>(*client);
  if (c.dead) return;
  charge_push(c);
  enqueue(c);
}

void EventLoop::enqueue(Connection& c) {
  if (c.queued) return;
  c.queued = true;
  queue_.push_back(&c);
}

// Queues a connection for which this round had no time. It is among the first of the next round, so that no connection waits
// forever.
void EventLoop::put_off(Connection& c) {
  if (c.queued) return;
  c.queued = true;
  put_off_.push_back(&c);
}

void EventLoop::begin_part(std::uint64_t now_ns) {
  part_end_ns_ = now_ns + kPartNanos;
  unmeasured_ = 0;
  late_ = false;
}

void EventLoop::spend(std::size_t bytes) {
  unmeasured_ += bytes;
  if (unmeasured_ < kMeasuredBytes) [[likely]]
    return;
  unmeasured_ = 0;
  late_ = env_->mono_ns() >= part_end_ns_;
}

void EventLoop::on_event(Connection& c, std::uint32_t events) {
  if (c.dead) return;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (c.has_pending() || c.lingering || c.close_after_reply)) return close(c);
  if ((events & EPOLLOUT) != 0 && !c.writable) {
    c.writable = true;
    enqueue(c);
  }
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP)) != 0) {
    c.readable = true;
    if ((events & (EPOLLRDHUP | EPOLLERR | EPOLLHUP)) != 0) c.peer_ended = true;
    if ((events & EPOLLRDHUP) != 0 && c.end_of_input_ms == 0) {
      c.end_of_input_ms = now_ms_;
      if (!c.authenticated) shared_->unauthenticated.end(c.id);
      if (c.is_blocked()) return close(c);
    }
    if (c.lingering) {
      linger(c);
    } else if (c.may_read()) {
      receive(c);
    }
  }
}

ParserLimits EventLoop::limits_for(const Connection& c) const {
  ParserLimits limits;
  limits.max_bulk = static_cast<std::int64_t>(settings_.max_bulk_bytes);
  limits.max_query_buffer = settings_.query_buffer_bytes;
  limits.stranger = !c.authenticated;
  return limits;
}

void EventLoop::receive(Connection& c) {
  if (late_ && c.has_much_input(kLittle)) return put_off(c);
  if (c.in_handshake()) {
    if (late_) return put_off(c);
    const bool done = shake_hands(c);
    late_ = env_->mono_ns() >= part_end_ns_;  // the signature in a handshake takes milliseconds
    if (!done) return;
  }
  const std::uint64_t before = counters_.bytes_in.get();
  const Connection::Io io = c.receive(limits_for(c), scratch_, counters_);
  if (io == Connection::Io::kError) return close(c);
  spend(counters_.bytes_in.get() - before);
  if (c.rank == 0 && c.has_much_input(kLittle)) {
    c.rank = 1;
    cut_ = true;
  }
  account(c);
  if (!c.dead && io != Connection::Io::kBlocked) enqueue(c);
}

// Until the handshake is done, the limits and the timeout for unauthenticated clients apply to the client.
bool EventLoop::shake_hands(Connection& c) {
  const Connection::Io io = c.shake_hands();
  if (io == Connection::Io::kBlocked) return false;
  if (io != Connection::Io::kOk) {
    counters_.tls_failures.add(1);
    env_->log(NetLog::kDebug, "the TLS handshake of " + c.address + " failed: " + c.tls->failure());
    close(c);
    return false;
  }
  counters_.tls_handshakes.add(1);
  c.authenticated = !settings_.password_required;
  if (c.authenticated == c.counted_stranger) count_stranger(c);
  return true;
}

// Updates held_bytes_ by the connection's memory. Returns true if it has changed.
bool EventLoop::add_held(Connection& c) {
  const std::size_t held = c.buffers_and_state();
  const std::size_t own = held - c.out.shared_memory();
  if (held == c.held_bytes && own == c.own_bytes) return false;
  held_bytes_ += own - c.own_bytes;
  c.own_bytes = own;
  c.held_bytes = held;
  return true;
}

// Charges the pass's replies to the loop's buffers instead of to the dispatcher, which has reserved this memory. So the budget cannot
// be exceeded here, and no client has to be closed.
void EventLoop::take_over_charges() {
  for (const Part& part : parts_) {
    if (!part.connection->dead) add_held(*part.connection);
  }
  charge_buffers(held_bytes_);
  sink_->buffers_charged();
}

// Charges the connection's memory to the budget: values exactly, buffers in steps.
void EventLoop::account(Connection& c) {
  const std::size_t before = c.held_bytes;
  if (add_held(c)) {
    const std::size_t off = held_bytes_ > charged_bytes_ ? held_bytes_ - charged_bytes_ : charged_bytes_ - held_bytes_;
    if (off >= kChargeStep) charge_buffers(held_bytes_);
    if (c.held_bytes > before && c.held_bytes > spared_bytes()) relieve(c);
  }
  if (!c.dead && c.parser.big_memory() != c.charged_values) charge_values(c);
}

// Charges pushed messages to the memory budget. Many may be pushed before the loop serves their client again. If the budget has no
// room, drops the client's messages at once; the loop closes the client when it serves it.
void EventLoop::charge_push(Connection& c) {
  const std::size_t held = c.buffers_and_state();
  if (held < c.held_bytes + kSparedBytes) return;
  add_held(c);
  if (held_bytes_ > charged_bytes_ + kChargeStep) charge_buffers(held_bytes_);
  largest_held_ = std::max(largest_held_, held);
  if (is_one_too_many(c)) c.out.overflow();
}

void EventLoop::charge_buffers(std::size_t bytes) {
  if (env_->memory != nullptr) {
    if (bytes > charged_bytes_) env_->memory->charge_buffers(bytes - charged_bytes_);
    if (bytes < charged_bytes_) env_->memory->release_buffers(charged_bytes_ - bytes);
  }
  charged_bytes_ = bytes;
}

// Charges big arguments. They may take memory up to the whole budget, whatever the limit of the query buffer. If the budget is
// used up, the command is skipped and gets -OOM. Memory that was handed out stays charged.
void EventLoop::charge_values(Connection& c) {
  std::size_t bytes = c.parser.big_memory();
  if (env_->memory != nullptr) {
    if (bytes > c.charged_values && !env_->memory->try_charge_values(bytes - c.charged_values)) {
      if (c.parser.big_bytes() > 0) {
        counters_.values_refused.add(1);
        c.parser.refuse_big();
        bytes = c.parser.big_memory();
      }
      if (bytes > c.charged_values) env_->memory->charge_values(bytes - c.charged_values);
    }
    if (bytes < c.charged_values) env_->memory->release_values(c.charged_values - bytes);
  }
  c.charged_values = bytes;
}

// Gives big arguments that commands may keep a charge of their own. So each is charged exactly once, from its first byte until
// its last owner is gone.
void EventLoop::hand_over(Connection& c) {
  c.parser.hand_over([&](std::shared_ptr<const std::string> value) {
    const std::size_t bytes = value->size();
    if (bytes > c.charged_values) {  // the last bytes of the value came with the following commands, and are not charged yet
      env_->memory->charge_values(bytes - c.charged_values);
      c.charged_values = bytes;
    }
    c.charged_values -= bytes;
    return env_->memory->own_value(std::move(value));
  });
}

// Returns the bytes that a connection may hold without being closed. Thousands of connections below a fixed limit could together
// exceed the budget, for example with incomplete commands. So the limit depends on the number of clients.
std::size_t EventLoop::spared_bytes() const {
  if (settings_.memory_budget == 0) return kSparedBytes;
  const std::uint64_t clients = std::max<std::uint64_t>(shared_->clients.load(std::memory_order_relaxed), 1);
  const std::uint64_t share = settings_.memory_budget / kSparedParts / clients;
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(share, kLeastSpared, kSparedBytes));
}

// Returns true if the connection must close because the memory budget is used up. The connections with the largest buffers are
// closed, even if they are idle: a sweep finds them. If buffers have grown by a considerable part of the budget since then
// (overdrawn()), smaller connections are closed, too.
bool EventLoop::is_one_too_many(const Connection& c) const {
  if (env_->memory == nullptr || c.held_bytes <= spared_bytes()) return false;
  return c.held_bytes >= largest_held_ / 2 ? env_->memory->short_of_buffers() : env_->memory->overdrawn();
}

void EventLoop::relieve(Connection& c) {
  largest_held_ = std::max(largest_held_, c.held_bytes);
  if (c.lingering || !is_one_too_many(c)) return;
  counters_.memory_closes.add(1);
  env_->log(NetLog::kWarning, "closed " + c.address + ": storage.memory_budget is spent, and its buffers hold " +
                                  std::to_string(c.held_bytes >> 10) + " KiB");
  c.send_at_once("-OOM the buffers of this connection do not fit into the memory budget\r\n");
  close(c);
}

// Hands all ready commands to the sink as one span.
void EventLoop::run_pass() {
  if (working_.empty()) return;
  if (gated_.empty()) logging_seq_ = 0;  // no client waits for the measured pass any more
  collect_pass();
  const PassTimes times = run_commands();
  const std::uint64_t newest = return_commands();
  pass_.clear();
  if (!times.wrote) return;
  if (newest <= gate_->durable_seq()) {
    sink_->logged(times.logged_ns - times.ran_ns);
  } else if (logging_seq_ == 0 && !gated_.empty()) {
    logging_seq_ = newest;
    logging_since_ns_ = times.ran_ns;
  }
}

// Fills the pass with the commands of the connections whose turn it is, in their order.
void EventLoop::collect_pass() {
  pass_.clear();
  parts_.clear();
  std::size_t quiet = 0;
  if (late_) begin_part(env_->mono_ns());
  order_working();
  for (Connection* c : working_) {
    const bool turn = c->wants_turn() && !c->send_first;
    if (!c->dead && !turn && ++quiet > kQuietPerRound) {
      queue_.push_back(c);
      continue;
    }
    c->queued = false;
    if (c->dead) continue;
    if (turn && (pass_.size() >= kPassCommands || (late_ && c->rank != 0))) {
      put_off(*c);
      if (c->rank != 0 || c->commands() > kFewCommands) c->rank = 1;
      cut_ = true;
      continue;
    }
    const std::size_t first = pass_.size();
    if (turn) {
      c->resumed = false;
      spend(c->has_pending() ? 0 : c->parser.buffered());
      c->hand_in(limits_for(*c), &pass_);
      if (c->parser.can_hand_over() && env_->memory != nullptr) hand_over(*c);
      if (pass_.size() == first) {  // the command is incomplete, and its arguments may take as many bytes
        account(*c);
        if (c->dead) continue;
      }
    }
    parts_.push_back({c, first, pass_.size() - first});
  }
  working_.clear();
}

// Runs the pass and writes the log. Then begins the sending part of the round.
EventLoop::PassTimes EventLoop::run_commands() {
  PassTimes times;
  if (!pass_.empty()) {
    sink_->run_pass(pass_);
    if (gate_ != nullptr) {
      times.ran_ns = env_->mono_ns();
      times.wrote = gate_->end_of_pass();
    }
    times.logged_ns = env_->mono_ns();
    const std::uint64_t nanos = times.logged_ns - now_ns_;  // time since the round began
    counters_.passes.add(1);
    counters_.commands.add(pass_.size());
    counters_.pass_nanos.add(nanos);
    int bucket = 0;
    while (bucket + 1 < LoopCounters::kPassBuckets && (nanos >> 10) >= (std::uint64_t{1} << bucket)) ++bucket;
    counters_.pass_bucket[bucket].add(1);
    if (sink_->charges_replies()) [[unlikely]]
      take_over_charges();
    begin_part(times.logged_ns);
  } else if (late_) {
    begin_part(env_->mono_ns());
  }
  return times;
}

// Returns unfinished commands to their connections, and sends the replies of the others. Returns the seq of the newest operation
// that a reply shows.
std::uint64_t EventLoop::return_commands() {
  std::uint64_t newest = 0;
  for (const Part& part : parts_) {
    Connection& c = *part.connection;
    if (c.dead) continue;
    if (part.count > 0) {
      newest = std::max(newest, c.seen_seq);
      c.last_command_ms = now_ms_;
      const bool had_rank_0 = c.rank == 0;
      c.take_back(std::span(pass_).subspan(part.first, part.count));
      // order_working() alternates: one pass begins with short inputs, the next with long ones. Rank 0 stays if this pass began
      // with long inputs, or if few commands of the connection are left.
      if (c.rank == 1 && had_rank_0 && (!short_first_ || c.pending.size() <= kFewCommands)) c.rank = 0;
      cut_ |= c.rank != 0 || (c.has_pending() && !c.waiting);
      const std::uint32_t retry_ms = c.waiting ? c.pending.front().retry_ms : 0;
      c.retry_at_ms = retry_ms == 0 ? 0 : now_ms_ + retry_ms;
      if (retry_ms != 0) deadlines_.push({c.retry_at_ms, c.id});
    }
    settle(c);
  }
  return newest;
}

// Orders the connections after a pass that had no time for all of them. They are ordered by rank, so that short inputs come
// first, and within a rank by how many commands they have. Every second such pass reverses the ranks, so that long inputs have
// their turn even while short ones keep coming.
void EventLoop::order_working() {
  short_first_ = cut_ && !short_first_;
  if (!cut_) return;
  cut_ = false;
  const auto place = [this](const Connection* c) { return short_first_ ? c->rank : (c->rank + 2) % 3; };
  std::stable_sort(working_.begin(), working_.end(), [&](const auto* a, const auto* b) {
    return place(a) != place(b) ? place(a) < place(b) : short_first_ && a->commands() < b->commands();
  });
}

// Continues a connection after a pass, or after output from another source: sets the gate, sends, and decides what comes next.
void EventLoop::settle(Connection& c) {
  if (c.authenticated == c.counted_stranger) count_stranger(c);
  if (c.close_now) return close(c);
  if (c.out.overflown()) return close_overflown(c);
  if (c.subscriber != c.limited_as_subscriber) set_output_limit(c);
  if (c.close_after_command && !c.waiting) c.close_after_reply = true;
  if (c.parser.failure() != RequestParser::Failure::kNone && !c.has_pending() && !c.error_sent && !c.close_after_reply) {
    settle_failure(c);
    if (c.dead) return;
  }
  if (c.end_of_input && !c.has_pending() && !c.parser.has_input()) c.close_after_reply = true;
  c.close_gate(gate_ == nullptr ? ~std::uint64_t{0} : gate_->durable_seq(), now_ms_);
  c.send_first = late_ && c.writable && c.out.size() > kLittle;
  if (c.send_first) {  // this output is sent in the next round, before another command of the connection runs
    account(c);
    if (!c.dead) put_off(c);
    return;
  }
  flush(c);
  if (c.dead) return;
  // As in Redis, no element may be popped for a client that has disconnected.
  if (c.is_blocked() && c.end_of_input_ms != 0) return close(c);
  check_output_limits(c);
  if (!c.dead) account(c);
  if (c.dead) return;
  // Queues the connection if it has more to do without an event from epoll.
  if (c.wants_turn()) enqueue(c);
  if (c.may_read()) receive(c);
}

// Counts the client as authenticated or not: AUTH authenticates it. RESET undoes that, and the client again has the whole timeout
// to authenticate.
void EventLoop::count_stranger(Connection& c) {
  c.counted_stranger = !c.authenticated;
  c.stranger_since_ms = now_ms_;
  if (c.authenticated) {
    shared_->strangers.fetch_sub(1);
    shared_->unauthenticated.remove(c.id);
  } else {
    shared_->strangers.fetch_add(1);
    shared_->unauthenticated.add({c.id, c.network, host_of(c.address), this});
  }
}

void EventLoop::settle_failure(Connection& c) {
  c.error_sent = true;
  switch (c.parser.failure()) {
    case RequestParser::Failure::kNone:
      return;
    case RequestParser::Failure::kProtocol:
      counters_.protocol_errors.add(1);
      Reply(&c.out, c.protocol).error("ERR " + c.parser.error());
      c.close_after_reply = true;
      return;
    case RequestParser::Failure::kSecurity: {
      counters_.security_closes.add(1);
      std::int64_t told_ms = shared_->attack_told_ms.load();
      if (now_ms_ - told_ms >= 60'000 && shared_->attack_told_ms.compare_exchange_strong(told_ms, now_ms_)) {
        env_->log(NetLog::kWarning,
                  "possible cross-protocol attack: " + c.address + " sent POST or Host: as a command; its connection was closed");
      }
      return close(c);
    }
    case RequestParser::Failure::kNotResp:
      return close(c);
    case RequestParser::Failure::kQueryBuffer:
      counters_.query_limit_closes.add(1);
      env_->log(NetLog::kWarning, "closed " + c.address + ": its query buffer reached limits.client_query_buffer_limit");
      return close(c);
  }
}

void EventLoop::flush(Connection& c) {
  const std::uint64_t durable = gate_ == nullptr ? ~std::uint64_t{0} : gate_->durable_seq();
  c.open_gates(durable);
  // Before the peer has the last reply: nothing that another client does after that may count on this client.
  if (c.close_after_reply) shared_->live.remove(c.id);
  if (c.writable && !c.out.empty()) {
    const std::uint64_t before = counters_.bytes_out.get();
    const Connection::Io io = c.send(durable, counters_);
    if (io == Connection::Io::kError) return close(c);
    spend(counters_.bytes_out.get() - before);
    if (io == Connection::Io::kOk && c.out.begin() < c.send_limit(durable)) enqueue(c);  // its share of this round is used up
  }
  if (c.gated() && !c.in_gated_list) {
    c.in_gated_list = true;
    gated_.push_back(&c);
  }
  if (c.close_after_reply && c.out.empty()) finish_closing(c);
}

// Sends replies that waited for the log. Sets the flag before it reads durable_seq, so that it misses no change.
void EventLoop::flush_gated() {
  if (gated_.empty()) return;
  gate_waited_ = true;
  const std::uint64_t durable = gate_->durable_seq();
  if (logging_seq_ != 0 && durable >= logging_seq_) {
    sink_->logged(env_->mono_ns() - logging_since_ns_);
    logging_seq_ = 0;
  }
  const bool failed = gate_->failed();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < gated_.size(); ++i) {
    Connection& c = *gated_[i];
    if (c.dead) continue;
    if (failed && c.gated() && c.gates.back().seq > durable && now_ms_ - c.gates.front().since_ms >= kGiveUpMs)
      c.give_up_gated(durable);
    if (c.gated() && c.gates.front().seq > durable) {
      gated_[kept++] = &c;
      continue;
    }
    c.in_gated_list = false;
    if (late_ && c.out.size() > kLittle) {
      enqueue(c);
      continue;
    }
    const bool was_full = c.out.size() >= c.output_high_water;
    flush(c);  // flush() may append the connection to gated_, which is being walked
    if (!c.dead) account(c);
    if (!c.dead && was_full && c.out.size() < c.output_high_water) enqueue(c);
  }
  gated_.resize(kept);
  if (gated_.empty()) gate_waited_ = false;
}

void EventLoop::check_output_limits(Connection& c) {
  // A shared value is sent from its own memory, which was charged when it was read. So it is left out here, except for bytes
  // beyond the largest possible value.
  const std::uint64_t own = c.out.memory();
  const std::uint64_t all = c.out.size();
  const std::uint64_t counted = std::max(own, all > settings_.max_bulk_bytes ? all - settings_.max_bulk_bytes : 0);
  const OutputLimits& limits = c.subscriber ? settings_.subscriber_output : settings_.output;
  bool over = limits.hard != 0 && counted > limits.hard;
  if (limits.soft != 0 && counted > limits.soft) {
    if (c.soft_limit_since_ms == 0) c.soft_limit_since_ms = now_ms_;
    over = over || now_ms_ - c.soft_limit_since_ms >= limits.soft_ms;
  } else {
    c.soft_limit_since_ms = 0;
  }
  if (over) close_overflown(c);
}

void EventLoop::close_overflown(Connection& c) {
  counters_.output_limit_closes.add(1);
  env_->log(NetLog::kWarning, "closed " + c.address + ": its output buffer reached limits.client_output_buffer_limit");
  close(c);
}

// Begins to close a connection whose output is all sent. If the peer still sends, closing at once would make the kernel drop the
// last reply. So this closes only the sending side, and reads input for a moment.
void EventLoop::finish_closing(Connection& c) {
  if (c.lingering) return;
  if (c.end_of_input) return close(c);
  c.end_output();
  c.lingering = true;
  c.linger_until_ms = now_ms_ + kLingerMs;
  linger(c);
}

void EventLoop::linger(Connection& c) {
  while (true) {
    const ssize_t n = ::recv(c.fd, scratch_.data(), scratch_.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) return close(c);
    c.lingered_bytes += static_cast<std::size_t>(n);
    if (c.lingered_bytes > kLingerBytes) return close(c);
  }
}

void EventLoop::close(Connection& c) {
  if (c.dead) return;
  c.dead = true;
  if (sink_ != nullptr) sink_->client_closed(c, c.pending.empty() ? nullptr : &c.pending.front());
  if (!c.pending.empty()) c.ended = std::move(c.pending.front().continuation);  // may take long to free, so bury() does it
  c.pending.clear();
  c.out.clear();
  c.parser.discard();  // its memory and charge are released now, so that other connections may grow in this round
  if (c.tls != nullptr && !c.lingering) c.tls->close();
  ::close(c.fd);  // also removes the descriptor from the epoll set
  c.fd = -1;
  counters_.closed.add(1);
  by_id_.erase(c.id);
  shared_->live.remove(c.id);
  if (c.counted_stranger) {
    shared_->strangers.fetch_sub(1);
    shared_->unauthenticated.remove(c.id);
  }
  held_bytes_ -= c.own_bytes;
  if (env_->memory != nullptr && c.charged_values != 0) env_->memory->release_values(c.charged_values);
  shared_->clients.fetch_sub(1);
  load_.fetch_sub(1);
  // The object stays until no code of this round can use it.
  const std::size_t slot = c.slot;
  graveyard_.push_back(std::move(connections_[slot]));
  if (slot + 1 != connections_.size()) {
    connections_[slot] = std::move(connections_.back());
    connections_[slot]->slot = slot;
  }
  connections_.pop_back();
}

// Frees closed connections in the order in which they closed. Freeing one may take milliseconds, if it had thousands of tracked
// prefixes or a command that waits for thousands of keys. So a flood of closing connections is freed in parts, and does not delay
// other clients.
void EventLoop::bury() {
  if (graveyard_.empty()) return;
  const auto dead = [](const Connection* c) { return c->dead; };
  std::erase_if(queue_, dead);
  std::erase_if(gated_, dead);
  const std::uint64_t start = env_->mono_ns();
  do {
    graveyard_.pop_front();
  } while (!graveyard_.empty() && env_->mono_ns() - start < kPartNanos);
  // Releases the charge together with the memory. Otherwise freed memory would stay charged until the next sweep.
  if (charged_bytes_ >= held_bytes_ + kChargeStep) charge_buffers(held_bytes_);
}

// Checks timeouts, and adds up memory, for a tenth of the connections.
void EventLoop::sweep() {
  next_sweep_ms_ = now_ms_ + kSweepMs;
  if (charged_bytes_ != held_bytes_) charge_buffers(held_bytes_);
  std::size_t count = connections_.size() / 10 + 1;
  while (count-- > 0 && !connections_.empty()) {
    if (sweep_at_ >= connections_.size()) {
      sweep_at_ = 0;
      largest_held_ = 0;
      for (const auto& c : connections_) largest_held_ = std::max(largest_held_, c->held_bytes);
      client_bytes_ = sweep_bytes_;
      max_input_ = sweep_input_;
      max_output_ = sweep_output_;
      sweep_bytes_ = sweep_input_ = sweep_output_ = 0;
      std::uint64_t waiting = 0;
      for (const auto& c : connections_) waiting += c->waiting ? 1 : 0;
      waiting_ = waiting;
    }
    sweep_one(*connections_[sweep_at_++]);
  }
  if (connections_.empty()) client_bytes_ = max_input_ = max_output_ = waiting_ = 0;
}

void EventLoop::sweep_one(Connection& c) {
  const std::uint64_t input = c.parser.memory();
  sweep_bytes_ += input + c.out.memory() + sizeof(Connection);
  sweep_input_ = std::max(sweep_input_, input);
  sweep_output_ = std::max<std::uint64_t>(sweep_output_, c.out.size());
  c.out.reset_peak();
  if (c.lingering) {
    if (now_ms_ >= c.linger_until_ms) close(c);
    return;
  }
  if (!c.authenticated && settings_.auth_timeout_ms != 0 && now_ms_ - c.stranger_since_ms >= settings_.auth_timeout_ms) {
    counters_.auth_timeout_closes.add(1);
    return close(c);
  }
  if (settings_.idle_timeout_ms != 0 && !c.waiting && !c.subscriber && now_ms_ - c.last_command_ms >= settings_.idle_timeout_ms) {
    counters_.idle_closes.add(1);
    return close(c);
  }
  if (c.waiting && c.end_of_input_ms != 0 && now_ms_ - c.end_of_input_ms >= kHalfClosedMs) return close(c);
  check_output_limits(c);
  if (!c.dead && c.held_bytes > spared_bytes()) relieve(c);
}

}  // namespace ebbtide

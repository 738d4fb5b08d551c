#include "generator.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

namespace ebbtide::bench {
namespace {

constexpr std::size_t kReceiveBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxStalls = 10'000;
/// The most requests that are sent before replies are read again. Without this limit a late generator would not read until it has
/// caught up.
constexpr int kIssueAtOnce = 256;
/// The unanswered requests of a thread at which a run ends, since the server does not keep up with the rate. They take about 100
/// MB here.
constexpr std::uint64_t kMaxOutstanding = 2'000'000;

std::string system_error(const char* what) { return std::string(what) + ": " + std::strerror(errno); }
std::int64_t nanos(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

}  // namespace

std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void Tally::merge(const Tally& other) {
  get.merge(other.get);
  set.merge(other.set);
  lag.merge(other.lag);
  sent += other.sent;
  errors += other.errors;
  misses += other.misses;
  wrong += other.wrong;
  unanswered += other.unanswered;
  longest_gap_ns = std::max(longest_gap_ns, other.longest_gap_ns);
  stalls.insert(stalls.end(), other.stalls.begin(), other.stalls.end());
  if (first_error.empty()) first_error = other.first_error;
}

Generator::Generator(const Load& load, unsigned index, const Requests& requests, Shared& shared)
    : load_(load),
      requests_(requests),
      shared_(shared),
      index_(index),
      random_(load.seed * 1000 + index),
      shuffle_(load.keys, load.seed),
      buffer_(kReceiveBytes) {
  connections_.resize(load.connections / load.threads + (index < load.connections % load.threads ? 1 : 0));
}

Generator::~Generator() {
  for (Connection& connection : connections_) {
    if (connection.fd >= 0) ::close(connection.fd);
  }
  if (epoll_ >= 0) ::close(epoll_);
}

std::string Generator::connect() {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return system_error("epoll_create1");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(load_.port);
  if (::inet_pton(AF_INET, load_.host.c_str(), &address.sin_addr) != 1) return load_.host + " is no IPv4 address";
  for (Connection& connection : connections_) {
    connection.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection.fd < 0) return system_error("socket");
    if (::connect(connection.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      return system_error("connect");
    const int on = 1;
    (void)::setsockopt(connection.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &connection;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.fd, &event) != 0) return system_error("epoll_ctl");
  }
  return "";
}

std::string Generator::run() {
  (void)::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // for precise waits, which are otherwise 50 us late
  const std::int64_t begin = shared_.begin_ns;
  const timespec begin_time{begin / 1'000'000'000, begin % 1'000'000'000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &begin_time, nullptr) == EINTR) continue;
  recorded_from_ns_ = begin + nanos(load_.warmup);
  end_ns_ = load_.seconds > 0 ? recorded_from_ns_ + nanos(load_.seconds) : std::numeric_limits<std::int64_t>::max();
  interval_ends_ns_ = begin + nanos(load_.interval);
  if (load_.rate > 0)
    arrivals_ = std::make_unique<Arrivals>(load_.rate / load_.threads, load_.poisson, begin, load_.seed + index_);
  std::string error;
  std::int64_t give_up_ns = 0;
  while (error.empty()) {
    std::int64_t now = now_ns();
    close_intervals(now);
    if (issuing(now)) {
      issue_due(now);
    } else {
      if (give_up_ns == 0) give_up_ns = now + nanos(load_.drain);
      if (outstanding_ == 0 || now >= give_up_ns) break;
    }
    error = send_dirty();
    if (error.empty()) error = wait_and_receive(wait_ns(now_ns()));
  }
  const std::int64_t now = now_ns();
  count_unanswered(now);
  shared_.deliver(interval_, window_);
  return error;
}

bool Generator::issuing(std::int64_t now) const {
  return !exhausted_ && !shared_.stop.load(std::memory_order_relaxed) && now < end_ns_;
}

void Generator::issue_due(std::int64_t now) {
  if (arrivals_ == nullptr) {
    for (Connection& connection : connections_) {
      if (connection.pending.empty()) issue_batch(connection, now);
    }
    return;
  }
  if (outstanding_ >= kMaxOutstanding) shared_.stop = shared_.overloaded = true;
  for (int i = 0; i < kIssueAtOnce && arrivals_->next_ns() <= now && arrivals_->next_ns() < end_ns_; ++i) {
    Connection& connection = connections_[next_connection_++ % connections_.size()];
    if (!issue(connection, arrivals_->next_ns())) return;
    arrivals_->pop();
  }
}

void Generator::issue_batch(Connection& connection, std::int64_t now) {
  for (unsigned i = 0; i < load_.depth; ++i) {
    if (!issue(connection, now)) return;
  }
}

std::uint64_t Generator::choose_key(std::uint64_t number) {
  switch (load_.order) {
    case Order::kUniform:
      return random_.uniform(load_.keys);
    case Order::kSequential:
      return number % load_.keys;
    case Order::kShuffled:
      return shuffle_(number % load_.keys);
  }
  return 0;
}

bool Generator::issue(Connection& connection, std::int64_t intended_ns) {
  const std::uint64_t number = shared_.next_request.fetch_add(1, std::memory_order_relaxed);
  if (load_.requests != 0 && number >= load_.requests) {
    exhausted_ = true;
    return false;
  }
  const std::uint64_t key = load_.first_key + choose_key(number);
  const bool get = load_.gets >= 1 || (load_.gets > 0 && random_.fraction() < load_.gets);
  get ? requests_.append_get(key, load_.absent, connection.out) : requests_.append_set(key, connection.out);
  connection.pending.push_back({intended_ns, key, get});
  if (outstanding_++ == 0) waiting_since_ns_ = std::max(intended_ns, shared_.begin_ns);
  if (!connection.dirty) {
    connection.dirty = true;
    dirty_.push_back(&connection);
  }
  const auto lag = static_cast<std::uint64_t>(std::max<std::int64_t>(0, now_ns() - intended_ns));
  ++window_.sent;
  window_.lag.record(lag);
  if (intended_ns >= recorded_from_ns_) {
    ++total_.sent;
    total_.lag.record(lag);
  }
  return true;
}

std::string Generator::send_dirty() {
  std::vector<Connection*> now_dirty;
  now_dirty.swap(dirty_);
  for (Connection* connection : now_dirty) {
    connection->dirty = false;
    if (std::string error = send(*connection); !error.empty()) return error;
  }
  return "";
}

std::string Generator::send(Connection& connection) {
  while (connection.out_sent < connection.out.size()) {
    const ssize_t n = ::send(connection.fd, connection.out.data() + connection.out_sent,
                             connection.out.size() - connection.out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) return system_error("send");
    connection.out_sent += static_cast<std::size_t>(n);
  }
  const bool was_blocked = connection.out_sent < connection.out.size();
  if (!was_blocked) {
    connection.out.clear();
    connection.out_sent = 0;
  } else if (connection.out_sent > kReceiveBytes) {
    connection.out.erase(0, connection.out_sent);
    connection.out_sent = 0;
  }
  // The set is level-triggered, so writability is requested only while there is something to write.
  epoll_event event{};
  event.events = was_blocked ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.ptr = &connection;
  if (was_blocked != connection.blocked) {
    connection.blocked = was_blocked;
    if (::epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event) != 0) return system_error("epoll_ctl");
  }
  return "";
}

std::int64_t Generator::wait_ns(std::int64_t now) const {
  std::int64_t until = std::min(interval_ends_ns_, now + 100'000'000);
  if (issuing(now) && arrivals_ != nullptr) until = std::min(until, arrivals_->next_ns());
  if (now < end_ns_) until = std::min(until, end_ns_);
  return std::max<std::int64_t>(0, until - now);
}

std::string Generator::wait_and_receive(std::int64_t timeout_ns) {
  if (timeout_ns > 0) {  // epoll_wait counts in milliseconds; ppoll on the epoll set, in nanoseconds
    pollfd waiter{epoll_, POLLIN, 0};
    const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    if (::ppoll(&waiter, 1, &timeout, nullptr) == 0) return "";
  }
  epoll_event events[256];
  const int count = ::epoll_wait(epoll_, events, 256, 0);
  if (count < 0 && errno != EINTR) return system_error("epoll_wait");
  for (int i = 0; i < count; ++i) {
    auto& connection = *static_cast<Connection*>(events[i].data.ptr);
    std::string error;
    if ((events[i].events & EPOLLOUT) != 0) error = send(connection);
    if (error.empty() && (events[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) error = receive(connection);
    if (!error.empty()) return error;
  }
  return "";
}

std::string Generator::receive(Connection& connection) {
  const ssize_t n = ::recv(connection.fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (n == 0) return "the server closed a connection with " + std::to_string(connection.pending.size()) + " requests unanswered";
  if (n < 0) return errno == EAGAIN || errno == EINTR ? "" : system_error("recv");
  const std::int64_t now = now_ns();
  note_gap(now);
  // The bytes of an incomplete reply are put before the new bytes. Usually there are none, and the buffer is parsed in place.
  std::string_view stream(buffer_.data(), static_cast<std::size_t>(n));
  if (!connection.in.empty()) stream = connection.in.append(stream);
  std::size_t at = 0;
  while (at < stream.size()) {
    const std::optional<ReplyView> reply = parse_reply(stream.substr(at));
    if (!reply) return "no reply to a GET or SET: " + std::string(stream.substr(at, 60));
    if (reply->bytes == 0) break;
    if (std::string error = take(connection, *reply, now); !error.empty()) return error;
    at += reply->bytes;
  }
  connection.in = std::string(stream.substr(at));
  return "";
}

std::string Generator::take(Connection& connection, const ReplyView& reply, std::int64_t now) {
  if (connection.pending.empty()) return "a reply without a request: " + std::string(reply.body.substr(0, 60));
  const Pending request = connection.pending.front();
  connection.pending.pop_front();
  if (--outstanding_ == 0) waiting_since_ns_ = 0;
  const auto latency = static_cast<std::uint64_t>(std::max<std::int64_t>(0, now - request.intended_ns));
  const auto count = [&](Tally& tally) {
    (request.get ? tally.get : tally.set).record(latency);
    if (reply.kind == ReplyView::Kind::kError) {
      ++tally.errors;
      if (tally.first_error.empty()) tally.first_error = reply.body;
    }
    if (!request.get) return;
    if (reply.kind == ReplyView::Kind::kNull) ++tally.misses;
    const bool value = reply.kind == ReplyView::Kind::kBulk;
    if (load_.verify && value && !requests_.belongs(request.key, reply.body)) ++tally.wrong;
  };
  count(window_);
  if (request.intended_ns < recorded_from_ns_) return "";
  count(total_);
  last_answer_ns_ = now - recorded_from_ns_;
  return "";
}

void Generator::note_gap(std::int64_t now) {
  if (outstanding_ == 0) return;
  const std::int64_t gap = now - waiting_since_ns_;
  waiting_since_ns_ = now;
  const bool long_one = static_cast<double>(gap) > load_.stall_ms * 1e6;
  const auto note = [&](Tally& tally) {
    tally.longest_gap_ns = std::max(tally.longest_gap_ns, gap);
    if (long_one && tally.stalls.size() < kMaxStalls)
      tally.stalls.push_back({static_cast<double>(now - gap - recorded_from_ns_) / 1e9, static_cast<double>(gap) / 1e6});
  };
  note(window_);
  if (now - gap >= recorded_from_ns_) note(total_);
}

void Generator::close_intervals(std::int64_t now) {
  while (now >= interval_ends_ns_) {
    shared_.deliver(interval_++, window_);
    window_ = Tally();
    interval_ends_ns_ += nanos(load_.interval);
  }
}

void Generator::count_unanswered(std::int64_t now) {
  note_gap(now);
  for (Connection& connection : connections_) {
    for (const Pending& request : connection.pending) {
      ++window_.unanswered;
      if (request.intended_ns < recorded_from_ns_) continue;
      ++total_.unanswered;
      // The request took at least this long.
      (request.get ? total_.get : total_.set)
          .record(static_cast<std::uint64_t>(std::max<std::int64_t>(0, now - request.intended_ns)));
    }
  }
}

}  // namespace ebbtide::bench

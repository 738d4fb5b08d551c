// Tests of one event loop over socket pairs, with a sink that the test controls. Reads block until the loop has replied. The
// receive timeout ends failing tests only.
#include <catch2/catch.hpp>

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <set>

#include "net/event_loop.h"
#include "resp/reply.h"

namespace TEST_FILE {

using namespace ebbtide;

// The sink's commands: ECHO x, WAIT n (resumed by the test), LATER (asks for a retry), BIG n, SEE seq, CLOSE; others reply +OK.
class TestSink final : public CommandSink {
 public:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::uint64_t> waiting;  // clients whose command is a WAIT
    std::vector<std::uint64_t> closed;
    std::set<std::uint64_t> released;
    std::size_t largest_pass = 0, largest_output = 0;
    std::vector<std::uint32_t> attempts;
    bool takes_input = false;  // takes the input of clients that close while their command waits
    std::shared_ptr<const void> input;
    int event = -1;  // an eventfd; once it is written, poll() resumes the clients in a WAIT
    int events = 0;  // the number of writes of `event` that poll() has seen
    int polls = 0;
    int logged = 0;                         // the number of calls of logged()
    int resumed_in = 0, rerun_in = 0;       // polls before poll() resumed a WAIT, and before it ran again
    std::atomic<std::uint64_t> charged{0};  // bytes for replies to CHARGED, until the loop has charged its buffers
    std::vector<std::uint64_t> freed;       // clients whose WAIT has ended, in order; used on the loop's thread
    std::string order;                      // the letters of SPEND and NOTE, in the order in which they ran
  };
  explicit TestSink(Shared* shared) : shared_(shared) {}

  void run_pass(std::span<PendingCommand> commands) override {
    std::lock_guard lock(shared_->mutex);
    shared_->largest_pass = std::max(shared_->largest_pass, commands.size());
    for (PendingCommand& command : commands) {
      if (command.client->may_run()) run(command);
      if (command.args[0] == "SPEND" || command.args[0] == "SLICES") return;  // the pass has no time for further commands
    }
  }
  bool charges_replies() const override { return shared_->charged != 0; }
  void buffers_charged() override { shared_->charged = 0; }
  void logged(std::uint64_t) override {
    std::lock_guard lock(shared_->mutex);
    ++shared_->logged;
  }
  void poll() override {
    std::lock_guard lock(shared_->mutex);
    ++shared_->polls;
    shared_->changed.notify_all();
    std::uint64_t count = 0;
    if (shared_->event < 0 || ::read(shared_->event, &count, sizeof(count)) < 0) return;
    ++shared_->events;
    shared_->resumed_in = shared_->polls;
    for (const std::uint64_t id : shared_->waiting) {
      shared_->released.insert(id);
      loop_->resume(id);
    }
  }
  int descriptor() const override { return shared_->event; }
  void client_closed(Client& client, PendingCommand* waiting) override {
    std::lock_guard lock(shared_->mutex);
    if (waiting != nullptr && shared_->takes_input) shared_->input = client.take_input();
    shared_->closed.push_back(client.id);
    shared_->changed.notify_all();
  }

 private:
  struct Waiting final : Continuation {
    Waiting(Shared* shared, std::uint64_t client) : shared_(shared), client_(client) {}
    ~Waiting() override { shared_->freed.push_back(client_); }
    Shared* const shared_;
    const std::uint64_t client_;
  };

  void run(PendingCommand& command) {
    Client& client = *command.client;
    loop_ = client.loop;
    Reply reply(&client.out, client.protocol);
    const Bytes name = command.args[0];
    if (name == "LATER" && command.attempt == 0) {  // the command runs again only after its time
      command.state = PendingCommand::State::kWaiting;
      command.retry_ms = 50;
      client.waiting = true;
      shared_->waiting.push_back(client.id);
      shared_->changed.notify_all();
      return;
    }
    if (name == "WAIT" && shared_->released.count(client.id) == 0) {
      shared_->attempts.push_back(command.attempt);
      command.continuation = std::make_unique<Waiting>(shared_, client.id);
      command.state = PendingCommand::State::kWaiting;
      client.waiting = true;
      shared_->waiting.push_back(client.id);
      shared_->changed.notify_all();
      return;
    }
    if (name == "SLICES" && command.attempt < 50) {
      shared_->order += command.args[1];
      command.state = PendingCommand::State::kWaiting;
      command.unfinished = true;
      client.waiting = true;
      loop_->resume(client.id);
      return;
    }
    command.state = PendingCommand::State::kDone;
    if (name == "WAIT") shared_->rerun_in = shared_->polls;
    if (name == "SPEND" || name == "NOTE") shared_->order += command.args[1];
    if (command.args.refused) {
      reply.error("OOM");
    } else if (name == "ECHO") {
      reply.bulk(command.args[1]);
    } else if (name == "CHARGED") {
      reply.bulk(std::string(std::stoul(std::string(command.args[1])), 'c'));
      shared_->charged = client.out.memory();
    } else if (name == "BIG") {
      const auto value = std::make_shared<const std::string>(std::stoul(std::string(command.args[1])), 'x');
      reply.bulk_shared(value, *value);
    } else if (name == "SEE") {
      client.seen_seq = std::stoull(std::string(command.args[1]));
      reply.simple("SEEN");
    } else if (name == "CLOSE") {
      reply.simple("BYE");
      client.close_after_reply = true;
    } else if (name == "AUTH") {
      client.authenticated = true;
      reply.ok();
    } else if (name == "PUSH") {  // sends a push to all clients of the loop
      loop_->for_each([&](Client& other) {
        other.out.append(std::string(std::stoul(std::string(command.args[1])), 'p'));
        loop_->touch(&other);
      });
      shared_->largest_output = 0;
      loop_->for_each([&](Client& other) { shared_->largest_output += other.out.memory(); });
    } else if (name == "KEEP") {
      client.state_bytes = std::stoul(std::string(command.args[1]));
      reply.ok();
    } else if (name == "RESET") {
      client.authenticated = false;
      reply.ok();
    } else if (name == "MANY") {  // makes one long reply
      for (int i = 0; i < 100'000; ++i) reply.bulk(std::string(1000, 'm'));
      shared_->largest_output = std::max(shared_->largest_output, client.out.memory());
    } else {
      reply.ok();
    }
  }
  Shared* shared_;
  ClientLoop* loop_ = nullptr;
};

struct TestGate final : ReplyGate {
  bool end_of_pass() override { return writes; }
  std::uint64_t durable_seq() const override { return durable; }
  bool failed() const override { return broken; }
  std::atomic<std::uint64_t> durable{0};
  std::atomic<bool> broken{false}, writes{false};
};

// A memory budget that the test sets.
struct TestMemory final : ClientMemory {
  void charge_buffers(std::uint64_t bytes) override { buffers += bytes; }
  void release_buffers(std::uint64_t bytes) override { buffers -= bytes; }
  bool try_charge_values(std::uint64_t bytes) override {
    if (values + bytes > most_values) return false;
    values += bytes;
    return true;
  }
  void charge_values(std::uint64_t bytes) override { values += bytes; }
  void release_values(std::uint64_t bytes) override { values -= bytes; }
  std::shared_ptr<const std::string> own_value(std::shared_ptr<const std::string> value) override {
    const std::string* const bytes = value.get();
    return {bytes, [this, value = std::move(value)](const std::string* b) { values -= b->size(); }};
  }
  std::shared_ptr<const void> own_input(std::shared_ptr<const void> input, std::uint64_t bytes) override {
    buffers += bytes;
    const void* const place = input.get();
    return {place, [this, bytes, input = std::move(input)](const void*) { buffers -= bytes; }};
  }
  bool short_of_buffers() const override { return spent || (sink != nullptr && buffers + sink->charged > most); }
  bool overdrawn() const override { return exceeded; }
  const TestSink::Shared* sink = nullptr;
  std::atomic<bool> exceeded{false};
  std::atomic<std::uint64_t> most{~std::uint64_t{0}};
  std::atomic<std::uint64_t> buffers{0}, values{0}, most_values{~std::uint64_t{0}};
  std::atomic<bool> spent{false};
};

struct Harness {
  explicit Harness(NetSettings s = {}) : settings(s) {
    env.unix_ms = [this] { return now_ms.load() + wall_jump_ms.load(); };
    env.memory = &memory;
    env.mono_ns = [this] { return static_cast<std::uint64_t>(now_ms.load()) * 1'000'000 + (looks += ns_per_look); };
    env.log = [this](NetLog, const std::string& text) {
      std::lock_guard lock(log_mutex);
      log.push_back(text);
    };
    loop = std::make_unique<EventLoop>(0, settings, &shared, &env);
    REQUIRE(loop->start(std::make_unique<TestSink>(&sink)).empty());
    loop->set_sink(std::make_unique<TestSink>(&sink), &gate);
  }
  ~Harness() {
    loop.reset();
    for (const int fd : fds) ::close(fd);
    CHECK(memory.buffers == 0);
    CHECK(memory.values == 0);
  }

  int connect(bool stranger = false, const std::string& address = "peer") {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    const timeval limit{20, 0};
    REQUIRE(::setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
    shared.clients.fetch_add(1);
    if (stranger) shared.strangers.fetch_add(1);
    loop->adopt({pair[1], address, host_of(address), "local", stranger});
    fds.push_back(pair[0]);
    return pair[0];
  }
  // Makes a TCP connection, since socket pairs report more events. The loop gets it by adopt().
  std::pair<int, int> tcp_pair() {
    const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(::bind(listening, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listening, 1) == 0);
    REQUIRE(::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const int ours = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(::connect(ours, reinterpret_cast<sockaddr*>(&address), size) == 0);
    const int theirs = ::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    REQUIRE(theirs >= 0);
    ::close(listening);
    const timeval limit{20, 0};
    REQUIRE(::setsockopt(ours, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
    fds.push_back(ours);
    return {ours, theirs};
  }
  /// Returns the number of log lines that contain the text.
  std::size_t logged(const std::string& part) {
    std::lock_guard lock(log_mutex);
    return static_cast<std::size_t>(
        std::count_if(log.begin(), log.end(), [&](const std::string& text) { return text.find(part) != std::string::npos; }));
  }
  void adopt(int fd) {
    shared.clients.fetch_add(1);
    loop->adopt({fd, "peer", "net", "local", false});
  }
  // Other threads may call this function, but not Catch's macros.
  static bool sends(int fd, const std::string& text) {
    std::size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t n = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<std::size_t>(n);
    }
    return true;
  }
  static void send(int fd, const std::string& text) { REQUIRE(sends(fd, text)); }
  static std::string receive(int fd, std::size_t bytes) {
    std::string text(bytes, '\0');
    std::size_t got = 0;
    while (got < bytes) {
      const ssize_t n = ::recv(fd, text.data() + got, bytes - got, 0);
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    text.resize(got);
    return text;
  }
  static void expect(int fd, const std::string& reply) { CHECK(receive(fd, reply.size()) == reply); }
  static void expect_end(int fd) {
    char c;
    CHECK(::recv(fd, &c, 1, 0) <= 0);
  }
  void wait_for_waiting(std::size_t n) {
    std::unique_lock lock(sink.mutex);
    REQUIRE(sink.changed.wait_for(lock, std::chrono::seconds(20), [&] { return sink.waiting.size() >= n; }));
  }
  /// From now on the sink waits for an event of its own.
  void watch_event() {
    sink.event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    fds.push_back(sink.event);
    loop->set_sink(std::make_unique<TestSink>(&sink), &gate);
  }
  void tell_event() const {
    const std::uint64_t one = 1;
    REQUIRE(::write(sink.event, &one, sizeof(one)) == sizeof(one));
  }
  // Waits until all posted tasks have run, and a complete round after them.
  void settle() {
    for (int i = 0; i < 2; ++i) {
      std::mutex mutex;
      std::condition_variable changed;
      bool done = false;
      loop->post([&] {
        std::lock_guard lock(mutex);
        done = true;
        changed.notify_all();
      });
      std::unique_lock lock(mutex);
      REQUIRE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return done; }));
    }
  }

  NetSettings settings;
  std::atomic<std::int64_t> now_ms{1'000'000}, wall_jump_ms{0};
  std::atomic<std::uint64_t> ns_per_look{0}, looks{0};  // each read of the monotonic clock moves it by ns_per_look
  TestMemory memory;
  NetEnv env;
  NetShared shared;
  TestSink::Shared sink;
  TestGate gate;
  std::mutex log_mutex;
  std::vector<std::string> log;  // guarded by log_mutex
  std::vector<int> fds;
  std::unique_ptr<EventLoop> loop;
};

std::string bulk(const std::string& text) { return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"; }
std::string echo(const std::string& text) { return "*2\r\n$4\r\nECHO\r\n" + bulk(text); }

TEST_CASE("memory budget is exceeded: a connection whose buffers grow is closed, even if others have larger buffers") {
  Harness h;
  const int large = h.connect(), small = h.connect();
  const auto incomplete = [](std::size_t bulks) {
    std::string text = "*200\r\n";
    for (std::size_t i = 0; i < bulks; ++i) text += bulk(std::string(60'000, 'x'));
    return text;
  };
  h.send(large, incomplete(80));
  std::uint64_t before = 0;
  do {  // until the last byte has been received: a connection that still grows would be closed
    before = h.memory.buffers;
    for (int i = 0; i < 5; ++i) h.settle();
  } while (h.memory.buffers < (4 << 20) || h.memory.buffers != before);
  h.memory.spent = true;
  h.send(small, incomplete(3));
  h.settle();
  CHECK(h.logged("storage.memory_budget is spent") == 0);  // the large connection is closed at its next sweep
  h.memory.exceeded = true;
  // The result is false if the connection is closed meanwhile.
  (void)h.sends(small, bulk(std::string(60'000, 'x')) + bulk(std::string(60'000, 'x')));
  h.settle();
  h.settle();
  CHECK(h.logged("storage.memory_budget is spent") == 1);
}

TEST_CASE("memory is spent by incomplete commands: connections over their share are closed until the others fit") {
  NetSettings settings;
  settings.memory_budget = 16 << 20;  // connections that are not closed may hold an eighth of it: 21 KB each of 100
  Harness h(settings);
  std::vector<int> hoarders, modest;
  for (int i = 0; i < 90; ++i) hoarders.push_back(h.connect());
  for (int i = 0; i < 10; ++i) modest.push_back(h.connect());
  for (const int fd : modest) h.send(fd, "ECHO " + std::string(1000, 'x'));  // inline commands without their end
  h.memory.spent = true;
  for (const int fd : hoarders) (void)h.sends(fd, std::string(40'000, 'x'));
  for (int i = 0; i < 20; ++i) h.settle();
  constexpr std::uint64_t kStep = 1 << 20;  // buffers are charged in steps
  CHECK(h.loop->counters().memory_closes.get() > 40);
  CHECK(h.memory.buffers <= settings.memory_budget / 8 + kStep);
  for (const int fd : modest) {
    h.send(fd, "\n");
    h.expect(fd, bulk(std::string(1000, 'x')));
  }
}

TEST_CASE("connection closes: its buffers are released in the same round of the loop") {
  Harness h;
  const int client = h.connect();
  std::string large = "*101\r\n$4\r\nECHO\r\n";
  for (int i = 0; i < 99; ++i) large += bulk(std::string(60'000, 'x'));
  h.send(client, large);  // one argument is missing
  while (h.memory.buffers < (5 << 20)) h.settle();
  ::shutdown(client, SHUT_RDWR);  // time stands still, so no sweep runs
  h.settle();
  h.settle();
  CHECK(h.memory.buffers < (1 << 20));
}

TEST_CASE("pass ends before all commands have run: the connections take turns in the next passes") {
  Harness h;
  const int first = h.connect(), second = h.connect(), third = h.connect();
  std::string spends[2];
  for (int i = 0; i < 20; ++i) {
    spends[0] += "SPEND a\r\n";
    spends[1] += "SPEND b\r\n";
  }
  {
    std::lock_guard lock(h.sink.mutex);  // stops the loop until all have sent
    h.send(first, spends[0]);
    h.send(second, spends[1]);
    h.send(third, "NOTE c\r\nNOTE c\r\n");
  }
  for (const int client : {first, second}) {
    for (int i = 0; i < 20; ++i) h.expect(client, "+OK\r\n");
  }
  h.expect(third, "+OK\r\n+OK\r\n");
  std::lock_guard lock(h.sink.mutex);
  const std::string& order = h.sink.order;
  CHECK(order.size() == 42);
  CHECK(order.find("cc") <= 3);  // at most the input that was read before "cc" was sent
  int ahead = 0, most = 0;
  for (const char c : order) {
    ahead += c == 'a' ? 1 : c == 'b' ? -1 : 0;
    most = std::max(most, std::abs(ahead));
  }
  CHECK(most <= 3);
}

TEST_CASE("pipelines of 300 clients fill every pass: a client with one command waits for a few passes only") {
  Harness h;
  std::vector<int> links;
  for (int i = 0; i < 300; ++i) links.push_back(h.connect());
  const int quick = h.connect();
  std::string spends;
  for (int i = 0; i < 100; ++i) spends += "SPEND a\r\n";
  for (int round = 0; round < 10; ++round) {
    std::size_t before = 0;
    {
      std::lock_guard lock(h.sink.mutex);  // stops the loop
      for (std::size_t i = 0; round == 0 && i < links.size(); ++i) h.send(links[i], spends);
      before = h.sink.order.size();
      h.send(quick, "NOTE c\r\n");
    }
    h.expect(quick, "+OK\r\n");
    std::lock_guard lock(h.sink.mutex);
    CHECK(h.sink.order.find('c', before) - before <= 6);
  }
  CHECK(h.sink.largest_pass <= 16'384 + 100);
  CHECK(h.sink.order.size() < 300 * 100);
}

TEST_CASE("long commands run in slices: short commands run before the next slice, and the long ones take turns") {
  Harness h;
  const int first = h.connect(), second = h.connect(), third = h.connect();
  {
    std::lock_guard lock(h.sink.mutex);
    h.send(first, "SLICES a\r\n");
    h.send(second, "SLICES b\r\n");
    h.send(third, "NOTE c\r\n");
  }
  for (const int client : {first, second, third}) h.expect(client, "+OK\r\n");
  std::lock_guard lock(h.sink.mutex);
  const std::string& order = h.sink.order;
  CHECK(order.size() == 101);
  CHECK(order.find('c') <= 6);
  CHECK(order.substr(0, 60).find(std::string(8, 'a')) == std::string::npos);
  CHECK(order.substr(0, 60).find(std::string(8, 'b')) == std::string::npos);
}

TEST_CASE("inputs are large: parsing takes a part of each round, and a short command runs before the remaining input") {
  Harness h;
  std::vector<int> links;
  for (int i = 0; i < 20; ++i) links.push_back(h.connect());
  const int quick = h.connect();
  h.settle();
  std::string notes;
  for (int i = 0; i < 4000; ++i) notes += "NOTE a\r\n";
  {
    std::lock_guard lock(h.sink.mutex);
    h.ns_per_look = 3'000'000;  // two readings of the clock use up one part of a round
    for (const int link : links) h.send(link, notes);
    h.send(quick, "NOTE q\r\n");
  }
  h.expect(quick, "+OK\r\n");
  for (const int link : links) CHECK(h.receive(link, 4000 * 5).size() == 4000 * 5);
  std::lock_guard lock(h.sink.mutex);
  CHECK(h.sink.largest_pass < 20 * 2000);
  CHECK(h.sink.order.find('q') < 20 * 2000);
  CHECK(h.sink.order.size() == 20 * 4000 + 1);
}

TEST_CASE("outputs are large: they are sent over several rounds, and small outputs at once") {
  Harness h;
  std::vector<int> links;
  for (int i = 0; i < 30; ++i) links.push_back(h.connect());
  const int quick = h.connect();
  h.settle();
  std::promise<std::pair<std::size_t, bool>> left;
  h.loop->post([&] {
    h.ns_per_look = 3'000'000;
    h.loop->for_each([&](Client& c) {
      c.out.append(std::string(100'000, 'x'));
      h.loop->touch(&c);
    });
    h.loop->for_each([&](Client& c) {
      if (c.id == 31) c.out.clear(), c.out.append("+news\r\n");
    });
    h.loop->post([&] {  // runs after a round
      std::size_t count = 0;
      bool quick_waits = false;
      h.loop->for_each([&](Client& c) {
        count += c.out.empty() ? 0 : 1;
        quick_waits |= c.id == 31 && !c.out.empty();
      });
      left.set_value({count, quick_waits});
    });
  });
  const auto [count, quick_waits] = left.get_future().get();
  CHECK(count >= 20);
  CHECK_FALSE(quick_waits);
  h.expect(quick, "+news\r\n");
  for (const int link : links) CHECK(h.receive(link, 100'000).size() == 100'000);
}

TEST_CASE("many connections close: the loop frees them over several rounds") {
  struct State final : ClientState {
    explicit State(std::atomic<int>& count) : ended(count) {}
    ~State() override { ++ended; }
    std::atomic<int>& ended;
  };
  Harness h;
  for (int i = 0; i < 10; ++i) h.connect();
  h.settle();
  std::atomic<int> ended{0};
  std::promise<int> first;
  h.loop->post([&] {
    h.ns_per_look = 10'000'000;
    h.loop->for_each([&](Client& c) {
      c.state = std::make_unique<State>(ended);
      c.close_now = true;
      h.loop->touch(&c);
    });
    h.loop->post([&] { first.set_value(ended); });  // runs after a round
  });
  CHECK(first.get_future().get() == 1);
  for (int i = 0; i < 10; ++i) h.settle();
  CHECK(ended == 10);
}

TEST_CASE("many clients disconnect while their commands wait: the commands end over several rounds, in the order of closing") {
  Harness h;
  for (int i = 0; i < 10; ++i) h.connect();
  h.settle();
  for (const int fd : h.fds) h.send(fd, "WAIT 1\r\n");
  h.wait_for_waiting(10);
  std::vector<std::uint64_t> ids;
  std::promise<std::size_t> first;
  h.loop->post([&] {
    h.ns_per_look = 10'000'000;
    h.loop->for_each([&](Client& c) {
      ids.push_back(c.id);
      c.close_now = true;
      h.loop->touch(&c);
    });
    h.loop->post([&] { first.set_value(h.sink.freed.size()); });  // runs after a round
  });
  CHECK(first.get_future().get() == 1);
  for (int i = 0; i < 10; ++i) h.settle();
  CHECK(h.sink.freed == ids);
}

TEST_CASE("client sends a pipeline: it runs in one pass, and the replies are in order") {
  Harness h;
  const int fd = h.connect();
  h.send(fd, echo("a") + echo("b") + "PING\r\n" + echo("c"));
  h.expect(fd, bulk("a") + bulk("b") + "+OK\r\n" + bulk("c"));
  CHECK(h.sink.largest_pass == 4);
}

TEST_CASE("arguments and replies have megabytes: they arrive whole") {
  Harness h;
  const int fd = h.connect();
  const std::string big(5'000'000, 'v');
  std::thread writer([&] { Harness::sends(fd, echo(big) + echo("after") + "BIG 3000000\r\n"); });
  h.expect(fd, bulk(big) + bulk("after") + bulk(std::string(3'000'000, 'x')));
  writer.join();
}

TEST_CASE("command waits: only its own client is delayed, and the replies are in order") {
  Harness h;
  const int slow = h.connect(), quick = h.connect();
  h.send(slow, echo("first") + "WAIT\r\n" + echo("last"));
  h.expect(slow, bulk("first"));
  h.wait_for_waiting(1);
  h.send(quick, echo("quick"));
  h.expect(quick, bulk("quick"));
  h.send(slow, echo("later still"));
  std::uint64_t id = 0;
  {
    std::lock_guard lock(h.sink.mutex);
    id = h.sink.waiting[0];
    CHECK(h.sink.attempts == std::vector<std::uint32_t>{0});
  }
  h.loop->resume(id);  // the command's time has not come, so it waits again
  h.wait_for_waiting(2);
  {
    std::lock_guard lock(h.sink.mutex);
    CHECK(h.sink.attempts == std::vector<std::uint32_t>{0, 1});
    h.sink.released.insert(id);
  }
  h.loop->resume(id);
  h.expect(slow, "+OK\r\n" + bulk("last") + bulk("later still"));
}

TEST_CASE("event loop watches the file descriptor of its command sink: an event of the descriptor wakes the loop") {
  Harness h;
  h.watch_event();
  const int fd = h.connect();
  h.send(fd, echo("x"));
  h.expect(fd, bulk("x"));  // the reply shows that the sink exists now
  h.send(fd, "CLOSE\r\n");
  h.expect(fd, "+BYE\r\n");
  ::shutdown(fd, SHUT_WR);
  h.expect_end(fd);
  h.settle();
  int polls = -1;
  h.loop->post([&] {
    std::lock_guard lock(h.sink.mutex);
    polls = h.sink.polls;
  });
  std::unique_lock lock(h.sink.mutex);
  REQUIRE(h.sink.changed.wait_for(lock, std::chrono::seconds(20), [&] { return polls >= 0 && h.sink.polls > polls; }));
  // No other event follows: a loop without connections sleeps for a minute.
  h.tell_event();
  CHECK(h.sink.changed.wait_for(lock, std::chrono::seconds(20), [&] { return h.sink.events == 1; }));
}

TEST_CASE("command is resumed on its event loop's own thread: the client is served in the same round") {
  Harness h;
  h.watch_event();
  const int fd = h.connect();
  h.send(fd, "WAIT\r\n" + echo("last"));
  h.wait_for_waiting(1);
  h.send(fd, echo("later still"));  // a round reads this
  const int other = h.connect();
  h.send(other, echo("x"));
  h.expect(other, bulk("x"));
  h.tell_event();
  h.expect(fd, "+OK\r\n" + bulk("last") + bulk("later still"));
  std::lock_guard lock(h.sink.mutex);
  CHECK(h.sink.resumed_in > 0);
  CHECK(h.sink.rerun_in == h.sink.resumed_in);
}

TEST_CASE("client to be resumed does not wait or has disconnected: nothing happens") {
  Harness h;
  const int fd = h.connect();
  h.loop->resume(999);
  h.send(fd, echo("x"));
  h.expect(fd, bulk("x"));
  h.loop->resume(1);
  h.send(fd, echo("y"));
  h.expect(fd, bulk("y"));
}

TEST_CASE("replies depend on the log: they are sent once the log has their data, and earlier replies do not wait") {
  Harness h;
  const int fd = h.connect();
  h.send(fd, echo("free"));
  h.expect(fd, bulk("free"));
  h.send(fd, "SEE 10\r\n");
  h.settle();
  char c;
  CHECK(::recv(fd, &c, 1, MSG_DONTWAIT) < 0);
  h.send(fd, "SEE 20\r\n");
  h.settle();
  h.gate.durable = 10;
  h.loop->notify_durable();
  h.expect(fd, "+SEEN\r\n");
  h.settle();
  CHECK(::recv(fd, &c, 1, MSG_DONTWAIT) < 0);
  h.gate.durable = 25;
  h.loop->notify_durable();
  h.expect(fd, "+SEEN\r\n");
}

TEST_CASE("several passes wait until the log has their writes: the end of this wait is reported for one pass at a time") {
  Harness h;
  const int fd = h.connect(), other = h.connect();
  const auto logged = [&] {
    std::lock_guard lock(h.sink.mutex);
    return h.sink.logged;
  };
  h.send(fd, "SEE 10\r\n");
  h.settle();
  CHECK(logged() == 0);  // the pass has written nothing
  h.gate.writes = true;
  h.send(fd, "SEE 20\r\n");
  h.settle();
  h.send(other, "SEE 30\r\n");
  h.settle();
  CHECK(logged() == 0);
  h.gate.durable = 20;
  h.loop->notify_durable();
  h.expect(fd, "+SEEN\r\n+SEEN\r\n");
  h.settle();
  CHECK(logged() == 1);
  h.gate.durable = 30;
  h.loop->notify_durable();
  h.expect(other, "+SEEN\r\n");
  h.settle();
  CHECK(logged() == 1);
  h.send(fd, "SEE 30\r\n");
  h.expect(fd, "+SEEN\r\n");
  h.settle();
  CHECK(logged() == 2);
}

TEST_CASE("log has the data of a reply while the socket is full: the reply is sent once the socket has room") {
  Harness h;
  const int fd = h.connect();
  constexpr std::size_t kBig = 900'000;  // more than the socket takes, and less than the limit that stops the client's commands
  h.send(fd, "BIG " + std::to_string(kBig) + "\r\n");
  h.settle();
  h.send(fd, "SEE 10\r\n");
  h.settle();
  h.gate.durable = 10;
  h.loop->notify_durable();
  h.settle();
  const std::string big = bulk(std::string(kBig, 'x'));
  CHECK(h.receive(fd, big.size()) == big);
  h.expect(fd, "+SEEN\r\n");
}

TEST_CASE("outcome of a write is unknown, since the log failed: the reply becomes an error") {
  Harness h;
  const int fd = h.connect();
  h.send(fd, "SEE 10\r\n");
  h.settle();
  h.gate.broken = true;
  h.now_ms += 5'000;
  h.loop->notify_durable();
  const std::string reply = h.receive(fd, 1000);
  CHECK(reply.substr(0, 9) == "-UNKNOWN ");
  h.expect_end(fd);
}

TEST_CASE("client breaks the protocol: it gets earlier replies, then the error, and the connection is closed") {
  Harness h;
  const int fd = h.connect();
  h.send(fd, echo("a") + "*1\r\nfoo");
  h.expect(fd, bulk("a") + "-ERR Protocol error: expected '$', got 'f'\r\n");
  h.expect_end(fd);
}

TEST_CASE("client speaks HTTP or TLS: it gets no reply") {
  Harness h;
  const int http = h.connect(), tls = h.connect();
  h.send(http, "POST / HTTP/1.1\r\nHost: x\r\n\r\n");
  h.expect_end(http);
  h.send(tls, std::string("\x16\x03\x01\x00", 4));
  h.expect_end(tls);
  CHECK(h.loop->counters().security_closes.get() == 1);
}

TEST_CASE("client sends POST or Host: it gets no waiting replies, and all loops together log one line a minute") {
  Harness h;
  TestSink::Shared others_sink;
  EventLoop other(1, h.settings, &h.shared, &h.env);
  REQUIRE(other.start(std::make_unique<TestSink>(&others_sink)).empty());
  other.set_sink(std::make_unique<TestSink>(&others_sink), &h.gate);
  const auto attack = [&h](const std::string& text) {
    const int fd = h.connect();
    h.send(fd, text);
    h.expect_end(fd);  // no reply comes before the end
  };
  attack(echo("a") + "POST / HTTP/1.1\r\n\r\n" + echo("b"));
  CHECK(h.logged("POST or Host:") == 1);
  // A command is queued after a reply that waits for the log.
  const int waits = h.connect();
  h.send(waits, "SEE 5\r\n");
  h.settle();
  h.send(waits, "*2\r\n$5\r\nHOST:\r\n$1\r\nx\r\n");
  h.expect_end(waits);
  h.now_ms += 59'999;
  attack("POST /\r\n");
  CHECK(h.logged("POST or Host:") == 1);
  h.now_ms += 1;
  attack("POST /\r\n");
  CHECK(h.logged("POST or Host:") == 2);
  CHECK(h.loop->counters().security_closes.get() == 4);

  const auto [ours, theirs] = h.tcp_pair();
  h.shared.clients.fetch_add(1);
  other.adopt({theirs, "peer", "net", "local", false});
  h.send(ours, "POST /\r\n");
  h.expect_end(ours);
  CHECK(other.counters().security_closes.get() == 1);
  CHECK(h.logged("POST or Host:") == 2);
}

TEST_CASE("reply of a command closes the connection: later commands of the client do not run") {
  Harness h;
  const int fd = h.connect();
  h.send(fd, echo("a") + "CLOSE\r\n" + echo("never"));
  h.expect(fd, bulk("a") + "+BYE\r\n");
  h.expect_end(fd);
}

TEST_CASE("server has sent its last reply to a client: the client is not listed as live, even if it keeps the socket open") {
  Harness h;
  const int fd = h.connect();
  h.send(fd, echo("a"));
  h.expect(fd, bulk("a"));
  CHECK(h.shared.live.contains(1));
  h.send(fd, "CLOSE\r\n");
  h.expect(fd, "+BYE\r\n");
  h.expect_end(fd);
  CHECK_FALSE(h.shared.live.contains(1));
}

TEST_CASE("client is unauthenticated: its commands run one by one, until AUTH removes its limits") {
  Harness h;
  const int fd = h.connect(true);
  h.send(fd, "AUTH x\r\n" + echo(std::string(20'000, 'y')));
  h.expect(fd, "+OK\r\n" + bulk(std::string(20'000, 'y')));
  CHECK(h.shared.strangers == 0);
  const int other = h.connect(true);
  h.send(other, "*11\r\n");
  h.expect(other, "-ERR Protocol error: unauthenticated multibulk length\r\n");
  h.expect_end(other);
  REQUIRE(::shutdown(other, SHUT_RDWR) == 0);  // until then the connection lingers, and counts
  h.settle();
  CHECK(h.shared.strangers == 0);
}

TEST_CASE("client does not read its replies: the server stops reading its commands") {
  Harness h;
  const int fd = h.connect();
  // The peer never reads: output grows up to the high-water mark, and then input stays in the kernel.
  const std::string commands = [] {
    std::string text;
    for (int i = 0; i < 200; ++i) text += echo(std::string(1000, 'z'));
    return text;
  }();
  std::size_t sent = 0;
  int full = 0;
  while (full < 50 && sent < (std::size_t{64} << 20)) {
    const ssize_t n = ::send(fd, commands.data() + sent % commands.size(), commands.size() - sent % commands.size(),
                             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<std::size_t>(n);
      full = 0;
    } else {
      ++full;
      h.settle();
    }
  }
  CHECK(sent < (std::size_t{8} << 20));
  // Once the peer reads, it gets everything.
  const std::size_t whole = sent / echo(std::string(1000, 'z')).size();
  std::string expected;
  for (std::size_t i = 0; i < whole; ++i) expected += bulk(std::string(1000, 'z'));
  CHECK((h.receive(fd, expected.size()) == expected));
}

TEST_CASE("client exceeds its output limit: the server closes the connection") {
  NetSettings settings;
  settings.output.hard = 100'000;
  Harness h(settings);
  const int fd = h.connect();
  std::string commands;
  for (int i = 0; i < 10; ++i) commands += echo(std::string(60'000, 'z'));
  std::thread writer([&] { (void)!::send(fd, commands.data(), commands.size(), MSG_NOSIGNAL); });  // ends when the server closes
  // The output that the kernel did not take exceeds the limit, so the stream ends early.
  {
    std::unique_lock lock(h.sink.mutex);  // the client reads nothing before this, so its output grows
    REQUIRE(h.sink.changed.wait_for(lock, std::chrono::seconds(20), [&] { return !h.sink.closed.empty(); }));
  }
  const std::string all = h.receive(fd, 10'000'000);
  writer.join();
  CHECK(all.size() < 10 * bulk(std::string(60'000, 'z')).size());
  CHECK(h.loop->counters().output_limit_closes.get() == 1);
}

TEST_CASE("one reply exceeds the output limit: the connection closes before the reply fills the memory") {
  NetSettings settings;
  settings.output.hard = 1 << 20;
  Harness h(settings);
  const int fd = h.connect();
  h.send(fd, "MANY\r\n" + echo("never run"));
  h.expect_end(fd);
  std::lock_guard lock(h.sink.mutex);
  CHECK(h.sink.largest_output < (3 << 20));
  CHECK(h.loop->counters().output_limit_closes.get() == 1);
}

/// A client that does not read for some time, so that more output waits for it than the soft limit allows.
struct SoftLimit {
  static NetSettings settings() {
    NetSettings settings;
    settings.output.soft = 100'000;
    return settings;
  }
  void exceed() {
    const std::string commands = repeated(echo(std::string(60'000, 'z')));
    std::thread writer([&] { (void)!::send(fd, commands.data(), commands.size(), MSG_NOSIGNAL); });
    writer.join();
    h.settle();
  }
  void read_all() {
    const std::size_t bytes = kReplies * bulk(std::string(60'000, 'z')).size();
    REQUIRE(h.receive(fd, bytes).size() == bytes);
    h.settle();
  }
  void pass_time(std::int64_t ms) {
    for (std::int64_t passed = 0; passed < ms; passed += 1'000) {
      h.now_ms += 1'000;
      h.settle();
    }
  }
  [[nodiscard]] std::uint64_t closes() const { return h.loop->counters().output_limit_closes.get(); }
  static std::string repeated(const std::string& text) {
    std::string all;
    for (std::size_t i = 0; i < kReplies; ++i) all += text;
    return all;
  }
  static constexpr std::size_t kReplies = 16;
  Harness h{settings()};
  const int fd = h.connect();
};

TEST_CASE("output stays above the soft limit: the client is closed after the configured time, not before") {
  SoftLimit client;
  client.exceed();
  client.pass_time(58'000);
  CHECK(client.closes() == 0);
  client.pass_time(14'000);  // one of ten sweeps checks a given client
  CHECK(client.closes() == 1);
  CHECK(client.h.receive(client.fd, 10'000'000).size() < SoftLimit::repeated(bulk(std::string(60'000, 'z'))).size());
}

TEST_CASE("output falls below the soft limit and exceeds it again: the configured time starts again") {
  SoftLimit client;
  client.exceed();
  client.pass_time(50'000);
  client.read_all();
  client.pass_time(14'000);
  client.exceed();
  client.pass_time(50'000);
  CHECK(client.closes() == 0);
  client.pass_time(24'000);
  CHECK(client.closes() == 1);
}

TEST_CASE("big values that clients are sending exceed the memory limit: a client gets -OOM and stays connected") {
  Harness h;
  h.memory.most_values = 3 << 20;
  const std::string head = "*2\r\n$4\r\nECHO\r\n$2000000\r\n", part(1'900'000, 'x'), rest(100'000, 'x');
  const int first = h.connect(), second = h.connect();
  h.send(first, head + part);
  h.settle();
  h.send(second, head + part + rest + "\r\n" + echo("still here"));
  h.expect(second, "-OOM\r\n" + bulk("still here"));
  CHECK(h.loop->counters().values_refused.get() == 1);
  h.send(first, rest + "\r\n");
  CHECK(h.receive(first, 2'000'012).size() == 2'000'012);
  h.send(second, head + part + rest + "\r\n");  // now there is room
  CHECK(h.receive(second, 2'000'012).size() == 2'000'012);
  h.settle();
  CHECK(h.memory.values == 0);
}

TEST_CASE("client sends a big value: the value is charged to the memory budget until its command is done") {
  Harness h;
  const int fd = h.connect();
  h.send(fd, "*2\r\n$4\r\nWAIT\r\n" + bulk(std::string(2'000'000, 'x')));
  h.wait_for_waiting(1);
  h.settle();
  CHECK(h.memory.values == 2'000'000);
  std::uint64_t id = 0;
  {
    std::lock_guard lock(h.sink.mutex);
    id = h.sink.waiting[0];
    h.sink.released.insert(id);
  }
  h.loop->resume(id);
  h.expect(fd, "+OK\r\n");
  h.settle();
  CHECK(h.memory.values == 0);
}

TEST_CASE("client keeps state, such as watched keys: it is charged to the memory budget like the client's buffers") {
  Harness h;
  const int fd = h.connect();
  h.send(fd, "*2\r\n$4\r\nKEEP\r\n" + bulk("5000000"));
  h.expect(fd, "+OK\r\n");
  h.settle();
  CHECK(h.memory.buffers >= 5'000'000);
}

TEST_CASE("command still uses the input of a disconnected client: the input stays charged until the command is done") {
  Harness h;
  const int fd = h.connect();
  std::string command = "*2001\r\n" + bulk("WAIT");
  for (int i = 0; i < 2000; ++i) command += bulk(std::string(1000, 'a'));
  h.send(fd, command);
  h.wait_for_waiting(1);
  {
    std::lock_guard lock(h.sink.mutex);
    h.sink.takes_input = true;
  }
  ::shutdown(fd, SHUT_RDWR);
  for (int i = 0; i < 30; ++i) {
    h.now_ms += 100;
    h.settle();
  }
  CHECK(h.shared.clients == 0);
  CHECK(h.memory.buffers >= 2'000'000);
  {
    std::lock_guard lock(h.sink.mutex);
    REQUIRE(h.sink.input != nullptr);
    h.sink.input = nullptr;
  }
  CHECK(h.memory.buffers == 0);
}

TEST_CASE("pushes to many clients do not fit into the budget: pushes are dropped one by one, and their clients closed") {
  Harness h;
  const int writer = h.connect();
  std::vector<int> readers;
  for (int i = 0; i < 5; ++i) readers.push_back(h.connect());
  h.send(writer, echo("x"));
  h.expect(writer, bulk("x"));
  h.memory.spent = true;
  h.send(writer, "*2\r\n" + bulk("PUSH") + bulk("3000000"));
  for (const int fd : readers) h.expect_end(fd);
  h.settle();
  std::lock_guard lock(h.sink.mutex);
  CHECK(h.sink.largest_output < 1'000'000);
}

TEST_CASE("client has a large unread reply that is charged to its command: the server does not close the client") {
  Harness h;
  h.memory.sink = &h.sink;
  h.memory.most = 6'000'000;
  const int fd = h.connect();
  h.send(fd, "CHARGED 4000000\r\n");
  CHECK(h.receive(fd, 10) == "$4000000\r\n");
  CHECK(h.memory.buffers >= 1'000'000);
  CHECK(h.sink.charged == 0);
  CHECK(h.receive(fd, 4'000'002).size() == 4'000'002);
  CHECK(h.loop->counters().memory_closes.get() == 0);
}

TEST_CASE("memory is spent: the client with the largest buffers is closed, and clients with small buffers stay connected") {
  Harness h;
  const int hoarder = h.connect(), modest = h.connect();
  std::string arguments = "*1000000\r\n";
  for (int i = 0; i < 3000; ++i) arguments += bulk(std::string(1000, 'a'));
  h.send(hoarder, arguments);
  h.send(modest, "*1000000\r\n" + bulk("a"));
  for (int i = 0; i < 20; ++i) {
    h.now_ms += 100;
    h.settle();
  }
  CHECK(h.memory.buffers > 3'000'000);
  h.memory.spent = true;
  for (int i = 0; i < 20; ++i) {
    h.now_ms += 100;
    h.settle();
  }
  CHECK(h.loop->counters().memory_closes.get() == 1);
  CHECK(h.receive(hoarder, 1000).substr(0, 5) == "-OOM ");
  h.expect_end(hoarder);
  const int fresh = h.connect();
  h.send(fresh, echo("x"));
  h.expect(fresh, bulk("x"));
  CHECK(h.shared.clients == 2);
}

TEST_CASE("command asks for a retry after some time: the command runs again then, or earlier if it is resumed") {
  Harness h;
  const int fd = h.connect();
  h.send(fd, "LATER\r\n" + echo("after"));
  h.wait_for_waiting(1);
  h.settle();
  char c;
  CHECK(::recv(fd, &c, 1, MSG_DONTWAIT) < 0);
  h.now_ms += 50;
  h.settle();
  h.expect(fd, "+OK\r\n" + bulk("after"));
}

TEST_CASE("client's last command and end of input come together: the loop replies and closes the connection") {
  Harness h;
  const auto [ours, theirs] = h.tcp_pair();
  h.send(ours, echo("bye"));
  REQUIRE(::shutdown(ours, SHUT_WR) == 0);
  h.adopt(theirs);  // data and end have both arrived, and are reported once
  h.expect(ours, bulk("bye"));
  h.expect_end(ours);
  h.settle();
  CHECK(h.shared.clients == 0);
}

TEST_CASE("wall clock jumps: no client times out because of it") {
  NetSettings settings;
  settings.idle_timeout_ms = 30'000;
  Harness h(settings);
  const int fd = h.connect(), stranger = h.connect(true);
  h.settle();
  h.wall_jump_ms = 3'600'000;
  for (int i = 0; i < 15; ++i) {
    h.now_ms += 100;
    h.settle();
  }
  CHECK(h.shared.clients == 2);
  h.wall_jump_ms = -3'600'000;  // clients whose time is over are closed in time
  for (int i = 0; i < 15; ++i) {
    h.now_ms += 1'000;
    h.settle();
  }
  CHECK(h.loop->counters().auth_timeout_closes.get() == 1);
  h.expect_end(stranger);
  h.send(fd, echo("x"));
  h.expect(fd, bulk("x"));
}

TEST_CASE("unauthenticated client is evicted: it gets the reason, but stays if it has authenticated meanwhile") {
  Harness h;
  const int stranger = h.connect(true), known = h.connect(true);
  h.send(known, "AUTH\r\n");
  h.expect(known, "+OK\r\n");
  h.settle();
  h.loop->evict(1);
  h.loop->evict(2);
  h.loop->evict(3);
  h.expect(stranger, "-ERR max number of unauthenticated clients reached\r\n");
  h.expect_end(stranger);
  h.send(known, echo("still here"));
  h.expect(known, bulk("still here"));
  CHECK(h.shared.strangers == 0);
  CHECK_FALSE(h.shared.unauthenticated.take_one_to_close());
}

TEST_CASE("unauthenticated connections wait for a busy loop: the connections count for their host, and can be evicted") {
  Harness h;
  const int early = h.connect(true, "10.0.0.1:1");
  h.settle();
  std::promise<void> begun, go_on;
  h.loop->post([&] {
    begun.set_value();
    go_on.get_future().wait();
  });
  begun.get_future().wait();
  std::vector<int> flood;
  for (int i = 0; i < 3; ++i) flood.push_back(h.connect(true, "10.0.0.2:" + std::to_string(i)));
  for (int i = 0; i < 2; ++i) {
    const auto taken = h.shared.unauthenticated.take_one_to_close();
    REQUIRE((taken && taken->host == "10.0.0.2"));
    taken->loop->evict(taken->client_id);
  }
  go_on.set_value();
  for (int i = 0; i < 2; ++i) {
    h.expect(flood[i], "-ERR max number of unauthenticated clients reached\r\n");
    h.expect_end(flood[i]);
  }
  for (const int fd : {early, flood[2]}) {
    h.send(fd, "AUTH\r\n");
    h.expect(fd, "+OK\r\n");
  }
  CHECK((h.shared.strangers == 0 && h.shared.clients == 2));
}

TEST_CASE("tasks of the loop take long: clients are served in between, and tasks keep their order") {
  Harness h;
  const int fd = h.connect();
  h.settle();
  std::string order;
  std::promise<void> begun, go_on, done;
  h.loop->post([&] {
    begun.set_value();
    go_on.get_future().wait();
    h.now_ms += 10;
  });
  begun.get_future().wait();
  h.loop->post([&] { order += 'a', h.now_ms += 10; });
  h.loop->post([&] { order += 'b', h.now_ms += 10; });
  h.loop->post([&] { order += h.sink.order.empty() ? 'c' : 'C', done.set_value(); });
  h.send(fd, "NOTE n\r\n");
  go_on.set_value();
  done.get_future().wait();
  CHECK(order == "abC");
  h.expect(fd, "+OK\r\n");
}

TEST_CASE("hundreds of connections arrive at once: each round accepts some of them, and all are served in the end") {
  Harness h;
  std::vector<int> links;
  std::promise<std::size_t> taken;
  h.loop->post([&] {
    for (int i = 0; i < 300; ++i) links.push_back(h.connect());
    h.loop->post([&] {  // runs in the next round
      std::size_t count = 0;
      h.loop->for_each([&](Client&) { ++count; });
      taken.set_value(count);
    });
  });
  CHECK(taken.get_future().get() == 64);
  for (const int link : links) h.send(link, echo("x"));
  for (const int link : links) h.expect(link, bulk("x"));
  CHECK(h.shared.clients == 300);
}

TEST_CASE("message goes to hundreds of clients: the loop sends it over several rounds, and every client gets it") {
  Harness h;
  std::vector<int> links;
  for (int i = 0; i < 600; ++i) links.push_back(h.connect());
  h.settle();
  std::promise<std::size_t> left;
  h.loop->post([&] {
    h.loop->for_each([&](Client& c) {
      Reply(&c.out).simple("news");
      h.loop->touch(&c);
    });
    h.loop->post([&] {  // runs after a round
      std::size_t count = 0;
      h.loop->for_each([&](Client& c) { count += c.out.empty() ? 0 : 1; });
      left.set_value(count);
    });
  });
  CHECK(left.get_future().get() == 600 - 256);
  for (const int link : links) h.expect(link, "+news\r\n");
}

TEST_CASE("password is removed from the configuration: no client counts as unauthenticated any more") {
  NetSettings settings;
  settings.password_required = true;
  Harness h(settings);
  const int fd = h.connect(true);
  h.settle();
  CHECK(h.shared.strangers == 1);
  settings.password_required = false;
  h.loop->set_settings(settings);
  h.settle();
  CHECK(h.shared.strangers == 0);
  h.send(fd, echo(std::string(20'000, 'y')));
  h.expect(fd, bulk(std::string(20'000, 'y')));
}

TEST_CASE("client sends RESET: it has the whole authentication timeout again") {
  Harness h;
  const int fd = h.connect(true);
  h.send(fd, "AUTH\r\n");
  h.expect(fd, "+OK\r\n");
  CHECK(h.shared.strangers == 0);
  h.now_ms += 60'000;
  h.send(fd, "RESET\r\n");
  h.expect(fd, "+OK\r\n");
  for (int i = 0; i < 5; ++i) {
    h.now_ms += 200;
    h.settle();
  }
  h.send(fd, echo("still here"));
  h.expect(fd, bulk("still here"));
  CHECK(h.shared.strangers == 1);
}

TEST_CASE("clients are idle or unauthenticated: they are closed after the timeouts of the configuration") {
  NetSettings settings;
  settings.idle_timeout_ms = 30'000;
  Harness h(settings);
  const int idle = h.connect(), stranger = h.connect(true);
  h.settle();
  h.now_ms += 11'000;
  for (int i = 0; i < 5; ++i) {
    h.now_ms += 200;
    h.settle();
  }
  h.expect_end(stranger);
  CHECK(h.loop->counters().auth_timeout_closes.get() == 1);
  h.now_ms += 30'000;
  for (int i = 0; i < 5; ++i) {
    h.now_ms += 200;
    h.settle();
  }
  h.expect_end(idle);
  CHECK(h.loop->counters().idle_closes.get() == 1);
  CHECK(h.shared.clients == 0);
}

TEST_CASE("client closes its sending side: it gets the replies to all commands that it has sent") {
  Harness h;
  const int fd = h.connect();
  h.send(fd, echo("bye"));
  REQUIRE(::shutdown(fd, SHUT_WR) == 0);
  h.expect(fd, bulk("bye"));
  h.expect_end(fd);
}

TEST_CASE("client disconnects while its command waits: the command and the client's state are freed") {
  Harness h;
  const int fd = h.connect();
  h.send(fd, "WAIT\r\n");
  h.wait_for_waiting(1);
  ::close(fd);
  h.fds.clear();
  std::unique_lock lock(h.sink.mutex);
  REQUIRE(h.sink.changed.wait_for(lock, std::chrono::seconds(20), [&] { return h.sink.closed.size() == 1; }));
}

TEST_CASE("loop is stopped while 200 commands wait: all connections are closed") {
  Harness h;
  std::vector<int> fds;
  for (int i = 0; i < 200; ++i) fds.push_back(h.connect());
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < fds.size(); ++i) h.send(fds[i], echo(std::to_string(round * 1000 + i)));
    for (std::size_t i = 0; i < fds.size(); ++i) h.expect(fds[i], bulk(std::to_string(round * 1000 + i)));
  }
  for (const int fd : fds) h.send(fd, "WAIT\r\n");
  h.wait_for_waiting(200);
  h.loop->stop();
  CHECK(h.shared.clients == 0);
  CHECK(h.sink.closed.size() == 200);
}

}  // namespace TEST_FILE

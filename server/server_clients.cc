// CLIENT LIST and CLIENT KILL, which ask all loops about their clients.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dispatch/session.h"
#include "server.h"

namespace ebbtide {
namespace {

// Calls a function on every loop, and waits until each loop has run it or has stopped.
class EveryLoop {
 public:
  template <typename F>
  EveryLoop(const std::vector<std::unique_ptr<EventLoop>>& loops, F ask) {
    auto state = std::make_shared<State>();
    state->missing = loops.size();
    for (const auto& loop : loops) {
      auto ticket = std::make_shared<Ticket>(state);
      loop->post([ticket, ask, l = loop.get()] { ask(*l); });
    }
    std::unique_lock lock(state->mutex);
    state->changed.wait(lock, [&] { return state->missing == 0; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t missing = 0;
  };
  // Destroyed when its loop is finished: the loop has run the task, or has dropped it because the loop has stopped.
  struct Ticket {
    explicit Ticket(std::shared_ptr<State> s) : state(std::move(s)) {}
    ~Ticket() {
      std::lock_guard lock(state->mutex);
      --state->missing;
      state->changed.notify_all();
    }
    std::shared_ptr<State> state;
  };
};

bool matches(Client& client, const ClientFilter& filter) {
  if (!filter.ids.empty() && !std::binary_search(filter.ids.begin(), filter.ids.end(), client.id)) return false;
  if (!filter.addr.empty() && filter.addr != client.address) return false;
  if (!filter.laddr.empty() && filter.laddr != client.local_address) return false;
  if (!filter.user.empty() && filter.user != user_of(session_of(client))) return false;
  if (!filter.type.empty() && filter.type != (client.subscriber ? "pubsub" : "normal")) return false;
  return filter.except_id == 0 || filter.except_id != client.id;
}

}  // namespace

Status Server::client_list(const ClientFilter& filter, const std::function<Status(std::string lines)>& add) {
  constexpr std::size_t kAtOnce = 128;  // lines that a loop makes in one round
  std::mutex mutex;
  std::vector<std::uint64_t> ids = filter.ids;
  if (ids.empty()) {
    on_every_loop([&](EventLoop& loop) {
      std::vector<std::uint64_t> here;
      loop.for_each([&](Client& client) { here.push_back(client.id); });
      std::lock_guard lock(mutex);
      ids.insert(ids.end(), here.begin(), here.end());
    });
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto now_ms = static_cast<std::int64_t>(unix_micros() / 1000);
  for (std::span<const std::uint64_t> rest = ids; !rest.empty();) {
    const auto part = rest.first(std::min(rest.size(), kAtOnce));
    rest = rest.subspan(part.size());
    std::map<std::uint64_t, std::string> lines;
    on_every_loop([&](EventLoop& loop) {
      for (const std::uint64_t id : part) {
        Client* const client = loop.find(id);
        if (client == nullptr || !matches(*client, filter)) continue;
        std::string line = describe_client(*client, now_ms, blocked_.has(id)) + "\n";
        std::lock_guard lock(mutex);
        lines.emplace(id, std::move(line));
      }
    });
    std::string text;
    for (const auto& line : lines) text += line.second;
    TRY(add(std::move(text)));
  }
  return Status::ok();
}

void Server::on_every_loop(const std::function<void(EventLoop&)>& f) {
  EveryLoop(loops_, [&f](EventLoop& loop) { f(loop); });
}

std::uint64_t Server::kill_clients(const ClientFilter& filter, std::uint64_t self_id) {
  std::atomic<std::uint64_t> killed{0};
  EveryLoop(loops_, [&](EventLoop& loop) {
    loop.for_each([&](Client& client) {
      if (!matches(client, filter)) return;
      (client.id == self_id ? client.close_after_command : client.close_now) = true;
      if (client.id != self_id) loop.touch(&client);
      ++killed;
    });
  });
  return killed;
}

}  // namespace ebbtide

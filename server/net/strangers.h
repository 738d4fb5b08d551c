// The unauthenticated connections, and which of them makes room for a new one.
//
// Their number is limited, so that no client fills the server's memory and file descriptors without a password. At the limit a
// new connection is accepted and an old one is closed: the oldest one of the network that has the most. So a peer that opens many
// silent connections loses its own, and other clients have time to authenticate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace ebbtide {

class EventLoop;

/// Thread-safe.
class Strangers {
 public:
  struct Stranger {
    std::uint64_t client_id = 0;
    std::string network;  ///< Client::network
    EventLoop* loop = nullptr;
  };

  /// Adds a connection as the newest one.
  void add(Stranger stranger) {
    std::lock_guard lock(mutex_);
    ++by_network_[stranger.network];
    const std::uint64_t id = stranger.client_id;
    by_id_[id] = in_order_.insert(in_order_.end(), std::move(stranger));
  }
  /// Removes a connection, if it is here.
  void remove(std::uint64_t client_id) {
    std::lock_guard lock(mutex_);
    if (const auto found = by_id_.find(client_id); found != by_id_.end()) erase(found->second);
  }
  /// Removes and returns the connection that makes room; nullopt if there is none. Takes time proportional to their number.
  [[nodiscard]] std::optional<Stranger> take_one_to_close() {
    std::lock_guard lock(mutex_);
    auto best = in_order_.end();
    std::size_t most = 0;
    for (auto at = in_order_.begin(); at != in_order_.end(); ++at) {
      if (const std::size_t count = by_network_[at->network]; count > most) {
        most = count;
        best = at;
      }
    }
    if (best == in_order_.end()) return std::nullopt;
    Stranger taken = *best;
    erase(best);
    return taken;
  }

 private:
  using InOrder = std::list<Stranger>;

  void erase(InOrder::iterator at) {
    if (--by_network_[at->network] == 0) by_network_.erase(at->network);
    by_id_.erase(at->client_id);
    in_order_.erase(at);
  }

  std::mutex mutex_;
  InOrder in_order_;                                            // guarded by mutex_; oldest first
  std::unordered_map<std::uint64_t, InOrder::iterator> by_id_;  // guarded by mutex_
  std::unordered_map<std::string, std::size_t> by_network_;     // guarded by mutex_
};

}  // namespace ebbtide

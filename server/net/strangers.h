// The unauthenticated connections. At their limit, chooses the one that is closed to make room for a new one.
//
// Their number is limited, so that a client without a password cannot use up memory and file descriptors. At the limit, a new
// connection is accepted and an old one is closed. That is the oldest connection of the host with the most connections, within
// the network with the most connections. So a peer that opens many connections loses its own, and other clients have time to
// authenticate. Connections that no loop has taken yet count, too: otherwise a flood would displace those that a busy loop has
// already taken.
//
// Of that host's connections, the first to be closed are those whose peer has closed its sending side, even during a password
// check (AuthGuard). Otherwise a peer that tries passwords over many short connections could displace every other client of its
// host.
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

inline constexpr char kTooManyStrangers[] = "-ERR max number of unauthenticated clients reached\r\n";

/// Returns the address without its port.
inline std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

/// The unauthenticated connections. Thread-safe.
class Strangers {
 public:
  struct Stranger {
    std::uint64_t client_id = 0;
    std::string network;  ///< Client::network of the peer
    std::string host;     ///< address of the peer, without its port
    EventLoop* loop = nullptr;
    bool ended = false;  ///< the peer sends no more
  };

  /// Adds a connection as the newest.
  void add(Stranger stranger) {
    std::lock_guard lock(mutex_);
    ++by_network_[stranger.network];
    const std::uint64_t id = stranger.client_id;
    by_id_[id] = in_order_.insert(in_order_.end(), std::move(stranger));
  }
  /// Removes a connection, if it is in the set.
  void remove(std::uint64_t client_id) {
    std::lock_guard lock(mutex_);
    if (const auto found = by_id_.find(client_id); found != by_id_.end()) erase(found->second);
  }
  /// Records that the peer of a connection sends no more. Does nothing if the connection is not in the set.
  void end(std::uint64_t client_id) {
    std::lock_guard lock(mutex_);
    const auto found = by_id_.find(client_id);
    if (found == by_id_.end() || found->second->ended) return;
    found->second->ended = true;
  }
  /// Chooses the connection to close, removes it from the set and returns it; nullopt if the set is empty. Takes time
  /// proportional to the number of connections.
  [[nodiscard]] std::optional<Stranger> take_one_to_close() {
    std::lock_guard lock(mutex_);
    const auto best = first_to_go(largest_host(largest_network()));
    if (best == in_order_.end()) return std::nullopt;
    Stranger taken = *best;
    erase(best);
    return taken;
  }

 private:
  using InOrder = std::list<Stranger>;

  // Returns the network with the most connections; among equals, the one with the oldest connection.
  [[nodiscard]] std::string largest_network() const {
    std::size_t most = 0;
    std::string largest;
    for (const Stranger& stranger : in_order_) {
      if (const std::size_t count = by_network_.at(stranger.network); count > most) {
        most = count;
        largest = stranger.network;
      }
    }
    return largest;
  }
  struct Host {
    std::string network, host;
  };
  [[nodiscard]] Host largest_host(const std::string& network) const {
    std::unordered_map<std::string, std::size_t> counts;
    for (const Stranger& stranger : in_order_) {
      if (stranger.network == network) ++counts[stranger.host];
    }
    std::size_t most = 0;
    Host largest{network, {}};
    for (const Stranger& stranger : in_order_) {
      if (stranger.network != network || counts[stranger.host] <= most) continue;
      most = counts[stranger.host];
      largest.host = stranger.host;
    }
    return largest;
  }
  InOrder::iterator first_to_go(const Host& host) {
    auto best = in_order_.end();
    for (auto at = in_order_.begin(); at != in_order_.end(); ++at) {
      if (at->network != host.network || at->host != host.host) continue;
      if (at->ended) return at;
      if (best == in_order_.end()) best = at;
    }
    return best;
  }

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

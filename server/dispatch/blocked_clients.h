// Clients whose command waits: a blocking command such as PURGE.WAIT, or any command under CLIENT PAUSE. CLIENT UNBLOCK can end
// the wait of a blocking command. A wait under CLIENT PAUSE lasts until the pause ends, or until CLIENT UNPAUSE. INFO counts the
// waits of both kinds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "resp/client.h"

namespace ebbtide {

/// Thread-safe. Must outlive all of its Wait objects.
class BlockedClients {
 public:
  enum class End : std::uint8_t {
    kNotYet,
    kTimeout,  ///< the command replies as if its timeout had passed
    kError,    ///< the command replies with an error
  };

  /// The wait of one client, listed as long as this object lives. Used on the client's loop.
  class Wait {
   public:
    /// `may_end`: CLIENT UNBLOCK may end this wait.
    Wait(BlockedClients& list, const Client& client, bool may_end = true)
        : list_(list), id_(client.id), loop_(client.loop), may_end_(may_end) {
      std::lock_guard lock(list_.mutex_);
      list_.waits_[id_] = this;
    }
    ~Wait() {
      std::lock_guard lock(list_.mutex_);
      list_.waits_.erase(id_);
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    [[nodiscard]] End end() const { return end_.load(std::memory_order_acquire); }

   private:
    friend class BlockedClients;
    BlockedClients& list_;
    const std::uint64_t id_;
    ClientLoop* const loop_;
    const bool may_end_;
    std::atomic<End> end_{End::kNotYet};
  };

  /// Ends the wait of a client: its loop soon runs the command again, and the command then replies. Returns false if the client
  /// does not wait, or if its wait may not be ended.
  bool unblock(std::uint64_t client_id, End end) {
    std::lock_guard lock(mutex_);
    const auto found = waits_.find(client_id);
    if (found == waits_.end() || !found->second->may_end_ || found->second->end() != End::kNotYet) return false;
    found->second->end_.store(end, std::memory_order_release);
    found->second->loop_->resume(client_id);
    return true;
  }

  [[nodiscard]] bool has(std::uint64_t client_id) const {
    std::lock_guard lock(mutex_);
    return waits_.count(client_id) != 0;
  }
  [[nodiscard]] std::size_t size() const {
    std::lock_guard lock(mutex_);
    return waits_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Wait*> waits_;  ///< by client id; a client waits for one command at a time
};

}  // namespace ebbtide

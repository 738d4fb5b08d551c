// Decides how long a sync of the log waits for more commits.
//
//   50 clients, no delay:   | 25 a b c | 25 d e f | 25 a b c |
//   with delay:             | 50 a b c d e f  .| 50 a b c d e f  .|
//
// Between two bars there is one sync. The number says how many commits the sync makes durable, letters are commands that arrive
// during the sync, and a dot is a delay.
//
// A client that waits for its reply sends the next command soon after the reply. If the next sync begins at once, the command
// misses this sync and waits for the following one, and two halves of the clients take turns for ever. So a sync first waits
// until enough operations are queued: as many as the last sync made durable, plus the operations that were queued at its end. The
// delay is at most a quarter of a sync's time, so it pays if the sync then covers a quarter more operations. If it covers fewer,
// because clients are slow or do not wait for replies, delays become more and more rare.
//
// PostgreSQL's commit_delay and MySQL's binlog_group_commit_sync_delay are similar, but an administrator has to set them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ebbtide {

/// For one thread.
class CommitDelay {
 public:
  static constexpr std::uint64_t kLongestNs = 2'000'000;  ///< enough for a client on the same network to send its next command

  explicit CommitDelay(std::uint64_t longest_ns = kLongestNs) : longest_ns_(longest_ns) {}

  /// Call this after a sync that took `ns` and made `operations` operations durable; `queued`: operations in the queue at its
  /// end.
  void synced(std::uint64_t operations, std::uint64_t queued, std::uint64_t ns) {
    expected_ = operations + queued;
    limit_ns_ = std::min(ns / 4, longest_ns_);
    if (skip_ > 0) --skip_;
  }
  /// Number of queued operations that the next sync waits for; 0 = the sync begins at once.
  [[nodiscard]] std::uint64_t wanted() const { return skip_ > 0 || limit_ns_ == 0 ? 0 : expected_; }
  /// The longest time that the next sync may wait, in ns.
  [[nodiscard]] std::uint64_t limit_ns() const { return limit_ns_; }
  /// Call this after a delay. `before` and `after`: operations in the queue at the delay's beginning and at its end.
  void waited(std::uint64_t before, std::uint64_t after) {
    const bool paid = after >= wanted() || (after - before) * 4 >= after;
    backoff_ = paid ? 0 : std::clamp<std::uint64_t>(2 * backoff_, 2, 64);
    skip_ = backoff_;
  }

 private:
  std::uint64_t longest_ns_;
  std::uint64_t expected_ = 0, limit_ns_ = 0;
  std::uint64_t backoff_ = 0;  // number of syncs that follow without a delay, after a delay that made no group larger
  std::uint64_t skip_ = 0;     // how many of these backoff_ syncs are still to come
};

}  // namespace ebbtide

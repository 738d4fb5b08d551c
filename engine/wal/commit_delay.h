// Decides how long a sync of the log waits for more commits.
//
//   50 clients, no delay:   | 25 a b c | 25 d e f | 25 a b c |      number: commits in a sync; letters: arrivals; dot: delay
//   with delay:             | 50 a b c d e f  .| 50 a b c d e f  .|
//
// A client that waits for its reply sends the next command soon after the reply. If a sync begins at once, that command is left
// to the next sync, and two halves of the clients take turns for ever. So a sync first waits until as many operations are queued
// as the last sync made durable and found queued at its end. The delay is at most a quarter of a sync's time, so a quarter more
// operations repay it. If these operations do not come, because clients are slow or do not wait for replies, syncs are delayed
// ever more rarely.
//
// PostgreSQL's commit_delay and MySQL's binlog_group_commit_sync_delay are similar, but an administrator has to set them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ebbtide {

/// Used by one thread.
class CommitDelay {
 public:
  static constexpr std::uint64_t kLongestNs = 2'000'000;  ///< by then, a client on the same network has sent its next command

  explicit CommitDelay(std::uint64_t longest_ns = kLongestNs) : longest_ns_(longest_ns) {}

  /// Called after a sync. The sync took `ns` and made `operations` durable; at its end `queued` more operations were waiting.
  void synced(std::uint64_t operations, std::uint64_t queued, std::uint64_t ns) {
    expected_ = operations + queued;
    limit_ns_ = std::min(ns / 4, longest_ns_);
    if (skip_ > 0) --skip_;
  }
  /// Number of queued operations that the next sync waits for; 0 = the sync begins at once.
  [[nodiscard]] std::uint64_t wanted() const { return skip_ > 0 || limit_ns_ == 0 ? 0 : expected_; }
  /// The longest time that the next sync may wait, in ns.
  [[nodiscard]] std::uint64_t limit_ns() const { return limit_ns_; }
  /// Called after a delay, with the number of queued operations: `before` when the delay began, `after` at its end.
  void waited(std::uint64_t before, std::uint64_t after) {
    const bool paid = after >= wanted() || (after - before) * 4 >= after;
    backoff_ = paid ? 0 : std::clamp<std::uint64_t>(2 * backoff_, 2, 64);
    skip_ = backoff_;
  }

 private:
  std::uint64_t longest_ns_;
  std::uint64_t expected_ = 0, limit_ns_ = 0;
  std::uint64_t backoff_ = 0;  // number of syncs without a delay after a delay that did not pay
  std::uint64_t skip_ = 0;     // how many of these syncs are still to come
};

}  // namespace ebbtide

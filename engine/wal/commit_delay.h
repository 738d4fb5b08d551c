// How long a sync of the log waits for more commits.
//
//   50 clients, no delay:   | 25 a b c | 25 d e f | 25 a b c |      a sync carries the commits that came during the one before
//   with delay:             | 50 a b c d e f  .| 50 a b c d e f  .|
//
// A client that waits for its reply sends the next command soon after it. A sync that begins at once leaves that command to the next
// sync, and two halves of the clients take turns for ever. So a sync waits for as many operations as the last one made durable and
// found queued at its end. It waits at most a quarter of the time that a sync takes: a quarter more operations repay that. If they did
// not come, because clients are slow or do not wait for replies, the delay is tried ever more rarely.
//
// Compare commit_delay of PostgreSQL and binlog_group_commit_sync_delay of MySQL, which an administrator has to set.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ebbtide {

/// Used by one thread.
class CommitDelay {
 public:
  static constexpr std::uint64_t kLongestNs = 2'000'000;  ///< a client on the same network has sent its next command by then

  explicit CommitDelay(std::uint64_t longest_ns = kLongestNs) : longest_ns_(longest_ns) {}

  /// A sync took `ns`, made `operations` durable, and at its end `queued` more were waiting.
  void synced(std::uint64_t operations, std::uint64_t queued, std::uint64_t ns) {
    expected_ = operations + queued;
    limit_ns_ = std::min(ns / 4, longest_ns_);
    if (skip_ > 0) --skip_;
  }
  /// Number of operations that the next sync waits for; 0 = it begins at once.
  [[nodiscard]] std::uint64_t wanted() const { return skip_ > 0 || limit_ns_ == 0 ? 0 : expected_; }
  /// The longest delay.
  [[nodiscard]] std::uint64_t limit_ns() const { return limit_ns_; }
  /// A delay is over. `before` operations were queued when it began, `after` at its end.
  void waited(std::uint64_t before, std::uint64_t after) {
    const bool paid = after >= wanted() || (after - before) * 4 >= after;
    backoff_ = paid ? 0 : std::clamp<std::uint64_t>(2 * backoff_, 2, 64);
    skip_ = backoff_;
  }

 private:
  std::uint64_t longest_ns_;
  std::uint64_t expected_ = 0, limit_ns_ = 0;
  std::uint64_t backoff_ = 0;  // syncs without a delay after the last one that did not pay
  std::uint64_t skip_ = 0;     // those of them that are still to come
};

}  // namespace ebbtide

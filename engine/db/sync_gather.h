// How long a sync waits for those whom the last one let go.
//
//   50 clients, no waiting:   | 25 a b c | 25 d e f | 25 a b c |      a sync carries those that came during the one before
//   waiting:                  | 50 a b c d e f  .| 50 a b c d e f  .|
//
// Clients that wait for an answer come again soon after they have it. A sync that begins at once leaves them to the next, and so
// two halves take turns for ever. It waits for as many operations as the last one made durable and found queued at its end, for at
// most a quarter of the time that a sync takes: what that costs, it repays by carrying a quarter more. When it did not, because
// those who write do not wait for their answers, or are slow, it is tried again ever more rarely.
//
// The same thought: commit_delay of PostgreSQL, binlog_group_commit_sync_delay of MySQL, which somebody has to set.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ebbtide {

/// Used by one thread.
class SyncGather {
 public:
  static constexpr std::uint64_t kLongestNs = 2'000'000;  ///< on one network, whoever comes again has come by then

  explicit SyncGather(std::uint64_t longest_ns = kLongestNs) : longest_ns_(longest_ns) {}

  /// A sync took `ns`, made `operations` durable, and at its end `queued` more were waiting.
  void synced(std::uint64_t operations, std::uint64_t queued, std::uint64_t ns) {
    expected_ = operations + queued;
    limit_ns_ = std::min(ns / 4, longest_ns_);
    if (skip_ > 0) --skip_;
  }
  /// So many operations the next sync should have; 0 = it should begin at once.
  [[nodiscard]] std::uint64_t wanted() const { return skip_ > 0 || limit_ns_ == 0 ? 0 : expected_; }
  /// Nobody waits longer for them.
  [[nodiscard]] std::uint64_t limit_ns() const { return limit_ns_; }
  /// It was waited: there were `before`, then there are `after`.
  void gathered(std::uint64_t before, std::uint64_t after) {
    const bool paid = after >= wanted() || (after - before) * 4 >= after;
    backoff_ = paid ? 0 : std::clamp<std::uint64_t>(2 * backoff_, 2, 64);
    skip_ = backoff_;
  }

 private:
  std::uint64_t longest_ns_;
  std::uint64_t expected_ = 0, limit_ns_ = 0;
  std::uint64_t backoff_ = 0;  // syncs until one waits again, set when waiting did not pay
  std::uint64_t skip_ = 0;     // those of them that are still to come
};

}  // namespace ebbtide

// Locks keys so that no other loop writes a key between a command's read and its write of it.
//
// There are 1024 stripes, chosen by a key's hash. A write command holds the stripes of its keys from before its reads until its
// commit. It takes them in ascending order, each once, so that no two commands wait for each other. Commands whose keys are not
// known in advance (DELRANGE, FLUSHALL, SWAPDB) take all stripes. Commands that only read take none: their view is of one moment.
// With one loop no command takes any, since write commands run on loops only. Once a database has an index, write commands take
// them even then, since the thread that builds indexes writes, too.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// Thread-safe.
class KeyLocks {
 public:
  static constexpr std::size_t kStripes = 1024;

  /// `loops`: the number of threads that run write commands.
  explicit KeyLocks(std::uint32_t loops) : enabled_(loops > 1) {}

  /// Holds the stripes of one command as long as the guard lives.
  class Guard {
   public:
    Guard() = default;
    Guard(KeyLocks& locks, std::span<const LookupKey> keys, DatabaseId database);
    /// Takes these stripes, which may be in any order and of several databases.
    Guard(KeyLocks& locks, std::vector<std::uint16_t> stripes);
    /// Takes all stripes.
    explicit Guard(KeyLocks& locks);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

    /// Returns the stripes that the guard holds, in the order in which it took them. Empty if the guard holds one stripe, all or
    /// none.
    [[nodiscard]] std::span<const std::uint16_t> stripes() const { return stripes_; }

   private:
    /// Takes the stripes of stripes_, in ascending order, each once.
    void lock_stripes();

    KeyLocks* locks_ = nullptr;
    bool all_ = false;
    std::uint16_t single_ = 0;
    std::vector<std::uint16_t> stripes_;  ///< the stripes held; empty: only `single_`, all (`all_`), or none
  };

  [[nodiscard]] bool enabled() const { return enabled_.load(std::memory_order_acquire); }
  /// From now on write commands take stripes even with one loop. Call it on the only loop, between two commands, or before there
  /// are commands.
  void enable() { enabled_.store(true, std::memory_order_release); }
  [[nodiscard]] static std::uint16_t stripe_of(const LookupKey& key, DatabaseId database) {
    return static_cast<std::uint16_t>(((key.hash >> 32) + database * 0x9e37u) % kStripes);
  }

 private:
  std::atomic<bool> enabled_;
  std::array<std::mutex, kStripes> stripes_;
};

}  // namespace ebbtide

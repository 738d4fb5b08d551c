// Keeps a command's read and write of a key together while several loops run commands.
//
// 1024 stripes by the key's hash. A write command holds the stripes of its keys from before its reads until its commit, taken in
// ascending order, each once, so that no two commands wait for each other. Commands that touch keys they cannot name (DELRANGE,
// FLUSHALL, SWAPDB) take all stripes. Commands that only read take none: their view is one moment. With one loop nothing is
// taken, as write commands run on loops only.
#pragma once

#include <array>
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

  /// `loops`: how many threads run write commands.
  explicit KeyLocks(std::uint32_t loops) : enabled_(loops > 1) {}

  /// Holds stripes until it goes. For one command.
  class Guard {
   public:
    Guard() = default;
    Guard(KeyLocks& locks, std::span<const LookupKey> keys, DatabaseId database);
    /// Of keys of several databases: their stripes, in any order.
    Guard(KeyLocks& locks, std::vector<std::uint16_t> stripes);
    /// All stripes.
    explicit Guard(KeyLocks& locks);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

    /// The stripes that it holds of several keys, in the order in which it took them. Empty if it holds one, all or none.
    [[nodiscard]] std::span<const std::uint16_t> stripes() const { return stripes_; }

   private:
    /// Those of stripes_, in ascending order, each once.
    void lock_stripes();

    KeyLocks* locks_ = nullptr;
    bool all_ = false;
    std::uint16_t single_ = 0;
    std::vector<std::uint16_t> stripes_;  ///< empty: `single_` alone
  };

  [[nodiscard]] bool enabled() const { return enabled_; }
  [[nodiscard]] static std::uint16_t stripe_of(const LookupKey& key, DatabaseId database) {
    return static_cast<std::uint16_t>(((key.hash >> 32) + database * 0x9e37u) % kStripes);
  }

 private:
  const bool enabled_;
  std::array<std::mutex, kStripes> stripes_;
};

}  // namespace ebbtide

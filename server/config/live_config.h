// The configuration while the server runs: CONFIG GET, SET and REWRITE.
#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace ebbtide {

/// Thread-safe.
class LiveConfig {
 public:
  /// Brings a changed configuration into effect; on error nothing has changed. Called with the lock held.
  using Apply = std::function<Status(const Config& before, const Config& after)>;

  /// What holds of a configuration, where something outside limits it further: what get() with patterns shows.
  using Effective = std::function<Config(Config)>;

  LiveConfig(Config config, Apply apply, Effective effective)
      : config_(std::move(config)), apply_(std::move(apply)), effective_(std::move(effective)) {}

  [[nodiscard]] Config get() const;
  /// Calls f while nothing changes the configuration, and returns what it does.
  Status with(const std::function<Status(const Config&)>& f) const;
  /// As ServerControl::config_get.
  void get(std::span<const Bytes> patterns, std::vector<std::pair<std::string, std::string>>* items) const;
  /// As ServerControl::config_set.
  Status set(std::span<const std::pair<Bytes, Bytes>> items);
  /// As ServerControl::config_rewrite. `warning` is set if the operator is to know something although it succeeded.
  Status rewrite(std::string* warning);

 private:
  mutable std::mutex mutex_;
  Config config_;  // guarded by mutex_
  const Apply apply_;
  const Effective effective_;
};

}  // namespace ebbtide

// The configuration of the running server: CONFIG GET, SET and REWRITE.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace ebbtide {

/// The configuration of a running server. Thread-safe.
class LiveConfig {
 public:
  /// Puts a changed configuration into effect; after an error, nothing has changed. Calls are made under change_mutex_.
  using Apply = std::function<Status(const Config& before, const Config& after)>;

  /// Returns the configuration in effect: values that the system limits further, such as open files, may be lower than
  /// configured. CONFIG GET shows these values.
  using Effective = std::function<Config(Config)>;

  LiveConfig(Config config, Apply apply, Effective effective)
      : config_(std::make_shared<const Config>(std::move(config))), apply_(std::move(apply)), effective_(std::move(effective)) {}

  /// Returns the configuration as it was set. Never waits for a change or rewrite that is under way, since event loops call this.
  [[nodiscard]] Config get() const { return *current(); }
  /// Calls `f`, and prevents changes of the configuration until it returns. Returns the result of `f`.
  Status with(const std::function<Status(const Config&)>& f) const;
  /// See ServerControl::config_get.
  void get(std::span<const Bytes> patterns, std::vector<std::pair<std::string, std::string>>* items) const;
  /// See ServerControl::config_set.
  Status set(std::span<const std::pair<Bytes, Bytes>> items);
  /// See ServerControl::config_rewrite. Sets `*warning` if the file was rewritten, but the operator has to know something about
  /// it.
  Status rewrite(std::string* warning);

 private:
  [[nodiscard]] std::shared_ptr<const Config> current() const;

  mutable std::mutex change_mutex_;       ///< held during a change or a rewrite; locked before mutex_
  mutable std::mutex mutex_;              ///< held for a moment only
  std::shared_ptr<const Config> config_;  // guarded by mutex_
  const Apply apply_;
  const Effective effective_;
};

}  // namespace ebbtide

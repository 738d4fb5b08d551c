// Applies an advice of the tuner like CONFIG SET of the database's keys: all keys or none, while the server runs.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/result.h>
#include <engine/tuner.h>

namespace ebbtide {

/// Access to the configuration of the running server. Only threads that may block may call the two functions.
struct ConfigAccess {
  /// Returns the value of a key, as CONFIG GET shows it; "" if the key is not set.
  std::function<std::string(const std::string& key)> get;
  /// Sets all keys or none, in the given order.
  std::function<Status(std::span<const std::pair<std::string, std::string>> items)> set;
};

/// A key that an advice has changed, with its old and new value. Values are those of CONFIG GET; "": the policy does not have the
/// parameter.
struct SettingChange {
  std::string key, from, to;
  bool operator==(const SettingChange&) const = default;
};

/// Sets the keys of `advice` for a database. Returns the keys whose values changed, in the order of database_config().
/// kInvalidArgument: the configuration refuses a key; the message has the reason, and no key has changed.
Result<std::vector<SettingChange>> apply_advice(const ConfigAccess& config, DatabaseId database, const TunerAdvice& advice);

/// Returns the changes for a log line, with keys without the prefix of the database: "policy.size_ratio 6 -> 4, memtable_size
/// 64MiB -> 8MiB".
std::string changes_text(std::span<const SettingChange> changes);

}  // namespace ebbtide

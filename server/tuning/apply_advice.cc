#include "tuning/apply_advice.h"

namespace ebbtide {

Result<std::vector<SettingChange>> apply_advice(const ConfigAccess& config, DatabaseId database, const TunerAdvice& advice) {
  const auto items = database_config(database, advice);
  std::vector<SettingChange> changes;
  for (const auto& [key, value] : items) changes.push_back({key, config.get(key), ""});
  if (const Status status = config.set(items); !status.is_ok()) {
    std::string why(status.message());
    if (why.starts_with("ERR ")) why.erase(0, 4);
    return Status::invalid_argument("ERR the advice was not applied, and nothing has changed: " + why);
  }
  for (SettingChange& change : changes) change.to = config.get(change.key);
  std::erase_if(changes, [](const SettingChange& change) { return change.from == change.to; });
  return changes;
}

std::string changes_text(std::span<const SettingChange> changes) {
  std::string out;
  for (const SettingChange& change : changes) {
    // "databases.3.policy.name" becomes "policy.name".
    const std::size_t dot = change.key.find('.', change.key.find('.') + 1);
    out += (out.empty() ? "" : ", ") + change.key.substr(dot + 1) + " " + (change.from.empty() ? "none" : change.from) + " -> " +
           change.to;
  }
  return out;
}

}  // namespace ebbtide

#include "live_config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "store/glob.h"

namespace ebbtide {
namespace {

// What Redis's tools ask for and this server has as a fact, not as a setting.
constexpr std::pair<const char*, const char*> kFacts[] = {
    {"save", ""},
    {"appendonly", "yes"},
    {"maxmemory-policy", "noeviction"},
};

std::string lower(Bytes text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

Status failed(Bytes name, const std::string& why) {
  return Status::invalid_argument("ERR CONFIG SET failed (possibly related to argument '" + std::string(name) + "') - " + why);
}

}  // namespace

Config LiveConfig::get() const {
  std::lock_guard lock(mutex_);
  return config_;
}

Status LiveConfig::with(const std::function<Status(const Config&)>& f) const {
  std::lock_guard lock(mutex_);
  return f(config_);
}

void LiveConfig::get(std::span<const Bytes> patterns, std::vector<std::pair<std::string, std::string>>* items) const {
  std::lock_guard lock(mutex_);
  std::set<std::string> seen;
  const auto offer = [&](Bytes pattern, const std::string& name, const auto& value) {
    if (!name.empty() && glob_match(pattern, name, true) && seen.insert(name).second) items->emplace_back(name, value());
  };
  for (const Bytes pattern : patterns) {
    for (const ConfigKey& key : config_keys()) {
      offer(pattern, key.redis_name, [&] { return key.redis_get ? key.redis_get(config_) : key.get(config_); });
      offer(pattern, key.name, [&] { return key.get(config_); });
    }
    for (const auto& parameter : config_.engine.tree.policy.parameters) {
      const std::string name = "tree.policy." + parameter.first;
      offer(pattern, name, [&] { return find_config_key(name)->get(config_); });
    }
    for (const auto& fact : kFacts) offer(pattern, fact.first, [&] { return std::string(fact.second); });
    // Of one database: only when asked for by its whole name, as there would be no end of them.
    if (const std::string name = lower(pattern); name.compare(0, 10, "databases.") == 0 && glob_is_literal(name)) {
      const ConfigKeyPtr key = find_config_key(name);
      const std::string value = key == nullptr ? std::string() : key->get(config_);
      if (!value.empty()) offer(pattern, name, [&] { return value; });  // empty: a parameter that its policy does not have
    }
  }
}

Status LiveConfig::set(std::span<const std::pair<Bytes, Bytes>> items) {
  std::lock_guard lock(mutex_);
  Config next = config_;
  std::set<std::string> seen;
  struct Change {
    Bytes given, value;
    ConfigKeyPtr key;
    bool redis;
  };
  std::vector<Change> changes;
  for (const auto& [given, value] : items) {  // names before values, as in Redis
    const std::string name = lower(given);
    ConfigKeyPtr key = find_redis_key(name);
    const bool redis = key != nullptr;
    if (!redis) key = find_config_key(name);
    if (key == nullptr) {
      const bool fact = std::any_of(std::begin(kFacts), std::end(kFacts), [&](const auto& f) { return name == f.first; });
      if (fact) return failed(given, "can't set immutable config");
      return Status::invalid_argument("ERR Unknown option or number of arguments for CONFIG SET - '" + std::string(given) + "'");
    }
    if (!seen.insert(key->name).second) return failed(given, "duplicate parameter");
    if (!key->changeable) return failed(name, "can't set immutable config");
    changes.push_back({given, value, key, redis});
  }
  for (const auto& [given, value, key, redis] : changes) {
    const Status status = redis && key->redis_set ? key->redis_set(next, value) : key->set(next, value);
    if (!status.is_ok()) return failed(lower(given), std::string(status.message()));
  }
  const std::string last = items.empty() ? std::string() : lower(items.back().first);
  if (Status status = validate(next); !status.is_ok()) return failed(last, std::string(status.message()));
  if (Status status = apply_(config_, next); !status.is_ok()) return failed(last, status.to_string());
  config_ = next;
  return Status::ok();
}

Status LiveConfig::rewrite() {
  std::lock_guard lock(mutex_);
  if (config_.file.empty()) return Status::invalid_argument("ERR The server is running without a config file");
  std::ifstream in(config_.file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return Status::invalid_argument("ERR Rewriting config file: " + config_.file + " cannot be read");
  const auto rewritten = rewrite_config(text.str(), config_.file, config_);
  if (!rewritten.is_ok())
    return Status::invalid_argument("ERR Rewriting config file: " + std::string(rewritten.status().message()));
  const std::string scratch = config_.file + ".new";
  std::ofstream out(scratch, std::ios::binary | std::ios::trunc);
  out << *rewritten;
  out.close();
  std::error_code error;
  if (out) std::filesystem::permissions(scratch, std::filesystem::status(config_.file, error).permissions(), error);
  if (out && !error) std::filesystem::rename(scratch, config_.file, error);
  if (!out || error) {
    std::filesystem::remove(scratch, error);
    return Status::invalid_argument("ERR Rewriting config file: " + config_.file + " cannot be written");
  }
  return Status::ok();
}

}  // namespace ebbtide

#include "config/live_config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <engine/durable_rename.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "store/glob.h"

namespace ebbtide {
namespace {

// Read-only parameters for tools that expect them from Redis.
constexpr std::pair<const char*, const char*> kFacts[] = {
    {"save", ""}, {"appendonly", "yes"}, {"maxmemory-policy", "noeviction"},      {"latency-tracking", "yes"},
    {"hz", "10"}, {"dynamic-hz", "no"},  {"acl-pubsub-default", "resetchannels"},
};

std::string lower(Bytes text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

// Shortens an error with a long value or name in the middle: its end has the allowed values.
std::string shortened(const std::string& text) {
  constexpr std::size_t kPart = 200;
  if (text.size() <= 3 * kPart) return text;
  return text.substr(0, kPart) + "..." + text.substr(text.size() - kPart);
}

Status failed(Bytes name, const std::string& why) {
  return Status::invalid_argument("ERR CONFIG SET failed (possibly related to argument '" + std::string(name) + "') - " +
                                  shortened(why));
}

}  // namespace

std::shared_ptr<const Config> LiveConfig::current() const {
  std::lock_guard lock(mutex_);
  return config_;
}

Status LiveConfig::with(const std::function<Status(const Config&)>& f) const {
  std::lock_guard changing(change_mutex_);
  return f(*current());
}

void LiveConfig::get(std::span<const Bytes> patterns, std::vector<std::pair<std::string, std::string>>* items) const {
  const Config config = effective_(get());
  std::set<std::string> seen;
  const auto offer = [&](Bytes pattern, const std::string& name, const auto& value) {
    if (!name.empty() && glob_match(pattern, name, true) && seen.insert(name).second) items->emplace_back(name, value());
  };
  for (const Bytes pattern : patterns) {
    for (const ConfigKey& key : config_keys()) {
      offer(pattern, key.redis_name, [&] { return key.redis_get ? key.redis_get(config) : key.get(config); });
      offer(pattern, key.name, [&] { return key.get(config); });
    }
    for (const auto& parameter : config.engine.tree.policy.parameters) {
      const std::string name = "tree.policy." + parameter.first;
      offer(pattern, name, [&] { return find_config_key(name)->get(config); });
    }
    if (const std::string name = lower(pattern); is_older_name(name)) {
      offer(pattern, name, [&] { return find_config_key(name)->get(config); });
    }
    for (const auto& fact : kFacts) offer(pattern, fact.first, [&] { return std::string(fact.second); });
    // Keys of one database are returned only if the pattern is their exact name, since there are too many of them.
    if (const std::string name = lower(pattern); name.compare(0, 10, "databases.") == 0 && glob_is_literal(name)) {
      const ConfigKeyPtr key = find_config_key(name);
      const std::string value = key == nullptr ? std::string() : key->get(config);
      // Empty: the database's policy does not have this parameter.
      if (!value.empty()) offer(pattern, name, [&] { return value; });
    }
  }
}

Status LiveConfig::set(std::span<const std::pair<Bytes, Bytes>> items) {
  std::lock_guard changing(change_mutex_);
  const auto before = current();
  Config next = *before;
  std::set<std::string> seen;
  struct Change {
    Bytes given, value;
    ConfigKeyPtr key;
    bool redis;
  };
  std::vector<Change> changes;
  for (const auto& [given, value] : items) {  // as in Redis, all names are checked before any value
    const std::string name = lower(given);
    ConfigKeyPtr key = find_redis_key(name);
    const bool redis = key != nullptr;
    if (!redis) key = find_config_key(name);
    if (key == nullptr) {
      const bool fact = std::any_of(std::begin(kFacts), std::end(kFacts), [&](const auto& f) { return name == f.first; });
      if (fact) return failed(given, "can't set immutable config");
      return Status::invalid_argument("ERR Unknown option or number of arguments for CONFIG SET - '" +
                                      shortened(std::string(given)) + "'");
    }
    if (!seen.insert(key->name).second) return failed(given, "duplicate parameter");
    if (!key->changeable) return failed(name, "can't set immutable config");
    if (key->is_protected && !before->protected_configs) {
      return failed(name, "can't set protected config; server.protected_configs in the configuration file allows it");
    }
    changes.push_back({given, value, key, redis});
  }
  for (const auto& [given, value, key, redis] : changes) {
    const Status status = redis && key->redis_set ? key->redis_set(next, value) : key->set(next, value);
    if (!status.is_ok()) return failed(lower(given), std::string(status.message()));
  }
  const std::string last = items.empty() ? std::string() : lower(items.back().first);
  if (Status status = validate(next); !status.is_ok()) return failed(last, std::string(status.message()));
  if (Status status = apply_(*before, next); !status.is_ok()) return failed(last, status.to_string());
  auto changed = std::make_shared<const Config>(std::move(next));
  std::lock_guard lock(mutex_);
  config_ = std::move(changed);
  return Status::ok();
}

// If the file contains the password and other users can read it, the new file has mode 0600. Otherwise it has the old mode and
// group.
Status LiveConfig::rewrite(std::string* warning) {
  namespace fs = std::filesystem;
  std::lock_guard changing(change_mutex_);
  const auto config = current();
  if (config->file.empty()) return Status::invalid_argument("ERR The server is running without a config file");
  const auto text = read_text_file(config->file);
  if (!text.is_ok()) return Status::invalid_argument("ERR Rewriting config file: " + config->file + " cannot be read");
  const auto rewritten = rewrite_config(*text, config->file, *config);
  if (!rewritten.is_ok())
    return Status::invalid_argument("ERR Rewriting config file: " + std::string(rewritten.status().message()));
  std::error_code error;
  const std::string file = fs::canonical(config->file, error).string();  // the target, if the path is a symbolic link
  struct stat before {};
  if (error || ::stat(file.c_str(), &before) != 0) {
    return Status::invalid_argument("ERR Rewriting config file: " + config->file + " cannot be read");
  }
  const auto mode = static_cast<fs::perms>(before.st_mode & 0777);
  const bool is_open = !config->password.empty() && (mode & fs::perms::others_read) != fs::perms::none;
  const std::string scratch = file + ".new";
  fs::remove(scratch, error);
  std::ofstream out(scratch, std::ios::binary | std::ios::trunc);  // the umask keeps the file private
  fs::permissions(scratch, fs::perms::owner_read | fs::perms::owner_write, error);
  out << *rewritten;
  out.close();
  // Keeps owner and group as far as this process may set them.
  if (::chown(scratch.c_str(), before.st_uid, before.st_gid) != 0) (void)!::chown(scratch.c_str(), ~uid_t{0}, before.st_gid);
  if (out && !error && !is_open) fs::permissions(scratch, mode, error);
  if (!out || error || !rename_durably(nullptr, scratch, file).is_ok()) {
    fs::remove(scratch, error);
    return Status::invalid_argument("ERR Rewriting config file: " + config->file + " cannot be written");
  }
  if (is_open) {
    *warning = file +
               " has a password and other users could read it; CONFIG REWRITE has restricted it to its owner (0600). Others may "
               "know the password: consider changing it";
  }
  return Status::ok();
}

}  // namespace ebbtide

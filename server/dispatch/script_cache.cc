#include "dispatch/script_cache.h"

#include <utility>

namespace ebbtide {
namespace {

/// Estimated memory of a script without its text.
constexpr std::uint64_t kScriptBytes = 512;

}  // namespace

std::shared_ptr<const Script> ScriptCache::find(const std::string& sha) {
  const std::lock_guard lock(mutex_);
  const auto it = scripts_.find(sha);
  if (it == scripts_.end()) return nullptr;
  if (!it->second.stays) evaluated_.splice(evaluated_.begin(), evaluated_, it->second.place);
  return it->second.script;
}

bool ScriptCache::add(std::shared_ptr<const Script> script, bool stays, MemoryAccount* account) {
  const std::lock_guard lock(mutex_);
  if (const auto it = scripts_.find(script->sha); it != scripts_.end()) {
    if (stays && !it->second.stays) evaluated_.erase(it->second.place);
    it->second.stays |= stays;
    return true;
  }
  const std::uint64_t bytes = kScriptBytes + script->body.size();
  Entry entry;
  if (account != nullptr) {
    if (!account->try_charge(MemoryAccount::Kind::kCommands, bytes)) return false;
    entry.charge.took(*account, MemoryAccount::Kind::kCommands, bytes);
  }
  bytes_ += bytes;
  entry.stays = stays;
  if (!stays) {
    evaluated_.push_front(script->sha);
    entry.place = evaluated_.begin();
  }
  std::string sha = script->sha;
  entry.script = std::move(script);
  scripts_.emplace(std::move(sha), std::move(entry));
  if (evaluated_.size() > kMostEvaluated) drop(std::string(evaluated_.back()));
  return true;
}

void ScriptCache::drop(const std::string& sha) {
  const auto it = scripts_.find(sha);
  bytes_ -= kScriptBytes + it->second.script->body.size();
  if (!it->second.stays) evaluated_.erase(it->second.place);
  scripts_.erase(it);
}

void ScriptCache::clear() {
  std::unordered_map<std::string, Entry> ended;
  const std::lock_guard lock(mutex_);
  ended.swap(scripts_);
  evaluated_.clear();
  bytes_ = 0;
}

std::size_t ScriptCache::size() const {
  const std::lock_guard lock(mutex_);
  return scripts_.size();
}

std::uint64_t ScriptCache::memory() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

ScriptCache::Running::Running(ScriptCache& cache) : cache_(cache), killed_(std::make_shared<std::atomic<bool>>(false)) {
  const std::lock_guard lock(cache_.mutex_);
  cache_.running_.push_back(killed_);
}

ScriptCache::Running::~Running() {
  const std::lock_guard lock(cache_.mutex_);
  std::erase(cache_.running_, killed_);
}

bool ScriptCache::kill_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& killed : running_) killed->store(true, std::memory_order_relaxed);
  return !running_.empty();
}

}  // namespace ebbtide

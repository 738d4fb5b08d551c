// The scripts that EVALSHA finds.
//
// EVAL adds its script, and SCRIPT LOAD adds a script that stays. As in Redis 7.4, the number of scripts that only EVAL has added
// is limited: the least recently used one is removed first. Nothing is stored on disk. Clients expect that a script may be
// missing: they send EVAL when EVALSHA replies NOSCRIPT.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <engine/charged_value.h>
#include <engine/memory_account.h>
#include <engine/types.h>

namespace ebbtide {

/// A script and its name. Never changes.
struct Script {
  std::string sha;   ///< 40 lower-case hex digits
  std::string body;  ///< the whole text, with its first line if that begins with #!
};

/// Thread-safe.
class ScriptCache {
 public:
  /// The most scripts in the cache that only EVAL has added.
  static constexpr std::size_t kMostEvaluated = 500;

  /// Returns the script, or null. `sha` is in lower case.
  std::shared_ptr<const Script> find(const std::string& sha);
  /// Adds a script. `stays`: only clear() removes it, as after SCRIPT LOAD. Returns false if the memory budget has no room for
  /// the script; EVAL runs it even then. A null account charges nothing.
  bool add(std::shared_ptr<const Script> script, bool stays, MemoryAccount* account);
  /// Removes all scripts.
  void clear();
  [[nodiscard]] std::size_t size() const;
  /// Returns the memory of all scripts in bytes.
  [[nodiscard]] std::uint64_t memory() const;

  /// Registers a script that runs off its loop, so that SCRIPT KILL can end it.
  class Running {
   public:
    explicit Running(ScriptCache& cache);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    [[nodiscard]] bool is_killed() const { return killed_->load(std::memory_order_relaxed); }

   private:
    ScriptCache& cache_;
    std::shared_ptr<std::atomic<bool>> killed_;
  };
  /// Ends all scripts that run off their loops. Returns false if no script does.
  bool kill_all();

 private:
  struct Entry {
    std::shared_ptr<const Script> script;
    bool stays = false;
    MemoryCharge charge;
    std::list<std::string>::iterator place;  ///< position in evaluated_; unused if `stays` is set
  };
  void drop(const std::string& sha);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> scripts_;
  std::list<std::string> evaluated_;  ///< hashes of the scripts that do not stay, latest use first
  std::uint64_t bytes_ = 0;
  std::vector<std::shared_ptr<std::atomic<bool>>> running_;
};

}  // namespace ebbtide

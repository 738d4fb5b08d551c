// What dispatch keeps with a command while it waits. For dispatch's own files.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "dispatch/blocked_clients.h"
#include "dispatch/dispatcher.h"
#include "dispatch/long_write.h"
#include "dispatch/off_loop.h"

namespace ebbtide {

inline constexpr std::uint64_t kNanosPerMilli = 1'000'000;

/// What a command lacked, and has fetched. The fetcher owns it while `busy`.
struct Dispatcher::Fetched {
  MissSet set;
  std::uint32_t rounds = 0;
  std::atomic<bool> busy{false};
};

struct Dispatcher::Waiting final : Continuation {
  Waiting() = default;
  /// Whatever ends the command: its marks go, and no thread works for it any more.
  ~Waiting() override {
    if (job != nullptr) job->client_gone.store(true, std::memory_order_relaxed);
    if (long_write == nullptr) return;
    long_write->client_gone.store(true, std::memory_order_relaxed);
    long_write->env->intents->unmark(long_write->marks);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  std::shared_ptr<Fetched> fetched;       ///< one set for all tries: a later one finds what the earlier ones fetched
  std::shared_ptr<OffLoopRun> job;        ///< set once it runs or waits off the loop
  std::shared_ptr<LongWrite> long_write;  ///< set once it runs off the loop and writes
  Stage stage = Stage::kDisk;             ///< what it waits for
  std::optional<std::uint64_t> since;     ///< when that wait began, monotonic ns
  StageNanos waits{};                     ///< those that are over
  bool stalled = false;                   ///< the write stall held its commit back, as long as it asked for
  std::uint32_t stalls = 0;               ///< how often
  /// For memory, see memory_wait.cc.
  struct {
    std::uint64_t wanted = 0;            ///< bytes; 0 = it does not wait for them
    std::optional<std::uint64_t> since;  ///< monotonic ns, of the first wait
    std::uint32_t looks = 0;             ///< whether there is room
    std::uint32_t races = 0;             ///< runs that failed though there was room just after
  } memory;
  std::uint64_t blocked_since = 0;         ///< monotonic ns; of a kBlocking command
  std::optional<std::uint64_t> judged_at;  ///< monotonic ns; of an AUTH that waits since others have failed
  std::optional<BlockedClients::Wait> blocked;
  std::size_t args_done = 0;  ///< of a kSliced command: with so many arguments earlier runs have dealt
};

inline Dispatcher::Waiting& Dispatcher::waiting_of(PendingCommand& pending) {
  if (pending.continuation == nullptr) pending.continuation = std::make_unique<Waiting>();
  return static_cast<Waiting&>(*pending.continuation);
}

}  // namespace ebbtide

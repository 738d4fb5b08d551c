// The state of a command that waits. Only dispatch's own files include this.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "blocking/key_waiters.h"
#include "dispatch/blocked_clients.h"
#include "dispatch/dispatcher.h"
#include "dispatch/long_write.h"
#include "dispatch/off_loop.h"
#include "dispatch/rights_check.h"

namespace ebbtide {

inline constexpr std::uint64_t kNanosPerMilli = 1'000'000;

/// The pages that a command missed and that are being read. While `busy` is set, the thread that reads them owns this object.
struct Dispatcher::Fetched {
  MissSet set;
  std::uint32_t rounds = 0;
  std::atomic<bool> busy{false};
};

struct Dispatcher::Waiting final : Continuation {
  Waiting() = default;
  ~Waiting() override { give_up(); }
  /// Dispatch calls this when the command ends, for any reason. Removes the command's marks, and shows its threads that no client
  /// needs the result.
  void give_up() {
    if (rights != nullptr) rights->client_gone.store(true, std::memory_order_relaxed);
    if (job != nullptr) job->client_gone.store(true, std::memory_order_relaxed);
    if (long_write != nullptr) {
      long_write->client_gone.store(true, std::memory_order_relaxed);
      long_write->env->intents->unmark(long_write->marks);
    }
    rights = nullptr;
    job = nullptr;
    long_write = nullptr;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  std::shared_ptr<Fetched> fetched;       ///< shared by all attempts: a later one finds the pages read for earlier ones
  std::shared_ptr<RightsCheck> rights;    ///< set while the rights are checked off the loop, before the command begins
  std::shared_ptr<OffLoopRun> job;        ///< set while the command runs or waits off the loop
  std::shared_ptr<LongWrite> long_write;  ///< set while the command runs off the loop and writes
  Stage stage = Stage::kDisk;             ///< the stage of the current wait
  std::optional<std::uint64_t> since;     ///< when the current wait began, in monotonic ns; nullopt: the command does not wait
  StageNanos waits{};                     ///< time in waits that have ended, by stage
  bool stalled = false;      ///< the write stall has already delayed the commit for the time that the engine requested
  std::uint32_t stalls = 0;  ///< how often the write stall has delayed the commit
  /// The wait for memory (memory_wait.cc).
  struct {
    std::uint64_t wanted = 0;  ///< the memory that the next attempt needs, in bytes; 0: the command does not wait for memory
    std::optional<std::uint64_t> since;  ///< monotonic ns: when the command began to wait for memory
    std::uint32_t looks = 0;             ///< how often dispatch has checked whether the budget has room
    std::uint32_t races = 0;             ///< attempts that lacked memory, although the budget had room right afterwards
  } memory;
  std::uint64_t blocked_since = 0;         ///< monotonic ns: when a kBlocking command began to block
  std::optional<std::uint64_t> judged_at;  ///< monotonic ns: when a delayed AUTH may check its password
  std::optional<BlockedClients::Wait> blocked;
  MemoryCharge names_charge;                    ///< the memory of `for_element`
  std::optional<KeyWaiters::Wait> for_element;  ///< set while the command waits for an element of one of its keys
  std::uint64_t timeout_ms = 0;                 ///< timeout of the wait for an element, in ms; 0: none
  std::size_t args_done = 0;                    ///< arguments of a kSliced command that earlier slices have processed
};

inline Dispatcher::Waiting& Dispatcher::waiting_of(PendingCommand& pending) {
  if (pending.continuation == nullptr) pending.continuation = std::make_unique<Waiting>();
  return static_cast<Waiting&>(*pending.continuation);
}

}  // namespace ebbtide

// A command that runs, or waits, on an offload thread: its arguments and session go with it, its results come back.
//
// Shared by the loop, which waits for it, and the thread. The loop fills in the first part and submits it. From then on it belongs
// to the thread until `done`, which publishes the results, but for client_gone and input.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/offload.h"
#include "resp/output_buffer.h"

namespace ebbtide {

struct OffLoopWork : OffloadWork {
  CommandEnv* env = nullptr;
  const Command* command = nullptr;
  Args args;
  Session session;  ///< a copy
  int protocol = 2;
  std::uint64_t client_id = 0;
  ClientLoop* loop = nullptr;
  std::uint64_t random = 0;
  /// The memory that `args` point into, once their client has gone. Set by the loop; kept only.
  std::shared_ptr<const void> input;
  std::atomic<bool> client_gone{false};  ///< set by the loop: the results are not wanted

  // --- results
  OutputBuffer out;
  Status status;
  SeqNum seen_seq = 0;      ///< of all that the reply may depend on
  std::uint64_t nanos = 0;  ///< that it ran
  ReadCounts counts;
  MemoryCharge charge;  ///< what the run has reserved, until its client's buffer has the reply
  std::atomic<bool> done{false};

  [[nodiscard]] bool wanted() const override { return !client_gone.load(std::memory_order_relaxed); }

 protected:
  static constexpr int kMaxRevocations = 3;

  void complete() {
    if (!status.is_ok()) {  // no reply comes of it, and what a thread has allocated it frees at once
      out.clear();
      charge.release();
    }
    done.store(true, std::memory_order_release);
    loop->resume(client_id);
  }
};

/// A command that writes nothing, or the wait for the log's sync.
struct OffLoopRun final : OffLoopWork {
  std::uint64_t waited_ms = 0;
  bool unblocked = false;                       ///< by CLIENT UNBLOCK: it replies, whatever it waits for
  bool wait_only = false;                       ///< the command has run: `seen_seq` is to be synced
  OffloadClass threads = OffloadClass::kShort;  ///< on which it runs
  bool wants_long = false;                      ///< result: it is to be run again on kLong
  std::uint32_t again_ms = 0;                   ///< result: it blocks, and is to be run again after so long

  void run() override;

 private:
  Status attempt(Reply& reply);
};

}  // namespace ebbtide

// A command that runs, or waits, on an offload thread, with its arguments, a copy of its session, and its results.
//
// The loop, which waits for it, and the thread share it. The loop fills in the first part and submits it. From then on it belongs
// to the thread, except for client_gone and input, until `done` publishes the results.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/intents.h"
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
  DatabaseId database = 0;  ///< that its session has selected, with which each run begins
  /// Its thread reports its keys to the observers: they are too many for its loop.
  bool reports_keys = false;
  bool tracks = false;       ///< its client has a cache
  bool notes_reads = false;  ///< that is to be noted for that cache
  /// The memory that `args` point into, once their client has disconnected. Set by the loop, to keep that memory.
  std::shared_ptr<const void> input;
  std::atomic<bool> client_gone{false};  ///< set by the loop: no client needs the results

  // --- results
  OutputBuffer out;
  Status status;
  SeqNum seen_seq = 0;      ///< covers everything that the reply may depend on
  std::uint64_t nanos = 0;  ///< how long it ran
  ReadCounts counts;
  Effects effects;      ///< happen on the loop: after the reply, unless they are delivered in slices
  MemoryCharge charge;  ///< the memory that the run has reserved, until the client's buffer has the reply
  std::atomic<bool> done{false};

  // --- the delivery of many effects (delivery.cc), on the loop
  enum class Delivery : std::uint8_t { kNotBegun, kUnderWay, kDone };
  Delivery delivery = Delivery::kNotBegun;
  std::string address;          ///< of the client
  std::size_t next_effect = 0;  ///< the effects before it are complete
  SeqNum large_commit = 0;      ///< as in Dispatcher
  /// Null, or set while notifications of its writes are being delivered: those of later writes of these keys come later.
  std::shared_ptr<Intents::Marks> ordering_marks;

  [[nodiscard]] bool wanted() const override { return !client_gone.load(std::memory_order_relaxed); }
  /// True if its effects may take long. They are then delivered in slices, before the reply.
  [[nodiscard]] virtual bool has_many_effects() const { return reports_keys && !effects.empty(); }

 protected:
  /// Called by its thread before it takes a view.
  Status collect_reads();
  /// Called by its thread before the handler runs, and after it has run, with its view.
  Status look_before(const ReadView& view);
  void look_after(const ReadView& view);

  std::vector<LookupKey> keys;  ///< of the command
  std::deque<std::string> escaped;
  PresentKeys had;  ///< which of them were there, if events of new keys or of misses are on
  MemoryCharge had_charge;

  static constexpr int kMaxRevocations = 3;

  void complete() {
    if (!status.is_ok()) {  // there is no reply, and a thread frees at once what it has allocated
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
  bool unblocked = false;                       ///< by CLIENT UNBLOCK: it replies without waiting further
  bool wait_only = false;                       ///< the command has run, and the log is to be synced up to `seen_seq`
  OffloadClass threads = OffloadClass::kShort;  ///< the class of threads that it runs on
  bool wants_long = false;                      ///< result: it must run again on kLong
  std::uint32_t again_ms = 0;                   ///< result: it blocks, and must run again after so many ms

  void run() override;

 private:
  Status attempt(Reply& reply);
};

}  // namespace ebbtide

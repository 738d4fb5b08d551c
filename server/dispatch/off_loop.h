// A command that runs, or waits, on an offload thread, with its arguments, a copy of its session, and its results.
//
// The command's loop and the thread share this object. The loop fills in the first part and submits it. From then on the object
// belongs to the thread, except for client_gone and input, until `done` publishes the results.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
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
  DatabaseId database = 0;  ///< the database that its session has selected, with which each run begins
  /// The command's thread reports its keys to the observers, since they are too many for its loop.
  bool reports_keys = false;
  bool tracks = false;       ///< the client has a client-side cache
  bool notes_reads = false;  ///< the keys that the command reads must be noted for that cache
  /// The memory that `args` point into, after the client has disconnected. The loop sets it, to keep that memory alive.
  std::shared_ptr<const void> input;
  std::atomic<bool> client_gone{false};  ///< set by the loop: no client needs the results

  // --- results
  OutputBuffer out;
  Status status;
  SeqNum seen_seq = 0;      ///< the reply depends on no later operation
  std::uint64_t nanos = 0;  ///< how long the command ran
  ReadCounts counts;
  bool did_much = false;  ///< it has processed more than kLoopWorkBytes, such as a message to thousands of subscribers
  Effects effects;        ///< happen on the loop: after the reply, unless they are delivered in slices
  MemoryCharge charge;    ///< the memory that the run has reserved, until the client's buffer has the reply
  std::atomic<bool> done{false};

  // --- the delivery of many effects (delivery.cc), on the loop
  enum class Delivery : std::uint8_t { kNotBegun, kUnderWay, kDone };
  Delivery delivery = Delivery::kNotBegun;
  std::string address;          ///< address of the client
  std::size_t next_effect = 0;  ///< the effects before it are complete
  SeqNum large_commit = 0;      ///< Dispatcher::large_commit_ for this command
  /// Set while notifications of this command's writes are being delivered, else null. Notifications of later writes of its keys
  /// wait.
  std::shared_ptr<Intents::Marks> ordering_marks;

  [[nodiscard]] bool wanted() const override { return !client_gone.load(std::memory_order_relaxed); }
  /// Returns true if the effects may take long. They are then delivered in slices, before the reply.
  [[nodiscard]] virtual bool has_many_effects() const { return (reports_keys || did_much) && !effects.empty(); }

  /// The keys of the command, once its thread has collected them.
  [[nodiscard]] std::span<const LookupKey> collected_keys() const { return keys; }
  /// Frees the collected keys, and releases their charge.
  void forget_keys();

 protected:
  /// Collects the keys that the command reads. Called by its thread before it takes a view.
  Status collect_reads();
  /// Charges `count` keys to the budget, and reserves room for them.
  Status charge_keys(std::size_t count);
  /// The command's thread calls look_before() before the handler runs, and look_after() when it has run, with the handler's view.
  Status look_before(const ReadView& view);
  void look_after(const ReadView& view);

  MemoryCharge keys_charge;     ///< memory of `keys`, and of data made from them
  std::vector<LookupKey> keys;  ///< keys of the command
  std::deque<std::string> escaped;
  PresentKeys had;  ///< the keys that existed before the run; collected only if events of new keys or of misses are on
  MemoryCharge had_charge;

  static constexpr int kMaxRevocations = 3;

  void complete() {
    if (!status.is_ok()) {  // no reply is sent, so the thread frees at once what it has allocated
      out.clear();
      charge.release();
    }
    done.store(true, std::memory_order_release);
    loop->resume(client_id);
  }
};

/// A command off its loop that writes nothing, or the wait for the log's sync.
struct OffLoopRun final : OffLoopWork {
  std::uint64_t waited_ms = 0;
  bool unblocked = false;                       ///< CLIENT UNBLOCK was called: the command replies without waiting further
  bool wait_only = false;                       ///< the command has run, and the log is to be synced up to `seen_seq`
  OffloadClass threads = OffloadClass::kShort;  ///< the class of threads that it runs on
  bool wants_long = false;                      ///< result: it must run again on kLong
  std::uint32_t again_ms = 0;                   ///< result: it blocks, and must run again after this many ms

  void run() override;

 private:
  Status attempt(Reply& reply);
};

}  // namespace ebbtide

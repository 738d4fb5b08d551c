// A command that runs or waits on an offload thread: its arguments, a copy of its session, and its results.
//
// The command's loop and the thread share this object. The loop fills in the members before "results" and submits the object.
// From then on it belongs to the thread until `done` publishes the results. Only client_gone and input stay with the loop.
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
  DatabaseId database = 0;  ///< the database that the session has selected; each attempt begins with it
  /// The command's thread reports the command's keys to the observers, since they are too many for the loop.
  bool reports_keys = false;
  bool tracks = false;       ///< the client has a client-side cache
  bool notes_reads = false;  ///< the client-side cache must know the keys that the command reads (TrackingTable::note_reads)
  /// Owns the memory that `args` point into once the client has disconnected. The loop sets it then.
  std::shared_ptr<const void> input;
  std::atomic<bool> client_gone{false};  ///< set by the loop: no client needs the results

  // --- results
  OutputBuffer out;
  Status status;
  SeqNum seen_seq = 0;      ///< seq of the latest operation that the reply may depend on
  std::uint64_t nanos = 0;  ///< how long the command ran
  ReadCounts counts;
  bool did_much = false;  ///< the attempt has processed more than kLoopWorkBytes, such as a message to thousands of subscribers
  Effects effects;        ///< run on the loop, after the reply; has_many_effects(): in slices, before the reply
  MemoryCharge charge;    ///< the memory that the attempt has reserved; released when the client's output buffer has the reply
  std::atomic<bool> done{false};

  // --- the delivery of many effects (delivery.cc), on the loop
  enum class Delivery : std::uint8_t { kNotBegun, kUnderWay, kDone };
  Delivery delivery = Delivery::kNotBegun;
  std::string address;          ///< address of the client
  std::size_t next_effect = 0;  ///< index of the next effect; all before it are complete
  SeqNum large_commit = 0;      ///< Dispatcher::large_commit_ for this command
  /// Marks on the command's keys while notifications of its writes are being delivered, else null. Later writes of these keys
  /// wait, so that notifications come in the order of the writes.
  std::shared_ptr<Intents::Marks> ordering_marks;

  [[nodiscard]] bool wanted() const override { return !client_gone.load(std::memory_order_relaxed); }
  /// Returns true if the effects may take long. Then they are delivered in slices, before the reply.
  [[nodiscard]] virtual bool has_many_effects() const { return (reports_keys || did_much) && !effects.empty(); }

  /// Returns the keys of the command. Valid once the command's thread has collected them.
  [[nodiscard]] std::span<const LookupKey> collected_keys() const { return keys; }
  /// Frees the collected keys, and releases their charge.
  void forget_keys();

 protected:
  /// Collects the keys of the command. Its thread calls this before it takes a view.
  Status collect_reads();
  /// Charges the memory of `count` keys to the budget, and allocates room for them.
  Status charge_keys(std::size_t count);
  /// The command's thread calls these before and after the handler, with the handler's view. If reports_keys is set, they report
  /// expired keys, keys that were read, and key misses to the observers. look_before() also fills in `had`.
  Status look_before(const ReadView& view);
  void look_after(const ReadView& view);

  MemoryCharge keys_charge;     ///< for the memory of `keys`, and of data made from them
  std::vector<LookupKey> keys;  ///< the command's keys, as engine keys
  std::deque<std::string> escaped;
  PresentKeys had;  ///< keys that existed before the attempt; filled in only if notifications of new keys or key misses are on
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

/// A command off its loop that writes nothing. Also the wait for the log's sync of a command that has run (wait_only).
struct OffLoopRun final : OffLoopWork {
  std::uint64_t waited_ms = 0;
  bool unblocked = false;                       ///< CLIENT UNBLOCK was called: the command must reply without a further wait
  bool wait_only = false;                       ///< the command has run; the thread only syncs the log up to `seen_seq`
  OffloadClass threads = OffloadClass::kShort;  ///< the class of the offload thread that runs the command
  bool wants_long = false;                      ///< result: the command must run again on OffloadClass::kLong
  std::uint32_t again_ms = 0;                   ///< result: the command blocks, and must run again after this many ms

  void run() override;

 private:
  Status attempt(Reply& reply);
};

}  // namespace ebbtide

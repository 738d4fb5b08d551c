// Keyspace notifications: messages about what commands did to keys, on channels that Redis defines.
//
// Events follow from a command and its committed batch; handlers take no part. The events of one command have Redis's order.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_set>

#include <engine/types.h>

#include "dispatch/committed_command.h"
#include "dispatch/slice.h"
#include "dispatch/switches.h"
#include "resp/args.h"
#include "resp/client.h"

namespace ebbtide {

/// The classes of notify-keyspace-events.
enum NotifyFlags : std::uint32_t {
  kNotifyKeyspace = 1,  ///< K
  kNotifyKeyevent = 2,  ///< E
  kNotifyGeneric = 4,   ///< g
  kNotifyString = 8,    ///< $
  kNotifyExpired = 16,  ///< x
  kNotifyMiss = 32,     ///< m
  kNotifyNew = 64,      ///< n
  kNotifyOthers = 128,  ///< l s h z e t d: of types and events that this server does not have
};
/// The flags that the letters of `text` name; nullopt if one of the letters is unknown.
std::optional<std::uint32_t> parse_notify_flags(Bytes text);

/// Thread-safe, except for `publish`.
class Notifications {
 public:
  explicit Notifications(Switches& switches) : switches_(switches) {}

  /// Sends a message: PubSub::publish. `here`: the loop of the calling thread, null if it is no loop. The message leaves when the
  /// log has `seq`. Set once, before use.
  using Publish = std::function<void(Bytes channel, Bytes message, ClientLoop* here, SeqNum seq)>;
  Publish publish;
  /// Calls a function whose messages reach other loops together, in their order. Set once, before use; null: each by itself.
  std::function<void(const std::function<void()>&)> together;
  /// How many subscribers an event may have, at most. Set once, before use; null: none.
  std::function<std::size_t()> listeners;

  void set_flags(std::uint32_t flags);
  /// NotifyFlags; 0 if no event could be published. One load.
  [[nodiscard]] std::uint32_t flags() const { return flags_.load(std::memory_order_relaxed); }

  /// The progress of publishing a command's events.
  struct Progress {
    std::uint32_t walks = 0;             ///< over the batch that are complete
    std::size_t cursor = 0;              ///< of the current walk
    std::unordered_set<Bytes> new_keys;  ///< announced: MSET may name a key twice
  };
  /// Publishes the events of a command's writes. False if the slice is over before all are published: to be called again.
  bool committed(const CommittedCommand& commit, ClientLoop* here, Progress* progress, const Slice& slice);
  void committed(const CommittedCommand& commit, ClientLoop* here) {
    Progress progress;
    committed(commit, here, &progress, Slice());
  }
  /// Publishes key-miss events of a command that has run: for those of its keys that are not in `had`, from the key number `*next`
  /// on. False if the slice is over before all are published: to be called again.
  bool missed(const Command& command, const Args& args, std::span<const LookupKey> keys, const PresentKeys& had,
              DatabaseId database, ClientLoop* here, SeqNum seq, std::size_t* next, const Slice& slice);
  /// Publishes that a key has expired. False if these events are off.
  bool expired(DatabaseId database, Bytes engine_key, ClientLoop* here);

 private:
  void notify(std::uint32_t type, Bytes event, Bytes key, DatabaseId database, ClientLoop* here, SeqNum seq);

  Switches& switches_;
  std::atomic<std::uint32_t> flags_{0};
};

}  // namespace ebbtide

// Keyspace notifications: messages about what commands did to keys, on channels that Redis defines.
//
// Events are derived from a command and its committed batch; handlers need no code for them. The events of one command come in
// Redis's order.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include <engine/seeded_hash.h>
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
  kNotifyOthers = 128,  ///< e t d: accepted, but without effect: evictions, streams and modules do not exist here
  kNotifyList = 256,    ///< l
  kNotifySet = 512,     ///< s
  kNotifyHash = 1024,   ///< h
  kNotifyZset = 2048,   ///< z
};
/// Parses the value of notify-keyspace-events. Returns its flags; nullopt if a letter is unknown.
std::optional<std::uint32_t> parse_notify_flags(Bytes text);

/// Thread-safe, except for `publish`.
class Notifications {
 public:
  explicit Notifications(Switches& switches) : switches_(switches) {}

  /// Sends a message (PubSub::publish) once the log has the operation `seq`. `here` is the event loop of the calling thread; null
  /// if the thread runs no loop. Set once, before use.
  using Publish = std::function<void(Bytes channel, Bytes message, ClientLoop* here, SeqNum seq)>;
  Publish publish;
  /// Like publish(), in slices, for channels that are matched with many patterns. The returned function is called, once per
  /// slice, until it returns true. Set once, before use; null: publish() sends every message.
  using InParts = std::function<bool(const Slice&)>;
  std::function<InParts(Bytes channel, Bytes message, ClientLoop* here, SeqNum seq)> publish_in_parts;
  /// Returns the cost of matching a channel of `channel_bytes` bytes with all patterns, in bytes (PubSub::pattern_work). Set
  /// once, before use; null: there are no patterns.
  std::function<std::uint64_t(std::size_t channel_bytes)> work;
  /// Calls a function. The messages that the function publishes go to each other event loop as one task, in their order. Set
  /// once, before use; null: each message is sent by itself.
  std::function<void(const std::function<void()>&)> together;
  /// Returns an upper bound of the subscribers of an event. Set once, before use; null: there are none.
  std::function<std::size_t()> listeners;

  void set_flags(std::uint32_t flags);
  /// Returns the NotifyFlags that are on; 0 if no event can be published. This is one atomic load.
  [[nodiscard]] std::uint32_t flags() const { return flags_.load(std::memory_order_relaxed); }

  /// Messages that are sent in slices, in order.
  class Outbox {
   public:
    void add(InParts message) { messages_.push_back(std::move(message)); }
    [[nodiscard]] bool empty() const { return messages_.empty(); }
    /// Sends messages until the time slice is over. Returns false if messages are left; then call it again in the next slice.
    bool send(const Slice& slice) {
      for (; !messages_.empty(); messages_.pop_front()) {
        if (!messages_.front()(slice)) return false;
      }
      return true;
    }

   private:
    std::deque<InParts> messages_;
  };

  /// Returns the cost of finding the subscribers of the events of `keys` keys, whose names have `bytes` bytes in all. The unit is
  /// that of `work`.
  [[nodiscard]] std::uint64_t work_of(std::size_t keys, std::size_t bytes) const;

  /// The progress of publishing the events of one command, kept between two slices.
  struct Progress {
    Outbox outbox;
    std::uint32_t walks = 0;  ///< number of complete walks over the batch
    std::size_t cursor = 0;   ///< position of the current walk in the batch
    BytesSet new_keys;        ///< keys whose "new" event was published, so that it is published once if MSET names a key twice
  };
  /// Publishes the events of a command's writes. Returns false if the slice ends before all events are published; then the caller
  /// calls again.
  bool committed(const CommittedCommand& commit, ClientLoop* here, Progress* progress, const Slice& slice);
  void committed(const CommittedCommand& commit, ClientLoop* here) {
    Progress progress;
    committed(commit, here, &progress, Slice());
  }
  /// The progress of publishing the key misses of one command, kept between two slices.
  struct Misses {
    Outbox outbox;
    std::size_t next = 0;  ///< index of the next key
  };
  /// Publishes the key-miss events of a command that has run: one for each of `keys` that is not in `had`. Returns false if the
  /// slice ends before all events are published; then the caller calls again.
  bool missed(const Command& command, const Args& args, std::span<const LookupKey> keys, const PresentKeys& had,
              DatabaseId database, ClientLoop* here, SeqNum seq, Misses* progress, const Slice& slice);
  /// Publishes that a key has expired. Messages that take long go into `outbox`. Returns false if events of expirations are off.
  bool expired(DatabaseId database, Bytes engine_key, ClientLoop* here, Outbox* outbox);

 private:
  /// The part of committed() for commands that change elements of collections.
  bool elements_changed(const CommittedCommand& commit, ClientLoop* here, Progress* progress, const Slice& slice);
  /// If finding the subscribers of a message costs more than this, a tenth of a millisecond, the message is sent in slices.
  static constexpr std::uint64_t kSentAtOnce = 64 << 10;
  void notify(std::uint32_t type, Bytes event, Bytes key, DatabaseId database, ClientLoop* here, SeqNum seq, Outbox* outbox);

  Switches& switches_;
  std::atomic<std::uint32_t> flags_{0};
};

}  // namespace ebbtide

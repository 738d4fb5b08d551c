// Keyspace notifications: messages about what commands did to keys, on channels that Redis defines.
//
// Events follow from a command and its committed batch, without its handler. The events of one command have Redis's order.
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
  kNotifyOthers = 128,  ///< e t d: of types and events that this server does not have
  kNotifyList = 256,    ///< l
  kNotifySet = 512,     ///< s
  kNotifyHash = 1024,   ///< h
  kNotifyZset = 2048,   ///< z
};
/// Returns the flags that the letters of `text` name; nullopt if a letter is unknown.
std::optional<std::uint32_t> parse_notify_flags(Bytes text);

/// Thread-safe, except for `publish`.
class Notifications {
 public:
  explicit Notifications(Switches& switches) : switches_(switches) {}

  /// Sends a message (PubSub::publish) once the log has `seq`. `here` is the event loop of the calling thread; null if the thread
  /// runs no loop. Set once, before use.
  using Publish = std::function<void(Bytes channel, Bytes message, ClientLoop* here, SeqNum seq)>;
  Publish publish;
  /// Like publish(), in parts, for channels that are compared with many patterns. The result is called until it returns true. Set
  /// once, before use; null: publish() sends each message.
  using InParts = std::function<bool(const Slice&)>;
  std::function<InParts(Bytes channel, Bytes message, ClientLoop* here, SeqNum seq)> publish_in_parts;
  /// Returns the cost of comparing a channel of `channel_bytes` bytes with all patterns, in bytes (PubSub::pattern_work). Set
  /// once, before use; null: there are no patterns.
  std::function<std::uint64_t(std::size_t channel_bytes)> work;
  /// Calls a function. The messages that it publishes are sent to each other loop together, in their order. Set once, before use;
  /// null: each message is sent by itself.
  std::function<void(const std::function<void()>&)> together;
  /// Returns the most subscribers that an event may have. Set once, before use; null: there are none.
  std::function<std::size_t()> listeners;

  void set_flags(std::uint32_t flags);
  /// NotifyFlags that are on; 0 if no event could be published. This is one atomic load.
  [[nodiscard]] std::uint32_t flags() const { return flags_.load(std::memory_order_relaxed); }

  /// Messages that are sent in parts, in order.
  class Outbox {
   public:
    void add(InParts message) { messages_.push_back(std::move(message)); }
    [[nodiscard]] bool empty() const { return messages_.empty(); }
    /// Returns false if the slice ends before all messages are sent.
    bool send(const Slice& slice) {
      for (; !messages_.empty(); messages_.pop_front()) {
        if (!messages_.front()(slice)) return false;
      }
      return true;
    }

   private:
    std::deque<InParts> messages_;
  };

  /// Returns the cost of finding the subscribers of the events of `keys` keys, whose names have `bytes` bytes together. The unit
  /// is that of `work`.
  [[nodiscard]] std::uint64_t work_of(std::size_t keys, std::size_t bytes) const;

  /// The progress of publishing a command's events, between two slices.
  struct Progress {
    Outbox outbox;
    std::uint32_t walks = 0;  ///< complete walks over the batch
    std::size_t cursor = 0;   ///< position of the current walk
    BytesSet new_keys;        ///< keys whose "new" event was published, since MSET may name a key twice
  };
  /// Publishes the events of a command's writes. Returns false if the slice ends before all are published; then it is called
  /// again.
  bool committed(const CommittedCommand& commit, ClientLoop* here, Progress* progress, const Slice& slice);
  void committed(const CommittedCommand& commit, ClientLoop* here) {
    Progress progress;
    committed(commit, here, &progress, Slice());
  }
  /// The progress of publishing a command's misses, between two slices.
  struct Misses {
    Outbox outbox;
    std::size_t next = 0;  ///< number of the next key
  };
  /// Publishes key-miss events of a command that has run: for those of its keys that are not in `had`. Returns false if the slice
  /// ends before all are published; then it is called again.
  bool missed(const Command& command, const Args& args, std::span<const LookupKey> keys, const PresentKeys& had,
              DatabaseId database, ClientLoop* here, SeqNum seq, Misses* progress, const Slice& slice);
  /// Publishes that a key has expired. Messages that take long are left in the outbox. Returns false if these events are off.
  bool expired(DatabaseId database, Bytes engine_key, ClientLoop* here, Outbox* outbox);

 private:
  /// The part of committed() for commands on elements of collections.
  bool elements_changed(const CommittedCommand& commit, ClientLoop* here, Progress* progress, const Slice& slice);
  /// A message is sent in parts if finding its subscribers takes longer: a tenth of a millisecond.
  static constexpr std::uint64_t kSentAtOnce = 64 << 10;
  void notify(std::uint32_t type, Bytes event, Bytes key, DatabaseId database, ClientLoop* here, SeqNum seq, Outbox* outbox);

  Switches& switches_;
  std::atomic<std::uint32_t> flags_{0};
};

}  // namespace ebbtide

// Subscriptions to channels and patterns, and the delivery of messages.
//
// One registry serves all event loops. It maps channels, patterns and shard channels to their subscribers. A subscriber is
// identified by its loop and client id, not by a pointer. So a connection may close while messages to it are on their way.
//
// Subscribers on the publisher's own loop get a message at once. Each other loop gets it as one task. A loop runs tasks in the
// order in which they were posted, so each subscriber gets the messages of a publisher in order. Each message has the seq on
// which it depends. Like a reply, it is sent only when the log has reached that seq.
//
// A channel is matched with every pattern. This takes long for long channels and many patterns, so a search for subscribers can
// be made in slices (Search). No lock is held while a pattern is matched.
//
// A subscriber that reads too slowly is closed once Client::push_limit bytes wait for it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <engine/seeded_hash.h>

#include "resp/client.h"
#include "resp/shared_texts.h"
#include "store/glob.h"

namespace ebbtide {

class Reply;

/// Thread-safe. Outlives every connection.
class PubSub {
 public:
  enum class Kind : std::uint8_t { kChannel, kPattern, kShard };
  static constexpr std::size_t kKinds = 3;

  struct Subscriber {
    ClientLoop* loop = nullptr;
    std::uint64_t client_id = 0;
    bool operator==(const Subscriber&) const = default;
  };
  /// Returns true when work must stop, either to continue in the next slice or because it was cancelled. Null: never.
  using Over = std::function<bool()>;

  /// Stores a long message once for all its subscribers, charged to the memory budget. Set once, before use.
  SharedTexts texts;

  /// Adds or removes a subscriber of a name. The caller must not subscribe a client twice to one name.
  void add(Kind kind, const std::string& name, Subscriber subscriber);
  void remove(Kind kind, const std::string& name, Subscriber subscriber);

  /// Sends a message to the subscribers of the channel, and of the patterns that match the channel; for kShard, to those of the
  /// shard channel. `here` is the event loop of the calling thread; null if the thread runs no loop. The message is sent once the
  /// log has `seq`. If `count` is set, the number of subscribers is written to it before the message is sent, since the caller
  /// may be a subscriber. If `value` is set, it owns the message's bytes, so that they are not copied.
  using Value = std::shared_ptr<const std::string>;
  void publish(Kind kind, Bytes channel, Bytes message, ClientLoop* here, std::uint64_t seq, Reply* count = nullptr,
               Value value = nullptr);

  /// While an object of this class lives, it collects the messages from its thread to other loops. It sends them in order, many
  /// in one task. A long command has hundreds of thousands of messages, and a task for each would cost more than its delivery.
  class Gathering;
  /// The subscribers that a message has at one moment, so that it can be sent to them later.
  class Audience;
  /// Finds the subscribers of a message in slices.
  class Search;
  /// Sends a message in slices, to subscribers as they are found.
  class Publishing;
  /// Sends a message in slices, to an audience.
  class Sending;
  [[nodiscard]] Audience audience(Kind kind, Bytes channel) const;
  /// Returns the cost of matching a channel with all patterns, in bytes. Half a million bytes take about a millisecond.
  [[nodiscard]] std::uint64_t pattern_work(std::size_t channel_bytes) const {
    return pattern_weight_.load(std::memory_order_relaxed) * channel_bytes;
  }
  [[nodiscard]] std::uint64_t pattern_work(Kind kind, Bytes channel) const {
    return kind == Kind::kChannel ? pattern_work(channel.size()) : 0;
  }
  /// Returns an upper bound of the subscribers of a keyspace notification: the subscribers of all patterns, and of all channels
  /// whose names begin with "__key".
  [[nodiscard]] std::size_t keyspace_listeners() const { return keyspace_listeners_.load(std::memory_order_relaxed); }
  /// Sends a message to an audience that audience() returned. A client that has unsubscribed since then still gets the message.
  void send(Audience audience, Kind kind, Bytes channel, Bytes message, ClientLoop* here, std::uint64_t seq,
            Value value = nullptr) const;

  /// Returns the names with subscribers that match `pattern` ("" = all), in order. If `cancelled` has returned true, some may be
  /// missing.
  [[nodiscard]] std::vector<std::string> names(Kind kind, Bytes pattern, const Over& cancelled = nullptr) const;
  /// Returns the number of subscribers of a name.
  [[nodiscard]] std::size_t count(Kind kind, Bytes name) const;
  /// Returns the number of names with subscribers.
  [[nodiscard]] std::size_t size(Kind kind) const;

 private:
  struct Entry {
    std::vector<Subscriber> subscribers;
    std::shared_ptr<const std::string> pattern_and_end;  ///< a pattern, followed by CRLF; null for other kinds
  };
  /// Channels, in many hash tables that grow separately: rehashing one table of a million names would take a quarter of a second.
  class Names {
   public:
    using Part = std::unordered_map<std::string, Entry, SeededHash, std::equal_to<>>;
    [[nodiscard]] Part& part_of(Bytes name) { return parts_[SeededHash{}(name) % kParts]; }
    [[nodiscard]] const Part& part_of(Bytes name) const { return parts_[SeededHash{}(name) % kParts]; }
    [[nodiscard]] const auto& parts() const { return parts_; }
    [[nodiscard]] std::size_t size() const;

   private:
    // The number of tables: a prime that is no table's bucket count, so that the names in a table use all of its buckets.
    static constexpr std::size_t kParts = 61;
    std::array<Part, kParts> parts_;
  };
  /// A subscriber of a message. If it subscribes to a pattern, pattern_and_end is that pattern followed by CRLF, else null.
  struct Target {
    std::uint64_t client_id;
    std::shared_ptr<const std::string> pattern_and_end;
  };
  /// A message on its way. Channel and text are followed by CRLF. If `value` is set, it is the text, and text_and_end is empty.
  struct Message {
    Message(Kind its_kind, std::string channel, std::string text, std::uint64_t its_seq, Value its_value)
        : kind(its_kind),
          channel_and_end(std::move(channel)),
          text_and_end(std::move(text)),
          seq(its_seq),
          value(std::move(its_value)) {}

    Kind kind;
    std::string channel_and_end, text_and_end;
    std::uint64_t seq;
    Value value;
    std::optional<SharedTexts::Charge> charge = {};  ///< for the texts, unless they are copied; a value has a charge of its own
  };

  /// Ordered, so that a search that has released the lock can continue behind its last pattern.
  using Patterns = std::map<std::string, Entry, std::less<>>;

  [[nodiscard]] const Names& of(Kind kind) const { return kind == Kind::kShard ? shard_channels_ : channels_; }
  [[nodiscard]] Names& of(Kind kind) { return kind == Kind::kShard ? shard_channels_ : channels_; }
  /// A text, channel or pattern of at least this many bytes is shared by its subscribers, instead of copied for each.
  static constexpr std::size_t kSharedBytes = 4 << 10;
  /// A message whose pattern_work() is less is matched with all patterns under one lock, which takes a tenth of a millisecond.
  static constexpr std::uint64_t kFewBytes = 64 << 10;
  /// How many deliveries a loop makes in one step: they take half a millisecond.
  static constexpr std::size_t kClientsAtOnce = 1024;
  [[nodiscard]] std::shared_ptr<const Message> message_of(Kind kind, Bytes channel, Bytes text, std::uint64_t seq,
                                                          Value value) const;
  static void send(Audience&& audience, const std::shared_ptr<const Message>& message, ClientLoop* here);
  static void write(Reply& reply, const std::shared_ptr<const void>& owner, const std::string& text_and_end);
  static void deliver(ClientLoop& loop, const std::shared_ptr<const Message>& message, const std::vector<Target>& targets);

  /// Returns the weight of a pattern in pattern_work(): a long pattern is compared with each byte of a channel several times.
  static std::uint64_t weight_of(Bytes pattern) { return 1 + pattern.size() / 64; }

  static bool hears_keyspace(Kind kind, Bytes name) {
    return kind == Kind::kPattern || (kind == Kind::kChannel && name.starts_with("__key"));
  }

  std::atomic<std::uint64_t> pattern_weight_{0};  ///< sum of the weights of all patterns
  std::atomic<std::size_t> keyspace_listeners_{0};
  mutable std::shared_mutex mutex_;
  // Guarded by mutex_.
  Names channels_, shard_channels_;
  Patterns patterns_;
};

class PubSub::Gathering {
 public:
  /// The most messages in one task, which take a fraction of a millisecond.
  static constexpr std::size_t kMessagesPerTask = 64;

  Gathering();
  /// Sends the messages that are still gathered.
  ~Gathering();
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

 private:
  friend class PubSub;
  struct Parcel {
    std::shared_ptr<const Message> message;
    std::vector<Target> targets;
  };
  using Parcels = std::vector<Parcel>;
  void add(ClientLoop* loop, Parcel parcel);
  static void post(ClientLoop* loop, Parcels parcels);

  static thread_local Gathering* current_;
  std::vector<std::pair<ClientLoop*, Parcels>> loops_;
};

class PubSub::Audience {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Returns the estimated memory of the audience, in bytes. Half of each vector may be unused, since vectors grow by doubling.
  [[nodiscard]] std::size_t memory() const { return sizeof(*this) + 2 * size_ * sizeof(Target); }

 private:
  friend class PubSub;
  void add(const Subscriber& subscriber, const std::shared_ptr<const std::string>& pattern_and_end);
  std::vector<std::pair<ClientLoop*, std::vector<Target>>> loops_;  // a vector, since there are few loops
  std::size_t size_ = 0;
};

/// Finds subscribers in slices. A pattern that is added or removed during the search may be included or not.
class PubSub::Search {
 public:
  /// `channel` must outlive the search.
  Search(const PubSub& registry, Kind kind, Bytes channel) : registry_(registry), kind_(kind), channel_(channel) {}

  /// Adds subscribers to `found`. Returns true if all have been found. Returns false once it has added `most` or more, or `over`
  /// has returned true; `over` is called every tenth of a millisecond.
  bool go_on(Audience* found, std::size_t most, const Over& over);

 private:
  static constexpr std::size_t kStepsAtOnce = 32 << 10, kPatternsAtOnce = 64;
  /// Copies the next patterns from the registry into patterns_. Returns false if no pattern is left.
  bool take_patterns();
  void add_subscribers(const std::shared_ptr<const std::string>& pattern_and_end, Audience* found) const;

  const PubSub& registry_;
  const Kind kind_;
  const Bytes channel_;
  bool begun_ = false;
  std::vector<std::shared_ptr<const std::string>> patterns_;  ///< copied from the registry, each followed by CRLF
  std::size_t next_ = 0;                                      ///< index in patterns_ of the next pattern
  std::optional<GlobMatch> match_;                            ///< the unfinished match of that pattern, if it has begun
};

class PubSub::Publishing {
 public:
  Publishing(const PubSub& registry, Kind kind, Bytes channel, Bytes text, ClientLoop* here, std::uint64_t seq)
      : message_(registry.message_of(kind, channel, text, seq, nullptr)),
        here_(here),
        search_(registry, kind, Bytes(message_->channel_and_end).substr(0, channel.size())) {}

  /// Returns false if `over` has returned true; the caller then calls go_on() again later.
  bool go_on(const Over& over);

 private:
  const std::shared_ptr<const Message> message_;
  ClientLoop* const here_;
  Search search_;
};

class PubSub::Sending {
 public:
  /// `channel` and `text` must outlive the last go_on().
  Sending(const PubSub& registry, Audience audience, Kind kind, Bytes channel, Bytes text, Value value)
      : registry_(registry),
        audience_(std::move(audience)),
        kind_(kind),
        channel_(channel),
        text_(text),
        value_(std::move(value)) {}

  /// Returns false if `over` has returned true; the caller then calls go_on() again later. `here` and `seq` are those of
  /// publish().
  bool go_on(ClientLoop* here, std::uint64_t seq, const Over& over);

 private:
  const PubSub& registry_;
  const Audience audience_;
  const Kind kind_;
  const Bytes channel_, text_;
  const Value value_;
  std::shared_ptr<const Message> message_;  ///< null before the first go_on()
  std::size_t loop_ = 0, target_ = 0;       ///< indexes of the next loop in audience_, and of its next subscriber
};

/// The subscriptions of one connection. They end when the connection closes. Loop thread only.
class Subscriptions final : public ClientState {
 public:
  Subscriptions(PubSub& registry, PubSub::Subscriber self) : registry_(registry), self_(self) {}
  ~Subscriptions() override;

  /// Returns false if the connection had subscribed to the name already.
  bool add(PubSub::Kind kind, Bytes name);
  /// Returns false if the connection had not subscribed to the name.
  bool remove(PubSub::Kind kind, Bytes name);
  /// Ends at most `most` subscriptions, of any kind. Returns true if no subscription is left.
  bool remove_some(std::size_t most);
  [[nodiscard]] const std::set<std::string, std::less<>>& names(PubSub::Kind kind) const {
    return names_[static_cast<std::size_t>(kind)];
  }
  /// Returns the count in a reply to SUBSCRIBE: of channels and patterns together, or of shard channels.
  [[nodiscard]] std::size_t count(PubSub::Kind kind) const;
  [[nodiscard]] bool empty() const;
  [[nodiscard]] std::size_t memory() const override { return bytes_; }

 private:
  /// Estimates the memory of a subscription: the name here, a copy in the registry if no other client subscribes to it, and 256
  /// bytes for nodes.
  static std::size_t bytes_of(Bytes name) { return 256 + 2 * name.size(); }

  PubSub& registry_;
  const PubSub::Subscriber self_;
  std::set<std::string, std::less<>> names_[PubSub::kKinds];
  std::size_t bytes_ = 0;
};

}  // namespace ebbtide

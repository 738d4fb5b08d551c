// Subscriptions to channels and patterns, and the delivery of messages.
//
// One registry serves all event loops. It has channels, patterns and shard channels, each name with its subscribers. A subscriber
// is identified by its loop and client id, not by a pointer, so that a connection may close while messages are on their way to
// it.
//
// A message is delivered at once to subscribers on the publisher's own loop. Each other loop gets it as one task. Tasks of a loop
// run in the order in which they were posted, so that each subscriber gets the messages of one publisher in order. Each message
// has the seq on which it depends, and is sent no earlier than a reply that depends on that seq.
//
// A channel is compared with every pattern. Long channels and many patterns take long, so a search for subscribers can be made in
// parts (Search), and no lock is held while a pattern is compared.
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
  /// Returns true when a piece of work must stop, for now or for good. Null: never.
  using Over = std::function<bool()>;

  /// Charges long texts of messages. Set once, before use.
  SharedTexts texts;

  /// Adds or removes a subscriber of a name. The caller must not subscribe a client twice to one name.
  void add(Kind kind, const std::string& name, Subscriber subscriber);
  void remove(Kind kind, const std::string& name, Subscriber subscriber);

  /// Sends a message to the subscribers of the channel and of the patterns that match the channel; for kShard, to those of the
  /// shard channel. `here` is the event loop of the calling thread; null if the thread runs no loop. The message is sent once the
  /// log has `seq`. If `count` is set, the number of subscribers is written to it before the message is sent, since the caller
  /// may be a subscriber. If `value` is set, it has the message's bytes, and is sent without a copy.
  using Value = std::shared_ptr<const std::string>;
  void publish(Kind kind, Bytes channel, Bytes message, ClientLoop* here, std::uint64_t seq, Reply* count = nullptr,
               Value value = nullptr);

  /// While an object of this class lives, it collects messages from its thread to other loops, and sends them in order, in few
  /// tasks. A long command has hundreds of thousands of messages, and a task for each would cost more than its delivery.
  class Gathering;
  /// The subscribers that a message has now, so that the message can be sent later.
  class Audience;
  /// Finds the subscribers of a message in parts.
  class Search;
  /// Sends a message in parts, to subscribers as they are found.
  class Publishing;
  /// Sends a message in parts, to an audience.
  class Sending;
  [[nodiscard]] Audience audience(Kind kind, Bytes channel) const;
  /// Returns the cost of comparing a channel with all patterns, in bytes. Half a million bytes take about a millisecond.
  [[nodiscard]] std::uint64_t pattern_work(std::size_t channel_bytes) const {
    return pattern_weight_.load(std::memory_order_relaxed) * channel_bytes;
  }
  [[nodiscard]] std::uint64_t pattern_work(Kind kind, Bytes channel) const {
    return kind == Kind::kChannel ? pattern_work(channel.size()) : 0;
  }
  /// Returns how many subscribers a keyspace notification may have at most: those of all patterns, and those of all channels
  /// whose names begin like the channels of notifications.
  [[nodiscard]] std::size_t keyspace_listeners() const { return keyspace_listeners_.load(std::memory_order_relaxed); }
  /// Sends a message to an audience that audience() returned. A client that has unsubscribed since then still gets the message.
  void send(Audience audience, Kind kind, Bytes channel, Bytes message, ClientLoop* here, std::uint64_t seq,
            Value value = nullptr) const;

  /// Returns the names with subscribers that match `pattern` ("" = all), in order. Some are missing if `cancelled` has returned
  /// true.
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
  /// Channels. They are split into parts that grow separately, since rehashing a million names at once would take a quarter of a
  /// second.
  class Names {
   public:
    using Part = std::unordered_map<std::string, Entry, SeededHash, std::equal_to<>>;
    [[nodiscard]] Part& part_of(Bytes name) { return parts_[SeededHash{}(name) % kParts]; }
    [[nodiscard]] const Part& part_of(Bytes name) const { return parts_[SeededHash{}(name) % kParts]; }
    [[nodiscard]] const auto& parts() const { return parts_; }
    [[nodiscard]] std::size_t size() const;

   private:
    static constexpr std::size_t kParts = 61;  // coprime to the bucket counts, which are larger primes
    std::array<Part, kParts> parts_;
  };
  /// A subscriber of a message, and the pattern that matched, followed by CRLF. The pattern is null for a subscriber of the
  /// channel itself.
  struct Target {
    std::uint64_t client_id;
    std::shared_ptr<const std::string> pattern_and_end;
  };
  /// A message on its way. Channel and text are followed by CRLF. If `value` is set, it has the text, and `text_and_end` is
  /// empty.
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

  /// Ordered, so that a search that has released the lock finds where it was.
  using Patterns = std::map<std::string, Entry, std::less<>>;

  [[nodiscard]] const Names& of(Kind kind) const { return kind == Kind::kShard ? shard_channels_ : channels_; }
  [[nodiscard]] Names& of(Kind kind) { return kind == Kind::kShard ? shard_channels_ : channels_; }
  /// A text, channel or pattern of at least this many bytes is shared by its subscribers, so that it is not copied for each of
  /// thousands.
  static constexpr std::size_t kSharedBytes = 4 << 10;
  /// A message whose patterns cost less (pattern_work) is compared with them under one lock: a tenth of a millisecond.
  static constexpr std::uint64_t kFewBytes = 64 << 10;
  /// The number of deliveries that take half a millisecond.
  static constexpr std::size_t kClientsAtOnce = 1024;
  [[nodiscard]] std::shared_ptr<const Message> message_of(Kind kind, Bytes channel, Bytes text, std::uint64_t seq,
                                                          Value value) const;
  static void send(Audience&& audience, const std::shared_ptr<const Message>& message, ClientLoop* here);
  static void write(Reply& reply, const std::shared_ptr<const void>& owner, const std::string& text_and_end);
  static void deliver(ClientLoop& loop, const std::shared_ptr<const Message>& message, const std::vector<Target>& targets);

  /// Returns the weight of a pattern in pattern_work(). A long pattern is compared with each byte of a channel several times.
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
  /// The messages in one task, which take a fraction of a millisecond.
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
  /// Returns the estimated memory of the audience, in bytes. Doubling may have left half of its vectors unused.
  [[nodiscard]] std::size_t memory() const { return sizeof(*this) + 2 * size_ * sizeof(Target); }

 private:
  friend class PubSub;
  void add(const Subscriber& subscriber, const std::shared_ptr<const std::string>& pattern_and_end);
  std::vector<std::pair<ClientLoop*, std::vector<Target>>> loops_;  // a vector, since there are few loops
  std::size_t size_ = 0;
};

/// A pattern that is added or removed during the search may be included or not.
class PubSub::Search {
 public:
  /// `channel` must outlive the search.
  Search(const PubSub& registry, Kind kind, Bytes channel) : registry_(registry), kind_(kind), channel_(channel) {}

  /// Adds subscribers to `found`. Returns true if these were the last. Returns false if it has added `most` or more, or if `over`
  /// has returned true. It calls `over` after each tenth of a millisecond.
  bool go_on(Audience* found, std::size_t most, const Over& over);

 private:
  static constexpr std::size_t kStepsAtOnce = 32 << 10, kPatternsAtOnce = 64;
  /// Copies the next patterns from the registry into patterns_. Returns false if there are none.
  bool take_patterns();
  void add_subscribers(const std::shared_ptr<const std::string>& pattern_and_end, Audience* found) const;

  const PubSub& registry_;
  const Kind kind_;
  const Bytes channel_;
  bool begun_ = false;
  std::vector<std::shared_ptr<const std::string>> patterns_;  ///< copied from the registry, each followed by CRLF
  std::size_t next_ = 0;                                      ///< index in patterns_
  std::optional<GlobMatch> match_;                            ///< the match of that pattern, if it has begun
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
  std::size_t loop_ = 0, target_ = 0;       ///< the next target
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
  /// Estimates the memory of a subscription. The name is stored here and, if no other client subscribed to it, in the registry.
  /// 256 bytes are for the nodes.
  static std::size_t bytes_of(Bytes name) { return 256 + 2 * name.size(); }

  PubSub& registry_;
  const PubSub::Subscriber self_;
  std::set<std::string, std::less<>> names_[PubSub::kKinds];
  std::size_t bytes_ = 0;
};

}  // namespace ebbtide

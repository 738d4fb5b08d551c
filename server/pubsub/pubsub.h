// Subscriptions to channels and patterns, and the delivery of messages.
//
// One registry for all event loops: channels, patterns and shard channels, each name with its subscribers. A subscriber is
// identified by its loop and client id, not by a pointer, so that a connection may close while messages are on their way to it.
//
// A message is delivered at once to subscribers on the publisher's own loop. Each other loop gets it as one task. Tasks of a loop
// run in the order in which they were posted, so that each subscriber gets the messages of one publisher in order. Each message
// has the seq on which it depends, and is sent no earlier than a reply that depends on that seq.
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
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "resp/client.h"

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
  /// True if a pattern matches a channel.
  using Matches = bool (*)(Bytes pattern, Bytes channel);

  explicit PubSub(Matches matches) : matches_(matches) {}

  /// The caller must not subscribe a client twice to one name.
  void add(Kind kind, const std::string& name, Subscriber subscriber);
  void remove(Kind kind, const std::string& name, Subscriber subscriber);

  /// Sends to the subscribers of the channel and of the patterns that match it (kShard: of the shard channel). `here`: the loop
  /// of the calling thread, null if it is no loop. `seq`: the message depends on it. If `count` is set, the number of subscribers
  /// is written to it first, since it may be the reply to one of them.
  void publish(Kind kind, Bytes channel, Bytes message, ClientLoop* here, std::uint64_t seq, Reply* count = nullptr);

  /// While one lives, the messages that its thread sends to other loops are gathered, and leave as few tasks, in their order. A long
  /// command has hundreds of thousands of messages, and a task for each costs more than its delivery.
  class Gathering;
  /// The current subscribers for a message, to send it later.
  class Audience;
  [[nodiscard]] Audience audience(Kind kind, Bytes channel) const;
  /// The cost of comparing the channel with all patterns, in bytes; half a million take about a millisecond.
  [[nodiscard]] std::uint64_t pattern_work(Kind kind, Bytes channel) const {
    return kind == Kind::kChannel ? pattern_weight_.load(std::memory_order_relaxed) * channel.size() : 0;
  }
  /// How many subscribers keyspace notifications may have: of all patterns, and of all channels whose names begin as theirs do.
  [[nodiscard]] std::size_t keyspace_listeners() const { return keyspace_listeners_.load(std::memory_order_relaxed); }
  /// The second half of publish(). A client that has unsubscribed since then still gets the message.
  static void send(Audience audience, Kind kind, Bytes channel, Bytes message, ClientLoop* here, std::uint64_t seq);

  /// The names with subscribers that match `pattern` ("" = all), in order.
  [[nodiscard]] std::vector<std::string> names(Kind kind, Bytes pattern) const;
  /// Subscribers of one name.
  [[nodiscard]] std::size_t count(Kind kind, Bytes name) const;
  /// Number of names with subscribers.
  [[nodiscard]] std::size_t size(Kind kind) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(Bytes text) const { return std::hash<Bytes>{}(text); }
  };
  /// Names in parts that grow separately, since rehashing a million names at once would take a quarter of a second.
  class Names {
   public:
    using Part = std::unordered_map<std::string, std::vector<Subscriber>, Hash, std::equal_to<>>;
    [[nodiscard]] Part& part_of(Bytes name) { return parts_[Hash{}(name) % kParts]; }
    [[nodiscard]] const Part& part_of(Bytes name) const { return parts_[Hash{}(name) % kParts]; }
    [[nodiscard]] const auto& parts() const { return parts_; }
    [[nodiscard]] std::size_t size() const;

   private:
    static constexpr std::size_t kParts = 61;  // coprime to the bucket counts, which are larger primes
    std::array<Part, kParts> parts_;
  };
  /// A subscriber of a message, and the pattern that matched ("" with has_pattern false: the channel itself).
  struct Target {
    std::uint64_t client_id;
    bool has_pattern;
    std::string pattern;
  };
  struct Message {
    Kind kind;
    std::string channel;
    std::string text_and_end;  ///< followed by CRLF
    std::uint64_t seq;

    [[nodiscard]] Bytes text() const { return Bytes(text_and_end).substr(0, text_and_end.size() - 2); }
  };

  [[nodiscard]] const Names& of(Kind kind) const { return names_[static_cast<std::size_t>(kind)]; }
  /// From this length on, subscribers share the text, so that a message to thousands of them is not copied for each.
  static constexpr std::size_t kSharedBytes = 4 << 10;
  static constexpr std::uint64_t kFewPatterns = 64;
  static void deliver(ClientLoop& loop, const std::shared_ptr<const Message>& message, const std::vector<Target>& targets);

  const Matches matches_;
  /// A long pattern is compared with each byte of a channel several times.
  static std::uint64_t weight_of(Bytes pattern) { return 1 + pattern.size() / 64; }

  static bool hears_keyspace(Kind kind, Bytes name) {
    return kind == Kind::kPattern || (kind == Kind::kChannel && name.starts_with("__key"));
  }

  std::atomic<std::uint64_t> pattern_weight_{0};  ///< sum over all patterns
  std::atomic<std::size_t> keyspace_listeners_{0};
  mutable std::shared_mutex mutex_;
  Names names_[kKinds];  // guarded by mutex_
};

class PubSub::Gathering {
 public:
  /// So many messages are one task: a fraction of a millisecond of work.
  static constexpr std::size_t kMessagesPerTask = 64;

  Gathering();
  /// Sends the rest.
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

 private:
  friend class PubSub;
  void add(const Subscriber& subscriber, bool has_pattern, const std::string& pattern);
  std::vector<std::pair<ClientLoop*, std::vector<Target>>> loops_;  // few, so searching a vector is as fast as a map
  std::size_t size_ = 0;
};

/// The subscriptions of one connection; they end with it. Loop thread only.
class Subscriptions final : public ClientState {
 public:
  Subscriptions(PubSub& registry, PubSub::Subscriber self) : registry_(registry), self_(self) {}
  ~Subscriptions() override;

  /// False if it was subscribed already.
  bool add(PubSub::Kind kind, Bytes name);
  /// False if it was not subscribed.
  bool remove(PubSub::Kind kind, Bytes name);
  /// Ends at most `most` subscriptions, of any kind. True if none is left.
  bool remove_some(std::size_t most);
  [[nodiscard]] const std::set<std::string, std::less<>>& names(PubSub::Kind kind) const {
    return names_[static_cast<std::size_t>(kind)];
  }
  /// The count in a reply to SUBSCRIBE: channels and patterns together, or shard channels.
  [[nodiscard]] std::size_t count(PubSub::Kind kind) const;
  [[nodiscard]] bool empty() const;
  [[nodiscard]] std::size_t memory() const override { return bytes_; }

 private:
  /// A name is stored here and, unless another client subscribed to it, in the registry; 256 bytes are an estimate for the nodes.
  static std::size_t bytes_of(Bytes name) { return 256 + 2 * name.size(); }

  PubSub& registry_;
  const PubSub::Subscriber self_;
  std::set<std::string, std::less<>> names_[PubSub::kKinds];
  std::size_t bytes_ = 0;
};

}  // namespace ebbtide

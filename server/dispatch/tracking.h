// CLIENT TRACKING: stores which clients have read which keys, and sends them invalidations.
//
// The reads of a tracking client are noted before they run, so that no write after them is missed. A write sends one invalidation
// to every client that has noted one of its keys, and removes the note. A range delete invalidates the noted keys in its range,
// or all keys if thousands are noted there. A broadcasting client has no notes, so a range delete invalidates all keys for it.
// FLUSHDB, SWAPDB and deletes by stamp invalidate all keys for all clients.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <engine/types.h>
#include <engine/write_batch.h>

#include "dispatch/committed_command.h"
#include "dispatch/slice.h"
#include "dispatch/stepped_charge.h"
#include "dispatch/switches.h"
#include "resp/args.h"
#include "resp/client.h"
#include "resp/shared_texts.h"

namespace ebbtide {

/// A client's settings of CLIENT TRACKING.
struct Tracking {
  bool on = false, broadcast = false, opt_in = false, opt_out = false, no_loop = false;
  std::optional<bool> caching = {};  ///< argument of CLIENT CACHING, for the client's next command
  std::uint64_t redirect = 0;
  std::vector<std::string> prefixes = {};

  /// Returns true if the table notes the keys that the client's next command reads.
  [[nodiscard]] bool notes_reads() const {
    return on && !broadcast && (!opt_in || caching == std::optional(true)) && !(opt_out && caching == std::optional(false));
  }
};

/// An invalidation as a client receives it. `keys` is encoded as in a reply, equally for RESP2 and RESP3, and shared by any
/// number of clients; null: all keys.
struct Invalidation {
  std::shared_ptr<const std::string> keys;
  SeqNum seq = 0;  ///< the message is sent once the log has this operation
};

/// From now on, keeps the client's invalidations until send_kept_invalidations(). Call it on the client's loop. A command that
/// reads off its loop may reply with values that are older than invalidations that come while it runs. If the invalidations were
/// sent before the reply, the client would then cache the older values.
void keep_invalidations(Client& client);
/// Sends the invalidations that keep_invalidations() has kept back; later ones are sent at once. Call it after the reply is
/// written.
void send_kept_invalidations(Client& client);

/// The tracking clients, and notes of the keys that they have read. Thread-safe, except for members that are set before use.
class TrackingTable {
 public:
  /// Limits of the notes. Beyond them the table drops the first keys in key order, and sends invalidations for them.
  static constexpr std::size_t kMaxKeys = 1'000'000;
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;
  /// The notes take at most 1 / kBudgetPart of the memory budget.
  static constexpr std::size_t kBudgetPart = 8;

  explicit TrackingTable(Switches& switches, std::size_t max_bytes = kMaxBytes) : switches_(switches), max_bytes_(max_bytes) {}

  /// Returns true if a client is connected. Set once, before use.
  std::function<bool(std::uint64_t client_id)> is_connected;
  /// Calls a function with a client on the client's loop. If the client has disconnected, does not call it. Set once, before use.
  using ToClient = std::function<void(std::uint64_t client_id, std::function<void(Client&)>)>;
  ToClient to_client;

  /// Charges the memory of the notes. The functions of `memory` are set once, before use.
  SteppedCharge memory;
  /// Shares and charges the encoded keys of invalidations. Set once, before use.
  SharedTexts texts;
  /// Sets the size of the memory budget, in bytes. If the notes exceed their share, the next read drops some.
  void set_budget(std::uint64_t bytes);

  /// Replaces the client's settings; if `on` is false, removes them. Call it on the client's loop.
  void set(Client& client, const Tracking& tracking);
  /// Notes that the client reads these engine keys.
  void note_reads(std::uint64_t client_id, std::span<const LookupKey> keys);
  /// Sends the invalidations of a committed batch, except to broadcasting clients. `writer` is the client that sent the command.
  void committed(const WriteBatch& batch, const Origin& writer, SeqNum seq) {
    std::size_t cursor = 0;
    (void)committed(batch, writer, seq, &cursor, Slice());
  }
  /// Like the other committed(), in slices. `*cursor` is the position in the batch, 0 at first. Returns false if the slice ends
  /// before all operations are handled.
  [[nodiscard]] bool committed(const WriteBatch& batch, const Origin& writer, SeqNum seq, std::size_t* cursor,
                               const Slice& slice);
  /// Sends the invalidations for a key that has expired. `here` is the event loop of the calling thread; null if it runs no loop.
  /// Returns false if no client needs one.
  bool expired(Bytes engine_key, ClientLoop* here);
  /// Sends each broadcasting client one message per prefix, with the keys written since the last call. A loop calls this at the
  /// end of each round, as Redis does. `here`: as in expired().
  void send_broadcasts(ClientLoop* here);

  struct Counts {
    std::size_t clients = 0, keys = 0;
    std::size_t items = 0;  ///< number of notes: one for each key and each client that has noted the key
    std::size_t prefixes = 0;
  };
  [[nodiscard]] Counts counts();

 private:
  /// Engine keys, each with the id of the client that wrote it; 0: no client, or several clients.
  using WrittenKeys = std::map<std::string, std::uint64_t>;
  struct Prefix {
    std::set<std::uint64_t> clients;
    std::pair<const std::string, Prefix>* parent = nullptr;  ///< the longest other prefix that is the beginning of this one
    /// Keys written since the last broadcast for which this is the longest prefix. They are broadcast for its parents, too.
    WrittenKeys keys;
    std::size_t key_bytes = 0;  ///< bytes of `keys`
  };
  using Prefixes = std::map<std::string, Prefix, std::less<>>;
  struct Tracker {
    ClientLoop* loop = nullptr;
    bool no_loop = false;
    std::uint64_t redirect = 0;
    bool broadcast = false;
    std::vector<Prefixes::value_type*> prefixes = {};  ///< prefixes of a broadcasting client
  };
  using NotedKeys = std::map<std::string, std::set<std::uint64_t>, std::less<>>;
  /// Engine keys to invalidate, by client id; nullopt: all keys.
  using Invalidations = std::map<std::uint64_t, std::optional<std::vector<std::shared_ptr<const std::string>>>>;
  struct Broadcasts;

  /// Adds the clients with a note for the key to `out`, and removes the note. The caller holds the lock.
  void take_notes(NotedKeys::iterator it, std::uint64_t writer, Invalidations* out);
  /// Like take_notes(). Also stores the key for the next broadcast to clients that track a prefix of it. The caller holds the lock.
  void invalidate_key(Bytes key, std::uint64_t writer, Invalidations* out);
  /// Adds the clients that need an invalidation because of an operation to `out`. The caller holds the lock.
  void invalidate(const WriteBatch::Op& op, std::uint64_t writer, Invalidations* out);
  void invalidate_range(const WriteBatch::Op& op, std::uint64_t writer, Invalidations* out);
  void forget_notes();
  // The caller holds the lock.
  Prefixes::value_type* add_prefix(std::uint64_t client_id, const std::string& prefix);
  void remove_prefix(std::uint64_t client_id, const std::string& prefix);
  /// Returns the longest of prefixes_ with which the text begins; null if there is none.
  Prefixes::value_type* longest_prefix_of(Bytes text);
  /// Stores a key for the next broadcast of the prefix and its parents.
  void note_written(Prefixes::value_type& prefix, Bytes key, std::uint64_t writer);
  /// Moves the keys to broadcast to `out`, and finds their receivers.
  void take_broadcasts(Broadcasts* out);
  /// Adds the clients that have one of these prefixes to `out->all`, since they must invalidate all keys. A client with very many
  /// prefixes is added without a comparison.
  void take_concerned(const std::unordered_map<const Prefixes::value_type*, std::size_t>& prefixes, Broadcasts* out) const;
  /// The encoded keys of an invalidation, as in Invalidation::keys.
  using EncodedKeys = std::shared_ptr<const std::string>;
  template <typename Keys>
  EncodedKeys encode(const Keys& keys) const;
  void send(const Invalidations& invalidations, ClientLoop* here, SeqNum seq);
  void send_to(std::uint64_t id, const EncodedKeys& keys, ClientLoop* here, SeqNum seq);

  Switches& switches_;
  std::atomic<bool> has_broadcasts_{false};
  std::mutex mutex_;
  // Guarded by mutex_.
  std::map<std::uint64_t, Tracker> trackers_;
  Prefixes prefixes_;
  std::vector<Prefixes::value_type*> written_;  ///< prefixes that have keys for the next broadcast
  SeqNum broadcast_seq_ = 0;                    ///< seq of the latest commit whose keys are in prefixes_
  NotedKeys noted_;
  std::size_t items_ = 0;  ///< Counts::items
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;  ///< memory of the notes, estimated
};

}  // namespace ebbtide

// What a reader sees: one database at one sequence number and one engine time.
//
// Two weights of the same thing:
//   * a *pass view* costs two loads. It is valid while the thread holds its PassGuard (a span of commands), takes no count on
//     anything, and its results point straight into memtable and cached pages.
//   * a *leased view* (Db::lease) owns what it reads, may live for minutes and move between threads, and can be revoked.
//
// Fetch and retry: with ReadMode::kResident a read never waits for the disk. What it lacks is added to the MissSet and it
// answers kNotResident; the caller collects as many misses as it can, hands the set to Db::fetch, and runs again.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/iterator.h>
#include <engine/status.h>
#include <engine/types.h>

namespace ebbtide {

struct ReadEnv;    // db/read/view_parts.h: what all views of a database share
struct ViewParts;  // the same
struct TreeView;   // db/trees/tree_view.h: memtables and runs of one tree at one moment
class Lease;       // db/trees/lease_registry.h

/// xxh3 of the key with a fixed seed, the one hash of the engine.
std::uint64_t hash_key(Bytes key);

/// A page, or a large value, that a read lacked: where it is, and the open table that has it.
struct PageMiss {
  const void* table = nullptr;     ///< the table reader, kept alive by MissSet::keep_alive
  std::uint32_t page = 0;          ///< what the table reader understands; unused for a large value
  std::uint64_t large_offset = 0;  ///< large values: where it lies (LargeValueRef); 0 = a page
  std::uint64_t large_stored_bytes = 0;
  std::uint64_t large_length = 0;
  std::uint64_t part_offset = 0;  ///< large values: the bytes that are wanted, within the value
  std::uint64_t part_bytes = 0;
  bool ahead = false;  ///< for a later read: brought into the cache, not pinned, so that it takes no room from what is read now
};

/// What reads found missing, and, once fetched, what keeps it in memory for the second try: pins of pages, and large values.
/// A command keeps its set over all its tries and clears it when it is done. One owner at a time; not thread-safe.
struct MissSet {
  struct LargeValue {
    const void* table;
    std::uint64_t offset;
    std::uint64_t part_offset;  ///< where `value` begins within the large value: it may be a part of it
    std::shared_ptr<const std::string> value;
  };
  std::vector<PageMiss> pages;                          ///< still to be fetched; Db::fetch empties it
  std::vector<std::shared_ptr<const void>> keep_alive;  ///< tables of `pages`, and pinned pages after a fetch
  std::vector<LargeValue> large;                        ///< large values that were fetched
  bool refused = false;  ///< the memory budget had no room for all that was fetched: reads that still lack something answer OOM

  std::uint64_t refused_bytes = 0;  ///< if `refused`: about as much as all that is wanted takes

  [[nodiscard]] bool empty() const { return pages.empty(); }
  void clear() {
    pages.clear();
    keep_alive.clear();
    large.clear();
    refused = false;
    refused_bytes = 0;
  }
};

/// Fetches of one event loop that need no other thread (Db::new_fetch_queue). Used by one thread at a time; goes before its Db.
class FetchQueue {
 public:
  /// Answers every fetch that was begun; waits for those that are still read.
  virtual ~FetchQueue() = default;
  /// Starts the reads of fetches since the last time, and calls `done` of those that have come to their end. Never waits.
  virtual void poll() = 0;
  /// For epoll: readable when poll() has something to call.
  [[nodiscard]] virtual int descriptor() const = 0;
};

enum class ReadMode : std::uint8_t {
  kResident,  ///< never wait for the disk; misses go to the MissSet
  kBlocking,  ///< read what is missing on this thread
};

/// Where a large value lies whose bytes were not read. The fields are the engine's own.
struct LargePlace {
  const void* table = nullptr;  ///< the open table that has it; null: the value is at hand
  std::uint64_t offset = 0;
  std::uint64_t stored_bytes = 0;
};

/// The current entry of a key. `value` points into memory that is valid while the view is (pass view: until its PassGuard is
/// left).
struct Found {
  Bytes value;                      ///< empty if `large` is set
  std::shared_ptr<const void> pin;  ///< set if the value lies in a buffer of its own (large values); keep it to keep `value`
                                    ///< and, of a value above kLargeValueBytes, a std::string
  std::uint64_t length = 0;         ///< bytes of the value, also of one that was not read
  LargePlace large;                 ///< set by ReadView::locate alone; valid as long as `value` would be
  EntryKind kind = EntryKind::kValue;
  SeqNum seq = 0;
  Millis expiry = 0;
  DeleteKey stamp = kNoStamp;

  /// The value as one that can be written again without a copy, or null if it has to be copied.
  [[nodiscard]] std::shared_ptr<const std::string> shared() const {
    if (value.size() <= kLargeValueBytes || pin == nullptr) return nullptr;
    auto whole = std::static_pointer_cast<const std::string>(pin);
    return whole->data() == value.data() && whole->size() == value.size() ? std::move(whole) : nullptr;
  }
};

/// Some bytes of a value. Valid as long as the view that read them, and their Found, and, if set, as long as the pin.
struct ValuePart {
  Bytes bytes;
  std::shared_ptr<const void> pin;
};

/// What the stages of ReadView::prefetch found out about a key, for the next stage and for get(), so that neither repeats a
/// search. Valid for the PassGuard under which the stages ran; after it, begin with stage 0 again. Concurrent
/// writes are still seen: it stores only tables, which never change. The fields are private to the engine.
struct LookupState {
  static constexpr std::uint32_t kRuns = 16;  ///< of more runs the oldest are searched as if nothing was known
  static constexpr std::uint32_t kNoPage = ~std::uint32_t{0};

  const void* tables = nullptr;            ///< what was searched; null: nothing is known
  const void* table = nullptr;             ///< the newest table that may have the key; null: none found yet
  const void* block = nullptr;             ///< the first page of it that may, if it is in memory
  const void* found = nullptr;             ///< on the way to `block`: as far as the search in the cache got
  std::uint64_t columns = 0;               ///< all pages of its tile that may, as bits
  std::uint32_t tile = 0;                  ///< in which tile; before stage 3 how far the search for it got
  std::uint32_t page = 0;                  ///< number of that page, or kNoPage
  std::uint16_t outside = 0;               ///< bit r: the bounds of run r leave the key out
  std::uint16_t denied = 0;                ///< bit r: run r's filter says that the key is not there
  std::uint8_t stage = 0;                  ///< the next one that has work to do
  bool tombstones = false;                 ///< the tile's page of tombstones may have the key
  std::array<std::uint16_t, kRuns> files;  ///< by run: the file whose bounds contain the key
};

class ReadView {
 public:
  /// Stages of prefetch().
  static constexpr int kPrefetchStages = 7;

  ReadView() = default;

  /// The current entry of `key`: ok and `found` filled in, kNotFound (absent, deleted or expired), kNotResident (only with
  /// ReadMode::kResident; misses added), kOutOfMemory (the memory budget has no room for what it needs), kRevoked, kCorruption,
  /// kIoError. With kNotFound, found->seq is that of the newest version that was met, a tombstone most often, and is left alone
  /// if none was met. Safe from the view's thread only.
  [[nodiscard]] Status get(const LookupKey& key, Found* found) const;

  /// As get(), but reads no byte of a large value from disk: then found->large says where it lies, and found->value is empty.
  /// found->length is the value's length in any case. A value of any size can be located, whatever memory is left.
  [[nodiscard]] Status locate(const LookupKey& key, Found* found) const;
  /// Reads the value of an entry that this view has located, unless it is at hand: `found` is as get() leaves it. Errors as
  /// of get().
  [[nodiscard]] Status read(Found* found) const;
  /// The bytes [offset, offset + length) of a located entry's value; they must lie within it. Reads the blocks of the table that
  /// have them, of up to 256 KiB of the value each, and no others. Errors as of get().
  [[nodiscard]] Status read_part(const Found& found, std::uint64_t offset, std::uint64_t length, ValuePart* part) const;
  /// As read_part(), into memory that the caller has and has charged: to.size() bytes from `offset` on. With
  /// ReadMode::kBlocking nothing else is charged.
  [[nodiscard]] Status copy_part(const Found& found, std::uint64_t offset, std::span<char> to) const;

  /// Starts the loads that get() will need: stages 0 to kPrefetchStages - 1 in turn, each over a whole span of keys, so that
  /// their cache misses overlap. Changes no result. With key.state set each stage goes on from what the one before found, and so
  /// does get(); without, there is nothing to do after stage 1. Stage 0 is all that a blind write needs.
  void prefetch(const LookupKey& key, int stage) const;
  /// All stages, for all of the keys.
  void prefetch(std::span<const LookupKey* const> keys) const;
  /// Adds to `misses` the page that get() will ask for first, if prefetch() with key.state has found out that it is not in
  /// memory.
  void add_expected_miss(const LookupKey& key, MissSet* misses) const;

  [[nodiscard]] SeqNum seq() const { return seq_; }
  [[nodiscard]] Millis now() const { return now_; }
  [[nodiscard]] DatabaseId database() const { return database_; }
  /// Where stamps come from: the mode of the tree, or, if there is none, of the tree that the first write makes.
  [[nodiscard]] StampMode stamp_mode() const;
  /// False when the database never had a write: everything is absent.
  [[nodiscard]] bool has_tree() const { return tree_ != nullptr; }
  [[nodiscard]] MissSet* misses() const { return misses_; }
  [[nodiscard]] ReadMode mode() const { return mode_; }

 private:
  friend struct ViewParts;
  ReadEnv* env_ = nullptr;
  const TreeView* tree_ = nullptr;
  SeqNum seq_ = 0;
  Millis now_ = 0;
  MissSet* misses_ = nullptr;
  ReadMode mode_ = ReadMode::kBlocking;
  DatabaseId database_ = 0;
  std::shared_ptr<Lease> lease_;  ///< null for a pass view
};

}  // namespace ebbtide
